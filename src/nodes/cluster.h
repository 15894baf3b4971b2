/*
 * A fit over several servers: each reads its rows into an engine of its own, and the cluster engine
 * makes one of them.
 *
 * What comes from a node is not trusted.
 */
#ifndef GK_CLUSTER_H
#define GK_CLUSTER_H

#include "postgres.h"

#include "choose_engine.h"
#include "job.h"
#include "node_sources.h"
#include "reading.h"

/* The nodes of a fit; they belong to its job. */
typedef struct GkCluster GkCluster;

/* What a node did for a fit. */
typedef struct GkNodeLine
{
	const char *name;
	int64		rows_read;
	int64		rows_skipped;
	const char *engine;
	const char *engine_reason;
	double		read_seconds;
	double		compute_seconds;
	uint64		bytes;			/* that its engine held at most */
	uint64		sent;			/* bytes of messages to it, and of its answers */
	uint64		received;
} GkNodeLine;

/* Connects to the nodes, and opens an engine on each; the context of the job must be current. */
extern GkCluster *gk_cluster_open(GkJob *job, const GkNodeSources *nodes, const GkSource *source,
								  const GkWork *work);

/*
 * Reads the rows of the source on all nodes, as gk_source_read() does for one engine, and opens the
 * cluster engine, which the job owns.  22000 or 42804 if the rows of two nodes do not go together.
 * If the ids stay on the nodes, there are none among the rows.
 */
extern GkEngine *gk_cluster_read(GkCluster *cluster, const GkSource *source, const GkWork *work,
								 bool ids_stay, GkRows *rows);

/*
 * Has the nodes leave their labels in shared memory, for what gk_shared_labels() selects: clusters
 * has the cluster of each of so many labels of the engine.
 */
extern void gk_cluster_share_labels(GkCluster *cluster, const int32 *clusters, int64 count,
									bool by_cosine);

/* Ends the transactions of the nodes, and all of their work but such labels. */
extern void gk_cluster_finish(GkCluster *cluster);

/*
 * What to select the labels from on the nodes, columns id, cluster_id and distance: the source, its
 * id column, and the schema of the extension.  Without a cluster, only its form.
 */
extern char *gk_shared_labels(const GkCluster *cluster, const char *source, const char *id_column,
							  const char *schema);

/*
 * Takes the labels of which nobody has made use, after so many rows were selected: those of rows
 * that the source has not returned again as it did.  40001 if it returned rows more than once.  The
 * values are id, cluster and distance, and are valid until `take` returns.
 */
typedef void (*GkTakeLabel) (void *context, const Datum *values, const bool *nulls);
extern void gk_cluster_take_rest(GkCluster *cluster, Oid id_type, int64 selected,
								 GkTakeLabel take, void *context);

/* What the nodes did so far, in the current memory context; one line each. */
extern GkNodeLine *gk_cluster_lines(const GkCluster *cluster, int *count);

#endif							/* GK_CLUSTER_H */
