/*
 * The feed: the aggregate that every process runs over its share of the rows.
 *
 * Its transition function decodes a row straight into a slot of the ring.  Everything it needs
 * is looked up once, at the first row.  All results go through shared memory, so no state is
 * ever sent or combined.
 *
 * Every function verifies that the query of a current reading calls it (feed_pass.c), and
 * accepts only the state that this process created for that reading.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "feed_pass.h"
#include "share.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gk_feed_accumulate);
GK_SQL_FUNCTION(gk_feed_combine);
GK_SQL_FUNCTION(gk_feed_serialize);
GK_SQL_FUNCTION(gk_feed_deserialize);
GK_SQL_FUNCTION(gk_feed_final);

/* The state of a process whose share has ended. */
static char ended;

/* Creates the state of this process, at its first row. */
static GkFeeder *
begin_feeder(FunctionCallInfo fcinfo)
{
	GkFeedPass *pass = gk_feed_pass_enter(fcinfo);
	MemoryContext context;

	(void) AggCheckCallContext(fcinfo, &context);
	pass->feeder = gk_share_begin(pass->feed, fcinfo, context);
	return pass->feeder;
}

/* The state argument, if it is this process's and has not ended. */
static GkFeeder *
live_feeder(FunctionCallInfo fcinfo)
{
	GkFeedPass *pass = gk_feed_pass_find(fcinfo);

	if (pass->feeder != (GkFeeder *) PG_GETARG_POINTER(GK_STATE) || pass->feeder == NULL ||
		pass->feeder->feed == NULL)
		gk_feed_refuse();
	return pass->feeder;
}

/* Ends the share of a state argument; touches no state but this process's own. */
static void
end_argument(FunctionCallInfo fcinfo, int argument)
{
	void	   *state = PG_ARGISNULL(argument) ? NULL : PG_GETARG_POINTER(argument);
	GkFeedPass *pass;

	/* a worker that has seen no row has no pass */
	if (state == NULL || state == &ended)
		return;
	pass = gk_feed_pass_find(fcinfo);
	if (state != pass->feeder)
		gk_feed_refuse();
	gk_share_end(pass->feeder);
}

/* Transition function: one row. */
Datum
gk_feed_accumulate(PG_FUNCTION_ARGS)
{
	GkFeeder   *feeder = PG_ARGISNULL(GK_STATE) ? begin_feeder(fcinfo) : live_feeder(fcinfo);

	gk_share_take(feeder, fcinfo);
	PG_RETURN_POINTER(feeder);
}

/* Ends a share, and stands for it where states are sent. */
Datum
gk_feed_serialize(PG_FUNCTION_ARGS)
{
	end_argument(fcinfo, 0);
	PG_RETURN_BYTEA_P(cstring_to_text(""));
}

/* Deserialisation function: the state of a share that another process has ended. */
Datum
gk_feed_deserialize(PG_FUNCTION_ARGS)
{
	(void) gk_feed_pass_find(fcinfo);
	PG_RETURN_POINTER(&ended);
}

/* Combine function: nothing to combine, both shares are flushed to shared memory. */
Datum
gk_feed_combine(PG_FUNCTION_ARGS)
{
	end_argument(fcinfo, 0);
	end_argument(fcinfo, 1);
	PG_RETURN_POINTER(&ended);
}

/* Final function: ends the share of a plan without workers. */
Datum
gk_feed_final(PG_FUNCTION_ARGS)
{
	end_argument(fcinfo, 0);
	PG_RETURN_NULL();
}
