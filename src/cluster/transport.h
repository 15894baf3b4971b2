/*
 * How the cluster engine reaches its nodes.
 *
 * The engine sends a message (wire.h) to some nodes at once, then receives one answer from each of
 * them.  A node has one message at a time.  The user of the engine decides how messages travel,
 * in how many pieces, and how long a silent node is waited for.
 *
 * Any of these functions may also leave by a longjmp of its own, such as PostgreSQL's errors: the
 * engine loses no memory then, but all that may still be called is its close().
 */
#ifndef GK_TRANSPORT_H
#define GK_TRANSPORT_H

#include "engine.h"

typedef struct GkTransport
{
	void	   *context;		/* passed to each function */
	int			nodes;			/* 1 or more; they are numbered from 0 */

	/*
	 * Begins to send a message to a node, without waiting.  The message stays as it is until
	 * receive() has returned the answer of this node, or end() was called.
	 */
	GkStatus	(*send) (void *context, int node, const void *message, size_t bytes);

	/*
	 * Drives all messages and answers under way, for at most so many milliseconds (0: without
	 * waiting), until an answer is complete; *node says whose.  GK_RUNNING if none is.  The answer
	 * is the transport's; it stays until the next send() to this node, and is aligned to 8 bytes.
	 * The error of a node, its end or its silence is an error whose message names the node.
	 */
	GkStatus	(*receive) (void *context, int milliseconds, int *node, const void **answer,
							size_t *bytes);

	/* The name of a node in messages: that of a server, or a host and a port. */
	const char *(*name) (void *context, int node);

	/* How many rows a node has said that it has; NULL: it has not said anything. */
	int64_t		(*rows) (void *context, int node);

	/*
	 * The engine closes: whatever is under way is given up, and no memory of the engine is used
	 * afterwards.  Takes at most 100 ms and never fails.  NULL: nothing is to be done.
	 */
	void		(*end) (void *context);
} GkTransport;

#endif							/* GK_TRANSPORT_H */
