/*
 * The text of a source: a relation name or one statement that yields rows.
 */
#ifndef GK_SOURCE_TEXT_H
#define GK_SOURCE_TEXT_H

#include "postgres.h"

/* The most bytes of a name as it is written: PostgreSQL reads longer ones slowly, in one go. */
#define GK_LONGEST_NAME 2048

/* What precedes the statement in `from`: a parenthesis and a newline. */
#define GK_FROM_PREFIX 2

typedef struct GkSourceText
{
	const char *source;			/* as the user wrote it */
	const char *from;			/* its form after FROM */
	bool		is_name;		/* it is the name of a relation */
	int			location;		/* where in `source` the statement begins, in bytes */
	bool		standard_strings;	/* the standard_conforming_strings it was parsed with */
	const char *search_path;	/* of then: by which its names are looked up */
	bool		of_node;		/* its isolation level was not chosen by the user; set later */
} GkSourceText;

/* Parses the user's text by itself: 42601 if it is neither a name nor one such statement. */
extern GkSourceText *gk_source_text(const char *source);

#endif							/* GK_SOURCE_TEXT_H */
