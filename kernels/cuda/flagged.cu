/*
 * The rows that the filter has flagged: a second run lists the centroids that can be nearest, and
 * the definition decides among them.
 *
 * A block multiplies 128 rows at a time, 16 per warp, with all panels of centroids.  Each warp
 * keeps short lists of candidates of its rows, and decides whenever one of them is full.  If there
 * are few rows, several blocks share the centroids of each 128, and the last one compares what
 * they have found.
 */
#include <algorithm>

#include "exact.h"
#include "nearer.cuh"
#include "tiles.cuh"

namespace gk
{

#define WARP_ROWS 16
#define LISTED 16				/* candidates of a row at a time, at least 8 */
#define CHUNK 8					/* columns of a pair at a time */
#define MOST_PARTS 32
#define MOST_BLOCKS 3			/* of a multiprocessor */

/* Columns of a row that a warp decides between looks at the stop flag. */
#define LOOK_COLUMNS 4096

/* What the definition needs. */
struct Definition
{
	const float *features;
	const double *centroids;
	int			d;
	bool		staged;			/* pairs pass through shared memory */
};

/* The arguments of the filter, and what the definition needs. */
struct FlaggedArguments : TiledArguments
{
	FlaggedArguments(const FilterArguments &common, const Shard &shard)
		: TiledArguments(common), arrivals(pair_count + 1),
		  found_distances(shard.found_distances.get()),
		  found_centroids(shard.found_centroids.get()), stop(shard.stop_flag), most_parts(1),
		  staged(false)
	{
	}

	__device__ Definition definition() const { return {features, exact, d, staged}; }

	uint32_t   *arrivals;		/* blocks that have finished their part, for each 128 rows */
	double	   *found_distances;	/* by each block, for each of its rows */
	int32_t    *found_centroids;
	const int  *stop;			/* the engine is being closed: labels can be anything */
	int			most_parts;
	bool		staged;
};

/*
 * Some columns of 32 pairs of a row and a centroid, permuted so that lanes do not meet in a bank:
 * those that write columns of some rows or centroids, and those that read one column.
 */
struct PairColumns
{
	double		c[32][CHUNK];
	float		x[WARP_ROWS][CHUNK];

	__device__ __forceinline__ double &centroid(int pair, int j)
	{
		return c[pair][j ^ (pair / 2 % CHUNK)];
	}

	__device__ __forceinline__ float &row(int row, int j)
	{
		return x[row][j ^ (row / 4 % CHUNK)];
	}
};

/* The rows of a warp, in shared memory. */
struct WarpRows
{
	int			row[WARP_ROWS];		/* in the slice; -1 = none */
	double		best[WARP_ROWS];	/* the least d² so far … */
	int			which[WARP_ROWS];	/* … and its centroid; INT32_MAX: none */
	float		limit[WARP_ROWS];	/* the score up to which a centroid can be nearest */
	int			count[WARP_ROWS];	/* candidates yet to be decided */
	int			listed[WARP_ROWS][LISTED];
	int			decisions;			/* since the last look at the stop flag */
	int			stopped;
};

#define WARPS (TILED_THREADS / 32)

/*
 * Shared memory begins with the lists of all warps, then their columns of pairs.  Functions find
 * them there: so the compiler sees that they access shared memory.
 */
extern __shared__ unsigned char flagged_memory[];

/* Bytes of shared memory for the lists of a block. */
static __host__ __device__ constexpr size_t
lists_bytes(bool staged)
{
	return WARPS * (sizeof(WarpRows) + (staged ? sizeof(PairColumns) : 0));
}

/* What a warp knows. */
static __device__ __forceinline__ WarpRows *
rows_of_warp(int warp)
{
	return (WarpRows *) flagged_memory + warp;
}

/* The columns of the pairs of this warp. */
static __device__ __forceinline__ PairColumns *
columns_of_warp()
{
	return (PairColumns *) ((WarpRows *) flagged_memory + WARPS) + threadIdx.x / 32;
}

/* A value of a matrix of this many columns: numbers of 32 bits take few registers. */
template <typename T> static __device__ __forceinline__ T
value_at(const T *values, uint32_t row, uint32_t columns, int column)
{
	return __ldg((const T *) ((const char *) (values + column) +
							  (uint64_t) row * (columns * (uint32_t) sizeof(T))));
}

/* Of CHUNK columns of 32 pairs, a thread takes one column of some rows and centroids: these. */
struct PairNumbers
{
	static constexpr int AT_ONCE = 32 / CHUNK;	/* pairs or rows */

	uint32_t	rows[WARP_ROWS / AT_ONCE];
	uint32_t	centroids[32 / AT_ONCE];
};

/* Such columns, on their way to shared memory. */
struct ColumnsAhead
{
	static constexpr int AT_ONCE = PairNumbers::AT_ONCE;

	float		x[WARP_ROWS / AT_ONCE];
	double		c[32 / AT_ONCE];

	/* Reads the columns from `from` on; past the end, anything. */
	__device__ __forceinline__ void read(const Definition &a, const PairNumbers &numbers, int from)
	{
		int			j = min(from + (int) threadIdx.x % CHUNK, a.d - 1);

#pragma unroll
		for (int u = 0; u < 32 / AT_ONCE; u++)
			c[u] = value_at(a.centroids, numbers.centroids[u], a.d, j);
#pragma unroll
		for (int u = 0; u < WARP_ROWS / AT_ONCE; u++)
			x[u] = value_at(a.features, numbers.rows[u], a.d, j);
	}

	__device__ __forceinline__ void write(PairColumns *to) const
	{
		int			first = threadIdx.x % 32 / CHUNK;

		__syncwarp();
#pragma unroll
		for (int u = 0; u < 32 / AT_ONCE; u++)
			to->centroid(u * AT_ONCE + first, threadIdx.x % CHUNK) = c[u];
#pragma unroll
		for (int u = 0; u < WARP_ROWS / AT_ONCE; u++)
			to->row(u * AT_ONCE + first, threadIdx.x % CHUNK) = x[u];
		__syncwarp();
	}
};

/* The numbers of the pairs of a warp, whose rows grow from lane to lane. */
static __device__ __forceinline__ PairNumbers
numbers_of_pairs(const WarpRows *warp, int row, int centroid)
{
	constexpr int AT_ONCE = PairNumbers::AT_ONCE;
	int			lane = threadIdx.x % 32;
	int			first_row = __shfl_sync(0xffffffffu, row, 0);
	int			last_row = __shfl_sync(0xffffffffu, row, 31);
	PairNumbers numbers;

#pragma unroll
	for (int u = 0; u < WARP_ROWS / AT_ONCE; u++)
		numbers.rows[u] =
			(uint32_t) warp->row[min(first_row + u * AT_ONCE + lane / CHUNK, last_row)];
#pragma unroll
	for (int u = 0; u < 32 / AT_ONCE; u++)
		numbers.centroids[u] = (uint32_t) __shfl_sync(0xffffffffu, centroid,
													  u * AT_ONCE + lane / CHUNK);
	return numbers;
}

/* Adds CHUNK columns to d² of a lane's pair, whose row is number `row` of them, from `from` on. */
static __device__ __forceinline__ double
add_columns(const Definition &a, PairColumns *columns, int row, int from, double sum)
{
	float		these_x[CHUNK];
	double		these_c[CHUNK];

#pragma unroll
	for (int j = 0; j < CHUNK; j++)
	{
		these_x[j] = columns->row(row, j);
		these_c[j] = columns->centroid(threadIdx.x % 32, j);
	}
#pragma unroll
	for (int j = 0; j < CHUNK; j++)
		if (from + j < a.d)
			sum = gk_add_square(sum, these_x[j], these_c[j]);
	return sum;
}

/*
 * d² of a lane's pair, by way of shared memory; rows grow from lane to lane.  Columns are read two
 * chunks ahead: adding one up takes less time than reading one.
 */
static __device__ __forceinline__ double
staged_distance(const Definition &a, const WarpRows *warp, int row, int centroid)
{
	PairNumbers numbers = numbers_of_pairs(warp, row, centroid);
	PairColumns *columns = columns_of_warp();
	int			its = row - __shfl_sync(0xffffffffu, row, 0);
	ColumnsAhead ahead[2];
	double		sum = 0.0;

	ahead[0].read(a, numbers, 0);
	ahead[1].read(a, numbers, CHUNK);
	for (int from = 0; from < a.d; from += 2 * CHUNK)
#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			int			at = from + i * CHUNK;

			if (at >= a.d)
				break;
			ahead[i].write(columns);
			ahead[i].read(a, numbers, at + 2 * CHUNK);
			sum = add_columns(a, columns, its, at, sum);
		}
	return sum;
}

/* d² of a lane's pair, straight from global memory. */
static __device__ __forceinline__ double
plain_distance(const Definition &a, int row, int centroid)
{
	double		sum = 0.0;

	for (int j = 0; j < a.d; j++)
		sum = gk_add_square(sum, value_at(a.features, row, a.d, j),
							value_at(a.centroids, centroid, a.d, j));
	return sum;
}

/* Decides a pair in each lane; the pairs of a row are side by side, and a lane may repeat one. */
static __device__ __forceinline__ void
decide_pairs(const Definition &a, WarpRows *warp, int row, int centroid)
{
	int			lane = threadIdx.x % 32;
	double		sum = a.staged ? staged_distance(a, warp, row, centroid) :
		plain_distance(a, warp->row[row], centroid);
	int			row_before = __shfl_up_sync(0xffffffffu, row, 1);

#pragma unroll
	for (int next = 1; next < 32; next *= 2)
	{
		double		its = __shfl_down_sync(0xffffffffu, sum, next);
		int			its_centroid = __shfl_down_sync(0xffffffffu, centroid, next);
		int			its_row = __shfl_down_sync(0xffffffffu, row, next);

		if (lane + next < 32 && its_row == row)
			take_nearer(its, its_centroid, &sum, &centroid);
	}
	if (lane == 0 || row_before != row)
		take_nearer(sum, centroid, &warp->best[row], &warp->which[row]);
	__syncwarp();
}

/*
 * Decides among all candidates that a warp has listed, 32 at a time, and clears the lists.  A
 * function of its own, with registers of its own.
 */
static __device__ __noinline__ void
decide_listed(Definition a)
{
	WarpRows   *warp = rows_of_warp(threadIdx.x / 32);
	int			lane = threadIdx.x % 32;
	int			upto = lane < WARP_ROWS ? warp->count[lane] : 0;	/* with all rows before */
	int			total;

#pragma unroll
	for (int before = 1; before < WARP_ROWS; before *= 2)
	{
		int			its = __shfl_up_sync(0xffffffffu, upto, before);

		upto += lane >= before ? its : 0;
	}
	total = __shfl_sync(0xffffffffu, upto, WARP_ROWS - 1);
	for (int first = 0; first < total; first += 32)
	{
		int			pair = min(first + lane, total - 1);
		int			row = 0;
		int			begin = 0;

#pragma unroll
		for (int r = 0; r < WARP_ROWS; r++)
		{
			int			end = __shfl_sync(0xffffffffu, upto, r);

			row += end <= pair;
			begin = end <= pair ? end : begin;
		}
		decide_pairs(a, warp, row, warp->listed[row][pair - begin]);
	}
	if (lane < WARP_ROWS)
		warp->count[lane] = 0;
	__syncwarp();
}

/* Looks at the stop flag, rarely: it lies in the host's memory. */
static __device__ __forceinline__ bool
has_stopped(const FlaggedArguments &a, WarpRows *warp)
{
	if (threadIdx.x % 32 == 0 && ++warp->decisions * a.d >= LOOK_COLUMNS)
	{
		warp->decisions = 0;
		warp->stopped |= *(const volatile int *) a.stop;
	}
	__syncwarp();
	return warp->stopped != 0;
}

/*
 * Lists candidates among eight centroids, of which a lane has two for each of its two rows; the
 * bits of `which`: those that can be nearest.
 */
static __device__ __forceinline__ void
list_eight(const FlaggedArguments &a, WarpRows *warp, int which, int column)
{
	int			lane = threadIdx.x % 32;

#pragma unroll
	for (int i = 0; i < 4; i++)
		if ((which >> i & 1) && column + i % 2 < a.count)
		{
			int			row = lane / 4 + i / 2 * 8;

			warp->listed[row][atomicAdd(&warp->count[row], 1)] = column + i % 2;
		}
	__syncwarp();
	if (!__any_sync(0xffffffffu, lane < WARP_ROWS && warp->count[lane] > LISTED - 8))
		return;
	if (!has_stopped(a, warp))
		decide_listed(a.definition());
	else if (lane < WARP_ROWS)
		warp->count[lane] = 0;
	__syncwarp();
}

/*
 * Multiplies a block's rows with the next panel of centroids: which of them can be nearest, four
 * bits of a thread for every eight, as list_eight() takes them.  Of scores that are NaN, nothing
 * is known.  A function of its own, because branches and products in one are slow.
 */
template <int PANEL, bool STAYS> static __device__ __noinline__ uint64_t
find_candidates(const FlaggedArguments &arguments, const RowShared *shared, __half *stages,
				__half *rows, TileStream *at)
{
	/* copies, so that they stay in registers */
	const FlaggedArguments a = arguments;
	TileStream	stream = *at;
	const WarpRows *warp = rows_of_warp(threadIdx.x / 32);
	int			lane = threadIdx.x % 32;
	int			r = threadIdx.x / 32 * WARP_ROWS + lane / 4;
	int			column = stream.now.panel * PANEL + lane % 4 * 2;
	float		sums[PANEL / 8][4] = {};
	uint64_t	which = 0;

	while (!multiply_next<PANEL, STAYS>(a, shared, stages, rows, stream, sums))
		;
	*at = stream;
#pragma unroll
	for (int n = 0; n < PANEL / 8; n++)
	{
		float2		lower = __ldg((const float2 *) (a.lower + column + n * 8));

#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			float		score = fmaf(sums[n][i], shared->back[r + i / 2 * 8],
									 i % 2 == 0 ? lower.x : lower.y);

			which |= (uint64_t) !(score > warp->limit[lane / 4 + i / 2 * 8]) << (n * 4 + i);
		}
	}
	return which;
}

/* Lists the candidates among the next panel of centroids. */
template <int PANEL, bool STAYS> static __device__ __forceinline__ void
list_panel(const FlaggedArguments &a, const RowShared *shared, __half *stages, __half *rows,
		   TileStream *stream)
{
	int			column = stream->now.panel * PANEL + threadIdx.x % 4 * 2;
	uint64_t	which = find_candidates<PANEL, STAYS>(a, shared, stages, rows, stream);

	if (__any_sync(0xffffffffu, which != 0))
#pragma unroll 1
		for (int n = 0; n < PANEL / 8; n++, which >>= 4)
			if (__any_sync(0xffffffffu, (which & 15) != 0))
				list_eight(a, rows_of_warp(threadIdx.x / 32), (int) (which & 15), column + n * 8);
}

/* Prefetches the rows of a warp into the L2 cache: they are read a few columns at a time. */
static __device__ __noinline__ void
prefetch_warp(const FlaggedArguments &a, const WarpRows *warp)
{
	int			lines = (a.d + 31) / 32;	/* of 128 bytes, of a row */

	for (int at = threadIdx.x % 32; at < WARP_ROWS * lines; at += 32)
	{
		int			row = warp->row[at / lines];

		if (row >= 0)
			asm volatile("prefetch.global.L2 [%0];"
						 :: "l"(a.features + (int64_t) row * a.d + at % lines * 32));
	}
}

/* Starts with the rows of a warp: row_at(r) is the number of its row r in the list, or -1. */
template <typename F> static __device__ __forceinline__ void
start_warp(const FlaggedArguments &a, WarpRows *warp, RowShared *shared, F row_at)
{
	int			lane = threadIdx.x % 32;

	if (lane < WARP_ROWS)
	{
		int64_t		at = row_at(lane);
		float	   *back = &shared->back[threadIdx.x / 32 * WARP_ROWS + lane];
		float		limit = at >= 0 ? a.flag_limits[at] : -3.4e38f;

		/* of an open row, nothing is known: its limit is infinite, and scores do not matter */
		if (!isfinite(limit) || !isfinite(*back))
		{
			limit = INFINITY;
			*back = 0.0f;
		}
		warp->row[lane] = (int) shared->row[threadIdx.x / 32 * WARP_ROWS + lane];
		warp->limit[lane] = limit;
		warp->best[lane] = 0.0;
		warp->which[lane] = INT32_MAX;
		warp->count[lane] = 0;
	}
	__syncwarp();
	prefetch_warp(a, warp);
}

/* Gives a row its label; once the engine is being closed, it may keep that of the filter. */
static __device__ __forceinline__ void
give_label(const FlaggedArguments &a, int64_t row, int centroid)
{
	if (row >= 0 && centroid != INT32_MAX)
		a.fresh[row] = centroid;
}

/* Ends the work on a block's rows whose centroids it shares with other blocks. */
static __device__ void
finish_part(const FlaggedArguments &a, int64_t group, int part, int parts, int *last)
{
	int			r = threadIdx.x;
	int64_t		from = group * parts * BLOCK_ROWS;
	double		best = 0.0;
	int			centroid = INT32_MAX;

	__syncthreads();
	if (r < BLOCK_ROWS)
	{
		a.found_distances[from + part * BLOCK_ROWS + r] =
			rows_of_warp(r / WARP_ROWS)->best[r % WARP_ROWS];
		a.found_centroids[from + part * BLOCK_ROWS + r] =
			rows_of_warp(r / WARP_ROWS)->which[r % WARP_ROWS];
	}
	__threadfence();
	__syncthreads();
	if (r == 0)
		*last = atomicAdd(&a.arrivals[group], 1u) == (uint32_t) parts - 1;
	__syncthreads();
	if (!*last || r >= BLOCK_ROWS)
		return;
	__threadfence();
	for (int i = 0; i < parts; i++)
		take_nearer(__ldcg(a.found_distances + from + i * BLOCK_ROWS + r),
					__ldcg(a.found_centroids + from + i * BLOCK_ROWS + r), &best, &centroid);
	give_label(a, rows_of_warp(r / WARP_ROWS)->row[r % WARP_ROWS], centroid);
}

/* Into how many parts the centroids are divided, so that each block has work. */
static __device__ __forceinline__ int
parts_of_group(const FlaggedArguments &a, int64_t groups)
{
	if (groups == 0)
		return 1;
	return (int) max((int64_t) 1, min((int64_t) a.most_parts, gridDim.x / groups));
}

/* How many rows a warp takes: fewer than it has room for if blocks would have none. */
static __device__ __forceinline__ int
rows_at_once(int64_t works)
{
	int			rows = WARP_ROWS;

	for (; rows > 1 && works > 0 && works * 2 <= gridDim.x; works *= 2)
		rows /= 2;
	return rows;
}

/* The number in the list of row r of a block whose rows begin at `first`; -1: no row. */
static __device__ __forceinline__ int64_t
number_of(int64_t first, int r, int each, int64_t count)
{
	int64_t		at = first + r / WARP_ROWS * each + r % WARP_ROWS;

	return r % WARP_ROWS < each && at < count ? at : -1;
}

/* Lists and decides: 128 rows or fewer, or a part of their centroids, at a time. */
template <int PANEL, bool STAYS> static __global__ void
__launch_bounds__(TILED_THREADS, 2)
flagged_kernel(const __grid_constant__ FlaggedArguments a)
{
	__shared__ int last;
	__half	   *stages = (__half *)
		(((uintptr_t) flagged_memory + lists_bytes(a.staged) + 1023) / 1024 * 1024);
	__half	   *rows = stages + a.stages * PANEL * TILE_COLUMNS;
	int			tiles = tiles_of(a.depth);
	RowShared  *shared = (RowShared *) (rows + (STAYS ? tiles : 2) * BLOCK_ROWS * TILE_COLUMNS);
	WarpRows   *warp = rows_of_warp(threadIdx.x / 32);
	/* makes the compiler see that this is uniform */
	int64_t		count = __shfl_sync(0xffffffffu, *a.flag_count, 0);
	int64_t		groups = (count + BLOCK_ROWS - 1) / BLOCK_ROWS;
	int			parts = parts_of_group(a, groups);
	int			each = rows_at_once(groups * parts);
	groups = (count + each * WARPS - 1) / (each * WARPS);
	if (threadIdx.x % 32 == 0)
		warp->decisions = warp->stopped = 0;
	for (int64_t work = blockIdx.x; work < groups * parts; work += gridDim.x)
	{
		int64_t		first = work / parts * (each * WARPS);
		int			part = (int) (work % parts);
		int			panel = a.panels * part / parts;
		TileStream	stream;

		__syncthreads();
		start_rows(a, shared, [&](int r)
		{
			int64_t		at = number_of(first, r, each, count);

			return at >= 0 ? (int64_t) a.flag_rows[at] : -1;
		});
		stream = start_tiles<PANEL>(a, stages, panel, a.panels * (part + 1) / parts - panel, false,
									false);
		__syncthreads();
		start_warp(a, warp, shared, [&](int r)
		{
			return number_of(first, threadIdx.x / 32 * WARP_ROWS + r, each, count);
		});
		if (STAYS)
			load_rows<4>(a, shared, rows, 0, a.depth);
		while (stream.left > 0)
			list_panel<PANEL, STAYS>(a, shared, stages, rows, &stream);
		if (!warp->stopped)
			decide_listed(a.definition());
		if (parts > 1)
			finish_part(a, work / parts, part, parts, &last);
		else if (threadIdx.x % 32 < WARP_ROWS)
			give_label(a, warp->row[threadIdx.x % 32], warp->which[threadIdx.x % 32]);
	}
}

/* Lists a row's two candidates: number `at` of the pairs. */
static __device__ __forceinline__ void
list_pair(const FlaggedArguments &a, WarpRows *warp, int r, int64_t at, int64_t count)
{
	int			row = at < count ? a.pair_rows[-1 - at] : -1;

	warp->row[r] = row;
	warp->best[r] = 0.0;
	warp->which[r] = INT32_MAX;
	warp->count[r] = row >= 0 ? 2 : 0;
	if (row >= 0)
	{
		warp->listed[r][0] = a.fresh[row];
		warp->listed[r][1] = a.pair_others[-1 - at];
	}
}

/* Decides the rows that have but two candidates: 16 at a time, a warp. */
static __global__ void
__launch_bounds__(TILED_THREADS)
pairs_kernel(const __grid_constant__ FlaggedArguments a)
{
	WarpRows   *warp = rows_of_warp(threadIdx.x / 32);
	int			lane = threadIdx.x % 32;
	int64_t		count = *a.pair_count;
	int64_t		number = (int64_t) blockIdx.x * WARPS + threadIdx.x / 32;

	if (lane == 0)
		warp->decisions = warp->stopped = 0;
	for (int64_t first = number * WARP_ROWS; first < count;
		 first += (int64_t) gridDim.x * WARPS * WARP_ROWS)
	{
		__syncwarp();
		if (lane < WARP_ROWS)
			list_pair(a, warp, lane, first + lane, count);
		if (has_stopped(a, warp))
			return;
		decide_listed(a.definition());
		if (lane < WARP_ROWS)
			give_label(a, warp->row[lane], warp->which[lane]);
	}
}

/* True if a block has room to stage pairs. */
static bool
staging_fits(const Shard &shard, int panel)
{
	return tiled_bytes(panel, false, shard.depth, 2) + lists_bytes(true) <=
		shard.device->shared_memory;
}

/* Enqueues one kernel. */
template <int PANEL, bool STAYS> static void
launch_flagged(Shard &shard, FlaggedArguments &a)
{
	size_t		lists = lists_bytes(a.staged);
	const void *kernel = (const void *) flagged_kernel<PANEL, STAYS>;
	int64_t		groups = (a.rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
	size_t		bytes;
	int			per_processor;

	a.stages = tiled_stages(shard, PANEL, STAYS, lists);
	bytes = tiled_bytes(PANEL, STAYS, a.depth, a.stages) + lists;
	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, TILED_THREADS,
			bytes));
	flagged_kernel<PANEL, STAYS>
		<<<blocks_for(shard, groups * a.most_parts, std::min(per_processor, MOST_BLOCKS)),
		   TILED_THREADS, bytes, shard.device->compute>>>(a);
	GK_LAUNCHED("flagged_kernel");
}

/* Chooses if the rows stay in shared memory. */
template <int PANEL> static void
choose_rows(Shard &shard, FlaggedArguments &a)
{
	a.panels = (a.count + PANEL - 1) / PANEL;
	a.most_parts = std::min(a.panels, MOST_PARTS);
	a.staged = staging_fits(shard, PANEL);
	if (tiled_rows_stay(shard, PANEL, a.panels, lists_bytes(a.staged)))
		launch_flagged<PANEL, true>(shard, a);
	else
		launch_flagged<PANEL, false>(shard, a);
}

/* Blocks of the kernel, at most. */
int64_t
flagged_blocks(const Shard &shard)
{
	return (int64_t) shard.device->processors * MOST_BLOCKS;
}

/* Labels of the rows that have but two candidates, by the definition. */
void
decide_pairs(Shard &shard, const FilterArguments &arguments)
{
	FlaggedArguments a(arguments, shard);
	constexpr int64_t EACH = WARPS * WARP_ROWS;

	a.staged = true;
	pairs_kernel<<<blocks_for(shard, (a.rows + EACH - 1) / EACH, 4), TILED_THREADS,
				   lists_bytes(true), shard.device->compute>>>(a);
	GK_LAUNCHED("pairs_kernel");
}

/* Labels of the flagged rows, by the definition. */
void
decide_flagged(Shard &shard, const FilterArguments &arguments)
{
	FlaggedArguments a(arguments, shard);

	if (tiled_panel(shard, a.count) == 64 || !staging_fits(shard, 128))
		choose_rows<64>(shard, a);
	else
		choose_rows<128>(shard, a);
}

}								/* namespace gk */
