/*
 * The filter for any number of points and columns: rows and points pass through shared memory.
 *
 * A block has 128 rows at a time, 16 a warp, and all the points of a tile for each.
 */
#include <algorithm>

#include "wgmma.cuh"

namespace gk
{

#define FILTER_THREADS 256

/* The arguments, and how the points are cut. */
struct TileArguments : FilterArguments
{
	int			tiles;			/* of points */
	int			stages;			/* 2 or 3 */
	int			parts;			/* blocks that share the points of a flagged row */
};

/* Copies 16 bytes from global to shared memory, without waiting where the device can. */
static __device__ __forceinline__ void
copy_16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(to)), "l"(from));
#else
	*(uint4 *) to = *(const uint4 *) from;
#endif
}

/* Makes one group of the copies since the last. */
static __device__ __forceinline__ void
copy_commit()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;");
#endif
}

/* Waits until at most N groups of copies are under way. */
template <int N> static __device__ __forceinline__ void
copy_wait()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" :: "n"(N));
#endif
}

#ifdef HAS_WGMMA

/* Multiplies a piece of rows and points, `steps` × 16 deep. */
template <int POINTS> static __device__ __forceinline__ void
multiply_pieces(float (&sums)[POINTS / 8][4], const __half *rows, const __half *points, int steps,
				bool first)
{
	uint64_t	a = describe(rows + threadIdx.x / 128 * 64 * PIECE_COLUMNS);
	uint64_t	b = describe(points);

	start_products();
	if (steps == PIECE_COLUMNS / 16)
	{
		multiply(sums, a, b, !first);
		multiply(sums, a + 2, b + 2, 1);
		multiply(sums, a + 4, b + 4, 1);
		multiply(sums, a + 6, b + 6, 1);
	}
	else
		for (int step = 0; step < steps; step++)
			multiply(sums, a + step * 2, b + step * 2, !first || step > 0);
	commit_products();
	wait_products<0>();
}

#else

/* Four 8×8 matrices from shared memory. */
static __device__ __forceinline__ void
load_matrices(uint32_t *to, const __half *from)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
				 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(from)));
}

/* Nothing stands between stores and these products but a barrier. */
static __device__ __forceinline__ void
publish_stores()
{
}

/* Multiplies a piece of rows and points, `steps` × 16 deep. */
template <int POINTS> static __device__ __forceinline__ void
multiply_pieces(float (&sums)[POINTS / 8][4], const __half *rows, const __half *points, int steps,
				bool first)
{
	int			lane = threadIdx.x % 32;
	int			row = threadIdx.x / 32 * 16 + (lane & 15);
	int			point = (lane & 7) + ((lane >> 4) << 3);

	if (first)
#pragma unroll
		for (int n = 0; n < POINTS / 8; n++)
			sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
#pragma unroll
	for (int step = 0; step < PIECE_COLUMNS / 16; step++)
	{
		uint32_t	a[4];

		if (step >= steps)
			break;
		load_matrices(a, rows + place_of(row, step * 2 + (lane >> 4)));
#pragma unroll
		for (int n = 0; n < POINTS / 16; n++)
		{
			uint32_t	b[4];

			load_matrices(b, points + place_of(n * 16 + point, step * 2 + ((lane >> 3) & 1)));
			multiply(sums[n * 2], a, b);
			multiply(sums[n * 2 + 1], a, b + 2);
		}
	}
}

#endif

/* What is kept of each row in shared memory. */
struct RowShared
{
	float		norm[FILTER_ROWS];		/* in the points' scale */
	float		error[FILTER_ROWS];
	float		factor[FILTER_ROWS];	/* rows are multiplied by it … */
	float		back[FILTER_ROWS];		/* … and minus products by this; NaN = can't be decided */
	float		limit[FILTER_ROWS];
	int64_t		row[FILTER_ROWS];		/* in the tile; -1 = none */
};

/* Reads what is known of the rows of a block. */
template <bool SECOND> static __device__ void
start_rows(const TileArguments &a, RowShared *shared, int64_t first, int64_t count)
{
	for (int r = threadIdx.x; r < FILTER_ROWS; r += FILTER_THREADS)
	{
		int64_t		at = first + r;
		bool		valid = at < count;
		int64_t		row = !valid ? -1 : SECOND ? a.flag_rows[at] : at;
		RowBound	bound = read_bound(valid ? a.bounds[row] : 0, a.scale->exponent);

		shared->row[r] = row;
		shared->norm[r] = bound.norm;
		shared->error[r] = bound.error;
		shared->factor[r] = bound.factor;
		shared->back[r] = bound.back;
		shared->limit[r] = SECOND && valid ? a.flag_limits[at] : -3.4e38f;
	}
}

/* Converts columns from .. from + width - 1 of the block's rows into pieces in shared memory. */
template <int UNROLL> static __device__ __forceinline__ void
load_rows(const TileArguments &a, const RowShared *shared, __half *to, int from, int width)
{
	bool		aligned = a.d % 4 == 0;
	int			quads = width / 4;
	int			all = FILTER_ROWS * quads;
	/* at / quads is the high half of at × inverse */
	uint32_t	inverse = 0xffffffffu / quads + 1;

	for (int e = threadIdx.x; e < all; e += FILTER_THREADS * UNROLL)
	{
		float4		x[UNROLL];
		float4		p[UNROLL];

#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			int			at = e + u * FILTER_THREADS;
			int			r = (int) __umulhi((uint32_t) at, inverse);
			int			j = from + (at - r * quads) * 4;

			x[u] = p[u] = make_float4(0, 0, 0, 0);
			if (at < all && shared->row[r] >= 0)
			{
				x[u] = read_four(a.features + shared->row[r] * a.d, j, a.d, aligned);
				p[u] = read_four(a.center, j, a.d, aligned);
			}
		}
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			int			at = e + u * FILTER_THREADS;
			int			r = (int) __umulhi((uint32_t) at, inverse);
			int			j = (at - r * quads) * 4;

			if (at < all)
				*(uint2 *) (to + j / PIECE_COLUMNS * FILTER_ROWS * PIECE_COLUMNS +
							place_of(r, j % PIECE_COLUMNS / 8) + j % 8) =
					convert(x[u], p[u], shared->factor[r]);
		}
	}
}

/* Starts to bring the next rows nearer. */
static __device__ __forceinline__ void
prefetch_rows(const TileArguments &a, int64_t first)
{
	const char *from = (const char *) (a.features + first * a.d);
	int64_t		bytes = min((int64_t) FILTER_ROWS, a.rows - first) * a.d * (int64_t) sizeof(float);

	for (int64_t at = threadIdx.x * 128; at < bytes; at += FILTER_THREADS * 128)
		asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at));
}

/* Which piece of the points comes next. */
struct Cursor
{
	int			tile;
	int			chunk;

	__device__ __forceinline__ void step(int chunks)
	{
		if (++chunk == chunks)
		{
			chunk = 0;
			tile++;
		}
	}
};

/* Starts the copy of one piece of points, or half of it. */
template <int POINTS> static __device__ __forceinline__ void
load_points(const TileArguments &a, __half *to, const Cursor &which)
{
	int64_t		first = (int64_t) which.tile * POINTS;
	const __half *source = a.points +
		(first / PIECE_POINTS * pieces_of(a.depth) + which.chunk) *
		(PIECE_POINTS * PIECE_COLUMNS) + first % PIECE_POINTS * PIECE_COLUMNS;

#pragma unroll
	for (int i = 0; i < POINTS * (PIECE_COLUMNS / 8) / FILTER_THREADS; i++)
	{
		int			at = (i * FILTER_THREADS + threadIdx.x) * 8;

		copy_16(to + at, source + at);
	}
}

/* Starts to fill the stages: with all `total` pieces if they are to stay, and only if `load`. */
template <int POINTS> static __device__ __forceinline__ void
fill_stages(const TileArguments &a, __half *stages, Cursor &next, int chunks, int total, bool once,
			bool load)
{
	for (int s = 0; s < (once ? total : a.stages - 1); s++)
	{
		if (load && s < total)
			load_points<POINTS>(a, stages + s * POINTS * PIECE_COLUMNS, next);
		next.step(chunks);
		copy_commit();
	}
}

/* Waits for the next stage; for all if they are to stay. */
static __device__ __forceinline__ void
wait_stage(const TileArguments &a, bool once)
{
	if (once || a.stages == 2)
		copy_wait<0>();
	else
		copy_wait<1>();
}

/* Brings a piece of the rows into shared memory if they don't stay there, and waits for all. */
template <bool STAYS> static __device__ __forceinline__ void
bring_piece(const TileArguments &a, const RowShared *shared, __half *piece, int from, int width,
			bool once)
{
	wait_stage(a, once);
	if (!STAYS)
		load_rows<4>(a, shared, piece, from, width);
	publish_stores();
	__syncthreads();
}

/* The part of the bound that is a row's and a point's. */
static __device__ __forceinline__ float
own_of(const TileArguments &a, const RowShared *shared, int r, int point)
{
	return own_part(shared->norm[r], shared->error[r], a.slack[point], a.norm[point],
					a.error[point]);
}

/*
 * A score above which no point can be nearest, from the score of the point that was nearest:
 * most points then need no second look.
 */
static __device__ void
start_scores(const TileArguments &a, const RowShared *shared, const __half *rows, const int r[2],
			 Best best[2])
{
	int			lane = threadIdx.x % 32;

	/* the rows are there */
	__syncthreads();
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = shared->row[r[i]];
		int			point = row >= 0 ? a.labels[row] : -1;
		float		sum = 0.0f;

		if (point >= 0 && point < a.count)
			for (int part = lane % 4; part < a.depth / 8; part += 4)
			{
				uint4		x = *(const uint4 *) (rows + part / 8 * FILTER_ROWS * PIECE_COLUMNS +
												  place_of(r[i], part % 8));
				uint4		c = __ldg((const uint4 *) (a.points +
													   place_of_point(a.depth, point, part * 8)));
				sum = add_products(x, c, sum);
			}
		sum += __shfl_xor_sync(0xffffffffu, sum, 1);
		sum += __shfl_xor_sync(0xffffffffu, sum, 2);
		if (point >= 0 && point < a.count)
		{
			float		score = fmaf(sum, shared->back[r[i]], a.lower[point]);
			float		limit = first_limit(score, own_of(a, shared, r[i], point),
											row_part(a, shared->norm[r[i]], shared->error[r[i]]));

			if (limit < NO_SCORE)
				best[i].second = limit;
		}
	}
}

/* Turns the sums of one row into scores; gives the least. */
template <int POINTS, int I> static __device__ __forceinline__ float
make_scores(const TileArguments &a, float (&sums)[POINTS / 8][4], float back, int column)
{
	float		least = NO_SCORE;

#pragma unroll
	for (int n = 0; n < POINTS / 8; n++)
	{
		float2		lower = __ldg((const float2 *) (a.lower + column + n * 8));

		sums[n][I * 2] = fmaf(sums[n][I * 2], back, lower.x);
		sums[n][I * 2 + 1] = fmaf(sums[n][I * 2 + 1], back, lower.y);
		least = fminf(least, fminf(sums[n][I * 2], sums[n][I * 2 + 1]));
	}
	return least;
}

/* Takes the scores of one row into what is known of it. */
template <int POINTS, int I> static __device__ __forceinline__ void
take_scores(const float (&sums)[POINTS / 8][4], int column, Best *best)
{
#pragma unroll
	for (int n = 0; n < POINTS / 8; n++)
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

/* Lists the points that can be nearest to a row. */
template <int POINTS, int I> static __device__ __forceinline__ void
list_candidates(const TileArguments &a, const float (&sums)[POINTS / 8][4], int column, float limit,
				int64_t flag)
{
#pragma unroll
	for (int n = 0; n < POINTS / 8; n++)
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (sums[n][I * 2 + i] <= limit)
			{
				uint32_t	place = atomicAdd(&a.candidate_counts[flag], 1u);

				if (place < FILTER_CANDIDATES)
					a.candidates[flag * FILTER_CANDIDATES + place] = column + n * 8 + i;
			}
}

/* Takes the products with a whole tile of points. */
template <int POINTS, bool SECOND> static __device__ __forceinline__ void
take_tile(const TileArguments &a, const RowShared *shared, float (&sums)[POINTS / 8][4], int tile,
		  const int r[2], int64_t first, Best best[2])
{
	int			column = tile * POINTS + threadIdx.x % 4 * 2;
	float		least[2];

	least[0] = make_scores<POINTS, 0>(a, sums, shared->back[r[0]], column);
	least[1] = make_scores<POINTS, 1>(a, sums, shared->back[r[1]], column);
	if (SECOND)
	{
		if (least[0] <= shared->limit[r[0]])
			list_candidates<POINTS, 0>(a, sums, column, shared->limit[r[0]], first + r[0]);
		if (least[1] <= shared->limit[r[1]])
			list_candidates<POINTS, 1>(a, sums, column, shared->limit[r[1]], first + r[1]);
	}
	else
	{
		if (least[0] < best[0].second)
			take_scores<POINTS, 0>(sums, column, &best[0]);
		if (least[1] < best[1].second)
			take_scores<POINTS, 1>(sums, column, &best[1]);
	}
}

/* Compares the block's rows with points, a piece at a time. */
template <int POINTS, bool SECOND> static __device__ __forceinline__ void
compare_piece(const TileArguments &a, const RowShared *shared, float (&sums)[POINTS / 8][4],
			  const __half *rows, const __half *points, int width, const Cursor &now, int chunks,
			  const int r[2], int64_t first, Best best[2])
{
	multiply_pieces<POINTS>(sums, rows, points, width / 16, now.chunk == 0);
	if (now.chunk == chunks - 1)
		take_tile<POINTS, SECOND>(a, shared, sums, now.tile, r, first, best);
}

/* Joins what the four threads of a row know, and labels it. */
static __device__ __forceinline__ void
conclude_rows(const TileArguments &a, const RowShared *shared, const int r[2], Best best[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = shared->row[r[i]];

		join_four(&best[i]);
		if (threadIdx.x % 4 == 0 && row >= 0)
		{
			float		own = own_of(a, shared, r[i], best[i].point);
			float		part = row_part(a, shared->norm[r[i]], shared->error[r[i]]);

			conclude(a, row, best[i], limit_of(best[i].least, own, part), shared->back[r[i]]);
		}
	}
}

/* The first of the two rows of a thread; the other is 8 rows on. */
static __device__ __forceinline__ int
row_of_thread()
{
	return (int) threadIdx.x / 32 * 16 + (int) threadIdx.x % 32 / 4;
}

/*
 * With STAYS the rows lie in shared memory while the points stream by, else both stream.  SECOND is
 * the run over the flagged rows.  Points of which all pieces fit the stages are loaded once.
 */
template <int POINTS, bool STAYS, bool SECOND> static __global__ void
__launch_bounds__(FILTER_THREADS, POINTS == 64 && STAYS ? 3 : 2)
filter_kernel(TileArguments a)
{
	extern __shared__ unsigned char memory[];
	__half	   *stages = (__half *) (((uintptr_t) memory + 1023) / 1024 * 1024);
	__half	   *rows = stages + a.stages * POINTS * PIECE_COLUMNS;
	int			chunks = pieces_of(a.depth);
	const int	parts = SECOND ? a.parts : 1;
	RowShared  *shared = (RowShared *) (rows + (STAYS ? chunks : 2) * FILTER_ROWS * PIECE_COLUMNS);
	const int	r[2] = {row_of_thread(), row_of_thread() + 8};
	bool		once = parts == 1 && a.tiles * chunks <= a.stages;
	int64_t		count = SECOND ? min(*a.flag_count, a.flag_capacity) : a.rows;
	int64_t		works = (count + FILTER_ROWS - 1) / FILTER_ROWS * parts;

	for (int64_t work = blockIdx.x; work < works; work += gridDim.x)
	{
		int64_t		first = work / parts * FILTER_ROWS;
		int			part = (int) (work % parts);
		int			first_tile = a.tiles * part / parts;
		int			total = (a.tiles * (part + 1) / parts - first_tile) * chunks;	/* pieces */
		bool		load = !once || work == blockIdx.x;
		float		sums[POINTS / 8][4];
		Best		best[2] = {{NO_SCORE, NO_SCORE, 0}, {NO_SCORE, NO_SCORE, 0}};
		Cursor		now = {first_tile, 0};
		Cursor		next = {first_tile, 0};
		int			stage = 0;
		int			next_stage = 0;

		__syncthreads();
		start_rows<SECOND>(a, shared, first, count);
		fill_stages<POINTS>(a, stages, next, chunks, total, once, load);
		next_stage = a.stages - 1;
		__syncthreads();
		if (STAYS)
			load_rows<4>(a, shared, rows, 0, a.depth);
		if (!SECOND && work + gridDim.x < works)
			prefetch_rows(a, first + (int64_t) gridDim.x * FILTER_ROWS);
		if (STAYS && !SECOND && a.labels != nullptr)
			start_scores(a, shared, rows, r, best);
		for (int it = 0; it < total; it++)
		{
			int			width = min(PIECE_COLUMNS, a.depth - now.chunk * PIECE_COLUMNS);
			__half	   *piece = rows + (STAYS ? now.chunk : it % 2) * FILTER_ROWS * PIECE_COLUMNS;

			bring_piece<STAYS>(a, shared, piece, now.chunk * PIECE_COLUMNS, width, once);
			if (!once && it + a.stages - 1 < total)
			{
				load_points<POINTS>(a, stages + next_stage * POINTS * PIECE_COLUMNS, next);
				next.step(chunks);
			}
			copy_commit();
			compare_piece<POINTS, SECOND>(a, shared, sums, piece,
										  stages + stage * POINTS * PIECE_COLUMNS, width, now,
										  chunks, r, first, best);
			now.step(chunks);
			stage = stage + 1 == a.stages ? 0 : stage + 1;
			next_stage = next_stage + 1 == a.stages ? 0 : next_stage + 1;
		}
		if (!SECOND)
			conclude_rows(a, shared, r, best);
	}
}

/* Bytes of shared memory that a kernel of this kind needs. */
static size_t
shared_bytes(int points, bool stays, int depth, int stages)
{
	size_t		pieces = stays ? pieces_of(depth) : 2;

	return 1024 + sizeof(RowShared) +
		(pieces * FILTER_ROWS + (size_t) stages * points) * PIECE_COLUMNS * sizeof(__half);
}

/* Enqueues one kernel. */
template <int POINTS, bool STAYS, bool SECOND> static void
launch_kernel(Shard &shard, const TileArguments &a)
{
	size_t		bytes = shared_bytes(POINTS, STAYS, a.depth, a.stages);
	const void *kernel = (const void *) filter_kernel<POINTS, STAYS, SECOND>;
	int			per_processor;

	GK_CUDA(cudaFuncSetAttribute, kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes);
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor, &per_processor, kernel,
			FILTER_THREADS, bytes);
	filter_kernel<POINTS, STAYS, SECOND>
		<<<blocks_for(shard, (a.rows + FILTER_ROWS - 1) / FILTER_ROWS * (SECOND ? a.parts : 1),
					  per_processor),
		   FILTER_THREADS, bytes, shard.device->compute>>>(a);
	GK_LAUNCHED("filter_kernel");
}

/* Enqueues the run over all rows, or that over the flagged ones. */
template <int POINTS, bool STAYS> static void
launch_filter(Shard &shard, TileArguments &a, bool second)
{
	size_t		most = shard.device->shared_memory;

	/* two stages where that lets two blocks share a processor, or one fit it at all */
	a.stages = (shared_bytes(POINTS, STAYS, a.depth, 3) + 1024) * 2 <= most + 1024 ||
		((shared_bytes(POINTS, STAYS, a.depth, 2) + 1024) * 2 > most + 1024 &&
		 shared_bytes(POINTS, STAYS, a.depth, 3) <= most) ? 3 : 2;
	if (second)
		launch_kernel<POINTS, STAYS, true>(shard, a);
	else
		launch_kernel<POINTS, STAYS, false>(shard, a);
}

/* Chooses how the rows get into shared memory. */
template <int POINTS> static void
choose_filter(Shard &shard, TileArguments &a, bool second)
{
	size_t		most = shard.device->shared_memory;

	a.tiles = (a.count + POINTS - 1) / POINTS;
	a.parts = std::max(1, std::min(a.tiles / 4, 16));
	if (a.tiles < 3)
		a.labels = nullptr;
	if (shared_bytes(POINTS, true, a.depth, 2) <= most && (a.depth <= 256 || a.tiles > 2))
		launch_filter<POINTS, true>(shard, a, second);
	else
		launch_filter<POINTS, false>(shard, a, second);
}

/* Chooses how many points a tile has. */
static void
run_tiles(Shard &shard, const FilterArguments &arguments, bool second)
{
	TileArguments a;

	(FilterArguments &) a = arguments;
	/* 64 points a tile also where a processor has 64 kB */
	if (a.count <= 64 || shard.device->shared_memory < (90 << 10))
		choose_filter<64>(shard, a, second);
	else
		choose_filter<128>(shard, a, second);
}

/* Fresh labels or flags of all rows of a tile. */
void
filter_tiles(Shard &shard, const FilterArguments &a)
{
	run_tiles(shard, a, false);
}

/* Lists the candidates of the flagged rows. */
void
list_tiles(Shard &shard, const FilterArguments &a)
{
	run_tiles(shard, a, true);
}

}								/* namespace gk */
