/*
 * Distances of one row to all centroids: the definition of exact.h, many centroids at a time.
 *
 * Plain C.  Centroids are packed feature by feature in groups of GK_GROUP: each lane
 * of a vector sums one centroid in the order of the features, so the sums are those of the
 * definition bit for bit, whatever the width of the vectors.
 *
 * Where centroids are many, floats tell first which few of them can be the nearest: the filter of
 * kernels.h, with its bound of the error, for one row at a time.
 */
#ifndef GK_NEAREST_H
#define GK_NEAREST_H

#include <stdbool.h>
#include <stdint.h>

/* Centroids of a group; what is missing of the last group is filled with infinities. */
#define GK_GROUP 8

/* How many groups so many centroids are. */
#define GK_GROUPS(count) (((count) + GK_GROUP - 1) / GK_GROUP)

/* Centroids of a group of the filter. */
#define GK_SIEVE_GROUP 32

/* The filter: centroids as floats, moved and scaled. */
typedef struct GkSieve
{
	float	   *packed;			/* groups: half the squared norms, then feature by feature */
	float	   *norms;			/* count: upper bounds of the norms */
	float	   *center;			/* dimension: a float is value × scale - center */
	double		scale;			/* a power of two */
	double		greatest_norm;
} GkSieve;

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

/* True if a filter makes gk_nearest() faster. */
extern bool gk_sieve_pays(int dimension, int64_t count);

/* Floats of the memory of a filter, and of what gk_nearest_sieved() needs besides. */
extern int64_t gk_sieve_floats(int dimension, int64_t count);
extern int64_t gk_sieve_scratch(int dimension, int64_t count);

/* Makes the filter of packed centroids; false if they are too far apart for floats. */
extern bool gk_make_sieve(GkSieve *sieve, float *memory, const double *packed, int dimension,
						  int64_t count);

/* The same as gk_nearest() for a row of float32 values. */
extern int64_t gk_nearest_sieved(const GkSieve *sieve, float *scratch, const double *packed,
								 const double *row, int dimension, int64_t count,
								 double *distance2);

/* For tests: "avx512", "avx2" or "plain" from now on, NULL: the best; false if it cannot run. */
extern bool gk_nearest_use(const char *name);

#endif							/* GK_NEAREST_H */
