/*
 * The vectorised loops of the CPU engine, compiled once for each instruction set
 * (kernels_template.h) and chosen at run time.
 *
 * The filter.  A label is decided by s(c) = |c|²/2 - x·c, in float, over a space that is moved and
 * scaled by a power of two S so that numbers are small near the data: x^ = fl(x S - G) and
 * c^ = fl(c S - G).
 * With u = 2^-24, true x' = x S - G and c' = c S - G (so d²(x, c) S² = |x'|² + 2 s(c)):
 *
 *	x^ is x' rounded once and c^ is c' rounded twice (once in double), so
 *		|x^ c^ - x' c'| <= (2u + O(u²)) |x' c'|;
 *	h = fl(|c'|²/2) is off by u h; the sum of h and d products, fused or not, in any order, is off
 *	by at most (d + 1) u (h + Σ|x' c'|) and higher terms.  By Cauchy and Schwarz
 *		|s^ - s| <= E := γ/2 (C² + 2 X C),  γ = (d + 16) 2^-24 × 1.01, X >= |x'|, C >= |c'|,
 *	plus at most d 2^-125 (1 + X + C) for results that underflow.
 *
 * The definition (exact.h) sums d² in double: off by (d + 4) 2^-53 d² at most, d² <= (X + C)².  So
 * if the best score is below the second best by more than
 *		W = γ (C² + 2 X C) + (d + 16) 2^-49 (X + C)² + 2^-90,
 * the best is the label.  Otherwise the row is decided by the definition among all centroids with
 * s^ <= best + W.  Not finite: the comparison fails, so the definition decides.
 *
 * C need not be the greatest norm: a centroid farther than 2X + |c_best| from the origin is farther
 * from x than c_best, so C = min(greatest norm, (2X + |c_best|)(1 + 2^-10)) will do.
 *
 * Bounds (Hamerly 2010) are distances in the same space: an upper one to the own centroid, a lower
 * one to all others, from |x'|² + 2s with the error γ (X + C)².  Each operation on them is followed
 * by a factor that is greater than its rounding, and a row is skipped only if
 * upper (1 + 2^-18) < lower, which is far more than the double rounding of d².
 */
#ifndef GK_KERNELS_H
#define GK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#define GK_BLOCK 16				/* rows of a block */
#define GK_TILE 32				/* rows the filter takes at a time */
#define GK_CENTROIDS_AT_ONCE 4		/* centroids of GkKernels.distances */

/* The filter space and its error window. */
typedef struct GkFilter
{
	int			d;
	float		scale;			/* S, a power of two */
	const float *origin;		/* G */
	const float *norms;			/* upper bounds of |c'| */
	float		greatest_norm;	/* of all centroids, those that are left out too */
	float		reach;			/* no centroid left out has a lesser norm; infinite if none is */
	float		gamma;			/* infinite if a centroid is out of range:
								 * all rows are decided exactly */
	float		gamma_double;	/* (d + 16) 2^-49 */
} GkFilter;

/* Rows in the filter: features as x^[d][GK_TILE], and what came out. */
typedef struct GkTile
{
	float	   *x;
	float	   *split;			/* the same as GkKernels.split makes it */
	int			count;
	int64_t		rows[GK_TILE];
	int32_t		old[GK_TILE];	/* labels before */
	float		norm2[GK_TILE]; /* Σ x^² */
	float		best[GK_TILE];
	float		second[GK_TILE];
	int32_t		index[GK_TILE];
	float		threshold[GK_TILE]; /* best + W */
	float		upper[GK_TILE];
	float		lower[GK_TILE];
	const char *ahead;			/* memory to be prefetched meanwhile */
	int64_t		ahead_bytes;
	uint32_t	flagged;		/* rows to be decided by the definition */
	uint32_t	changed;		/* rows whose label is another one */
	uint32_t	beyond;			/* rows for which a centroid left out may be the nearest */
} GkTile;

/* What GkKernels.direct finds for the rows of two blocks. */
typedef struct GkDirectTile
{
	int32_t		index[GK_TILE];
	uint32_t	flagged;		/* rows that the filter must look at closely */
	uint32_t	changed;		/* rows whose label is another one */
} GkDirectTile;

/* How far the centroids moved, in filter space, rounded up. */
typedef struct GkMoves
{
	const float *deltas;		/* one a centroid */
	float		greatest;
	float		second;			/* the greatest but one */
	int32_t		greatest_mover;
} GkMoves;

/* How rows become integers. */
typedef struct GkQuantizer
{
	int			d;
	bool		wide;
	double		rest_scale;
	const double *scales;		/* d + 1 */
} GkQuantizer;

/* The partial statistics of one cluster, and the scales by which numbers become integers. */
typedef struct GkTally
{
	int64_t		size;
	int64_t		weight[2];		/* high and low limb; only of weighted rows */
	int64_t		sums[4];		/* weight × d², high and low, weight × d, high and low */
	double		radius2;
} GkTally;

typedef struct GkTallyScales
{
	double		inertia;
	double		distance;
	double		rest;
} GkTallyScales;

/* Sums over rows of GK_MOMENTS, one of each a feature. */
typedef struct GkMomentSums
{
	const double *pivot;
	const double *first_scales;
	const double *second_scales;
	double		rest_scale;
	int64_t    *sums;			/* d × 6: Σz high, low, Σz² high, low, exponents, nonzero */
} GkMomentSums;

typedef struct GkKernels
{
	const char *name;
	int			panel;			/* centroids of a panel: as many floats h, then what fill() makes of
								 * d, rounded up to `depth`, × as many c^ */
	int			depth;
	float		split_error;	/* what the products are off by more, as a share of X C */

	/* Packs up to `panel` centroids as c^ = centroid × scale - origin. */
	void		(*fill) (int d, const double *centroids, int count, double scale,
						 const float *origin, float *panel);
	/* Makes of x^ what nearest() and within() multiply: GK_TILE × d, rounded up to `depth`. */
	void		(*split) (int d, GkTile *tile);

	/* Puts the rows of the mask, as x^, into the tile from `position`, and their norm2. */
	void		(*pack) (const GkFilter *filter, GkTile *tile, int position, const float *block,
						 uint32_t mask);
	/*
	 * best, second and index of the tile over count centroids in panels, the first of which
	 * is number `first`; if that is not 0, over the centroids before as well.
	 */
	void		(*nearest) (int d, GkTile *tile, const float *panels, int64_t first, int64_t count);
	/* What best and second mean: threshold, flagged, changed, and the bounds if wanted. */
	void		(*judge) (const GkFilter *filter, GkTile *tile, bool keep_bounds);
	/*
	 * All of that for the rows of 2 × tiles blocks, which are read in place, over few centroids,
	 * and without bounds; NULL if there is no such loop.
	 */
	void		(*direct) (const GkFilter *filter, const float *blocks, int64_t tiles,
						   const float *panels, int64_t count, const int32_t *old,
						   GkDirectTile *found);
	/* masks[i] = rows whose score with centroid i of the panel is not above the threshold. */
	void		(*within) (int d, const GkTile *tile, const float *panel, uint32_t *masks);
	/*
	 * Moves the bounds of blocks along with the centroids; leaves in each mask those
	 * rows that must be looked at, and gives their number.
	 */
	int64_t		(*bounds) (const GkMoves *moves, float *bounds, const int32_t *labels,
						   int64_t blocks, uint32_t *masks);

	/* 16 rows, row-major, to a block. */
	void		(*transpose) (float *block, const float *rows, int d);
	/* d² by the definition, of the rows of a block to count <= GK_CENTROIDS_AT_ONCE centroids. */
	void		(*distances) (const float *block, int d, const double *centroids, int count,
							  double *distance2);
	/* Σ (x - y)² in float, in index order, of a block to count <= GK_CENTROIDS_AT_ONCE points. */
	void		(*spans) (const float *block, int d, const float *points, int count,
						  float *distances);
	/*
	 * Takes the d² of a block's rows to a point, and its label, where the d² is less than that
	 * before, or the label is 0.
	 */
	void		(*take_nearer) (const double *fresh, int32_t label, double *distance2,
								int32_t *labels);
	/* The square roots of numbers, GK_BLOCK × count of them. */
	void		(*roots) (double *values, int count);
	/* d² of each row to the centroid of its label. */
	void		(*own_distances) (const float *block, int d, const double *centroids,
								  const int32_t *labels, double *distance2);
	/* least and greatest over `blocks` blocks. */
	void		(*range) (const float *block, int64_t blocks, int d, float *least, float *greatest);
	/* moments over `blocks` blocks, all with `rows` rows. */
	void		(*moments) (const float *block, int64_t blocks, int rows, int d,
							const GkMomentSums *moments);
	void		(*transform) (float *block, int d, const double *offset, const double *factor,
							  bool normalize);
	/* For each row, the sum of its gk_hash_term(). */
	void		(*hash) (const float *block, int d, uint64_t *terms);
	/*
	 * Adds the first `rows` rows of a block, times their weights unless these are NULL, to
	 * the sums of their labels' clusters.
	 */
	void		(*add_block) (const GkQuantizer *quantizer, const float *block,
							  const double *weights, const int32_t *labels, int rows,
							  int64_t stride, int64_t *sums);
	/*
	 * Moves a row (features GK_BLOCK apart), times its weight, from one cluster's sums to
	 * another's: d + 1 highs, then as many lows if the grid is wide.  Either may be NULL.
	 */
	void		(*move) (const GkQuantizer *quantizer, const float *row, double weight,
						 int64_t *from, int64_t *to);
	/*
	 * Adds the squares of up to four rows (features GK_BLOCK apart) to their centroids, times their
	 * weights unless these are NULL, to sums of their own as of `move`, with both limbs.
	 */
	void		(*add_squares) (const GkQuantizer *quantizer, const float *block,
								const double *weights, const double *const *centroids, int rows,
								int64_t *const *sums);
	/* Adds `rows` rows to their labels' tallies, all but their weights (NULL: 1). */
	void		(*tally) (const GkTallyScales *scales, const double *distance2,
						  const double *weights, const int32_t *labels, int rows,
						  GkTally *tallies);
	void		(*add) (int64_t *sums, const int64_t *others, int64_t count);
} GkKernels;

extern const GkKernels gk_cpu_kernels_generic;
#if defined(__x86_64__)
extern const GkKernels gk_cpu_kernels_avx2;
extern const GkKernels gk_cpu_kernels_avx512;
#if defined(GK_HAVE_AMX)
extern const GkKernels gk_cpu_kernels_amx;
#endif
#endif

/* The kernels of this name if this machine runs them, NULL if not. */
extern const GkKernels *gk_cpu_kernels_find(const char *name);

/* The best kernels of this machine for rows of d features. */
extern const GkKernels *gk_cpu_kernels_for(int d);

#endif							/* GK_KERNELS_H */
