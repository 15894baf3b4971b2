/*
 * Connections to PostgreSQL servers, several at a time; the only part that knows libpq.
 *
 * It is a library of its own, loaded when a fit has nodes, so that gkmeans itself does not need
 * libpq.  Plain C: nothing of PostgreSQL's backend here.
 *
 * Nothing but wait() waits (resolving the name of a host apart).  One thread uses a link.
 */
#ifndef GK_LINKS_H
#define GK_LINKS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum GkLinkState
{
	GK_LINK_BUSY,				/* connecting, or waiting for the answer to a query */
	GK_LINK_READY,				/* connected, or answered: it takes the next query */
	GK_LINK_REFUSED,			/* the query failed; the connection may still be usable */
	GK_LINK_LOST				/* there is no connection, or none any more */
} GkLinkState;

/* Why a query failed or a connection was lost; all strings are the link's, NULL if missing. */
typedef struct GkLinkError
{
	const char *sqlstate;		/* five characters; NULL where no server reported it */
	const char *message;		/* never NULL */
	const char *detail;
	const char *hint;
	const char *context;
} GkLinkError;

typedef struct GkLink GkLink;

/* The functions of the library. */
typedef struct GkLinkClass
{
	size_t		interface;		/* GK_LINKS_INTERFACE, where this was compiled */

	/*
	 * Begins to connect; both arrays end with NULL.  Parameters that libpq does not have are left
	 * out.  NULL if there is no memory.
	 */
	GkLink	   *(*open) (const char *const *keywords, const char *const *values);

	/* Sends the text of one or more statements, all results in text; false if that failed. */
	bool		(*query) (GkLink *link, const char *text);

	/* Prepares a statement by the protocol, so that a pooler between the servers knows of it. */
	bool		(*prepare) (GkLink *link, const char *name, const char *statement);

	/*
	 * Executes a prepared statement with at most one parameter, `value` of so many bytes unless it
	 * is NULL, and results in binary.
	 */
	bool		(*execute) (GkLink *link, const char *statement, const void *value, size_t bytes);

	/* Sends and receives what is possible without waiting. */
	GkLinkState (*advance) (GkLink *link);

	/* Waits until one of the links can go on, or for this long, or until a signal comes. */
	void		(*wait) (GkLink *const *links, int count, int milliseconds);

	/* The last result of a query: how many rows, and a value of it; NULL for NULL. */
	int			(*rows) (const GkLink *link);
	const char *(*value) (const GkLink *link, int row, int column, size_t *bytes);

	/* Why it is refused or lost. */
	void		(*error) (const GkLink *link, GkLinkError *error);

	/* True if the server has asked for the password. */
	bool		(*used_password) (const GkLink *link);

	/* Ends the connection at once, and frees the link.  NULL is allowed. */
	void		(*close) (GkLink *link);
} GkLinkClass;

/* As GK_ENGINE_INTERFACE: the version is to be raised with changes that no size shows. */
#define GK_LINKS_VERSION 2
#define GK_LINKS_INTERFACE ((size_t) GK_LINKS_VERSION << 32 | sizeof(GkLinkClass))

/* The library exports this function alone. */
extern const GkLinkClass *gk_link_class(void);

#endif							/* GK_LINKS_H */
