/*
 * Labels that stay on the nodes of a fit.
 */
#ifndef GK_CLUSTER_LABELS_H
#define GK_CLUSTER_LABELS_H

#include "cluster.h"

/*
 * Has the nodes leave their labels in shared memory, for what gk_shared_labels() selects: clusters
 * has the cluster of each of so many labels of the engine.
 */
extern void gk_cluster_share_labels(GkServerCluster *cluster, const int32 *clusters, int64 count,
									bool by_cosine);

/* Ends the transactions of the nodes, and all of their work but such labels; others begin. */
extern void gk_cluster_finish(GkServerCluster *cluster);

/*
 * What to select the labels from on the nodes, columns id, cluster_id and distance: the source, its
 * id column and the type of that.  Without a cluster, only its form.
 */
extern char *gk_shared_labels(const GkServerCluster *cluster, const char *source,
							  const char *id_column, Oid id_type);

/*
 * Takes the labels of which nobody has made use, after so many rows were selected: those of rows
 * that the source has not returned again as it did.  Then the nodes drop all labels.  40001 if it
 * returned rows more than once.  The values are id, cluster and distance, and are valid until
 * `take` returns.
 */
typedef void (*GkTakeLabel) (void *context, const Datum *values, const bool *nulls);
extern void gk_cluster_take_rest(GkServerCluster *cluster, Oid id_type, int64 selected,
								 GkTakeLabel take, void *context);

#endif							/* GK_CLUSTER_LABELS_H */
