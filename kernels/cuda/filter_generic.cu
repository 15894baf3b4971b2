/*
 * The filter for any number of centroids and columns: both pass through shared memory.
 */
#include "tiles.cuh"

namespace gk
{

/* Upper bounds on the winning scores of a thread's rows, from the labels that they have. */
static __device__ void
start_scores(const TiledArguments &a, const RowShared *shared, const __half *rows,
			 const int r[2], Best best[2])
{
	/* now the rows are in place */
	__syncthreads();
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = shared->row[r[i]];

		best[i].second = start_score<BLOCK_ROWS>(a, rows, r[i], row >= 0 ? a.labels[row] : -1,
												 bound_of(shared, r[i]));
	}
}

/* The epilogue of a panel of centroids. */
template <int PANEL> static __device__ __forceinline__ void
finish_panel(const TiledArguments &a, const RowShared *shared, float (&sums)[PANEL / 8][4],
			 int panel, const int r[2], Best best[2])
{
	int			column = panel * PANEL + threadIdx.x % 4 * 2;
	const float back[2] = {shared->back[r[0]], shared->back[r[1]]};
	float		least[1][2];

	make_scores(sums, back, least,
				[&](int n) { return __ldg((const float2 *) (a.lower + column + n * 8)); });
	take_panel(sums, least, column, best);
}

/* Each block takes 128 rows at a time. */
template <int PANEL, bool STAYS> static __global__ void
__launch_bounds__(TILED_THREADS, PANEL == 64 && STAYS ? 3 : 2)
generic_kernel(TiledArguments a)
{
	extern __shared__ unsigned char memory[];
	__half	   *stages = (__half *) (((uintptr_t) memory + 1023) / 1024 * 1024);
	__half	   *rows = stages + a.stages * PANEL * TILE_COLUMNS;
	int			tiles = tiles_of(a.depth);
	RowShared  *shared = (RowShared *) (rows + (STAYS ? tiles : 2) * BLOCK_ROWS * TILE_COLUMNS);
	const int	r[2] = {row_of_thread(threadIdx.x), row_of_thread(threadIdx.x) + 8};
	int64_t		count = a.row_list != nullptr ? *a.row_count : a.rows;

	for (int64_t first = (int64_t) blockIdx.x * BLOCK_ROWS; first < count;
		 first += (int64_t) gridDim.x * BLOCK_ROWS)
	{
		Best		best[2] = {{NO_SCORE, NO_SCORE, 0}, {NO_SCORE, NO_SCORE, 0}};
		TileStream	stream;
		float		sums[PANEL / 8][4];

		__syncthreads();
		start_rows(a, shared, [&](int i)
		{
			int64_t		at = first + i;

			return at >= count ? -1 : a.row_list != nullptr ? a.row_list[at] : at;
		});
		stream = start_tiles<PANEL>(a, stages, 0, a.panels, true,
									first > (int64_t) blockIdx.x * BLOCK_ROWS);
		__syncthreads();
		if (STAYS)
			load_rows<4>(a, shared, rows, 0, a.depth);
		if (a.row_list == nullptr)
			prefetch_rows<TILED_THREADS>(a, first + (int64_t) gridDim.x * BLOCK_ROWS,
										 BLOCK_ROWS);
		if (STAYS && a.labels != nullptr)
			start_scores(a, shared, rows, r, best);
		while (stream.left > 0)
			if (multiply_next<PANEL, STAYS>(a, shared, stages, rows, stream, sums))
				finish_panel<PANEL>(a, shared, sums, stream.now.panel - 1, r, best);
		conclude_rows(a, best, [&](int i) { return shared->row[r[i]]; },
					  [&](int i) { return bound_of(shared, r[i]); });
	}
}

/* Enqueues one kernel. */
template <int PANEL, bool STAYS> static void
launch_generic(Shard &shard, TiledArguments &a)
{
	const void *kernel = (const void *) generic_kernel<PANEL, STAYS>;
	int64_t		blocks = (a.rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
	size_t		bytes;
	int			per_processor;

	a.stages = tiled_stages(shard, PANEL, STAYS, 0);
	bytes = tiled_bytes(PANEL, STAYS, a.depth, a.stages);
	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, TILED_THREADS,
			bytes));
	generic_kernel<PANEL, STAYS><<<blocks_for(shard, blocks, per_processor), TILED_THREADS, bytes,
		shard.device->compute>>>(a);
	GK_LAUNCHED("generic_kernel");
}

/* Chooses if the rows stay in shared memory. */
template <int PANEL> static void
choose_rows(Shard &shard, TiledArguments &a)
{
	a.panels = (a.count + PANEL - 1) / PANEL;
	if (a.panels < 3)
		a.labels = nullptr;
	if (tiled_rows_stay(shard, PANEL, a.panels, 0))
		launch_generic<PANEL, true>(shard, a);
	else
		launch_generic<PANEL, false>(shard, a);
}

/* Rows that all multiprocessors compare at a time. */
int64_t
filter_generic_wave(const Shard &shard)
{
	return (int64_t) shard.device->processors * BLOCK_ROWS;
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_generic(Shard &shard, const FilterArguments &arguments)
{
	TiledArguments a(arguments);

	if (tiled_panel(shard, a.count) == 64)
		choose_rows<64>(shard, a);
	else
		choose_rows<128>(shard, a);
}

}								/* namespace gk */
