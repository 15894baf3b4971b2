/*
 * The reading of a source: runs the feed over the rows, with the ring and its
 * thread behind it.
 *
 * The executor reads the rows, as the caller and under the caller's snapshot.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/params.h"
#include "nodes/plannodes.h"
#include "nodes/primnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "storage/sinval.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "citus.h"
#include "drain.h"
#include "engine_error.h"
#include "feed.h"
#include "feed_pass.h"
#include "feed_receiver.h"
#include "own_function.h"
#include "progress.h"
#include "reading.h"
#include "settings.h"
#include "source_columns.h"
#include "source_functions.h"
#include "source_plan.h"
#include "source_query.h"
#include "source_tables.h"
#include "unusable.h"

/* How long to wait for the thread before checking for interrupts, in milliseconds. */
#define WAIT_MILLISECONDS 10

/* How often rows are read again, at most, because the shift was not theirs. */
#define MOST_READINGS 3

/* The resources of a reading, to be released when it ends, early or not. */
typedef struct Reading
{
	GkRelease  *release;
	GkEngine   *engine;
	GkFeedPlace place;
	GkFeed	   *feed;			/* there */
	bool		lent;			/* the ring's memory is lent to the engine */
	GkDrain    *drain;
	GkFeedPass	pass;			/* open while the query runs */
} Reading;

/* The query that feeds the rows. */
typedef struct GkFeedQuery
{
	GkSourceQuery *query;
	Oid			function;		/* the aggregate in it; InvalidOid = none, its rows come here */
	double		rows;			/* that the planner expects … */
	int			row_bytes;		/* … and how long their columns are in all */
	int			processes;		/* that feed */
	uint64		changes;		/* of catalogs, by others, that were known before */
	CommandId	command;		/* and by this transaction */
	List	   *schemas;		/* of two readings: of the search_path, gk_usable_schemas() … */
	List	   *function_rows;	/* … and what the caches have of the functions of the first */
	bool		is_doubtful;	/* names may have changed each time that it was planned */
} GkFeedQuery;

/* Above this, a cast would raise an error, as infinity is nearer than the greatest double. */
#define GREATEST_CAST "1.7976931348623158e308"

/* Half the least double: below this, 0 is nearest, and a cast would raise an error. */
#define LEAST_CAST "2.4703282292062328e-324"

/* Rows of a source of Citus, to choose the engine: whoever distributes rows has many. */
#define ROWS_OF_CITUS 1e7

/* The name of the aggregate. */
#define FEED_NAME "_gkmeans_feed"

/* Stops the thread, then frees what it used. */
static void
release_reading(void *resource)
{
	Reading    *reading = resource;

	gk_feed_pass_close(&reading->pass);
	if (reading->drain != NULL)
		gk_drain_stop(reading->drain);
	if (reading->lent)
		(void) reading->engine->class_of->lend_buffer(reading->engine, NULL, 0);
	gk_feed_free(&reading->place);
	gk_forget_ring(reading->place.ring_bytes);
}

/* The class of a feature; many scalars come as double precision. */
static GkFeatureClass
feature_class(const GkColumn *column)
{
	return gk_is_exact(column) ? GK_FEATURE_EXACT :
		gk_is_integer(column) ? GK_FEATURE_INTEGER : GK_FEATURE_REAL;
}

/* How a feature is shifted; in an array, all are alike. */
GkFeatureClass
gk_feature_class(const GkSource *source, int feature)
{
	return feature_class(&source->described[source->described[0].shape == GK_SCALAR ? feature : 0]);
}

/* True if a shift that is given is not 0 for all features. */
static bool
has_shift(const GkSourceSpec *spec)
{
	for (int i = 0; i < spec->dimension; i++)
		if (spec->shift[i] != 0.0)
			return true;
	return false;
}

/* Describes how to read the rows. */
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
	spec.participants = max_worker_processes + 1;
	for (int i = 0; i < source->count; i++)
	{
		classes[i] = feature_class(&source->described[i]);
		/* a row of zeros must be recognised whatever the others are, so no shift */
		if (classes[i] != GK_FEATURE_EXACT)
			spec.shifting = !spec.zero_is_unusable;
	}
	if (source->spec.dimension > 0)
		spec.shifting = source->spec.shift != NULL && (spec.shifting || has_shift(&source->spec));
	return spec;
}

/* True if all column names differ. */
static bool
names_differ(const GkSource *source)
{
	TupleDesc	columns = source->columns;

	for (int i = 0; i < columns->natts; i++)
		for (int j = 0; j < i; j++)
			if (strcmp(NameStr(TupleDescAttr(columns, i)->attname),
					   NameStr(TupleDescAttr(columns, j)->attname)) == 0)
				return false;
	return true;
}

/* The column names for the query: those of the source, or numbered if they are not unique. */
static char **
name_columns(const GkSource *source)
{
	bool		by_name = names_differ(source);
	char	  **names = palloc(source->columns->natts * sizeof(char *));

	for (int i = 0; i < source->columns->natts; i++)
		names[i] = !by_name ? psprintf("c%d", i + 1) :
			pstrdup(quote_identifier(NameStr(TupleDescAttr(source->columns, i)->attname)));
	return names;
}

/* Appends the id, cast to the requested type, or NULL if there is none. */
static void
append_id(StringInfo query, const GkSource *source, char **names)
{
	if (source->id == 0)
		appendStringInfoString(query, ", NULL::pg_catalog.int4");
	else if (source->id_type == TupleDescAttr(source->columns, source->id - 1)->atttypid)
		appendStringInfo(query, ", %s", names[source->id - 1]);
	else
		appendStringInfo(query, ", CAST(%s AS %s)", names[source->id - 1],
						 gk_type_name(source->id_type));
}

/* Appends a feature as a double; a numeric that a cast would refuse, as infinity or 0. */
static void
append_double(StringInfo query, const char *name, const GkColumn *described)
{
	if (described->element == GK_NUMERIC)
		appendStringInfo(query, "CASE WHEN pg_catalog.abs(%s) OPERATOR(pg_catalog.>) "
						 GREATEST_CAST " AND %s OPERATOR(pg_catalog.<>) 'NaN'"
						 " THEN CAST(pg_catalog.sign(%s) AS pg_catalog.float8)"
						 " OPERATOR(pg_catalog.*) 'infinity'"
						 " WHEN pg_catalog.abs(%s) OPERATOR(pg_catalog.<) "
						 LEAST_CAST " THEN 0 ELSE CAST(%s AS pg_catalog.float8) END",
						 name, name, name, name, name);
	else if (described->element == GK_BOOL)
		appendStringInfo(query, "CAST(CAST(%s AS pg_catalog.int4) AS pg_catalog.float8)", name);
	else
		appendStringInfo(query, "CAST(%s AS pg_catalog.float8)", name);
}

/* Appends the features: a function takes at most 100 arguments, more come in pieces. */
static void
append_features(StringInfo query, const GkSource *source, char **names)
{
	bool		pieces = source->count > GK_MAX_ARGUMENTS;

	for (int i = 0; i < source->count; i++)
	{
		const char *name = names[source->features[i] - 1];

		if (pieces && i % GK_PIECE == 0)
			appendStringInfo(query, "%s, ARRAY[", i > 0 ? "]" : "");
		else
			appendStringInfoString(query, ", ");
		if (pieces)
			append_double(query, name, &source->described[i]);
		else
			appendStringInfoString(query, name);
	}
	if (pieces)
		appendStringInfoChar(query, ']');
}

/* Appends the source with the names of its columns. */
static void
append_source(StringInfo query, const GkSource *source, char **names)
{
	appendStringInfo(query, " FROM %s AS " GK_SOURCE_ALIAS " (", source->text->from);
	for (int i = 0; i < source->columns->natts; i++)
		appendStringInfo(query, "%s%s", i > 0 ? ", " : "", names[i]);
	appendStringInfoChar(query, ')');
}

/* Appends what the feed takes of a row besides its ticket. */
static void
append_row(StringInfo query, const GkSource *source, char **names)
{
	append_id(query, source, names);
	if (source->weight > 0)
		appendStringInfo(query, ", %s", names[source->weight - 1]);
	else
		appendStringInfoString(query, ", NULL::pg_catalog.float8");
	append_features(query, source, names);
}

/* How many arguments append_row() writes. */
static int
row_arguments(const GkSource *source)
{
	int			pieces = (source->count + GK_PIECE - 1) / GK_PIECE;

	return 2 + (source->count > GK_MAX_ARGUMENTS ? pieces : source->count);
}

/* The query that feeds the rows; its parameter is the ticket. */
static char *
feed_query(const GkSource *source, Oid function)
{
	char	  **names = name_columns(source);
	StringInfoData query;

	initStringInfo(&query);
	appendStringInfo(&query, "SELECT %s($1", gk_own_function_name(function));
	append_row(&query, source, names);
	appendStringInfoChar(&query, ')');
	append_source(&query, source, names);
	return query.data;
}

/* The same over a subquery with OFFSET, which no foreign server takes with the aggregate. */
static char *
fenced_query(const GkSource *source, Oid function)
{
	char	  **names = name_columns(source);
	int			count = row_arguments(source);
	StringInfoData columns;
	StringInfoData query;

	initStringInfo(&columns);
	for (int i = 0; i < count; i++)
		appendStringInfo(&columns, ", c%d", i + 1);
	initStringInfo(&query);
	appendStringInfo(&query, "SELECT %s($1%s) FROM (SELECT NULL", gk_own_function_name(function),
					 columns.data);
	append_row(&query, source, names);
	append_source(&query, source, names);
	appendStringInfo(&query, " OFFSET 0) AS rows_of_source (ticket%s)", columns.data);
	return query.data;
}

/*
 * The query whose rows are to be fed, with a NULL where the feed takes its ticket.  Citus sends it
 * to sessions with other search paths, in which only names that are keywords are sure.
 */
static char *
row_query(const GkSource *source)
{
	char	  **names = name_columns(source);
	StringInfoData query;

	initStringInfo(&query);
	appendStringInfo(&query, "SELECT NULL::pg_catalog.int4");
	append_row(&query, source, names);
	append_source(&query, source, names);
	return query.data;
}

/*
 * Raises an error if the id of a list of arguments is not of the type that was asked for: its name
 * may have come to mean another one, and a cast to that would call functions of others.
 */
static void
check_id(const GkSource *source, const List *arguments)
{
	const Node *id = (const Node *) list_nth_node(TargetEntry, arguments, 1)->expr;

	if (source->id > 0 && exprType(id) != source->id_type &&
		get_typtype(source->id_type) != TYPTYPE_PSEUDO)
		gk_refuse_change();
}

/* Makes sure that the query calls the extension's aggregate, not a better match of that name. */
static void
check_aggregate(const Query *query, const void *source)
{
	const Aggref *call = (const Aggref *) linitial_node(TargetEntry, query->targetList)->expr;

	gk_check_own_function(IsA(call, Aggref) ? call->aggfnoid : InvalidOid, FEED_NAME);
	check_id(source, call->args);
}

/* The same for a query whose rows are fed. */
static void
check_rows(const Query *query, const void *source)
{
	check_id(source, query->targetList);
}

/*
 * The rows that the planner expects below the aggregates, how many bytes of columns each has, and
 * how many workers share them.
 */
static double
expected_rows(const Plan *plan, int *row_bytes, int *workers)
{
	double		share = 1.0;
	bool		is_below = false;	/* the source may have aggregates of its own */

	*workers = *row_bytes = 0;
	while (plan != NULL && !is_below && (IsA(plan, Agg) || IsA(plan, Gather)))
	{
		if (IsA(plan, Gather))
			*workers = ((const Gather *) plan)->num_workers;
		else
			is_below = !DO_AGGSPLIT_COMBINE(((const Agg *) plan)->aggsplit);
		plan = plan->lefttree;
	}
	/* as the planner divides them; the leader does what the workers leave it time for */
	if (*workers > 0)
		share = *workers + (parallel_leader_participation ? Max(0.0, 1.0 - 0.3 * *workers) : 0.0);
	if (plan == NULL)
		return 0.0;
	*row_bytes = plan->plan_width;
	return plan->plan_rows * share;
}

/* About how many bytes all rows take in the ring. */
static double
expected_bytes(const GkFeedSpec *spec, const GkFeedQuery *feeding)
{
	double		features = spec->width > 0 ? spec->width * sizeof(float) : feeding->row_bytes;

	return feeding->rows * (features + (spec->weighted ? sizeof(double) : 0));
}

/* True if an aggregate runs in this server: postgres_fdw can send it to another one. */
static bool
aggregates_here(const Plan *plan)
{
	while (plan != NULL && IsA(plan, Gather))
		plan = plan->lefttree;
	return plan != NULL && IsA(plan, Agg);
}

/* Raises an error if a function that was called while planning has set what is to be off. */
static void
check_partitionwise(void)
{
	if (enable_partitionwise_aggregate)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("setting \"%s\" changed while the source was being planned",
						"enable_partitionwise_aggregate")));
}

/* Prepares a query with the aggregate, without its parameter, so that no plan has a ticket. */
static void
prepare_aggregate(const GkSource *source, GkFeedQuery *feeding)
{
	int			workers;

	feeding->function = gk_own_function(FEED_NAME);
	feeding->query = gk_query_plan(source->text, feed_query(source, feeding->function),
								   GK_TICKET_TYPE, check_aggregate, source);
	if (!aggregates_here(feeding->query->plan->planTree))
		feeding->query = gk_query_plan(source->text, fenced_query(source, feeding->function),
									   GK_TICKET_TYPE, check_aggregate, source);
	/* Citus must not get hold of the aggregate, but a table may have become its own */
	if (feeding->query->is_of_citus)
		gk_refuse_change();
	check_partitionwise();
	feeding->rows = expected_rows(feeding->query->plan->planTree, &feeding->row_bytes, &workers);
	feeding->processes = workers + 1;
}

/*
 * Prepares a query that Citus plans, which must not get hold of the aggregate.  Only its EXPLAIN
 * says how many rows it expects: that asks the workers, and waits there for locks, perhaps those of
 * this transaction, without looking for a cancel.
 */
static void
prepare_rows(const GkSource *source, GkFeedQuery *feeding)
{
	feeding->function = InvalidOid;
	feeding->query = gk_query_plan(source->text, row_query(source), InvalidOid, check_rows,
								   source);
	feeding->rows = ROWS_OF_CITUS;
	feeding->row_bytes = feeding->query->plan->planTree->plan_width;
	feeding->processes = 1;
}

/* True if the plan reads a table that the source must not. */
static bool
reads_forbidden(const GkSource *source, const GkFeedQuery *feeding)
{
	List	   *tables = list_copy(feeding->query->tables);

	list_sort(tables, list_oid_cmp);
	return gk_have_common(tables, source->forbidden);
}

/*
 * Raises an error if the source reads a table that it must not.  Functions and policies may: they
 * are not looked into, but are in the plan.
 */
static void
check_forbidden(const GkSource *source, const GkFeedQuery *feeding)
{
	if (reads_forbidden(source, feeding) &&
		gk_have_common(gk_source_tables_now(source), source->forbidden))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the source reads the table of labels"),
				 errdetail("A name in it has come to mean that table meanwhile."),
				 errhint("Try again.")));
}

/*
 * Prepares the query once, without partitionwise aggregation, because a process must have only one
 * share.
 */
static void
prepare_once(const GkSource *source, GkFeedQuery *feeding)
{
	int			nest_level;

	AcceptInvalidationMessages();
	feeding->changes = SharedInvalidMessageCounter;
	feeding->command = GetCurrentCommandId(false);
	gk_source_check_columns(source);
	/* after what that calls, which may set the same */
	nest_level = NewGUCNestLevel();
	gk_set_locally("enable_partitionwise_aggregate", "off");
	if (gk_has_citus() && gk_is_citus_query(gk_query_rewrite(source->text, row_query(source))))
		prepare_rows(source, feeding);
	else
		prepare_aggregate(source, feeding);
	AtEOXact_GUC(true, nest_level);
	/* its names may have come to mean other tables in between */
	gk_source_check_columns(source);
	if (source->forbidden != NIL)
		check_forbidden(source, feeding);
	gk_progress_expect(OidIsValid(feeding->function) ? feeding->rows : 0.0);
}

/*
 * Prepares the query, again if functions of the source, called to analyse and to plan it, have
 * changed what it names.
 */
static void
prepare_query(const GkSource *source, GkFeedQuery *feeding)
{
	prepare_once(source, feeding);
	for (int i = 0; gk_query_is_old(feeding->query); i++)
	{
		if (i == GK_MOST_PLANS)
			gk_query_refuse_plan();
		prepare_once(source, feeding);
	}
}

/* About how many elements the array of a row has. */
static double
expected_elements(const GkSource *source, int row_bytes)
{
	int			bytes = source->described[0].length > 0 ? source->described[0].length : 8;

	row_bytes -= ARR_OVERHEAD_NONULLS(1);
	if (source->weight > 0)
		row_bytes -= get_typavgwidth(gk_column_type(source, source->weight), -1);
	if (source->id > 0)
		row_bytes -= get_typavgwidth(gk_column_type(source, source->id), -1);
	return (double) Max(row_bytes, bytes) / bytes;
}

/* The planner's estimate of the source: how many rows, and how many features per row. */
void
gk_source_estimate(GkSource *source, double *rows, double *dimension)
{
	source->feeding = palloc(sizeof(GkFeedQuery));
	prepare_query(source, source->feeding);
	*rows = source->feeding->rows;
	*dimension = source->described[0].shape == GK_SCALAR ? source->count
		: expected_elements(source, source->feeding->row_bytes);
}

/*
 * True if the source has a plan and nothing has changed since: a fit may wait long for a GPU, while
 * only the tables of its source are locked, and what runs between two readings of a node may alter
 * these.
 */
bool
gk_source_is_current(const GkSource *source)
{
	AcceptInvalidationMessages();
	return source->feeding != NULL && source->feeding->changes == SharedInvalidMessageCounter &&
		source->feeding->command == GetCurrentCommandId(false);
}

/* Runs the query with the aggregate that feeds the rows. */
static void
run_aggregate(const GkFeedQuery *feeding, Reading *reading, GkJob *job)
{
	reading->feed->aggregate = feeding->function;
	gk_feed_pass_open(&reading->pass, &reading->place, gk_job_context(job));
	gk_query_run(feeding->query, reading->pass.params, None_Receiver);
	gk_feed_pass_close(&reading->pass);
}

/* Runs the query, and feeds its rows. */
static void
run_rows(const GkFeedQuery *feeding, Reading *reading, GkJob *job)
{
	DestReceiver *receiver = gk_feed_receiver(reading->feed, gk_job_context(job));

	gk_query_run(feeding->query, NULL, receiver);
	gk_feed_receiver_end(receiver);
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
	reading->place = gk_feed_create(spec);
	reading->feed = reading->place.feed;
	*ring_bytes = reading->place.ring_bytes;
	gk_note_ring(*ring_bytes);

	ring = &reading->feed->ring;
	status = engine->class_of->lend_buffer(engine, gk_ring_features(ring, 0), *ring_bytes);
	reading->lent = status.code == GK_OK;
	gk_check(status);
	return reading;
}

/* Frees the ring and the thread at the normal end. */
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

/* True if no other process can feed. */
static bool
is_alone(const Reading *reading)
{
	return reading->place.segment == NULL;
}

/* Runs the query once, and waits until the engine has all rows. */
static void
read_once(Reading *reading, const GkFeedQuery *feeding, GkJob *job, GkRows *rows)
{
	GkFeed	   *feed = reading->feed;
	GkRowCount	count = {.set = gk_progress_count,.fit = gk_progress_number()};
	bool		on_demand = is_alone(reading);
	GkStatus	status;
	int64		batches;
	int64	   *first_rows;

	if (OidIsValid(feed->id_type))
		rows->ids = gk_row_ids_create(job, feed->id_type, feed->max_participants);
	gk_feed_reset(feed, rows->ids != NULL ? gk_row_ids_handle(rows->ids) : DSM_HANDLE_INVALID);
	gk_progress_count(count.fit, 0);
	gk_check(gk_drain_start(&feed->ring, reading->engine, count, gk_add_account, on_demand,
							&reading->drain));
	feed->drain = on_demand ? reading->drain : NULL;
	/* as in other queries, there are no workers if no segment is left */
	if (on_demand)
		feeding->query->plan->parallelModeNeeded = false;
	if (OidIsValid(feeding->function))
		run_aggregate(feeding, reading, job);
	else
		run_rows(feeding, reading, job);
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
	feed->drain = reading->drain = NULL;
	if (rows->ids != NULL)
		gk_row_ids_finish(rows->ids, first_rows, batches);
	else
		free(first_rows);
	gk_check(status);
}

/* The ranges of the values before the shift. */
static void
describe_ranges(GkFeed *feed, GkJob *job, GkRows *rows)
{
	MemoryContext context = gk_job_context(job);

	if (rows->dimension == 0)
		return;
	rows->least = MemoryContextAlloc(context, rows->dimension * sizeof(double));
	rows->greatest = MemoryContextAlloc(context, rows->dimension * sizeof(double));
	for (int i = 0; i < rows->dimension; i++)
		gk_shift_range(gk_feed_shift(feed), i, &rows->least[i], &rows->greatest[i]);
}

/* Refuses rows that become infinite by the shift, which a model brings along. */
void
gk_check_shifted(const GkSource *source, const GkRows *rows)
{
	bool		is_array = source->described[0].shape != GK_SCALAR;

	for (int i = 0; rows->least != NULL && i < rows->dimension; i++)
	{
		/* what is a little above FLT_MAX rounds to it */
		float		least = (float) (rows->least[i] - rows->shift[i]);
		float		greatest = (float) (rows->greatest[i] - rows->shift[i]);

		if (isinf(least) || isinf(greatest))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("feature %s is out of range", is_array ? psprintf("%d", i + 1)
							: psprintf("\"%s\"", source->names[i])),
					 errdetail("Less the shift of the model, it would be infinite in some row."),
					 errhint("Leave such rows out of the source: gkmeans_predict() returns NULL "
							 "for them.")));
	}
}

/* Counts the rows that each column made unusable. */
static void
count_troubles(GkFeed *feed, GkJob *job, GkRows *rows)
{
	GkTroubleCounts *counts = &rows->counts;
	Size		bytes = (feed->columns + 1) * sizeof(int64);

	counts->nulls = MemoryContextAlloc(gk_job_context(job), bytes);
	counts->not_finite = MemoryContextAlloc(gk_job_context(job), bytes);
	counts->columns = feed->columns + 1;
	counts->zeros = atomic_load(&feed->zeros);
	for (int i = 0; i <= feed->columns; i++)
	{
		counts->nulls[i] = atomic_load(&gk_feed_troubles(feed)[i].nulls);
		counts->not_finite[i] = atomic_load(&gk_feed_troubles(feed)[i].not_finite);
	}
}

/* Says what made rows unusable. */
void
gk_describe_unusable(const GkSource *source, GkJob *job, GkRows *rows)
{
	rows->unusable = MemoryContextAlloc(gk_job_context(job), source->count * sizeof(int64));
	for (int i = 0; i < source->count; i++)
		rows->unusable[i] = rows->counts.nulls[i] + rows->counts.not_finite[i];
	if (rows->read > 0 && rows->read == rows->skipped)
		rows->trouble = gk_describe_troubles(source, &rows->counts, rows->read);
}

/* Describes the rows that were read. */
static void
describe_rows(const GkSource *source, GkFeed *feed, GkJob *job, GkRows *rows)
{
	const double *shift = feed->shifting ? gk_shift_values(gk_feed_shift(feed)) : NULL;

	rows->id_type = feed->id_type;
	rows->dimension = rows->read > rows->skipped ? atomic_load(&feed->ring.dimension) : 0;
	rows->workers = atomic_load(&feed->workers);
	rows->shift = MemoryContextAllocZero(gk_job_context(job),
										 Max(1, rows->dimension) * sizeof(double));
	if (shift != NULL)
	{
		memcpy(rows->shift, shift, rows->dimension * sizeof(double));
		describe_ranges(feed, job, rows);
		/* a node may be given another shift before its rows are used */
		if (!source->spec.of_node)
			gk_check_shifted(source, rows);
	}
	count_troubles(feed, job, rows);
	gk_describe_unusable(source, job, rows);
}

/*
 * True if no worker will feed, and the engine copies batches wherever they lie: that of the CPUs.
 * Another one may be slow to pin memory that is new, and to take a batch, unless rows are few.
 */
static bool
can_be_alone(const GkFeedQuery *feeding, const GkFeedSpec *spec, const GkEngine *engine)
{
	return !feeding->query->plan->parallelModeNeeded &&
		(engine->class_of == gk_cpu_engine() || spec->expected_bytes < GK_THREAD_BYTES);
}

/* Makes the active snapshot replace the one below it. */
static void
replace_snapshot(void)
{
	Snapshot	newest = RegisterSnapshot(GetActiveSnapshot());

	PopActiveSnapshot();
	PopActiveSnapshot();
	PushActiveSnapshot(newest);
	UnregisterSnapshot(newest);
}

/* Raises the error that the second of two readings would not be of the same. */
static void
refuse_second(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("source changed between two readings"),
			 errdetail_internal("%s", detail),
			 errhint("Try again.")));
}

/*
 * Raises an error if a snapshot that must be kept misses rows: that of a transaction, where these
 * are to be written by, or that of the first of two readings.  A SELECT would not tell, but it does
 * not delete what was written by those rows either.
 */
static void
check_snapshot(const GkSource *source, const GkFeedQuery *feeding, bool is_second)
{
	bool		of_transaction = source->is_written && IsolationUsesXactSnapshot();

	if ((!of_transaction && !is_second) || !gk_query_is_replaced(feeding->query))
		return;
	if (of_transaction)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("What the source names was altered or replaced after this transaction "
						   "began, perhaps with rows that it does not see."),
				 errhint("The transaction might succeed if retried.")));
	refuse_second("What it names was altered or replaced, perhaps with rows that the snapshot of "
				  "the first reading does not see.");
}

/* Notes what the plan of one of two readings owes to caches that nothing locks. */
static void
note_caches(const GkFirstReading *first, GkFeedQuery *feeding)
{
	const List *functions = first->snapshot != NULL ? first->functions : feeding->query->functions;

	feeding->schemas = gk_query_schemas(feeding->query);
	feeding->function_rows = gk_rows_of_functions(functions);
}

/*
 * True if names may not have meant, when the query was prepared, what they mean now.  What is noted
 * before it looks is what they meant, if not.
 */
static bool
is_named_anew(const GkSource *source, GkFeedQuery *feeding)
{
	if (source->spec.first != NULL)
		note_caches(source->spec.first, feeding);
	AcceptInvalidationMessages();
	return feeding->changes != SharedInvalidMessageCounter &&
		gk_query_is_named_anew(feeding->query);
}

/* Prepares the query again; true if its names mean what they did. */
static bool
prepare_again(const GkSource *source, GkFeedQuery *feeding)
{
	const GkSourceQuery *before = feeding->query;

	prepare_query(source, feeding);
	return gk_query_are_alike(before, feeding->query);
}

/*
 * Prepares the query again while it is old, or its names may have meant something else just when it
 * was analysed: the snapshot was checked for what they mean now.  The planner lists the children of
 * a table before it waits for them, and leaves out those that are gone by then.
 */
static void
follow_changes(const GkSource *source, GkFeedQuery *feeding, GkRows *rows, bool is_second,
			   bool is_old)
{
	bool		is_anew = is_named_anew(source, feeding);
	bool		is_named_alike = true;

	for (int i = 0; (is_anew || is_old) && i < GK_MOST_PLANS; i++)
	{
		is_old = false;
		is_named_alike &= prepare_again(source, feeding);
		if (!is_second)
		{
			rows->is_newer |= gk_query_push_snapshot(feeding->query, &is_old);
			replace_snapshot();
		}
		check_snapshot(source, feeding, is_second);
		is_anew = is_named_anew(source, feeding);
	}
	/*
	 * privileges and the like, which others may change all the time, do no harm to one reading, but
	 * the plans of two must be the same then, and Citus makes no two of these
	 */
	if ((is_old && gk_query_is_overtaken(feeding->query)) ||
		(is_anew && (!is_named_alike ||
					 (source->spec.first != NULL && feeding->query->is_of_citus))))
		gk_query_refuse_plan();
	feeding->is_doubtful = is_anew;
}

/* Keeps the first of two readings. */
static void
keep_reading(GkFirstReading *first, const GkFeedQuery *feeding)
{
	MemoryContext before = MemoryContextSwitchTo(first->context);

	first->snapshot = RegisterSnapshot(GetActiveSnapshot());
	first->command = feeding->command;
	first->meaning = copyObject(feeding->query->meaning);
	first->schemas = list_copy(feeding->schemas);
	first->functions = list_copy(feeding->query->functions);
	first->function_rows = list_copy(feeding->function_rows);
	first->rewritten = copyObject(feeding->query->rewritten);
	first->plan = copyObject(feeding->query->plan);
	first->is_doubtful = feeding->is_doubtful;
	MemoryContextSwitchTo(before);
}

/*
 * Raises an error unless the plans of two readings are the same, as one of them is doubtful.  The
 * planner looks for what names mean only where it puts the text of a function into the plan, or
 * calls it.
 */
static void
check_plans(const GkFirstReading *first, const GkFeedQuery *feeding)
{
	const GkSourceQuery *query = feeding->query;

	if (equal(first->rewritten, query->rewritten) &&
		((!gk_have_texts(first->functions) && !gk_have_texts(query->functions)) ||
		 gk_are_same_plans(first->plan, query->plan)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("source changed while it was being planned"),
			 errdetail("Functions, schemas or roles were changed each of the %d times that it was "
					   "planned, and the plans of its two readings differ, or are too long to "
					   "compare.", GK_MOST_PLANS + 1),
			 errhint("Try again.")));
}

/*
 * Raises an error if names have come to mean others, as where the user became member of a role:
 * those of the source, or those in functions that are inlined.  Plans would not do: which tables
 * and constants they list depends on costs.
 */
static void
check_names(const GkFirstReading *first, const GkFeedQuery *feeding)
{
	if (!equal(first->function_rows, feeding->function_rows))
		refuse_second("Functions that it calls were altered or replaced.");
	if (!equal(first->meaning, feeding->query->meaning))
		refuse_second("Its names mean other tables or functions.");
	if (gk_query_has_other_schemas(feeding->query, first->schemas, feeding->schemas,
								   first->snapshot, first->command))
		refuse_second("The search_path leads to other schemas.");
	if (first->is_doubtful || feeding->is_doubtful)
		check_plans(first, feeding);
}

/*
 * Prepares the query and pushes the snapshot of a reading.  When a node reads again, both are those
 * of the first time: the snapshot of the node's transaction keeps the rows of one that is newer.
 */
static void
begin_pass(GkSource *source, GkFeedQuery *feeding, GkRows *rows)
{
	GkFirstReading *first = source->spec.first;
	bool		is_second = source->read_by != NULL || (first != NULL && first->snapshot != NULL);
	bool		is_old = false;
	Snapshot	snapshot;

	if (gk_source_is_current(source))
		*feeding = *source->feeding;
	else
		prepare_query(source, feeding);
	/* Citus' workers read what is there now, and so must its shards here */
	if (source->read_by != NULL)
		PushActiveSnapshot(RestoreSnapshot(source->read_by));
	else if (is_second && !feeding->query->is_of_citus)
		PushActiveSnapshot(first->snapshot);
	else
		rows->is_newer = gk_query_push_snapshot(feeding->query, &is_old);
	check_snapshot(source, feeding, is_second);
	follow_changes(source, feeding, rows, is_second, is_old);
	if (first != NULL && !is_second)
		keep_reading(first, feeding);
	else if (first != NULL)
		check_names(first, feeding);
	if (!source->spec.of_node || !IsolationUsesXactSnapshot() || source->read_by != NULL)
		return;
	snapshot = GetActiveSnapshot();
	source->feeding = palloc(sizeof(GkFeedQuery));
	*source->feeding = *feeding;
	source->read_by = palloc(EstimateSnapshotSpace(snapshot));
	SerializeSnapshot(snapshot, source->read_by);
}

/* True if the shift was not that of the rows that were read, or did not serve them; it is now. */
static bool
corrects_shift(Reading *reading, bool exactly)
{
	return gk_shift_correct(gk_feed_shift(reading->feed),
							atomic_load(&reading->feed->ring.dimension), exactly);
}

/* Raises an error if rows were read again too often. */
void
gk_check_readings(int again)
{
	if (again < MOST_READINGS)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("source changed between two readings"),
			 errdetail("Its values lay far from those of before each time."),
			 errhint("Try again. If a volatile function of the source gives other rows each time, "
					 "write them to a table first.")));
}

/* Raises an error if sessions on Citus' workers that keep their snapshots may miss rows. */
static void
check_shards(const GkFeedQuery *feeding)
{
	if (!gk_citus_has_moved(feeding->query->tables))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("Shards of the source were moved or split after this transaction began, "
					   "perhaps with rows that its sessions on the workers do not see."),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * Prepares a query that Citus plans once more, and replaces its snapshot, if catalogs have changed:
 * its shards may have been moved or split meanwhile.
 */
static void
follow_shards(const GkSource *source, GkFeedQuery *feeding, GkRows *rows)
{
	bool		is_old;

	AcceptInvalidationMessages();
	if (feeding->changes == SharedInvalidMessageCounter)
		return;
	prepare_query(source, feeding);
	rows->is_newer |= gk_query_push_snapshot(feeding->query, &is_old);
	replace_snapshot();
	follow_changes(source, feeding, rows, false, is_old);
	/* the feed is made for rows that come here */
	if (!feeding->query->is_of_citus)
		gk_refuse_change();
}

/* Reads the rows by the snapshot that is pushed, or those of Citus as they are now. */
static void
read_pushed(const GkSource *source, Reading *reading, GkFeedQuery *feeding, GkJob *job,
			GkRows *rows)
{
	if (feeding->query->is_of_citus && IsolationUsesXactSnapshot())
		check_shards(feeding);
	else if (feeding->query->is_of_citus)
		follow_shards(source, feeding, rows);
	gk_source_check_ids(source);
	read_once(reading, feeding, job, rows);
}

/*
 * Reads the rows again until the shift serves those that were read.  The same plan by the same
 * snapshot gives the same rows, but for volatile functions, samples, and the workers of Citus.
 */
static void
read_again(GkSource *source, Reading *reading, GkFeedQuery *feeding, GkJob *job, GkRows *rows)
{
	GkEngine   *engine = reading->engine;

	for (int i = 0; corrects_shift(reading, i == 0); i++)
	{
		gk_check_readings(i);
		rows->read_twice = true;
		gk_rows_release(rows);
		gk_check(engine->class_of->clear(engine));
		read_pushed(source, reading, feeding, job, rows);
	}
}

/* Runs the source and appends its rows to the engine. */
void
gk_source_read(GkSource *source, GkJob *job, GkEngine *engine, GkRows *rows)
{
	GkFeedSpec	spec = feed_spec(source);
	GkFeedQuery	feeding;
	Reading    *reading;

	memset(rows, 0, sizeof(GkRows));
	begin_pass(source, &feeding, rows);
	rows->has_foreign_table = gk_query_has_foreign_table(feeding.query);
	spec.processes = feeding.processes;
	spec.expected_bytes = expected_bytes(&spec, &feeding);
	spec.alone = can_be_alone(&feeding, &spec, engine);
	reading = begin_reading(&spec, job, engine, &rows->ring_bytes);
	if (spec.shifting && source->spec.dimension > 0)
		gk_shift_set(gk_feed_shift(reading->feed), source->spec.dimension, source->spec.shift);
	read_pushed(source, reading, &feeding, job, rows);
	if (spec.shifting && source->spec.dimension == 0)
		read_again(source, reading, &feeding, job, rows);
	PopActiveSnapshot();
	describe_rows(source, reading->feed, job, rows);
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
