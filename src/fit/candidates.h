/*
 * From many weighted candidates to k centroids.
 */
#ifndef GK_CANDIDATES_H
#define GK_CANDIDATES_H

#include "postgres.h"

/* Weighted points, and the random numbers to choose among them with. */
typedef struct GkCandidates
{
	const float *features;		/* count × dimension */
	const double *weights;		/* count */
	int64		count;
	int			dimension;
	uint64		seed;
	uint32		start;
} GkCandidates;

/*
 * Weighted k-means++ on the candidates; greedy, with Lloyd steps after it, if they are few.
 * Returns the number of centroids: fewer than k if fewer candidates differ.
 */
extern int64 gk_reduce_candidates(const GkCandidates *candidates, int64 k, double *centroids);

/* How many trials greedy k-means++ makes for a centroid. */
extern int	gk_greedy_trials(int64 k);

#endif							/* GK_CANDIDATES_H */
