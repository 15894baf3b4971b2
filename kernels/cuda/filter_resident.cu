/*
 * The filter if all centroids fit the shared memory of a block: each warp loads rows from
 * global memory straight into registers, independently of other warps.  So it is bound by
 * reading the rows.
 *
 * A warp holds 16 rows for each of its TILES. The products of mma.sync are m16n8k16.  Thread t
 * of the four of a row holds columns 4t .. 4t + 3 of each 16, of rows and centroids alike,
 * instead of the columns that PTX specifies: the order within a sum is free.
 */
#include <algorithm>

#include "filter.cuh"

namespace gk
{

#define RESIDENT_THREADS 256
#define RESIDENT_BYTES (100 << 10)	/* two blocks a processor */

/* The centroids in a block's shared memory: values, then their bounds. */
struct ResidentCentroids
{
	const uint2 *values;		/* [step][8 centroids][lane]: four columns of a centroid */
	const float *lower;
	const float *slack;
	const float *norm;
	const float *error;
	const float *origin;		/* depth */
};

/* The centroids that a block compares: a whole number of the kernel's steps. */
static __host__ __device__ int
resident_count(int centroids, int step)
{
	return (centroids + step - 1) / step * step;
}

/* Shared memory of a block. */
static size_t
resident_bytes(int centroids, int columns)
{
	return (size_t) centroids * (columns * sizeof(__half) + 4 * sizeof(float)) +
		columns * sizeof(float);
}

/* Copies the centroids and their bounds into shared memory. */
static __device__ ResidentCentroids
load_centroids(const FilterArguments &a, int centroids, int columns, unsigned char *memory)
{
	uint2	   *values = (uint2 *) memory;
	float	   *lower = (float *) (values + centroids * columns / 4);
	float	   *slack = lower + centroids;
	float	   *norm = slack + centroids;
	float	   *error = norm + centroids;
	float	   *origin = error + centroids;

	for (int e = threadIdx.x; e < centroids * columns / 4; e += RESIDENT_THREADS)
	{
		int			quad = e % 4;
		int			centroid = e / 4 % centroids;
		int			step = e / 4 / centroids;

		/* 8 centroids × 4 threads of a row are the 32 lanes */
		values[(step * centroids + centroid) * 4 + quad] =
			*(const uint2 *) (a.centroids +
							  place_of_centroid(a.depth, centroid, step * 16 + quad * 4));
	}
	for (int i = threadIdx.x; i < centroids; i += RESIDENT_THREADS)
	{
		lower[i] = a.lower[i];
		slack[i] = a.slack[i];
		norm[i] = a.norm[i];
		error[i] = a.error[i];
	}
	for (int j = threadIdx.x; j < columns; j += RESIDENT_THREADS)
		origin[j] = j < a.d ? a.origin[j] : 0.0f;
	__syncthreads();
	return {values, lower, slack, norm, error, origin};
}

/* A warp's rows: row i of a thread is 8 i + lane / 4. */
template <int STEPS, int TILES> struct WarpRows
{
	uint32_t	values[TILES][STEPS][4];
	float		back[TILES * 2];

	__device__ __forceinline__ void read(const FilterArguments &a,
										 const ResidentCentroids &centroids, int64_t first);
};

/* Reads rows, as 16-bit values. */
template <int STEPS, int TILES> __device__ __forceinline__ void
WarpRows<STEPS, TILES>::read(const FilterArguments &a, const ResidentCentroids &centroids,
							 int64_t first)
{
	bool		aligned = a.d % 4 == 0;
	int			column = threadIdx.x % 4 * 4;
	float4		x[TILES * 2][STEPS];
	uint32_t	codes[TILES * 2];

#pragma unroll
	for (int i = 0; i < TILES * 2; i++)
	{
		int64_t		row = first + i * 8 + threadIdx.x % 32 / 4;
		bool		valid = row < a.rows;

		codes[i] = valid ? __ldg(a.bounds + row) : 0;
#pragma unroll
		for (int c = 0; c < STEPS; c++)
			x[i][c] = valid ? read_four(a.features + row * a.d, c * 16 + column, a.d, aligned) :
				make_float4(0, 0, 0, 0);
	}
#pragma unroll
	for (int i = 0; i < TILES * 2; i++)
	{
		RowBound	bound = read_bound(codes[i], a.scale->exponent);

		back[i] = bound.back;
#pragma unroll
		for (int c = 0; c < STEPS; c++)
		{
			float4		p = *(const float4 *) (centroids.origin + c * 16 + column);
			uint2		both = convert(x[i][c], p, bound.factor);

			values[i / 2][c][i % 2] = both.x;
			values[i / 2][c][i % 2 + 2] = both.y;
		}
	}
}

/* Compares a warp's rows with 8 × EIGHTS centroids from `at` on. */
template <int STEPS, int TILES, int EIGHTS> static __device__ __forceinline__ void
compare(const WarpRows<STEPS, TILES> &rows, const ResidentCentroids &centroids, int count, int at,
		Best (&best)[TILES * 2])
{
	int			lane = threadIdx.x % 32;
	float		sums[TILES][EIGHTS][4];

#pragma unroll
	for (int m = 0; m < TILES; m++)
#pragma unroll
		for (int n = 0; n < EIGHTS; n++)
			sums[m][n][0] = sums[m][n][1] = sums[m][n][2] = sums[m][n][3] = 0.0f;
#pragma unroll
	for (int c = 0; c < STEPS; c++)
#pragma unroll
		for (int n = 0; n < EIGHTS; n++)
		{
			uint2		both = centroids.values[(c * count + at + n * 8) * 4 + lane];
			uint32_t	b[2] = {both.x, both.y};

#pragma unroll
			for (int m = 0; m < TILES; m++)
				multiply(sums[m][n], rows.values[m][c], b);
		}
#pragma unroll
	for (int n = 0; n < EIGHTS; n++)
	{
		int			centroid = at + n * 8 + lane % 4 * 2;
		float2		lower = *(const float2 *) (centroids.lower + centroid);

#pragma unroll
		for (int i = 0; i < TILES * 2; i++)
		{
			take_score(&best[i], fmaf(sums[i / 2][n][i % 2 * 2], rows.back[i], lower.x), centroid);
			take_score(&best[i], fmaf(sums[i / 2][n][i % 2 * 2 + 1], rows.back[i], lower.y),
					   centroid + 1);
		}
	}
}

/* Labels or flags a warp's rows, each thread a quarter of those that its four threads share. */
template <int TILES> static __device__ __forceinline__ void
conclude_rows(const FilterArguments &a, const ResidentCentroids &centroids, int64_t first,
			  Best (&best)[TILES * 2])
{
	int			mine = threadIdx.x % 4;

#pragma unroll
	for (int i = 0; i < TILES * 2; i++)
		join_four(&best[i]);
#pragma unroll
	for (int from = 0; from < TILES * 2; from += 4)
	{
		Best		one = best[from];
		int64_t		row = first + (from + mine) * 8 + threadIdx.x % 32 / 4;

#pragma unroll
		for (int i = 1; i < 4 && from + i < TILES * 2; i++)
			if (mine == i)
				one = best[from + i];
		if (from + mine < TILES * 2 && row < a.rows)
		{
			RowBound	bound = read_bound(__ldg(a.bounds + row), a.scale->exponent);
			float		own = own_part(bound.norm, bound.error, centroids.slack[one.centroid],
									   centroids.norm[one.centroid], centroids.error[one.centroid]);

			conclude(a, row, one, limit_of(one.least, own, row_part(a, bound.norm, bound.error)),
					 bound.back);
		}
	}
}

/* STEPS × 16 columns, TILES × 16 rows a warp, EIGHTS × 8 centroids at a time. */
template <int STEPS, int TILES, int EIGHTS> static __global__ void
__launch_bounds__(RESIDENT_THREADS, 2)
resident_kernel(FilterArguments a, int count)
{
	extern __shared__ uint4 resident_memory[];
	ResidentCentroids centroids =
		load_centroids(a, count, STEPS * 16, (unsigned char *) resident_memory);
	constexpr int ROWS = TILES * 16;
	int64_t		step = (int64_t) gridDim.x * (RESIDENT_THREADS / 32) * ROWS;

	for (int64_t first = ((int64_t) blockIdx.x * (RESIDENT_THREADS / 32) + threadIdx.x / 32) * ROWS;
		 first < a.rows; first += step)
	{
		WarpRows<STEPS, TILES> rows;
		Best		best[TILES * 2];

		rows.read(a, centroids, first);
		prefetch_rows<32>(a, first + step, ROWS);
#pragma unroll
		for (int i = 0; i < TILES * 2; i++)
			best[i] = {NO_SCORE, NO_SCORE, 0};
		for (int at = 0; at < count; at += EIGHTS * 8)
			compare<STEPS, TILES, EIGHTS>(rows, centroids, count, at, best);
		conclude_rows<TILES>(a, centroids, first, best);
	}
}

/* Enqueues the kernel. */
template <int STEPS, int TILES, int EIGHTS> static void
launch(Shard &shard, const FilterArguments &a)
{
	const void *kernel = (const void *) resident_kernel<STEPS, TILES, EIGHTS>;
	int			count = resident_count(a.count, EIGHTS * 8);
	size_t		bytes = resident_bytes(count, STEPS * 16);
	int			rows = RESIDENT_THREADS / 32 * TILES * 16;
	int			per_processor;

	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel,
			RESIDENT_THREADS, bytes));
	resident_kernel<STEPS, TILES, EIGHTS>
		<<<blocks_for(shard, (a.rows + rows - 1) / rows, per_processor), RESIDENT_THREADS, bytes,
		   shard.device->compute>>>(a, count);
	GK_LAUNCHED("resident_kernel");
}

/* Compares fewer centroids at a time if there are few. */
template <int STEPS, int TILES, int EIGHTS> static void
choose_centroids(Shard &shard, const FilterArguments &a)
{
	if (a.count <= 16)
		launch<STEPS, TILES, 2>(shard, a);
	else
		launch<STEPS, TILES, EIGHTS>(shard, a);
}

/* True if rows fit registers and centroids fit shared memory. */
bool
filter_resident_fits(const Shard &shard, int64_t centroids)
{
	size_t		most = std::min<size_t>(RESIDENT_BYTES, shard.device->shared_memory);
	int			columns = (shard.depth + 31) / 32 * 32;

	return columns <= 128 && centroids <= 4096 &&
		resident_bytes(resident_count((int) centroids, 64), columns) <= most;
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_resident(Shard &shard, const FilterArguments &a)
{
	if (a.depth <= 16)
		choose_centroids<1, 4, 2>(shard, a);
	else if (a.depth <= 32)
		choose_centroids<2, 2, 4>(shard, a);
	else if (a.depth <= 64)
		choose_centroids<4, 1, 8>(shard, a);
	else if (a.depth <= 96)
		choose_centroids<6, 1, 8>(shard, a);
	else
		choose_centroids<8, 1, 8>(shard, a);
}

}								/* namespace gk */
