/*
 * The state of a fit, which its starts and its search share.
 */
#ifndef GK_FITTER_H
#define GK_FITTER_H

#include "postgres.h"

#include "fit_result.h"
#include "job.h"
#include "prepare.h"

/* The statistics of the clusters as the engine gives them, by label. */
typedef struct GkStatistics
{
	double		greatest;		/* weight × d² of a row */
	int			inertia_exponent;
	int			distance_exponent;
	int64	   *sizes;
	GkSum	   *weights;
	GkSum	   *inertia;
	GkSum	   *distance;
	double	   *radius2;
} GkStatistics;

typedef struct GkFitter
{
	GkJob	   *job;
	const GkFitSpec *spec;
	GkPrepared *prepared;
	int64		k;				/* clusters requested, at most the number of rows */
	uint8	   *is_empty;		/* k, and at most as many more that a search adds */
	GkStatistics statistics;	/* room for k clusters */
	GkFit	   *fit;
	bool	   *is_moved;		/* k: as in GkFit */
	bool		is_searching;	/* the history leaves these iterations out */
	int64		iterations;		/* of all starts and searches, and what counts as much */
	int			agreed;			/* starts that ended like the best one */
} GkFitter;

/* The outcome of one start, or of a search from it. */
typedef struct GkStart
{
	int			number;			/* from 0; GK_EARLIER_START */
	int64		count;			/* centroids */
	double	   *centroids;		/* k × dimension, in the engine's units */
	double		inertia;
	int			iterations;		/* of the last run: the start's own, or one of its search */
	bool		converged;
	int			rounds;			/* of the search */
	int			first_iterations;	/* before the search */
	double		first_inertia;
} GkStart;

/* The value of a two-limb sum of the statistics. */
extern double gk_fitter_value(const GkFitter *fitter, GkSum sum, int exponent);

/* Gives the engine centroids; forgets the labels. */
extern void gk_fitter_set_centroids(GkFitter *fitter, const double *centroids, int64 count);

/*
 * Lloyd's iteration until no label changes, the centroids rest, or `limit` is reached.  The engine
 * has the labels of the last iteration afterwards only if they are asked for.
 */
extern void gk_fitter_iterate(GkFitter *fitter, GkStart *start, int limit, bool wants_labels);

/* Labels with the engine's centroids as they are, and the statistics of clusters; the inertia. */
extern double gk_fitter_label_rows(GkFitter *fitter, int64 count);

#endif							/* GK_FITTER_H */
