/*
 * The algorithm: k-means on an engine that holds the rows.
 *
 * Knows the engine interface and nothing of Datum, SPI or CUDA.  Lloyd's iteration with the
 * stopping rules and the relocation of empty clusters of scikit-learn; seeding
 * in seed.c.  All randomness comes from a counter-based generator keyed by the seed,
 * and all draws go over the rows in the order of their hash and bits, so the order of
 * the rows does not matter.
 */
#ifndef GK_FIT_H
#define GK_FIT_H

#include "postgres.h"

#include "fit_spec.h"
#include "job.h"

/* One cluster as users see it. */
typedef struct GkCluster
{
	int32		id;				/* its place here, or that of its initial centroid */
	int64		size;
	double		weight;
	double		inertia;
	double		avg_distance;
	double		radius;
} GkCluster;

/* What a model needs beside the clusters: how rows are compared, and how they lie. */
typedef struct GkFitModel
{
	double	   *offset;			/* dimension: a compared feature is … */
	double	   *factor;			/* dimension: … (value - shift - offset) × factor */
	double	   *points;			/* k × dimension: the centroids as rows are compared with them */
	int32	   *place_of_label; /* engine label → place among the clusters */
	int32	   *ties;			/* k: the places in the order in which ties are decided */
	double	   *mean;			/* dimension: of the rows as compared, unweighted */
	double	   *variance;
	float	   *least;
	float	   *greatest;
	double		total;			/* Σ weight × d² to the mean of all rows */
} GkFitModel;

/* What came out.  Everything in the memory context current at the call. */
typedef struct GkFit
{
	int64		k;				/* clusters with rows; <= GkFitSpec.k */
	double	   *centroids;		/* k × dimension, in the user's units: by size, or as given */
	GkCluster  *clusters;		/* k */
	int32	   *cluster_of_label;	/* engine label → id, GkFitSpec.k entries; -1 = dropped */
	double		inertia;
	int			iterations;
	bool		converged;
	int			best_start;		/* which of the starts, from 0 */
	GkFitQuality	quality;		/* not GK_QUALITY_AUTO */
	int			search_rounds;	/* of the search from the best start; 0 without one */
	double		search_improvement; /* share of that start's inertia that the search took off */
	double		seed_seconds;
	double		iterate_seconds;
	double		label_seconds;
	GkFitModel	model;			/* only if it was asked for */
} GkFit;

/* Fits; labels and d² of the result stay in the engine (fetch). */
extern void gk_fit(GkJob *job, const GkFitSpec *spec, GkFit *fit);

/* Labels the rows with spec->points; labels and d² stay in the engine. */
extern void gk_label(GkJob *job, const GkFitSpec *spec);

/* A row's distance from its d²: Euclidean, or 1 - cos. */
extern double gk_distance(GkMetric metric, double distance2);

#endif							/* GK_FIT_H */
