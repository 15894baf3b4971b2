/*
 * The result of a fit.
 */
#ifndef GK_FIT_RESULT_H
#define GK_FIT_RESULT_H

#include "postgres.h"

#include "fit_spec.h"
#include "history.h"

/* One cluster as users see it. */
typedef struct GkCluster
{
	int32		id;				/* its position here, or that of its initial centroid */
	int64		size;
	double		weight;
	double		inertia;
	double		avg_distance;
	double		radius;
} GkCluster;

/* What a model needs besides the clusters: how rows are compared, and their mean. */
typedef struct GkFitModel
{
	double	   *offset;			/* dimension: a compared feature is … */
	double	   *factor;			/* dimension: … (value - shift - offset) × factor */
	double	   *points;			/* k × dimension: the centroids as rows are compared with them */
	int32	   *place_of_label; /* engine label → place among the clusters, -1 = empty; always */
	int32	   *ties;			/* k: the places in the order in which ties are decided; always */
	double	   *mean;			/* dimension: of the rows as compared, unweighted */
	double	   *variance;
	float	   *least;
	float	   *greatest;
	double		total;			/* Σ weight × d² to the mean of all rows */
	double		single;			/* the inertia of a single cluster */
	GkHistory	history;
	double	   *score_quantiles;	/* GK_QUANTILES; NULL: not found yet, gk_call_quantiles() */
	double		greatest_weight;	/* of a row */
} GkFitModel;

/* The place of the label of a row. */
static inline int
gk_place_of_label(const int32 *place_of_label, int32 label)
{
	if (place_of_label[label] < 0)
		elog(ERROR, "gkmeans engine gives a row the label of an empty cluster");
	return place_of_label[label];
}

/* The number of the start from GkFitSpec.earlier. */
#define GK_EARLIER_START (-1)

/* The result of a fit; everything in the memory context current at the call. */
typedef struct GkFit
{
	int64		k;				/* clusters with rows; <= GkFitSpec.k */
	double	   *centroids;		/* k × dimension, in the user's units: by size, or as given */
	GkCluster  *clusters;		/* k */
	int64		labels;			/* that the engine distinguishes */
	double		inertia;
	int			iterations;		/* of the best start, before its search */
	bool		converged;		/* the last run of that start, or of its search */
	int			best_start;		/* which of the starts, from 0; GK_EARLIER_START */
	bool	   *is_moved;		/* GkFitSpec.k: centroids of GK_EARLIER_START that once had no rows,
								 * and were moved to some; NULL without that start */
	GkFitQuality quality;		/* not GK_QUALITY_AUTO */
	int			search_rounds;	/* of the search from the best start; 0 without one */
	double		search_improvement; /* share of that start's inertia that the search took off */
	double		prepare_seconds;	/* once, however many fits share the prepared rows */
	double		seed_seconds;
	double		iterate_seconds;
	double		label_seconds;
	GkFitModel	model;			/* most of it only if it was asked for */
} GkFit;

#endif							/* GK_FIT_RESULT_H */
