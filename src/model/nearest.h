/*
 * Distances of one row to all centroids: the definition of exact.h, many centroids at a time.
 *
 * Plain C.  Centroids are packed feature by feature in groups of GK_GROUP: each lane
 * of a vector sums one centroid in the order of the features, so the sums are those of the
 * definition bit for bit, whatever the width of the vectors.
 */
#ifndef GK_NEAREST_H
#define GK_NEAREST_H

#include <stdint.h>

/* Centroids of a group; what is missing of the last group is filled with infinities. */
#define GK_GROUP 8

/* How many groups so many centroids are. */
#define GK_GROUPS(count) (((count) + GK_GROUP - 1) / GK_GROUP)

/* Puts centroid number `position` into its place among the packed ones. */
extern void gk_pack_centroid(double *packed, int dimension, int64_t position,
							 const double *centroid);

/* Takes it from there. */
extern void gk_unpack_centroid(const double *packed, int dimension, int64_t position,
							   double *centroid);

/* Fills the places after the last centroid. */
extern void gk_pack_rest(double *packed, int dimension, int64_t count);

/* The least d² and where: the first of equals. */
extern int64_t gk_nearest(const double *packed, const double *row, int dimension, int64_t count,
						  double *distance2);

/* All d²; there must be room for whole groups. */
extern void gk_distances2(const double *packed, const double *row, int dimension, int64_t count,
						  double *distances2);

#endif							/* GK_NEAREST_H */
