/*
 * The nearest neighbours of points among each other: lists of the least distances in float.
 *
 * A product of two points takes a third of the operations of their distance.  It says how far apart
 * they are but for a bound, so most pairs are left out; distances decide among the others.
 */
#include <algorithm>

#include "launch.h"
#include "neighbours.h"
#include "warp.cuh"

namespace gk
{

#define TILE NEIGHBOUR_TILE		/* points of a block, and of those that it compares them with */
#define STAGE 16				/* features of them in shared memory */
#define THREADS 256
#define MOST_SHARES 16			/* of the points, on different processors */
#define SAMPLES 64				/* points whose mean is the origin of products */

/* If more threads have pairs that may be near, a block takes the distances of all of a tile. */
#define FEW_THREADS 128

/* The unit roundoff of floats, and what is well above the least ones. */
#define ROUNDOFF 0x1p-24
#define LEAST 0x1p-120

/* What products need: they are of points less the origin. */
struct NeighbourBounds
{
	float	   *origin;			/* d */
	float	   *norms2;			/* count: squares of norms */
	float	   *greatest;		/* of each tile: its greatest norm, rounded up */
};

/* What a block knows of its points, and of those that it compares them with. */
struct NeighbourTile
{
	float		x[STAGE][TILE + 4];		/* feature by feature */
	float		y[STAGE][TILE + 4];
	float		norms2[TILE];			/* of the others */
	float		limits[TILE];			/* the greatest distance of a point's list */
	float		rests[TILE];			/* see rest_of() */
	int			found[TILE];			/* pairs of a point in this tile … */
	uint64_t	keys[TILE][TILE];		/* … that may belong to its list */
};

/* Points of a tile of which a thread loads a feature, and how far they are apart. */
#define LOADS (TILE * STAGE / THREADS)
#define APART (THREADS / STAGE)

/* Loads a feature of some of a tile's points, less the origin if any; zeros beyond the last one. */
static __device__ __forceinline__ void
load_stage(const float *points, const float *origin, int64_t first, int64_t count, int d, int from,
		   float *values)
{
	int64_t		point = first + threadIdx.x / STAGE;
	int			j = from + threadIdx.x % STAGE;
	const float *at = points + point * d + j;
	float		less = origin != nullptr && j < d ? origin[j] : 0.0f;

#pragma unroll
	for (int i = 0; i < LOADS; i++)
		values[i] = point + i * APART < count && j < d ? at[(int64_t) i * APART * d] - less : 0.0f;
}

/* Stores them feature by feature. */
static __device__ __forceinline__ void
store_stage(const float *values, float (*to)[TILE + 4])
{
#pragma unroll
	for (int i = 0; i < LOADS; i++)
		to[threadIdx.x % STAGE][threadIdx.x / STAGE + i * APART] = values[i];
}

/* The first of the rows and of the columns of a thread. */
static __device__ __forceinline__ int
first_row()
{
	return threadIdx.x / (TILE / 4) * 4;
}

static __device__ __forceinline__ int
first_column()
{
	return threadIdx.x % (TILE / 4) * 4;
}

/* The distances between 4 × 4 points in each thread, or (an origin) their products. */
template <bool DISTANCES> static __device__ __forceinline__ void
compare_tiles(NeighbourTile &tile, const float *points, const float *origin, int64_t first,
			  int64_t other, int64_t count, int d, float sums[4][4])
{
	float		mine[LOADS];
	float		its[LOADS];

#pragma unroll
	for (int i = 0; i < 16; i++)
		sums[i / 4][i % 4] = 0.0f;
	load_stage(points, origin, first, count, d, 0, mine);
	load_stage(points, origin, other, count, d, 0, its);
	for (int from = 0; from < d; from += STAGE)
	{
		__syncthreads();
		store_stage(mine, tile.x);
		store_stage(its, tile.y);
		__syncthreads();
		if (from + STAGE < d)
		{
			load_stage(points, origin, first, count, d, from + STAGE, mine);
			load_stage(points, origin, other, count, d, from + STAGE, its);
		}
#pragma unroll
		for (int j = 0; j < STAGE; j++)
		{
			float4		x = *(const float4 *) &tile.x[j][first_row()];
			float4		y = *(const float4 *) &tile.y[j][first_column()];
			float		xs[4] = {x.x, x.y, x.z, x.w};
			float		ys[4] = {y.x, y.y, y.z, y.w};

#pragma unroll
			for (int i = 0; i < 16; i++)
				sums[i / 4][i % 4] = DISTANCES ?
					gk_add_square_float(sums[i / 4][i % 4], xs[i / 4], ys[i % 4]) :
					__fmaf_rn(xs[i / 4], ys[i % 4], sums[i / 4][i % 4]);
		}
	}
}

/* Which pairs of a thread may be near, from their products: bit 4 × row + column. */
static __device__ __forceinline__ unsigned
near_pairs(const NeighbourTile &tile, const float sums[4][4])
{
	unsigned	near = 0;

#pragma unroll
	for (int i = 0; i < 16; i++)
	{
		float		rest = __fmaf_rn(-2.0f, sums[i / 4][i % 4],
									 tile.norms2[first_column() + i % 4]);

		/* true too if it is no number */
		near |= (unsigned) !(rest > tile.rests[first_row() + i / 4]) << i;
	}
	return near;
}

/* Notes a pair whose distance may belong to the list of its point. */
static __device__ __forceinline__ void
note_pair(NeighbourTile &tile, int row, int64_t point, int64_t other, int64_t count,
		  float distance2)
{
	if (distance2 <= tile.limits[row] && other < count && other != point)
		tile.keys[row][atomicAdd(&tile.found[row], 1)] =
			gk_neighbour_key(distance2, other, point);
}

/* The distance of two points. */
static __device__ float
pair_distance(const float *points, int64_t point, int64_t other, int64_t count, int d)
{
	float		sum = 0.0f;

	if (point >= count || other >= count)
		return 0.0f;
#pragma unroll 8
	for (int j = 0; j < d; j++)
		sum = gk_add_square_float(sum, points[point * d + j], points[other * d + j]);
	return sum;
}

/*
 * At most this is |y|² - 2 xy, with its rounding errors, if the distance of x and y is not above
 * the limit: for x and y less the origin, a and b being their norms.  Σ (x - y)² has a relative
 * error of d + 2 roundings, products have d of at most ab, and x and y have one each.
 */
static __device__ float
rest_of(float limit, double a, double b, int d)
{
	double		gamma = (d + 8) * ROUNDOFF;
	double		root = sqrt((double) limit * (1.0 + 2.0 * gamma) + LEAST) +
		4.0 * ROUNDOFF * (a + b);
	double		rest = root * root - a * a + 2.0 * gamma * (a * a + b * b + 2.0 * a * b) + LEAST;

	/* sums of products could be infinite */
	return isinf(limit) || !(a * b < 0x1p124) || !(b < 0x1p62) ? INFINITY :
		__double2float_ru(rest);
}

/* The list of a point in the thread that has it, and what bounds need. */
struct NeighbourList
{
	uint64_t	keys[GK_NEIGHBOUR_COUNT];
	double		norm;

	/* Takes in what has been found in a tile. */
	__device__ __forceinline__ void take(NeighbourTile &tile)
	{
		for (int i = 0; i < tile.found[threadIdx.x]; i++)
			gk_offer_neighbour(keys, tile.keys[threadIdx.x][i]);
		tile.found[threadIdx.x] = 0;
		tile.limits[threadIdx.x] = gk_neighbour_distance(keys[GK_NEIGHBOUR_COUNT - 1]);
	}

	/* Prepares the comparison with another tile. */
	__device__ __forceinline__ void prepare(NeighbourTile &tile, const NeighbourBounds &bounds,
											int64_t other, int64_t count, int d)
	{
		tile.norms2[threadIdx.x] = other + threadIdx.x < count ?
			bounds.norms2[other + threadIdx.x] : 0.0f;
		tile.rests[threadIdx.x] = rest_of(tile.limits[threadIdx.x], norm,
										  bounds.greatest[other / TILE], d);
	}
};

/* Compares a block's points with those of another tile. */
static __device__ __forceinline__ void
find_pairs(NeighbourTile &tile, const float *points, const NeighbourBounds &bounds, int64_t first,
		   int64_t other, int64_t count, int d)
{
	int64_t		point = first + first_row();
	int64_t		its = other + first_column();
	float		sums[4][4];
	unsigned	near;

	compare_tiles<false>(tile, points, bounds.origin, first, other, count, d, sums);
	near = near_pairs(tile, sums);
	if (__syncthreads_count(near != 0) > FEW_THREADS)
	{
		compare_tiles<true>(tile, points, nullptr, first, other, count, d, sums);
#pragma unroll
		for (int i = 0; i < 16; i++)
			note_pair(tile, first_row() + i / 4, point + i / 4, its + i % 4, count,
					  sums[i / 4][i % 4]);
	}
	else
		for (; near != 0; near &= near - 1)
		{
			int			i = __ffs((int) near) - 1;

			note_pair(tile, first_row() + i / 4, point + i / 4, its + i % 4, count,
					  pair_distance(points, point + i / 4, its + i % 4, count, d));
		}
}

/* No neighbours for a tile of points: their lists are in another share. */
static __device__ __forceinline__ void
list_none(int64_t wanted, uint64_t *lists)
{
	int64_t		begin = (int64_t) blockIdx.x * TILE;
	int			keys = (int) min((int64_t) TILE, wanted - begin) * GK_NEIGHBOUR_COUNT;

	for (int i = threadIdx.x; i < keys; i += THREADS)
		lists[(blockIdx.y * wanted + begin) * GK_NEIGHBOUR_COUNT + i] = GK_NO_NEIGHBOUR;
}

/*
 * Neighbours of the points from `first` on, a tile a block, among a share of all points: the keys
 * of share s are the s-th `wanted` lists.  Of tiles that are not left, if any are said to be, the
 * first share has the lists.
 */
static __global__ void
__launch_bounds__(THREADS)
neighbours_kernel(const float *points, NeighbourBounds bounds, int64_t count, int d, int64_t first,
				  int64_t wanted, const int *left, uint64_t *lists)
{
	__shared__ NeighbourTile tile;
	int64_t		begin = first + (int64_t) blockIdx.x * TILE;
	int64_t		tiles = (count + TILE - 1) / TILE;
	int64_t		end = min(count, tiles * (blockIdx.y + 1) / gridDim.y * TILE);
	bool		has_list = threadIdx.x < TILE;
	NeighbourList list;

	if (left != nullptr && left[blockIdx.x] == 0)
	{
		if (blockIdx.y > 0)
			list_none(wanted, lists);
		return;
	}
#pragma unroll
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
		list.keys[i] = GK_NO_NEIGHBOUR;
	list.norm = has_list && begin + threadIdx.x < count ?
		sqrt((double) bounds.norms2[begin + threadIdx.x]) * (1.0 + 4.0 * ROUNDOFF) : 0.0;
	if (has_list)
		tile.found[threadIdx.x] = 0;
	for (int64_t other = tiles * blockIdx.y / gridDim.y * TILE; other < end; other += TILE)
	{
		if (has_list)
		{
			list.take(tile);
			list.prepare(tile, bounds, other, count, d);
		}
		find_pairs(tile, points, bounds, begin, other, count, d);
		__syncthreads();
	}
	if (!has_list)
		return;
	list.take(tile);
	if (begin + threadIdx.x < first + wanted)
#pragma unroll
		for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
			lists[(blockIdx.y * wanted + (begin - first + threadIdx.x)) * GK_NEIGHBOUR_COUNT + i] =
				list.keys[i];
}

/* The mean of some points: a thread a feature. */
static __global__ void
origin_kernel(const float *points, int64_t count, int d, float *origin)
{
	int			j = blockIdx.x * blockDim.x + threadIdx.x;
	double		sum = 0.0;

	if (j >= d)
		return;
#pragma unroll 8
	for (int i = 0; i < SAMPLES; i++)
		sum += points[count * i / SAMPLES * d + j];
	origin[j] = (float) (sum / SAMPLES);
}

/* The norms of points less the origin, a tile a block, a warp a point at a time. */
static __global__ void
__launch_bounds__(THREADS)
norms_kernel(const float *points, int64_t count, int d, NeighbourBounds bounds)
{
	__shared__ double norms[THREADS / 32];
	int			lane = threadIdx.x % 32;
	int			warp = threadIdx.x / 32;
	int64_t		first = (int64_t) blockIdx.x * TILE;
	double		greatest = 0.0;

	for (int64_t point = first + warp; point < min(count, first + TILE); point += THREADS / 32)
	{
		double		sum = 0.0;

		for (int j = lane; j < d; j += 32)
		{
			float		value = points[point * d + j] - bounds.origin[j];

			sum += (double) value * value;
		}
		sum = sum_of_lanes<32>(sum);
		greatest = fmax(greatest, sum);
		if (lane == 0)
			bounds.norms2[point] = (float) sum;
	}
	if (lane == 0)
		norms[warp] = greatest;
	__syncthreads();
	if (threadIdx.x > 0)
		return;
	for (int w = 1; w < THREADS / 32; w++)
		greatest = fmax(greatest, norms[w]);
	bounds.greatest[blockIdx.x] = __double2float_ru(sqrt(greatest) * (1.0 + 4.0 * ROUNDOFF));
}

/* Into how many shares the points are split: three blocks at a time on a processor, thrice. */
int
neighbour_shares(const Shard &shard, int64_t wanted)
{
	int64_t		tiles = (wanted + TILE - 1) / TILE;
	int64_t		shares = (int64_t) shard.device->processors * 9 / tiles;

	return (int) std::min<int64_t>(std::max<int64_t>(shares, 1), MOST_SHARES);
}

/* Parts of that memory: of one value each. */
static NeighbourBounds
bounds_in(float *room, int64_t count, int d)
{
	return {room, room + d, room + d + count};
}

/* How many values that memory has. */
static int64_t
bounds_room(int64_t count, int d)
{
	return (d + count + (count + TILE - 1) / TILE + 3) / 4 * 4;
}

/* How many values the memory has that find_neighbours() needs besides the lists. */
int64_t
neighbour_room(const Shard &shard, int64_t count, int64_t wanted)
{
	return bounds_room(count, shard.dimension) +
		(near_points_suit(shard, count) ? near_points_room(shard, count, wanted) : 0);
}

/* Prepares the search of neighbours of points. */
void
prepare_neighbours(Shard &shard, const float *points, int64_t count, float *room)
{
	NeighbourBounds bounds = bounds_in(room, count, shard.dimension);

	if (count < 1)
		return;
	shard.use();
	origin_kernel<<<(unsigned) ((shard.dimension + 31) / 32), 32, 0, shard.device->compute>>>
		(points, count, shard.dimension, bounds.origin);
	GK_LAUNCHED("origin_kernel");
	norms_kernel<<<(unsigned) ((count + TILE - 1) / TILE), THREADS, 0, shard.device->compute>>>
		(points, count, shard.dimension, bounds);
	GK_LAUNCHED("norms_kernel");
	if (near_points_suit(shard, count))
		prepare_near_points(shard, points, count, bounds.origin, bounds.greatest,
							room + bounds_room(count, shard.dimension));
}

/* Finds the neighbours of `wanted` of the points, from `first` on, in each share of all. */
void
find_neighbours(Shard &shard, const float *points, int64_t count, float *room, int64_t first,
				int64_t wanted, int shares, uint64_t *lists)
{
	dim3		grid((unsigned) ((wanted + TILE - 1) / TILE), (unsigned) shares);
	const int  *left = nullptr;

	shard.use();
	if (near_points_suit(shard, count))
		left = find_near_points(shard, points, count, room + bounds_room(count, shard.dimension),
								first, wanted, lists);
	neighbours_kernel<<<grid, THREADS, 0, shard.device->compute>>>
		(points, bounds_in(room, count, shard.dimension), count, shard.dimension, first, wanted,
		 left, lists);
	GK_LAUNCHED("neighbours_kernel");
}

}								/* namespace gk */
