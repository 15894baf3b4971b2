/*
 * The means of the clusters of a clustering: of all rows alike, whatever their weights.
 */
#ifndef GK_MEANS_H
#define GK_MEANS_H

#include "postgres.h"

#include "clustering.h"
#include "silhouette.h"

/*
 * Has the engine, which has the centroids of the clustering, find them, k × dimension: they are its
 * centroids then.  If it knows of weights, they count.
 */
extern void gk_find_means_by_engine(const GkClustering *clustering, double *means);

/*
 * Finds them by going through the rows, which are offered to the sample as well; `sizes` are the
 * rows of each cluster.
 */
extern void gk_find_means(const GkClustering *clustering, const int64 *sizes, GkSample *sample,
						  double *means);

#endif							/* GK_MEANS_H */
