/*
 * The update: fixed-point sums of the rows that changed their label, and the centroids from them.
 *
 * Sums are integers, so the order of additions does not matter, and a row that leaves a cluster
 * can be subtracted.  A cluster's sums lie together: d features and the weight; the second limb,
 * if there is one, lies k × (d + 1) further on.
 */
#include <type_traits>

#include <cub/block/block_scan.cuh>

#include "exact.h"
#include "launch.h"
#include "sums.cuh"
#include "warp.cuh"

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
	int64_t		k;
	int64_t		limb;			/* k × (d + 1) */
	int			lanes;			/* threads that share a row's columns, a power of two */
	int			block_rows;		/* of a block at a time: a multiple of SUM_THREADS */
	bool		all;			/* sum all rows, not only those whose label changed */
	const double *centroids;	/* of the labels; of squares only */
	Counters   *counters;
};

/* What is added up: rows, on a grid of one limb or two, or the squares to the centroids, of two. */
enum Summed
{
	NARROW,
	WIDE,
	SQUARES
};

#define SUM_THREADS 256
#define SUM_ROWS 1024			/* of a block at a time, at most */
#define SORTED_ROWS 4096		/* the same if they are sorted by label */
#define SORTED_CLUSTERS 2048	/* the most clusters for which sorting pays off */
#define SUM_TAKEN 0x8000		/* in a position: the row leaves */

/*
 * Rows of a block to be added to a cluster or subtracted: a row that moved leaves one cluster
 * and joins another.
 */
template <bool SORTED> struct alignas(16) Items
{
	static constexpr int ROWS = SORTED ? SORTED_ROWS : SUM_ROWS;

	typename std::conditional<SORTED, uint16_t, int32_t>::type labels[2 * ROWS];
	uint16_t	places[2 * ROWS];	/* in the block's rows */
	int			starts[SORTED ? SORTED_CLUSTERS : 1];
	typename cub::BlockScan<int, SUM_THREADS>::TempStorage scan;
	int			count;
};

/* Calls f for each of a block's rows to be summed, with label and position; by all threads. */
template <typename F> static __device__ __forceinline__ void
each_item(const SumArguments &a, int64_t first, F f)
{
#pragma unroll 4
	for (int i = 0; i < a.block_rows / SUM_THREADS; i++)
	{
		int			place = i * SUM_THREADS + threadIdx.x;
		int64_t		row = first + place;
		bool		valid = row < a.rows;
		int32_t		fresh = valid ? a.fresh[row] : -1;
		int32_t		old = valid ? a.labels[row] : -1;

		f(valid && (a.all || fresh != old), fresh, place);
		if (!a.all)
			f(fresh != old && old >= 0, old, place | SUM_TAKEN);
	}
}

/* Lists the rows to be summed, unsorted. */
static __device__ void
list_items(const SumArguments &a, Items<false> *items, int64_t first)
{
	if (threadIdx.x == 0)
		items->count = 0;
	__syncthreads();
	each_item(a, first, [&](bool has, int32_t label, int place)
	{
		unsigned	lanes = __ballot_sync(0xffffffffu, has);
		int			lane = threadIdx.x % 32;
		int			to = 0;

		if (lane == 0 && lanes != 0)
			to = atomicAdd(&items->count, __popc(lanes));
		to = __shfl_sync(0xffffffffu, to, 0) + __popc(lanes & ((1u << lane) - 1));
		if (has)
		{
			items->labels[to] = label;
			items->places[to] = (uint16_t) place;
		}
	});
}

/* Lists the rows to be summed, sorted by label: a counting sort. */
static __device__ void
list_items(const SumArguments &a, Items<true> *items, int64_t first)
{
	constexpr int EACH = SORTED_CLUSTERS / SUM_THREADS;
	int			counts[EACH];
	int			total;

	for (int i = threadIdx.x; i < SORTED_CLUSTERS; i += SUM_THREADS)
		items->starts[i] = 0;
	__syncthreads();
	each_item(a, first, [&](bool has, int32_t label, int)
	{
		if (has)
			atomicAdd(&items->starts[label], 1);
	});
	__syncthreads();
	for (int i = 0; i < EACH; i++)
		counts[i] = items->starts[threadIdx.x * EACH + i];
	cub::BlockScan<int, SUM_THREADS>(items->scan).ExclusiveSum(counts, counts, total);
	for (int i = 0; i < EACH; i++)
		items->starts[threadIdx.x * EACH + i] = counts[i];
	if (threadIdx.x == 0)
		items->count = total;
	__syncthreads();
	each_item(a, first, [&](bool has, int32_t label, int place)
	{
		if (has)
		{
			int			to = atomicAdd(&items->starts[label], 1);

			items->labels[to] = (uint16_t) label;
			items->places[to] = (uint16_t) place;
		}
	});
}

/* Replaces labels of a block's rows by the new ones; returns how many of the thread's changed. */
static __device__ int
take_labels(const SumArguments &a, int64_t first)
{
	int			changed = 0;

#pragma unroll 4
	for (int i = 0; i < a.block_rows / SUM_THREADS; i++)
	{
		int64_t		row = first + i * SUM_THREADS + threadIdx.x;

		if (row < a.rows && a.fresh[row] != a.labels[row])
		{
			a.labels[row] = a.fresh[row];
			changed++;
		}
	}
	return changed;
}

/* A thread's share of a cluster's sums before it is added to them: every `lanes`th column. */
template <Summed WHAT, int COLUMNS> struct Partial
{
	int64_t		high[COLUMNS];
	int64_t		low[WHAT != NARROW ? COLUMNS : 1];
	int			rows;			/* that joined, less those that left */

	__device__ __forceinline__ void clear()
	{
#pragma unroll
		for (int v = 0; v < COLUMNS; v++)
			high[v] = low[WHAT != NARROW ? v : 0] = 0;
		rows = 0;
	}
};

/*
 * True if rows are counted apart from their columns: they weigh 1, and a column for that would
 * need a further round of all threads.
 */
static __device__ __forceinline__ bool
counts_apart(const SumArguments &a, int round)
{
	return a.weights == nullptr && a.d % round == 0;
}

/* Adds a count of rows that weigh 1 to the weight of a cluster. */
template <bool SHARED, Summed WHAT> static __device__ __forceinline__ void
add_count(const SumArguments &a, int64_t *sums, int32_t cluster, int rows)
{
	int64_t    *to = sums + (int64_t) cluster * (a.d + 1) + a.d;

	add_sum<SHARED>(to, rows * gk_quantize(1.0, a.scales[a.d]));
	if (WHAT != NARROW)
		add_sum<SHARED>(to + a.limb, rows * gk_quantize_rest(1.0, a.scales[a.d], a.rest_scale));
}

/* Adds a thread's partial sums to those of the cluster: columns span + lane, + lanes, … */
template <bool SHARED, Summed WHAT, int COLUMNS> static __device__ __forceinline__ void
flush_partial(const SumArguments &a, int64_t *sums, int32_t cluster, int span, int lane, int lanes,
			  Partial<WHAT, COLUMNS> &partial)
{
#pragma unroll
	for (int v = 0; v < COLUMNS; v++)
	{
		int			j = span + v * lanes + lane;

		if (j > a.d)
			continue;
		add_sum<SHARED>(sums + (int64_t) cluster * (a.d + 1) + j, partial.high[v]);
		if (WHAT != NARROW)
			add_sum<SHARED>(sums + a.limb + (int64_t) cluster * (a.d + 1) + j,
							partial.low[WHAT != NARROW ? v : 0]);
	}
	if (span == 0 && lane == 0 && counts_apart(a, lanes * COLUMNS))
		add_count<SHARED, WHAT>(a, sums, cluster, partial.rows);
	partial.clear();
}

/* What is added up of a feature of a row. */
template <Summed WHAT> static __device__ __forceinline__ auto
value_of_item(const SumArguments &a, int64_t row, int32_t label, int j)
{
	float		x = a.features[row * a.d + j];

	if constexpr (WHAT == SQUARES)
		return gk_add_square(0.0, x, a.centroids[(int64_t) label * a.d + j]);
	else
		return x;
}

/* Reads the same columns, and the weights, of the rows of items i .. i + AHEAD - 1. */
template <Summed WHAT, int AHEAD, int COLUMNS, typename Value, typename Label>
static __device__ __forceinline__ void
read_items(const SumArguments &a, const Label *labels, const uint16_t *places, int i, int to,
		   int64_t first, int span, int lane, int lanes, Value (&x)[AHEAD][COLUMNS],
		   double (&weights)[AHEAD])
{
#pragma unroll
	for (int u = 0; u < AHEAD; u++)
	{
		int64_t		row = first + (i + u < to ? places[i + u] & ~SUM_TAKEN : 0);

		weights[u] = a.weights != nullptr && i + u < to ? a.weights[row] : 1.0;
#pragma unroll
		for (int v = 0; v < COLUMNS; v++)
		{
			int			j = span + v * lanes + lane;

			x[u][v] = j < a.d && i + u < to ? value_of_item<WHAT>(a, row, labels[i + u], j) : 1.0f;
		}
	}
}

/* Adds one row's values in a thread's columns to its partial sums, or (taken) subtracts them. */
template <Summed WHAT, int COLUMNS, typename Value> static __device__ __forceinline__ void
add_item(const SumArguments &a, const Value (&x)[COLUMNS], double weight,
		 const double (&scales)[COLUMNS], bool taken, Partial<WHAT, COLUMNS> &partial)
{
	partial.rows += taken ? -1 : 1;
#pragma unroll
	for (int v = 0; v < COLUMNS; v++)
	{
		double		value = x[v];
		int64_t		high;

		if (a.weights != nullptr)
			value = GK_MUL(weight, value);
		high = gk_quantize(value, scales[v]);
		partial.high[v] += taken ? -high : high;
		if (WHAT != NARROW)
		{
			int64_t		low = gk_quantize_rest(value, scales[v], a.rest_scale);

			partial.low[WHAT != NARROW ? v : 0] += taken ? -low : low;
		}
	}
}

/*
 * Adds items from .. to - 1 to the sums: a group of `lanes` threads together, each COLUMNS
 * columns at a time.
 */
template <Summed WHAT, bool SHARED, int COLUMNS, typename Label> static __device__ void
add_items(const SumArguments &a, int64_t *sums, const Label *labels, const uint16_t *places,
		  int from, int to, int64_t first, int lane, int lanes)
{
	constexpr int AHEAD = 4;
	int			columns = a.d + !counts_apart(a, lanes * COLUMNS);

	for (int span = 0; span < columns; span += lanes * COLUMNS)
	{
		double		scales[COLUMNS];
		Partial<WHAT, COLUMNS> partial;
		int32_t		current = from < to ? labels[from] : 0;

		partial.clear();
#pragma unroll
		for (int v = 0; v < COLUMNS; v++)
			scales[v] = span + v * lanes + lane <= a.d ? a.scales[span + v * lanes + lane] : 0.0;
		for (int i = from; i < to; i += AHEAD)
		{
			typename std::conditional<WHAT == SQUARES, double, float>::type x[AHEAD][COLUMNS];
			double		weights[AHEAD];

			read_items<WHAT>(a, labels, places, i, to, first, span, lane, lanes, x, weights);
#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				bool		taken;

				if (i + u >= to)
					break;
				taken = places[i + u] & SUM_TAKEN;
				if (labels[i + u] != current)
				{
					flush_partial<SHARED>(a, sums, current, span, lane, lanes, partial);
					current = labels[i + u];
				}
				add_item<WHAT, COLUMNS>(a, x[u], weights[u], scales, taken, partial);
			}
		}
		if (from < to)
			flush_partial<SHARED>(a, sums, current, span, lane, lanes, partial);
	}
}

/* Replaces labels by the new ones, and updates the sums. */
template <Summed WHAT, bool SORTED, bool SHARED, int COLUMNS> static __global__ void
__launch_bounds__(SUM_THREADS)
sum_kernel(SumArguments a)
{
	extern __shared__ uint4 sum_memory[];
	Items<SORTED> *items = (Items<SORTED> *) sum_memory;
	int64_t    *shared_sums = (int64_t *) (items + 1);
	int64_t    *sums = SHARED ? shared_sums : a.sums;
	int64_t		all = a.limb * (WHAT != NARROW ? 2 : 1);
	int			lanes = COLUMNS > 1 ? 32 : a.lanes;
	int			groups = SUM_THREADS / lanes;
	int			group = threadIdx.x / lanes;
	unsigned	total = 0;

	for (int64_t i = threadIdx.x; SHARED && i < all; i += SUM_THREADS)
		shared_sums[i] = 0;
	for (int64_t first = (int64_t) blockIdx.x * a.block_rows; first < a.rows;
		 first += (int64_t) gridDim.x * a.block_rows)
	{
		__syncthreads();
		list_items(a, items, first);
		__syncthreads();
		total += take_labels(a, first);
		add_items<WHAT, SHARED, COLUMNS>(a, sums, items->labels, items->places,
										 items->count * group / groups,
										 items->count * (group + 1) / groups, first,
										 threadIdx.x % lanes, lanes);
	}
	total = sum_of_lanes<32>(total);
	if (threadIdx.x % 32 == 0 && total > 0)
		atomicAdd(&a.counters->changed, (unsigned long long) total);
	__syncthreads();
	for (int64_t i = threadIdx.x; SHARED && i < all; i += SUM_THREADS)
		if (shared_sums[i] != 0)
			atomicAdd((unsigned long long *) &a.sums[i], (unsigned long long) shared_sums[i]);
}

/* Enqueues one kernel. */
template <Summed WHAT, bool SORTED, bool SHARED, int COLUMNS> static void
launch_sum(Shard &shard, SumArguments a)
{
	const void *kernel = (const void *) sum_kernel<WHAT, SORTED, SHARED, COLUMNS>;
	size_t		bytes = sizeof(Items<SORTED>) +
		(SHARED ? a.limb * (WHAT != NARROW ? 2 : 1) * sizeof(int64_t) : 0);
	int			per_processor;
	int64_t		each;

	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, SUM_THREADS,
			bytes));
	/* as many rows as fit, but some for every block that can run */
	each = (a.rows + shard.device->processors * per_processor - 1) /
		(shard.device->processors * per_processor);
	a.block_rows = (int) std::max<int64_t>(SUM_ROWS, std::min<int64_t>(each, Items<SORTED>::ROWS));
	a.block_rows = (a.block_rows + SUM_THREADS - 1) / SUM_THREADS * SUM_THREADS;
	sum_kernel<WHAT, SORTED, SHARED, COLUMNS>
		<<<blocks_for(shard, (a.rows + a.block_rows - 1) / a.block_rows, per_processor),
		   SUM_THREADS, bytes, shard.device->compute>>>(a);
	GK_LAUNCHED("sum_kernel");
}

/* Chooses where to keep sums, and how many columns a thread takes. */
template <Summed WHAT> static void
choose_sum(Shard &shard, const SumArguments &a)
{
	size_t		own = a.limb * (WHAT != NARROW ? 2 : 1) * sizeof(int64_t);
	bool		sorted = a.k <= SORTED_CLUSTERS &&
		sizeof(Items<true>) <= shard.device->shared_memory;
	bool		shared = sorted && own <= 32 << 10 &&
		sizeof(Items<true>) + own <= shard.device->shared_memory;
	bool		narrow = a.lanes < 32;

	if (shared)
		narrow ? launch_sum<WHAT, true, true, 1>(shard, a) :
			launch_sum<WHAT, true, true, 4>(shard, a);
	else if (sorted)
		narrow ? launch_sum<WHAT, true, false, 1>(shard, a) :
			launch_sum<WHAT, true, false, 4>(shard, a);
	else
		narrow ? launch_sum<WHAT, false, false, 1>(shard, a) :
			launch_sum<WHAT, false, false, 4>(shard, a);
}

/* What the sums of a slice have in common. */
static SumArguments
sum_arguments(Shard &shard, const Slice &slice, int64_t k)
{
	SumArguments a = {};

	a.features = slice.features;
	a.weights = slice.weights;
	a.rows = slice.rows;
	a.d = shard.dimension;
	for (a.lanes = 1; a.lanes < 32 && a.lanes < a.d + 1;)
		a.lanes *= 2;
	a.labels = shard.labels.get() + slice.first;
	a.sums = shard.sums.get();
	a.k = k;
	a.limb = k * (shard.dimension + 1);
	a.counters = shard.counters.get();
	return a;
}

/* Replaces the labels of a slice by the new ones, and updates the sums. */
void
sum_slice(Shard &shard, const Slice &slice, const Grid &grid, int64_t k, bool all)
{
	SumArguments a = sum_arguments(shard, slice, k);

	a.scales = shard.grid_scales.get();
	a.rest_scale = gk_power_of_two(grid.rest_bits);
	a.fresh = shard.fresh.get();
	a.all = all;
	if (grid.wide)
		choose_sum<WIDE>(shard, a);
	else
		choose_sum<NARROW>(shard, a);
}

/* Adds the squares of a slice's rows to the centroids of their labels to the sums. */
void
square_slice(Shard &shard, const Slice &slice, const double *scales, double rest_scale)
{
	SumArguments a = sum_arguments(shard, slice, shard.centroids.count);

	a.scales = scales;
	a.rest_scale = rest_scale;
	a.fresh = a.labels;
	a.all = true;
	a.centroids = shard.centroids.exact.get();
	choose_sum<SQUARES>(shard, a);
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

/* Adds the shards' sums of this step to the totals. */
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
	const double *origin;
	bool		spherical;
	bool		even_if_empty;
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

/* Replaces a feature of a centroid; the square of its step, and in *gain what its mean explains. */
static __device__ __forceinline__ double
replace_feature(const FinishArguments &a, int64_t cluster, int j, double mean, double norm,
				double *gain)
{
	double	   *feature = a.centroids + cluster * a.d + j;
	double		fresh = mean;
	double		step;

	if (a.spherical)
		fresh = norm > 0.0 ? GK_DIV(mean, norm) : *feature;
	step = GK_SUB(fresh, *feature);
	*gain = gk_gain(mean, a.origin[j], fresh);
	*feature = fresh;
	return GK_MUL(step, step);
}

/*
 * New centroids, 8 clusters a block: 256 threads compute 32 features of each at a time; one
 * thread per cluster adds up the shifts in index order, another what the cluster explains.
 */
static __global__ void
__launch_bounds__(256)
centroids_kernel(FinishArguments a)
{
	__shared__ double values[8][2][33];
	__shared__ double norms[8];
	int			mine = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	int64_t		c = (int64_t) blockIdx.x * 8 + mine;
	double		weight = c < a.k ? value_of(a, c * (a.d + 1) + a.d) : 0.0;
	double		total = 0.0;

	if (a.counters->empty > 0 && !a.even_if_empty)
		return;
	for (int pass = a.spherical ? 0 : 1; pass < 2; pass++)
	{
		double		norm = pass == 1 && a.spherical ? norms[mine] : 1.0;

		total = 0.0;
		for (int from = 0; from < a.d; from += 32)
		{
			int			j = from + lane;
			double		square = 0.0;
			double		gain = 0.0;

			if (j < a.d && weight > 0.0)
			{
				double		mean = gk_centroid(value_of(a, c * (a.d + 1) + j), weight,
											   a.exponents[j], a.exponents[a.d]);

				square = pass == 0 ? GK_MUL(mean, mean) :
					replace_feature(a, c, j, mean, norm, &gain);
			}
			values[mine][0][lane] = square;
			values[mine][1][lane] = gain;
			__syncwarp();
			if (lane < 2)
				for (int i = 0; i < 32 && from + i < a.d; i++)
					total = GK_ADD(total, values[mine][lane][i]);
			__syncwarp();
		}
		if (lane == 0)
			norms[mine] = GK_SQRT(total);
		__syncwarp();
	}
	if (lane == 0 && c < a.k)
		a.shifts[c] = total;
	if (lane == 1 && c < a.k)
		a.shifts[a.k + c] = GK_MUL(total, ldexp(weight > 0.0 ? weight : 0.0,
												-a.exponents[a.d] - (a.wide ? a.rest_bits : 0)));
}

/* The sums of what the clusters have, in the order of gk_ordered_sum(): a block for each. */
static __global__ void
shift_kernel(FinishArguments a)
{
	__shared__ double lanes[GK_LANES];

	if (a.counters->empty > 0 && !a.even_if_empty)
		return;
	lanes[threadIdx.x] = gk_lane_sum(a.shifts + blockIdx.x * a.k, a.k, threadIdx.x);
	for (int width = GK_LANES / 2; width > 0; width /= 2)
	{
		__syncthreads();
		if (threadIdx.x < width)
			lanes[threadIdx.x] = GK_ADD(lanes[threadIdx.x], lanes[threadIdx.x + width]);
	}
	if (threadIdx.x == 0)
		*(blockIdx.x == 0 ? &a.counters->shift2 : &a.counters->between) = lanes[0];
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

/* Loads the kernels of finish_step(). */
void
load_finish()
{
	cudaFuncAttributes attributes;

	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) empty_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) centroids_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) shift_kernel));
}

/* Counts empty clusters; computes new centroids if there are none, or if forced. */
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
	shift_kernel<<<2, GK_LANES, 0, stream>>>(a);
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
