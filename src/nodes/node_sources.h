/*
 * The nodes of a fit: the servers that gkmeans.nodes names for a source, and what each of them
 * is to read.
 *
 * Each node reads its own rows, and a row must be read by exactly one of them: together, the
 * sources of the nodes are the source of the fit.
 */
#ifndef GK_NODE_SOURCES_H
#define GK_NODE_SOURCES_H

#include "postgres.h"

/* A server that reads some of the rows. */
typedef struct GkNodeSource
{
	const char *name;			/* for messages and reports; no other node of the list has it */
	const char *const *keywords;	/* as PQconnectStartParams() takes them: NULL ends … */
	const char *const *values;	/* … both; with user and dbname, without what a session sets */
	const char *source;			/* the text of its source: a relation name or one query */
	const char *search_path;	/* with which that is read; NULL = this session's */

	/*
	 * The server must ask for the password that `values` has, and no other credentials count: the
	 * user is no superuser, and the user mapping requires it.
	 */
	bool		password_required;
} GkNodeSource;

typedef struct GkNodeSources
{
	GkNodeSource *nodes;		/* count, by their names, which is the order of opening */
	int			count;			/* at least 1 */
	bool		of_citus;		/* they are Citus' workers */
} GkNodeSources;

/*
 * The nodes that gkmeans.nodes means for a source, in the current memory context.  NULL if this
 * server is to read the rows itself: the setting is empty, and *reason is NULL; or it is "auto",
 * and *reason says in one line why the source cannot be divided.  Errors: a server of a list that
 * does not exist (42704), or that the user may not use (42501, 42704 without a user mapping).
 * Connects to nothing.
 */
extern const GkNodeSources *gk_node_sources(const char *source, const char **reason);

/*
 * Where "auto" looks, one after the other; each is as above, and *reason stays NULL if the source
 * is none of its business.
 */
extern const GkNodeSources *gk_citus_node_sources(const char *source, const char **reason);
extern const GkNodeSources *gk_partition_node_sources(const char *source, const char **reason);

/*
 * True if Citus would have each worker insert its own rows, were this command run: one INSERT that
 * selects from tables of Citus.  Nothing of that question stays, no lock either.  SPI must be
 * connected.
 */
extern bool gk_citus_inserts_on_workers(const char *insert);

/*
 * Fills in a node for a foreign server of postgres_fdw that the current user has USAGE on and a
 * user mapping for; errors as above.
 */
extern void gk_foreign_server_node(Oid server, const char *source, GkNodeSource *node);

/* Sorts a list by name. */
extern void gk_sort_nodes(GkNodeSources *list);

#endif							/* GK_NODE_SOURCES_H */
