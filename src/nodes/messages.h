/*
 * Messages to the nodes and their answers: the transport of the cluster engine over connections.
 */
#ifndef GK_MESSAGES_H
#define GK_MESSAGES_H

#include "postgres.h"

#include "connections.h"
#include "transport.h"

typedef struct GkMessages GkMessages;

/*
 * Prepares some of the connections, and makes the transport to them, in that order, in the current
 * memory context, which must live as long as the connections.  `first_rows` are the numbers of the
 * first row of each node, and of all rows behind them.
 */
extern GkMessages *gk_messages_begin(GkConnections *connections, GkConnection *const *nodes,
									 const int64 *first_rows, int count);

/* What the cluster engine takes; part of the messages. */
extern const GkTransport *gk_messages_transport(const GkMessages *messages);

#endif							/* GK_MESSAGES_H */
