/*
 * The filter on Hopper: rows of many columns, which do not fit shared memory.
 *
 * Persistent, warp-specialised.  Converter warps round the block's next rows to 16 bits, into
 * memory of the block that the L2 cache holds, while the tensor cores multiply its current ones.
 * A producer thread streams tiles of both, rows and centroids, through a ring of stages in shared
 * memory.  Two consumer warpgroups compare 64 rows each with 256 centroids at a time; the sums
 * stay in registers over all columns.
 */
#include <algorithm>

#include "epilogue.cuh"
#include "ring.cuh"

namespace gk
{

#define GROUP_ROWS 64			/* of a warpgroup */
#define GROUP_THREADS 128
#define CONSUMER_WARPS 8
#define CONVERTER_WARPS 3
#define WARP_ROWS ((BLOCK_ROWS + CONVERTER_WARPS - 1) / CONVERTER_WARPS)	/* of a converter */
#define WIDE_THREADS ((CONSUMER_WARPS + 1 + CONVERTER_WARPS) * 32)
#define STAGES 4
#define LEAST_COLUMNS 512
#define MOST_BYTES (UINT64_C(512) << 20)	/* of converted rows */
#define SLOTS 2					/* rows at a time: current and next */
#define PART 8					/* eights of centroids whose scores are looked at together */
#define ROW_TILE (BLOCK_ROWS * TILE_COLUMNS)
#define CENTROID_TILE (TILE_CENTROIDS * TILE_COLUMNS)

/* The arguments, with the memory for converted rows. */
struct WideArguments : FilterArguments
{
	explicit WideArguments(const FilterArguments &common) : FilterArguments(common) {}

	__half	   *converted;		/* [block][slot][tile]: 128 rows × 64 columns */
	int			slots;
};

#ifdef HAS_WGMMA

/* A stage of the ring: a tile of rows, and two of centroids; the last of a panel with bounds. */
struct Stage
{
	__half		rows[ROW_TILE];
	__half		centroids[2 * CENTROID_TILE];
	float		lower[2 * TILE_CENTROIDS];
};

/* The barriers of a block. */
struct Control
{
	uint64_t	full[STAGES];
	uint64_t	empty[STAGES];
	uint64_t	ready[SLOTS];	/* rows are converted */
	uint64_t	done[SLOTS];	/* rows are compared */
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

/* The memory for the converted rows of a turn. */
static __device__ __forceinline__ __half *
converted_rows(const WideArguments &a, int turn)
{
	return a.converted +
		((int64_t) blockIdx.x * a.slots + turn % SLOTS) * tiles_of(a.depth) * ROW_TILE;
}

/* Fills a stage: tile `tile` of the block's rows and of one panel of the centroids. */
static __device__ __forceinline__ void
fill_stage(const WideArguments &a, Stage *stage, uint64_t *full, const __half *rows, int first,
		   int tile)
{
	int			tiles = tiles_of(a.depth);
	int			panels = min(2, (a.count + TILE_CENTROIDS - 1) / TILE_CENTROIDS - first);
	bool		last = tile == tiles - 1;
	uint32_t	bounds = last ? panels * TILE_CENTROIDS * (int) sizeof(float) : 0;
	const __half *centroids = a.centroids + ((int64_t) first * tiles + tile) * CENTROID_TILE;

	expect_bytes(full, (ROW_TILE + panels * CENTROID_TILE) * (int) sizeof(__half) + bounds);
	copy_bulk(stage->rows, rows + (int64_t) tile * ROW_TILE, sizeof(stage->rows), full);
	copy_bulk(stage->centroids, centroids, CENTROID_TILE * sizeof(__half), full);
	if (panels == 2)
		copy_bulk(stage->centroids + CENTROID_TILE, centroids + (int64_t) tiles * CENTROID_TILE,
				  CENTROID_TILE * sizeof(__half), full);
	if (last)
		copy_bulk(stage->lower, a.lower + (int64_t) first * TILE_CENTROIDS, bounds, full);
}

/* The producer, one thread: streams rows and centroids. */
static __device__ void
produce(const WideArguments &a, Stage *stages, Control *control, int turns)
{
	int			tiles = tiles_of(a.depth);
	Ring		ring = {0, 1};

	for (int turn = 0; turn < turns; turn++)
	{
		const __half *rows = converted_rows(a, turn);

		wait_barrier(&control->ready[turn % SLOTS], turn / SLOTS % 2);
		ptx::fence_proxy_async();
		for (int first = 0; first * TILE_CENTROIDS < a.count; first += 2)
			for (int tile = 0; tile < tiles; tile++)
			{
				wait_barrier(&control->empty[ring.stage], ring.parity);
				fill_stage(a, &stages[ring.stage], &control->full[ring.stage], rows, first, tile);
				ring.step(STAGES);
			}
	}
}

/* Prefetches 128 columns of a converter warp's rows of a turn into the L2 cache. */
static __device__ __forceinline__ void
prefetch_columns(const WideArguments &a, int turn, int warp, int column)
{
	for (int at = threadIdx.x % 32; at < WARP_ROWS * 4; at += 32)
	{
		int			r = warp + at / 4 * CONVERTER_WARPS;
		int			j = column + at % 4 * 32;
		int64_t		row = first_row(turn) + r;

		if (r < BLOCK_ROWS && row < a.rows && j < a.d)
			asm volatile("prefetch.global.L2 [%0];" :: "l"(a.features + row * a.d + j));
	}
}

/* The factors of two of a warp's rows for each lane: of rows number lane and lane + 32. */
static __device__ __forceinline__ void
read_factors(const WideArguments &a, int turn, int warp, int exponent, float factors[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		int			r = warp + (threadIdx.x % 32 + i * 32) * CONVERTER_WARPS;
		int64_t		row = first_row(turn) + r;
		bool		valid = r < BLOCK_ROWS && row < a.rows;

		factors[i] = read_bound(valid ? __ldg(a.bounds + row) : 0, exponent).factor;
	}
}

/* Converts 128 columns of every CONVERTER_WARPS-th row of a turn, from lane's column j on. */
template <bool ALIGNED> static __device__ __forceinline__ void
convert_columns(const WideArguments &a, int turn, int warp, int j, const float factors[2])
{
	constexpr int AHEAD = ALIGNED ? 6 : 3;
	const float *from = a.features + (first_row(turn) + warp) * a.d;
	const int64_t step = (int64_t) a.d * CONVERTER_WARPS;
	__half	   *to = converted_rows(a, turn) + (int64_t) (j / TILE_COLUMNS) * ROW_TILE + j % 8;
	int			rows = (int) min((int64_t) BLOCK_ROWS, a.rows - first_row(turn));
	float4		origin = read_four(a.origin, j, a.d, ALIGNED);

#pragma unroll 1
	for (int i = 0; i < WARP_ROWS; i += AHEAD)
	{
		float4		x[AHEAD];

#pragma unroll
		for (int u = 0; u < AHEAD; u++)
		{
			x[u] = make_float4(0, 0, 0, 0);
			if (warp + (i + u) * CONVERTER_WARPS < rows)
				x[u] = read_four(from, j, a.d, ALIGNED);
			from += step;
		}
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
		{
			int			r = warp + (i + u) * CONVERTER_WARPS;
			float		factor = __shfl_sync(0xffffffffu, i + u < 32 ? factors[0] : factors[1],
											 (i + u) % 32);

			if (r < BLOCK_ROWS && j < tiles_of(a.depth) * TILE_COLUMNS)
				*(uint2 *) (to + place_of(r, j % TILE_COLUMNS / 8)) = convert(x[u], origin, factor);
		}
	}
}

/* Converts every CONVERTER_WARPS-th row of a turn. */
static __device__ __forceinline__ void
convert_rows(const WideArguments &a, int turn, int warp, int exponent)
{
	int			columns = tiles_of(a.depth) * TILE_COLUMNS;
	float		factors[2];

	read_factors(a, turn, warp, exponent, factors);
	for (int from = 0; from < columns; from += 128)
	{
		int			j = from + threadIdx.x % 32 * 4;

		if (from + 128 < columns)
			prefetch_columns(a, turn, warp, from + 128);
		else
			prefetch_columns(a, turn + 1, warp, 0);
		if (a.d % 4 == 0)
			convert_columns<true>(a, turn, warp, j, factors);
		else
			convert_columns<false>(a, turn, warp, j, factors);
	}
}

/* A converter warp: a turn ahead of the consumers. */
static __device__ __forceinline__ void
convert_all(const WideArguments &a, Control *control, int turns, int warp)
{
	int			exponent = a.scale->exponent;

	for (int turn = 0; turn < turns; turn++)
	{
		if (turn >= SLOTS)
			wait_barrier(&control->done[turn % SLOTS], (turn / SLOTS - 1) % 2);
		convert_rows(a, turn, warp, exponent);
		/* the copies that read the rows are not ordered with stores otherwise */
		__threadfence();
		ptx::fence_proxy_async();
		arrive_warp(&control->ready[turn % SLOTS]);
	}
}

/* Multiplies a warpgroup's rows with a panel of centroids; keeps the stage of the last tile. */
template <int EIGHTS> static __device__ __forceinline__ Ring
multiply_panel(const WideArguments &a, const Stage *stages, Control *control, Ring ring, int group,
			   float (&sums)[EIGHTS][4])
{
	const int	rows = group * GROUP_ROWS * TILE_COLUMNS;

	/* apart from the others, so that the compiler sees that earlier sums are not used */
	wait_barrier(&control->full[ring.stage], ring.parity);
	multiply_tile(sums, describe(stages[ring.stage].rows + rows),
				  describe(stages[ring.stage].centroids), TILE_COLUMNS / 16, true);
	for (int tile = tiles_of(a.depth) - 1; tile > 0; tile--)
	{
		int			before = ring.stage;

		ring.step(STAGES);
		wait_barrier(&control->full[ring.stage], ring.parity);
		multiply_tile(sums, describe(stages[ring.stage].rows + rows),
					  describe(stages[ring.stage].centroids), TILE_COLUMNS / 16, false);
		wait_products<1>();
		arrive_warp(&control->empty[before]);
	}
	wait_products<0>();
	return ring;
}

/* Merges products of PART × 8 centroids, from eight FIRST of a panel on, into the best two. */
template <int FIRST, int EIGHTS> static __device__ __forceinline__ void
take_part(const float *lower, float (&sums)[EIGHTS][4], int column, const float (&back)[2],
		  Best best[2])
{
	float		scores[PART][4];
	float		least[1][2];

#pragma unroll
	for (int n = 0; n < PART; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			scores[n][i] = sums[FIRST + n][i];
	make_scores(scores, back, least,
				[&](int n) { return *(const float2 *) &lower[(FIRST + n) * 8]; });
	take_panel(scores, least, column + FIRST * 8, best);
}

/* Compares a warpgroup's rows with EIGHTS × 8 centroids from `first` on. */
template <int EIGHTS> static __device__ __forceinline__ Ring
compare_panel(const WideArguments &a, const Stage *stages, Control *control, Ring ring, int group,
			  int first, const float (&back)[2], Best best[2])
{
	float		sums[EIGHTS][4];
	int			column = first + threadIdx.x % 4 * 2;
	const float *lower;

	ring = multiply_panel(a, stages, control, ring, group, sums);
	lower = stages[ring.stage].lower + threadIdx.x % 4 * 2;
	take_part<0>(lower, sums, column, back, best);
	take_part<PART>(lower, sums, column, back, best);
	if (EIGHTS > 2 * PART)
	{
		take_part<2 * PART % EIGHTS>(lower, sums, column, back, best);
		take_part<3 * PART % EIGHTS>(lower, sums, column, back, best);
	}
	arrive_warp(&control->empty[ring.stage]);
	ring.step(STAGES);
	return ring;
}

/* Begins with a thread's two rows. */
static __device__ __forceinline__ void
begin_rows(const WideArguments &a, int64_t first, const int r[2], int exponent, float back[2],
		   Best best[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		bool		valid = first + r[i] < a.rows;

		back[i] = read_bound(valid ? __ldg(a.bounds + first + r[i]) : 0, exponent).back;
		best[i] = {NO_SCORE, NO_SCORE, 0};
	}
}

/* A consumer warpgroup. */
static __device__ __forceinline__ void
consume(const WideArguments &a, const Stage *stages, Control *control, int turns, int group)
{
	const int	r[2] = {group * GROUP_ROWS + row_of_thread(threadIdx.x % GROUP_THREADS),
		group * GROUP_ROWS + row_of_thread(threadIdx.x % GROUP_THREADS) + 8};
	int			exponent = a.scale->exponent;
	Ring		ring = {0, 0};

	for (int turn = 0; turn < turns; turn++)
	{
		int64_t		first = first_row(turn);
		int			column = 0;
		float		back[2];
		Best		best[2];

		begin_rows(a, first, r, exponent, back, best);
		for (; column + TILE_CENTROIDS < a.count; column += 2 * TILE_CENTROIDS)
			ring = compare_panel<TILE_CENTROIDS / 4>(a, stages, control, ring, group, column, back,
													 best);
		if (column < a.count)
			ring = compare_panel<TILE_CENTROIDS / 8>(a, stages, control, ring, group, column, back,
													 best);
		arrive_warp(&control->done[turn % SLOTS]);
		conclude_rows(a, best, [&](int i) { return first + r[i] < a.rows ? first + r[i] : -1; },
					  [&](int i) { return read_bound(__ldg(a.bounds + first + r[i]), exponent); });
	}
}

/* Initialises the barriers, by one thread. */
static __device__ void
init_barriers(Control *control)
{
	int			lanes = 32 / LANES_OF_ARRIVAL;

	for (int i = 0; i < STAGES; i++)
	{
		ptx::mbarrier_init(&control->full[i], 1);
		ptx::mbarrier_init(&control->empty[i], CONSUMER_WARPS * lanes);
	}
	for (int i = 0; i < SLOTS; i++)
	{
		ptx::mbarrier_init(&control->ready[i], CONVERTER_WARPS * lanes);
		ptx::mbarrier_init(&control->done[i], CONSUMER_WARPS * lanes);
	}
	ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
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
	Stage	   *stages = (Stage *) (((uintptr_t) wide_memory + 1023) / 1024 * 1024);
	/* makes the compiler see that these are uniform */
	int			warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
	int			turns = turns_of(a);

	if (threadIdx.x == 0)
		init_barriers(&control);
	__syncthreads();
	/* a thread begins with 168 registers: three warpgroups share three times as many */
	if (warp < CONSUMER_WARPS)
	{
		asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
		consume(a, stages, &control, turns, warp / 4);
	}
	else
	{
		asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
		if (warp > CONSUMER_WARPS)
			convert_all(a, &control, turns, warp - CONSUMER_WARPS - 1);
		else if (threadIdx.x % 32 == 0)
			produce(a, stages, &control, turns);
	}
#endif
}

/* Bytes of shared memory for the stages. */
static size_t
stages_bytes()
{
	return 1024 + STAGES * (size_t) ((ROW_TILE + 2 * CENTROID_TILE) * sizeof(__half) +
									 2 * TILE_CENTROIDS * sizeof(float));
}

/* Values of the converted rows of a block. */
static int64_t
block_values(const Shard &shard)
{
	return (int64_t) tiles_of(shard.depth) * ROW_TILE;
}

/* The most blocks for so many rows. */
static int64_t
most_blocks(const Shard &shard, int64_t rows)
{
	return std::min<int64_t>((rows + BLOCK_ROWS - 1) / BLOCK_ROWS, shard.device->processors);
}

/* The blocks of a launch, and the slots of each. */
struct Layout
{
	int64_t		blocks;			/* 0 = too few to be of use */
	int			slots;
};

/* The blocks for so many rows whose converted rows fit so many values. */
static Layout
layout_for(const Shard &shard, int64_t rows, int64_t values)
{
	int64_t		most = most_blocks(shard, rows);
	int64_t		blocks = std::min(most, values / (SLOTS * block_values(shard)));

	if (rows <= most * BLOCK_ROWS && most * block_values(shard) <= values)
		return {most, 1};
	return {blocks * 4 < most ? 0 : blocks, SLOTS};
}

/* True if there is a kernel for this device, and rows are too wide for others. */
bool
filter_wide_suits(const Shard &shard)
{
	cudaFuncAttributes attributes;

	if (shard.device->major != 9 || shard.dimension < LEAST_COLUMNS ||
		shard.device->shared_memory < stages_bytes() + (2 << 10))
		return false;
	/* built for another device, the kernel is empty and has no barriers */
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) wide_kernel));
	return attributes.sharedSizeBytes > 0;
}

/* Allocates memory for the converted rows of slices of so many rows, unless it is too much. */
void
reserve_wide(Shard &shard, int64_t rows)
{
	uint64_t	allowed = std::min<uint64_t>(shard.account.limit / 8, MOST_BYTES);
	Layout		layout = layout_for(shard, rows, (int64_t) (allowed / sizeof(__half)));

	shard.converted.reserve(shard, layout.blocks * layout.slots * block_values(shard));
}

/* True if the memory for converted rows is there as well. */
bool
filter_wide_fits(const Shard &shard, int64_t rows)
{
	return shard.converted.get() != nullptr &&
		layout_for(shard, rows, (int64_t) shard.converted.capacity()).blocks > 0;
}

/* Rows that all multiprocessors compare at a time. */
int64_t
filter_wide_wave(const Shard &shard)
{
	return most_blocks(shard, INT64_MAX / 2) * BLOCK_ROWS;
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_wide(Shard &shard, const FilterArguments &arguments)
{
	WideArguments a(arguments);
	Layout		layout = layout_for(shard, a.rows, (int64_t) shard.converted.capacity());

	a.converted = shard.converted.get();
	a.slots = layout.slots;
	GK_CUDA(cudaFuncSetAttribute((const void *) wide_kernel,
								 cudaFuncAttributeMaxDynamicSharedMemorySize,
								 (int) stages_bytes()));
	wide_kernel<<<(int) layout.blocks, WIDE_THREADS, stages_bytes(), shard.device->compute>>>(a);
	GK_LAUNCHED("wide_kernel");
}

}								/* namespace gk */
