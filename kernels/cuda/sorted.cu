/*
 * Centroids in the order of their lower bounds, for filter_hopper.cu: neighbours have nearly the
 * same, so that one bound stands for several.
 */
#include <cub/device/device_radix_sort.cuh>

#include "filter.cuh"
#include "warp.cuh"

namespace gk
{

#define SORTING_WARPS 8

/* So many centroids are sorted by digits; comparing all pairs of fewer takes less time. */
#define MANY_CENTROIDS 16384

/* What sorts centroids; all arrays are padded. */
struct Sorting
{
	explicit Sorting(const Shard &shard, const Centroids &from)
		: rounded(from.rounded.get()), lower(from.lower.get()), padded((int) from.padded),
		  depth(shard.depth), sorted_rounded(from.sorted.rounded.get()),
		  sorted_lower(from.sorted.lower.get()), numbers(from.sorted.numbers.get())
	{
	}

	const __half *rounded;
	const float *lower;
	int			padded;
	int			depth;
	__half	   *sorted_rounded;
	float	   *sorted_lower;
	int32_t    *numbers;
};

/* How many centroids come before one, in all lanes of a warp. */
static __device__ __forceinline__ int
count_before(const Sorting &a, int centroid, float lower)
{
	int			before = 0;

	for (int j = threadIdx.x % 32 * 4; j < a.padded; j += 128)
	{
		float4		four = *(const float4 *) (a.lower + j);

		before += (four.x < lower || (four.x == lower && j < centroid)) +
			(four.y < lower || (four.y == lower && j + 1 < centroid)) +
			(four.z < lower || (four.z == lower && j + 2 < centroid)) +
			(four.w < lower || (four.w == lower && j + 3 < centroid));
	}
	return sum_of_lanes<32>(before);
}

/*
 * Copies 16 columns of a centroid.  Where a thread has columns 2 q, 2 q + 1, 2 q + 8 and 2 q + 9 of
 * a product go columns 4 q to 4 q + 3, which it can read at once.
 */
static __device__ __forceinline__ void
copy_mixed(const Sorting &a, int to, int from, int column)
{
	uint4		low = *(const uint4 *) (a.rounded + place_of_centroid(a.depth, from, column));
	uint4		high = *(const uint4 *) (a.rounded + place_of_centroid(a.depth, from, column + 8));

	*(uint4 *) (a.sorted_rounded + place_of_centroid(a.depth, to, column)) =
		make_uint4(low.x, low.z, high.x, high.z);
	*(uint4 *) (a.sorted_rounded + place_of_centroid(a.depth, to, column + 8)) =
		make_uint4(low.y, low.w, high.y, high.w);
}

/* Copies all columns of a centroid, by a warp. */
static __device__ __forceinline__ void
copy_columns(const Sorting &a, int to, int from)
{
	for (int column = threadIdx.x % 32 * 16; column < tiles_of(a.depth) * TILE_COLUMNS;
		 column += 512)
		copy_mixed(a, to, from, column);
}

/* Copies centroids to their places: one warp each. */
static __global__ void
sort_kernel(Sorting a)
{
	int			centroid = (int) blockIdx.x * SORTING_WARPS + threadIdx.x / 32;
	float		lower = a.lower[centroid];
	int			place = count_before(a, centroid, lower);

	copy_columns(a, place, centroid);
	if (threadIdx.x % 32 == 0)
	{
		a.sorted_lower[place] = lower;
		a.numbers[place] = centroid;
	}
}

/* Numbers centroids. */
static __global__ void
number_kernel(int32_t *numbers)
{
	int			centroid = (int) (blockIdx.x * blockDim.x + threadIdx.x);

	numbers[centroid] = centroid;
}

/* Copies centroids whose places are known: one warp each. */
static __global__ void
copy_kernel(Sorting a)
{
	int			place = (int) blockIdx.x * SORTING_WARPS + threadIdx.x / 32;

	copy_columns(a, place, a.numbers[place]);
}

/* Sorts bounds and numbers with CUB, or tells how much memory that takes, where it is not given. */
static void
sort_bounds(const Sorting &a, const int32_t *numbers, void *memory, size_t *bytes,
			cudaStream_t stream)
{
	GK_CUDA(cub::DeviceRadixSort::SortPairs(memory, *bytes, a.lower, a.sorted_lower, numbers,
											a.numbers, a.padded, 0, 32, stream));
}

/* Reserves what the sorting of so many centroids takes besides. */
void
reserve_sorting(Shard &shard, Centroids &centroids)
{
	size_t		bytes = 0;

	if (centroids.padded < MANY_CENTROIDS)
		return;
	sort_bounds(Sorting(shard, centroids), nullptr, nullptr, &bytes, shard.device->compute);
	centroids.sorted.unsorted.reserve(shard, centroids.padded);
	centroids.sorted.workspace.reserve(shard, bytes);
}

/* Enqueues the sorting of centroids that are bounded. */
void
sort_centroids(Shard &shard, const Centroids &centroids)
{
	Sorting		a(shard, centroids);
	cudaStream_t stream = shard.device->compute;
	unsigned	blocks = (unsigned) (centroids.padded / SORTING_WARPS);
	size_t		bytes = centroids.sorted.workspace.capacity();

	if (centroids.padded < MANY_CENTROIDS)
	{
		sort_kernel<<<blocks, SORTING_WARPS * 32, 0, stream>>>(a);
		GK_LAUNCHED("sort_kernel");
		return;
	}
	number_kernel<<<(unsigned) (centroids.padded / 128), 128, 0, stream>>>
		(centroids.sorted.unsorted.get());
	GK_LAUNCHED("number_kernel");
	sort_bounds(a, centroids.sorted.unsorted.get(), centroids.sorted.workspace.get(), &bytes,
				stream);
	copy_kernel<<<blocks, SORTING_WARPS * 32, 0, stream>>>(a);
	GK_LAUNCHED("copy_kernel");
}

}								/* namespace gk */
