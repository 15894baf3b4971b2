/*
 * Rows of few features and few centroids: labels, and the sums of the rows that moved, in one
 * pass that reads each row once.
 *
 * Each warp has tiles of rows of its own in shared memory, two of them, so that one arrives while
 * the other is worked on.  Scores are sums of float32 products.  Groups of LANES lanes share four
 * rows: each lane takes every LANES-th part of four features; then their sums are added up so
 * that each lane has rows of its own.  A row that float32 does not decide is decided by the
 * definition at once.
 */
#include <algorithm>
#include <cstdlib>

#include <cuda_pipeline.h>

#include "exact.h"
#include "filter.cuh"
#include "narrow.cuh"
#include "sums.cuh"
#include "warp.cuh"

namespace gk
{

#define NARROW_WARPS 4			/* of a block, at most */
#define NARROW_CENTROIDS 512	/* at most */
#define NARROW_DIMENSION 128	/* at most */
#define GROUP_ROWS 4			/* of a group of lanes */
#define PACK_THREADS 512
#define WARP_LANES 0xffffffffu
#define NO_ITEM 0xffffffffu
#define ITEM_TAKEN 0x8000u		/* in an item: the row leaves the cluster */

/* How the kernel for some features and centroids works. */
struct NarrowShape
{
	int			lanes;			/* of a group */
	int			tile;			/* centroids at a time */
	int			parts;			/* of four features */
	int			padded;			/* centroids, whole tiles */
};

/* The shape for so many features and centroids. */
static NarrowShape
shape_of(int d, int centroids)
{
	NarrowShape shape;
	int			least = INT32_MAX;
	int			most = d > 16 ? 16 : 8;

	shape.parts = (d + 3) / 4;
	shape.lanes = d <= 16 ? 1 : d <= 32 ? 2 : d <= 64 ? 4 : 8;
	shape.tile = 4;
	for (int tile = most; tile >= 4 && centroids > 4; tile -= 4)
	{
		int			cost = (centroids + tile - 1) / tile * (2 * tile + 3);

		if (cost < least && (most == 16 || tile % 8 == 0))
		{
			least = cost;
			shape.tile = tile;
		}
	}
	shape.padded = (centroids + shape.tile - 1) / shape.tile * shape.tile;
	return shape;
}

/* Rows in a tile of a warp. */
static __host__ __device__ constexpr int
tile_rows(int lanes)
{
	return 32 / lanes * GROUP_ROWS;
}

struct NarrowArguments
{
	const float *features;
	const double *weights;
	int64_t		rows;
	int			d;
	int			parts;
	int			count;
	int			padded;
	bool		by_parts;		/* rows are whole parts */
	bool		aligned;		/* tiles begin at multiples of 16 bytes */
	int			swap_shift;		/* where parts lie in a tile: part_of() */
	int			swap_mask;
	int			swap_unit;
	int			inverse;		/* 2^20 / parts, rounded up */
	const float *packed;
	const double *exact;
	int32_t    *labels;
	int32_t    *fresh;			/* if not NULL: labels go here, and nothing is summed */

	bool		all;			/* sum all rows, not only those whose label changed */
	bool		wide;
	const double *scales;		/* d + 1 */
	double		rest_scale;
	int64_t    *sums;
	int			limb;			/* count × (d + 1) */
	int			copies;			/* of the sums in a block's shared memory: 0 = none, 1 = shared,
								 * or one for each group of lanes that adds rows */
	Counters   *counters;
};

/* What a warp works with, in shared memory, and where its lanes stand. */
struct NarrowWarp
{
	const float *packed;
	NarrowLayout layout;
	int64_t    *sums;			/* where this lane adds */
	uint32_t   *items;			/* rows to be summed: label, ITEM_TAKEN, place in the tile */
	float	   *tiles;			/* two */
	int			tile_floats;
	int			groups;			/* of lanes that add rows to sums */
	int			group;			/* this lane's; none: a great number */
	int			column;			/* first of this lane */
	int			columns;		/* that a group takes at a time */
};

/* Lanes that add one row to sums: they take a column each. */
static __host__ __device__ __forceinline__ int
summing_lanes(int d)
{
	return d + 1 < 32 ? d + 1 : 32;
}

/* Where a row has its parts: part p is at place p ^ swap, so that lanes use all banks. */
static __device__ __forceinline__ int
swap_of(const NarrowArguments &a, int row)
{
	return (row >> a.swap_shift & a.swap_mask) << a.swap_unit;
}

/* One feature of a row of a tile. */
static __device__ __forceinline__ float
feature_of(const NarrowArguments &a, const float *tile, int row, int j)
{
	return tile[row * a.d + ((j >> 2 ^ swap_of(a, row)) << 2 | (j & 3))];
}

/* Starts the copy of rows to a tile, by a warp. */
static __device__ __forceinline__ void
fetch_tile(const NarrowArguments &a, float *tile, int64_t first, int rows)
{
	const float *from = a.features + first * a.d;
	int			lane = threadIdx.x % 32;
	int			floats = rows * a.d;
	int			at = lane;

	if (a.swap_mask != 0)
		for (; at < floats / 4; at += 32)
		{
			int			row = at * a.inverse >> 20;
			int			part = at - row * a.parts;

			__pipeline_memcpy_async(tile + row * a.d + (part ^ swap_of(a, row)) * 4, from + at * 4,
									16);
		}
	else
	{
		for (; a.aligned && at < floats / 4; at += 32)
			__pipeline_memcpy_async(tile + at * 4, from + at * 4, 16);
		for (at = (a.aligned ? floats / 4 * 4 : 0) + lane; at < floats; at += 32)
			__pipeline_memcpy_async(tile + at, from + at, 4);
	}
}

/* Four features of a row less the origin, scaled; `row` is where it begins. */
static __device__ __forceinline__ float4
read_part(const NarrowArguments &a, const float *row, int part, int swap, float factor,
		  float4 origin)
{
	float4		x = make_float4(0, 0, 0, 0);

	if (a.by_parts)
		x = *(const float4 *) (row + (part ^ swap) * 4);
	else
	{
		row += part * 4;
		if (part * 4 < a.d)
			x.x = row[0];
		if (part * 4 + 1 < a.d)
			x.y = row[1];
		if (part * 4 + 2 < a.d)
			x.z = row[2];
		if (part * 4 + 3 < a.d)
			x.w = row[3];
	}
	return make_float4(fmaf(x.x, factor, -origin.x), fmaf(x.y, factor, -origin.y),
					   fmaf(x.z, factor, -origin.z), fmaf(x.w, factor, -origin.w));
}

/* sums[r][c] += y[r] × value c of a feature of a tile of centroids. */
template <int TILE> static __device__ __forceinline__ void
add_feature(const float *values, const float (&y)[GROUP_ROWS], float (&sums)[GROUP_ROWS][TILE])
{
#pragma unroll
	for (int c = 0; c < TILE; c += 4)
	{
		float4		four = *(const float4 *) (values + c);

#pragma unroll
		for (int r = 0; r < GROUP_ROWS; r++)
		{
			sums[r][c] = fmaf(y[r], four.x, sums[r][c]);
			sums[r][c + 1] = fmaf(y[r], four.y, sums[r][c + 1]);
			sums[r][c + 2] = fmaf(y[r], four.z, sums[r][c + 2]);
			sums[r][c + 3] = fmaf(y[r], four.w, sums[r][c + 3]);
		}
	}
}

/* Adds up sums of two lanes: each keeps ROWS of the 2 × ROWS rows. */
template <int ROWS, int BIT, int COUNT> static __device__ __forceinline__ void
halve(float (&sums)[GROUP_ROWS][COUNT])
{
	bool		upper = threadIdx.x & BIT;

#pragma unroll
	for (int r = 0; r < ROWS; r++)
#pragma unroll
		for (int c = 0; c < COUNT; c++)
		{
			float		given = upper ? sums[r][c] : sums[r + ROWS][c];
			float		kept = upper ? sums[r + ROWS][c] : sums[r][c];

			sums[r][c] = kept + __shfl_xor_sync(WARP_LANES, given, BIT);
		}
}

/* Adds up the sums of a group of lanes: each lane keeps those of its own rows, the first ones. */
template <int LANES, int COUNT> static __device__ __forceinline__ void
share_out(float (&sums)[GROUP_ROWS][COUNT])
{
	if constexpr (LANES >= 2)
		halve<2, 1>(sums);
	if constexpr (LANES >= 4)
		halve<1, 2>(sums);
	if constexpr (LANES >= 8)
#pragma unroll
		for (int c = 0; c < COUNT; c++)
			sums[0][c] += __shfl_xor_sync(WARP_LANES, sums[0][c], 4);
}

/* The place in the tile of row r of those that a lane has after share_out(). */
template <int LANES> static __device__ __forceinline__ int
own_row(int r)
{
	int			lane = threadIdx.x % 32;
	int			number = LANES == 1 ? r : LANES == 2 ? lane % 2 * 2 + r :
		lane % 2 * 2 + lane / 2 % 2;

	return number * (32 / LANES) + lane / LANES;
}

/* Four features of the group's four rows, feature by feature. */
static __device__ __forceinline__ void
spread(const float4 (&x)[GROUP_ROWS], float (&y)[4][GROUP_ROWS])
{
#pragma unroll
	for (int r = 0; r < GROUP_ROWS; r++)
	{
		y[0][r] = x[r].x;
		y[1][r] = x[r].y;
		y[2][r] = x[r].z;
		y[3][r] = x[r].w;
	}
}

/* What a lane finds out about its own rows. */
template <int LANES> struct OwnRows
{
	static constexpr int COUNT = LANES < GROUP_ROWS ? GROUP_ROWS / LANES : 1;

	Best		best[COUNT];
	float		norm2[COUNT];
	int32_t		label[COUNT];

	/* Merges the scores of a tile of centroids. */
	template <int TILE> __device__ __forceinline__ void
	take(const float (&sums)[GROUP_ROWS][TILE], int at)
	{
#pragma unroll
		for (int r = 0; r < COUNT; r++)
#pragma unroll
			for (int c = 0; c < TILE; c++)
				take_score(&best[r], sums[r][c], at + c);
	}
};

/* The first values of the sums of a tile of centroids: |e|²/2 in one lane of a group. */
template <int LANES, int TILE> static __device__ __forceinline__ void
start_sums(const float *lower, float (&sums)[GROUP_ROWS][TILE])
{
	bool		first = threadIdx.x % LANES == 0;

#pragma unroll
	for (int c = 0; c < TILE; c += 4)
	{
		float4		four = *(const float4 *) (lower + c);

#pragma unroll
		for (int r = 0; r < GROUP_ROWS; r++)
		{
			sums[r][c] = first ? four.x : 0.0f;
			sums[r][c + 1] = first ? four.y : 0.0f;
			sums[r][c + 2] = first ? four.z : 0.0f;
			sums[r][c + 3] = first ? four.w : 0.0f;
		}
	}
}

/* The squared norms of the rows so far. */
static __device__ __forceinline__ void
add_squares(const float (&y)[GROUP_ROWS], float (&norm2)[GROUP_ROWS][1])
{
#pragma unroll
	for (int r = 0; r < GROUP_ROWS; r++)
		norm2[r][0] = fmaf(y[r], y[r], norm2[r][0]);
}

/* Compares rows of at most D features, which stay in registers, with all centroids. */
template <int D, int LANES, int TILE> static __device__ __forceinline__ void
compare_short(const NarrowArguments &a, const NarrowWarp &w, const float *tile,
			  OwnRows<LANES> *own)
{
	static_assert(LANES == 1, "a lane has whole rows");
	int			lane = threadIdx.x % 32;
	int			swap = swap_of(a, lane);
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		norm2[GROUP_ROWS][1] = {};
	float		y[(D + 3) / 4][4][GROUP_ROWS];

#pragma unroll
	for (int part = 0; part < (D + 3) / 4; part++)
	{
		float4		origin = *(const float4 *) (w.packed + w.layout.origin + part * 4);
		float4		x[GROUP_ROWS];

#pragma unroll
		for (int r = 0; r < GROUP_ROWS; r++)
			x[r] = read_part(a, tile + (r * 32 + lane) * a.d, part, swap, factor, origin);
		spread(x, y[part]);
	}
#pragma unroll
	for (int j = 0; j < D; j++)
		add_squares(y[j / 4][j % 4], norm2);
	for (int at = 0; at < a.padded; at += TILE)
	{
		const float *values = w.packed + w.layout.values + at;
		float		sums[GROUP_ROWS][TILE];

		start_sums<LANES>(w.packed + w.layout.lower + at, sums);
#pragma unroll
		for (int j = 0; j < D; j++)
			add_feature(values + j / 4 * w.layout.part + j % 4 * a.padded, y[j / 4][j % 4], sums);
		own->take(sums, at);
	}
#pragma unroll
	for (int r = 0; r < GROUP_ROWS; r++)
		own->norm2[r] = norm2[r][0];
}

/* Compares rows, part by part, with all centroids. */
template <int LANES, int TILE> static __device__ __forceinline__ void
compare_long(const NarrowArguments &a, const NarrowWarp &w, const float *tile,
			 OwnRows<LANES> *own)
{
	int			lane = threadIdx.x % 32;
	int			swap = swap_of(a, lane / LANES);
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		norm2[GROUP_ROWS][1] = {};

	for (int at = 0; at < a.padded; at += TILE)
	{
		float		sums[GROUP_ROWS][TILE];

		start_sums<LANES>(w.packed + w.layout.lower + at, sums);
		for (int part = lane % LANES; part < a.parts; part += LANES)
		{
			const float *values = w.packed + w.layout.values + part * w.layout.part + at;
			float4		origin = *(const float4 *) (w.packed + w.layout.origin + part * 4);
			float4		x[GROUP_ROWS];
			float		y[4][GROUP_ROWS];

#pragma unroll
			for (int r = 0; r < GROUP_ROWS; r++)
				x[r] = read_part(a, tile + (r * (32 / LANES) + lane / LANES) * a.d, part, swap,
								 factor, origin);
			spread(x, y);
#pragma unroll
			for (int i = 0; i < 4; i++)
			{
				if (at == 0)
					add_squares(y[i], norm2);
				add_feature(values + i * a.padded, y[i], sums);
			}
		}
		share_out<LANES>(sums);
		own->take(sums, at);
	}
	share_out<LANES>(norm2);
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		own->norm2[r] = norm2[r][0];
}

/* A centroid's score. */
static __device__ float
score_of(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int row, int centroid)
{
	const float *origin = w.packed + w.layout.origin;
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		score = w.packed[w.layout.lower + centroid];

	for (int j = 0; j < a.d; j++)
		score = fmaf(fmaf(feature_of(a, tile, row, j), factor, -origin[j]),
					 w.packed[w.layout.values + (j >> 2) * w.layout.part + (j & 3) * a.padded +
							  centroid], score);
	return score;
}

/* Takes a centroid if it is nearer by the definition than the best so far (INT32_MAX: none). */
static __device__ __forceinline__ void
take_by_definition(const NarrowArguments &a, const float *tile, int row, int its, double *best,
				   int *centroid)
{
	const double *c = a.exact + (int64_t) its * a.d;
	double		sum = 0.0;

	for (int j = 0; j < a.d; j++)
		sum = gk_add_square(sum, feature_of(a, tile, row, j), __ldg(c + j));
	if (*centroid == INT32_MAX || sum < *best)
	{
		*best = sum;
		*centroid = its;
	}
}

/* The centroids from .. from + 31 with scores up to `limit`, as bits. */
template <int D> static __device__ __forceinline__ unsigned
near_centroids(const NarrowArguments &a, const NarrowWarp &w, const float (&y)[D], int from,
			   float limit)
{
	unsigned	near = 0;

	for (int at = from; at < min(a.padded, from + 32); at += 4)
	{
		const float *values = w.packed + w.layout.values + at;
		float4		score = *(const float4 *) (w.packed + w.layout.lower + at);
		unsigned	four;

#pragma unroll
		for (int j = 0; j < D; j++)
		{
			float4		c = *(const float4 *) (values + j / 4 * w.layout.part + j % 4 * a.padded);

			score.x = fmaf(y[j], c.x, score.x);
			score.y = fmaf(y[j], c.y, score.y);
			score.z = fmaf(y[j], c.z, score.z);
			score.w = fmaf(y[j], c.w, score.w);
		}
		/* also if nothing is known */
		four = !(score.x > limit) | !(score.y > limit) << 1 | !(score.z > limit) << 2 |
			!(score.w > limit) << 3;
		near |= four << (at - from);
	}
	return a.count - from < 32 ? near & ((1u << (a.count - from)) - 1) : near;
}

/* The label of a row among the centroids with scores up to `limit`, by one lane. */
template <int D> static __device__ __forceinline__ int
decide_alone(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int row, float limit)
{
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		x[D];
	float		y[D];
	double		best = 0.0;
	int			centroid = -1;

#pragma unroll
	for (int j = 0; j < D; j++)
	{
		x[j] = j < a.d ? feature_of(a, tile, row, j) : 0.0f;
		y[j] = j < a.d ? fmaf(x[j], factor, -w.packed[w.layout.origin + j]) : 0.0f;
	}
	for (int from = 0; from < a.count; from += 32)
		for (unsigned near = near_centroids(a, w, y, from, limit); near != 0; near &= near - 1)
		{
			int			its = from + __ffs(near) - 1;
			double		sum = 0.0;

#pragma unroll
			for (int j = 0; j < D; j++)
				if (j < a.d)
					sum = gk_add_square(sum, x[j], __ldg(a.exact + its * a.d + j));
			if (centroid < 0 || sum < best)
			{
				best = sum;
				centroid = its;
			}
		}
	return max(centroid, 0);
}

/* The same by all lanes of a warp. */
static __device__ int
decide_together(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int row,
				float limit)
{
	double		best = 0.0;
	int			centroid = INT32_MAX;

	for (int c = threadIdx.x % 32; c < a.count; c += 32)
		if (!(score_of(a, w, tile, row, c) > limit))
			take_by_definition(a, tile, row, c, &best, &centroid);
#pragma unroll
	for (int other = 16; other > 0; other /= 2)
	{
		double		its = __shfl_xor_sync(WARP_LANES, best, other);
		int			its_centroid = __shfl_xor_sync(WARP_LANES, centroid, other);

		if (its_centroid != INT32_MAX &&
			(centroid == INT32_MAX || its < best || (its == best && its_centroid < centroid)))
		{
			best = its;
			centroid = its_centroid;
		}
	}
	return centroid == INT32_MAX ? 0 : centroid;
}

/* Decides open rows of a tile, each by the lane that has it; `open` and `limits` as in own. */
template <int D, int LANES> static __device__ __forceinline__ void
decide_open(const NarrowArguments &a, const NarrowWarp &w, const float *tile, unsigned open,
			const float *limits, OwnRows<LANES> *own)
{
	/* by way of shared memory, so that there is one loop: for limits, then for labels */
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		if (open >> r & 1)
			w.items[own_row<LANES>(r)] = __float_as_uint(limits[r]);
	for (unsigned left = open; left != 0; left &= left - 1)
	{
		int			row = own_row<LANES>(__ffs(left) - 1);

		w.items[row] = decide_alone<D>(a, w, tile, row, __uint_as_float(w.items[row]));
	}
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		if (open >> r & 1)
			own->label[r] = (int32_t) w.items[own_row<LANES>(r)];
	__syncwarp();
}

/* Decides open rows of a tile, each by the whole warp. */
template <int LANES> static __device__ __forceinline__ void
decide_open_together(const NarrowArguments &a, const NarrowWarp &w, const float *tile,
					 unsigned open, const float *limits, OwnRows<LANES> *own)
{
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		for (unsigned left = __ballot_sync(WARP_LANES, open >> r & 1); left != 0; left &= left - 1)
		{
			int			lane = __ffs(left) - 1;
			int			row = __shfl_sync(WARP_LANES, own_row<LANES>(r), lane);
			float		limit = __shfl_sync(WARP_LANES, limits[r], lane);
			int			label = decide_together(a, w, tile, row, limit);

			if (threadIdx.x % 32 == lane)
				own->label[r] = label;
		}
}

/* True for the lane that speaks for a row: of eight lanes, two have the same. */
template <int LANES> static __device__ __forceinline__ bool
speaks()
{
	return threadIdx.x % LANES < GROUP_ROWS;
}

/* The labels of a lane's own rows. */
template <int D, int LANES> static __device__ __forceinline__ void
decide_own(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int valid,
		   OwnRows<LANES> *own)
{
	const NarrowBound &bound = *(const NarrowBound *) w.packed;
	float		limits[OwnRows<LANES>::COUNT];
	unsigned	open = 0;

#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
	{
		const Best &best = own->best[r];
		float		limit = best.least + fmaf(bound.wide_row, own->norm2[r], bound.wide_rest);

		own->label[r] = best.centroid;
		limits[r] = limit;
		if (!(best.second > limit) && own_row<LANES>(r) < valid && speaks<LANES>())
		{
			limits[r] = narrow_limit(bound, best.least, own->norm2[r],
									 w.packed[w.layout.norm + best.centroid]);
			open |= (unsigned) !(best.second > limits[r]) << r;
		}
	}
	if (!__any_sync(WARP_LANES, open != 0))
		return;
	if constexpr (D > 0)
		decide_open<D, LANES>(a, w, tile, open, limits, own);
	else
		decide_open_together<LANES>(a, w, tile, open, limits, own);
}

/* Lists a row that changed its label, or any, to be summed; returns how many are listed then. */
static __device__ __forceinline__ int
list_item(const NarrowArguments &a, const NarrowWarp &w, int listed, bool changed, int row,
		  int32_t label, int32_t old)
{
	unsigned	lanes = __ballot_sync(WARP_LANES, changed);
	int			at = listed + 2 * __popc(lanes & ((1u << threadIdx.x % 32) - 1));

	if (a.all || lanes == 0)
		return listed;
	if (changed)
	{
		w.items[at] = (uint32_t) label << 16 | row;
		w.items[at + 1] = old < 0 ? NO_ITEM : (uint32_t) old << 16 | ITEM_TAKEN | row;
	}
	return listed + 2 * __popc(lanes);
}

/* Replaces labels of a tile and lists the rows to be summed; returns their number. */
template <int LANES> static __device__ __forceinline__ int
take_labels(const NarrowArguments &a, const NarrowWarp &w, int64_t first, int valid,
			const OwnRows<LANES> &own, const int32_t *old, unsigned *changes)
{
	int			listed = 0;

#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
	{
		int			row = own_row<LANES>(r);
		bool		mine = row < valid && speaks<LANES>();
		bool		changed = mine && own.label[r] != old[r];

		if (changed)
			a.labels[first + row] = own.label[r];
		if (a.all && mine)
			w.items[row] = (uint32_t) own.label[r] << 16 | row;
		*changes += changed;
		listed = list_item(a, w, listed, changed, row, own.label[r], old[r]);
	}
	return a.all ? valid : listed;
}

/* Adds one value to a sum. */
static __device__ __forceinline__ void
add_value(const NarrowArguments &a, int64_t *to, int64_t value)
{
	if (a.copies > 1)
		*to += value;
	else if (a.copies == 1)
		add_sum<true>(to, value);
	else
		add_sum<false>(to, value);
}

/* Adds the listed rows of a tile to the sums: groups of lanes, a column each. */
static __device__ __forceinline__ void
sum_items(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int64_t first,
		  int count)
{
	constexpr int AHEAD = 4;

	for (int column = w.column; column <= a.d; column += w.columns)
	{
		double		scale = __ldg(a.scales + column);

		for (int i = w.group; i < count; i += w.groups * AHEAD)
		{
			uint32_t	items[AHEAD];
			double		values[AHEAD];

#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				int			at = i + u * w.groups;
				int			row;

				items[u] = at < count ? w.items[at] : NO_ITEM;
				row = items[u] == NO_ITEM ? 0 : items[u] & (ITEM_TAKEN - 1);
				values[u] = column < a.d ? feature_of(a, tile, row, column) : 1.0f;
				if (a.weights != nullptr)
					values[u] = GK_MUL(a.weights[first + row], values[u]);
			}
#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				int64_t    *to = w.sums + (int) (items[u] >> 16) * (a.d + 1) + column;
				bool		taken = items[u] & ITEM_TAKEN;
				int64_t		high = gk_quantize(values[u], scale);

				if (items[u] == NO_ITEM)
					continue;
				add_value(a, to, taken ? -high : high);
				if (a.wide)
				{
					int64_t		low = gk_quantize_rest(values[u], scale, a.rest_scale);

					add_value(a, to + a.limb, taken ? -low : low);
				}
			}
		}
	}
}

/* Labels of a tile of rows, and the sums of those that moved; how many of the lane's did. */
template <int D, int LANES, int TILE> static __device__ __forceinline__ unsigned
run_tile(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int64_t first, int valid)
{
	OwnRows<LANES> own;
	int32_t		old[OwnRows<LANES>::COUNT];
	unsigned	changes = 0;
	int			count;

#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
	{
		int			row = own_row<LANES>(r);

		own.best[r] = {NO_SCORE, NO_SCORE, 0};
		old[r] = a.fresh == nullptr && row < valid ? a.labels[first + row] : -1;
	}
	if constexpr (D > 0)
		compare_short<D, LANES, TILE>(a, w, tile, &own);
	else
		compare_long<LANES, TILE>(a, w, tile, &own);
	decide_own<D, LANES>(a, w, tile, valid, &own);
	if (a.fresh != nullptr)
	{
#pragma unroll
		for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
			if (own_row<LANES>(r) < valid && speaks<LANES>())
				a.fresh[first + own_row<LANES>(r)] = own.label[r];
		return 0;
	}
	count = take_labels<LANES>(a, w, first, valid, own, old, &changes);
	__syncwarp();
	sum_items(a, w, tile, first, count);
	return changes;
}

/* Bytes of a block's shared memory for its centroids and sums, and for a warp. */
static __host__ __device__ __forceinline__ int
block_bytes(int packed, int64_t sums)
{
	return (int) ((packed * sizeof(float) + sums * sizeof(int64_t) + 15) / 16 * 16);
}

static __host__ __device__ __forceinline__ int
warp_bytes(int lanes, int d)
{
	return tile_rows(lanes) * 2 * (int) (sizeof(uint32_t) + d * sizeof(float));
}

/* Lays out a block's shared memory, with the centroids in it and sums of zero. */
static __device__ __forceinline__ NarrowWarp
open_warp(const NarrowArguments &a, unsigned char *memory, int lanes)
{
	NarrowWarp	w;
	float	   *packed = (float *) memory;
	int			warp = threadIdx.x / 32;
	int			each = a.limb * (a.wide ? 2 : 1);
	int64_t    *sums;

	w.layout = narrow_layout(a.parts, a.padded);
	w.packed = packed;
	sums = (int64_t *) (packed + w.layout.total);
	w.items = (uint32_t *) (memory + block_bytes(w.layout.total, (int64_t) each * a.copies) +
							warp * warp_bytes(lanes, a.d));
	w.tiles = (float *) (w.items + tile_rows(lanes) * 2);
	w.tile_floats = tile_rows(lanes) * a.d;
	w.columns = summing_lanes(a.d);
	w.groups = 32 / w.columns;
	w.group = threadIdx.x % 32 / w.columns;
	w.column = threadIdx.x % 32 % w.columns;
	if (w.group >= w.groups)
		w.group = INT32_MAX / 2;
	w.sums = a.copies == 0 ? a.sums : sums;
	if (a.copies > 1 && w.group < w.groups)
		w.sums += (warp * w.groups + w.group) * each;
	for (int i = threadIdx.x; i < w.layout.total; i += blockDim.x)
		packed[i] = a.packed[i];
	for (int i = threadIdx.x; i < each * a.copies; i += blockDim.x)
		sums[i] = 0;
	__syncthreads();
	return w;
}

/* Adds a block's sums to those of all, and what its warps have counted. */
static __device__ __forceinline__ void
close_block(const NarrowArguments &a, const int64_t *sums, unsigned changes)
{
	int			each = a.limb * (a.wide ? 2 : 1);

	changes = sum_of_lanes<32>(changes);
	if (threadIdx.x % 32 == 0 && changes > 0)
		atomicAdd(&a.counters->changed, (unsigned long long) changes);
	__syncthreads();
	for (int i = threadIdx.x; i < each && a.copies > 0; i += blockDim.x)
	{
		int64_t		sum = 0;

		for (int copy = 0; copy < a.copies; copy++)
			sum += sums[copy * each + i];
		if (sum != 0)
			add_sum<false>(a.sums + i, sum);
	}
}

/* D > 0: at most so many features, in registers; LANES lanes share rows; TILE centroids a time. */
template <int D, int LANES, int TILE> static __global__ void
__launch_bounds__(NARROW_WARPS * 32, D > 0 && D <= 8 ? 4 : 3)
narrow_kernel(NarrowArguments a)
{
	constexpr int ROWS = tile_rows(LANES);
	extern __shared__ uint4 narrow_memory[];
	NarrowWarp	w = open_warp(a, (unsigned char *) narrow_memory, LANES);
	int			warps = blockDim.x / 32;
	int64_t		step = (int64_t) gridDim.x * warps * ROWS;
	int64_t		first = ((int64_t) blockIdx.x * warps + threadIdx.x / 32) * ROWS;
	unsigned	changes = 0;
	int			turn = 0;

	if (first < a.rows)
		fetch_tile(a, w.tiles, first, (int) min((int64_t) ROWS, a.rows - first));
	__pipeline_commit();
	for (; first < a.rows; first += step)
	{
		int64_t		next = first + step;
		const float *tile = w.tiles + turn * w.tile_floats;

		turn = 1 - turn;
		if (next < a.rows)
			fetch_tile(a, w.tiles + turn * w.tile_floats, next,
					   (int) min((int64_t) ROWS, a.rows - next));
		__pipeline_commit();
		__pipeline_wait_prior(1);
		__syncwarp();
		changes += run_tile<D, LANES, TILE>(a, w, tile, first,
											(int) min((int64_t) ROWS, a.rows - first));
		__syncwarp();
	}
	close_block(a, (const int64_t *) (w.packed + w.layout.total), changes);
}

/* How the sums are kept: copies of them in a block's shared memory. */
static int
choose_copies(const NarrowArguments &a, int warps)
{
	int64_t		bytes = (int64_t) a.limb * (a.wide ? 2 : 1) * sizeof(int64_t);
	int			copies = warps * (32 / summing_lanes(a.d));

	if (a.fresh != nullptr)
		return 0;
	if (a.all && copies > 1 && bytes * copies <= 48 << 10)
		return copies;
	return bytes <= 32 << 10 ? 1 : 0;
}

/* Enqueues the kernel. */
template <int D, int LANES, int TILE> static void
launch_narrow(Shard &shard, NarrowArguments &a)
{
	const void *kernel = (const void *) narrow_kernel<D, LANES, TILE>;
	int			packed = narrow_layout(a.parts, a.padded).total;
	int			limbs = a.wide ? 2 : 1;
	int			warps = NARROW_WARPS;
	int			per_processor;
	size_t		bytes;
	int64_t		tiles = (a.rows + tile_rows(LANES) - 1) / tile_rows(LANES);

	for (;; warps /= 2)
	{
		a.copies = choose_copies(a, warps);
		bytes = block_bytes(packed, (int64_t) a.limb * limbs * a.copies) +
			warps * warp_bytes(LANES, a.d);
		if (bytes <= shard.device->shared_memory || warps == 1)
			break;
	}
	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, warps * 32,
			bytes));
	narrow_kernel<D, LANES, TILE>
		<<<blocks_for(shard, (tiles + warps - 1) / warps, per_processor), warps * 32, bytes,
		   shard.device->compute>>>(a);
	GK_LAUNCHED("narrow_kernel");
}

/* Rows in registers. */
template <int D> static void
choose_short(Shard &shard, NarrowArguments &a, int tile)
{
	if (tile == 4)
		launch_narrow<D, 1, 4>(shard, a);
	else
		launch_narrow<D, 1, 8>(shard, a);
}

/* Longer rows. */
template <int LANES> static void
choose_long(Shard &shard, NarrowArguments &a, int tile)
{
	if (tile == 4)
		launch_narrow<0, LANES, 4>(shard, a);
	else if (tile == 8)
		launch_narrow<0, LANES, 8>(shard, a);
	else if (tile == 12)
		launch_narrow<0, LANES, 12>(shard, a);
	else
		launch_narrow<0, LANES, 16>(shard, a);
}

/* Chooses the kernel. */
static void
choose_narrow(Shard &shard, NarrowArguments &a, const NarrowShape &shape)
{
	if (a.d <= 2)
		choose_short<2>(shard, a, shape.tile);
	else if (a.d <= 4)
		choose_short<4>(shard, a, shape.tile);
	else if (a.d <= 6)
		choose_short<6>(shard, a, shape.tile);
	else if (a.d <= 8)
		choose_short<8>(shard, a, shape.tile);
	else if (a.d <= 12)
		choose_short<12>(shard, a, shape.tile);
	else if (a.d <= 16)
		choose_short<16>(shard, a, shape.tile);
	else if (a.d <= 32)
		choose_long<2>(shard, a, shape.tile);
	else if (a.d <= 64)
		choose_long<4>(shard, a, shape.tile);
	else
		choose_long<8>(shard, a, shape.tile);
}

/* Where the parts of rows lie in tiles. */
static void
place_parts(NarrowArguments &a, int lanes)
{
	int			even = 0;		/* how often two divides the parts and the banks' eight */
	int			unit = 0;

	a.swap_shift = a.swap_mask = a.swap_unit = 0;
	a.by_parts = a.d % 4 == 0;
	a.aligned = (uintptr_t) a.features % 16 == 0;
	a.inverse = (1 << 20) / a.parts + 1;
	while (even < 3 && (a.parts >> even) % 2 == 0)
		even++;
	while (1 << unit < lanes)
		unit++;
	if (a.by_parts && even > unit)
	{
		a.swap_shift = 3 - even;
		a.swap_mask = (1 << (even - unit)) - 1;
		a.swap_unit = unit;
	}
}

/* The arguments for a slice, without sums. */
static NarrowArguments
narrow_arguments(const Shard &shard, const Slice &slice, const Centroids &centroids,
				 const NarrowShape &shape)
{
	NarrowArguments a = {};

	a.features = slice.features;
	a.weights = slice.weights;
	a.rows = slice.rows;
	a.d = shard.dimension;
	a.parts = shape.parts;
	a.count = (int) centroids.count;
	a.padded = shape.padded;
	a.packed = centroids.packed.get();
	a.exact = centroids.exact.get();
	a.limb = a.count * (a.d + 1);
	place_parts(a, shape.lanes);
	return a;
}

/* True if the kernels here are the fastest for these centroids. */
bool
narrow_fits(const Shard &shard, int64_t centroids)
{
	static int	limit = getenv("GK_NARROW") != nullptr ? atoi(getenv("GK_NARROW")) : 0;
	int			d = shard.dimension;
	int			most = d <= 16 ? 128 : d <= 32 ? 48 : d <= NARROW_DIMENSION ? 16 : 0;

	if (limit != 0)
		most = d <= NARROW_DIMENSION ? std::min(limit, NARROW_CENTROIDS) : 0;
	return centroids <= most;
}

/* About how long a row takes, in seconds: an eighth of the peak rate of float32. */
double
narrow_seconds(const Shard &shard, int64_t centroids)
{
	const Speed &speed = shard.device->speed;

	return (double) centroids * (shard.dimension + 8) * 256 / speed.flops +
		shard.dimension * 10.0 / speed.bandwidth;
}

/* Fresh labels of all rows of a slice. */
void
narrow_labels(Shard &shard, const Slice &slice, const Centroids &centroids)
{
	NarrowShape shape = shape_of(shard.dimension, (int) centroids.count);
	NarrowArguments a = narrow_arguments(shard, slice, centroids, shape);

	a.fresh = shard.fresh.get();
	choose_narrow(shard, a, shape);
}

/* Replaces the labels of a slice by new ones, and updates the sums. */
void
narrow_step(Shard &shard, const Slice &slice, const Centroids &centroids, const Grid &grid,
			bool all)
{
	NarrowShape shape = shape_of(shard.dimension, (int) centroids.count);
	NarrowArguments a = narrow_arguments(shard, slice, centroids, shape);

	a.labels = shard.labels.get() + slice.first;
	a.all = all;
	a.wide = grid.wide;
	a.scales = shard.grid_scales.get();
	a.rest_scale = gk_power_of_two(grid.rest_bits);
	a.sums = shard.sums.get();
	a.counters = shard.counters.get();
	choose_narrow(shard, a, shape);
}

/* The hash of a centroid, the same in all lanes of a warp: equal ones have equal hashes. */
static __device__ __forceinline__ unsigned long long
hash_of(const double *c, int d)
{
	unsigned long long hash = 0;

	for (int j = threadIdx.x % 32; j < d; j += 32)
		/* + 0: both zeros are equal */
		hash += gk_mix((uint64_t) __double_as_longlong(c[j] + 0.0) +
					   (uint64_t) (j + 1) * GK_HASH_KEY);
	return sum_of_lanes<32>(hash);
}

/* True if a centroid equals an earlier one, which then has all its rows. */
static __device__ __forceinline__ bool
is_repeated(const double *exact, int d, const unsigned long long *hashes, int centroid)
{
	bool		found = false;

	for (int other = threadIdx.x % 32; other < centroid; other += 32)
	{
		bool		equal = hashes[other] == hashes[centroid];

		for (int j = 0; j < d && equal; j++)
			equal = exact[other * d + j] == exact[centroid * d + j];
		found |= equal;
	}
	return __any_sync(WARP_LANES, found);
}

/* Stores a centroid less the origin, scaled and negated; its norm, in all lanes of a warp. */
static __device__ __forceinline__ double
pack_centroid(const double *c, const float *origin, double factor, int d, int parts, int padded,
			  float *values, int part_floats)
{
	double		norm2 = 0.0;

	for (int j = threadIdx.x % 32; j < parts * 4; j += 32)
	{
		double		e = 0.0;

		if (c != nullptr && j < d)
			e = c[j] * factor - (double) (float) ((double) origin[j] * factor);
		values[j / 4 * part_floats + j % 4 * padded] = (float) -e;
		norm2 += e * e;
	}
	return sqrt(sum_of_lanes<32>(norm2));
}

/* The power of two that brings a squared norm near 1. */
static __device__ __forceinline__ int
narrow_exponent(double norm2)
{
	int			exponent = norm2 > 0.0 && norm2 < 1e300 ? -ilogb(sqrt(norm2)) : 0;

	return max(-126, min(126, exponent));
}

/* Stores the constants of the bound. */
static __device__ void
store_bound(NarrowBound *bound, double factor, double greatest, int d)
{
	double		gamma = 1.01 * (d + 16) * 0x1p-24;
	double		definition = (d + 16) * 0x1p-49;

	bound->factor = (float) factor;
	bound->wide_row = __double2float_ru(1.01 * (gamma + 2.0 * definition));
	bound->wide_rest = __double2float_ru(
		1.01 * (2.0 * (gamma + definition) * greatest * greatest + 0x1p-89));
	bound->gamma = __double2float_ru(gamma);
	bound->definition = __double2float_ru(definition);
	bound->greatest = __double2float_ru(greatest);
	bound->inflation = __double2float_ru(1.0 + (d + 16) * 0x1p-23);
	bound->unused = 0.0f;
	if (!(greatest < 0x1p40))
		bound->wide_rest = bound->greatest = INFINITY;
}

/* Packs centroids for narrow_kernel: one block. */
static __global__ void
__launch_bounds__(PACK_THREADS)
pack_kernel(const double *exact, const float *origin, int count, int padded, int d, float *packed)
{
	__shared__ unsigned long long hashes[NARROW_CENTROIDS];
	__shared__ unsigned long long greatest[2];
	int			parts = (d + 3) / 4;
	NarrowLayout layout = narrow_layout(parts, padded);
	int			lane = threadIdx.x % 32;
	double		factor;

	if (threadIdx.x < 2)
		greatest[threadIdx.x] = 0;
	__syncthreads();
	for (int c = threadIdx.x / 32; c < count; c += PACK_THREADS / 32)
	{
		unsigned long long hash = hash_of(exact + c * d, d);
		double		norm2 = 0.0;

		for (int j = lane; j < d; j += 32)
		{
			double		e = exact[c * d + j] - (double) origin[j];

			norm2 += e * e;
		}
		norm2 = sum_of_lanes<32>(norm2);
		if (lane == 0)
		{
			hashes[c] = hash;
			atomicMax(&greatest[0], (unsigned long long) __double_as_longlong(norm2));
		}
	}
	__syncthreads();
	factor = ldexp(1.0, narrow_exponent(__longlong_as_double((long long) greatest[0])));
	for (int c = threadIdx.x / 32; c < padded; c += PACK_THREADS / 32)
	{
		bool		real = c < count && !is_repeated(exact, d, hashes, c);
		double		norm = pack_centroid(real ? exact + c * d : nullptr, origin, factor, d, parts,
										 padded, packed + layout.values + c, layout.part);
		double		above = norm * (1.0 + 0x1p-20) + 0x1p-120;

		if (lane == 0)
		{
			packed[layout.lower + c] = real ? (float) (norm * norm / 2.0) : 3.0e38f;
			packed[layout.norm + c] = __double2float_ru(above);
			atomicMax(&greatest[1], (unsigned long long) __double_as_longlong(above));
		}
	}
	for (int j = threadIdx.x; j < parts * 4; j += PACK_THREADS)
		packed[layout.values + (j / 4 + 1) * layout.part - 4 + j % 4] = 0.0f;
	for (int j = threadIdx.x; j < parts * 4; j += PACK_THREADS)
		packed[layout.origin + j] = j < d ? (float) ((double) origin[j] * factor) : 0.0f;
	__syncthreads();
	if (threadIdx.x == 0)
		store_bound((NarrowBound *) packed, factor,
					__longlong_as_double((long long) greatest[1]), d);
}

/* Allocates memory for packed centroids. */
void
reserve_narrow(Shard &shard, Centroids &centroids)
{
	NarrowShape shape = shape_of(shard.dimension, (int) centroids.count);

	centroids.packed.reserve(shard, narrow_layout(shape.parts, shape.padded).total);
}

/* Packs centroids. */
void
pack_centroids(Shard &shard, Centroids &centroids)
{
	NarrowShape shape = shape_of(shard.dimension, (int) centroids.count);

	shard.use();
	pack_kernel<<<1, PACK_THREADS, 0, shard.device->compute>>>
		(centroids.exact.get(), shard.origin.get(), (int) centroids.count, shape.padded,
		 shard.dimension, centroids.packed.get());
	GK_LAUNCHED("pack_kernel");
}

}								/* namespace gk */
