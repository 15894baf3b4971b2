/*
 * The reading of a source: runs the feed over the rows, with the ring and its
 * thread behind it.
 *
 * The executor reads the rows, as the caller and under the caller's snapshot.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"
#include "nodes/primnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "drain.h"
#include "engine_error.h"
#include "feed.h"
#include "reading.h"
#include "source_columns.h"
#include "source_query.h"
#include "unusable.h"

/* How long a wait for the thread is before interrupts are looked at, in milliseconds. */
#define WAIT_MILLISECONDS 10

/* What has to be undone when a reading ends, early or not. */
typedef struct Reading
{
	GkRelease  *release;
	GkEngine   *engine;
	dsm_segment *segment;
	Size		ring_bytes;
	GkFeed	   *feed;
	bool		lent;			/* the engine knows the ring's memory */
	GkDrain    *drain;
} Reading;

/* Stops the thread, then frees what it used. */
static void
release_reading(void *resource)
{
	Reading    *reading = resource;

	if (reading->drain != NULL)
		gk_drain_stop(reading->drain);
	if (reading->lent)
		(void) reading->engine->class_of->lend_buffer(reading->engine, NULL, 0);
	if (reading->segment == NULL)
		return;
	dsm_detach(reading->segment);
	gk_forget_ring(reading->ring_bytes);
}

/* How a feature is treated; many scalars come as double precision. */
static GkFeatureClass
feature_class(const GkColumn *column)
{
	return gk_is_exact(column) ? GK_FEATURE_EXACT :
		gk_is_integer(column) ? GK_FEATURE_INTEGER : GK_FEATURE_REAL;
}

/* Says how the rows are to be read. */
static GkFeedSpec
feed_spec(const GkSource *source)
{
	GkFeatureClass *classes = palloc(source->count * sizeof(GkFeatureClass));
	GkFeedSpec	spec = {0};

	spec.weighted = source->weight > 0;
	spec.nulls_are_errors = source->spec.nulls_are_errors;
	spec.zero_is_unusable = source->by_direction;
	spec.width = source->described[0].shape == GK_SCALAR ? source->count : 0;
	spec.names = source->names;
	spec.columns = source->count;
	spec.weight = source->spec.weight_column;
	spec.classes = classes;
	spec.id_type = source->id_type;
	spec.participants = max_parallel_workers + 2;
	for (int i = 0; i < source->count; i++)
	{
		classes[i] = feature_class(&source->described[i]);
		/* a row that is zero is so whatever the others are: it must not be shifted */
		if (classes[i] != GK_FEATURE_EXACT)
			spec.shifting = !spec.zero_is_unusable;
	}
	if (source->spec.dimension > 0)
		spec.shifting = source->spec.shift != NULL;
	return spec;
}

/* The extension's own aggregate, whatever else has its name. */
static Oid
feed_function(void)
{
	Oid			extension = get_extension_oid("gkmeans", false);
	CatCList   *candidates = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum("gkmeans_feed"));
	Oid			found = InvalidOid;

	for (int i = 0; i < candidates->n_members; i++)
	{
		Form_pg_proc function = (Form_pg_proc) GETSTRUCT(&candidates->members[i]->tuple);

		if (getExtensionOfObject(ProcedureRelationId, function->oid) == extension)
			found = function->oid;
	}
	ReleaseSysCacheList(candidates);
	if (!OidIsValid(found))
		elog(ERROR, "extension gkmeans has no function gkmeans_feed");
	return found;
}

/* Appends the id, cast to the type asked for, or a NULL in its place. */
static void
append_id(StringInfo query, const GkSource *source)
{
	if (source->id == 0)
		appendStringInfoString(query, ", NULL::pg_catalog.int4");
	else if (source->id_type == TupleDescAttr(source->columns, source->id - 1)->atttypid)
		appendStringInfo(query, ", c%d", source->id);
	else
		appendStringInfo(query, ", CAST(c%d AS %s)", source->id,
						 format_type_extended(source->id_type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY));
}

/* Appends a feature as a double; a numeric beyond that, which a cast would refuse, as infinite. */
static void
append_double(StringInfo query, int column, const GkColumn *described)
{
	if (described->element == GK_NUMERIC)
		appendStringInfo(query, "CASE WHEN pg_catalog.abs(c%d) OPERATOR(pg_catalog.>) 1e308"
						 " THEN 'infinity' ELSE CAST(c%d AS pg_catalog.float8) END",
						 column, column);
	else if (described->element == GK_BOOL)
		appendStringInfo(query, "CAST(CAST(c%d AS pg_catalog.int4) AS pg_catalog.float8)", column);
	else
		appendStringInfo(query, "CAST(c%d AS pg_catalog.float8)", column);
}

/* Appends the features: a function has 100 arguments at most, more come in pieces. */
static void
append_features(StringInfo query, const GkSource *source)
{
	bool		pieces = source->count > GK_MAX_ARGUMENTS;

	for (int i = 0; i < source->count; i++)
	{
		if (pieces && i % GK_PIECE == 0)
			appendStringInfo(query, "%s, ARRAY[", i > 0 ? "]" : "");
		else
			appendStringInfoString(query, ", ");
		if (pieces)
			append_double(query, source->features[i], &source->described[i]);
		else
			appendStringInfo(query, "c%d", source->features[i]);
	}
	if (pieces)
		appendStringInfoChar(query, ']');
}

/* Appends the source.  Columns go by their place: their names need not differ. */
static void
append_source(StringInfo query, const GkSource *source)
{
	appendStringInfo(query, " FROM %s AS source (", source->text->from);
	for (int i = 1; i <= source->columns->natts; i++)
		appendStringInfo(query, "%sc%d", i > 1 ? ", " : "", i);
	appendStringInfoChar(query, ')');
}

/* The query that feeds the rows; its parameters are the feed's handle and key. */
static char *
feed_query(const GkSource *source, Oid function)
{
	StringInfoData query;

	initStringInfo(&query);
	appendStringInfo(&query, "SELECT %s($1, $2",
					 quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
												get_func_name(function)));
	append_id(&query, source);
	if (source->weight > 0)
		appendStringInfo(&query, ", c%d", source->weight);
	else
		appendStringInfoString(&query, ", NULL::pg_catalog.float8");
	append_features(&query, source);
	appendStringInfoChar(&query, ')');
	append_source(&query, source);
	return query.data;
}

/* What the planner expects of the source: how many rows, and how many features a row. */
void
gk_source_estimate(const GkSource *source, double *rows, double *dimension)
{
	StringInfoData query;
	const Plan *top;
	int			bytes = source->described[0].length > 0 ? source->described[0].length : 8;

	initStringInfo(&query);
	appendStringInfo(&query, "SELECT c%d", source->features[0]);
	append_source(&query, source);
	top = gk_query_plan(source->text, query.data, NULL)->plan->planTree;
	*rows = top->plan_rows;
	*dimension = source->count;
	if (source->described[0].shape != GK_SCALAR)
		*dimension = Max(top->plan_width - ARR_OVERHEAD_NONULLS(1), bytes) / bytes;
}

/* Makes sure that the query calls the extension's aggregate, and not one that fits better. */
static void
check_function(const GkSourceQuery *query, Oid function)
{
	TargetEntry *entry = linitial_node(TargetEntry, query->query->targetList);

	if (!IsA(entry->expr, Aggref) || ((Aggref *) entry->expr)->aggfnoid != function)
		ereport(ERROR,
				(errcode(ERRCODE_AMBIGUOUS_FUNCTION),
				 errmsg("another function \"gkmeans_feed\" stands in the way of that of gkmeans"),
				 errhint("Drop or rename it.")));
}

/* Adds a parameter that stays what it is. */
static void
set_parameter(ParamListInfo parameters, int number, int64 value)
{
	parameters->params[number].value = Int64GetDatum(value);
	parameters->params[number].isnull = false;
	parameters->params[number].pflags = PARAM_FLAG_CONST;
	parameters->params[number].ptype = INT8OID;
}

/* Prepares the query. */
static GkSourceQuery *
prepare_query(const GkSource *source, const Reading *reading)
{
	Oid			function = feed_function();
	ParamListInfo parameters = makeParamList(2);
	GkSourceQuery *query;

	set_parameter(parameters, 0, (int64) dsm_segment_handle(reading->segment));
	set_parameter(parameters, 1, (int64) reading->feed->key);
	query = gk_query_plan(source->text, feed_query(source, function), parameters);
	check_function(query, function);
	return query;
}

/* Sets a parameter until the nest level ends. */
static void
set_locally(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
}

/*
 * Prepares the query and runs it.  Compiling it does not pay, and each process has to have one
 * share only, not one a partition.
 */
static void
run_query(const GkSource *source, const Reading *reading)
{
	int			nest_level = NewGUCNestLevel();

	set_locally("jit", "off");
	set_locally("enable_partitionwise_aggregate", "off");
	gk_query_run(prepare_query(source, reading));
	AtEOXact_GUC(true, nest_level);
}

/* Creates the ring and lends it to the engine. */
static Reading *
begin_reading(const GkFeedSpec *spec, GkJob *job, GkEngine *engine, Size *ring_bytes)
{
	Reading    *reading = MemoryContextAllocZero(gk_job_context(job), sizeof(Reading));
	GkRing	   *ring;
	GkStatus	status;

	reading->release = gk_job_reserve(job, release_reading);
	reading->release->resource = reading;
	reading->engine = engine;
	reading->segment = gk_feed_create(spec, &reading->ring_bytes);
	gk_note_ring(reading->ring_bytes);
	*ring_bytes = reading->ring_bytes;
	reading->feed = dsm_segment_address(reading->segment);
	if (!pg_strong_random(&reading->feed->key, sizeof(reading->feed->key)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));

	ring = &reading->feed->ring;
	status = engine->class_of->lend_buffer(engine, gk_ring_features(ring, 0), *ring_bytes);
	reading->lent = status.code == GK_OK;
	gk_check(status);
	return reading;
}

/* Frees ring and thread at the normal end. */
static void
end_reading(Reading *reading)
{
	GkEngine   *engine = reading->engine;
	GkStatus	status;

	reading->lent = false;
	status = engine->class_of->lend_buffer(engine, NULL, 0);
	gk_job_release(reading->release);
	gk_check(status);
}

/* Runs the query once, and waits until the engine has its rows. */
static void
read_once(Reading *reading, const GkSource *source, GkJob *job, GkRows *rows)
{
	GkFeed	   *feed = reading->feed;
	GkStatus	status;
	int64		batches;
	int64	   *first_rows;

	if (OidIsValid(feed->id_type))
		rows->ids = gk_row_ids_create(job, feed->id_type, feed->max_participants);
	gk_feed_reset(feed, rows->ids != NULL ? gk_row_ids_handle(rows->ids) : DSM_HANDLE_INVALID);
	gk_check(gk_drain_start(&feed->ring, reading->engine, &reading->drain));
	run_query(source, reading);
	gk_ring_close(&feed->ring);
	while (!gk_drain_wait(reading->drain, WAIT_MILLISECONDS))
		CHECK_FOR_INTERRUPTS();

	status = gk_drain_status(reading->drain);
	rows->read = atomic_load(&feed->read);
	rows->skipped = atomic_load(&feed->skipped);
	if (status.code == GK_OK && gk_drain_rows(reading->drain) != rows->read - rows->skipped)
		elog(ERROR, "rows of a source were lost");
	first_rows = gk_drain_first_rows(reading->drain, &batches);
	gk_drain_stop(reading->drain);
	reading->drain = NULL;
	if (rows->ids != NULL)
		gk_row_ids_finish(rows->ids, first_rows, batches);
	else
		free(first_rows);
	gk_check(status);
}

/* Puts the shift that the ranges ask for in the place of the one that was used; false if equal. */
static bool
correct_shift(GkFeed *feed)
{
	int			dimension = atomic_load(&feed->ring.dimension);
	const uint8 *classes = gk_feed_classes(feed);
	double	   *shifts = gk_feed_shifts(feed);
	bool		changed = false;

	if (atomic_load(&feed->shift_state) != GK_SET)
		return false;
	for (int i = 0; i < dimension; i++)
	{
		double		least;
		double		greatest;
		double		shift;

		if (!gk_range_get(&gk_feed_ranges(feed)[i], &least, &greatest))
			continue;
		shift = gk_shift_of_range(least, greatest, classes[i]);
		changed = changed || shift != shifts[i];
		shifts[i] = shift;
	}
	return changed;
}

/* Sets the shift that was asked for. */
static void
set_shift(GkFeed *feed, const GkSourceSpec *spec)
{
	int			room = feed->width > 0 ? feed->width : GK_MAX_DIMENSION;

	memcpy(gk_feed_shifts(feed), spec->shift, Min(spec->dimension, room) * sizeof(double));
	atomic_store(&feed->shift_state, GK_SET);
}

/* Says what was read. */
static void
describe_rows(GkFeed *feed, GkJob *job, GkRows *rows)
{
	rows->dimension = rows->read > rows->skipped ? atomic_load(&feed->ring.dimension) : 0;
	rows->workers = atomic_load(&feed->workers);
	rows->shift = MemoryContextAllocZero(gk_job_context(job),
										 Max(1, rows->dimension) * sizeof(double));
	if (feed->shifting && atomic_load(&feed->shift_state) == GK_SET)
		memcpy(rows->shift, gk_feed_shifts(feed), rows->dimension * sizeof(double));
	if (rows->read > 0 && rows->read == rows->skipped)
		rows->trouble = gk_describe_troubles(feed, rows->read);
}

/* Runs the source and appends its rows to the engine. */
void
gk_source_read(GkSource *source, GkJob *job, GkEngine *engine, GkRows *rows)
{
	GkFeedSpec	spec = feed_spec(source);
	Reading    *reading;

	memset(rows, 0, sizeof(GkRows));
	reading = begin_reading(&spec, job, engine, &rows->ring_bytes);
	if (spec.shifting && source->spec.dimension > 0)
		set_shift(reading->feed, &source->spec);
	read_once(reading, source, job, rows);
	if (spec.shifting && source->spec.dimension == 0 && correct_shift(reading->feed))
	{
		rows->read_twice = true;
		gk_rows_release(rows);
		gk_check(engine->class_of->clear(engine));
		read_once(reading, source, job, rows);
	}
	describe_rows(reading->feed, job, rows);
	end_reading(reading);
}

/* Frees the ids before the end of the job. */
void
gk_rows_release(GkRows *rows)
{
	if (rows->ids != NULL)
		gk_row_ids_release(rows->ids);
	rows->ids = NULL;
}
