/*
 * Rows that cannot be clustered: the reason, the column, and a name for the row.
 */
#ifndef GK_UNUSABLE_H
#define GK_UNUSABLE_H

#include "feeder.h"
#include "source.h"
#include "trouble_counts.h"

/* A name for the current row: its id, or else the beginning of its values. */
extern const char *gk_row_name(const GkFeeder *feeder, FunctionCallInfo fcinfo);

/* Reports a row with a NULL, NaN or infinity. */
extern void gk_raise_unusable(const GkFeeder *feeder, FunctionCallInfo fcinfo);

/* Counts a row for the columns that made it unusable; how its features were decoded. */
extern void gk_note_unusable(GkFeeder *feeder, FunctionCallInfo fcinfo, GkDecoded features);

/* Adds this process's counts to the feed. */
extern void gk_merge_troubles(GkFeeder *feeder);

/* For a source without a usable row: describes which columns made how many rows unusable. */
extern const char *gk_describe_troubles(const GkSource *source, const GkTroubleCounts *counts,
										int64 rows);

#endif							/* GK_UNUSABLE_H */
