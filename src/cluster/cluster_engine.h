/*
 * The cluster engine: the rows lie in the engines of several nodes.
 *
 * It forwards every command to the nodes that have rows, and merges their answers to what one
 * engine with all rows would have answered, bit for bit.  The rows are numbered node by node: a
 * row's number is that of the first row of its node, plus its number there.
 *
 * GkEngineConfig.transport reaches the nodes, each of which has read its rows before GK_SEAL; the
 * transport stays the caller's and outlives the engine.  append() is refused.  clear() forgets the
 * rows here, for a new GK_SEAL; the nodes read theirs again without this engine's help.
 */
#ifndef GK_CLUSTER_ENGINE_H
#define GK_CLUSTER_ENGINE_H

#include "engine.h"

/* The work of a node. */
typedef struct GkNodeReport
{
	int64_t		rows;
	double		seconds;		/* in its engine */
	uint64_t	bytes;			/* that its engine holds, of the host and of devices */
	uint64_t	peak;
	uint64_t	sent;			/* bytes of all messages to it */
	uint64_t	received;		/* bytes of all its answers */
} GkNodeReport;

/* The class of the cluster engine; named "cluster". */
extern const GkEngineClass *gk_cluster_engine(void);

/* The number of the first row of each node, and the number of all rows behind; after GK_SEAL. */
extern const int64_t *gk_cluster_first_rows(const GkEngine *engine);

/* The work of a node so far. */
extern void gk_cluster_report(const GkEngine *engine, int node, GkNodeReport *report);

/*
 * Seconds that all commands so far took besides the engine of the node that was slowest in each of
 * their rounds: messages, merging, and the update of the centroids.
 */
extern double gk_cluster_exchange_seconds(const GkEngine *engine);

#endif							/* GK_CLUSTER_ENGINE_H */
