/*
 * Who may feed: the query of a reading, and no other.
 *
 * In the backend that reads, the query is known by the identity of its parameter list, which
 * nothing that SQL can say has.  A parallel worker gets a copy of the list: there it is the
 * worker's own query, not one that a function runs inside it, with a random key that no plan,
 * log or view shows.
 */
#ifndef GK_FEED_PASS_H
#define GK_FEED_PASS_H

#include "postgres.h"

#include "fmgr.h"
#include "nodes/params.h"
#include "storage/dsm.h"
#include "utils/uuid.h"

#include "feeder.h"

/* The query of a reading, as the process knows it that runs it. */
typedef struct GkFeedPass
{
	ParamListInfo params;		/* NULL = closed */
	GkFeed	   *feed;
	GkFeeder   *feeder;			/* the share of this process; NULL before its first row */
	pg_uuid_t	ticket;			/* what the parameter is: handle and key */
	struct GkFeedPass *outer;	/* the reading that this one is nested in */
} GkFeedPass;

/* The type of the query's one parameter. */
#define GK_TICKET_TYPE UUIDOID

/* Lets the query feed that runs with pass->params, until the pass is closed. */
extern void gk_feed_pass_open(GkFeedPass *pass, dsm_segment *segment, MemoryContext context);

/* Ends that; before the segment is unmapped.  A pass that is closed stays so. */
extern void gk_feed_pass_close(GkFeedPass *pass);

/* The pass of the query that calls an aggregate's function; an error if it has none. */
extern GkFeedPass *gk_feed_pass_find(FunctionCallInfo fcinfo);

/* The same for the first row of this process, which has to prove itself. */
extern GkFeedPass *gk_feed_pass_enter(FunctionCallInfo fcinfo);

/* Raises the error that a call from elsewhere is. */
__attribute__((noreturn))
extern void gk_feed_refuse(void);

#endif							/* GK_FEED_PASS_H */
