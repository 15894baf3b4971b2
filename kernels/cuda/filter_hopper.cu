/*
 * The filter on Hopper: many centroids, rows of up to 512 columns.
 *
 * Persistent, warp-specialised: a producer warp streams tiles of centroids through a ring of
 * stages in shared memory, over and over; WARPGROUPS consumer warpgroups hold 64 rows each, see
 * every centroid once, and move on to their next rows.  They start at staggered offsets, so that
 * some convert rows or run their epilogue while the tensor cores multiply for the others.
 */
#include <algorithm>

#include "epilogue.cuh"
#include "ring.cuh"

namespace gk
{

#define GROUP_THREADS 128
#define GROUP_ROWS 64
#define MOST_STAGES 12
#define TILE_VALUES (TILE_CENTROIDS * TILE_COLUMNS)
#define EIGHTS (TILE_CENTROIDS / 8)
#define PARTS 4					/* of a panel of centroids */

/* A stage of the ring: a tile of centroids; the last of a panel comes with their lower bounds. */
struct Stage
{
	__half		values[TILE_VALUES];
	float		lower[TILE_CENTROIDS];
	float		unused[256 - TILE_CENTROIDS];	/* tiles begin at multiples of 1024 bytes */
};

/* The arguments, with the panels of centroids and the stages of the ring. */
struct HopperArguments : FilterArguments
{
	explicit HopperArguments(const FilterArguments &common)
		: FilterArguments(common), panels((count + TILE_CENTROIDS - 1) / TILE_CENTROIDS), stages(0)
	{
	}

	int			panels;
	int			stages;
};

#ifdef HAS_WGMMA

/* A barrier for the threads of a warpgroup. */
static __device__ __forceinline__ void
sync_warpgroup(int group)
{
	asm volatile("bar.sync %0, %1;" :: "r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

/* The work of a warpgroup: rows first, first + step, … from a panel of the stream on. */
struct Plan
{
	int64_t		first;
	int64_t		step;
	int64_t		groups;			/* of rows */
	int64_t		begin;			/* panel of the stream */

	__device__ __forceinline__ Plan(const HopperArguments &a, int warpgroups, int group)
	{
		int64_t		all = (a.rows + GROUP_ROWS - 1) / GROUP_ROWS;
		int64_t		mine = (int64_t) blockIdx.x * warpgroups + group;

		step = (int64_t) gridDim.x * warpgroups;
		first = mine * GROUP_ROWS;
		groups = mine < all ? (all - mine + step - 1) / step : 0;
		begin = (int64_t) a.panels * group / warpgroups;
	}

	__device__ __forceinline__ int64_t end(int panels) const
	{
		return groups == 0 ? 0 : begin + groups * panels;
	}
};

/* The producer, one thread: streams the centroids over and over. */
static __device__ void
produce(const HopperArguments &a, Stage *stages, uint64_t *full, uint64_t *empty, int64_t end)
{
	int			tiles = tiles_of(a.depth);
	Ring		ring = {0, 1};
	int			panel = 0;

	for (int64_t at = 0; at < end; at++)
	{
		for (int tile = 0; tile < tiles; tile++)
		{
			bool		last = tile == tiles - 1;
			Stage	   *stage = &stages[ring.stage];
			uint64_t   *barrier = &full[ring.stage];

			wait_barrier(&empty[ring.stage], ring.parity);
			expect_bytes(barrier, sizeof(stage->values) + (last ? sizeof(stage->lower) : 0));
			copy_bulk(stage->values, a.centroids + ((int64_t) panel * tiles + tile) * TILE_VALUES,
					  sizeof(stage->values), barrier);
			if (last)
				copy_bulk(stage->lower, a.lower + (int64_t) panel * TILE_CENTROIDS,
						  sizeof(stage->lower), barrier);
			ring.step(a.stages);
		}
		panel = panel + 1 == a.panels ? 0 : panel + 1;
	}
}

/* Converts a warpgroup's rows into tiles of 64 rows: 16 rows a warp, four columns a thread. */
static __device__ __forceinline__ void
load_rows(const HopperArguments &a, __half *to, int64_t first, int exponent)
{
	constexpr int AHEAD = 4;
	constexpr int ROWS = 16;
	bool		aligned = a.d % 4 == 0;
	int			lane = threadIdx.x % 32;
	int			begin = threadIdx.x % GROUP_THREADS / 32 * ROWS;
	int			valid = (int) min((int64_t) ROWS, a.rows - first - begin);
	const float *from = a.features + (first + begin) * a.d;
	float		factor =
		read_bound(lane < valid ? __ldg(a.bounds + first + begin + lane) : 0, exponent).factor;

	for (int j = lane * 4; j - lane * 4 < a.depth; j += 128)
	{
		float4		origin = read_four(a.origin, j, a.d, aligned);
		__half	   *column = to + j / TILE_COLUMNS * GROUP_ROWS * TILE_COLUMNS + j % 8;
		int			part = j % TILE_COLUMNS / 8;

#pragma unroll
		for (int r = 0; r < ROWS; r += AHEAD)
		{
			float4		x[AHEAD];

#pragma unroll
			for (int u = 0; u < AHEAD; u++)
				x[u] = r + u < valid ? read_four(from + (r + u) * a.d, j, a.d, aligned) :
					make_float4(0, 0, 0, 0);
#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				uint2		both = convert(x[u], origin, __shfl_sync(0xffffffffu, factor, r + u));

				if (j < a.depth)
					*(uint2 *) (column + place_of(begin + r + u, part)) = both;
			}
		}
	}
}

/*
 * Multiplies a warpgroup's rows with a panel of centroids as its tiles arrive; keeps the stage
 * of the last tile.
 */
static __device__ __forceinline__ Ring
multiply_panel(const HopperArguments &a, const __half *rows, Stage *stages, uint64_t *full,
			   uint64_t *empty, Ring ring, float (&sums)[EIGHTS][4])
{
	int			tiles = tiles_of(a.depth);
	int			before = 0;

	for (int tile = 0; tile < tiles; tile++)
	{
		uint64_t	left = describe(rows + tile * GROUP_ROWS * TILE_COLUMNS);
		uint64_t	right = describe(stages[ring.stage].values);
		int			steps = min(TILE_COLUMNS, a.depth - tile * TILE_COLUMNS) / 16;

		wait_barrier(&full[ring.stage], ring.parity);
		multiply_tile(sums, left, right, steps, tile == 0);
		if (tile > 0)
		{
			wait_products<1>();
			arrive_warp(&empty[before]);
		}
		before = ring.stage;
		if (tile < tiles - 1)
			ring.step(a.stages);
	}
	wait_products<0>();
	return ring;
}

/* Skips a panel of centroids. */
static __device__ __forceinline__ Ring
skip_panel(const HopperArguments &a, uint64_t *full, uint64_t *empty, Ring ring)
{
	for (int tile = 0; tile < tiles_of(a.depth); tile++)
	{
		wait_barrier(&full[ring.stage], ring.parity);
		arrive_warp(&empty[ring.stage]);
		ring.step(a.stages);
	}
	return ring;
}

/* Reads the bounds of a thread's two rows, and their previous labels; -1: unknown. */
static __device__ __forceinline__ void
read_rows(const HopperArguments &a, int64_t first, const int r[2], uint32_t codes[2],
		  int centroids[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		bool		valid = first + r[i] < a.rows;

		codes[i] = valid ? __ldg(a.bounds + first + r[i]) : 0;
		centroids[i] = valid && a.labels != nullptr ? a.labels[first + r[i]] : -1;
	}
}

/* Begins with the next rows of a warpgroup: their values, bounds and first scores. */
static __device__ __forceinline__ void
begin_rows(const HopperArguments &a, __half *rows, const int r[2], int64_t first, int64_t next,
		   int exponent, int group, float back[2], Best best[2])
{
	uint32_t	codes[2];
	int			centroids[2];

	read_rows(a, first, r, codes, centroids);
	load_rows(a, rows, first, exponent);
	prefetch_rows<GROUP_THREADS>(a, next, GROUP_ROWS);
	publish_stores();
	sync_warpgroup(group);
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		RowBound	bound = read_bound(codes[i], exponent);

		back[i] = bound.back;
		best[i] = {NO_SCORE, 0.0f, 0};
		best[i].second = start_score<GROUP_ROWS>(a, rows, r[i], centroids[i], bound);
	}
}

/* Turns the products of a panel into scores, with the lower bounds in its last stage. */
static __device__ __forceinline__ void
score_panel(const Stage &stage, float (&sums)[EIGHTS][4], const float (&back)[2],
			float (&least)[PARTS][2])
{
	make_scores(sums, back, least, [&](int n)
	{
		return *(const float2 *) &stage.lower[threadIdx.x % 4 * 2 + n * 8];
	});
}

/* A consumer warpgroup. */
static __device__ __forceinline__ void
consume(const HopperArguments &a, __half *rows, Stage *stages, uint64_t *full, uint64_t *empty,
			 const Plan &plan, int group, int64_t end)
{
	const int	r[2] = {row_of_thread(threadIdx.x % GROUP_THREADS),
		row_of_thread(threadIdx.x % GROUP_THREADS) + 8};
	int64_t		first = plan.first;
	int64_t		mine = plan.end(a.panels);
	float		back[2];
	Best		best[2];
	Ring		ring = {0, 0};
	int			panel = 0;
	int			left = 0;		/* panels that the rows have yet to see */
	int			exponent = a.scale->exponent;

	for (int64_t at = 0; at < end; at++)
	{
		float		sums[EIGHTS][4];
		int			column = panel * TILE_CENTROIDS + threadIdx.x % 4 * 2;
		float		least[PARTS][2];

		panel = panel + 1 == a.panels ? 0 : panel + 1;
		if (at < plan.begin || at >= mine)
		{
			ring = skip_panel(a, full, empty, ring);
			continue;
		}
		if (left == 0)
		{
			begin_rows(a, rows, r, first, first + plan.step * GROUP_ROWS, exponent, group, back,
					   best);
			left = a.panels;
		}
		ring = multiply_panel(a, rows, stages, full, empty, ring, sums);
		score_panel(stages[ring.stage], sums, back, least);
		arrive_warp(&empty[ring.stage]);
		ring.step(a.stages);
		take_panel(sums, least, column, best);
		if (--left == 0)
		{
			conclude_rows(a, best, [&](int i) { return first + r[i] < a.rows ? first + r[i] : -1; },
						  [&](int i)
						  { return read_bound(__ldg(a.bounds + first + r[i]), exponent); });
			first += plan.step * GROUP_ROWS;
			/* all threads have read what the next rows overwrite */
			sync_warpgroup(group);
		}
	}
}

#endif

/* A block: WARPGROUPS consumer warpgroups and a producer warp. */
template <int WARPGROUPS> static __global__ void
__launch_bounds__((WARPGROUPS + 1) * GROUP_THREADS, 1)
hopper_kernel(HopperArguments a)
{
#ifdef HAS_WGMMA
	__shared__ uint64_t full[MOST_STAGES];
	__shared__ uint64_t empty[MOST_STAGES];
	extern __shared__ unsigned char hopper_memory[];
	Stage	   *stages = (Stage *) (((uintptr_t) hopper_memory + 1023) / 1024 * 1024);
	__half	   *rows = (__half *) (stages + a.stages);
	/* makes the compiler see that this is uniform */
	int			group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP_THREADS, 0);
	int64_t		end = 0;

	if (threadIdx.x == 0)
	{
		for (int i = 0; i < a.stages; i++)
		{
			ptx::mbarrier_init(&full[i], 1);
			ptx::mbarrier_init(&empty[i], WARPGROUPS * GROUP_THREADS / LANES_OF_ARRIVAL);
		}
		ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
	}
	for (int i = 0; i < WARPGROUPS; i++)
		end = max(end, Plan(a, WARPGROUPS, i).end(a.panels));
	__syncthreads();
	if (group == WARPGROUPS)
	{
		if (WARPGROUPS == 4)
			asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
		if (threadIdx.x % GROUP_THREADS == 0)
			produce(a, stages, full, empty, end);
	}
	else
	{
		if (WARPGROUPS == 4)
			asm volatile("setmaxnreg.inc.sync.aligned.u32 112;");
		consume(a, rows + (int64_t) group * tiles_of(a.depth) * GROUP_ROWS * TILE_COLUMNS,
					 stages, full, empty, Plan(a, WARPGROUPS, group), group, end);
	}
#endif
}

/* Bytes of shared memory besides the stages. */
static size_t
rows_bytes(int warpgroups, int depth)
{
	return 1024 +
		(size_t) warpgroups * tiles_of(depth) * GROUP_ROWS * TILE_COLUMNS * sizeof(__half);
}

/* How many warpgroups a block can have for rows of this depth; 0 = none. */
static int
warpgroups_for(const Shard &shard)
{
	size_t		most = shard.device->shared_memory - 2 * MOST_STAGES * sizeof(uint64_t);

	for (int warpgroups = 4; warpgroups >= 2; warpgroups /= 2)
		if (rows_bytes(warpgroups, shard.depth) + 4 * sizeof(Stage) <= most)
			return warpgroups;
	return 0;
}

/* True if there is a kernel for this device, and rows and ring fit its shared memory. */
bool
filter_hopper_fits(const Shard &shard, int64_t centroids)
{
	cudaFuncAttributes attributes;

	if (shard.device->major != 9 || centroids <= TILE_CENTROIDS || warpgroups_for(shard) == 0)
		return false;
	/* built for another device, the kernel is empty and has no barriers */
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) hopper_kernel<4>));
	return attributes.sharedSizeBytes > 0;
}

/* Rows that all multiprocessors compare at a time. */
int64_t
filter_hopper_wave(const Shard &shard)
{
	return (int64_t) shard.device->processors * warpgroups_for(shard) * GROUP_ROWS;
}

/* Enqueues the kernel. */
template <int WARPGROUPS> static void
launch(Shard &shard, HopperArguments &a)
{
	size_t		most = shard.device->shared_memory - 2 * MOST_STAGES * sizeof(uint64_t);
	size_t		rows = rows_bytes(WARPGROUPS, a.depth);
	int64_t		blocks = (a.rows + WARPGROUPS * GROUP_ROWS - 1) / (WARPGROUPS * GROUP_ROWS);

	a.stages = (int) std::min<size_t>((most - rows) / sizeof(Stage), MOST_STAGES);
	GK_CUDA(cudaFuncSetAttribute((const void *) hopper_kernel<WARPGROUPS>,
								 cudaFuncAttributeMaxDynamicSharedMemorySize,
								 (int) (rows + a.stages * sizeof(Stage))));
	hopper_kernel<WARPGROUPS><<<blocks_for(shard, blocks, 1), (WARPGROUPS + 1) * GROUP_THREADS,
		rows + a.stages * sizeof(Stage), shard.device->compute>>>(a);
	GK_LAUNCHED("hopper_kernel");
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_hopper(Shard &shard, const FilterArguments &arguments)
{
	HopperArguments a(arguments);

	if (warpgroups_for(shard) == 4)
		launch<4>(shard, a);
	else
		launch<2>(shard, a);
}

}								/* namespace gk */
