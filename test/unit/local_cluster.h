/*
 * A cluster in one process: the cluster engine with nodes whose engines are here, too.
 */
#ifndef LOCAL_CLUSTER_H
#define LOCAL_CLUSTER_H

#include "engine.h"

#define MOST_NODES 8

/* How the next cluster is made. */
typedef struct LocalPlan
{
	int			nodes;			/* 1 .. MOST_NODES */
	int			shares[MOST_NODES];	/* of the rows, relative to each other; 0: none */
	const GkEngineClass *classes[MOST_NODES];	/* of the nodes' engines */
	size_t		piece;			/* bytes that a message is cut into; 0: in one piece */
	int64_t		fail_at;		/* this call of the transport fails; 0: none */
	int64_t		look_at;

	/* Before answer number look_at is passed on: may change it.  NULL: none. */
	void		(*look) (void *answer, size_t bytes);

	/* With every message to node 0.  NULL: none. */
	void		(*record) (const void *message, size_t bytes);
} LocalPlan;

/* The class of such engines; they open as the last call said. */
extern const GkEngineClass *gk_local_cluster(const LocalPlan *plan);

/* Calls of the transport since the last engine was opened, and answers. */
extern int64_t local_calls(void);
extern int64_t local_answers(void);

/* The cluster engine inside. */
extern const GkEngine *local_cluster_inside(const GkEngine *engine);

#endif							/* LOCAL_CLUSTER_H */
