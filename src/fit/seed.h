/*
 * Seeding: the first centroids.
 */
#ifndef GK_SEED_H
#define GK_SEED_H

#include "postgres.h"

#include "fit_spec.h"
#include "job.h"

typedef struct GkSeedSpec
{
	GkJob	   *job;			/* with its grid set */
	GkInit		init;			/* not GK_INIT_GIVEN */
	int64		k;				/* at most the number of rows */
	int64		rows;
	int			dimension;
	bool		spherical;		/* the rows are unit vectors, and the centroids are to be */
	double		variance;		/* Σ of the variances of the features, as stored */
	double		greatest_weight;
	int			rest_bits;		/* of the grid; 0 if it is not wide */
	uint64		seed;
	uint32		start;			/* which of the n_init */
	double		oversampling;
	int			rounds;
} GkSeedSpec;

/*
 * Chooses k centroids, or fewer if there are fewer distinct rows (rows that differ only in
 * weight count once).  Returns how many.
 */
extern int64 gk_seed(const GkSeedSpec *spec, double *centroids);

#endif							/* GK_SEED_H */
