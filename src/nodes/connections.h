/*
 * The connections of a fit to its nodes: one session and one transaction on each of them.
 *
 * They belong to the job and end with it, however that ends; the nodes then roll back.  A session
 * is in a transaction all the time, and has no settings beyond it: so a pooler in between gives it
 * to nobody else meanwhile, and ends it with the connection.  Nothing is retried: an error of a
 * node is an error of the fit, which names the node.
 */
#ifndef GK_CONNECTIONS_H
#define GK_CONNECTIONS_H

#include "postgres.h"

#include "job.h"
#include "links.h"
#include "node_list.h"

typedef struct GkConnection
{
	const GkNodeSource *node;
	const char *database;		/* which it is: alike for two connections to the same one */
	GkLink	   *link;			/* NULL = not open */
	bool		is_connected;
	bool		is_asked;		/* a query was sent, and its answer was not yet received */
} GkConnection;

typedef struct GkConnections
{
	const GkLinkClass *links;
	GkConnection *all;
	int			count;
	int			descriptors;	/* file descriptors that are accounted for */
	int			lock_timeout;
} GkConnections;

/*
 * Connects to all nodes at once, and begins a read-only transaction on each, with the settings of
 * this session that a source depends on.  Each has the extension in the version of this server, and
 * waits for a lock so many milliseconds at most; 0 = for ever.
 */
extern GkConnections *gk_connect(GkJob *job, const GkNodeSources *nodes, int lock_timeout);

/*
 * Ends the transactions on the nodes, and all of their locks and snapshots, and begins others with
 * the same settings.
 */
extern void gk_next_transactions(GkConnections *connections);

/* Sends the text of statements; their results will be in text. */
extern void gk_ask(GkConnections *connections, GkConnection *one, const char *text);

/* Prepares a statement, instead of an earlier one if the name is empty. */
extern void gk_prepare_on(GkConnections *connections, GkConnection *one, const char *name,
						  const char *statement);

/* Executes a prepared statement, with at most one parameter; the results will be in binary. */
extern void gk_ask_prepared(GkConnections *connections, GkConnection *one, const char *statement,
							const void *value, Size bytes);

/*
 * Sends and receives what is possible without waiting.  True if the node has answered, or was not
 * asked; raises its error.
 */
extern bool gk_advance(GkConnections *connections, GkConnection *one);

/* Waits until one of the nodes can go on, or for this long; serves interrupts. */
extern void gk_wait_for_nodes(const GkConnections *connections, int milliseconds);

/* Waits until all nodes that were asked have answered. */
extern void gk_await(GkConnections *connections);

/* A text of an answer; NULL for NULL or a row that is not there.  22021 if it is not valid here. */
extern const char *gk_answer_text(const GkConnections *connections, const GkConnection *one,
								  int row, int column);

/* An integer of an answer; 08P01 unless it is one from `least` to `most`. */
extern int64 gk_answer_integer(const GkConnections *connections, const GkConnection *one, int row,
							   int column, int64 least, int64 most);

/* A value of a type in the first row of an answer in binary; NULL becomes *is_null. */
extern Datum gk_answer_value(const GkConnections *connections, const GkConnection *one, int column,
							 Oid type, bool *is_null);

/* A copy of a text from a server for a message: what is too long is cut. */
extern char *gk_valid_text(const char *text);

/* Raises an error: what the node sent is not what gkmeans sends. */
__attribute__((noreturn))
extern void gk_refuse_answer(const GkConnection *one);

#endif							/* GK_CONNECTIONS_H */
