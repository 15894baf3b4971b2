/*
 * Who may feed: the query of a reading, and no other.
 *
 * The reading backend recognises the query by the address of its parameter list, which no SQL
 * can produce.  A parallel worker gets a copy of the list.  There, it must be the worker's own
 * query, not one that a function runs inside it, and present a random key that no plan, log or
 * view shows.
 */
#ifndef GK_FEED_PASS_H
#define GK_FEED_PASS_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/params.h"
#include "utils/uuid.h"

#include "feeder.h"

/* The query of a reading, in a process that runs it. */
typedef struct GkFeedPass
{
	ParamListInfo params;		/* NULL = closed */
	GkFeed	   *feed;
	GkFeeder   *feeder;			/* the share of this process; NULL before its first row */
	pg_uuid_t	ticket;			/* the parameter: handle and key */
	struct GkFeedPass *outer;	/* the reading that this one is nested in */
} GkFeedPass;

/* The type of the query's one parameter. */
#define GK_TICKET_TYPE UUIDOID

/* Lets the query that runs with pass->params feed, until the pass is closed. */
extern void gk_feed_pass_open(GkFeedPass *pass, const GkFeedPlace *place, MemoryContext context);

/* Closes the pass, before the feed is freed; closing it twice does no harm. */
extern void gk_feed_pass_close(GkFeedPass *pass);

/* The pass of the query that calls an aggregate's function; an error if it has none. */
extern GkFeedPass *gk_feed_pass_find(FunctionCallInfo fcinfo);

/* The same at the first row of this process, where the caller has to prove itself. */
extern GkFeedPass *gk_feed_pass_enter(FunctionCallInfo fcinfo);

/* Refuses a call from elsewhere. */
__attribute__((noreturn))
extern void gk_feed_refuse(void);

#endif							/* GK_FEED_PASS_H */
