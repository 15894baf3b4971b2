/*
 * The filter on Hopper: rows of many columns, which do not fit shared memory.
 *
 * Persistent, warp-specialised.  Converter warps round the block's next rows to 16 bits, into
 * memory of the block that the L2 cache holds, while the tensor cores multiply its current ones.
 * A producer thread streams tiles of both, rows and centroids, through a ring of stages in shared
 * memory.  Two consumer warpgroups compare 64 rows each with 256 centroids at a time; the sums
 * stay in registers over all columns.  Blocks form clusters, which read each tile of centroids
 * once, in parts, for all of their blocks.
 */
#include <algorithm>
#include <cstdlib>

#include "epilogue.cuh"
#include "ring.cuh"

namespace gk
{

#define BLOCK_ROWS 128
#define GROUP_ROWS 64			/* of a warpgroup */
#define GROUP_THREADS 128
#define CONSUMER_WARPS 8
#define CONVERTER_WARPS 3
#define WIDE_THREADS ((CONSUMER_WARPS + 1 + CONVERTER_WARPS) * 32)
#define STAGES 4
#define CLUSTER_BLOCKS 2
#define MOST_BYTES (UINT64_C(512) << 20)	/* of converted rows */
#define SLOTS 2					/* rows at a time: current and next */
#define PREFETCHED_ROWS 4		/* of each converter warp */
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

/* The rank of the block in its cluster. */
static __device__ __forceinline__ uint32_t
rank_in_cluster()
{
	uint32_t	rank;

	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	return rank;
}

/* A barrier for all threads of a cluster. */
template <int CLUSTER> static __device__ __forceinline__ void
sync_cluster()
{
	if (CLUSTER == 1)
		__syncthreads();
	else
		asm volatile("barrier.cluster.arrive.release.aligned;\n"
					 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Signals all blocks of the cluster that a warp has read its part of a stage. */
template <int CLUSTER> static __device__ __forceinline__ void
release_stage(uint64_t *empty)
{
	if (CLUSTER == 1)
	{
		arrive_warp(empty);
		return;
	}
	__syncwarp();
	if (threadIdx.x % LANES_OF_ARRIVAL == 0)
#pragma unroll
		for (int rank = 0; rank < CLUSTER; rank++)
			asm volatile("{\n.reg .b32 remote;\n"
						 "mapa.shared::cluster.u32 remote, %0, %1;\n"
						 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}"
						 :: "r"(shared_address(empty)), "r"(rank) : "memory");
}

/* Copies a part of the bytes to the same place in all blocks of the cluster. */
template <int CLUSTER> static __device__ __forceinline__ void
copy_to_cluster(__half *to, const __half *from, int values, uint64_t *barrier, uint32_t rank)
{
	int			part = values / CLUSTER;

	if (CLUSTER == 1)
		copy_bulk(to, from, values * (uint32_t) sizeof(__half), barrier);
	else
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
					 ".multicast::cluster [%0], [%1], %2, [%3], %4;"
					 :: "r"(shared_address(to + rank * part)), "l"(from + rank * part),
					 "r"(part * (int) sizeof(__half)), "r"(shared_address(barrier)),
					 "h"((uint16_t) ((1 << CLUSTER) - 1)) : "memory");
}

/* The blocks of rows of a cluster's first block: all its blocks take as many. */
template <int CLUSTER> static __device__ __forceinline__ int
turns_of(const WideArguments &a)
{
	int64_t		all = (a.rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
	int64_t		first = blockIdx.x / CLUSTER * CLUSTER;

	return first < all ? (int) ((all - first + gridDim.x - 1) / gridDim.x) : 0;
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
template <int CLUSTER> static __device__ __forceinline__ void
fill_stage(const WideArguments &a, Stage *stage, uint64_t *full, const __half *rows, int first,
		   int tile, uint32_t rank)
{
	int			tiles = tiles_of(a.depth);
	int			panels = min(2, (a.count + TILE_CENTROIDS - 1) / TILE_CENTROIDS - first);
	bool		last = tile == tiles - 1;
	uint32_t	bounds = last ? panels * TILE_CENTROIDS * (int) sizeof(float) : 0;
	const __half *centroids = a.centroids + ((int64_t) first * tiles + tile) * CENTROID_TILE;

	expect_bytes(full, (ROW_TILE + panels * CENTROID_TILE) * (int) sizeof(__half) + bounds);
	copy_bulk(stage->rows, rows + (int64_t) tile * ROW_TILE, sizeof(stage->rows), full);
	copy_to_cluster<CLUSTER>(stage->centroids, centroids, CENTROID_TILE, full, rank);
	if (panels == 2)
		copy_to_cluster<CLUSTER>(stage->centroids + CENTROID_TILE,
								 centroids + (int64_t) tiles * CENTROID_TILE, CENTROID_TILE, full,
								 rank);
	if (last)
		copy_bulk(stage->lower, a.lower + (int64_t) first * TILE_CENTROIDS, bounds, full);
}

/* The producer, one thread: streams rows and centroids. */
template <int CLUSTER> static __device__ void
produce(const WideArguments &a, Stage *stages, Control *control, int turns)
{
	int			tiles = tiles_of(a.depth);
	uint32_t	rank = rank_in_cluster();
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
				fill_stage<CLUSTER>(a, &stages[ring.stage], &control->full[ring.stage], rows,
									first, tile, rank);
				ring.step(STAGES);
			}
	}
}

/* Prefetches row r of the block, or of its next turn, into the L2 cache, by a warp. */
static __device__ __forceinline__ void
prefetch_row(const WideArguments &a, int turn, int r)
{
	int64_t		row = first_row(turn + r / BLOCK_ROWS) + r % BLOCK_ROWS;
	const char *from = (const char *) (a.features + row * a.d);

	if (row < a.rows)
		for (int at = threadIdx.x % 32 * 128; at < a.d * (int) sizeof(float); at += 32 * 128)
			asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at));
}

/* A converter warp's place in the rows of a turn: 128 columns of every CONVERTER_WARPS-th row. */
struct Place
{
	const float *row;
	int			number;			/* of the row, among those of the warp */
	int			column;			/* of the lane */

	/* On to the next columns, or the next row. */
	__device__ __forceinline__ void step(int d, int columns)
	{
		column += 128;
		if (column / 128 * 128 >= columns)
		{
			column -= (columns + 127) / 128 * 128;
			number++;
			row += (int64_t) d * CONVERTER_WARPS;
		}
	}
};

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

/* Converts four values of a row that is there, and stores them in its tile. */
template <bool ALIGNED> static __device__ __forceinline__ void
store_place(const WideArguments &a, __half *to, int r, int j, float4 x, float factor)
{
	if (r < BLOCK_ROWS && j < tiles_of(a.depth) * TILE_COLUMNS)
		*(uint2 *) (to + j / TILE_COLUMNS * ROW_TILE + place_of(r, j % TILE_COLUMNS / 8) + j % 8) =
			convert(x, read_four(a.origin, j, a.d, ALIGNED), factor);
}

/* Converts every CONVERTER_WARPS-th row of a turn, AHEAD × 128 columns at a time. */
template <bool ALIGNED, int AHEAD> static __device__ __forceinline__ void
convert_rows(const WideArguments &a, int turn, int warp, int exponent)
{
	int			columns = tiles_of(a.depth) * TILE_COLUMNS;
	int			rows = (int) min((int64_t) BLOCK_ROWS, a.rows - first_row(turn));
	int			valid = (rows - warp + CONVERTER_WARPS - 1) / CONVERTER_WARPS;
	Place		next = {a.features + (first_row(turn) + warp) * a.d, 0, (int) threadIdx.x % 32 * 4};
	float		factors[2];
	int			prefetched = 0;

	read_factors(a, turn, warp, exponent, factors);
	while (warp + next.number * CONVERTER_WARPS < BLOCK_ROWS)
	{
		Place		place = next;
		float4		x[AHEAD];

		for (; prefetched <= next.number; prefetched++)
			prefetch_row(a, turn, warp + (prefetched + PREFETCHED_ROWS) * CONVERTER_WARPS);
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
		{
			x[u] = make_float4(0, 0, 0, 0);
			if (next.number < valid)
				x[u] = read_four(next.row, next.column, a.d, ALIGNED);
			next.step(a.d, columns);
		}
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
		{
			float		factor = __shfl_sync(0xffffffffu, place.number < 32 ? factors[0] : factors[1],
											 place.number % 32);

			store_place<ALIGNED>(a, converted_rows(a, turn), warp + place.number * CONVERTER_WARPS,
								 place.column, x[u], factor);
			place.step(a.d, columns);
		}
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
		if (a.d % 4 == 0)
			convert_rows<true, 8>(a, turn, warp, exponent);
		else
			convert_rows<false, 4>(a, turn, warp, exponent);
		/* the copies that read the rows are not ordered with stores otherwise */
		__threadfence();
		ptx::fence_proxy_async();
		arrive_warp(&control->ready[turn % SLOTS]);
	}
}

/* Multiplies a warpgroup's rows with a panel of centroids; keeps the stage of the last tile. */
template <int CLUSTER, int EIGHTS> static __device__ __forceinline__ Ring
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
		release_stage<CLUSTER>(&control->empty[before]);
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
template <int CLUSTER, int EIGHTS> static __device__ __forceinline__ Ring
compare_panel(const WideArguments &a, const Stage *stages, Control *control, Ring ring, int group,
			  int first, const float (&back)[2], Best best[2])
{
	float		sums[EIGHTS][4];
	int			column = first + threadIdx.x % 4 * 2;
	const float *lower;

	ring = multiply_panel<CLUSTER>(a, stages, control, ring, group, sums);
	lower = stages[ring.stage].lower + threadIdx.x % 4 * 2;
	take_part<0>(lower, sums, column, back, best);
	take_part<PART>(lower, sums, column, back, best);
	if (EIGHTS > 2 * PART)
	{
		take_part<2 * PART % EIGHTS>(lower, sums, column, back, best);
		take_part<3 * PART % EIGHTS>(lower, sums, column, back, best);
	}
	release_stage<CLUSTER>(&control->empty[ring.stage]);
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
template <int CLUSTER> static __device__ __forceinline__ void
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
			ring = compare_panel<CLUSTER, TILE_CENTROIDS / 4>(a, stages, control, ring, group,
															  column, back, best);
		if (column < a.count)
			ring = compare_panel<CLUSTER, TILE_CENTROIDS / 8>(a, stages, control, ring, group,
															  column, back, best);
		arrive_warp(&control->done[turn % SLOTS]);
		conclude_rows(a, best, [&](int i) { return first + r[i] < a.rows ? first + r[i] : -1; },
					  [&](int i) { return read_bound(__ldg(a.bounds + first + r[i]), exponent); });
	}
}

/* Initialises the barriers, by one thread. */
static __device__ void
init_barriers(Control *control, int cluster)
{
	int			lanes = 32 / LANES_OF_ARRIVAL;

	for (int i = 0; i < STAGES; i++)
	{
		ptx::mbarrier_init(&control->full[i], 1);
		ptx::mbarrier_init(&control->empty[i], CONSUMER_WARPS * cluster * lanes);
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
template <int CLUSTER> static __global__ void
__launch_bounds__(WIDE_THREADS, 1)
wide_kernel(WideArguments a)
{
#ifdef HAS_WGMMA
	__shared__ Control control;
	extern __shared__ unsigned char wide_memory[];
	Stage	   *stages = (Stage *) (((uintptr_t) wide_memory + 1023) / 1024 * 1024);
	/* makes the compiler see that these are uniform */
	int			warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
	int			turns = turns_of<CLUSTER>(a);

	if (threadIdx.x == 0)
		init_barriers(&control, CLUSTER);
	sync_cluster<CLUSTER>();
	/* a thread begins with 168 registers: three warpgroups share three times as many */
	if (warp < CONSUMER_WARPS)
	{
		asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
		consume<CLUSTER>(a, stages, &control, turns, warp / 4);
	}
	else
	{
		asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
		if (warp > CONSUMER_WARPS)
			convert_all(a, &control, turns, warp - CONSUMER_WARPS - 1);
		else if (threadIdx.x % 32 == 0)
			produce<CLUSTER>(a, stages, &control, turns);
	}
	__syncwarp();
	/* no block may end while others of the cluster copy to it */
	sync_cluster<CLUSTER>();
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
	int64_t		needed = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;

	return std::min<int64_t>((needed + CLUSTER_BLOCKS - 1) / CLUSTER_BLOCKS,
							 shard.device->processors / CLUSTER_BLOCKS) * CLUSTER_BLOCKS;
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
	int64_t		fit = values / (SLOTS * block_values(shard)) / CLUSTER_BLOCKS * CLUSTER_BLOCKS;
	int64_t		blocks = std::min(most, fit);

	if (rows <= most * BLOCK_ROWS && most * block_values(shard) <= values)
		return {most, 1};
	return {blocks * 4 < most ? 0 : blocks, SLOTS};
}

/* True if there is a kernel for this device, and rows are too wide for others. */
bool
filter_wide_suits(const Shard &shard)
{
	cudaFuncAttributes attributes;
	int			least = getenv("GK_WIDE_FROM") ? atoi(getenv("GK_WIDE_FROM")) : 513;

	if (shard.device->major != 9 || shard.dimension < least ||
		shard.device->shared_memory < stages_bytes() + (2 << 10))
		return false;
	/* built for another device, the kernel is empty and has no barriers */
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) wide_kernel<CLUSTER_BLOCKS>));
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

/* Enqueues the kernel. */
template <int CLUSTER> static void
launch(Shard &shard, const WideArguments &a, int blocks)
{
	cudaLaunchConfig_t config = {};
	cudaLaunchAttribute cluster;

	cluster.id = cudaLaunchAttributeClusterDimension;
	cluster.val.clusterDim.x = CLUSTER;
	cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
	config.gridDim = dim3(blocks);
	config.blockDim = dim3(WIDE_THREADS);
	config.dynamicSmemBytes = stages_bytes();
	config.stream = shard.device->compute;
	config.attrs = &cluster;
	config.numAttrs = 1;
	GK_CUDA(cudaFuncSetAttribute((const void *) wide_kernel<CLUSTER>,
								 cudaFuncAttributeMaxDynamicSharedMemorySize,
								 (int) stages_bytes()));
	GK_CUDA(cudaLaunchKernelEx(&config, wide_kernel<CLUSTER>, a));
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_wide(Shard &shard, const FilterArguments &arguments)
{
	WideArguments a(arguments);
	Layout		layout = layout_for(shard, a.rows, (int64_t) shard.converted.capacity());
	int			blocks = (int) layout.blocks;

	a.converted = shard.converted.get();
	a.slots = layout.slots;
	if (getenv("GK_WIDE_CLUSTER") && atoi(getenv("GK_WIDE_CLUSTER")) == 1)
		launch<1>(shard, a, blocks);
	else
		launch<CLUSTER_BLOCKS>(shard, a, blocks);
}

}								/* namespace gk */
