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

#include "access/parallel.h"
#include "fmgr.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"

#include "feed_pass.h"
#include "sql_function.h"
#include "unusable.h"

GK_SQL_FUNCTION(gk_feed_accumulate);
GK_SQL_FUNCTION(gk_feed_combine);
GK_SQL_FUNCTION(gk_feed_serialize);
GK_SQL_FUNCTION(gk_feed_deserialize);
GK_SQL_FUNCTION(gk_feed_final);

/* The state of a process whose share has ended. */
static char ended;

/* Reports that the columns of a source are not those that were described. */
__attribute__((noreturn))
static void
refuse_change(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("source changed while it was being read"),
			 errdetail("Its columns have other types than when the fit began.")));
}

/* Finds out how to decode the columns, and checks them against the feed. */
static void
describe_columns(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	int			width = feeder->feed->width;
	bool		fits = true;

	for (int i = 0; i < feeder->count; i++)
	{
		Oid			type = get_fn_expr_argtype(fcinfo->flinfo, GK_FIRST_FEATURE + i);

		fits = fits && gk_describe_column(type, &feeder->columns[i]);
		fits = fits && (feeder->columns[i].shape == GK_SCALAR) ==
			(feeder->columns[0].shape == GK_SCALAR);
	}
	if (feeder->columns[0].shape == GK_SCALAR)
		feeder->scalars = gk_plan_scalars(feeder->columns, feeder->count);
	feeder->reals = feeder->scalars != NULL;
	for (int i = 0; i < feeder->count; i++)
		feeder->reals = feeder->reals && feeder->columns[i].element == GK_FLOAT4;
	if (width == 0)
		fits = fits && feeder->count == 1 && feeder->scalars == NULL;
	else if (feeder->scalars != NULL)
		fits = fits && feeder->count == width;
	else
		fits = fits && feeder->count == (width + GK_PIECE - 1) / GK_PIECE;
	if (!fits)
		refuse_change();
}

/* Finds out how to decode the weight. */
static void
describe_weight(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	GkColumn	weight;

	if (!gk_describe_column(get_fn_expr_argtype(fcinfo->flinfo, GK_WEIGHT), &weight) ||
		weight.shape != GK_SCALAR)
		refuse_change();
	feeder->weight_element = weight.element;
}

/* Joins the writers of ids; accepts a composite type for "record", an array for "anyarray". */
static void
begin_ids(GkFeeder *feeder, FunctionCallInfo fcinfo, int participant)
{
	feeder->id_type = feeder->feed->id_type;
	if (!IsBinaryCoercible(get_fn_expr_argtype(fcinfo->flinfo, GK_ID), feeder->id_type))
		refuse_change();
	feeder->ids = gk_row_ids_attach(feeder->feed->ids, feeder->id_type, participant);
}

/* Creates the state of this process, at its first row. */
static GkFeeder *
begin_feeder(FunctionCallInfo fcinfo)
{
	GkFeedPass *pass = gk_feed_pass_enter(fcinfo);
	int			count = PG_NARGS() - GK_FIRST_FEATURE;
	GkFeed	   *feed = pass->feed;
	MemoryContext context;
	MemoryContext before;
	GkFeeder   *feeder;
	int			participant;

	(void) AggCheckCallContext(fcinfo, &context);
	before = MemoryContextSwitchTo(context);
	feeder = palloc0(offsetof(GkFeeder, columns) + count * sizeof(GkColumn));
	feeder->feed = feed;
	feeder->context = context;
	feeder->slot = -1;
	feeder->count = count;
	feeder->weighted = feed->ring.weighted;
	feeder->shifting = feed->shifting;
	describe_columns(feeder, fcinfo);
	if (feeder->weighted)
		describe_weight(feeder, fcinfo);

	participant = atomic_fetch_add(&feed->participants, 1);
	if (participant >= feed->max_participants)
		elog(ERROR, "too many processes feed a source");
	if (IsParallelWorker())
		atomic_fetch_add(&feed->workers, 1);
	if (OidIsValid(feed->id_type))
		begin_ids(feeder, fcinfo, participant);
	if (feed->width > 0)
		gk_feeder_set_dimension(feeder, feed->width);
	MemoryContextSwitchTo(before);
	pass->feeder = feeder;
	return feeder;
}

/* Ends the share of this process: flushes it to shared memory. */
static void
finish_feeder(GkFeeder *feeder)
{
	GkFeed	   *feed = feeder->feed;

	if (feed == NULL)
		return;
	if (feeder->slot >= 0)
		gk_feeder_publish(feeder, true);
	if (feeder->shifting)
		gk_shift_widen(gk_feed_shift(feed), feeder->dimension, feeder->least, feeder->greatest);
	if (feeder->ids != NULL)
		gk_row_ids_flush(feeder->ids);
	atomic_fetch_add(&feed->read, feeder->read);
	atomic_fetch_add(&feed->skipped, feeder->skipped);
	gk_merge_troubles(feeder);
	feeder->feed = NULL;
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
	finish_feeder(pass->feeder);
}

/* Transition function: one row. */
Datum
gk_feed_accumulate(PG_FUNCTION_ARGS)
{
	GkFeeder   *feeder = PG_ARGISNULL(GK_STATE) ? begin_feeder(fcinfo) : live_feeder(fcinfo);
	bool		usable;

	feeder->read++;
	usable = gk_feeder_take_row(feeder, fcinfo);
	if (!usable)
		feeder->skipped++;
	if (feeder->ids != NULL)
		gk_row_ids_put(feeder->ids, PG_GETARG_DATUM(GK_ID), PG_ARGISNULL(GK_ID),
					   usable ? feeder->sequence : 0, usable ? feeder->rows - 1 : -1);
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
