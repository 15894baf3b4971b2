/*
 * The filter on Hopper: many points, rows of up to 512 columns.
 *
 * A block stays on its processor.  One warp brings the points, piece by piece, round and round,
 * into a ring in shared memory; WARPGROUPS warpgroups have 64 rows each in shared memory, take all
 * pieces once, and go on to their next rows.  They begin at different places of the round, so that
 * one converts rows and others look at scores while the tensor cores multiply for the rest.
 */
#include <algorithm>

#include "wgmma.cuh"

namespace gk
{

#define GROUP_THREADS 128
#define GROUP_ROWS 64
#define MOST_STAGES 12
#define PIECE_VALUES (PIECE_POINTS * PIECE_COLUMNS)
#define EIGHTS (PIECE_POINTS / 8)
#define PARTS 4					/* of the points of a tile */

/* A stage of the ring: a piece, and with the last of a tile the lower bounds of its points. */
struct Stage
{
	__half		values[PIECE_VALUES];
	float		lower[PIECE_POINTS];
	float		unused[256 - PIECE_POINTS];		/* pieces begin at multiples of 1024 bytes */
};

/* The arguments, and how points and ring are cut. */
struct HopperArguments : FilterArguments
{
	int			tiles;			/* of points */
	int			stages;
};

/* Threads that one arrival at the end of a stage speaks for. */
#ifdef ARRIVE_BY_LANE
#define LANES_OF_ARRIVAL 1
#else
#define LANES_OF_ARRIVAL 32
#endif

#ifdef HAS_WGMMA

/* Sets up a barrier of shared memory; so many arrivals end a phase. */
static __device__ __forceinline__ void
start_barrier(uint64_t *barrier, int count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
				 :: "r"(shared_address(barrier)), "r"(count) : "memory");
}

/* Arrives at a barrier. */
static __device__ __forceinline__ void
arrive(uint64_t *barrier)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
				 :: "r"(shared_address(barrier)) : "memory");
}

/*
 * A warp is done with what it has read of a stage.  One lane speaks for all, which __syncwarp()
 * makes right; racecheck knows only what a lane has read itself, and takes -DARRIVE_BY_LANE.
 */
static __device__ __forceinline__ void
give_back_stage(uint64_t *empty)
{
	__syncwarp();
	if (threadIdx.x % LANES_OF_ARRIVAL == 0)
		arrive(empty);
}

/* Arrives, and says how many bytes are to come. */
static __device__ __forceinline__ void
expect_bytes(uint64_t *barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
				 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

/* Waits until the phase of this parity is over. */
static __device__ __forceinline__ void
wait_phase(uint64_t *barrier, uint32_t parity)
{
	asm volatile("{\n.reg .pred done;\nagain:\n"
				 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
				 "@done bra over;\nbra again;\nover:\n}"
				 :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

/* Starts a copy to shared memory that the barrier counts. */
static __device__ __forceinline__ void
copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
				 "[%0], [%1], %2, [%3];"
				 :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier))
				 : "memory");
}

/* The threads of a warpgroup wait for each other. */
static __device__ __forceinline__ void
join_group(int group)
{
	asm volatile("bar.sync %0, %1;" :: "r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

/* Where a block is in the ring. */
struct Ring
{
	int			stage;
	uint32_t	parity;

	__device__ __forceinline__ void step(int stages)
	{
		if (++stage == stages)
		{
			stage = 0;
			parity ^= 1;
		}
	}
};

/* What a warpgroup is to do: rows first, first + step, … from a tile of the stream on. */
struct Plan
{
	int64_t		first;
	int64_t		step;
	int64_t		groups;			/* of rows */
	int64_t		begin;			/* tile of the stream */

	__device__ __forceinline__ Plan(const HopperArguments &a, int warpgroups, int group)
	{
		int64_t		all = (a.rows + GROUP_ROWS - 1) / GROUP_ROWS;
		int64_t		mine = (int64_t) blockIdx.x * warpgroups + group;

		step = (int64_t) gridDim.x * warpgroups;
		first = mine * GROUP_ROWS;
		groups = mine < all ? (all - mine + step - 1) / step : 0;
		begin = (int64_t) a.tiles * group / warpgroups;
	}

	__device__ __forceinline__ int64_t end(int tiles) const
	{
		return groups == 0 ? 0 : begin + groups * tiles;
	}
};

/* Brings the points, round and round: one thread. */
static __device__ void
bring_points(const HopperArguments &a, Stage *stages, uint64_t *full, uint64_t *empty, int64_t end)
{
	int			pieces = pieces_of(a.depth);
	Ring		ring = {0, 1};
	int			tile = 0;

	for (int64_t at = 0; at < end; at++)
	{
		for (int piece = 0; piece < pieces; piece++)
		{
			bool		last = piece == pieces - 1;
			Stage	   *stage = &stages[ring.stage];

			wait_phase(&empty[ring.stage], ring.parity);
			expect_bytes(&full[ring.stage],
						 sizeof(stage->values) + (last ? sizeof(stage->lower) : 0));
			copy_bulk(stage->values, a.points + ((int64_t) tile * pieces + piece) * PIECE_VALUES,
					  sizeof(stage->values), &full[ring.stage]);
			if (last)
				copy_bulk(stage->lower, a.lower + (int64_t) tile * PIECE_POINTS,
						  sizeof(stage->lower), &full[ring.stage]);
			ring.step(a.stages);
		}
		tile = tile + 1 == a.tiles ? 0 : tile + 1;
	}
}

/* Converts a warpgroup's rows into pieces of 64 rows: 16 rows a warp, four columns a thread. */
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
		float4		center = read_four(a.center, j, a.d, aligned);
		__half	   *column = to + j / PIECE_COLUMNS * GROUP_ROWS * PIECE_COLUMNS + j % 8;
		int			part = j % PIECE_COLUMNS / 8;

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
				uint2		both = convert(x[u], center, __shfl_sync(0xffffffffu, factor, r + u));

				if (j < a.depth)
					*(uint2 *) (column + place_of(begin + r + u, part)) = both;
			}
		}
	}
}

/* Starts to bring rows nearer. */
static __device__ __forceinline__ void
prefetch_rows(const HopperArguments &a, int64_t first)
{
	const char *from = (const char *) (a.features + first * a.d);
	int64_t		bytes = first < a.rows ?
		min((int64_t) GROUP_ROWS, a.rows - first) * a.d * (int64_t) sizeof(float) : 0;

	for (int64_t at = threadIdx.x % GROUP_THREADS * 128; at < bytes; at += GROUP_THREADS * 128)
		asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at));
}

/* The part of the bound that is a row's and a point's. */
static __device__ __forceinline__ float
own_of(const HopperArguments &a, const RowBound &bound, int point)
{
	return own_part(bound.norm, bound.error, __ldg(a.slack + point), __ldg(a.norm + point),
					__ldg(a.error + point));
}

/*
 * A score above which no point can be nearest, from the score of the point that was nearest:
 * most points then need no second look.
 */
static __device__ float
start_score(const HopperArguments &a, const __half *rows, int r, int point, const RowBound &bound)
{
	int			lane = threadIdx.x % 32;
	bool		known = point >= 0 && point < a.count;
	float		sum = 0.0f;
	float		limit = NO_SCORE;

	for (int part = lane % 4; known && part < a.depth / 8; part += 4)
	{
		uint4		x = *(const uint4 *) (rows + part / 8 * GROUP_ROWS * PIECE_COLUMNS +
										  place_of(r, part % 8));
		uint4		c = __ldg((const uint4 *) (a.points +
											   place_of_point(a.depth, point, part * 8)));
		sum = add_products(x, c, sum);
	}
	sum += __shfl_xor_sync(0xffffffffu, sum, 1);
	sum += __shfl_xor_sync(0xffffffffu, sum, 2);
	if (known)
	{
		float		score = fmaf(sum, bound.back, a.lower[point]);

		limit = first_limit(score, own_of(a, bound, point),
							row_part(a, bound.norm, bound.error));
	}
	return limit < NO_SCORE ? limit : NO_SCORE;
}

/* Turns the products of a tile into scores; the least of each part of the points, for both rows. */
static __device__ __forceinline__ void
make_scores(float (&sums)[EIGHTS][4], const float *lower, const float back[2],
			float (&least)[PARTS][2])
{
#pragma unroll
	for (int n = 0; n < EIGHTS; n++)
	{
		float2		bound = *(const float2 *) &lower[threadIdx.x % 4 * 2 + n * 8];

#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			float	   *part = &least[n / (EIGHTS / PARTS)][i];

			sums[n][i * 2] = fmaf(sums[n][i * 2], back[i], bound.x);
			sums[n][i * 2 + 1] = fmaf(sums[n][i * 2 + 1], back[i], bound.y);
			if (n % (EIGHTS / PARTS) == 0)
				*part = fminf(sums[n][i * 2], sums[n][i * 2 + 1]);
			else
				*part = fminf(*part, fminf(sums[n][i * 2], sums[n][i * 2 + 1]));
		}
	}
}

/* Takes the scores of row I into what is known of it; only of the parts that can matter. */
template <int I> static __device__ __forceinline__ void
take_scores(const float (&sums)[EIGHTS][4], const float (&least)[PARTS][2], int column, Best *best)
{
#pragma unroll
	for (int part = 0; part < PARTS; part++)
		if (least[part][I] < best->second)
#pragma unroll
			for (int n = part * (EIGHTS / PARTS); n < (part + 1) * (EIGHTS / PARTS); n++)
#pragma unroll
				for (int i = 0; i < 2; i++)
				{
					float		score = sums[n][I * 2 + i];

					best->second = fminf(best->second, fmaxf(best->least, score));
					if (score < best->least)
						best->point = column + n * 8 + i;
					best->least = fminf(best->least, score);
				}
}

/* The least of all parts. */
template <int I> static __device__ __forceinline__ float
least_of(const float (&least)[PARTS][2])
{
	static_assert(PARTS == 4, "");
	return fminf(fminf(least[0][I], least[1][I]), fminf(least[2][I], least[3][I]));
}

/* Takes the scores of a tile into what is known of a thread's two rows. */
static __device__ __forceinline__ void
take_tile(const float (&sums)[EIGHTS][4], const float (&least)[PARTS][2], int column, Best best[2])
{
	if (least_of<0>(least) < best[0].second)
		take_scores<0>(sums, least, column, &best[0]);
	if (least_of<1>(least) < best[1].second)
		take_scores<1>(sums, least, column, &best[1]);
}

/* Labels or flags a warpgroup's rows. */
static __device__ __forceinline__ void
conclude_rows(const HopperArguments &a, int64_t first, const int r[2], Best best[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = first + r[i];

		join_four(&best[i]);
		if ((int) threadIdx.x % 4 == i && row < a.rows)
		{
			RowBound	bound = read_bound(__ldg(a.bounds + row), a.scale->exponent);
			float		own = own_of(a, bound, best[i].point);

			conclude(a, row, best[i],
					 limit_of(best[i].least, own, row_part(a, bound.norm, bound.error)),
					 bound.back);
		}
	}
}

/*
 * Multiplies a warpgroup's rows with a tile of points as its pieces come; the stage of the last
 * stays taken.
 */
static __device__ __forceinline__ Ring
multiply_tile(const HopperArguments &a, const __half *rows, Stage *stages, uint64_t *full,
			  uint64_t *empty, Ring ring, float (&sums)[EIGHTS][4])
{
	int			pieces = pieces_of(a.depth);
	int			before = 0;

	for (int piece = 0; piece < pieces; piece++)
	{
		uint64_t	left = describe(rows + piece * GROUP_ROWS * PIECE_COLUMNS);
		uint64_t	right = describe(stages[ring.stage].values);
		int			steps = min(PIECE_COLUMNS, a.depth - piece * PIECE_COLUMNS) / 16;

		wait_phase(&full[ring.stage], ring.parity);
		start_products();
		if (steps == PIECE_COLUMNS / 16)
		{
			multiply(sums, left, right, piece > 0);
			multiply(sums, left + 2, right + 2, 1);
			multiply(sums, left + 4, right + 4, 1);
			multiply(sums, left + 6, right + 6, 1);
		}
		else
			for (int step = 0; step < steps; step++)
				multiply(sums, left + step * 2, right + step * 2, piece > 0 || step > 0);
		commit_products();
		if (piece > 0)
		{
			wait_products<1>();
			give_back_stage(&empty[before]);
		}
		before = ring.stage;
		if (piece < pieces - 1)
			ring.step(a.stages);
	}
	wait_products<0>();
	return ring;
}

/* Lets a tile of points pass. */
static __device__ __forceinline__ Ring
skip_tile(const HopperArguments &a, uint64_t *full, uint64_t *empty, Ring ring)
{
	for (int piece = 0; piece < pieces_of(a.depth); piece++)
	{
		wait_phase(&full[ring.stage], ring.parity);
		give_back_stage(&empty[ring.stage]);
		ring.step(a.stages);
	}
	return ring;
}

/* The first of the two rows of a thread; the other is 8 rows on. */
static __device__ __forceinline__ int
row_of_thread()
{
	return (int) threadIdx.x % GROUP_THREADS / 32 * 16 + (int) threadIdx.x % 32 / 4;
}

/* Reads the bounds of a thread's two rows, and the points that were nearest; -1: not known. */
static __device__ __forceinline__ void
read_rows(const HopperArguments &a, int64_t first, const int r[2], uint32_t codes[2],
		  int points[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		bool		valid = first + r[i] < a.rows;

		codes[i] = valid ? __ldg(a.bounds + first + r[i]) : 0;
		points[i] = valid && a.labels != nullptr ? a.labels[first + r[i]] : -1;
	}
}

/* What a warpgroup does. */
static __device__ __forceinline__ void
compare_rows(const HopperArguments &a, __half *rows, Stage *stages, uint64_t *full, uint64_t *empty,
			 const Plan &plan, int group, int64_t end)
{
	const int	r[2] = {row_of_thread(), row_of_thread() + 8};
	int64_t		first = plan.first;
	int64_t		mine = plan.end(a.tiles);
	float		back[2];
	Best		best[2];
	Ring		ring = {0, 0};
	int			tile = 0;
	int			left = 0;		/* tiles that the rows have not seen */
	int			exponent = a.scale->exponent;

	for (int64_t at = 0; at < end; at++)
	{
		float		sums[EIGHTS][4];
		int			column = tile * PIECE_POINTS + threadIdx.x % 4 * 2;
		float		least[PARTS][2];

		tile = tile + 1 == a.tiles ? 0 : tile + 1;
		if (at < plan.begin || at >= mine)
		{
			ring = skip_tile(a, full, empty, ring);
			continue;
		}
		if (left == 0)
		{
			uint32_t	codes[2];
			int			points[2];

			read_rows(a, first, r, codes, points);
			load_rows(a, rows, first, exponent);
			prefetch_rows(a, first + plan.step * GROUP_ROWS);
			publish_stores();
			join_group(group);
#pragma unroll
			for (int i = 0; i < 2; i++)
			{
				RowBound	bound = read_bound(codes[i], exponent);

				back[i] = bound.back;
				best[i] = {NO_SCORE, start_score(a, rows, r[i], points[i], bound), 0};
			}
			left = a.tiles;
		}
		ring = multiply_tile(a, rows, stages, full, empty, ring, sums);
		make_scores(sums, stages[ring.stage].lower, back, least);
		give_back_stage(&empty[ring.stage]);
		ring.step(a.stages);
		take_tile(sums, least, column, best);
		if (--left == 0)
		{
			conclude_rows(a, first, r, best);
			first += plan.step * GROUP_ROWS;
			/* all have read what the next rows overwrite */
			join_group(group);
		}
	}
}

#endif

/* A block: WARPGROUPS that compare, and a warp that brings points. */
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
	/* uniform, which the compiler sees this way only */
	int			group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP_THREADS, 0);
	int64_t		end = 0;

	if (threadIdx.x == 0)
	{
		for (int i = 0; i < a.stages; i++)
		{
			start_barrier(&full[i], 1);
			start_barrier(&empty[i], WARPGROUPS * GROUP_THREADS / LANES_OF_ARRIVAL);
		}
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	for (int i = 0; i < WARPGROUPS; i++)
		end = max(end, Plan(a, WARPGROUPS, i).end(a.tiles));
	__syncthreads();
	if (group == WARPGROUPS)
	{
		if (WARPGROUPS == 4)
			asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
		if (threadIdx.x % GROUP_THREADS == 0)
			bring_points(a, stages, full, empty, end);
	}
	else
	{
		if (WARPGROUPS == 4)
			asm volatile("setmaxnreg.inc.sync.aligned.u32 112;");
		compare_rows(a, rows + (int64_t) group * pieces_of(a.depth) * GROUP_ROWS * PIECE_COLUMNS,
					 stages, full, empty, Plan(a, WARPGROUPS, group), group, end);
	}
#endif
}

/* Bytes of shared memory besides the stages. */
static size_t
rows_bytes(int warpgroups, int depth)
{
	return 1024 +
		(size_t) warpgroups * pieces_of(depth) * GROUP_ROWS * PIECE_COLUMNS * sizeof(__half);
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

/* Whether this way is open: the kernel is there for this device, and rows and ring fit. */
bool
filter_hopper_fits(const Shard &shard, int64_t points)
{
	cudaFuncAttributes attributes;

	if (shard.device->major != 9 || points <= PIECE_POINTS || warpgroups_for(shard) == 0)
		return false;
	/* built for another device, the kernel is empty: it has no barriers */
	GK_CUDA(cudaFuncGetAttributes, &attributes, (const void *) hopper_kernel<4>);
	return attributes.sharedSizeBytes > 0;
}

/* Rows that all processors compare at a time. */
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
	GK_CUDA(cudaFuncSetAttribute, (const void *) hopper_kernel<WARPGROUPS>,
			cudaFuncAttributeMaxDynamicSharedMemorySize, (int) (rows + a.stages * sizeof(Stage)));
	hopper_kernel<WARPGROUPS><<<blocks_for(shard, blocks, 1), (WARPGROUPS + 1) * GROUP_THREADS,
		rows + a.stages * sizeof(Stage), shard.device->compute>>>(a);
	GK_LAUNCHED("hopper_kernel");
}

/* Fresh labels or flags of all rows of a tile. */
void
filter_hopper(Shard &shard, const FilterArguments &arguments)
{
	HopperArguments a;

	(FilterArguments &) a = arguments;
	a.tiles = (a.count + PIECE_POINTS - 1) / PIECE_POINTS;
	if (warpgroups_for(shard) == 4)
		launch<4>(shard, a);
	else
		launch<2>(shard, a);
}

}								/* namespace gk */
