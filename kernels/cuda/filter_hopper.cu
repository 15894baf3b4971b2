/*
 * The filter on Hopper: many centroids, rows of up to 512 columns.
 *
 * Persistent, warp-specialised: a producer thread streams tiles of centroids through a ring of
 * stages in shared memory, over and over; consumer warpgroups keep 64 rows each in registers, see
 * every centroid once, and move on to their next rows.  They start at staggered offsets, so that
 * some read rows or run their epilogue while the tensor cores multiply for the others.
 *
 * Centroids come in the order of their lower bounds.  So the first lower bound of a part of them
 * and the greatest product show whether any score of the part can matter: mostly, none is computed.
 */
#include <algorithm>

#include "epilogue.cuh"
#include "ring.cuh"

namespace gk
{

#define GROUP_THREADS 128
#define GROUP_ROWS 64
#define MOST_WARPGROUPS 3
#define MOST_TILES 8
#define STAGES 13				/* as many as fit */
#define TILE_VALUES (TILE_CENTROIDS * TILE_COLUMNS)
#define TILE_STEPS (TILE_COLUMNS / 16)
#define EIGHTS (TILE_CENTROIDS / 8)
#define PARTS 4					/* of a panel of centroids */
#define PART (EIGHTS / PARTS)

/* How many consumer warpgroups have the registers for rows of so many tiles. */
template <int TILES> struct Shape
{
	static constexpr int WARPGROUPS = TILES <= 4 ? 3 : 2;
	static constexpr int THREADS = (WARPGROUPS + 1) * GROUP_THREADS;
	static constexpr int REGISTERS = WARPGROUPS == 3 ? 160 : 240;	/* of a consumer's thread */
	static constexpr int ROWS = WARPGROUPS * GROUP_ROWS;
};

/* A stage of the ring: a tile of centroids; the last of a panel comes with their lower bounds. */
struct Stage
{
	__half		values[TILE_VALUES];
	float		lower[TILE_CENTROIDS];
	float		unused[256 - TILE_CENTROIDS];	/* tiles begin at multiples of 1024 bytes */
};

/* The scores of a block's rows from which on none matters: a shared array. */
typedef float Bars[MOST_WARPGROUPS][GROUP_ROWS];

/* The arguments, with the panels of centroids. */
struct HopperArguments : FilterArguments
{
	explicit HopperArguments(const FilterArguments &common)
		: FilterArguments(common), panels((count + TILE_CENTROIDS - 1) / TILE_CENTROIDS)
	{
	}

	int			panels;
};

#ifdef HAS_WGMMA

/* The ring: stages, and barriers of those that are full and those that are empty. */
struct Stages
{
	Stage	   *stages;
	uint64_t   *full;
	uint64_t   *empty;
};

/* The work of a warpgroup: rows first, first + step, … from a panel of the stream on. */
struct Plan
{
	int64_t		first;
	int			groups;			/* of rows */
	int			begin;			/* panel of the stream */

	__device__ __forceinline__ Plan(const HopperArguments &a, int warpgroups, int group)
	{
		int			all = (int) ((a.rows + GROUP_ROWS - 1) / GROUP_ROWS);
		int			mine = (int) blockIdx.x * warpgroups + group;
		int			step = (int) gridDim.x * warpgroups;

		first = (int64_t) mine * GROUP_ROWS;
		groups = mine < all ? (all - mine + step - 1) / step : 0;
		begin = groups == 0 ? 0 : (int) ((int64_t) a.panels * group / warpgroups);
	}

	__device__ __forceinline__ int64_t end(int panels) const
	{
		return begin + (int64_t) groups * panels;
	}
};

/* The end of the stream: panels that a block sees. */
template <int TILES> static __device__ __forceinline__ int64_t
end_of(const HopperArguments &a)
{
	int64_t		end = 0;

	for (int i = 0; i < Shape<TILES>::WARPGROUPS; i++)
		end = max(end, Plan(a, Shape<TILES>::WARPGROUPS, i).end(a.panels));
	return end;
}

/* The producer, one thread: streams the centroids over and over. */
template <int TILES> static __device__ void
produce(const HopperArguments &a, const Stages &stages)
{
	int64_t		end = end_of<TILES>(a);
	Ring		ring = {0, 1};
	int			panel = 0;

	for (int64_t at = 0; at < end; at++)
	{
		for (int tile = 0; tile < TILES; tile++)
		{
			bool		last = tile == TILES - 1;
			Stage	   *stage = &stages.stages[ring.stage];
			uint64_t   *full = &stages.full[ring.stage];

			wait_barrier(&stages.empty[ring.stage], ring.parity);
			expect_bytes(full, sizeof(stage->values) + (last ? sizeof(stage->lower) : 0));
			copy_bulk(stage->values, a.sorted + ((int64_t) panel * TILES + tile) * TILE_VALUES,
					  sizeof(stage->values), full);
			if (last)
				copy_bulk(stage->lower, a.sorted_lower + (int64_t) panel * TILE_CENTROIDS,
						  sizeof(stage->lower), full);
			ring.step(STAGES);
		}
		panel = panel + 1 == a.panels ? 0 : panel + 1;
	}
}

/* Four values of a row from column j on, a multiple of 4, in reads of so many; 0 past the end. */
template <int ALIGNED> static __device__ __forceinline__ float4
read_values(const float *row, int j, int d)
{
	float2		low = make_float2(0, 0);
	float2		high = make_float2(0, 0);

	if constexpr (ALIGNED != 2)
		return read_four(row, j, d, ALIGNED == 4);
	if (j < d)
		low = __ldg((const float2 *) (row + j));
	if (j + 2 < d)
		high = __ldg((const float2 *) (row + j + 2));
	return make_float4(low.x, low.y, high.x, high.y);
}

/* A thread's two rows, 8 apart; past the last row, that one again. */
struct TwoRows
{
	int64_t		row[2];
	uint32_t	codes[2];		/* of the bounds */
	int			centroids[2];	/* the previous labels; -1: unknown */

	__device__ __forceinline__ TwoRows(const HopperArguments &a, int64_t first)
	{
#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			row[i] = min(first + i * 8, a.rows - 1);
			codes[i] = __ldg(a.bounds + row[i]);
			centroids[i] = a.labels != nullptr ? a.labels[row[i]] : -1;
		}
	}
};

/* What a thread knows of its two rows. */
template <int TILES> struct Rows
{
	/*
	 * columns 4 q to 4 q + 3 of every 16, q = lane % 4; sorted centroids have the same ones where
	 * wgmma takes these to be
	 */
	uint32_t	values[TILES * TILE_STEPS][4];
	float		sums[EIGHTS][4];
	float		back[2];
	Best		best[2];
};

/* Reads and converts a thread's share of a tile of its rows. */
template <int TILE, int ALIGNED, int TILES> static __device__ __forceinline__ void
load_tile(const HopperArguments &a, const float *const (&from)[2], const float (&factor)[2],
		  Rows<TILES> &rows)
{
	int			first = TILE * TILE_COLUMNS + threadIdx.x % 4 * 4;
	float4		x[TILE_STEPS][2];
	float4		origin[TILE_STEPS];

#pragma unroll
	for (int s = 0; s < TILE_STEPS; s++)
	{
		x[s][0] = read_values<ALIGNED>(from[0], first + s * 16, a.d);
		x[s][1] = read_values<ALIGNED>(from[1], first + s * 16, a.d);
		origin[s] = read_values<ALIGNED>(a.origin, first + s * 16, a.d);
	}
#pragma unroll
	for (int s = 0; s < TILE_STEPS; s++)
#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			uint2		four = convert(x[s][i], origin[s], factor[i]);

			rows.values[TILE * TILE_STEPS + s][i] = four.x;
			rows.values[TILE * TILE_STEPS + s][i + 2] = four.y;
		}
	/* keeps the loads of the next tile, and their registers, from being hoisted */
	__syncwarp();
	if constexpr (TILE + 1 < TILES)
		load_tile<TILE + 1, ALIGNED>(a, from, factor, rows);
}

/* A thread's part of the product of its row I and a centroid. */
template <int I, int TILES> static __device__ __forceinline__ float
product_part(const HopperArguments &a, const Rows<TILES> &rows, int centroid)
{
	const __half *tile = a.centroids + place_of_centroid(a.depth, centroid / 8 * 8, 0) +
		centroid % 8 * TILE_COLUMNS + threadIdx.x % 2 * 4;
	float		sum = 0.0f;

#pragma unroll
	for (int s = 0; s < TILES * TILE_STEPS; s++)
	{
		int			part = s % TILE_STEPS * 2 + threadIdx.x % 4 / 2;
		uint2		c = __ldg((const uint2 *) (tile + s / TILE_STEPS * TILE_VALUES +
											   (part ^ (centroid & 7)) * 8));
		float2		u = __half22float2(*(const __half2 *) &rows.values[s][I]);
		float2		v = __half22float2(*(const __half2 *) &c.x);

		sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
		u = __half22float2(*(const __half2 *) &rows.values[s][I + 2]);
		v = __half22float2(*(const __half2 *) &c.y);
		sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
	}
	return sum;
}

/*
 * Upper bound on the winning score of a thread's row I, as start_score() has it; centroids of
 * other labels are those of the first.
 */
template <int I, int TILES> static __device__ __forceinline__ float
start_row(const HopperArguments &a, const Rows<TILES> &rows, int label, const RowBound &bound)
{
	bool		known = label >= 0 && label < a.count;
	int			centroid = known ? label : 0;
	float		limit = start_limit(a, product_part<I>(a, rows, centroid), centroid, bound);

	return known && limit < NO_SCORE ? limit : NO_SCORE;
}

/* |ŷ|² of a thread's row I, in the scale of the centroids. */
template <int I, int TILES> static __device__ __forceinline__ float
norm2_of(const Rows<TILES> &rows)
{
	float		sum = 0.0f;

#pragma unroll
	for (int s = 0; s < TILES * TILE_STEPS; s++)
#pragma unroll
		for (int i = I; i < 4; i += 2)
		{
			float2		v = __half22float2(*(const __half2 *) &rows.values[s][i]);

			sum = fmaf(v.x, v.x, fmaf(v.y, v.y, sum));
		}
	sum += __shfl_xor_sync(0xffffffffu, sum, 1);
	sum += __shfl_xor_sync(0xffffffffu, sum, 2);
	return sum * rows.back[I] * rows.back[I];
}

/* The score from which on a centroid is not nearer than a row's distance; NO_SCORE if not known. */
template <int I, int TILES> static __device__ __forceinline__ float
nearer_bar(const HopperArguments &a, const Rows<TILES> &rows, int64_t row, int exponent,
		   const RowBound &bound)
{
	float		far = __double2float_ru(ldexp(a.distances[row], 2 * exponent));
	float		bar = 0.5f * (far - norm2_of<I>(rows)) + far * 0x1p-20f + 0x1p-140f +
		bound.norm * (bound.error + bound.norm * 0x1p-16f) +
		row_part(a, bound.norm, bound.error);

	/* exact scores are shifted */
	return a.scale->exact || !(fabsf(bar) < NO_SCORE) ? NO_SCORE : bar;
}

/* Begins with the next rows of a warpgroup: their values, bounds and first scores. */
template <int TILES> static __device__ __forceinline__ void
begin_rows(const HopperArguments &a, int64_t first, int exponent, float *bars, Rows<TILES> &rows)
{
	TwoRows		two(a, first);
	RowBound	bounds[2] = {read_bound(two.codes[0], exponent),
		read_bound(two.codes[1], exponent)};
	const float *from[2] = {a.features + two.row[0] * a.d, a.features + two.row[1] * a.d};
	float		factor[2] = {bounds[0].factor, bounds[1].factor};

#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		rows.back[i] = bounds[i].back;
		rows.best[i] = {NO_SCORE, NO_SCORE, 0};
	}
	if (a.d % 4 == 0)
		load_tile<0, 4>(a, from, factor, rows);
	else if (a.d % 2 == 0)
		load_tile<0, 2>(a, from, factor, rows);
	else
		load_tile<0, 1>(a, from, factor, rows);
	if (a.distances != nullptr)
	{
		rows.best[0].second = nearer_bar<0>(a, rows, two.row[0], exponent, bounds[0]);
		rows.best[1].second = nearer_bar<1>(a, rows, two.row[1], exponent, bounds[1]);
		bars[0] = rows.best[0].second;
		bars[8] = rows.best[1].second;
	}
	if (a.labels == nullptr)
		return;
	rows.best[0].second = start_row<0>(a, rows, two.centroids[0], bounds[0]);
	rows.best[1].second = start_row<1>(a, rows, two.centroids[1], bounds[1]);
}

/* Merges the best two of a row from another thread. */
static __device__ __forceinline__ void
join_other(Best *best, const Best &sent, int other)
{
	join(best, __shfl_xor_sync(0xffffffffu, sent.least, other),
		 __shfl_xor_sync(0xffffffffu, sent.second, other),
		 __shfl_xor_sync(0xffffffffu, sent.centroid, other));
}

/* One of two. */
static __device__ __forceinline__ Best
choose(bool second, const Best &a, const Best &b)
{
	return {second ? b.least : a.least, second ? b.second : a.second,
		second ? b.centroid : a.centroid};
}

/* Labels or flags the two rows of four threads, by the first two of these. */
template <int TILES> static __device__ __forceinline__ void
conclude_two(const HopperArguments &a, int64_t first, int exponent, const float *bars,
			 const Rows<TILES> &rows)
{
	bool		odd = threadIdx.x & 1;
	int64_t		row = first + (odd ? 8 : 0);
	Best		best = choose(odd, rows.best[0], rows.best[1]);

	join_other(&best, choose(odd, rows.best[1], rows.best[0]), 1);
	join_other(&best, best, 2);
	if (threadIdx.x % 4 < 2 && row < a.rows)
	{
		RowBound	bound = read_bound(__ldg(a.bounds + row), exponent);
		float		bar = a.distances != nullptr ? bars[odd ? 8 : 0] : NO_SCORE;

		/* others do not matter */
		if (bar < NO_SCORE && !(best.second < bar))
			best.second = INFINITY;
		best.centroid = __ldg(a.numbers + best.centroid);
		conclude(a, row, best, limit_of(best.least, own_of(a, bound, best.centroid),
										row_part(a, bound.norm, bound.error)), bound.back);
	}
}

/* Starts to multiply 64 rows with a panel of centroids, LAST × 16 deep in its last tile. */
template <int LAST, int TILES> static __device__ __forceinline__ void
multiply_panel(const Stages &stages, Ring ring, Rows<TILES> &rows)
{
	uint32_t	right[TILES];

	/* all waits come first: products of two basic blocks would be two groups */
#pragma unroll
	for (int tile = 0; tile < TILES; tile++)
	{
		right[tile] = describe_low(shared_address(stages.stages[ring.stage].values));
		wait_barrier(&stages.full[ring.stage], ring.parity);
		ring.step(STAGES);
	}
	start_products();
#pragma unroll
	for (int s = 0; s < (TILES - 1) * TILE_STEPS + LAST; s++)
		multiply(rows.sums, rows.values[s], right[s / TILE_STEPS] + s % TILE_STEPS * 2, s > 0);
	commit_products();
	wait_products<0>();
}

/* The greatest product of part P of a panel with row I, or 0: as integers, as these order alike. */
template <int I, int P> static __device__ __forceinline__ float
greatest_product(const float (&sums)[EIGHTS][4])
{
	int			greatest = 0;

#pragma unroll
	for (int n = P * PART; n < (P + 1) * PART; n++)
		greatest = __vimax3_s32(greatest, __float_as_int(sums[n][I * 2]),
								__float_as_int(sums[n][I * 2 + 1]));
	return __int_as_float(greatest);
}

/* Merges the scores of part P of a panel, of which this is the last stage, for row I. */
template <int I, int P, int TILES> static __device__ __forceinline__ void
take_part(const Stage &stage, int panel, Rows<TILES> &rows)
{
	int			column = P * PART * 8 + threadIdx.x % 4 * 2;
	int			centroid = panel * TILE_CENTROIDS + column;
	float		scores[PART][2];

	/* in place, as there are no registers to spare */
#pragma unroll
	for (int n = 0; n < PART; n++)
	{
		float2		bounds = *(const float2 *) &stage.lower[column + n * 8];
		const float *sums = &rows.sums[P * PART + n][I * 2];

		scores[n][0] = fmaf(sums[0], rows.back[I], bounds.x);
		scores[n][1] = fmaf(sums[1], rows.back[I], bounds.y);
	}
#pragma unroll
	for (int n = 0; n < PART; n++)
	{
		take_score(&rows.best[I], scores[n][0], centroid + n * 8);
		take_score(&rows.best[I], scores[n][1], centroid + n * 8 + 1);
	}
}

/* True if part P of a panel may have a score that matters to row I of any thread of the warp. */
template <int I, int P, int TILES> static __device__ __forceinline__ bool
may_matter(const Stage &stage, const Rows<TILES> &rows)
{
	float		lowest = stage.lower[P * PART * 8];
	float		bound = fmaf(greatest_product<I, P>(rows.sums), rows.back[I], lowest);

	return __any_sync(0xffffffffu, bound < bar_of(rows.best[I]));
}

/* Merges the scores of parts of a panel, from P on, that may matter. */
template <int P, int TILES> static __device__ __forceinline__ void
take_parts(const Stage &stage, int panel, const bool (&matters)[PARTS][2], Rows<TILES> &rows)
{
	if (matters[P][0])
		take_part<0, P>(stage, panel, rows);
	if (matters[P][1])
		take_part<1, P>(stage, panel, rows);
	if constexpr (P + 1 < PARTS)
		take_parts<P + 1>(stage, panel, matters, rows);
}

/* Finds out which parts of a panel, from P on, may matter. */
template <int P, int TILES> static __device__ __forceinline__ void
look_at_parts(const Stage &stage, const Rows<TILES> &rows, bool (&matters)[PARTS][2])
{
	matters[P][0] = may_matter<0, P>(stage, rows);
	matters[P][1] = may_matter<1, P>(stage, rows);
	if constexpr (P + 1 < PARTS)
		look_at_parts<P + 1>(stage, rows, matters);
}

/*
 * Gives the four threads of a row the second least score that they have seen together: scores
 * above it need no further work.  It pays as long as no previous label gives a bound.
 */
template <int TILES> static __device__ __forceinline__ void
share_seconds(Rows<TILES> &rows)
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		Best		best = rows.best[i];

		join_other(&best, best, 1);
		join_other(&best, best, 2);
		rows.best[i].second = best.second;
	}
}

/* True if that pays off after so many panels: later, little changes. */
static __device__ __forceinline__ bool
shares_after(int panels)
{
	return panels < 8 || panels % 4 == 0;
}

/* Signals that a warp has read so many stages. */
template <int COUNT> static __device__ __forceinline__ Ring
release_stages(const Stages &stages, Ring ring)
{
#pragma unroll
	for (int i = 0; i < COUNT; i++)
	{
		arrive_warp(&stages.empty[ring.stage]);
		ring.step(STAGES);
	}
	return ring;
}

/* Skips panels of centroids. */
template <int TILES> static __device__ __forceinline__ Ring
skip_panels(const Stages &stages, Ring ring, int64_t panels)
{
	for (int64_t left = panels * TILES; left > 0; left--)
	{
		wait_barrier(&stages.full[ring.stage], ring.parity);
		ring = release_stages<1>(stages, ring);
	}
	return ring;
}

/* Compares a warpgroup's rows with all panels of centroids, from one on. */
template <int LAST, int TILES> static __device__ __forceinline__ Ring
compare_rows(const HopperArguments &a, const Stages &stages, Ring ring, int panel,
			 Rows<TILES> &rows)
{
	for (int left = a.panels; left > 0; left--)
	{
		bool		matters[PARTS][2];

		multiply_panel<LAST>(stages, ring, rows);
		ring = release_stages<TILES - 1>(stages, ring);
		look_at_parts<0>(stages.stages[ring.stage], rows, matters);
		take_parts<0>(stages.stages[ring.stage], panel, matters, rows);
		ring = release_stages<1>(stages, ring);
		if (a.labels == nullptr && a.distances == nullptr && shares_after(a.panels - left))
			share_seconds(rows);
		panel = panel + 1 == a.panels ? 0 : panel + 1;
	}
	return ring;
}

/* Prefetches a warpgroup's next rows into the L2 cache, with their bounds and labels. */
static __device__ __forceinline__ void
prefetch_next(const HopperArguments &a, int64_t first)
{
	int64_t		row = first + threadIdx.x % GROUP_THREADS * 32;

	prefetch_rows<GROUP_THREADS>(a, first, GROUP_ROWS);
	if (row < min(first + GROUP_ROWS, a.rows))
	{
		asm volatile("prefetch.global.L2 [%0];" :: "l"(a.bounds + row));
		if (a.labels != nullptr)
			asm volatile("prefetch.global.L2 [%0];" :: "l"(a.labels + row));
	}
}

/* A consumer warpgroup, the `group`-th. */
template <int TILES, int LAST> static __device__ __forceinline__ void
consume(const HopperArguments &a, const Stages &stages, Bars &bars, int group)
{
	using Shape = gk::Shape<TILES>;
	int			mine = row_of_thread(threadIdx.x % GROUP_THREADS);
	int			exponent = a.scale->exponent;
	Plan		plan(a, Shape::WARPGROUPS, group);
	Ring		ring = skip_panels<TILES>(stages, {0, 0}, plan.begin);
	int64_t		first = plan.first;
	Rows<TILES>	rows;

	for (int left = plan.groups; left > 0; left--)
	{
		begin_rows(a, first + mine, exponent, &bars[group][mine], rows);
		prefetch_next(a, first + (int) gridDim.x * Shape::ROWS);
		ring = compare_rows<LAST>(a, stages, ring, plan.begin, rows);
		conclude_two(a, first + mine, exponent, &bars[group][mine], rows);
		first += (int) gridDim.x * Shape::ROWS;
	}
	plan = Plan(a, Shape::WARPGROUPS, group);
	skip_panels<TILES>(stages, ring, end_of<TILES>(a) - plan.end(a.panels));
}

#endif

/* A block: consumer warpgroups and a producer warp. */
template <int TILES, int LAST> static __global__ void
__launch_bounds__(Shape<TILES>::THREADS, 1)
hopper_kernel(const __grid_constant__ HopperArguments a)
{
#ifdef HAS_WGMMA
	constexpr int WARPGROUPS = Shape<TILES>::WARPGROUPS;
	__shared__ uint64_t full[STAGES];
	__shared__ uint64_t empty[STAGES];
	__shared__ Bars bars;
	extern __shared__ unsigned char hopper_memory[];
	Stages		stages = {(Stage *) (hopper_memory + -shared_address(hopper_memory) % 1024), full,
		empty};
	/* makes the compiler see that this is uniform */
	int			group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP_THREADS, 0);

	if (threadIdx.x == 0)
	{
		for (int i = 0; i < STAGES; i++)
		{
			ptx::mbarrier_init(&full[i], 1);
			ptx::mbarrier_init(&empty[i], WARPGROUPS * GROUP_THREADS / LANES_OF_ARRIVAL);
		}
		ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
	}
	__syncthreads();
	if (group == WARPGROUPS)
	{
		asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
		if (threadIdx.x % GROUP_THREADS == 0)
			produce<TILES>(a, stages);
	}
	else
	{
		asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(Shape<TILES>::REGISTERS));
		consume<TILES, LAST>(a, stages, bars, group);
	}
#endif
}

/* Calls f with the shape of the kernel for rows of so many columns, and the kernel. */
template <int TILES, typename F> static auto
with_tiles(int depth, F f)
{
	if constexpr (TILES < MOST_TILES)
		if (depth > TILES * TILE_COLUMNS)
			return with_tiles<TILES + 1>(depth, f);
	/* for the deeper rows, a wasted half of the last tile matters little */
	if constexpr (TILES <= 4)
		if (depth <= TILES * TILE_COLUMNS - TILE_COLUMNS / 2)
			return f(Shape<TILES>(), hopper_kernel<TILES, TILE_STEPS / 2>);
	return f(Shape<TILES>(), hopper_kernel<TILES, TILE_STEPS>);
}

/* Bytes of shared memory that the ring may need. */
#define RING_BYTES (1024 + STAGES * (int) sizeof(Stage))

/* True if there is a kernel for this device and rows of so many columns. */
bool
filter_hopper_fits(const Shard &shard, int64_t centroids)
{
	return shard.device->warpgroups && centroids > TILE_CENTROIDS &&
		tiles_of(shard.depth) <= MOST_TILES && shard.device->shared_memory >= RING_BYTES + 1024;
}

/* Rows that all multiprocessors compare at a time. */
int64_t
filter_hopper_wave(const Shard &shard)
{
	return with_tiles<1>(shard.depth, [&](auto shape, auto)
	{
		return (int64_t) shard.device->processors * shape.ROWS;
	});
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_hopper(Shard &shard, const FilterArguments &arguments)
{
	HopperArguments a(arguments);

	with_tiles<1>(a.depth, [&](auto shape, auto kernel)
	{
		GK_CUDA(cudaFuncSetAttribute((const void *) kernel,
									 cudaFuncAttributeMaxDynamicSharedMemorySize, RING_BYTES));
		kernel<<<blocks_for(shard, (a.rows + shape.ROWS - 1) / shape.ROWS, 1), shape.THREADS,
			RING_BYTES, shard.device->compute>>>(a);
	});
	GK_LAUNCHED("hopper_kernel");
}

}								/* namespace gk */
