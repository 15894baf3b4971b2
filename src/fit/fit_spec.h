/*
 * The specification of a fit.
 */
#ifndef GK_FIT_SPEC_H
#define GK_FIT_SPEC_H

#include "postgres.h"

typedef enum GkInit
{
	GK_INIT_PARALLEL,			/* k-means||: Bahmani et al. 2012 */
	GK_INIT_PLUSPLUS,			/* greedy k-means++: Arthur and Vassilvitskii 2007 */
	GK_INIT_RANDOM,				/* rows drawn by weight, distinct */
	GK_INIT_GIVEN
} GkInit;

typedef enum GkMetric
{
	GK_EUCLIDEAN,
	GK_COSINE					/* spherical k-means; distance is 1 - cos */
} GkMetric;

typedef enum GkScale
{
	GK_SCALE_NONE,
	GK_SCALE_STANDARD,			/* (x - mean) / population standard deviation */
	GK_SCALE_MINMAX,			/* (x - least) / (greatest - least) */
	GK_SCALE_AUTO,				/* standard for several columns, else none; not for gk_fit() */
	GK_SCALE_GIVEN				/* by GkFitSpec.offset and .factor; internal */
} GkScale;

typedef enum GkFitQuality
{
	GK_QUALITY_AUTO,			/* by the sizes of the data */
	GK_QUALITY_FAST,			/* the best of n_init starts */
	GK_QUALITY_GOOD,			/* a search from there */
	GK_QUALITY_BEST				/* the best of several searches */
} GkFitQuality;

/* The specification of a fit. */
typedef struct GkFitSpec
{
	int64		k;
	int			dimension;
	int64		rows;			/* usable rows in the engine */
	bool		weighted;
	const char *const *names;	/* dimension: of the features; NULL: elements of an array */
	const double *shift;		/* dimension: subtracted by the row source */
	GkInit		init;
	const double *initial;		/* k × dimension, in the user's units; with GK_INIT_GIVEN */
	GkMetric	metric;
	GkScale		scale;
	int			max_iter;
	double		tol;
	int			n_init;
	GkFitQuality quality;
	int64		seed;
	double		oversampling;	/* k-means||: candidates per round, as a multiple of k */
	int			rounds;			/* k-means|| */
	bool		for_model;		/* fill in GkFit.model */
	bool		is_inner;		/* of random rows, or of a sample: no warnings */
	bool		is_pilot;		/* of a sample: counts all passes over it */
	int64		judged_rows;	/* by which a search is chosen and limited; 0 = rows */
	const double *earlier;		/* k × dimension: centroids as rows are compared with them, of a
								 * start before those of n_init, which may be 0 then; NULL = none */

	/* for gk_label(), and GK_SCALE_GIVEN */
	const double *offset;		/* dimension */
	const double *factor;		/* dimension */
	const double *points;		/* k × dimension: centroids as rows are compared with them */
	bool		labels_only;	/* no fit follows: no warnings */
} GkFitSpec;

#endif							/* GK_FIT_SPEC_H */
