/*
 * The nodes of a fit, and what each of them is to read.
 *
 * Each node reads its own rows, and a row must be read by exactly one of them: together, the
 * sources of the nodes are the source of the fit.
 */
#ifndef GK_NODE_LIST_H
#define GK_NODE_LIST_H

#include "postgres.h"

/* A server that reads some of the rows. */
typedef struct GkNodeSource
{
	const char *name;			/* for messages and reports; no other node of the list has it */
	const char *const *keywords;	/* as PQconnectStartParams() takes them: NULL ends … */
	const char *const *values;	/* … both; with user and dbname, without what a session sets */
	const char *source;			/* the text of its source: a relation name or one query */
	const char *search_path;	/* with which that is read; NULL = this session's */
	bool		of_postgres_fdw;	/* it is read with all settings of the sessions of that */

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

/* Sorts a list by name. */
extern void gk_sort_nodes(GkNodeSources *list);

#endif							/* GK_NODE_LIST_H */
