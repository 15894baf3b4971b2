/*
 * The parts of a fit over several servers; for the files that make a cluster of them.
 */
#ifndef GK_CLUSTER_PARTS_H
#define GK_CLUSTER_PARTS_H

#include "utils/uuid.h"

#include "cluster.h"
#include "connections.h"
#include "messages.h"

/* A node, and the rows that it has read. */
typedef struct GkPart
{
	GkConnection *connection;
	const char *engine;
	const char *engine_reason;
	GkRows		rows;
	double		read_seconds;
} GkPart;

struct GkCluster
{
	GkJob	   *job;
	GkConnections *connections;
	GkPart	   *parts;			/* one for each node */
	int			count;
	GkMessages *messages;		/* NULL until the rows were read */
	int		   *places;			/* count: the engine's number of each node, -1 = it has no rows */
	pg_uuid_t	key;			/* of the labels that the nodes share */
	int64	   *handles;		/* count, of those; NULL = they share none */
};

/* Raises an error: what a node sent is not what gkmeans sends. */
__attribute__((noreturn))
extern void gk_refuse_answer(const GkPart *part);

/* Takes the answer of a node to gkmeans_node_load(). */
extern void gk_take_rows(const GkCluster *cluster, GkPart *part, const GkSource *source);

/*
 * Merges what the nodes have read.  False if features have to be shifted otherwise: then ->shift
 * and ->dimension of *rows say how, and `wrong` which nodes must read their rows again.  The
 * second time, `found` is that shift; before, NULL.
 */
extern bool gk_merge_parts(const GkCluster *cluster, const GkSource *source, const double *found,
						   GkRows *rows, bool *wrong);

/* Brings the ids of all nodes here; first_rows has the number of the first row of each place. */
extern GkRowIds *gk_take_ids(const GkCluster *cluster, Oid type, int64 rows,
							 int64 *first_rows, int places);

#endif							/* GK_CLUSTER_PARTS_H */
