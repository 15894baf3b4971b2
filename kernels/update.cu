/*
 * The update: fixed-point sums of the rows that changed their label, and the centroids from them.
 *
 * Sums are integers, so it does not matter in which order they are added, and what left a
 * cluster can be taken off again.  A cluster's sums lie together: d features and the weight; a
 * second limb, if there is one, lies k × (d + 1) further on.
 */
#include "exact.h"
#include "kernels.cuh"

namespace gk
{

struct SumArguments
{
	const float *features;
	const double *weights;
	int64_t		rows;
	int			d;
	const double *scales;		/* d + 1 */
	double		rest_scale;
	const int32_t *fresh;
	int32_t    *labels;
	int64_t    *sums;
	int64_t		limb;			/* k × (d + 1) */
	bool		all;			/* take all rows, not only those that changed */
	Counters   *counters;
};

/* to += value, by two adds of 32 bits in shared memory, which has none of 64. */
static __device__ __forceinline__ void
add_shared(int64_t *to, int64_t value)
{
	uint32_t   *halves = (uint32_t *) to;
	uint32_t	low = (uint32_t) value;
	uint32_t	high = (uint32_t) ((uint64_t) value >> 32);
	uint32_t	before = atomicAdd(&halves[0], low);

	high += before + low < low;
	if (high != 0)
		atomicAdd(&halves[1], high);
}

/* to += value, wherever it lies. */
template <bool SHARED> static __device__ __forceinline__ void
add_sum(int64_t *to, int64_t value)
{
	if (SHARED)
		add_shared(to, value);
	else
		atomicAdd((unsigned long long *) to, (unsigned long long) value);
}

/*
 * Adds the rows of a warp to the sums of their labels, those of equal label together; rows
 * first + i of the lanes i in `lanes`.
 */
template <bool WIDE, bool SHARED> static __device__ void
add_rows(const SumArguments &a, int64_t *sums, int64_t first, unsigned lanes, int32_t label, bool subtract)
{
	int			lane = threadIdx.x % 32;

	while (lanes != 0)
	{
		int32_t		one = __shfl_sync(0xffffffffu, label, __ffs(lanes) - 1);
		unsigned	group = __ballot_sync(0xffffffffu, label == one) & lanes;
		int64_t    *to = sums + (int64_t) one * (a.d + 1);

		lanes &= ~group;
		for (int j = lane; j <= a.d; j += 32)
		{
			double		scale = a.scales[j];
			int64_t		high = 0;
			int64_t		low = 0;

			for (unsigned rest = group; rest != 0; rest &= rest - 1)
			{
				int64_t		row = first + __ffs(rest) - 1;
				double		value = j < a.d ? (double) a.features[row * a.d + j] : 1.0;

				if (a.weights != nullptr)
					value = GK_MUL(a.weights[row], value);
				high += gk_quantize(value, scale);
				if (WIDE)
					low += gk_quantize_rest(value, scale, a.rest_scale);
			}
			add_sum<SHARED>(to + j, subtract ? -high : high);
			if (WIDE)
				add_sum<SHARED>(to + a.limb + j, subtract ? -low : low);
		}
	}
}

/* Labels := fresh labels, and the sums after them: 32 rows a warp. */
template <bool WIDE, bool SHARED> static __global__ void
sum_kernel(SumArguments a)
{
	extern __shared__ int64_t shared_sums[];
	int			lane = threadIdx.x % 32;
	int64_t		warps = (int64_t) gridDim.x * blockDim.x / 32;
	int64_t		all = a.limb * (WIDE ? 2 : 1);
	int64_t    *sums = SHARED ? shared_sums : a.sums;
	unsigned	total = 0;

	if (SHARED)
	{
		for (int64_t i = threadIdx.x; i < all; i += blockDim.x)
			shared_sums[i] = 0;
		__syncthreads();
	}
	for (int64_t group = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32; group * 32 < a.rows;
		 group += warps)
	{
		int64_t		row = group * 32 + lane;
		bool		valid = row < a.rows;
		int32_t		fresh = valid ? a.fresh[row] : -1;
		int32_t		old = valid ? a.labels[row] : -1;
		bool		changed = fresh != old;
		unsigned	add = __ballot_sync(0xffffffffu, valid && (a.all || changed));
		unsigned	subtract = __ballot_sync(0xffffffffu, valid && !a.all && changed && old >= 0);

		if (changed)
			a.labels[row] = fresh;
		total += changed;
		add_rows<WIDE, SHARED>(a, sums, group * 32, add, fresh, false);
		add_rows<WIDE, SHARED>(a, sums, group * 32, subtract, old, true);
	}
	for (int other = 16; other > 0; other /= 2)
		total += __shfl_xor_sync(0xffffffffu, total, other);
	if (lane == 0 && total > 0)
		atomicAdd(&a.counters->changed, (unsigned long long) total);
	if (SHARED)
	{
		__syncthreads();
		for (int64_t i = threadIdx.x; i < all; i += blockDim.x)
			if (shared_sums[i] != 0)
				atomicAdd((unsigned long long *) &a.sums[i], (unsigned long long) shared_sums[i]);
	}
}

/* Labels of a tile := the fresh ones, and the sums after them. */
void
sum_tile(Shard &shard, const Tile &tile, const Grid &grid, int64_t k, bool all)
{
	cudaStream_t stream = shard.device->compute;
	int64_t		bytes = k * (shard.dimension + 1) * (grid.wide ? 2 : 1) * sizeof(int64_t);
	bool		shared = bytes <= 48 << 10;
	int			blocks = blocks_for(shard, (tile.rows + 255) / 256, shared && bytes > 16 << 10 ? 4 : 8);
	SumArguments a;

	a.features = tile.features;
	a.weights = tile.weights;
	a.rows = tile.rows;
	a.d = shard.dimension;
	a.scales = shard.grid_scales.get();
	a.rest_scale = gk_power_of_two(grid.rest_bits);
	a.fresh = shard.fresh.get();
	a.labels = shard.labels.get() + tile.first;
	a.sums = shard.sums.get();
	a.limb = k * (shard.dimension + 1);
	a.all = all;
	a.counters = shard.counters.get();
	if (grid.wide && shared)
		sum_kernel<true, true><<<blocks, 256, bytes, stream>>>(a);
	else if (grid.wide)
		sum_kernel<true, false><<<blocks, 256, 0, stream>>>(a);
	else if (shared)
		sum_kernel<false, true><<<blocks, 256, bytes, stream>>>(a);
	else
		sum_kernel<false, false><<<blocks, 256, 0, stream>>>(a);
	GK_LAUNCHED("sum_kernel");
}

/* Moves a few rows from their label's sums to those of another cluster: one block a row. */
static __global__ void
move_kernel(SumArguments a, const int64_t *clusters, bool wide, int sign)
{
	int64_t		row = blockIdx.x;
	double		weight = a.weights != nullptr ? a.weights[row] : 1.0;

	for (int j = threadIdx.x; j <= a.d; j += blockDim.x)
	{
		double		value = j < a.d ? (double) a.features[row * a.d + j] : 1.0;
		int64_t    *from = a.sums + (int64_t) a.labels[row] * (a.d + 1) + j;
		int64_t    *to = a.sums + clusters[row] * (a.d + 1) + j;
		int64_t		high;

		if (a.weights != nullptr)
			value = GK_MUL(weight, value);
		high = sign * gk_quantize(value, a.scales[j]);
		add_sum<false>(from, -high);
		add_sum<false>(to, high);
		if (wide)
		{
			int64_t		low = sign * gk_quantize_rest(value, a.scales[j], a.rest_scale);

			add_sum<false>(from + a.limb, -low);
			add_sum<false>(to + a.limb, low);
		}
	}
}

/* Moves rows between clusters in the sums. */
void
move_rows(Shard &shard, const Grid &grid, int64_t k, int64_t *sums, int64_t count,
		  const float *features, const double *weights, const int32_t *labels,
		  const int64_t *clusters, int sign)
{
	SumArguments a = {};

	a.features = features;
	a.weights = weights;
	a.d = shard.dimension;
	a.scales = shard.grid_scales.get();
	a.rest_scale = gk_power_of_two(grid.rest_bits);
	a.labels = (int32_t *) labels;
	a.sums = sums;
	a.limb = k * (shard.dimension + 1);
	move_kernel<<<(unsigned) count, 128, 0, shard.device->compute>>>(a, clusters, grid.wide, sign);
	GK_LAUNCHED("move_kernel");
}

/* totals += sums, sums := 0. */
static __global__ void
totals_kernel(int64_t *totals, int64_t *sums, int64_t count)
{
	for (int64_t i = (int64_t) blockIdx.x * blockDim.x + threadIdx.x; i < count;
		 i += (int64_t) gridDim.x * blockDim.x)
	{
		totals[i] += sums[i];
		sums[i] = 0;
	}
}

/* Adds what the shards have summed in this step to the totals. */
void
add_totals(Shard &shard, int64_t count)
{
	totals_kernel<<<blocks_for(shard, (count + 255) / 256, 16), 256, 0, shard.device->compute>>>
		(shard.totals.get(), shard.sums.get(), count);
	GK_LAUNCHED("totals_kernel");
}

struct FinishArguments
{
	const int64_t *sums;
	int64_t		k;
	int			d;
	int64_t		limb;
	bool		wide;
	int			rest_bits;
	const int  *exponents;
	bool		spherical;
	bool		even_if_empty;
	double	   *centroids;
	double	   *shifts;
	Counters   *counters;
};

/* The value of a sum. */
static __device__ __forceinline__ double
value_of(const FinishArguments &a, int64_t at)
{
	return gk_sum_value(a.sums[at], a.wide ? a.sums[a.limb + at] : 0, a.wide ? a.rest_bits : 0);
}

/* Counts the clusters without weight, and marks them if asked. */
static __global__ void
empty_kernel(FinishArguments a, uint8_t *is_empty)
{
	int64_t		c = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	bool		empty = c < a.k && !(value_of(a, c * (a.d + 1) + a.d) > 0.0);
	unsigned	lanes = __ballot_sync(0xffffffffu, empty);

	if (is_empty != nullptr && c < a.k)
		is_empty[c] = empty;
	if (is_empty == nullptr && threadIdx.x % 32 == 0 && lanes != 0)
		atomicAdd(&a.counters->empty, (unsigned long long) __popc(lanes));
}

/*
 * New centroids, 8 clusters a block: 256 threads make 32 features of each at a time, one thread a
 * cluster adds them up in index order.
 */
static __global__ void
__launch_bounds__(256)
centroids_kernel(FinishArguments a)
{
	__shared__ double values[8][33];
	__shared__ double norms[8];
	int			mine = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	int64_t		c = (int64_t) blockIdx.x * 8 + mine;
	double		weight = c < a.k ? value_of(a, c * (a.d + 1) + a.d) : 0.0;
	bool		keep = !(weight > 0.0);
	double		total = 0.0;

	if (a.counters->empty > 0 && !a.even_if_empty)
		return;
	for (int pass = a.spherical ? 0 : 1; pass < 2; pass++)
	{
		double		norm = pass == 1 && a.spherical ? norms[mine] : 1.0;

		total = 0.0;
		if (pass == 1 && a.spherical && !(norm > 0.0))
			keep = true;
		for (int from = 0; from < a.d; from += 32)
		{
			int			j = from + lane;
			double		square = 0.0;

			if (j < a.d && !keep)
			{
				double		fresh = gk_centroid(value_of(a, c * (a.d + 1) + j), weight, a.exponents[j],
												a.exponents[a.d]);

				if (pass == 0)
					square = GK_MUL(fresh, fresh);
				else
				{
					double	   *old = a.centroids + c * a.d + j;
					double		step;

					if (a.spherical)
						fresh = GK_DIV(fresh, norm);
					step = GK_SUB(fresh, *old);
					square = GK_MUL(step, step);
					*old = fresh;
				}
			}
			values[mine][lane] = square;
			__syncwarp();
			if (lane == 0)
				for (int i = 0; i < 32 && from + i < a.d; i++)
					total = GK_ADD(total, values[mine][i]);
			__syncwarp();
		}
		if (lane == 0)
			norms[mine] = GK_SQRT(total);
		__syncwarp();
	}
	if (lane == 0 && c < a.k)
		a.shifts[c] = total;
}

/* The sum of the shifts, in the order of gk_ordered_sum(). */
static __global__ void
shift_kernel(FinishArguments a)
{
	__shared__ double lanes[GK_LANES];

	if (a.counters->empty > 0 && !a.even_if_empty)
		return;
	lanes[threadIdx.x] = gk_lane_sum(a.shifts, a.k, threadIdx.x);
	for (int width = GK_LANES / 2; width > 0; width /= 2)
	{
		__syncthreads();
		if (threadIdx.x < width)
			lanes[threadIdx.x] = GK_ADD(lanes[threadIdx.x], lanes[threadIdx.x + width]);
	}
	if (threadIdx.x == 0)
		a.counters->shift2 = lanes[0];
}

/* What the kernels here need. */
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
	a.centroids = shard.centroids.exact.get();
	a.shifts = shard.shifts.get();
	a.counters = shard.counters.get();
	return a;
}

/* Counts empty clusters; new centroids if there are none, or even so. */
void
finish_step(Shard &shard, const Grid &grid, int64_t *sums, bool spherical, bool even_if_empty)
{
	int64_t		k = shard.centroids.count;
	FinishArguments a = finish_arguments(shard, grid, sums, k);
	cudaStream_t stream = shard.device->compute;

	a.spherical = spherical;
	a.even_if_empty = even_if_empty;
	if (!even_if_empty)
		empty_kernel<<<(unsigned) ((k + 255) / 256), 256, 0, stream>>>(a, nullptr);
	centroids_kernel<<<(unsigned) ((k + 7) / 8), 256, 0, stream>>>(a);
	shift_kernel<<<1, GK_LANES, 0, stream>>>(a);
	GK_LAUNCHED("finish_step");
	shard.centroids.prepared = false;
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
