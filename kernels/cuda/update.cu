/*
 * The update: the centroids from the sums of their clusters.
 */
#include "centroids.cuh"
#include "narrow_pack.cuh"
#include "region_norms.cuh"
#include "regions.h"

namespace gk
{

struct FinishArguments
{
	const int64_t *sums;		/* over all shards */
	int64_t		k;
	int			d;
	int64_t		limb;
	bool		wide;
	int			rest_bits;
	const int  *exponents;
	const double *origin;
	StepEnd		end;
	unsigned   *resting;		/* NULL if there is no tolerance */
	double	   *centroids;
	double	   *shifts;			/* k, and k: what the clusters explain */
	Counters   *counters;
};

/* The value of a sum. */
static __device__ __forceinline__ double
value_of(const FinishArguments &a, int64_t at)
{
	return gk_sum_value(a.sums[at], a.wide ? a.sums[a.limb + at] : 0, a.wide ? a.rest_bits : 0);
}

/* True if a cluster has no weight. */
static __device__ __forceinline__ bool
is_without_weight(const FinishArguments &a, int64_t cluster)
{
	return !(value_of(a, cluster * (a.d + 1) + a.d) > 0.0);
}

/* Marks the clusters without weight. */
static __global__ void
empty_kernel(FinishArguments a, uint8_t *is_empty)
{
	int64_t		c = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;

	if (c < a.k)
		is_empty[c] = is_without_weight(a, c);
}

/*
 * Begins the update: the number of clusters without weight, and a clear beginning for what the
 * filter needs of the centroids.
 */
static __global__ void
begin_kernel(FinishArguments a, CentroidArguments c, bool prepares)
{
	int64_t		first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	int64_t		apart = (int64_t) gridDim.x * blockDim.x;

	for (int64_t i = first; i < a.k; i += apart)
		if (is_without_weight(a, i))
			atomicAdd(&a.counters->empty, 1ull);
	for (int64_t i = first; i < c.slots && prepares; i += apart)
		c.twins.clear(i);
	if (first == 0 && prepares)
		*c.scale = {};
}

/*
 * Replaces a feature of a centroid; the square of its step, and in *gain what its mean explains,
 * which is `mean` times a ratio.
 */
static __device__ __forceinline__ double
replace_feature(const FinishArguments &a, int64_t cluster, int j, double mean, double ratio,
				double norm, double *gain)
{
	double	   *feature = a.centroids + cluster * a.d + j;
	double		fresh = mean;
	double		step;

	if (a.end.spherical)
		fresh = norm > 0.0 ? GK_DIV(mean, norm) : *feature;
	step = GK_SUB(fresh, *feature);
	*gain = gk_gain(GK_MUL(mean, ratio), a.origin[j], fresh);
	*feature = fresh;
	return GK_MUL(step, step);
}

/* Room for a warp that makes a new centroid. */
struct UpdateRoom
{
	double		values[2][33];
	double		norm;
};

/*
 * The new centroid of a cluster: a warp computes 32 features at a time; one lane adds up the shifts
 * in index order, another what the cluster explains.
 */
static __device__ __forceinline__ void
update_centroid(const FinishArguments &a, int64_t c, UpdateRoom *room)
{
	int			lane = threadIdx.x % 32;
	double		weight = value_of(a, c * (a.d + 1) + a.d);
	double		divisor = a.end.spherical && weight > 0.0 ? gk_direction_weight(weight) : weight;
	double		ratio = weight > 0.0 ? GK_DIV(divisor, weight) : 1.0;
	double		total = 0.0;

	for (int pass = a.end.spherical ? 0 : 1; pass < 2; pass++)
	{
		double		norm = pass == 1 && a.end.spherical ? room->norm : 1.0;

		total = 0.0;
		for (int from = 0; from < a.d; from += 32)
		{
			int			j = from + lane;
			double		square = 0.0;
			double		gain = 0.0;

			if (j < a.d && weight > 0.0)
			{
				double		mean = gk_centroid(value_of(a, c * (a.d + 1) + j), divisor,
											   a.exponents[j], a.exponents[a.d]);

				square = pass == 0 ? GK_MUL(mean, mean) :
					replace_feature(a, c, j, mean, ratio, norm, &gain);
			}
			room->values[0][lane] = square;
			room->values[1][lane] = gain;
			__syncwarp();
			/* past the last column there are zeros, which change no sum */
			if (lane < 2)
#pragma unroll
				for (int i = 0; i < 32; i++)
					total = GK_ADD(total, room->values[lane][i]);
			__syncwarp();
		}
		if (lane == 0)
			room->norm = GK_SQRT(total);
		__syncwarp();
	}
	if (lane == 0)
		a.shifts[c] = total;
	if (lane == 1)
		a.shifts[a.k + c] = GK_MUL(total, ldexp(weight > 0.0 ? weight : 0.0,
												-a.exponents[a.d] - (a.wide ? a.rest_bits : 0)));
}

/* New centroids, unless they stay, measured for the filter; CENTROID_WARPS a block. */
static __global__ void
__launch_bounds__(CENTROID_WARPS * 32)
centroids_kernel(FinishArguments a, CentroidArguments with, bool prepares)
{
	__shared__ UpdateRoom rooms[CENTROID_WARPS];
	int64_t		c = (int64_t) blockIdx.x * CENTROID_WARPS + threadIdx.x / 32;
	bool		moves = (a.counters->empty == 0 || a.end.even_if_empty) &&
		(a.resting == nullptr || *a.resting == 0);

	if (c < a.k && moves)
		update_centroid(a, c, &rooms[threadIdx.x / 32]);
	if (prepares)
		measure_centroids(with);
}

/* The sum over the clusters in the order of gk_ordered_sum(), in lanes[0]: a block. */
static __device__ __forceinline__ void
sum_clusters(const double *values, int64_t count, double *lanes)
{
	if (threadIdx.x < GK_LANES)
		lanes[threadIdx.x] = gk_lane_sum(values, count, threadIdx.x);
	for (int width = GK_LANES / 2; width > 0; width /= 2)
	{
		__syncthreads();
		if (threadIdx.x < width)
			lanes[threadIdx.x] = GK_ADD(lanes[threadIdx.x], lanes[threadIdx.x + width]);
	}
	/* the compiler may have all threads load lanes[0], although only one uses it */
	__syncthreads();
}

/* The arguments of the kernels here. */
static FinishArguments
finish_arguments(Shard &shard, const Grid &grid, const int64_t *sums, int64_t k)
{
	FinishArguments a = {};

	a.sums = sums;
	a.k = k;
	a.d = shard.dimension;
	a.limb = k * (shard.dimension + 1);
	a.wide = grid.wide;
	a.rest_bits = grid.rest_bits;
	a.exponents = shard.grid_exponents.get();
	a.origin = shard.grid_origin.get();
	a.centroids = shard.centroids.exact.get();
	a.shifts = shard.shifts.get();
	a.counters = shard.counters.get();
	return a;
}

/* Writes the counters to the host's memory. */
static __global__ void
report_kernel(const Counters *counters, Counters *result)
{
	if (threadIdx.x < sizeof(Counters) / sizeof(uint64_t))
		((uint64_t *) result)[threadIdx.x] = ((const uint64_t *) counters)[threadIdx.x];
}

/* Brings the counters to the host: a copy engine would take 10 µs longer than a kernel. */
void
report_counters(Shard &shard, Counters *place)
{
	report_kernel<<<1, 32, 0, shard.device->compute>>>(shard.counters.get(), place);
	GK_LAUNCHED("report_kernel");
}

/* What packing the centroids needs besides them. */
struct PackArguments
{
	const float *origin;
	int			padded;
	double		whole_norm;
	float	   *packed;
};

/* How many clusters have no weight: a block. */
static __device__ __forceinline__ unsigned
count_empty(const FinishArguments &a, unsigned *empty)
{
	if (threadIdx.x == 0)
		*empty = 0;
	__syncthreads();
	for (int64_t c = threadIdx.x; c < a.k; c += blockDim.x)
		if (is_without_weight(a, c))
			atomicAdd(empty, 1u);
	__syncthreads();
	return *empty;
}

/* Brings what a step came to to the host, and clears the counters for the next: one thread. */
static __device__ __forceinline__ void
report_step(const FinishArguments &a, unsigned long long empty, double shift2, double between,
			Counters *place)
{
	Counters	counters = *a.counters;
	bool		moved = empty == 0 || a.end.even_if_empty;

	counters.empty = empty;
	counters.shift2 = moved ? shift2 : 0.0;
	counters.between = moved ? between : 0.0;
	*place = counters;
	*a.counters = {};
	if (moved && a.resting != nullptr && shift2 <= a.end.tolerance)
		*a.resting = 1;
}

/*
 * Reports a step, by the first block; so many others round the new centroids for the filter, and
 * the rest measures them for the regions, if there are any.
 */
static __global__ void
__launch_bounds__(GK_LANES)
report_round_kernel(FinishArguments a, CentroidArguments with, NormArguments norms,
					int64_t rounding, Counters *place)
{
	__shared__ double lanes[2][GK_LANES];
	int64_t		block = (int64_t) blockIdx.x - 1;

	static_assert(GK_LANES == CENTROID_WARPS * 32 && GK_LANES == 256, "all have as many threads");
	if (block >= rounding)
		return measure_norms(norms, block - rounding);
	if (block >= 0)
		return scale_centroids(with, block * CENTROID_WARPS);
	sum_clusters(a.shifts, a.k, lanes[0]);
	sum_clusters(a.shifts + a.k, a.k, lanes[1]);
	if (threadIdx.x == 0)
		report_step(a, a.counters->empty, lanes[0][0], lanes[1][0], place);
}

/*
 * The whole end of a step where few centroids have few features: what the kernels of finish_step()
 * do, and pack_kernel.  One block.
 */
static __global__ void
__launch_bounds__(PACK_THREADS)
narrow_end_kernel(FinishArguments a, PackArguments pack, Counters *place)
{
	__shared__ UpdateRoom rooms[PACK_THREADS / 32];
	__shared__ double lanes[2][GK_LANES];
	__shared__ unsigned empty;
	int			warp = threadIdx.x / 32;
	bool		moves;

	moves = count_empty(a, &empty) == 0 && (a.resting == nullptr || *a.resting == 0);
	for (int64_t c = warp; c < a.k && moves; c += PACK_THREADS / 32)
		update_centroid(a, c, &rooms[warp]);
	__syncthreads();
	sum_clusters(a.shifts, a.k, lanes[0]);
	sum_clusters(a.shifts + a.k, a.k, lanes[1]);
	if (threadIdx.x == 0)
		report_step(a, empty, lanes[0][0], lanes[1][0], place);
	pack_block(a.centroids, pack.origin, (int) a.k, pack.padded, a.d, pack.whole_norm,
			   pack.packed);
}

/* Loads the kernels that end a step. */
void
load_finish()
{
	cudaFuncAttributes attributes;

	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) begin_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) centroids_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) report_round_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) narrow_end_kernel));
}

/*
 * Ends a step: counts empty clusters, computes new centroids if there are none, or if forced,
 * reports to the host, and rounds the centroids for the filter, if the shard has rows.  Returns if
 * it measures the centroids for the regions as well.
 */
bool
finish_step(Shard &shard, const Grid &grid, const int64_t *sums, const StepEnd &end,
			Counters *place)
{
	int64_t		k = shard.centroids.count;
	FinishArguments a = finish_arguments(shard, grid, sums, k);
	CentroidArguments with(shard, shard.centroids);
	bool		prepares = shard.rows > 0 && !end.even_if_empty;
	cudaStream_t stream = shard.device->compute;
	int64_t		blocks = (k + CENTROID_WARPS - 1) / CENTROID_WARPS;
	int64_t		rounding = prepares ? (with.padded + CENTROID_WARPS - 1) / CENTROID_WARPS : 0;
	NormArguments norms(shard);
	bool		measures = prepares && has_regions(shard, shard.centroids);
	int64_t		measuring = measures ? norms.blocks() : 0;

	shard.use();
	shard.centroids.prepared = false;
	a.end = end;
	a.resting = end.tolerance > 0.0 ? shard.resting.get() : nullptr;
	if (!end.even_if_empty)
		begin_kernel<<<blocks_for(shard, (k + 255) / 256, 16), 256, 0, stream>>>
			(a, with, prepares);
	centroids_kernel<<<(unsigned) blocks, CENTROID_WARPS * 32, 0, stream>>>(a, with, prepares);
	report_round_kernel<<<(unsigned) (1 + rounding + measuring), GK_LANES, 0, stream>>>
		(a, with, norms, rounding, place);
	GK_LAUNCHED("finish_step");
	shard.counters_clear = true;
	return measures;
}

/* Ends a step of few centroids of few features, and packs the new ones. */
void
end_narrow_step(Shard &shard, const Grid &grid, const int64_t *sums, const StepEnd &end,
				Counters *place)
{
	int64_t		k = shard.centroids.count;
	FinishArguments a = finish_arguments(shard, grid, sums, k);
	PackArguments pack = {shard.origin.get(), narrow_shape(shard.dimension, (int) k).padded,
		shard.whole_norm, shard.centroids.packed.get()};

	a.end = end;
	a.resting = end.tolerance > 0.0 ? shard.resting.get() : nullptr;
	shard.use();
	narrow_end_kernel<<<1, PACK_THREADS, 0, shard.device->compute>>>(a, pack, place);
	GK_LAUNCHED("narrow_end_kernel");
	shard.counters_clear = true;
	shard.centroids.prepared = true;
}

/* Marks the empty clusters. */
void
mark_empty(Shard &shard, const Grid &grid, const int64_t *sums, int64_t k, uint8_t *is_empty)
{
	empty_kernel<<<(unsigned) ((k + 255) / 256), 256, 0, shard.device->compute>>>
		(finish_arguments(shard, grid, sums, k), is_empty);
	GK_LAUNCHED("empty_kernel");
}

}								/* namespace gk */
