/*
 * The matching of the clusters of two clusterings: which of one goes with which of the other.
 *
 * A matching is one to one, and has as many pairs as the smaller side has clusters.
 */
#ifndef GK_MATCHING_H
#define GK_MATCHING_H

#include "postgres.h"

/* With more clusters on either side a matching is greedy: the exact one costs their cube. */
#define GK_EXACT_MATCHING 2048

/* A pair of clusters that may be matched. */
typedef struct GkMatchPair
{
	double		cost;
	int32		row;
	int32		column;
} GkMatchPair;

/*
 * The matching of the least total cost; `costs` is rows × columns, finite, each side at most
 * GK_EXACT_MATCHING.  match[row] := its column, or -1 if there are more rows than columns.
 */
extern void gk_match_exactly(const double *costs, int rows, int columns, int32 *match);

/*
 * Takes the cheapest pair of which neither is matched yet, again and again; equal costs by row,
 * then column.  Sorts the pairs.  Rows that no pair is left for get -1.
 */
extern void gk_match_greedily(GkMatchPair *pairs, int64 count, int rows, int columns,
							  int32 *match);

/*
 * Matches points by their squared distance; `from` is rows × dimension, `to` columns × dimension.
 * Exactly up to GK_EXACT_MATCHING, else greedily.
 */
extern void gk_match_centroids(const double *from, int rows, const double *to, int columns,
							   int dimension, int32 *match);

/*
 * Matches points that are each other's nearest by far: all others are more than twice as far from
 * either of them.  match[row] := its column, or -1.
 */
extern void gk_match_unmoved(const double *from, int rows, const double *to, int columns,
							 int dimension, int32 *match);

#endif							/* GK_MATCHING_H */
