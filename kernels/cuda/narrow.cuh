/*
 * Few centroids of few features: how the centroids lie in memory, the bound that decides a row in
 * float32 (docs/filter.md has the proof), and what narrow_kernel works with.
 */
#ifndef GK_NARROW_CUH
#define GK_NARROW_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "launch.h"

namespace gk
{

#define NARROW_WARPS 4			/* of a block, at most */
#define NARROW_CENTROIDS 512	/* at most */
#define LANE_ROWS 4				/* that a lane has at a time */
#define TILE_ROWS (32 * LANE_ROWS)	/* that a warp has */
#define PRODUCT_FEATURES 4		/* of rows that are summed by products, at least */
#define PRODUCT_CENTROIDS 64	/* at most, if they are */
#define WARP_LANES 0xffffffffu
#define NO_ITEM 0xffffffffu
#define ITEM_TAKEN 0x8000u		/* in an item: the row leaves the cluster */

/* How the kernel for some features and centroids works. */
struct NarrowShape
{
	int			tile;			/* centroids at a time */
	int			parts;			/* of four features */
	int			padded;			/* centroids, whole tiles */
};

/* The shape for so many features and centroids. */
NarrowShape narrow_shape(int d, int centroids);

/* Constants of the bound, at the beginning of the packed centroids. */
struct NarrowBound
{
	float		factor;			/* rows are multiplied by it: a power of two */
	float		wide_row;		/* a window without roots: wide_row × |y|² + wide_rest … */
	float		wide_rest;		/* … -INFINITY: scores are exact, and the least one decides */
	float		gamma;
	float		definition;
	float		greatest;		/* of the centroids' norms */
	float		inflation;		/* of a sum of squares */
	float		unused;
};

/* Where the parts of the packed centroids begin, in floats; all are multiples of four. */
struct NarrowLayout
{
	int			origin;			/* parts × 4 */
	int			lower;			/* padded: |e|²/2 */
	int			norm;			/* padded */
	int			values;			/* for each part: four features × padded, negated */
	int			part;			/* floats of a part */
	int			total;
};

/* The layout for so many parts of four features, and centroids. */
static __host__ __device__ __forceinline__ NarrowLayout
narrow_layout(int parts, int padded)
{
	NarrowLayout layout;

	layout.origin = sizeof(NarrowBound) / sizeof(float);
	layout.lower = layout.origin + parts * 4;
	layout.norm = layout.lower + padded;
	layout.values = layout.norm + padded;
	layout.part = padded * 4;
	layout.total = layout.values + parts * layout.part;
	return layout;
}

/*
 * The score up to which a centroid can be nearest, if one of this norm has score `least`;
 * infinite if nothing is known.
 */
static __device__ __forceinline__ float
narrow_limit(const NarrowBound &bound, float least, float norm2, float own_norm)
{
	float		x = sqrtf(fmaf(norm2, bound.inflation, 0x1p-100f)) * (1.0f + 0x1p-20f);
	float		c = fminf(bound.greatest, (2.0f * x + own_norm) * (1.0f + 0x1p-10f));
	float		window = (bound.gamma * (c * c + 2.0f * x * c) +
						  bound.definition * (x + c) * (x + c) + 0x1p-90f) * 1.001f;

	return norm2 < 0x1p80f && bound.greatest < 0x1p40f ? least + window : INFINITY;
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
	int			swap_shift;		/* where parts lie in a tile: swap_of() */
	int			swap_mask;
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
	int			products_from;	/* rows of a tile to be summed by products; > TILE_ROWS: none */
	int			copies;			/* of the sums in a block's shared memory, or 0: one in all … */
	bool		exclusive;		/* … or for each group of lanes that adds rows, or each warp */
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
	return row >> a.swap_shift & a.swap_mask;
}

/* One feature of a row of a tile. */
static __device__ __forceinline__ float
feature_of(const NarrowArguments &a, const float *tile, int row, int j)
{
	return tile[row * a.d + ((j >> 2 ^ swap_of(a, row)) << 2 | (j & 3))];
}

}								/* namespace gk */

#endif							/* GK_NARROW_CUH */
