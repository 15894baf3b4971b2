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
#include "node_list.h"
#include "reading.h"

/* The nodes of a fit; they belong to its job. */
typedef struct GkServerCluster GkServerCluster;

/* The work of a node for a fit. */
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

/*
 * Connects to the nodes, and opens an engine on each; the context of the job must be current.  The
 * nodes wait for a lock so many milliseconds at most; 0 = for ever.
 */
extern GkServerCluster *gk_cluster_open(GkJob *job, const GkNodeSources *nodes,
										const GkSource *source, const GkWork *work,
										int lock_timeout);

/*
 * Reads the rows of the source on all nodes, as gk_source_read() does for one engine, and opens the
 * cluster engine, which the job owns.  22000 or 42804 if the rows of two nodes do not go together.
 * If the ids stay on the nodes, there are none among the rows.
 */
extern GkEngine *gk_cluster_read(GkServerCluster *cluster, const GkSource *source,
								 const GkWork *work, bool ids_stay, GkRows *rows);

/* What the nodes did so far, in the current memory context; one line each. */
extern GkNodeLine *gk_cluster_lines(const GkServerCluster *cluster, int *count);

/* Seconds of the commands so far besides the node that was slowest in each. */
extern double gk_cluster_seconds(const GkServerCluster *cluster);

#endif							/* GK_CLUSTER_H */
