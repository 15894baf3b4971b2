/*
 * Text in markup: escaped, clipped to a width, and pure ASCII, so that it reads the same in
 * every encoding of database, client and file.
 */
#ifndef GK_MARKUP_H
#define GK_MARKUP_H

#include "postgres.h"

#include "lib/stringinfo.h"

/* The approximate width of a text at a font size of 12 pixels. */
extern double gk_text_width(const char *text);

/* Appends a text of the database, at most this many characters. */
extern void gk_append_escaped(StringInfo markup, const char *text, int most);

/* A text of the database as markup, truncated with an ellipsis if it is wider than `width`. */
extern const char *gk_clip(const char *text, double width);

/* A number in a readable form: 0.0123, 12.3, 1234, 12.3k, 4.56M; "n/a" if it is not finite. */
extern const char *gk_short_number(double value);

/* The same, with the digits in which numbers differ that lie a step apart: 12.345k, 12.346k. */
extern const char *gk_number_in_steps(double value, double step);

/* The same, but a number far from zero has the digits in which such a deviation shows. */
extern const char *gk_number_beside(double value, double deviation);

/* A number of rows: 12,345. */
extern const char *gk_count_text(int64 count);

/* How many more there are: and 1 more cluster, and 12,345 more clusters. */
extern const char *gk_more_text(int64 count, const char *what);

/* A share of 0 to 1: 12 %, 1.2 %. */
extern const char *gk_share_text(double share);

#endif							/* GK_MARKUP_H */
