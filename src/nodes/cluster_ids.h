/*
 * The ids of the rows, brought from the nodes here.
 */
#ifndef GK_CLUSTER_IDS_H
#define GK_CLUSTER_IDS_H

#include "cluster_parts.h"

/* Brings the ids of all nodes here; first_rows has the number of the first row of each place. */
extern GkRowIds *gk_take_ids(const GkServerCluster *cluster, Oid type, int64 rows,
							 int64 *first_rows, int places);

#endif							/* GK_CLUSTER_IDS_H */
