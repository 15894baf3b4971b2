/*
 * The standard deviations of the features within the clusters of a clustering.
 */
#ifndef GK_DEVIATIONS_H
#define GK_DEVIATIONS_H

#include "postgres.h"

#include "clustering.h"

/* The most numbers, k × dimension, for which they are found: they are as large as the centroids. */
#define GK_MAX_DEVIATIONS 10000000

/*
 * Finds them around the centroids that the engine has, k × dimension, with its labels: by label and
 * feature, in the units of the rows as compared; NaN for a label without weight, and where numbers
 * are too large.  Weights count.  But for rounding, no row is above `reach` from its centroid.
 */
extern void gk_find_deviations(const GkClustering *clustering, const double *centroids,
							   double reach, double *deviations);

#endif							/* GK_DEVIATIONS_H */
