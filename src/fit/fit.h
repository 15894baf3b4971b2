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

/* The start from GkFitSpec.earlier. */
#define GK_EARLIER_START (-1)

/* What came out.  Everything in the memory context current at the call. */
typedef struct GkFit
{
	int64		k;				/* clusters with rows; <= GkFitSpec.k */
	double	   *centroids;		/* k × dimension, in the user's units: by size, or as given */
	GkCluster  *clusters;		/* k */
	int64		labels;			/* that the engine uses */
	int32	   *cluster_of_label;	/* engine label → id; -1 = dropped */
	double		inertia;
	int			iterations;
	bool		converged;
	int			best_start;		/* which of the n_init, from 0; GK_EARLIER_START */
	double		seed_seconds;
	double		iterate_seconds;
	double		label_seconds;
	GkFitModel	model;			/* only if it was asked for */
} GkFit;

/* Fits; labels and d² of the result stay in the engine (fetch). */
extern void gk_fit(GkJob *job, const GkFitSpec *spec, GkFit *fit);

/* The same in steps, for those who look at the rows before: prepares them, which can be done once. */
typedef struct GkFitter GkFitter;
extern GkFitter *gk_fit_begin(GkJob *job, const GkFitSpec *spec);
extern void gk_fit_run(GkFitter *fitter, GkFit *fit);

/* What is known of the rows as they are compared. */
extern const struct GkPrepared *gk_fit_rows(const GkFitter *fitter);

/*
 * Labels the rows with `count` centroids as rows are compared with them; labels and d² stay in the
 * engine.  Fills in the clusters, whose ids are the labels, those without rows as well; the inertia.
 */
extern double gk_fit_label(GkFitter *fitter, const double *points, int64 count,
						   GkCluster *clusters);

/*
 * Gives the clusters of a fit for a model other ids, by their place, and puts them into the order
 * of these.
 */
extern void gk_fit_renumber(GkFit *fit, int dimension, const int32 *ids);

/* Labels the rows with spec->points; labels and d² stay in the engine. */
extern void gk_label(GkJob *job, const GkFitSpec *spec);

/* A row's distance from its d²: Euclidean, or 1 - cos. */
extern double gk_distance(GkMetric metric, double distance2);

#endif							/* GK_FIT_H */
