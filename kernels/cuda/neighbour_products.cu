/*
 * The nearest neighbours of many points among each other, by products on the tensor cores.
 *
 * A product of 16-bit values says how far apart two points are but for a bound (docs/filter.md).
 * A first pass over all products finds how far a point's neighbours can be at most, a second one
 * notes the others that may be so near: few more than its neighbours.  Of these, the distances
 * decide.  Points for which there are too many are left to neighbours.cu.
 */
#include <algorithm>

#include "accumulation.h"
#include "neighbours.h"
#include "rounding.cuh"
#include "tiles.cuh"
#include "warp.cuh"

namespace gk
{

#define PANEL TILE_CENTROIDS	/* points of a tile */
#define STEP_VALUES (PANEL * TILE_COLUMNS)
#define STAGE_TILES 2			/* of a stage: of a block's points, and of the others */
#define STAGE_COUNT 2
#define PASS_BYTES (1024 + STAGE_COUNT * STAGE_TILES * STEP_VALUES * (int) sizeof(__half))
#define LEAST_POINTS 512		/* for which this pays */
#define MOST_NEAR_SHARES 8		/* of the others, on different processors */
#define BLOCKS_A_PROCESSOR 8	/* of a pass, at least, if there are as many shares */
#define GROUPS 16				/* of a share, each with the least of its scores */
#define MOST_NEAR 128			/* points noted for one: as much memory as the groups take */
#define POINT_WARPS 8			/* of a block, each with a point at a time */
#define POINTS_A_WARP 8

static_assert(GROUPS * MOST_NEAR_SHARES == MOST_NEAR, "either takes the memory of the other");

/* The rounding error of a point over its norm for which the bound is split best. */
#define TYPICAL_ERROR 0x1p-12

/* Norms for which nothing overflows, or underflows and matters. */
#define LEAST_NORM 0x1p-40f
#define MOST_NORM 0x1p60f

/* Points in 16 bits, and what their products say of distances, in the scale of these. */
struct NearPoints
{
	const float *points;
	int64_t		count;
	int64_t		padded;
	int			d;
	int			depth;
	double		gamma;			/* of accumulation_bound() */
	__half	   *values;			/* panels of tiles, as centroids have them */
	float	   *errors;			/* padded: a point's part of the error of half a squared distance */
	float	   *lower;			/* padded: half of the squared norm, less that */
	float	   *upper;			/* … and more that */
};

/* Some of the points, whose neighbours are wanted. */
struct NearWanted
{
	int64_t		first;
	int64_t		count;
	int			shares;
	float	   *least;			/* count × shares × GROUPS scores … */
	int32_t    *near;			/* … or count × MOST_NEAR others that may be neighbours */
	float	   *limits;			/* count: no neighbour has a lower bound above it */
	int		   *found;			/* count: others noted, or as many as there were */
	int		   *left;			/* of each NEIGHBOUR_TILE points: to be found by neighbours.cu */
};

/* The greatest of the norms of tiles, in all threads of a block. */
static __device__ float
greatest_norm(const float *greatest, int64_t tiles)
{
	__shared__ float parts[POINT_WARPS];
	float		most = 0.0f;

	for (int64_t i = threadIdx.x; i < tiles; i += POINT_WARPS * 32)
		most = greatest[i] <= MOST_NORM ? fmaxf(most, greatest[i]) : INFINITY;
	most = (float) greatest_of_warp(most);
	if (threadIdx.x % 32 == 0)
		parts[threadIdx.x / 32] = most;
	__syncthreads();
	for (int w = 0; w < POINT_WARPS; w++)
		most = fmaxf(most, parts[w]);
	return most;
}

/* Stores the bounds of a point; one that is none is far from all others. */
static __device__ __forceinline__ void
store_point(const NearPoints &a, int64_t point, const Rounded &all)
{
	double		most2 = fmax(all.norm2, all.kept2);
	double		error = (all.lost2 / TYPICAL_ERROR + most2 * TYPICAL_ERROR + most2 * a.gamma) / 2 +
		most2 * (a.d + 64) * 0x1p-23 + 0x1p-20;

	a.errors[point] = __double2float_ru(error);
	a.lower[point] = point < a.count ? __double2float_rd(all.norm2 / 2 - error) : INFINITY;
	a.upper[point] = point < a.count ? __double2float_ru(all.norm2 / 2 + error) : INFINITY;
}

/* Rounds a point, less the origin, to 16 bits; a warp does it.  A factor of 0: it is not usable. */
static __device__ __forceinline__ void
round_point(const NearPoints &a, const float *origin, int64_t point, double factor)
{
	Rounded		all = round_columns(a.depth, [&](int j)
	{
		return factor > 0.0 && point < a.count && j < a.d ?
			(a.points[point * a.d + j] - origin[j]) * factor : 0.0;
	}, [&](int j) { return a.values + place_of_centroid(a.depth, point, j); });

	if (!(factor > 0.0))
		all.lost2 = INFINITY;
	if (threadIdx.x % 32 == 0)
		store_point(a, point, all);
}

/* Rounds all points. */
static __global__ void
__launch_bounds__(POINT_WARPS * 32)
round_points_kernel(NearPoints a, const float *origin, const float *greatest, int64_t tiles)
{
	float		most = greatest_norm(greatest, tiles);
	bool		usable = most >= LEAST_NORM && most <= MOST_NORM;
	double		factor = usable ? (double) power_of_two(scale_of_norm(most)) : 0.0;
	int64_t		first = ((int64_t) blockIdx.x * POINT_WARPS + threadIdx.x / 32) * POINTS_A_WARP;

	for (int64_t point = first; point < min(first + POINTS_A_WARP, a.padded); point++)
		round_point(a, origin, point, factor);
}

/* Starts to copy a tile of so many parts of eight columns. */
static __device__ __forceinline__ void
copy_points(const NearPoints &a, __half *to, int64_t panel, int tile, int parts)
{
	const __half *from = a.values + (panel * tiles_of(a.depth) + tile) * STEP_VALUES;

#pragma unroll
	for (int i = 0; i < STEP_VALUES / 8 / TILED_THREADS; i++)
	{
		int			at = i * TILED_THREADS + threadIdx.x;
		int			place = place_of(at / 8, at % 8);

		if (at % 8 < parts)
			copy_16(to + place, from + place);
	}
}

/* Calls take(panel, products) with a block's points and each panel from one on. */
template <typename F> static __device__ __forceinline__ void
multiply_points(const NearPoints &a, __half *stages, int64_t mine, int from, int to, F take)
{
	int			tiles = tiles_of(a.depth);
	int			all = (to - from) * tiles;
	float		sums[PANEL / 8][4];
	auto		start = [&](int step)
	{
		__half	   *stage = stages + step % STAGE_COUNT * STAGE_TILES * STEP_VALUES;
		int			tile = step % tiles;
		int			parts = min(TILE_COLUMNS, a.depth - tile * TILE_COLUMNS) / 8;

		/* if a point is one tile, the stages keep those of the block */
		if (step < all && (tiles > 1 || step < STAGE_COUNT))
			copy_points(a, stage, mine, tile, parts);
		if (step < all)
			copy_points(a, stage + STEP_VALUES, from + step / tiles, tile, parts);
		copy_commit();
	};

	start(0);
	for (int step = 0; step < all; step++)
	{
		const __half *stage = stages + step % STAGE_COUNT * STAGE_TILES * STEP_VALUES;
		int			tile = step % tiles;

		copy_wait<0>();
		publish_stores();
		__syncthreads();
		start(step + 1);
		multiply_tiles<PANEL>(sums, stage, stage + STEP_VALUES,
							  min(TILE_COLUMNS, a.depth - tile * TILE_COLUMNS) / 16, tile == 0);
		if (tile == tiles - 1)
			take(from + step / tiles, sums);
	}
}

/* The panels of others of a block, and its memory. */
struct NearBlock
{
	int64_t		panel;			/* its points */
	int			from;
	int			to;
	__half	   *stages;

	__device__ __forceinline__ NearBlock(const NearPoints &a, const NearWanted &w,
										 unsigned char *memory)
	{
		int64_t		panels = a.padded / PANEL;

		panel = w.first / PANEL + blockIdx.x;
		from = (int) (panels * blockIdx.y / gridDim.y);
		to = (int) (panels * (blockIdx.y + 1) / gridDim.y);
		stages = (__half *) (memory + -shared_address(memory) % 1024);
	}

	/* Row I of a thread: which one of those that are wanted, or -1. */
	template <int I> __device__ __forceinline__ int64_t wanted_row(const NearWanted &w) const
	{
		int64_t		row = panel * PANEL + row_of_thread(threadIdx.x) + I * 8 - w.first;

		return row < w.count ? max(row, INT64_C(-1)) : -1;
	}
};

/* The first pass: the least upper bounds of groups of others. */
static __global__ void
__launch_bounds__(TILED_THREADS, 2)
least_kernel(NearPoints a, NearWanted w)
{
	extern __shared__ unsigned char near_memory[];
	NearBlock	block(a, w, near_memory);
	float		least[2][4];

#pragma unroll
	for (int i = 0; i < 8; i++)
		least[i / 4][i % 4] = INFINITY;
	multiply_points(a, block.stages, block.panel, block.from, block.to,
					[&](int64_t panel, const float (&sums)[PANEL / 8][4])
	{
		const float *upper = a.upper + panel * PANEL + threadIdx.x % 4 * 2;

#pragma unroll
		for (int n = 0; n < PANEL / 8; n++)
		{
			float2		bound = __ldg((const float2 *) (upper + n * 8));

#pragma unroll
			for (int i = 0; i < 2; i++)
			{
				float	   *mine = &least[i][n % 2 * 2];

				mine[0] = fminf(mine[0], bound.x - sums[n][i * 2]);
				mine[1] = fminf(mine[1], bound.y - sums[n][i * 2 + 1]);
			}
		}
	});
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = i == 0 ? block.wanted_row<0>(w) : block.wanted_row<1>(w);

		if (row >= 0)
			*(float4 *) (w.least + (row * w.shares + blockIdx.y) * GROUPS + threadIdx.x % 4 * 4) =
				make_float4(least[i][0], least[i][1], least[i][2], least[i][3]);
	}
}

/* The least value of a warp, in all lanes. */
template <typename T> static __device__ __forceinline__ T
least_of_warp(T value)
{
#pragma unroll
	for (int other = 16; other > 0; other /= 2)
		value = min(value, __shfl_xor_sync(0xffffffffu, value, other));
	return value;
}

/* Takes the least value that lanes have out of them, and returns it. */
template <typename T> static __device__ __forceinline__ T
take_least(T (&values)[MOST_NEAR / 32], T none)
{
	T			mine = values[0];
	T			least;
	bool		is_mine;

#pragma unroll
	for (int i = 1; i < MOST_NEAR / 32; i++)
		mine = min(mine, values[i]);
	least = least_of_warp(mine);
	is_mine = __ffs((int) __ballot_sync(0xffffffffu, mine == least)) - 1 ==
		(int) threadIdx.x % 32;
#pragma unroll
	for (int i = 0; i < MOST_NEAR / 32; i++)
		if (is_mine && values[i] == least)
		{
			values[i] = none;
			is_mine = false;
		}
	return least;
}

/*
 * How far the neighbours of a point can be: a warp does it.  The point itself may be in one of the
 * groups, so of these that with the next least score after GK_NEIGHBOUR_COUNT others counts.
 */
static __global__ void
__launch_bounds__(POINT_WARPS * 32)
limit_near_kernel(NearPoints a, NearWanted w)
{
	int64_t		row = (int64_t) blockIdx.x * POINT_WARPS + threadIdx.x / 32;
	float		values[MOST_NEAR / 32];
	float		limit = INFINITY;
	float		error;

	if (row >= w.count)
		return;
#pragma unroll
	for (int i = 0; i < MOST_NEAR / 32; i++)
	{
		int			group = i * 32 + threadIdx.x % 32;

		values[i] = group < w.shares * GROUPS ? w.least[row * w.shares * GROUPS + group] : INFINITY;
	}
	for (int i = 0; i <= GK_NEIGHBOUR_COUNT; i++)
		limit = take_least(values, INFINITY);
	error = a.errors[w.first + row];
	if (threadIdx.x % 32 == 0)
		w.limits[row] = limit + 2.0f * error + (fabsf(limit) + error) * 0x1p-20f;
}

/* Notes another point for a row that is wanted. */
static __device__ __forceinline__ void
note_near(const NearPoints &a, const NearWanted &w, int64_t row, int64_t other)
{
	int			place;

	if (row < 0 || other >= a.count || other == w.first + row)
		return;
	place = atomicAdd(&w.found[row], 1);
	if (place < MOST_NEAR)
		w.near[row * MOST_NEAR + place] = (int32_t) other;
}

/* Which points of a panel may be neighbours of row I: bit 2 n + i is point i of the n-th eight. */
template <int I> static __device__ __forceinline__ unsigned
near_points(const float *lower, float limit, const float (&sums)[PANEL / 8][4])
{
	constexpr int AT_ONCE = 4;
	unsigned	near = 0;

#pragma unroll
	for (int from = 0; from < PANEL / 8; from += AT_ONCE)
	{
		float		scores[AT_ONCE * 2];
		float		least = INFINITY;

#pragma unroll
		for (int n = 0; n < AT_ONCE; n++)
		{
			float2		bound = __ldg((const float2 *) (lower + (from + n) * 8));

			scores[n * 2] = bound.x - sums[from + n][I * 2];
			scores[n * 2 + 1] = bound.y - sums[from + n][I * 2 + 1];
			least = fminf(least, fminf(scores[n * 2], scores[n * 2 + 1]));
		}
		if (least <= limit)
#pragma unroll
			for (int n = 0; n < AT_ONCE * 2; n++)
				near |= (unsigned) (scores[n] <= limit) << (from * 2 + n);
	}
	return near;
}

/* Notes which points of a panel may be neighbours of row I. */
template <int I> static __device__ __forceinline__ void
note_panel(const NearPoints &a, const NearWanted &w, int64_t row, float limit, int64_t panel,
		   const float (&sums)[PANEL / 8][4])
{
	int64_t		first = panel * PANEL + threadIdx.x % 4 * 2;

	for (unsigned near = near_points<I>(a.lower + first, limit, sums); near != 0; near &= near - 1)
	{
		int			bit = __ffs((int) near) - 1;

		note_near(a, w, row, first + bit / 2 * 8 + bit % 2);
	}
}

/* The second pass: which others may be neighbours. */
static __global__ void
__launch_bounds__(TILED_THREADS, 2)
note_kernel(NearPoints a, NearWanted w)
{
	extern __shared__ unsigned char near_memory[];
	NearBlock	block(a, w, near_memory);
	int64_t		rows[2] = {block.wanted_row<0>(w), block.wanted_row<1>(w)};
	float		limits[2] = {rows[0] < 0 ? -INFINITY : w.limits[rows[0]],
		rows[1] < 0 ? -INFINITY : w.limits[rows[1]]};

	multiply_points(a, block.stages, block.panel, block.from, block.to,
					[&](int64_t panel, const float (&sums)[PANEL / 8][4])
	{
		note_panel<0>(a, w, rows[0], limits[0], panel, sums);
		note_panel<1>(a, w, rows[1], limits[1], panel, sums);
	});
}

/* The key of another point as a neighbour, by the definition. */
static __device__ __forceinline__ uint64_t
near_key(const NearPoints &a, int64_t point, int64_t other)
{
	const float *x = a.points + point * a.d;
	const float *y = a.points + other * a.d;
	bool		aligned = a.d % 4 == 0;
	float		sum = 0.0f;

#pragma unroll 4
	for (int j = 0; j < a.d; j += 4)
	{
		float4		u = read_four(x, j, a.d, aligned);
		float4		v = read_four(y, j, a.d, aligned);

		sum = gk_add_square_float(sum, u.x, v.x);
		sum = gk_add_square_float(sum, u.y, v.y);
		sum = gk_add_square_float(sum, u.z, v.z);
		sum = gk_add_square_float(sum, u.w, v.w);
	}
	return gk_neighbour_key(sum, other, point);
}

/* The neighbours of a point among those noted; a warp does it. */
static __global__ void
__launch_bounds__(POINT_WARPS * 32)
choose_kernel(NearPoints a, NearWanted w, uint64_t *lists)
{
	int64_t		row = (int64_t) blockIdx.x * POINT_WARPS + threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	uint64_t	keys[MOST_NEAR / 32];
	int			found;

	if (row >= w.count)
		return;
	found = w.found[row];
	if (found > MOST_NEAR)
	{
		if (lane == 0)
			w.left[row / NEIGHBOUR_TILE] = 1;
		return;
	}
#pragma unroll
	for (int i = 0; i < MOST_NEAR / 32; i++)
	{
		int			at = i * 32 + lane;

		keys[i] = at < found ? near_key(a, w.first + row, w.near[row * MOST_NEAR + at])
			: GK_NO_NEIGHBOUR;
	}
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
	{
		uint64_t	key = take_least(keys, GK_NO_NEIGHBOUR);

		if (lane == 0)
			lists[row * GK_NEIGHBOUR_COUNT + i] = key;
	}
}

/* Values of a part of the memory: parts begin at multiples of 16 bytes. */
static int64_t
values_for(int64_t count)
{
	return (count + 3) / 4 * 4;
}

static int64_t
padded_count(int64_t count)
{
	return (count + PANEL - 1) / PANEL * PANEL;
}

/* True if so many points are compared here. */
bool
near_points_suit(const Shard &shard, int64_t count)
{
	return count >= LEAST_POINTS && shard.device->shared_memory >= PASS_BYTES;
}

/* Floats of memory for so many points, of which so many are wanted at a time. */
int64_t
near_points_room(const Shard &shard, int64_t count, int64_t wanted)
{
	int64_t		padded = padded_count(count);

	return padded * (tiles_of(shard.depth) * TILE_COLUMNS / 2 + 3) +
		wanted * MOST_NEAR + 2 * values_for(wanted) + values_for(wanted / NEIGHBOUR_TILE + 1);
}

/* The points in that memory. */
static NearPoints
points_in(const Shard &shard, const float *points, int64_t count, float *room)
{
	NearPoints	a = {};

	a.points = points;
	a.count = count;
	a.padded = padded_count(count);
	a.d = shard.dimension;
	a.depth = shard.depth;
	/* infinite times a norm of 0 would be no number */
	a.gamma = std::min(accumulation_bound(shard.device->accumulation, shard.depth), 0x1p100);
	a.values = (__half *) room;
	a.errors = room + a.padded * (tiles_of(a.depth) * TILE_COLUMNS / 2);
	a.lower = a.errors + a.padded;
	a.upper = a.lower + a.padded;
	return a;
}

/* Those that are wanted, in what follows. */
static NearWanted
wanted_in(const Shard &shard, const NearPoints &a, int64_t first, int64_t wanted)
{
	int64_t		panels = a.padded / PANEL;
	int64_t		mine = (first + wanted - 1) / PANEL - first / PANEL + 1;
	int64_t		shares = shard.device->processors * BLOCKS_A_PROCESSOR / mine;
	NearWanted	w = {};

	w.first = first;
	w.count = wanted;
	w.shares = (int) std::clamp<int64_t>(shares, std::min<int64_t>(panels, 2),
										 std::min<int64_t>(panels, MOST_NEAR_SHARES));
	w.least = a.upper + a.padded;
	w.near = (int32_t *) w.least;
	w.limits = w.least + wanted * MOST_NEAR;
	w.found = (int *) w.limits + values_for(wanted);
	w.left = w.found + values_for(wanted);
	return w;
}

/* Rounds the points; the origin and the norms of tiles are there. */
void
prepare_near_points(Shard &shard, const float *points, int64_t count, const float *origin,
					const float *greatest, float *room)
{
	NearPoints	a = points_in(shard, points, count, room);
	int64_t		at_once = POINT_WARPS * POINTS_A_WARP;

	round_points_kernel<<<(unsigned) ((a.padded + at_once - 1) / at_once), POINT_WARPS * 32, 0,
		shard.device->compute>>>
		(a, origin, greatest, (count + NEIGHBOUR_TILE - 1) / NEIGHBOUR_TILE);
	GK_LAUNCHED("round_points_kernel");
}

/*
 * The neighbours of the points from `first` on; returns which tiles of them are left, whose lists
 * are not there.
 */
const int *
find_near_points(Shard &shard, const float *points, int64_t count, float *room, int64_t first,
				 int64_t wanted, uint64_t *lists)
{
	NearPoints	a = points_in(shard, points, count, room);
	NearWanted	w = wanted_in(shard, a, first, wanted);
	dim3		grid((unsigned) ((first + wanted - 1) / PANEL - first / PANEL + 1),
					 (unsigned) w.shares);
	unsigned	blocks = (unsigned) ((wanted + POINT_WARPS - 1) / POINT_WARPS);

	GK_CUDA(cudaMemsetAsync(w.found, 0, (values_for(wanted) + wanted / NEIGHBOUR_TILE + 1) *
							sizeof(int), shard.device->compute));
	for (auto kernel : {least_kernel, note_kernel})
		GK_CUDA(cudaFuncSetAttribute((const void *) kernel,
									 cudaFuncAttributeMaxDynamicSharedMemorySize, PASS_BYTES));
	least_kernel<<<grid, TILED_THREADS, PASS_BYTES, shard.device->compute>>>(a, w);
	GK_LAUNCHED("least_kernel");
	limit_near_kernel<<<blocks, POINT_WARPS * 32, 0, shard.device->compute>>>(a, w);
	GK_LAUNCHED("limit_near_kernel");
	note_kernel<<<grid, TILED_THREADS, PASS_BYTES, shard.device->compute>>>(a, w);
	GK_LAUNCHED("note_kernel");
	choose_kernel<<<blocks, POINT_WARPS * 32, 0, shard.device->compute>>>(a, w, lists);
	GK_LAUNCHED("choose_kernel");
	return w.left;
}

}								/* namespace gk */
