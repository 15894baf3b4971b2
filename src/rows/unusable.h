/*
 * Rows that cannot be clustered: what makes them so, in which column, and what they are called.
 */
#ifndef GK_UNUSABLE_H
#define GK_UNUSABLE_H

#include "feeder.h"

/* Names the row at hand: by its id, or else by the beginning of what it holds. */
extern const char *gk_row_name(const GkFeeder *feeder, FunctionCallInfo fcinfo);

/* Raises the error that a row with a NULL, NaN or infinity is. */
extern void gk_raise_unusable(const GkFeeder *feeder, FunctionCallInfo fcinfo);

/* Notes which columns made a row unusable. */
extern void gk_note_unusable(GkFeeder *feeder, FunctionCallInfo fcinfo, GkDecoded decoded);

/* Adds what this process noted to the feed. */
extern void gk_merge_troubles(GkFeeder *feeder);

/* Says of a feed without a usable row which columns made so many rows unusable. */
extern const char *gk_describe_troubles(GkFeed *feed, int64 rows);

#endif							/* GK_UNUSABLE_H */
