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

/* How many settings decide what a text says; the first is the search_path. */
#define GK_TEXT_SETTINGS 12

/* Their values. */
typedef struct GkTextSettings
{
	const char *values[GK_TEXT_SETTINGS];
} GkTextSettings;

typedef struct GkSourceText
{
	const char *source;			/* as the user wrote it */
	const char *from;			/* its form after FROM */
	bool		is_name;		/* it is the name of a relation */
	int			location;		/* where in `source` the statement begins, in bytes */
	GkTextSettings settings;	/* with which it was parsed, and is analysed */
	bool		of_node;		/* its isolation level was not chosen by the user; set later */
	bool		is_compared;	/* with what its names mean to another reading; set later */
} GkSourceText;

/* Parses the user's text by itself: 42601 if it is neither a name nor one such statement. */
extern GkSourceText *gk_source_text(const char *source);

/* The same by settings of before. */
extern GkSourceText *gk_source_text_by(const char *source, const GkTextSettings *settings);

/* The settings as they are now, copied. */
extern GkTextSettings gk_text_settings(void);

/* Sets the first ones until the nest level of settings ends, in which none was set before. */
extern void gk_set_text_settings(const GkTextSettings *settings, int count);

/* Sets back those of the first that were set otherwise, until the transaction ends. */
extern void gk_restore_text_settings(const GkTextSettings *before, int count);

#endif							/* GK_SOURCE_TEXT_H */
