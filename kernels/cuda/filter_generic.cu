/*
 * The filter for any number of centroids and columns: both pass through shared memory.
 *
 * A block compares 128 rows at a time, 16 per warp, with all centroids of a panel.
 */
#include <algorithm>

#include "epilogue.cuh"
#include "tiles.cuh"

namespace gk
{

#define GENERIC_THREADS 256
#define GENERIC_ROWS BLOCK_ROWS

/* The arguments, and the partition of the centroids. */
struct GenericArguments : FilterArguments
{
	explicit GenericArguments(const FilterArguments &common)
		: FilterArguments(common), panels(0), stages(0), parts(0)
	{
	}

	int			panels;			/* of centroids */
	int			stages;			/* 2 or 3 */
	int			parts;			/* blocks that share the centroids of a flagged row */
};

/* The rows of a block, in shared memory. */
struct RowShared
{
	float		norm[GENERIC_ROWS];		/* in the centroids' scale */
	float		error[GENERIC_ROWS];
	float		factor[GENERIC_ROWS];	/* rows are multiplied by it … */
	float		back[GENERIC_ROWS];		/* … and minus products by this */
	float		limit[GENERIC_ROWS];
	int64_t		row[GENERIC_ROWS];		/* in the slice; -1 = none */
};

/* Reads the bounds of the rows of a block. */
template <bool SECOND> static __device__ void
start_rows(const GenericArguments &a, RowShared *shared, int64_t first, int64_t count)
{
	for (int r = threadIdx.x; r < GENERIC_ROWS; r += GENERIC_THREADS)
	{
		int64_t		at = first + r;
		bool		valid = at < count;
		int64_t		row = !valid ? -1 : SECOND ? a.flag_rows[at] :
			a.row_list != nullptr ? a.row_list[at] : at;
		RowBound	bound = read_bound(valid ? a.bounds[row] : 0, a.scale->exponent);

		shared->row[r] = row;
		shared->norm[r] = bound.norm;
		shared->error[r] = bound.error;
		shared->factor[r] = bound.factor;
		shared->back[r] = bound.back;
		shared->limit[r] = SECOND && valid ? a.flag_limits[at] : -3.4e38f;
	}
}

/* Converts columns from .. from + width - 1 of the block's rows into tiles in shared memory. */
template <int UNROLL> static __device__ __forceinline__ void
load_rows(const GenericArguments &a, const RowShared *shared, __half *to, int from, int width)
{
	bool		aligned = a.d % 4 == 0;
	int			quads = width / 4;
	int			all = GENERIC_ROWS * quads;
	/* at / quads is the high half of at × inverse */
	uint32_t	inverse = 0xffffffffu / quads + 1;

	for (int e = threadIdx.x; e < all; e += GENERIC_THREADS * UNROLL)
	{
		float4		x[UNROLL];
		float4		p[UNROLL];

#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			int			at = e + u * GENERIC_THREADS;
			int			r = (int) __umulhi((uint32_t) at, inverse);
			int			j = from + (at - r * quads) * 4;

			x[u] = p[u] = make_float4(0, 0, 0, 0);
			if (at < all && shared->row[r] >= 0)
			{
				x[u] = read_four(a.features + shared->row[r] * a.d, j, a.d, aligned);
				p[u] = read_four(a.origin, j, a.d, aligned);
			}
		}
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			int			at = e + u * GENERIC_THREADS;
			int			r = (int) __umulhi((uint32_t) at, inverse);
			int			j = (at - r * quads) * 4;

			if (at < all)
				*(uint2 *) (to + j / TILE_COLUMNS * GENERIC_ROWS * TILE_COLUMNS +
							place_of(r, j % TILE_COLUMNS / 8) + j % 8) =
					convert(x[u], p[u], shared->factor[r]);
		}
	}
}

/* The next tile of the centroids. */
struct Cursor
{
	int			panel;
	int			tile;

	__device__ __forceinline__ void step(int tiles)
	{
		if (++tile == tiles)
		{
			tile = 0;
			panel++;
		}
	}
};

/* Starts the copy of one tile of centroids, or half of it. */
template <int PANEL> static __device__ __forceinline__ void
load_tile(const GenericArguments &a, __half *to, const Cursor &which)
{
	int64_t		first = (int64_t) which.panel * PANEL;
	const __half *source = a.centroids +
		(first / TILE_CENTROIDS * tiles_of(a.depth) + which.tile) *
		(TILE_CENTROIDS * TILE_COLUMNS) + first % TILE_CENTROIDS * TILE_COLUMNS;

#pragma unroll
	for (int i = 0; i < PANEL * (TILE_COLUMNS / 8) / GENERIC_THREADS; i++)
	{
		int			at = (i * GENERIC_THREADS + threadIdx.x) * 8;

		copy_16(to + at, source + at);
	}
}

/* Starts filling the stages, if `load`: with all `total` tiles if they are to stay. */
template <int PANEL> static __device__ __forceinline__ void
fill_stages(const GenericArguments &a, __half *stages, Cursor &next, int tiles, int total,
			bool once, bool load)
{
	for (int s = 0; s < (once ? total : a.stages - 1); s++)
	{
		if (load && s < total)
			load_tile<PANEL>(a, stages + s * PANEL * TILE_COLUMNS, next);
		next.step(tiles);
		copy_commit();
	}
}

/* Waits for the next stage; for all of them if they are to stay. */
static __device__ __forceinline__ void
wait_stage(const GenericArguments &a, bool once)
{
	if (once || a.stages == 2)
		copy_wait<0>();
	else
		copy_wait<1>();
}

/* Waits for the tile of centroids, and loads the tile of rows if the rows do not stay. */
template <bool STAYS> static __device__ __forceinline__ void
await_tile(const GenericArguments &a, const RowShared *shared, __half *tile, int from, int width,
		   bool once)
{
	wait_stage(a, once);
	if (!STAYS)
		load_rows<4>(a, shared, tile, from, width);
	publish_stores();
	__syncthreads();
}

/* The bound of a row of the block. */
static __device__ __forceinline__ RowBound
bound_of(const RowShared *shared, int r)
{
	return {shared->norm[r], shared->error[r], shared->factor[r], shared->back[r]};
}

/* Upper bounds on the winning scores of a thread's rows, from the labels that they have. */
static __device__ void
start_scores(const GenericArguments &a, const RowShared *shared, const __half *rows,
			 const int r[2], Best best[2])
{
	/* now the rows are in place */
	__syncthreads();
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = shared->row[r[i]];

		best[i].second = start_score<GENERIC_ROWS>(a, rows, r[i], row >= 0 ? a.labels[row] : -1,
												   bound_of(shared, r[i]));
	}
}

/* Lists the centroids that can be nearest to a row. */
template <int PANEL, int I> static __device__ __forceinline__ void
append_candidates(const GenericArguments &a, const float (&sums)[PANEL / 8][4], int column,
				  float limit, int64_t flag)
{
#pragma unroll
	for (int n = 0; n < PANEL / 8; n++)
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (sums[n][I * 2 + i] <= limit)
			{
				uint32_t	place = atomicAdd(&a.candidate_counts[flag], 1u);

				if (place < FILTER_CANDIDATES)
					a.candidates[flag * FILTER_CANDIDATES + place] = column + n * 8 + i;
			}
}

/* The epilogue of a panel of centroids. */
template <int PANEL, bool SECOND> static __device__ __forceinline__ void
finish_panel(const GenericArguments &a, const RowShared *shared, float (&sums)[PANEL / 8][4],
			 int panel, const int r[2], int64_t first, Best best[2])
{
	int			column = panel * PANEL + threadIdx.x % 4 * 2;
	const float back[2] = {shared->back[r[0]], shared->back[r[1]]};
	float		least[1][2];

	make_scores(sums, back, least,
				[&](int n) { return __ldg((const float2 *) (a.lower + column + n * 8)); });
	if (!SECOND)
	{
		take_panel(sums, least, column, best);
		return;
	}
	if (least[0][0] <= shared->limit[r[0]])
		append_candidates<PANEL, 0>(a, sums, column, shared->limit[r[0]], first + r[0]);
	if (least[0][1] <= shared->limit[r[1]])
		append_candidates<PANEL, 1>(a, sums, column, shared->limit[r[1]], first + r[1]);
}

/* Compares the block's rows with centroids, a tile at a time. */
template <int PANEL, bool SECOND> static __device__ __forceinline__ void
compare_tile(const GenericArguments &a, const RowShared *shared, float (&sums)[PANEL / 8][4],
			 const __half *rows, const __half *centroids, int width, const Cursor &now, int tiles,
			 const int r[2], int64_t first, Best best[2])
{
	multiply_tiles<PANEL>(sums, rows, centroids, width / 16, now.tile == 0);
	if (now.tile == tiles - 1)
		finish_panel<PANEL, SECOND>(a, shared, sums, now.panel, r, first, best);
}

/*
 * With STAYS the rows stay in shared memory while the centroids stream through; else both
 * stream.  SECOND is the run over the flagged rows.  If all tiles of the centroids fit the
 * stages, they are loaded once.
 */
template <int PANEL, bool STAYS, bool SECOND> static __global__ void
__launch_bounds__(GENERIC_THREADS, PANEL == 64 && STAYS ? 3 : 2)
generic_kernel(GenericArguments a)
{
	extern __shared__ unsigned char memory[];
	__half	   *stages = (__half *) (((uintptr_t) memory + 1023) / 1024 * 1024);
	__half	   *rows = stages + a.stages * PANEL * TILE_COLUMNS;
	int			tiles = tiles_of(a.depth);
	const int	parts = SECOND ? a.parts : 1;
	RowShared  *shared = (RowShared *) (rows + (STAYS ? tiles : 2) * GENERIC_ROWS * TILE_COLUMNS);
	const int	r[2] = {row_of_thread(threadIdx.x), row_of_thread(threadIdx.x) + 8};
	bool		once = parts == 1 && a.panels * tiles <= a.stages;
	int64_t		count = SECOND ? min(*a.flag_count, a.flag_capacity) :
		a.row_list != nullptr ? *a.row_count : a.rows;
	int64_t		works = (count + GENERIC_ROWS - 1) / GENERIC_ROWS * parts;

	for (int64_t work = blockIdx.x; work < works; work += gridDim.x)
	{
		int64_t		first = work / parts * GENERIC_ROWS;
		int			part = (int) (work % parts);
		int			first_panel = a.panels * part / parts;
		int			total = (a.panels * (part + 1) / parts - first_panel) * tiles;	/* tiles */
		bool		load = !once || work == blockIdx.x;
		float		sums[PANEL / 8][4];
		Best		best[2] = {{NO_SCORE, NO_SCORE, 0}, {NO_SCORE, NO_SCORE, 0}};
		Cursor		now = {first_panel, 0};
		Cursor		next = {first_panel, 0};
		int			stage = 0;
		int			next_stage = 0;

		__syncthreads();
		start_rows<SECOND>(a, shared, first, count);
		fill_stages<PANEL>(a, stages, next, tiles, total, once, load);
		next_stage = a.stages - 1;
		__syncthreads();
		if (STAYS)
			load_rows<4>(a, shared, rows, 0, a.depth);
		if (!SECOND && a.row_list == nullptr && work + gridDim.x < works)
			prefetch_rows<GENERIC_THREADS>(a, first + (int64_t) gridDim.x * GENERIC_ROWS,
										   GENERIC_ROWS);
		if (STAYS && !SECOND && a.labels != nullptr)
			start_scores(a, shared, rows, r, best);
		for (int it = 0; it < total; it++)
		{
			int			width = min(TILE_COLUMNS, a.depth - now.tile * TILE_COLUMNS);
			__half	   *tile = rows + (STAYS ? now.tile : it % 2) * GENERIC_ROWS * TILE_COLUMNS;

			await_tile<STAYS>(a, shared, tile, now.tile * TILE_COLUMNS, width, once);
			if (!once && it + a.stages - 1 < total)
			{
				load_tile<PANEL>(a, stages + next_stage * PANEL * TILE_COLUMNS, next);
				next.step(tiles);
			}
			copy_commit();
			compare_tile<PANEL, SECOND>(a, shared, sums, tile,
										stages + stage * PANEL * TILE_COLUMNS, width, now,
										tiles, r, first, best);
			now.step(tiles);
			stage = stage + 1 == a.stages ? 0 : stage + 1;
			next_stage = next_stage + 1 == a.stages ? 0 : next_stage + 1;
		}
		if (!SECOND)
			conclude_rows(a, best, [&](int i) { return shared->row[r[i]]; },
						  [&](int i) { return bound_of(shared, r[i]); });
	}
}

/* Bytes of shared memory that a kernel of this kind needs. */
static size_t
shared_bytes(int centroids, bool stays, int depth, int stages)
{
	size_t		tiles = stays ? tiles_of(depth) : 2;

	return 1024 + sizeof(RowShared) +
		(tiles * GENERIC_ROWS + (size_t) stages * centroids) * TILE_COLUMNS * sizeof(__half);
}

/* Enqueues one kernel. */
template <int PANEL, bool STAYS, bool SECOND> static void
launch_kernel(Shard &shard, const GenericArguments &a)
{
	size_t		bytes = shared_bytes(PANEL, STAYS, a.depth, a.stages);
	const void *kernel = (const void *) generic_kernel<PANEL, STAYS, SECOND>;
	int			per_processor;

	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel,
			GENERIC_THREADS, bytes));
	generic_kernel<PANEL, STAYS, SECOND>
		<<<blocks_for(shard, (a.rows + GENERIC_ROWS - 1) / GENERIC_ROWS * (SECOND ? a.parts : 1),
					  per_processor),
		   GENERIC_THREADS, bytes, shard.device->compute>>>(a);
	GK_LAUNCHED("generic_kernel");
}

/* Enqueues the run over all rows, or that over the flagged ones. */
template <int PANEL, bool STAYS> static void
launch_filter(Shard &shard, GenericArguments &a, bool second)
{
	size_t		most = shard.device->shared_memory;

	/* two stages if that lets two blocks share a multiprocessor, or one fit at all */
	a.stages = (shared_bytes(PANEL, STAYS, a.depth, 3) + 1024) * 2 <= most + 1024 ||
		((shared_bytes(PANEL, STAYS, a.depth, 2) + 1024) * 2 > most + 1024 &&
		 shared_bytes(PANEL, STAYS, a.depth, 3) <= most) ? 3 : 2;
	if (second)
		launch_kernel<PANEL, STAYS, true>(shard, a);
	else
		launch_kernel<PANEL, STAYS, false>(shard, a);
}

/* Chooses if the rows stay in shared memory. */
template <int PANEL> static void
choose_filter(Shard &shard, GenericArguments &a, bool second)
{
	size_t		most = shard.device->shared_memory;

	a.panels = (a.count + PANEL - 1) / PANEL;
	a.parts = std::max(1, std::min(a.panels / 4, 16));
	if (a.panels < 3)
		a.labels = nullptr;
	if (shared_bytes(PANEL, true, a.depth, 2) <= most && (a.depth <= 256 || a.panels > 2))
		launch_filter<PANEL, true>(shard, a, second);
	else
		launch_filter<PANEL, false>(shard, a, second);
}

/* Chooses how many centroids a panel has. */
static void
run_generic(Shard &shard, const FilterArguments &arguments, bool second)
{
	GenericArguments a(arguments);

	/* 64 centroids a panel also if a multiprocessor has only 64 kB */
	if (a.count <= 64 || shard.device->shared_memory < (90 << 10))
		choose_filter<64>(shard, a, second);
	else
		choose_filter<128>(shard, a, second);
}

/* Rows that all multiprocessors compare at a time. */
int64_t
filter_generic_wave(const Shard &shard)
{
	return (int64_t) shard.device->processors * GENERIC_ROWS;
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_generic(Shard &shard, const FilterArguments &a)
{
	run_generic(shard, a, false);
}

/* Lists the candidates of the flagged rows. */
void
list_candidates(Shard &shard, const FilterArguments &a)
{
	run_generic(shard, a, true);
}

}								/* namespace gk */
