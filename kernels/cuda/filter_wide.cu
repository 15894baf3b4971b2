/*
 * The filter on Hopper: rows of many columns, which do not fit shared memory.
 *
 * Persistent, warp-specialised.  Converter warps read a block's 128 rows, round them to 16 bits
 * and write them to tiles of 64 columns in shared memory; a producer thread streams tiles of the
 * centroids through a ring of stages.  Two consumer warpgroups compare 64 rows each with a panel
 * of 256 centroids at a time; the sums stay in registers over all columns.  If there are several
 * panels, as many tiles of rows as there is room for are kept for all of them; the others pass,
 * once a panel.
 */
#include "epilogue.cuh"
#include "ring.cuh"

namespace gk
{

#define GROUP_ROWS 64			/* of a warpgroup */
#define GROUP_THREADS 128
#define CONSUMER_WARPS 8
#define CONVERTER_WARPS 3
#define WIDE_THREADS ((CONSUMER_WARPS + 1 + CONVERTER_WARPS) * 32)
#define LEAST_COLUMNS 512
#define PART 8					/* eights of centroids whose products become scores at a time … */
#define TOGETHER 2				/* … and of those whose scores are looked at together */
#define TILE_VALUES (BLOCK_ROWS * TILE_COLUMNS)	/* rows, or as many centroids */
#define TILE_BYTES (TILE_VALUES * sizeof(__half))
#define PANEL_CENTROIDS 256

/* Shared memory has room for so many tiles, of rows and of centroids. */
#define TILE_ROOM 14
#define PASSING_SLOTS 6			/* for tiles of rows, if none is kept … */
#define MOST_SLOTS 10			/* … or if some are … */
#define MIXED_SLOTS 3			/* … of which these are for those that pass */
#define MOST_STAGES (TILE_ROOM - PASSING_SLOTS)	/* for those of centroids */
#define WIDE_MEMORY (1024 + TILE_ROOM * TILE_BYTES + PANEL_CENTROIDS * sizeof(float))

#define TILES_AHEAD 2			/* of rows, prefetched into the L2 cache */

/* The arguments, with the shape of what is in shared memory. */
struct WideArguments : FilterArguments
{
	explicit WideArguments(const FilterArguments &common) : FilterArguments(common) {}

	int			panels;			/* of 256 centroids */
	int			kept_slots;		/* tiles of a block's rows that stay for all panels … */
	uint32_t	share;			/* … of all tiles, × 2^32; not used if all stay */
	int			passing_slots;
	int			stages;			/* of centroids */
};

#ifdef HAS_WGMMA

/* The barriers of a block: what is full, and what is empty. */
struct Control
{
	uint64_t	rows_full[MOST_SLOTS];
	uint64_t	rows_empty[MOST_SLOTS];
	uint64_t	full[MOST_STAGES];
	uint64_t	empty[MOST_STAGES];
	uint64_t	lower_full;
	uint64_t	lower_empty;
};

/* What a block has in shared memory. */
struct Memory
{
	__half	   *rows;			/* tiles: those that are kept, then those that pass */
	__half	   *centroids;		/* stages */
	float	   *lower;			/* of a panel */
	Control    *control;

	__device__ __forceinline__ Memory(const WideArguments &a, unsigned char *at, Control *barriers)
		: rows((__half *) at), centroids(rows + (a.kept_slots + a.passing_slots) * TILE_VALUES),
		  lower((float *) (centroids + a.stages * TILE_VALUES)), control(barriers)
	{
	}
};

/* How many times the block takes rows. */
static __device__ __forceinline__ int
turns_of(const WideArguments &a)
{
	int64_t		all = (a.rows + BLOCK_ROWS - 1) / BLOCK_ROWS;

	return blockIdx.x < all ? (int) ((all - blockIdx.x + gridDim.x - 1) / gridDim.x) : 0;
}

/* The first row of the block in a turn. */
static __device__ __forceinline__ int64_t
first_row(int turn)
{
	return ((int64_t) turn * gridDim.x + blockIdx.x) * BLOCK_ROWS;
}

/* True if all tiles of rows are kept for all panels. */
static __device__ __forceinline__ bool
all_kept(const WideArguments &a)
{
	return a.passing_slots == 0;
}

/* True if a tile of rows is kept for all panels: such tiles are evenly spread. */
static __device__ __forceinline__ bool
is_kept(const WideArguments &a, int tile)
{
	return all_kept(a) || __umulhi(tile, a.share) != __umulhi(tile + 1, a.share);
}

/* The slots for rows that a thread has come to, among those that are kept and those that pass. */
struct SlotRings
{
	Ring		kept;
	Ring		passing;

	__device__ __forceinline__ int slot(const WideArguments &a, bool keep) const
	{
		return keep ? kept.stage : a.kept_slots + passing.stage;
	}

	__device__ __forceinline__ uint32_t parity(bool keep) const
	{
		return keep ? kept.parity : passing.parity;
	}

	__device__ __forceinline__ void step(const WideArguments &a, bool keep)
	{
		if (keep)
			kept.step(a.kept_slots);
		else
			passing.step(a.passing_slots);
	}
};

/* Starts the copy of a panel's lower bounds, when those before are not needed any more. */
static __device__ __forceinline__ void
fill_lower(const WideArguments &a, const Memory &memory, int first, int halves, uint32_t parity)
{
	uint32_t	bytes = halves * TILE_CENTROIDS * (uint32_t) sizeof(float);

	wait_barrier(&memory.control->lower_empty, parity);
	expect_bytes(&memory.control->lower_full, bytes);
	copy_bulk(memory.lower, a.lower + (int64_t) first * TILE_CENTROIDS, bytes,
			  &memory.control->lower_full);
}

/* Starts the copy of a tile of 128 centroids, when the stage is empty. */
static __device__ __forceinline__ void
fill_stage(const WideArguments &a, const Memory &memory, const Ring &ring, int64_t tile)
{
	uint64_t   *full = &memory.control->full[ring.stage];

	wait_barrier(&memory.control->empty[ring.stage], ring.parity);
	expect_bytes(full, TILE_BYTES);
	copy_bulk(memory.centroids + ring.stage * TILE_VALUES, a.centroids + tile * TILE_VALUES,
			  TILE_BYTES, full);
}

/* The producer, one thread: streams the centroids over and over. */
static __device__ void
produce(const WideArguments &a, const Memory &memory, int turns)
{
	int			tiles = tiles_of(a.depth);
	int			all = (a.count + TILE_CENTROIDS - 1) / TILE_CENTROIDS;
	uint32_t	parity = 1;		/* of the lower bounds */
	Ring		ring = {0, 1};

	for (int turn = 0; turn < turns; turn++)
		for (int first = 0; first < all; first += 2, parity ^= 1)
			for (int tile = 0; tile < tiles; tile++)
			{
				int			halves = min(2, all - first);

				for (int half = 0; half < halves; half++)
				{
					fill_stage(a, memory, ring, ((int64_t) first + half) * tiles + tile);
					ring.step(a.stages);
				}
				/* late, so that consumers are done with those of the panel before */
				if (tile == tiles / 2)
					fill_lower(a, memory, first, halves, parity);
			}
}

/* A tile of rows that a converter has come to, in the order in which consumers need them. */
struct Cursor
{
	int			turn;
	int			panel;
	int			tile;
	const float *rows;			/* the block's first row of the turn */
	int			last;			/* its last row, counted from there: less than 0 if it has none */

	__device__ __forceinline__ Cursor(const WideArguments &a) : panel(0), tile(0)
	{
		begin_turn(a, 0);
	}

	__device__ __forceinline__ void begin_turn(const WideArguments &a, int which)
	{
		turn = which;
		rows = a.features + first_row(turn) * a.d;
		last = (int) min((int64_t) BLOCK_ROWS, a.rows - first_row(turn)) - 1;
	}

	/* On to the next tile that is not there already. */
	__device__ __forceinline__ void step(const WideArguments &a)
	{
		do
		{
			if (++tile < tiles_of(a.depth))
				continue;
			tile = 0;
			if (++panel == a.panels || all_kept(a))
			{
				panel = 0;
				begin_turn(a, turn + 1);
			}
		} while (panel > 0 && is_kept(a, tile));
	}
};

/* Prefetches the tile that a converter will come to into the L2 cache, with all converters. */
static __device__ __forceinline__ void
prefetch_ahead(const WideArguments &a, Cursor *ahead, int warp)
{
	constexpr int LINES = TILE_COLUMNS / 32;	/* of a row */
	int			lane = threadIdx.x % 32;
	int			j = ahead->tile * TILE_COLUMNS + lane % LINES * 32;

#pragma unroll
	for (int i = 0; i < BLOCK_ROWS * LINES / 32; i += CONVERTER_WARPS)
	{
		int			r = (warp + i) * (32 / LINES) + lane / LINES;

		/* beyond the last turn, there is no last row either */
		if (r <= min(ahead->last, BLOCK_ROWS - 1) && j < a.d)
			asm volatile("prefetch.global.L2 [%0];" :: "l"(ahead->rows + r * a.d + j));
	}
	ahead->step(a);
}

/*
 * Two rows at a time, half a warp each: pair number i of a converter warp.  Each lane has four
 * columns; half of a warp's pairs are on their way while the others are converted.
 */
#define PAIRS ((BLOCK_ROWS / 2 + CONVERTER_WARPS - 1) / CONVERTER_WARPS)
#define HALF ((PAIRS + 1) / 2)
#define PAIR_STEP (2 * CONVERTER_WARPS)		/* rows from a pair to the next */

/* The row of a lane's first pair; rows from 128 on do not exist. */
static __device__ __forceinline__ int
first_of_pairs(int warp)
{
	return warp * 2 + threadIdx.x % 32 / 16;
}

/* The first column of a lane in a tile. */
static __device__ __forceinline__ int
column_of_lane()
{
	return threadIdx.x % 16 * 4;
}

/* Four values of a row, or of its last columns, where those of the centroids are 0. */
template <bool ALIGNED> static __device__ __forceinline__ float4
read_columns(const float *row, int j, int d)
{
	if (ALIGNED)
		return __ldg((const float4 *) (row + min(j, d - 4)));
	return make_float4(__ldg(row + min(j, d - 1)), __ldg(row + min(j + 1, d - 1)),
					   __ldg(row + min(j + 2, d - 1)), __ldg(row + min(j + 3, d - 1)));
}

/* Reads the pairs of one half; instead of rows that do not exist, the last one. */
template <bool ALIGNED> static __device__ __forceinline__ void
read_pairs(const WideArguments &a, const Cursor &at, int warp, int half, float4 (&x)[HALF])
{
	int			r = first_of_pairs(warp) + half * HALF * PAIR_STEP;
	int			j = at.tile * TILE_COLUMNS + column_of_lane();

#pragma unroll
	for (int u = 0; u < HALF; u++)
		x[u] = read_columns<ALIGNED>(at.rows + min(r + u * PAIR_STEP, at.last) * a.d, j, a.d);
}

/* Converts the pairs of one half into a tile. */
static __device__ __forceinline__ void
store_pairs(__half *tile, int warp, int half, const float4 (&x)[HALF], float4 origin,
			const float (&factors)[2])
{
	int			first = first_of_pairs(warp);
	int			part = column_of_lane() / 8;
	float		mine[HALF];

#pragma unroll
	for (int u = 0; u < HALF; u++)
		mine[u] = __shfl_sync(0xffffffffu, factors[(half * HALF + u) / 16],
							  (half * HALF + u) % 16 * 2 + threadIdx.x % 32 / 16);
	tile += column_of_lane() % 8;
#pragma unroll
	for (int u = 0; u < HALF; u++)
	{
		int			i = half * HALF + u;

		/* the swizzle repeats after four pairs */
		if (i + 1 < PAIRS || first + i * PAIR_STEP < BLOCK_ROWS)
			*(uint2 *) (tile + place_of(first + i % 4 * PAIR_STEP, part) +
						i / 4 * 4 * PAIR_STEP * TILE_COLUMNS) = convert(x[u], origin, mine[u]);
	}
}

/* The factors of two rows of a converter warp for each lane: of lane % 2 of two pairs, 16 apart. */
static __device__ __forceinline__ void
read_factors(const WideArguments &a, int turn, int warp, int exponent, float factors[2])
{
	int			lane = threadIdx.x % 32;

#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = first_row(turn) + warp * 2 + (lane / 2 + i * 16) * PAIR_STEP + lane % 2;

		factors[i] = read_bound(row < a.rows ? __ldg(a.bounds + row) : 0, exponent).factor;
	}
}

/* Four columns of a lane of the origin. */
template <bool ALIGNED> static __device__ __forceinline__ float4
read_origin(const WideArguments &a, const Cursor &at)
{
	return read_columns<ALIGNED>(a.origin, at.tile * TILE_COLUMNS + column_of_lane(), a.d);
}

/* A converter warp. */
template <bool ALIGNED> static __device__ __forceinline__ void
convert_all(const WideArguments &a, const Memory &memory, int turns, int warp)
{
	static_assert(PAIRS <= 32 && PAIRS == HALF * 2, "a lane has the factors of two rows");
	int			exponent = a.scale->exponent;
	float		factors[2] = {0.0f, 0.0f};
	Cursor		at(a);
	Cursor		ahead(a);
	SlotRings	rings = {{0, 1}, {0, 1}};
	float4		x[2][HALF];
	float4		origin;

#pragma unroll 1
	for (int i = 0; i < TILES_AHEAD; i++)
		prefetch_ahead(a, &ahead, warp);
	if (turns > 0)
		read_pairs<ALIGNED>(a, at, warp, 0, x[0]);
	origin = read_origin<ALIGNED>(a, at);
	while (at.turn < turns)
	{
		bool		keep = is_kept(a, at.tile);
		int			slot = rings.slot(a, keep);
		__half	   *tile = memory.rows + slot * TILE_VALUES;
		float4		subtracted = origin;

		read_pairs<ALIGNED>(a, at, warp, 1, x[1]);
		prefetch_ahead(a, &ahead, warp);
		if (at.panel == 0 && at.tile == 0)
			read_factors(a, at.turn, warp, exponent, factors);
		wait_barrier(&memory.control->rows_empty[slot], rings.parity(keep));
		store_pairs(tile, warp, 0, x[0], subtracted, factors);
		at.step(a);
		if (at.turn < turns)
			read_pairs<ALIGNED>(a, at, warp, 0, x[0]);
		origin = read_origin<ALIGNED>(a, at);
		store_pairs(tile, warp, 1, x[1], subtracted, factors);
		publish_stores();
		arrive_warp(&memory.control->rows_full[slot]);
		rings.step(a, keep);
	}
}

/* Where a consumer has come to. */
struct Position
{
	Ring		kept;			/* the first of the turn's tiles of rows that are kept */
	Ring		passing;
	Ring		stage;
	uint32_t	lower;			/* the parity of the lower bounds */
};

/* Waits for a tile of rows. */
static __device__ __forceinline__ void
await_rows(const WideArguments &a, const Memory &memory, const SlotRings &rings, bool keep)
{
	wait_barrier(&memory.control->rows_full[rings.slot(a, keep)], rings.parity(keep));
}

/* What products have read: a stage, and a slot, or -1 if its rows are needed further on. */
struct Operands
{
	int			stage;
	int			slot;
};

/* Signals that a warp's products are done with what they read. */
static __device__ __forceinline__ void
release_operands(const Memory &memory, const Operands &operands)
{
	arrive_warp(&memory.control->empty[operands.stage]);
	if (operands.slot >= 0)
		arrive_warp(&memory.control->rows_empty[operands.slot]);
}

/*
 * Multiplies a tile of a warpgroup's rows, in a slot, with the same columns of HALVES × 128
 * centroids, a group of products for each 128; `used`: the operands of the group before.
 */
template <bool FIRST, int HALVES> static __device__ __forceinline__ void
multiply_rows(const WideArguments &a, const Memory &memory, int slot, int group, bool last_use,
			  Ring *stage, Operands *used, float (&sums)[HALVES][TILE_CENTROIDS / 8][4])
{
	uint64_t	rows = describe(memory.rows + slot * TILE_VALUES +
								group * GROUP_ROWS * TILE_COLUMNS);

#pragma unroll
	for (int half = 0; half < HALVES; half++)
	{
		wait_barrier(&memory.control->full[stage->stage], stage->parity);
		multiply_tile(sums[half], rows, describe(memory.centroids + stage->stage * TILE_VALUES),
					  TILE_COLUMNS / 16, FIRST);
		if (!FIRST || half > 0)
		{
			wait_products<1>();
			release_operands(memory, *used);
		}
		*used = {stage->stage, half == HALVES - 1 && last_use ? slot : -1};
		stage->step(a.stages);
	}
}

/* Multiplies a warpgroup's rows with a panel of centroids; `last`: no other follows. */
template <int HALVES> static __device__ __forceinline__ void
multiply_panel(const WideArguments &a, const Memory &memory, Position *at, int group, bool last,
			   float (&sums)[HALVES][TILE_CENTROIDS / 8][4])
{
	SlotRings	rings = {at->kept, at->passing};
	bool		keep = is_kept(a, 0);
	Operands	used;

	/* apart from the others, so that the compiler sees that earlier sums are not used */
	await_rows(a, memory, rings, keep);
	multiply_rows<true>(a, memory, rings.slot(a, keep), group, last || !keep, &at->stage, &used,
						sums);
	for (int tile = 1; tile < tiles_of(a.depth); tile++)
	{
		rings.step(a, keep);
		keep = is_kept(a, tile);
		await_rows(a, memory, rings, keep);
		multiply_rows<false>(a, memory, rings.slot(a, keep), group, last || !keep, &at->stage,
							 &used, sums);
	}
	wait_products<0>();
	release_operands(memory, used);
	rings.step(a, keep);
	at->passing = rings.passing;
	if (last)
		at->kept = rings.kept;
}

/* What a thread knows of its two rows, 8 apart, as it begins with them. */
struct RowsOfThread
{
	int64_t		row[2];			/* -1: none */
	float		back[2];
	float		window[2];		/* more than the bound, whatever the nearest centroid */

	__device__ __forceinline__ RowsOfThread(const WideArguments &a, int64_t first, int exponent)
	{
		float		norm = greatest_norm_of(*a.scale);
		float		error = __uint_as_float(a.scale->greatest_error);

#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			bool		valid = first + i * 8 < a.rows;
			RowBound	bound = read_bound(valid ? __ldg(a.bounds + first + i * 8) : 0, exponent);

			row[i] = valid ? first + i * 8 : -1;
			back[i] = bound.back;
			window[i] = (own_part(bound.norm, bound.error, a.scale->greatest_slack, norm, error) +
						 row_part(a, bound.norm, bound.error)) * (1.0f + 0x1p-10f);
		}
	}
};

/*
 * Lowers the bars of the four threads of a row: what is so far above the least score that its
 * centroid cannot be nearest needs no further work.
 */
static __device__ __forceinline__ void
lower_bars(const float (&window)[2], BestThree best[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
		best[i].third = least_of_four(fminf(best[i].third,
											limit_of(best[i].least, window[i], 0.0f)));
}

/* Merges products of PART × 8 of 128 centroids, from eight FIRST on, into the best three. */
template <int FIRST> static __device__ __forceinline__ void
take_part(const float *lower, const float (&sums)[TILE_CENTROIDS / 8][4], int column,
		  const RowsOfThread &rows, BestThree best[2])
{
	float		scores[PART][4];
	float		least[PART / TOGETHER][2];

#pragma unroll
	for (int n = 0; n < PART; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			scores[n][i] = sums[FIRST + n][i];
	make_scores(scores, rows.back, least,
				[&](int n) { return *(const float2 *) &lower[(FIRST + n) * 8]; });
	take_panel(scores, least, column + FIRST * 8, best);
	lower_bars(rows.window, best);
}

/* Compares a warpgroup's rows with HALVES × 128 centroids from `first` on. */
template <int HALVES> static __device__ __forceinline__ void
compare_panel(const WideArguments &a, const Memory &memory, Position *at, int group, int first,
			  bool last, const RowsOfThread &rows, BestThree best[2])
{
	float		sums[HALVES][TILE_CENTROIDS / 8][4];
	int			mine = threadIdx.x % 4 * 2;

	multiply_panel(a, memory, at, group, last, sums);
	wait_barrier(&memory.control->lower_full, at->lower);
#pragma unroll
	for (int half = 0; half < HALVES; half++)
	{
		const float *lower = memory.lower + half * TILE_CENTROIDS + mine;
		int			column = first + half * TILE_CENTROIDS + mine;

		take_part<0>(lower, sums[half], column, rows, best);
		take_part<PART>(lower, sums[half], column, rows, best);
	}
	arrive_warp(&memory.control->lower_empty);
	at->lower ^= 1;
}

/* A consumer warpgroup. */
static __device__ __forceinline__ void
consume(const WideArguments &a, const Memory &memory, int turns, int group)
{
	int			mine = group * GROUP_ROWS + row_of_thread(threadIdx.x % GROUP_THREADS);
	int			exponent = a.scale->exponent;
	Position	at = {{0, 0}, {0, 0}, {0, 0}, 0};

	for (int turn = 0; turn < turns; turn++)
	{
		const RowsOfThread rows(a, first_row(turn) + mine, exponent);
		BestThree	best[2] = {NOTHING_SEEN, NOTHING_SEEN};
		int			column = 0;

		for (; column + TILE_CENTROIDS < a.count; column += PANEL_CENTROIDS)
			compare_panel<2>(a, memory, &at, group, column,
							 column + PANEL_CENTROIDS >= a.count, rows, best);
		if (column < a.count)
			compare_panel<1>(a, memory, &at, group, column, true, rows, best);
		conclude_rows(a, best, [&](int i) { return rows.row[i]; },
					  [&](int i) { return read_bound(__ldg(a.bounds + rows.row[i]), exponent); });
	}
}

/* Initialises the barriers, by one thread. */
static __device__ void
init_barriers(Control *control)
{
	int			lanes = 32 / LANES_OF_ARRIVAL;

	for (int i = 0; i < MOST_SLOTS; i++)
	{
		ptx::mbarrier_init(&control->rows_full[i], CONVERTER_WARPS * lanes);
		ptx::mbarrier_init(&control->rows_empty[i], CONSUMER_WARPS * lanes);
	}
	for (int i = 0; i < MOST_STAGES; i++)
	{
		ptx::mbarrier_init(&control->full[i], 1);
		ptx::mbarrier_init(&control->empty[i], CONSUMER_WARPS * lanes);
	}
	ptx::mbarrier_init(&control->lower_full, 1);
	ptx::mbarrier_init(&control->lower_empty, CONSUMER_WARPS * lanes);
	ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
}

/* What a warp does that is no consumer. */
static __device__ __forceinline__ void
provide(const WideArguments &a, const Memory &memory, int turns, int warp)
{
	if (warp > CONSUMER_WARPS && a.d % 4 == 0)
		convert_all<true>(a, memory, turns, warp - CONSUMER_WARPS - 1);
	else if (warp > CONSUMER_WARPS)
		convert_all<false>(a, memory, turns, warp - CONSUMER_WARPS - 1);
	else if (threadIdx.x % 32 == 0)
		produce(a, memory, turns);
}

#endif

/* A block: two consumer warpgroups, the producer, and the converters. */
static __global__ void
__launch_bounds__(WIDE_THREADS, 1)
wide_kernel(WideArguments a)
{
#ifdef HAS_WGMMA
	__shared__ Control control;
	extern __shared__ unsigned char wide_memory[];
	const Memory memory(a, (unsigned char *) (((uintptr_t) wide_memory + 1023) / 1024 * 1024),
						&control);
	/* makes the compiler see that these are uniform */
	int			warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
	int			turns = turns_of(a);

	if (threadIdx.x == 0)
		init_barriers(&control);
	__syncthreads();
	/* a thread begins with 168 registers: three warpgroups share three times as many */
	if (warp < CONSUMER_WARPS)
	{
		asm volatile("setmaxnreg.inc.sync.aligned.u32 176;");
		consume(a, memory, turns, warp / 4);
	}
	else
	{
		asm volatile("setmaxnreg.dec.sync.aligned.u32 152;");
		provide(a, memory, turns, warp);
	}
#endif
}

/* Divides shared memory between tiles of rows and stages of centroids. */
static void
shape_memory(WideArguments &a)
{
	int			tiles = tiles_of(a.depth);

	a.panels = (a.count + PANEL_CENTROIDS - 1) / PANEL_CENTROIDS;
	a.kept_slots = a.passing_slots = 0;
	a.share = 0;
	if (a.panels == 1)
		a.passing_slots = PASSING_SLOTS;
	else if (tiles <= MOST_SLOTS)
		a.kept_slots = MOST_SLOTS;
	else
	{
		a.kept_slots = MOST_SLOTS - MIXED_SLOTS;
		a.passing_slots = MIXED_SLOTS;
		/* × all tiles, it is at least `kept_slots` */
		a.share = (uint32_t) (((uint64_t) a.kept_slots << 32) / tiles + 1);
	}
	a.stages = TILE_ROOM - a.kept_slots - a.passing_slots;
}

/* True if there is a kernel for this device, and rows are too wide for others. */
bool
filter_wide_suits(const Shard &shard)
{
	return shard.device->warpgroups && shard.dimension >= LEAST_COLUMNS &&
		shard.device->shared_memory >= WIDE_MEMORY + 1000;
}

/* Rows that all multiprocessors compare at a time. */
int64_t
filter_wide_wave(const Shard &shard)
{
	return (int64_t) shard.device->processors * BLOCK_ROWS;
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_wide(Shard &shard, const FilterArguments &arguments)
{
	WideArguments a(arguments);

	shape_memory(a);
	GK_CUDA(cudaFuncSetAttribute((const void *) wide_kernel,
								 cudaFuncAttributeMaxDynamicSharedMemorySize, WIDE_MEMORY));
	wide_kernel<<<blocks_for(shard, (a.rows + BLOCK_ROWS - 1) / BLOCK_ROWS, 1), WIDE_THREADS,
				  WIDE_MEMORY, shard.device->compute>>>(a);
	GK_LAUNCHED("wide_kernel");
}

}								/* namespace gk */
