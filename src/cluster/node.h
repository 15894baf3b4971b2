/*
 * The other end of the cluster engine: carries out messages on an engine of this process.
 *
 * For every message: gk_node_put() in as many pieces as it came, gk_node_submit(), gk_node_wait()
 * until it returns something else than GK_RUNNING, and, if that is GK_OK, gk_node_answer().
 * Messages are not trusted: whatever they say is checked before the engine sees it.  After an error
 * the next gk_node_put() begins a new message; the engine may have forgotten labels and centroids.
 */
#ifndef GK_NODE_H
#define GK_NODE_H

#include "engine.h"

typedef struct GkNode GkNode;

typedef struct GkNodeConfig
{
	GkEngine   *engine;			/* with all rows appended, not sealed; remains the caller's */
	int			dimension;
	int64_t		rows;			/* how many were appended; 0 is allowed */

	/* The account of host memory, as in GkEngineConfig; NULL = none. */
	bool		(*draw_host_memory) (uint64_t bytes);
	void		(*return_host_memory) (uint64_t bytes);
} GkNodeConfig;

/* Makes the node; on an error *node is NULL. */
extern GkStatus gk_node_open(const GkNodeConfig *config, GkNode **node);

/* Adds the next piece of a message. */
extern GkStatus gk_node_put(GkNode *node, const void *piece, size_t bytes);

/* Checks the message that was put, and starts what it asks for. */
extern GkStatus gk_node_submit(GkNode *node);

/* Waits at most this long for the answer; GK_RUNNING if it is not complete. */
extern GkStatus gk_node_wait(GkNode *node, int milliseconds);

/* The answer; it stays until the next gk_node_put(). */
extern const void *gk_node_answer(const GkNode *node, size_t *bytes);

/*
 * Fetches labels, each below `centroids`, and d² of some rows while no message is being carried
 * out; refused unless the engine has such labels of all rows.
 */
extern GkStatus gk_node_fetch(GkNode *node, int64_t centroids, int64_t from, int64_t count,
							  int32_t *labels, double *distance2);

/*
 * Frees the node.  NULL is allowed.  If a message is still being carried out, only after the engine
 * was closed.
 */
extern void gk_node_close(GkNode *node);

#endif							/* GK_NODE_H */
