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

struct GkServerCluster
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

#endif							/* GK_CLUSTER_PARTS_H */
