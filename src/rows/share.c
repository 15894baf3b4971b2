/*
 * A process's share of the rows, from its first row to its end.
 *
 * A row comes as the arguments of the feed's transition function, whoever has read it.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "parser/parse_coerce.h"
#include "utils/syscache.h"

#include "share.h"
#include "source_columns.h"
#include "unusable.h"

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
		gk_refuse_change();
}

/* Finds out how to decode the weight. */
static void
describe_weight(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	GkColumn	weight;

	if (!gk_describe_column(get_fn_expr_argtype(fcinfo->flinfo, GK_WEIGHT), &weight) ||
		weight.shape != GK_SCALAR)
		gk_refuse_change();
	feeder->weight_element = weight.element;
}

/* Joins the writers of ids; accepts a composite type for "record", an array for "anyarray". */
static void
begin_ids(GkFeeder *feeder, FunctionCallInfo fcinfo, int participant)
{
	feeder->id_type = feeder->feed->id_type;
	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(feeder->id_type)) ||
		!IsBinaryCoercible(get_fn_expr_argtype(fcinfo->flinfo, GK_ID), feeder->id_type))
		gk_refuse_change();
	feeder->ids = gk_row_ids_attach(feeder->feed->ids, feeder->id_type, participant);
}

/* Begins the share of this process, at its first row. */
GkFeeder *
gk_share_begin(GkFeed *feed, FunctionCallInfo fcinfo, MemoryContext context)
{
	int			count = fcinfo->nargs - GK_FIRST_FEATURE;
	MemoryContext before = MemoryContextSwitchTo(context);
	GkFeeder   *feeder = palloc0(offsetof(GkFeeder, columns) + count * sizeof(GkColumn));
	int			participant;

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
	return feeder;
}

/* Takes one row. */
void
gk_share_take(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	bool		usable;

	feeder->read++;
	usable = gk_feeder_take_row(feeder, fcinfo);
	if (!usable)
		feeder->skipped++;
	if (feeder->ids != NULL)
		gk_row_ids_put(feeder->ids, PG_GETARG_DATUM(GK_ID), PG_ARGISNULL(GK_ID),
					   usable ? feeder->sequence : 0, usable ? feeder->rows - 1 : -1);
}

/* Ends the share of this process: flushes it to shared memory. */
void
gk_share_end(GkFeeder *feeder)
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
