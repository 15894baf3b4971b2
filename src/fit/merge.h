/*
 * Merging the clusters whose union costs least.
 */
#ifndef GK_MERGE_H
#define GK_MERGE_H

#include "postgres.h"

/*
 * Takes `excess` of the `count` centroids away, in place: again and again, the two become one that
 * add least to the inertia.  The union of clusters a and b adds w_a w_b / (w_a + w_b) × d²(a, b),
 * where w is the weight (Ward 1963).  `centroids` is count × dimension, and `weights` are changed
 * as well; the order of the centroids that stay is kept.  Unit vectors stay such if `spherical`.
 */
extern void gk_merge_closest(double *centroids, double *weights, int64 count, int dimension,
							 int64 excess, bool spherical);

#endif							/* GK_MERGE_H */
