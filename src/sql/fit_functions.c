/*
 * The SQL functions gkmeans_fit and gkmeans_fit_predict.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "alloc.h"
#include "arguments.h"
#include "choose_engine.h"
#include "engine_error.h"
#include "fit_call.h"
#include "report.h"
#include "seconds.h"
#include "sql_function.h"

/* Labels that are fetched from the engine at once. */
#define WINDOW_ROWS 16384

GK_SQL_FUNCTION(gkmeans_fit);
GK_SQL_FUNCTION(gkmeans_fit_predict);

/* A piece of the engine's labels. */
typedef struct Window
{
	int64		from;
	int64		count;
	int32	   *labels;			/* WINDOW_ROWS */
	double	   *distance2;
} Window;

/* Begins the job, leaves SPI connected and the job's memory context current. */
void
gk_call_open(GkCall *call)
{
	/* for those who call it in a function marked as safe */
	PreventCommandIfParallelMode("a gkmeans fit");

	memset(call, 0, sizeof(*call));
	call->caller = CurrentMemoryContext;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	call->job = gk_job_begin();
	MemoryContextSwitchTo(gk_job_context(call->job));
}

/* The same, and reads the arguments. */
void
gk_call_begin(GkCall *call, FunctionCallInfo fcinfo, int first)
{
	gk_call_open(call);
	gk_read_arguments(fcinfo, first, &call->arguments);
}

/* Checks the table of labels, if there is to be one. */
static void
check_labels_table(GkCall *call)
{
	const GkArguments *arguments = &call->arguments;
	MemoryContext before;

	if (arguments->labels_table == NULL)
		return;
	before = MemoryContextSwitchTo(call->caller);
	call->table = gk_labels_table_check(arguments->labels_table, arguments->if_exists,
										arguments->source.id_column, arguments->id_name,
										call->id_type);
	MemoryContextSwitchTo(before);
}

/* Raises an error if there is nothing to cluster, or the initial centroids do not fit. */
static void
check_rows(const GkCall *call)
{
	const GkRows *rows = &call->rows;
	const GkArguments *arguments = &call->arguments;

	if (rows->read == rows->skipped)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the source has no usable row"),
				 rows->read == 0 ? errdetail("It has no row at all.")
				 : errdetail_plural("%lld row was read: %s.", "%lld rows were read: %s.",
									rows->read, (long long) rows->read, rows->trouble),
				 rows->read == 0 ? 0
				 : errhint("Leave such columns out of the features, or give a query as the source "
						   "that replaces the values: coalesce(column, 0).")));
	if (arguments->fit.initial != NULL && arguments->initial_dimension != rows->dimension)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("initial_centroids does not fit the features"),
				 errdetail_plural("Each has %d element, and a row has %d.",
								  "Each has %d elements, and a row has %d.",
								  arguments->initial_dimension,
								  arguments->initial_dimension, rows->dimension)));
}

/* Opens the engine, and notes why it is that one. */
static void
open_engine(GkCall *call, const GkSource *source)
{
	const GkFitSpec *spec = &call->arguments.fit;
	GkWork		work = {.weighted = spec->weighted,.k = spec->k,.starts = spec->n_init,
	.iterations = spec->max_iter};
	const char *reason;

	if (gk_engine_depends_on_work())
		gk_source_estimate(source, &work.rows, &work.dimension);
	call->engine = gk_open_engine(call->job, &work, &reason);
	strlcpy(call->report.engine, call->engine->class_of->name, sizeof(call->report.engine));
	strlcpy(call->report.engine_reason, reason, sizeof(call->report.engine_reason));
}

/* Notes what the features are, and decides what follows from that. */
static void
note_features(GkCall *call, GkSource *source)
{
	GkFitSpec  *spec = &call->arguments.fit;
	bool		is_array;
	int			count;
	const char *const *names = gk_source_features(source, &count, &is_array);
	Datum	   *features = gk_allocate(count, sizeof(Datum));
	MemoryContext before;

	if (spec->scale == GK_SCALE_AUTO)
		spec->scale = count > 1 ? GK_SCALE_STANDARD : GK_SCALE_NONE;
	if (spec->scale == GK_SCALE_NONE && spec->metric == GK_COSINE)
		gk_source_by_direction(source);
	spec->names = is_array ? NULL : names;
	for (int i = 0; i < count; i++)
		features[i] = CStringGetTextDatum(names[i]);
	before = MemoryContextSwitchTo(call->caller);
	call->report.features = construct_array(features, count, TEXTOID, -1, false, TYPALIGN_INT);
	MemoryContextSwitchTo(before);
}

/* Reads the rows of the source into an engine. */
void
gk_call_read(GkCall *call)
{
	GkSource   *source = gk_source_describe(&call->arguments.source);
	instr_time	begin;

	call->source = source;
	note_features(call, source);
	call->id_type = gk_source_id_type(source);
	check_labels_table(call);
	open_engine(call, source);
	INSTR_TIME_SET_CURRENT(begin);
	gk_source_read(source, call->job, call->engine, &call->rows);
	call->report.read_seconds = gk_seconds_since(begin);
	call->arguments.fit.dimension = call->rows.dimension;
	call->arguments.fit.rows = call->rows.read - call->rows.skipped;
	call->arguments.fit.shift = call->rows.shift;
}

/* Fits. */
void
gk_call_fit(GkCall *call)
{
	check_rows(call);
	gk_fit(call->job, &call->arguments.fit, &call->fit);
}

/* Fills in the report, and ends the job. */
void
gk_call_end_job(GkCall *call)
{
	GkReport   *report = &call->report;

	report->rows_read = call->rows.read;
	report->rows_skipped = call->rows.skipped;
	report->dimension = call->rows.dimension;
	report->k = call->arguments.fit.k;
	report->k_effective = call->fit.k;
	report->iterations = call->fit.iterations;
	report->converged = call->fit.converged;
	report->inertia = call->fit.inertia;
	report->best_start = call->fit.best_start;
	report->quality = gk_quality_name(call->fit.quality);
	report->search_rounds = call->fit.search_rounds;
	report->search_improvement = call->fit.search_improvement;
	report->workers = call->rows.workers;
	report->read_twice = call->rows.read_twice;
	report->seed_seconds = call->fit.seed_seconds;
	report->iterate_seconds = call->fit.iterate_seconds;
	report->label_seconds += call->fit.label_seconds;
	report->ring_bytes = call->rows.ring_bytes;
	call->engine->class_of->usage(call->engine, &report->usage);
	gk_rows_release(&call->rows);
	MemoryContextSwitchTo(call->caller);
	gk_job_end(call->job);
}

/* Brings the window to a row. */
static void
move_window(GkCall *call, Window *window, int64 row)
{
	if (row >= window->from && row < window->from + window->count)
		return;
	window->from = row - row % WINDOW_ROWS;
	window->count = Min(call->arguments.fit.rows - window->from, WINDOW_ROWS);
	gk_check(call->engine->class_of->fetch(call->engine, window->from, window->count,
										   window->labels, window->distance2));
}

/* Puts id, cluster and distance of every row of the source into a tuplestore. */
void
gk_call_put_labels(GkCall *call, Tuplestorestate *store, TupleDesc descriptor)
{
	Window		window = {0};
	Datum		values[3] = {0};
	bool		nulls[3];
	int64		row;
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	window.labels = gk_allocate(WINDOW_ROWS, sizeof(int32));
	window.distance2 = gk_allocate(WINDOW_ROWS, sizeof(double));
	while (gk_row_ids_next(call->rows.ids, &values[0], &nulls[0], &row))
	{
		CHECK_FOR_INTERRUPTS();
		nulls[1] = nulls[2] = row < 0;
		if (row >= 0)
		{
			move_window(call, &window, row);
			row -= window.from;
			values[1] = Int32GetDatum(call->fit.cluster_of_label[window.labels[row]]);
			values[2] = Float8GetDatum(gk_distance(call->arguments.fit.metric,
												   window.distance2[row]));
		}
		tuplestore_putvalues(store, descriptor, values, nulls);
	}
	call->report.label_seconds += gk_seconds_since(begin);
}

/* A centroid as an array. */
static Datum
centroid_array(const GkCall *call, int64 cluster, Datum *elements)
{
	int			d = call->rows.dimension;

	for (int j = 0; j < d; j++)
		elements[j] = Float8GetDatum(call->fit.centroids[cluster * d + j]);
	return PointerGetDatum(construct_array(elements, d, FLOAT8OID, sizeof(float8),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* Puts one row for every cluster into the result. */
void
gk_call_put_clusters(const GkCall *call, ReturnSetInfo *result)
{
	Datum	   *elements = gk_allocate(call->rows.dimension, sizeof(Datum));

	for (int64 c = 0; c < call->fit.k; c++)
	{
		const GkCluster *cluster = &call->fit.clusters[c];
		Datum		values[7];
		bool		nulls[7] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int32GetDatum(cluster->id);
		values[1] = centroid_array(call, c, elements);
		values[2] = Int64GetDatum(cluster->size);
		values[3] = Float8GetDatum(cluster->weight);
		values[4] = Float8GetDatum(cluster->inertia);
		values[5] = Float8GetDatum(cluster->avg_distance);
		nulls[5] = isnan(cluster->avg_distance);
		values[6] = Float8GetDatum(cluster->radius);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		pfree(DatumGetPointer(values[1]));
	}
}

/* Writes the table of labels, if there is to be one. */
void
gk_call_write_labels(GkCall *call, Tuplestorestate *labels, GkLabelsWritten *written)
{
	if (call->table != NULL)
		gk_labels_table_write(call->table, labels, written);
}

/* Ends the call. */
void
gk_call_end(GkCall *call)
{
	SPI_finish();
	gk_remember_fit(&call->report);
}

/* The labels for the table of labels; NULL if there is none. */
Tuplestorestate *
gk_call_labels(GkCall *call)
{
	Tuplestorestate *labels;

	if (call->table == NULL)
		return NULL;
	MemoryContextSwitchTo(call->caller);
	labels = tuplestore_begin_heap(false, false, work_mem);
	MemoryContextSwitchTo(gk_job_context(call->job));
	gk_call_put_labels(call, labels, gk_labels_descriptor(call->id_type));
	return labels;
}

/* SQL: clusters the rows of a source; one row for every cluster. */
Datum
gkmeans_fit(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Tuplestorestate *labels;
	GkLabelsWritten written;
	GkCall		call;

	InitMaterializedSRF(fcinfo, 0);
	gk_call_begin(&call, fcinfo, 0);
	gk_call_read(&call);
	gk_call_fit(&call);
	gk_call_put_clusters(&call, result);
	labels = gk_call_labels(&call);
	gk_call_end_job(&call);
	gk_call_write_labels(&call, labels, &written);
	gk_call_end(&call);
	if (labels != NULL)
		tuplestore_end(labels);
	return (Datum) 0;
}

/* SQL: clusters the rows of a source; one row for every row of it. */
Datum
gkmeans_fit_predict(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	GkLabelsWritten written;
	GkCall		call;

	InitMaterializedSRF(fcinfo, 0);
	gk_call_begin(&call, fcinfo, 1);
	if (call.arguments.source.id_column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("gkmeans_fit_predict needs an id_column"),
				 errhint("Name the column that tells the rows apart as id_column.")));
	call.arguments.source.id_type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	gk_call_read(&call);
	gk_call_fit(&call);
	gk_call_put_labels(&call, result->setResult, result->setDesc);
	gk_call_end_job(&call);
	gk_call_write_labels(&call, result->setResult, &written);
	gk_call_end(&call);
	return (Datum) 0;
}
