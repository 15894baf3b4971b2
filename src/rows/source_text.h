/*
 * The text of a source: a relation name or one statement that yields rows.
 */
#ifndef GK_SOURCE_TEXT_H
#define GK_SOURCE_TEXT_H

/*
 * What stands for the source after FROM: a quoted name, or the statement in parentheses.
 * Errors: 42601 if it is neither, or if the statement would change or lock rows.
 */
extern char *gk_source_from(const char *source);

#endif							/* GK_SOURCE_TEXT_H */
