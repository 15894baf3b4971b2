/*
 * A block that compares 128 rows, 16 per warp, with all centroids of a panel: rows and centroids
 * pass through shared memory in tiles.
 */
#ifndef GK_TILES_CUH
#define GK_TILES_CUH

#include "epilogue.cuh"
#include "wgmma.cuh"

namespace gk
{

#define TILED_THREADS 256

/* The arguments, with the panels of centroids and the stages of their tiles. */
struct TiledArguments : FilterArguments
{
	explicit TiledArguments(const FilterArguments &common)
		: FilterArguments(common), panels(0), stages(0)
	{
	}

	int			panels;			/* of centroids */
	int			stages;			/* 2 or 3 */
};

/* Copies 16 bytes from global to shared memory, asynchronously if the device can. */
static __device__ __forceinline__ void
copy_16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(to)), "l"(from));
#else
	*(uint4 *) to = *(const uint4 *) from;
#endif
}

/* Commits the copies since the last group as a group. */
static __device__ __forceinline__ void
copy_commit()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;");
#endif
}

/* Waits until at most N groups of copies are in flight. */
template <int N> static __device__ __forceinline__ void
copy_wait()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" :: "n"(N));
#endif
}

#ifdef HAS_WGMMA

/* Multiplies a tile of rows and PANEL centroids, `steps` × 16 deep. */
template <int PANEL> static __device__ __forceinline__ void
multiply_tiles(float (&sums)[PANEL / 8][4], const __half *rows, const __half *centroids,
			   int steps, bool first)
{
	multiply_tile(sums, describe(rows + threadIdx.x / 128 * 64 * TILE_COLUMNS),
				  describe(centroids), steps, first);
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

/* Between stores and these products, a barrier is enough. */
static __device__ __forceinline__ void
publish_stores()
{
}

/* Multiplies a tile of rows and PANEL centroids, `steps` × 16 deep. */
template <int PANEL> static __device__ __forceinline__ void
multiply_tiles(float (&sums)[PANEL / 8][4], const __half *rows, const __half *centroids,
			   int steps, bool first)
{
	int			lane = threadIdx.x % 32;
	int			row = threadIdx.x / 32 * 16 + (lane & 15);
	int			centroid = (lane & 7) + ((lane >> 4) << 3);

	if (first)
#pragma unroll
		for (int n = 0; n < PANEL / 8; n++)
			sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
#pragma unroll
	for (int step = 0; step < TILE_COLUMNS / 16; step++)
	{
		uint32_t	a[4];

		if (step >= steps)
			break;
		load_matrices(a, rows + place_of(row, step * 2 + (lane >> 4)));
#pragma unroll
		for (int n = 0; n < PANEL / 16; n++)
		{
			uint32_t	b[4];

			load_matrices(b, centroids + place_of(n * 16 + centroid, step * 2 + ((lane >> 3) & 1)));
			multiply(sums[n * 2], a, b);
			multiply(sums[n * 2 + 1], a, b + 2);
		}
	}
}

#endif

/* The rows of a block, in shared memory. */
struct RowShared
{
	float		norm[BLOCK_ROWS];		/* in the centroids' scale */
	float		error[BLOCK_ROWS];
	float		factor[BLOCK_ROWS];		/* rows are multiplied by it … */
	float		back[BLOCK_ROWS];		/* … and minus products by this */
	int64_t		row[BLOCK_ROWS];		/* in the slice; -1 = none */
};

/* Reads the bounds of the rows of a block: row_at(r) is the number of row r, or -1. */
template <typename F> static __device__ __forceinline__ void
start_rows(const TiledArguments &a, RowShared *shared, F row_at)
{
	for (int r = threadIdx.x; r < BLOCK_ROWS; r += TILED_THREADS)
	{
		int64_t		row = row_at(r);
		RowBound	bound = read_bound(row >= 0 ? a.bounds[row] : 0, a.scale->exponent);

		shared->row[r] = row;
		shared->norm[r] = bound.norm;
		shared->error[r] = bound.error;
		shared->factor[r] = bound.factor;
		shared->back[r] = bound.back;
	}
}

/* Converts columns from .. from + width - 1 of the block's rows into tiles in shared memory. */
template <int UNROLL> static __device__ __forceinline__ void
load_rows(const TiledArguments &a, const RowShared *shared, __half *to, int from, int width)
{
	bool		aligned = a.d % 4 == 0;
	int			quads = width / 4;
	int			all = BLOCK_ROWS * quads;
	/* at / quads is the high half of at × inverse */
	uint32_t	inverse = 0xffffffffu / quads + 1;

	for (int e = threadIdx.x; e < all; e += TILED_THREADS * UNROLL)
	{
		float4		x[UNROLL];
		float4		p[UNROLL];

#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			int			at = e + u * TILED_THREADS;
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
			int			at = e + u * TILED_THREADS;
			int			r = (int) __umulhi((uint32_t) at, inverse);
			int			j = (at - r * quads) * 4;

			if (at < all)
				*(uint2 *) (to + j / TILE_COLUMNS * BLOCK_ROWS * TILE_COLUMNS +
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
load_tile(const TiledArguments &a, __half *to, const Cursor &which)
{
	int64_t		first = (int64_t) which.panel * PANEL;
	const __half *source = a.centroids +
		(first / TILE_CENTROIDS * tiles_of(a.depth) + which.tile) *
		(TILE_CENTROIDS * TILE_COLUMNS) + first % TILE_CENTROIDS * TILE_COLUMNS;

#pragma unroll
	for (int i = 0; i < PANEL * (TILE_COLUMNS / 8) / TILED_THREADS; i++)
	{
		int			at = (i * TILED_THREADS + threadIdx.x) * 8;

		copy_16(to + at, source + at);
	}
}

/* Waits for the next stage; for all of them if they are to stay. */
static __device__ __forceinline__ void
wait_stage(const TiledArguments &a, bool once)
{
	if (once || a.stages == 2)
		copy_wait<0>();
	else
		copy_wait<1>();
}

/* Waits for the tile of centroids, and loads the tile of rows if the rows do not stay. */
template <bool STAYS> static __device__ __forceinline__ void
await_tile(const TiledArguments &a, const RowShared *shared, __half *tile, int from, int width,
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

/* The tiles of the centroids that a block multiplies its rows with, one after the other. */
struct TileStream
{
	int			left;			/* tiles, with those that are on their way */
	bool		once;			/* all of them have been loaded, and stay */
	int			stage;
	Cursor		now;
	Cursor		next;			/* to load */
};

/*
 * Starts with `panels` panels of centroids.  If all tiles fit the stages, they are loaded once,
 * unless they are `there`.
 */
template <int PANEL> static __device__ __forceinline__ TileStream
start_tiles(const TiledArguments &a, __half *stages, int panel, int panels, bool may_stay,
			bool there)
{
	int			tiles = tiles_of(a.depth);
	int			total = panels * tiles;
	bool		once = may_stay && total <= a.stages;
	TileStream	stream = {total, once, 0, {panel, 0}, {panel, 0}};

	for (int s = 0; s < (once ? total : a.stages - 1); s++)
	{
		if (s < total && !(once && there))
			load_tile<PANEL>(a, stages + s * PANEL * TILE_COLUMNS, stream.next);
		stream.next.step(tiles);
		copy_commit();
	}
	return stream;
}

/*
 * Multiplies a block's rows with the next tile of centroids; true if that ends a panel.  With
 * STAYS the rows are in shared memory; else their tiles pass through it too.
 */
template <int PANEL, bool STAYS> static __device__ __forceinline__ bool
multiply_next(const TiledArguments &a, const RowShared *shared, __half *stages, __half *rows,
			  TileStream &stream, float (&sums)[PANEL / 8][4])
{
	int			tiles = tiles_of(a.depth);
	int			from = stream.now.tile * TILE_COLUMNS;
	int			width = min(TILE_COLUMNS, a.depth - from);
	int			place = STAYS ? stream.now.tile : stream.left % 2;
	__half	   *tile = rows + place * BLOCK_ROWS * TILE_COLUMNS;

	await_tile<STAYS>(a, shared, tile, from, width, stream.once);
	if (!stream.once && stream.left >= a.stages)
	{
		int			free = stream.stage == 0 ? a.stages - 1 : stream.stage - 1;

		load_tile<PANEL>(a, stages + free * PANEL * TILE_COLUMNS, stream.next);
		stream.next.step(tiles);
	}
	copy_commit();
	multiply_tiles<PANEL>(sums, tile, stages + stream.stage * PANEL * TILE_COLUMNS, width / 16,
						  from == 0);
	stream.stage = stream.stage + 1 == a.stages ? 0 : stream.stage + 1;
	stream.now.step(tiles);
	stream.left--;
	return stream.now.tile == 0;
}

/* Bytes of shared memory that such a block needs. */
static inline size_t
tiled_bytes(int centroids, bool stays, int depth, int stages)
{
	size_t		tiles = stays ? tiles_of(depth) : 2;

	return 1024 + sizeof(RowShared) +
		(tiles * BLOCK_ROWS + (size_t) stages * centroids) * TILE_COLUMNS * sizeof(__half);
}

/* The number of stages: two if that lets two blocks share a multiprocessor, or one fit at all. */
static inline int
tiled_stages(const Shard &shard, int centroids, bool stays, size_t besides)
{
	size_t		most = shard.device->shared_memory;
	size_t		two = tiled_bytes(centroids, stays, shard.depth, 2) + besides;
	size_t		three = tiled_bytes(centroids, stays, shard.depth, 3) + besides;

	return (three + 1024) * 2 <= most + 1024 || ((two + 1024) * 2 > most + 1024 && three <= most) ?
		3 : 2;
}

/* True if the rows can stay in shared memory, and that pays off. */
static inline bool
tiled_rows_stay(const Shard &shard, int centroids, int panels, size_t besides)
{
	return tiled_bytes(centroids, true, shard.depth, 2) + besides <= shard.device->shared_memory &&
		(shard.depth <= 256 || panels > 2);
}

/* Centroids of a panel: 64 also if a multiprocessor has only 64 kB. */
static inline int
tiled_panel(const Shard &shard, int centroids)
{
	return centroids <= 64 || shard.device->shared_memory < (90 << 10) ? 64 : 128;
}

}								/* namespace gk */

#endif							/* GK_TILES_CUH */
