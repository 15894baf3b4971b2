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
#include "narrow_pack.cuh"
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
	bool		all;			/* sum all rows, not only those whose label changed */
	const double *centroids;	/* of the labels; of squares only */
	Counters   *counters;
};

/*
 * What is added up: rows, without weights or with them, on a grid of one limb or two, or the
 * squares to the centroids, of two.
 */
enum Summed
{
	PLAIN,
	NARROW,
	WIDE,
	SQUARES
};

/* The limbs of a sum. */
static __host__ __device__ constexpr int
limbs_of(Summed what)
{
	return what == WIDE || what == SQUARES ? 2 : 1;
}

/* True if rows have weights. */
template <Summed WHAT> static __device__ __forceinline__ bool
has_weights(const SumArguments &a)
{
	return WHAT != PLAIN && a.weights != nullptr;
}

/* Which columns a thread takes at a time. */
enum Taken
{
	ONE,						/* every `lanes`th */
	STRIDED,					/* four, each 32 from the last */
	PACKED						/* four that follow each other: rows are whole parts of 16 bytes */
};

#define SUM_THREADS 256
#define SUM_ROWS 1024			/* of a block at a time, at most */
#define SORTED_ROWS 4096		/* the same if they are sorted by label */
#define SORTED_CLUSTERS 2048	/* the most clusters for which sorting pays off */
#define SUM_TAKEN 0x8000u		/* in a place: the row leaves */

/* A row of a block to be added to a cluster or subtracted: its place among the block's rows. */
struct alignas(8) WideItem
{
	uint32_t	label;
	uint32_t	place;
};

struct alignas(4) SmallItem
{
	uint16_t	label;
	uint16_t	place;
};

/* The rows of a block to be summed: a row that moved leaves one cluster and joins another. */
template <bool SORTED> struct alignas(16) Items
{
	static constexpr int ROWS = SORTED ? SORTED_ROWS : SUM_ROWS;
	using Item = typename std::conditional<SORTED, SmallItem, WideItem>::type;

	Item		items[2 * ROWS];
	int			starts[SORTED ? SORTED_CLUSTERS : 1];
	typename cub::BlockScan<int, SUM_THREADS>::TempStorage scan;
	int			count;
};

/* The labels of a thread's rows, which lie SUM_THREADS apart; -1: no row. */
template <int EACH> struct OwnLabels
{
	int32_t		fresh[EACH];
	int32_t		old[EACH];

	/* Reads those of a block's rows from .. to - 1. */
	__device__ __forceinline__ void read(const SumArguments &a, int64_t from, int64_t to)
	{
#pragma unroll
		for (int i = 0; i < EACH; i++)
		{
			int64_t		row = from + i * SUM_THREADS + threadIdx.x;

			fresh[i] = row < to ? a.fresh[row] : -1;
			old[i] = row < to ? a.labels[row] : -1;
		}
	}

	/* Replaces labels by the new ones; returns how many changed. */
	__device__ __forceinline__ int take(const SumArguments &a, int64_t from) const
	{
		int			changed = 0;

#pragma unroll
		for (int i = 0; i < EACH; i++)
			if (fresh[i] != old[i])
			{
				a.labels[from + i * SUM_THREADS + threadIdx.x] = fresh[i];
				changed++;
			}
		return changed;
	}

	/* Calls f for each of the rows to be summed, with label and place; by all threads. */
	template <typename F> __device__ __forceinline__ void each(bool all, F f) const
	{
#pragma unroll
		for (int i = 0; i < EACH; i++)
		{
			uint32_t	place = i * SUM_THREADS + threadIdx.x;

			f(fresh[i] >= 0 && (all || fresh[i] != old[i]), fresh[i], place);
			if (!all)
				f(fresh[i] != old[i] && old[i] >= 0, old[i], place | SUM_TAKEN);
		}
	}
};

/* Lists the rows to be summed, unsorted. */
template <int EACH> static __device__ __forceinline__ void
list_items(const SumArguments &a, Items<false> *items, const OwnLabels<EACH> &own)
{
	if (threadIdx.x == 0)
		items->count = 0;
	__syncthreads();
	own.each(a.all, [&](bool has, int32_t label, uint32_t place)
	{
		unsigned	lanes = __ballot_sync(0xffffffffu, has);
		int			lane = threadIdx.x % 32;
		int			to = 0;

		if (lane == 0 && lanes != 0)
			to = atomicAdd(&items->count, __popc(lanes));
		to = __shfl_sync(0xffffffffu, to, 0) + __popc(lanes & ((1u << lane) - 1));
		if (has)
			items->items[to] = {(uint32_t) label, place};
	});
}

/* Lists the rows to be summed, sorted by label: a counting sort. */
template <int EACH> static __device__ __forceinline__ void
list_items(const SumArguments &a, Items<true> *items, const OwnLabels<EACH> &own)
{
	constexpr int COUNTS = SORTED_CLUSTERS / SUM_THREADS;
	int			counts[COUNTS];
	int			total;

	for (int i = threadIdx.x; i < SORTED_CLUSTERS; i += SUM_THREADS)
		items->starts[i] = 0;
	__syncthreads();
	own.each(a.all, [&](bool has, int32_t label, uint32_t)
	{
		if (has)
			atomicAdd(&items->starts[label], 1);
	});
	__syncthreads();
	for (int i = 0; i < COUNTS; i++)
		counts[i] = items->starts[threadIdx.x * COUNTS + i];
	cub::BlockScan<int, SUM_THREADS>(items->scan).ExclusiveSum(counts, counts, total);
	for (int i = 0; i < COUNTS; i++)
		items->starts[threadIdx.x * COUNTS + i] = counts[i];
	if (threadIdx.x == 0)
		items->count = total;
	__syncthreads();
	own.each(a.all, [&](bool has, int32_t label, uint32_t place)
	{
		if (has)
			items->items[atomicAdd(&items->starts[label], 1)] =
				{(uint16_t) label, (uint16_t) place};
	});
}

/* The columns that a thread takes, and their grids. */
template <Taken TAKEN> struct OwnColumns
{
	static constexpr int COUNT = TAKEN == ONE ? 1 : 4;

	int			first;
	int			apart;
	double		scales[COUNT];
	const char *values;			/* the first of them, in the first row of the block */
	const double *weights;		/* of the block */

	/* Those of a span of columns. */
	__device__ __forceinline__ OwnColumns(const SumArguments &a, int64_t block, int span, int lane,
										  int lanes)
		: first(span + (TAKEN == PACKED ? lane * 4 : lane)), apart(TAKEN == PACKED ? 1 : lanes),
		  values((const char *) (a.features + block * a.d + first)), weights(a.weights + block)
	{
#pragma unroll
		for (int v = 0; v < COUNT; v++)
			scales[v] = first + v * apart < a.d ? a.scales[first + v * apart] : 0.0;
	}
};

/* What a thread knows of an item: some columns of its row, and the weight. */
template <Summed WHAT, Taken TAKEN> struct ItemValues
{
	static constexpr int COUNT = OwnColumns<TAKEN>::COUNT;

	typename std::conditional<WHAT == SQUARES, double, float>::type x[COUNT];
	double		weight;

	/* Reads those of the row at a place of the block's rows. */
	__device__ __forceinline__ void read(const SumArguments &a, const OwnColumns<TAKEN> &own,
										 uint32_t place, uint32_t label)
	{
		const float *row = (const float *)
			(own.values + (uint64_t) place * ((uint32_t) a.d * (uint32_t) sizeof(float)));
		float		values[COUNT];

		weight = has_weights<WHAT>(a) ? own.weights[place] : 1.0;
		if constexpr (TAKEN == PACKED)
		{
			float4		four = make_float4(0, 0, 0, 0);

			if (own.first < a.d)
				four = __ldg((const float4 *) row);
			values[0] = four.x;
			values[1] = four.y;
			values[2] = four.z;
			values[3] = four.w;
		}
		else
#pragma unroll
			for (int v = 0; v < COUNT; v++)
				values[v] = own.first + v * own.apart < a.d ? __ldg(row + v * own.apart) : 0.0f;
#pragma unroll
		for (int v = 0; v < COUNT; v++)
		{
			int			j = own.first + v * own.apart;

			if constexpr (WHAT != SQUARES)
				x[v] = values[v];
			else
				x[v] = j < a.d ?
					gk_add_square(0.0, values[v], a.centroids[(int64_t) label * a.d + j]) : 0.0;
		}
	}
};

/*
 * A thread's share of a cluster's sums before it is added to them.  Each item adds ROUNDED_ZERO
 * to high and low, which flush() takes away.
 */
template <Summed WHAT, Taken TAKEN> struct Partial
{
	static constexpr int COUNT = OwnColumns<TAKEN>::COUNT;
	static constexpr int LOW = limbs_of(WHAT) == 2 ? COUNT : 1;

	uint64_t	high[COUNT];
	uint64_t	low[LOW];
	int64_t		weight_high;	/* if there are weights */
	int64_t		weight_low;
	unsigned	items;
	int			gained;			/* rows that join less those that leave */

	__device__ __forceinline__ void clear()
	{
#pragma unroll
		for (int v = 0; v < COUNT; v++)
			high[v] = low[v % LOW] = 0;
		weight_high = weight_low = 0;
		items = gained = 0;
	}

	/* Adds one row's values, or (taken) subtracts them. */
	__device__ __forceinline__ void add(const SumArguments &a, const OwnColumns<TAKEN> &own,
										const ItemValues<WHAT, TAKEN> &item, bool taken)
	{
#pragma unroll
		for (int v = 0; v < COUNT; v++)
		{
			double		value = taken ? -item.x[v] : item.x[v];

			if (has_weights<WHAT>(a))
				value = GK_MUL(item.weight, value);
			high[v] += rounded_bits(value, own.scales[v]);
			if (limbs_of(WHAT) == 2)
				low[v % LOW] +=
					rounded_bits(rest_of(value, own.scales[v]), a.rest_scale);
		}
		items++;
		gained += taken ? -1 : 1;
		if (has_weights<WHAT>(a))
		{
			double		weight = taken ? -item.weight : item.weight;

			weight_high += quantize(weight, a.scales[a.d]);
			if (limbs_of(WHAT) == 2)
				weight_low += quantize(rest_of(weight, a.scales[a.d]), a.rest_scale);
		}
	}

	/* Adds these sums to those of the cluster; `leads`: the weight as well. */
	template <bool SHARED> __device__ __forceinline__ void
	flush(const SumArguments &a, int64_t *sums, uint32_t cluster, const OwnColumns<TAKEN> &own,
		  bool leads)
	{
		int64_t    *to = sums + (int64_t) cluster * (a.d + 1);

#pragma unroll
		for (int v = 0; v < COUNT; v++)
		{
			int			j = own.first + v * own.apart;

			if (j >= a.d)
				continue;
			add_sum<SHARED>(to + j, (int64_t) (high[v] - items * ROUNDED_ZERO));
			if (limbs_of(WHAT) == 2)
				add_sum<SHARED>(to + a.limb + j,
								(int64_t) (low[v % LOW] - items * ROUNDED_ZERO));
		}
		if (leads)
		{
			double		scale = a.scales[a.d];

			add_sum<SHARED>(to + a.d,
							has_weights<WHAT>(a) ? weight_high : gained * quantize(1.0, scale));
			if (limbs_of(WHAT) == 2)
				add_sum<SHARED>(to + a.limb + a.d, has_weights<WHAT>(a) ? weight_low :
								gained * quantize(rest_of(1.0, scale), a.rest_scale));
		}
		clear();
	}
};

/*
 * Adds items from .. to - 1 to the sums: a group of `lanes` threads together, each some columns
 * at a time.
 */
template <Summed WHAT, bool SHARED, Taken TAKEN, typename Item> static __device__ void
add_items(const SumArguments &a, int64_t *sums, const Item *items, int from, int to, int64_t first,
		  int lane, int lanes)
{
	constexpr int AHEAD = 4;

	for (int span = 0; span < a.d && from < to; span += lanes * OwnColumns<TAKEN>::COUNT)
	{
		OwnColumns<TAKEN> own(a, first, span, lane, lanes);
		Partial<WHAT, TAKEN> partial;
		uint32_t	current = items[from].label;
		bool		leads = span == 0 && lane == 0;

		partial.clear();
		for (int i = from; i < to; i += AHEAD)
		{
			ItemValues<WHAT, TAKEN> ahead[AHEAD];
			Item		its[AHEAD];

#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				its[u] = items[min(i + u, to - 1)];
				ahead[u].read(a, own, its[u].place & ~SUM_TAKEN, its[u].label);
			}
#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				if (i + u >= to)
					break;
				if (its[u].label != current)
				{
					partial.template flush<SHARED>(a, sums, current, own, leads);
					current = its[u].label;
				}
				partial.add(a, own, ahead[u], (its[u].place & SUM_TAKEN) != 0);
			}
		}
		partial.template flush<SHARED>(a, sums, current, own, leads);
	}
}

/*
 * Replaces labels by the new ones, and updates the sums.  Each block has as many rows as the
 * others, and takes as many at a time each time.
 */
template <Summed WHAT, bool SORTED, bool SHARED, Taken TAKEN> static __global__ void
__launch_bounds__(SUM_THREADS, WHAT == PLAIN ? 3 : WHAT == SQUARES ? 1 : 2)
sum_kernel(SumArguments a)
{
	constexpr int ROWS = Items<SORTED>::ROWS;
	extern __shared__ uint4 sum_memory[];
	Items<SORTED> *items = (Items<SORTED> *) sum_memory;
	int64_t    *shared_sums = (int64_t *) (items + 1);
	int64_t    *sums = SHARED ? shared_sums : a.sums;
	int64_t		all = a.limb * limbs_of(WHAT);
	int			groups = SUM_THREADS / a.lanes;
	int			group = threadIdx.x / a.lanes;
	int64_t		first = a.rows * blockIdx.x / gridDim.x;
	int64_t		end = a.rows * (blockIdx.x + 1) / gridDim.x;
	int64_t		times = (end - first + ROWS - 1) / ROWS;
	int			most = times > 0 ? (int) ((end - first + times - 1) / times) : ROWS;
	unsigned	total = 0;

	for (int64_t i = threadIdx.x; SHARED && i < all; i += SUM_THREADS)
		shared_sums[i] = 0;
	for (; first < end; first += most)
	{
		OwnLabels<ROWS / SUM_THREADS> own;

		own.read(a, first, min(end, first + most));
		__syncthreads();
		list_items(a, items, own);
		total += own.take(a, first);
		__syncthreads();
		add_items<WHAT, SHARED, TAKEN>(a, sums, items->items, items->count * group / groups,
									   items->count * (group + 1) / groups, first,
									   threadIdx.x % a.lanes, a.lanes);
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
template <Summed WHAT, bool SORTED, bool SHARED, Taken TAKEN> static void
launch_sum(Shard &shard, const SumArguments &a)
{
	const void *kernel = (const void *) sum_kernel<WHAT, SORTED, SHARED, TAKEN>;
	size_t		bytes = sizeof(Items<SORTED>) +
		(SHARED ? a.limb * limbs_of(WHAT) * sizeof(int64_t) : 0);
	int64_t		blocks = (a.rows + SUM_ROWS - 1) / SUM_ROWS;
	int			per_processor;

	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, SUM_THREADS,
			bytes));
	sum_kernel<WHAT, SORTED, SHARED, TAKEN>
		<<<blocks_for(shard, blocks, per_processor), SUM_THREADS, bytes,
		   shard.device->compute>>>(a);
	GK_LAUNCHED("sum_kernel");
}

/* Chooses which columns a thread takes. */
template <Summed WHAT, bool SORTED, bool SHARED> static void
choose_columns(Shard &shard, SumArguments &a)
{
	/* added to global memory at once, the columns of a warp would lie too far apart */
	bool		packed = a.d % 4 == 0 && (uintptr_t) a.features % 16 == 0 &&
		(SHARED || a.d <= 64);

	for (a.lanes = 1; a.lanes < 32 && a.lanes * (packed ? 4 : 1) < a.d;)
		a.lanes *= 2;
	if (packed)
		launch_sum<WHAT, SORTED, SHARED, PACKED>(shard, a);
	else if (a.lanes < 32)
		launch_sum<WHAT, SORTED, SHARED, ONE>(shard, a);
	else
		launch_sum<WHAT, SORTED, SHARED, STRIDED>(shard, a);
}

/* Chooses where to keep sums. */
template <Summed WHAT> static void
choose_sum(Shard &shard, SumArguments &a)
{
	size_t		own = a.limb * limbs_of(WHAT) * sizeof(int64_t);
	bool		sorted = a.k <= SORTED_CLUSTERS &&
		sizeof(Items<true>) <= shard.device->shared_memory;

	if (sorted && own <= 32 << 10 && sizeof(Items<true>) + own <= shard.device->shared_memory)
		choose_columns<WHAT, true, true>(shard, a);
	else if (sorted)
		choose_columns<WHAT, true, false>(shard, a);
	else
		choose_columns<WHAT, false, false>(shard, a);
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
	else if (a.weights != nullptr)
		choose_sum<NARROW>(shard, a);
	else
		choose_sum<PLAIN>(shard, a);
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

	if (a.end.spherical)
		fresh = norm > 0.0 ? GK_DIV(mean, norm) : *feature;
	step = GK_SUB(fresh, *feature);
	*gain = gk_gain(mean, a.origin[j], fresh);
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
				double		mean = gk_centroid(value_of(a, c * (a.d + 1) + j), weight,
											   a.exponents[j], a.exponents[a.d]);

				square = pass == 0 ? GK_MUL(mean, mean) :
					replace_feature(a, c, j, mean, norm, &gain);
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

/* New centroids, 8 clusters a block. */
static __global__ void
__launch_bounds__(256)
centroids_kernel(FinishArguments a)
{
	__shared__ UpdateRoom rooms[8];
	int64_t		c = (int64_t) blockIdx.x * 8 + threadIdx.x / 32;

	if (a.counters->empty > 0 && !a.end.even_if_empty)
		return;
	if (a.resting != nullptr && *a.resting != 0)
		return;
	if (c < a.k)
		update_centroid(a, c, &rooms[threadIdx.x / 32]);
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

/* The sums of what the clusters have, in the order of gk_ordered_sum(): a block for each. */
static __global__ void
shift_kernel(FinishArguments a)
{
	__shared__ double lanes[GK_LANES];

	if (a.counters->empty > 0 && !a.end.even_if_empty)
		return;
	sum_clusters(a.shifts + blockIdx.x * a.k, a.k, lanes);
	if (threadIdx.x == 0)
		*(blockIdx.x == 0 ? &a.counters->shift2 : &a.counters->between) = lanes[0];
	if (threadIdx.x == 0 && blockIdx.x == 0 && a.resting != nullptr &&
		lanes[0] <= a.end.tolerance)
		*a.resting = 1;
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

/* Counts empty clusters; computes new centroids if there are none, or if forced. */
void
finish_step(Shard &shard, const Grid &grid, int64_t *sums, const StepEnd &end)
{
	int64_t		k = shard.centroids.count;
	FinishArguments a = finish_arguments(shard, grid, sums, k);
	cudaStream_t stream = shard.device->compute;

	a.end = end;
	a.resting = end.tolerance > 0.0 ? shard.resting.get() : nullptr;
	if (!end.even_if_empty)
		empty_kernel<<<(unsigned) ((k + 255) / 256), 256, 0, stream>>>(a, nullptr);
	centroids_kernel<<<(unsigned) ((k + 7) / 8), 256, 0, stream>>>(a);
	shift_kernel<<<2, GK_LANES, 0, stream>>>(a);
	GK_LAUNCHED("finish_step");
	shard.centroids.prepared = false;
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
		if (!(value_of(a, c * (a.d + 1) + a.d) > 0.0))
			atomicAdd(empty, 1u);
	__syncthreads();
	return *empty;
}

/* Brings what a step came to to the host, and clears the counters for the next: one thread. */
static __device__ __forceinline__ void
report_step(const FinishArguments &a, unsigned empty, double shift2, double between,
			Counters *place)
{
	Counters	counters = {};

	counters.changed = a.counters->changed;
	counters.empty = empty;
	counters.shift2 = shift2;
	counters.between = between;
	*place = counters;
	*a.counters = {};
	if (empty == 0 && a.resting != nullptr && shift2 <= a.end.tolerance)
		*a.resting = 1;
}

/*
 * The whole end of a step where few centroids have few features: what the kernels of finish_step()
 * do, report_kernel and pack_kernel.  One block.
 */
static __global__ void
__launch_bounds__(PACK_THREADS)
narrow_end_kernel(FinishArguments a, PackArguments pack, Counters *place)
{
	__shared__ UpdateRoom rooms[PACK_THREADS / 32];
	__shared__ double lanes[2][GK_LANES];
	__shared__ unsigned empty;
	int			warp = threadIdx.x / 32;
	bool		moves = count_empty(a, &empty) == 0 && (a.resting == nullptr || *a.resting == 0);

	for (int64_t c = warp; c < a.k && moves; c += PACK_THREADS / 32)
		update_centroid(a, c, &rooms[warp]);
	__syncthreads();
	sum_clusters(a.shifts, a.k, lanes[0]);
	sum_clusters(a.shifts + a.k, a.k, lanes[1]);
	if (threadIdx.x == 0)
		report_step(a, empty, empty > 0 ? 0.0 : lanes[0][0], empty > 0 ? 0.0 : lanes[1][0], place);
	pack_block(a.centroids, pack.origin, (int) a.k, pack.padded, a.d, pack.whole_norm,
			   pack.packed);
}

/* Loads the kernels that end a step. */
void
load_finish()
{
	cudaFuncAttributes attributes;

	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) empty_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) centroids_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) shift_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) narrow_end_kernel));
}

/* Ends a step of few centroids of few features, and packs the new ones. */
void
end_narrow_step(Shard &shard, const Grid &grid, int64_t *sums, const StepEnd &end,
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
