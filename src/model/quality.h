/*
 * Figures of a clustering: silhouettes, Davies-Bouldin, Calinski-Harabasz, sums of squares.
 *
 * They are computed from the rows as compared, and agree with scikit-learn's for these.  Weights
 * are ignored.  Sums over rows are integers, so the order of the rows does not matter.
 */
#ifndef GK_QUALITY_H
#define GK_QUALITY_H

#include "postgres.h"

#include "clustering.h"

/* The figures; NaN if one is not defined. */
typedef struct GkQuality
{
	int64		rows;			/* that count */
	int			clusters;		/* with rows */
	double		inertia;		/* Σ d² to the centroid of the label */
	double		within;			/* Σ d² to the mean of the rows of the cluster */
	double		total;			/* Σ d² to the mean of all */
	double		silhouette;
	int64		silhouette_rows;
	double		simplified_silhouette;
	double		davies_bouldin;
	double		calinski_harabasz;

	/* by label */
	int64	   *sizes;
	double	   *silhouettes;
	double	   *simplified_silhouettes;
	int		   *nearest;		/* label of the nearest other centroid, -1: there is none; only … */
	double	   *separations;	/* distance to it: … of centroids that were given */
	double	   *deviations;		/* k × dimension, gk_find_deviations() around the means in which
								 * weights count; NULL = not asked for */
} GkQuality;

/* Bytes that gk_measure() takes for each feature of each label, without deviations. */
#define GK_MEASURED_BYTES 48

/*
 * Measures a clustering of prepared rows; everything in the current memory context, which is the
 * job's.  Unless there are labels, those in the engine are made anew, and its d² are lost.
 */
extern void gk_measure(const GkClustering *clustering, GkQuality *quality);

#endif							/* GK_QUALITY_H */
