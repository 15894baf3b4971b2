/*
 * Merging the clusters whose union costs least.
 */
#ifndef GK_MERGE_H
#define GK_MERGE_H

#include "postgres.h"

#include "job.h"

/*
 * Merges centroids, in place, until at most `most` (at least 1) of the `count` are left: again and
 * again, the two become one that add least to the inertia; if they are many, of those that are
 * neighbours, which the engine of the job finds.  The union of clusters a and b adds
 * w_a w_b / (w_a + w_b) × d²(a, b), where w is the weight (Ward 1963).  `centroids` is
 * count × dimension; `weights` are changed as well; the order of the centroids that stay is kept.
 * Unit vectors stay such if `spherical`.  Returns how many are left.
 */
extern int64 gk_merge_closest(GkJob *job, double *centroids, double *weights, int64 count,
							  int dimension, int64 most, bool spherical);

/*
 * The same with points that stay as they are.  `heaviest` (count) says for each cluster that is
 * left which of the points that it is made of had the greatest weight.  Unions that add nothing are
 * made beyond `most`: of equal points, and of those without weight.  `drawn` is as in GK_MERGE.
 */
extern int64 gk_merge_candidates(GkJob *job, const float *points, double *weights, int64 count,
								 int dimension, int64 most, bool spherical, bool drawn,
								 int64 *heaviest);

#endif							/* GK_MERGE_H */
