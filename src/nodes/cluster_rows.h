/*
 * What the nodes have read, taken from their answers and merged.
 */
#ifndef GK_CLUSTER_ROWS_H
#define GK_CLUSTER_ROWS_H

#include "cluster_parts.h"

/* Takes the answer of a node to gkmeans_node_load(). */
extern void gk_take_rows(const GkServerCluster *cluster, GkPart *part, const GkSource *source);

/*
 * Merges what the nodes have read.  False if features have to be shifted otherwise: then ->shift
 * and ->dimension of *rows say how, and `wrong` which nodes must read their rows again.  The
 * second time, `found` is that shift; before, NULL.
 */
extern bool gk_merge_parts(const GkServerCluster *cluster, const GkSource *source,
						   const double *found, GkRows *rows, bool *wrong);

#endif							/* GK_CLUSTER_ROWS_H */
