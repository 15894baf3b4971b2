/*
 * Fixed-point sums of the rows that changed their label.
 *
 * Sums are integers, so the order of additions does not matter, and a row that leaves a cluster
 * can be subtracted.  A cluster's sums lie together: d features and the weight; the second limb,
 * if there is one, lies k × (d + 1) further on.
 */
#include <type_traits>

#include <cooperative_groups.h>
#include <cub/block/block_scan.cuh>

#include "exact.h"
#include "filter.h"
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
#define LISTED_STATIC 4096		/* shared memory that listing takes besides, at most */

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

/* The labels of a thread's rows, which lie THREADS apart; -1: no row. */
template <int EACH, int THREADS = SUM_THREADS> struct OwnLabels
{
	int32_t		fresh[EACH];
	int32_t		old[EACH];

	/* Reads those of a block's rows from .. to - 1. */
	__device__ __forceinline__ void read(const SumArguments &a, int64_t from, int64_t to)
	{
#pragma unroll
		for (int i = 0; i < EACH; i++)
		{
			int64_t		row = from + i * THREADS + threadIdx.x;

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
				a.labels[from + i * THREADS + threadIdx.x] = fresh[i];
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
			uint32_t	place = i * THREADS + threadIdx.x;

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

#define LISTED_THREADS 512
#define LISTED_EACH 8			/* rows of a thread at a time */
#define LISTED_AHEAD 4			/* items of a group of threads at a time */
#define LISTED_TAKEN 0x80000000u	/* in an item: the row leaves */

/* A slice's rows to be summed, by label: their numbers in the slice. */
struct Listing
{
	uint32_t   *counts;			/* of each label's, 0 at first */
	uint32_t   *items;			/* as many as the slice has rows … */
	uint32_t   *more;			/* … and the others */

	__device__ __forceinline__ uint32_t &at(uint32_t i, int64_t rows) const
	{
		return i < rows ? items[i] : more[i - rows];
	}
};

/* Calls f for each row of a block's share that is to be summed, with label and item. */
template <typename F> static __device__ __forceinline__ unsigned
each_listed(const SumArguments &a, bool take, F f)
{
	int64_t		first = a.rows * blockIdx.x / gridDim.x;
	int64_t		end = a.rows * (blockIdx.x + 1) / gridDim.x;
	unsigned	changed = 0;

	for (; first < end; first += LISTED_EACH * LISTED_THREADS)
	{
		OwnLabels<LISTED_EACH, LISTED_THREADS> own;

		own.read(a, first, end);
		own.each(a.all, [&](bool has, int32_t label, uint32_t place)
		{
			if (has)
				f(label, (uint32_t) (first + (place & ~SUM_TAKEN)) |
				  ((place & SUM_TAKEN) != 0 ? LISTED_TAKEN : 0));
		});
		if (take)
			changed += own.take(a, first);
	}
	return changed;
}

/*
 * From how many items each label has, in all blocks, to where they end in the list, and from a
 * block's first item of each label among these to its place in the list.  Returns how many there
 * are in all.
 */
static __device__ __forceinline__ uint32_t
find_places(const uint32_t *counts, int k, uint32_t *places, uint32_t *ends)
{
	typedef cub::BlockScan<uint32_t, LISTED_THREADS> Scan;
	__shared__ typename Scan::TempStorage memory;
	/* odd, so that threads do not meet in a bank */
	int			each = (k + LISTED_THREADS - 1) / LISTED_THREADS | 1;
	int			from = min((int) threadIdx.x * each, k);
	int			to = min(from + each, k);
	uint32_t	before = 0;
	uint32_t	all;

	for (int c = threadIdx.x; c < k; c += LISTED_THREADS)
		ends[c] = __ldcg(counts + c);
	__syncthreads();
	for (int c = from; c < to; c++)
		before += ends[c];
	Scan(memory).ExclusiveSum(before, before, all);
	for (int c = from; c < to; c++)
	{
		places[c] += before;
		before += ends[c];
		ends[c] = before;
	}
	__syncthreads();
	return all;
}

/* The first label whose items end after item i. */
static __device__ __forceinline__ int
label_of_item(const uint32_t *ends, int k, uint32_t i)
{
	int			low = 0;
	int			high = k - 1;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (ends[middle] > i)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Some items that follow each other, and what a thread knows of them. */
template <Summed WHAT, Taken TAKEN> struct ListedBatch
{
	uint32_t	items[LISTED_AHEAD];
	ItemValues<WHAT, TAKEN> values[LISTED_AHEAD];

	/* Reads the rows of items. */
	__device__ __forceinline__ void read(const SumArguments &a, const OwnColumns<TAKEN> &own,
										 const uint32_t (&which)[LISTED_AHEAD])
	{
#pragma unroll
		for (int u = 0; u < LISTED_AHEAD; u++)
		{
			items[u] = which[u];
			values[u].read(a, own, which[u] & ~LISTED_TAKEN, 0);
		}
	}
};

/* Items from `at` on; past the last, that one again. */
static __device__ __forceinline__ void
read_items(const Listing &listing, int64_t rows, uint32_t at, uint32_t last,
		   uint32_t (&items)[LISTED_AHEAD])
{
#pragma unroll
	for (int u = 0; u < LISTED_AHEAD; u++)
		items[u] = __ldcg(&listing.at(min(at + u, last), rows));
}

/*
 * Adds items from .. to - 1 of the list to the sums: a group of `lanes` threads together, each some
 * columns at a time.  Rows are read while those before them are added.
 */
template <Summed WHAT, Taken TAKEN> static __device__ void
add_listed(const SumArguments &a, const Listing &listing, const uint32_t *ends, uint32_t from,
		   uint32_t to, int lane, int lanes)
{
	int			first = label_of_item(ends, (int) a.k, from);

	for (int span = 0; span < a.d && from < to; span += lanes * OwnColumns<TAKEN>::COUNT)
	{
		OwnColumns<TAKEN> own(a, 0, span, lane, lanes);
		Partial<WHAT, TAKEN> partial;
		ListedBatch<WHAT, TAKEN> batches[2];
		uint32_t	next[LISTED_AHEAD];
		int			label = first;
		uint32_t	end = ends[label];
		bool		leads = span == 0 && lane == 0;

		partial.clear();
		read_items(listing, a.rows, from, to - 1, next);
		batches[0].read(a, own, next);
		read_items(listing, a.rows, from + LISTED_AHEAD, to - 1, next);
		for (uint32_t i = from; i < to;)
#pragma unroll
			for (int b = 0; b < 2; b++)
			{
				batches[1 - b].read(a, own, next);
				read_items(listing, a.rows, i + 2 * LISTED_AHEAD, to - 1, next);
#pragma unroll
				for (int u = 0; u < LISTED_AHEAD; u++, i++)
				{
					if (i >= to)
						break;
					if (i >= end)
					{
						partial.template flush<false>(a, a.sums, label, own, leads);
						while (i >= end)
							end = ends[++label];
					}
					partial.add(a, own, batches[b].values[u],
								(batches[b].items[u] & LISTED_TAKEN) != 0);
				}
			}
		partial.template flush<false>(a, a.sums, label, own, leads);
	}
}

/*
 * Replaces labels by the new ones, and updates the sums: all blocks list the rows to be summed by
 * label, then each adds up an equal part of the list, so that each cluster is added to few times.
 */
template <Summed WHAT, Taken TAKEN> static __global__ void
__launch_bounds__(LISTED_THREADS, 1)
sum_listed_kernel(SumArguments a, Listing listing)
{
	extern __shared__ uint32_t listed_memory[];
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	uint32_t   *places = listed_memory;		/* k */
	uint32_t   *ends = places + a.k;		/* k */
	int			groups = LISTED_THREADS / a.lanes;
	uint64_t	number = (uint64_t) blockIdx.x * groups + threadIdx.x / a.lanes;
	uint64_t	all_groups = (uint64_t) gridDim.x * groups;
	uint64_t	total;
	unsigned	changed;

	for (int c = threadIdx.x; c < a.k; c += LISTED_THREADS)
		places[c] = 0;
	__syncthreads();
	(void) each_listed(a, false, [&](int32_t label, uint32_t)
	{
		atomicAdd(&places[label], 1u);
	});
	__syncthreads();
	for (int c = threadIdx.x; c < a.k; c += LISTED_THREADS)
		if (places[c] > 0)
			places[c] = atomicAdd(&listing.counts[c], places[c]);
	grid.sync();
	total = find_places(listing.counts, (int) a.k, places, ends);
	changed = each_listed(a, true, [&](int32_t label, uint32_t item)
	{
		listing.at(atomicAdd(&places[label], 1u), a.rows) = item;
	});
	changed = sum_of_lanes<32>(changed);
	if (threadIdx.x % 32 == 0 && changed > 0)
		atomicAdd(&a.counters->changed, (unsigned long long) changed);
	grid.sync();
	add_listed<WHAT, TAKEN>(a, listing, ends, (uint32_t) (total * number / all_groups),
							(uint32_t) (total * (number + 1) / all_groups),
							threadIdx.x % a.lanes, a.lanes);
}

/* Bytes of shared memory that listing takes. */
static size_t
listed_bytes(int64_t k)
{
	return 2 * k * sizeof(uint32_t);
}

/* How many labels have counters for listing; 0 if rows are not listed. */
int64_t
listed_labels(const Shard &shard, int64_t k)
{
	const Device &device = *shard.device;

	return device.cooperative && listed_bytes(k) + LISTED_STATIC <= device.shared_memory ? k : 0;
}

/* Enqueues one kernel that lists. */
template <Summed WHAT, Taken TAKEN> static void
launch_listed(Shard &shard, SumArguments &a)
{
	const void *kernel = (const void *) sum_listed_kernel<WHAT, TAKEN>;
	int			bytes = (int) listed_bytes(a.k);
	Listing		listing = {label_counts(shard), (uint32_t *) shard.flag_rows.get(),
		(uint32_t *) shard.flag_limits.get()};
	void	   *arguments[] = {&a, &listing};

	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
	GK_CUDA(cudaLaunchCooperativeKernel(kernel, blocks_for(shard, a.rows / LISTED_THREADS, 1),
										LISTED_THREADS, arguments, bytes, shard.device->compute));
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

/* True if a thread takes four columns that follow each other; sets how many threads share a row. */
static bool
pack_columns(SumArguments &a, bool shared)
{
	/* added to global memory at once, the columns of a warp would lie too far apart */
	bool		packed = a.d % 4 == 0 && (uintptr_t) a.features % 16 == 0 && (shared || a.d <= 64);

	for (a.lanes = 1; a.lanes < 32 && a.lanes * (packed ? 4 : 1) < a.d;)
		a.lanes *= 2;
	return packed;
}

/* Chooses which columns a thread takes. */
template <Summed WHAT, bool SORTED, bool SHARED> static void
choose_columns(Shard &shard, SumArguments &a)
{
	if (pack_columns(a, SHARED))
		launch_sum<WHAT, SORTED, SHARED, PACKED>(shard, a);
	else if (a.lanes < 32)
		launch_sum<WHAT, SORTED, SHARED, ONE>(shard, a);
	else
		launch_sum<WHAT, SORTED, SHARED, STRIDED>(shard, a);
}

/* The same for rows that are listed. */
template <Summed WHAT> static void
choose_listed(Shard &shard, SumArguments &a)
{
	if (pack_columns(a, false))
		launch_listed<WHAT, PACKED>(shard, a);
	else if (a.lanes < 32)
		launch_listed<WHAT, ONE>(shard, a);
	else
		launch_listed<WHAT, STRIDED>(shard, a);
}

/* True if the sums of a block fit its shared memory, beside its sorted rows. */
static bool
sums_fit(const Shard &shard, const SumArguments &a, int limbs)
{
	size_t		own = a.limb * limbs * sizeof(int64_t);

	return a.k <= SORTED_CLUSTERS && own <= 32 << 10 &&
		sizeof(Items<true>) + own <= shard.device->shared_memory;
}

/* Chooses how to sum rows by label. */
template <Summed WHAT> static void
choose_sum(Shard &shard, SumArguments &a)
{
	if (sums_fit(shard, a, limbs_of(WHAT)))
		choose_columns<WHAT, true, true>(shard, a);
	else if (listed_labels(shard, a.k) > 0)
		choose_listed<WHAT>(shard, a);
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
	/* after an assignment without the filter, there is no memory to list rows */
	if (sums_fit(shard, a, limbs_of(SQUARES)))
		choose_columns<SQUARES, true, true>(shard, a);
	else if (a.k <= SORTED_CLUSTERS && sizeof(Items<true>) <= shard.device->shared_memory)
		choose_columns<SQUARES, true, false>(shard, a);
	else
		choose_columns<SQUARES, false, false>(shard, a);
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

}								/* namespace gk */
