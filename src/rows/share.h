/*
 * A process's share of the rows of a source, from its first row to its end.
 */
#ifndef GK_SHARE_H
#define GK_SHARE_H

#include "postgres.h"

#include "feeder.h"

/*
 * Begins the share of this process with its first row, the arguments of the transition function;
 * 55000 if their types are not those that were described.  What it allocates lies in the context.
 */
extern GkFeeder *gk_share_begin(GkFeed *feed, FunctionCallInfo fcinfo, MemoryContext context);

/* Takes a row. */
extern void gk_share_take(GkFeeder *feeder, FunctionCallInfo fcinfo);

/* Ends the share of this process: flushes it to shared memory; ending it twice does no harm. */
extern void gk_share_end(GkFeeder *feeder);

#endif							/* GK_SHARE_H */
