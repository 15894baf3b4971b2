/*
 * The nearest neighbours of points among each other: lists of the least distances in float.
 */
#include <algorithm>

#include "launch.h"
#include "neighbours.h"

namespace gk
{

#define TILE 64					/* points of a block, and of those that it compares them with */
#define STAGE 16				/* features of them in shared memory */
#define THREADS 256
#define SHARES (THREADS / TILE)	/* threads that list the neighbours of a point */
#define MOST_SHARES 16			/* of the points, on different processors */

/* Stages of points, feature by feature, and then their distances. */
union NeighbourTile
{
	struct
	{
		float		x[STAGE][TILE + 4];
		float		y[STAGE][TILE + 4];
	}			stage;
	float		distances[TILE][TILE + 1];
	uint64_t	keys[TILE][GK_NEIGHBOUR_COUNT];
};

/* Points of a tile of which a thread loads a feature, and how far they are apart. */
#define LOADS (TILE * STAGE / THREADS)
#define APART (THREADS / STAGE)

/* Loads a feature of some of a tile's points; zeros beyond the last one. */
static __device__ __forceinline__ void
load_stage(const float *points, int64_t first, int64_t count, int d, int from, float *values)
{
	int64_t		point = first + threadIdx.x / STAGE;
	int			j = from + threadIdx.x % STAGE;
	const float *at = points + point * d + j;

#pragma unroll
	for (int i = 0; i < LOADS; i++)
		values[i] = point + i * APART < count && j < d ? at[(int64_t) i * APART * d] : 0.0f;
}

/* Stores them feature by feature. */
static __device__ __forceinline__ void
store_stage(const float *values, float (*to)[TILE + 4])
{
#pragma unroll
	for (int i = 0; i < LOADS; i++)
		to[threadIdx.x % STAGE][threadIdx.x / STAGE + i * APART] = values[i];
}

/* The distances between 4 × 4 points in each thread. */
static __device__ __forceinline__ void
compare_tiles(NeighbourTile &tile, const float *points, int64_t first, int64_t other,
			  int64_t count, int d)
{
	int			row = threadIdx.x / (TILE / 4) * 4;
	int			column = threadIdx.x % (TILE / 4) * 4;
	float		sums[4][4] = {};
	float		mine[LOADS];
	float		its[LOADS];

	load_stage(points, first, count, d, 0, mine);
	load_stage(points, other, count, d, 0, its);
	for (int from = 0; from < d; from += STAGE)
	{
		__syncthreads();
		store_stage(mine, tile.stage.x);
		store_stage(its, tile.stage.y);
		__syncthreads();
		if (from + STAGE < d)
		{
			load_stage(points, first, count, d, from + STAGE, mine);
			load_stage(points, other, count, d, from + STAGE, its);
		}
#pragma unroll
		for (int j = 0; j < STAGE; j++)
		{
			float4		x = *(const float4 *) &tile.stage.x[j][row];
			float4		y = *(const float4 *) &tile.stage.y[j][column];
			float		xs[4] = {x.x, x.y, x.z, x.w};
			float		ys[4] = {y.x, y.y, y.z, y.w};

#pragma unroll
			for (int i = 0; i < 16; i++)
				sums[i / 4][i % 4] = gk_add_square_float(sums[i / 4][i % 4], xs[i / 4], ys[i % 4]);
		}
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < 16; i++)
		tile.distances[row + i / 4][column + i % 4] = sums[i / 4][i % 4];
	__syncthreads();
}

/* The lists of a tile's points from those of their threads, the nearest first. */
static __device__ __forceinline__ void
join_lists(NeighbourTile &tile, uint64_t *keys)
{
	int			point = threadIdx.x / SHARES;

	for (int share = 1; share < SHARES; share++)
	{
		__syncthreads();
		if (threadIdx.x % SHARES == share)
#pragma unroll
			for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
				tile.keys[point][i] = keys[i];
		__syncthreads();
		if (threadIdx.x % SHARES == 0)
			for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
				gk_offer_neighbour(keys, tile.keys[point][i]);
	}
}

/*
 * Neighbours of the points from `first` on, a tile a block, among a share of all points: the keys
 * of share s are the s-th `wanted` lists.
 */
static __global__ void
__launch_bounds__(THREADS)
neighbours_kernel(const float *points, int64_t count, int d, int64_t first, int64_t wanted,
				  uint64_t *lists)
{
	__shared__ NeighbourTile tile;
	int64_t		begin = first + (int64_t) blockIdx.x * TILE;
	int64_t		tiles = (count + TILE - 1) / TILE;
	int64_t		end = min(count, tiles * (blockIdx.y + 1) / gridDim.y * TILE);
	int			row = threadIdx.x / SHARES;
	uint64_t	keys[GK_NEIGHBOUR_COUNT];
	float		limit = INFINITY;

#pragma unroll
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
		keys[i] = GK_NO_NEIGHBOUR;
	for (int64_t other = tiles * blockIdx.y / gridDim.y * TILE; other < end; other += TILE)
	{
		compare_tiles(tile, points, begin, other, count, d);
		for (int i = threadIdx.x % SHARES; i < TILE; i += SHARES)
			if (tile.distances[row][i] <= limit && other + i < count && other + i != begin + row)
				gk_offer_neighbour(keys, gk_neighbour_key(tile.distances[row][i], other + i,
														  begin + row));
		/* the greatest distance in the list of the point's threads with the nearest ones */
		limit = gk_neighbour_distance(keys[GK_NEIGHBOUR_COUNT - 1]);
		for (int share = 1; share < SHARES; share *= 2)
			limit = fminf(limit, __shfl_xor_sync(0xffffffffu, limit, share));
	}
	join_lists(tile, keys);
	if (threadIdx.x % SHARES == 0 && begin + row < first + wanted)
#pragma unroll
		for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
			lists[(blockIdx.y * wanted + (begin - first + row)) * GK_NEIGHBOUR_COUNT + i] =
				keys[i];
}

/* Into how many shares the points are split so that all processors have work. */
int
neighbour_shares(const Shard &shard, int64_t wanted)
{
	int64_t		tiles = (wanted + TILE - 1) / TILE;
	int64_t		shares = (int64_t) shard.device->processors * 8 / tiles;

	return (int) std::min<int64_t>(std::max<int64_t>(shares, 1), MOST_SHARES);
}

/* Finds the neighbours of `wanted` of the points, from `first` on, in each share of all. */
void
find_neighbours(Shard &shard, const float *points, int64_t count, int64_t first, int64_t wanted,
				int shares, uint64_t *lists)
{
	dim3		grid((unsigned) ((wanted + TILE - 1) / TILE), (unsigned) shares);

	shard.use();
	neighbours_kernel<<<grid, THREADS, 0, shard.device->compute>>>
		(points, count, shard.dimension, first, wanted, lists);
	GK_LAUNCHED("neighbours_kernel");
}

}								/* namespace gk */
