/*
 * The feed: the aggregate that every process runs over its share of the rows.
 *
 * Its transition function decodes a row straight into a slot of the ring.  What it
 * needs to know is looked up once, with the first row.  All results go
 * through shared memory, so the state that is serialized and combined is only a token.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/builtins.h"

#include "feeder.h"
#include "sql_function.h"
#include "unusable.h"

GK_SQL_FUNCTION(gk_feed_accumulate);
GK_SQL_FUNCTION(gk_feed_combine);
GK_SQL_FUNCTION(gk_feed_serialize);
GK_SQL_FUNCTION(gk_feed_deserialize);
GK_SQL_FUNCTION(gk_feed_final);

/* The process that reads the source: this one, or the leader of this worker. */
static int
leader_pid(void)
{
	PGPROC	   *leader = MyProc->lockGroupLeader;

	return leader != NULL ? leader->pid : MyProcPid;
}

/* Finds the feed that a handle names, and makes sure that it is ours. */
static GkFeed *
attach_feed(int64 handle, int64 key)
{
	dsm_segment *segment = NULL;
	bool		attached = false;
	GkFeed	   *feed;

	if (handle > 0 && handle <= PG_UINT32_MAX)
		segment = dsm_find_mapping((dsm_handle) handle);
	if (segment == NULL && handle > 0 && handle <= PG_UINT32_MAX)
	{
		segment = dsm_attach((dsm_handle) handle);
		attached = true;
	}
	feed = segment != NULL ? dsm_segment_address(segment) : NULL;
	if (feed == NULL || dsm_segment_map_length(segment) < sizeof(GkFeed) ||
		!gk_feed_is_ours(feed, (uint64) key, leader_pid()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("gkmeans_feed can only be called by the functions of gkmeans")));

	/* a worker may keep it: it ends with the query */
	if (attached)
		dsm_pin_mapping(segment);
	return feed;
}

/* Looks up how to decode the columns, and checks them against the feed. */
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
	feeder->scalars = feeder->columns[0].shape == GK_SCALAR;
	feeder->reals = feeder->scalars;
	for (int i = 0; i < feeder->count; i++)
		feeder->reals = feeder->reals && feeder->columns[i].element == GK_FLOAT4;
	if (width == 0)
		fits = fits && feeder->count == 1 && !feeder->scalars;
	else if (feeder->scalars)
		fits = fits && feeder->count == width;
	else
		fits = fits && feeder->count == (width + GK_PIECE - 1) / GK_PIECE;
	if (!fits)
		elog(ERROR, "columns of a source do not fit its feed");
}

/* Makes the state of this process, with its first row. */
static GkFeeder *
begin_feeder(FunctionCallInfo fcinfo, MemoryContext context)
{
	int			count = PG_NARGS() - GK_FIRST_FEATURE;
	MemoryContext before = MemoryContextSwitchTo(context);
	GkFeeder	   *feeder = palloc0(offsetof(GkFeeder, columns) + count * sizeof(GkColumn));
	GkColumn	weight;
	int			participant;

	if (PG_ARGISNULL(GK_HANDLE) || PG_ARGISNULL(GK_KEY))
		attach_feed(0, 0);
	feeder->feed = attach_feed(PG_GETARG_INT64(GK_HANDLE), PG_GETARG_INT64(GK_KEY));
	feeder->context = context;
	feeder->slot = -1;
	feeder->count = count;
	feeder->weighted = feeder->feed->ring.weighted;
	feeder->shifting = feeder->feed->shifting;
	describe_columns(feeder, fcinfo);
	if (feeder->weighted)
	{
		if (!gk_describe_column(get_fn_expr_argtype(fcinfo->flinfo, GK_WEIGHT), &weight) ||
			weight.shape != GK_SCALAR)
			elog(ERROR, "weight of a source does not fit its feed");
		feeder->weight_element = weight.element;
	}

	participant = atomic_fetch_add(&feeder->feed->participants, 1);
	if (participant >= feeder->feed->max_participants)
		elog(ERROR, "too many processes feed a source");
	if (IsParallelWorker())
		atomic_fetch_add(&feeder->feed->workers, 1);
	if (OidIsValid(feeder->feed->id_type))
	{
		feeder->id_type = get_fn_expr_argtype(fcinfo->flinfo, GK_ID);
		feeder->ids = gk_row_ids_attach(feeder->feed->ids, feeder->id_type, participant);
	}
	if (feeder->feed->width > 0)
		gk_feeder_set_dimension(feeder, feeder->feed->width);
	MemoryContextSwitchTo(before);
	return feeder;
}

/* Ends the share of this process: all of it goes to shared memory. */
static void
finish_feeder(GkFeeder *feeder)
{
	GkFeed	   *feed = feeder->feed;

	if (feed == NULL)
		return;
	if (feeder->held != NULL && feeder->rows > 0)
		gk_feeder_settle_shift(feeder, true);
	if (feeder->slot >= 0)
		gk_feeder_publish(feeder);
	if (feeder->shifting && feeder->dimension > 0)
		for (int i = 0; i < feeder->dimension; i++)
			gk_range_merge(&gk_feed_ranges(feed)[i], feeder->least[i], feeder->greatest[i]);
	if (feeder->ids != NULL)
		gk_row_ids_flush(feeder->ids);
	atomic_fetch_add(&feed->read, feeder->read);
	atomic_fetch_add(&feed->skipped, feeder->skipped);
	gk_merge_troubles(feeder);
	feeder->feed = NULL;
}

/* The context of an aggregate's state; nothing but an aggregate may call us. */
static MemoryContext
aggregate_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (AggCheckCallContext(fcinfo, &context) != AGG_CONTEXT_AGGREGATE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("gkmeans_feed can only be called as a plain aggregate")));
	return context;
}

/* Transition function: one row. */
Datum
gk_feed_accumulate(PG_FUNCTION_ARGS)
{
	GkFeeder	   *feeder;
	bool		usable;

	if (PG_ARGISNULL(GK_STATE))
		feeder = begin_feeder(fcinfo, aggregate_context(fcinfo));
	else
		feeder = (GkFeeder *) PG_GETARG_POINTER(GK_STATE);

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
	aggregate_context(fcinfo);
	finish_feeder((GkFeeder *) PG_GETARG_POINTER(0));
	PG_RETURN_BYTEA_P(cstring_to_text(""));
}

/* A token for a share that is ended. */
Datum
gk_feed_deserialize(PG_FUNCTION_ARGS)
{
	aggregate_context(fcinfo);
	PG_RETURN_POINTER(palloc0(sizeof(GkFeeder)));
}

/* Two shares are as good as one when they are ended. */
Datum
gk_feed_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);

	for (int i = 0; i < 2; i++)
		if (!PG_ARGISNULL(i))
			finish_feeder((GkFeeder *) PG_GETARG_POINTER(i));
	if (!PG_ARGISNULL(0))
		PG_RETURN_POINTER(PG_GETARG_POINTER(0));
	PG_RETURN_POINTER(MemoryContextAllocZero(context, sizeof(GkFeeder)));
}

/* Ends the share of a plan without workers. */
Datum
gk_feed_final(PG_FUNCTION_ARGS)
{
	aggregate_context(fcinfo);
	if (!PG_ARGISNULL(0))
		finish_feeder((GkFeeder *) PG_GETARG_POINTER(0));
	PG_RETURN_NULL();
}
