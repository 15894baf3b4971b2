/*
 * The SQL functions gkmeans_fit and gkmeans_fit_predict.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/sinval.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

#include "alloc.h"
#include "arguments.h"
#include "choose_engine.h"
#include "cluster_labels.h"
#include "engine_error.h"
#include "fit_call.h"
#include "labels_on_nodes.h"
#include "nearest.h"
#include "node_sources.h"
#include "quantiles.h"
#include "report.h"
#include "seconds.h"
#include "snapshot_rows.h"
#include "source_query.h"
#include "sql_function.h"

/* The columns about the second nearest cluster; they need the centroids as compared. */
#define SECOND (GK_LABEL_SET(GK_LABEL_SECOND_CLUSTER) | GK_LABEL_SET(GK_LABEL_SECOND_DISTANCE))

/* Milliseconds that a node waits for a lock, at most, while rows are read again. */
#define MOST_WAIT 10000

GK_SQL_FUNCTION(gkmeans_fit);
GK_SQL_FUNCTION(gkmeans_fit_predict);

/* Begins the job, leaves SPI connected and the job's memory context current. */
void
gk_call_open(GkCall *call)
{
	/* in case a function marked parallel safe calls this */
	PreventCommandIfParallelMode("a gkmeans fit");

	memset(call, 0, sizeof(*call));
	INSTR_TIME_SET_CURRENT(call->begin);
	call->caller = CurrentMemoryContext;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	call->progress = gk_progress_begin();
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

/* Says that the changes of the labels are to be written to a table. */
void
gk_call_track_changes(GkCall *call, const char *changes_table)
{
	call->arguments.changes_table = changes_table;
	if (changes_table != NULL && call->arguments.labels_table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("changes_table needs a labels_table"),
				 errhint("It is the table of the changes of that table.")));
}

/* Checks the tables of labels and changes, if there are to be any. */
static void
check_labels_table(GkCall *call)
{
	const GkArguments *arguments = &call->arguments;
	GkLabelsSpec spec = {.table = arguments->labels_table,.if_exists = arguments->if_exists,
		.changes_table = arguments->changes_table,.of_model = arguments->of_model,
		.expected_new = arguments->labels_are_new,
		.id_name = arguments->id_name,.id_column = arguments->source.id_column,
		.id_type = call->id_type,.source = call->source};
	MemoryContext before;

	if (arguments->labels_table == NULL)
		return;
	before = MemoryContextSwitchTo(call->caller);
	call->table = gk_labels_table_check(&spec);
	MemoryContextSwitchTo(before);
	if (gk_labels_table_columns(call->table) & SECOND)
		call->arguments.fit.for_model = true;
}

/* What to do about rows whose array is unusable. */
static const char *
unusable_array_hint(const char *array, bool is_finite)
{
	if (is_finite)
		return psprintf("Name another column, or give a query as the source that replaces NULL "
						"elements: array_replace(%s, NULL, '0').", array);
	return psprintf("Name another column, or give a query as the source that replaces such "
					"elements: CASE WHEN %s IS NOT NULL THEN ARRAY(SELECT CASE WHEN abs(element) < "
					"1e38 THEN element ELSE 0 END FROM unnest(%s) AS element) END.", array, array);
}

/* What to do about rows that are all unusable. */
static const char *
unusable_hint(const GkCall *call)
{
	const GkRows *rows = &call->rows;
	const char *weight = call->arguments.source.weight_column;
	bool		is_finite = true;
	bool		is_array;
	int			count;
	const char *const *features = gk_source_features(call->source, &count, &is_array);

	if (rows->counts.zeros == rows->read)
		return "Rows of zeros have no direction: choose other features, or metric => 'euclidean'.";
	/* behind the features */
	if (weight != NULL && rows->counts.nulls[rows->counts.columns - 1] == rows->read)
		return psprintf("A row without a weight cannot be clustered: leave out weight_column, or "
						"give a query as the source that replaces it: coalesce(%s, 1).",
						quote_identifier(weight));
	for (int i = 0; i < rows->counts.columns; i++)
		is_finite = is_finite && rows->counts.not_finite[i] == 0;
	if (is_array)
		return unusable_array_hint(quote_identifier(features[0]), is_finite);
	if (!is_finite)
		return "Leave such columns out of the features, or give a query as the source that "
			"replaces the values: CASE WHEN abs(column) < 1e38 THEN column ELSE 0 END.";
	return "Leave such columns out of the features, or give a query as the source "
		"that replaces the values: coalesce(column, 0).";
}

/* Raises an error if no row can be clustered, or initial centroids have another dimension. */
void
gk_call_check_rows(const GkCall *call)
{
	const GkRows *rows = &call->rows;
	const GkArguments *arguments = &call->arguments;

	if (rows->read == rows->skipped)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the source has no usable row"),
				 rows->read == 0 ? errdetail("It returned no rows.")
				 : errdetail_plural("%lld row was read: %s.", "%lld rows were read: %s.",
									rows->read, (long long) rows->read, rows->trouble),
				 rows->read == 0 ? 0 : errhint("%s", unusable_hint(call))));
	if (arguments->fit.initial != NULL && arguments->initial_dimension != rows->dimension)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("initial_centroids does not fit the features"),
				 errdetail_plural("Each has %d element, and a row has %d.",
								  "Each has %d elements, and a row has %d.",
								  arguments->initial_dimension,
								  arguments->initial_dimension, rows->dimension)));
}

/* Shows others which engine it is, and what it holds of its devices. */
static void
show_engine(const GkCall *call)
{
	GkUsage		usage;

	call->engine->class_of->usage(call->engine, &usage);
	gk_progress_engine(call->report.engine, usage.devices, usage.device_bytes);
}

/* Records which engine it is, and why; of a long reason the beginning, in whole characters. */
static void
note_engine(GkCall *call, const char *reason)
{
	int			length = pg_mbcliplen(reason, strlen(reason),
									  sizeof(call->report.engine_reason) - 1);

	strlcpy(call->report.engine, call->engine->class_of->name, sizeof(call->report.engine));
	strlcpy(call->report.engine_reason, reason, length + 1);
	show_engine(call);
}

/* Opens an engine on this server, and reads all rows into it; `undivided` says why, unless NULL. */
static void
read_alone(GkCall *call, GkWork *work, const char *undivided)
{
	const char *reason;
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	if (gk_engine_depends_on_work())
		gk_source_estimate(call->source, &work->rows, &work->dimension);
	call->engine = gk_open_engine(call->job, work, &reason);
	if (undivided != NULL)
		reason = psprintf("%s; not over nodes: %s", reason, undivided);
	call->report.open_seconds = gk_seconds_since(begin);
	gk_progress_phase(GK_PHASE_READING);
	note_engine(call, reason);
	INSTR_TIME_SET_CURRENT(begin);
	gk_source_read(call->source, call->job, call->engine, &call->rows);
	call->report.read_seconds = gk_seconds_since(begin);
}

/*
 * True if nodes are to wait for a lock not longer than MOST_WAIT: the labels table is locked, and
 * who holds a lock there may be waiting for it, which no server would notice.
 */
static bool
nodes_wait_briefly(const GkCall *call)
{
	return call->arguments.readings > 0 && (LockTimeout == 0 || LockTimeout > MOST_WAIT);
}

/* Adds a hint if a node could not get a lock then. */
static void
explain_brief_wait(void *arg)
{
	if (geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE)
		errhint("Repeat the transaction. Others have written labels, so rows are read again while "
				"the labels table is locked: meanwhile, nodes wait for a lock %d seconds at most, "
				"because its holder may be waiting for that table.", MOST_WAIT / 1000);
}

/* Lets each node open an engine, and read its rows into that. */
static void
open_and_read(GkCall *call, const GkWork *work, const GkNodeSources *nodes)
{
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	call->cluster = gk_cluster_open(call->job, nodes, call->source, work,
									nodes_wait_briefly(call) ? MOST_WAIT : LockTimeout);
	call->report.open_seconds = gk_seconds_since(begin);
	gk_progress_nodes(nodes->count);
	gk_progress_phase(GK_PHASE_READING);
	INSTR_TIME_SET_CURRENT(begin);
	call->engine = gk_cluster_read(call->cluster, call->source, work, call->labels_stay,
								   &call->rows);
	call->report.read_seconds = gk_seconds_since(begin);
	note_engine(call, nodes->count == 1 ? "1 node of gkmeans.nodes"
				: psprintf("%d nodes of gkmeans.nodes", nodes->count));
}

/* The same, and explains an error that only such a call can have. */
static void
read_on_nodes(GkCall *call, const GkWork *work, const GkNodeSources *nodes)
{
	ErrorContextCallback callback = {.callback = explain_brief_wait};

	callback.previous = error_context_stack;
	if (nodes_wait_briefly(call))
		error_context_stack = &callback;
	open_and_read(call, work, nodes);
	error_context_stack = callback.previous;
}

/* Records the features, and decides what depends on them. */
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

/* Describes the source, and checks the tables of labels and changes. */
void
gk_call_describe(GkCall *call)
{
	call->source = gk_source_describe(&call->arguments.source);
	note_features(call, call->source);
	call->id_type = gk_source_id_type(call->source);
	check_labels_table(call);
}

/* True if the call writes labels or a version of a model. */
static bool
is_written(const GkCall *call)
{
	return call->table != NULL || (call->arguments.of_model && call->arguments.fit.for_model);
}

/*
 * Pushes the snapshot for the rows.  Who writes may have waited for others who did, and replaces
 * what they wrote, so the rows are read as they are after the wait.
 */
static void
push_snapshot(const GkCall *call)
{
	const GkFirstReading *first = call->arguments.source.first;

	if (first != NULL && first->snapshot != NULL)
		PushActiveSnapshot(first->snapshot);
	else if (is_written(call))
		gk_push_writer_snapshot();
	else
		PushActiveSnapshot(GetActiveSnapshot());
}

/* Finds the nodes that have the rows; NULL = none. */
static const GkNodeSources *
find_nodes(const GkCall *call, const char **undivided)
{
	const GkNodeSources *nodes = gk_node_sources(call->source, undivided);

	if (nodes != NULL)
		gk_source_check_columns(call->source);
	return nodes;
}

/*
 * The same, and decides whether the labels stay there.  To find out waits for Citus while it moves
 * or splits shards, after which the nodes have other ones.
 */
static const GkNodeSources *
choose_nodes(GkCall *call, const char **undivided)
{
	const GkNodeSources *nodes;
	uint64		changes;
	bool		can_stay;

	call->labels_stay = false;
	AcceptInvalidationMessages();
	changes = SharedInvalidMessageCounter;
	nodes = find_nodes(call, undivided);
	if (nodes == NULL || !nodes->of_citus)
		return nodes;
	can_stay = gk_labels_can_stay(call);
	AcceptInvalidationMessages();
	if (changes != SharedInvalidMessageCounter)
		nodes = find_nodes(call, undivided);
	call->labels_stay = can_stay && nodes != NULL && nodes->of_citus;
	return nodes;
}

/* Reads the rows of the source into an engine. */
static void
read_source(GkCall *call)
{
	const GkFitSpec *spec = &call->arguments.fit;
	GkWork		work = {.weighted = spec->weighted,.k = spec->k,.starts = spec->n_init,
	.iterations = spec->max_iter};
	const GkNodeSources *nodes;
	const char *undivided;

	gk_call_describe(call);
	if (is_written(call))
		gk_source_write(call->source);
	push_snapshot(call);
	if (call->table != NULL && call->arguments.readings < GK_MOST_READINGS)
		call->read_by = RegisterSnapshot(GetActiveSnapshot());
	gk_progress_phase(GK_PHASE_QUEUED);
	nodes = choose_nodes(call, &undivided);
	if (nodes != NULL)
		read_on_nodes(call, &work, nodes);
	else
		read_alone(call, &work, undivided);
	PopActiveSnapshot();
	gk_source_check_ids(call->source);
	show_engine(call);
	call->arguments.fit.dimension = call->rows.dimension;
	call->arguments.fit.rows = call->rows.read - call->rows.skipped;
	call->arguments.fit.shift = call->rows.shift;
}

/* The same; others may drop types that were just looked at. */
void
gk_call_read(GkCall *call)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		read_source(call);
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
}

/* Fits. */
void
gk_call_fit(GkCall *call)
{
	gk_call_check_rows(call);
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
	report->quality = gk_quality_name(Max(call->fit.quality, GK_QUALITY_FAST));
	report->search_rounds = call->fit.search_rounds;
	report->search_improvement = call->fit.search_improvement;
	report->workers = call->rows.workers;
	report->read_twice = call->rows.read_twice;
	report->prepare_seconds = call->fit.prepare_seconds;
	report->seed_seconds = call->fit.seed_seconds;
	report->iterate_seconds = call->fit.iterate_seconds;
	report->label_seconds += call->fit.label_seconds;
	report->ring_bytes = call->rows.ring_bytes;
	gk_job_usage(call->job, &report->usage);
	gk_rows_release(&call->rows);
	MemoryContextSwitchTo(call->caller);
	if (call->rows.empty_node != NULL)
		call->rows.empty_node = pstrdup(call->rows.empty_node);
	if (call->cluster != NULL)
	{
		report->nodes = gk_cluster_lines(call->cluster, &report->node_count);
		report->exchange_seconds = gk_cluster_seconds(call->cluster);
	}
	if (call->labels_stay)
		gk_cluster_finish(call->cluster);
	else
		gk_job_end(call->job);
}

/* What is known of the clusters of a fit. */
static void
describe_clusters(GkCall *call)
{
	const GkFit *fit = &call->fit;
	GkLabelling *labelling = &call->labelling;
	int32	   *ids = gk_allocate(fit->k, sizeof(int32));
	double	   *avg_distances = gk_allocate(fit->k, sizeof(double));

	for (int64 c = 0; c < fit->k; c++)
	{
		ids[c] = fit->clusters[c].id;
		avg_distances[c] = fit->clusters[c].avg_distance;
	}
	labelling->k = (int) fit->k;
	labelling->labels = fit->labels;
	labelling->place_of_label = fit->model.place_of_label;
	labelling->ties = fit->model.ties;
	labelling->ids = ids;
	labelling->avg_distances = avg_distances;
}

/* The centroids in the order of ties, as rows are compared with them. */
static const double *
pack_centroids(const GkCall *call)
{
	const GkFit *fit = &call->fit;
	int			d = call->rows.dimension;
	double	   *packed = gk_allocate(GK_GROUPS(fit->k) * GK_GROUP * d, sizeof(double));

	for (int64 i = 0; i < fit->k; i++)
	{
		CHECK_FOR_INTERRUPTS();
		gk_pack_centroid(packed, d, i, fit->model.points + (int64) fit->model.ties[i] * d);
	}
	gk_pack_rest(packed, d, fit->k);
	return packed;
}

/* The columns of the labels that are wanted. */
static GkLabelColumns
wanted_columns(const GkCall *call)
{
	return call->table != NULL ? gk_labels_table_columns(call->table) : 0;
}

/* The quantiles of the anomaly scores of a fit. */
const double *
gk_call_quantiles(GkCall *call)
{
	GkFitModel *model = &call->fit.model;
	double	   *quantiles;

	if (model->score_quantiles != NULL)
		return model->score_quantiles;
	quantiles = gk_allocate(GK_QUANTILES, sizeof(double));
	if (gk_find_quantiles(call->engine, call->arguments.fit.metric, &call->fit,
						  call->arguments.fit.rows, quantiles))
		model->score_quantiles = quantiles;
	return model->score_quantiles;
}

/* Says that the labels in the engine are those of the fit. */
void
gk_call_describe_fit(GkCall *call, int version, char *const *names)
{
	GkLabelColumns columns = wanted_columns(call);
	GkLabelling *labelling = &call->labelling;

	memset(labelling, 0, sizeof(*labelling));
	describe_clusters(call);
	labelling->version = version;
	labelling->names = names;
	if (columns & GK_LABEL_SET(GK_LABEL_ANOMALY_PERCENTILE))
		labelling->score_quantiles = gk_call_quantiles(call);
	if (columns & SECOND)
		labelling->packed = pack_centroids(call);
}

/* Puts a row for every row of the source into a result, or into the labels of a table. */
static void
put_labels(GkCall *call, Tuplestorestate *result, TupleDesc result_row, Tuplestorestate *labels)
{
	GkLabelRows rows = {.job = call->job,.engine = call->engine,.spec = &call->arguments.fit,
		.rows = &call->rows,.labelling = &call->labelling,.result = result,
		.result_row = result_row,.labels = labels};
	instr_time	begin;

	/* a fit can take long */
	gk_source_check_ids(call->source);
	if (call->labelling.k == 0)
		gk_call_describe_fit(call, 0, NULL);
	gk_progress_phase(GK_PHASE_LABELLING);
	INSTR_TIME_SET_CURRENT(begin);
	if (labels != NULL)
	{
		rows.columns = wanted_columns(call);
		rows.labels_row = gk_labels_descriptor(call->id_type);
	}
	gk_put_label_rows(&rows);
	call->report.label_seconds += gk_seconds_since(begin);
}

/* Puts id, cluster and distance of every row of the source into a tuplestore. */
void
gk_call_put_labels(GkCall *call, Tuplestorestate *store, TupleDesc descriptor)
{
	put_labels(call, store, descriptor, NULL);
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

/*
 * Raises 55000 if labels were deleted that may be those of a node whose table only seems to be
 * empty, as gkmeans_assign does where this server reads it.
 */
static void
check_empty_node(const GkCall *call, const GkLabelsWritten *written)
{
	if (call->rows.empty_node == NULL || (written->deleted == 0 && !written->emptied))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the source, which reads a foreign table on node \"%s\", has no row there",
					call->rows.empty_node),
			 errdetail("Labels would be deleted, perhaps those of that node."),
			 errhint("The table seems to be empty while a transaction of its server truncates and "
					 "fills it: repeat the call. If the node has no rows, leave it out of "
					 "gkmeans.nodes.")));
}

/*
 * True if the next reading is the last, and nobody is to insert labels during it.  Not over nodes:
 * one of them could wait for somebody who waits for the lock, and no server would notice.
 */
static bool
keeps_lock(const GkCall *call)
{
	return call->arguments.readings + 1 == GK_MOST_READINGS && call->cluster == NULL;
}

/* True if another server may keep the snapshot of the reading until the transaction ends. */
bool
gk_call_is_bound(const GkCall *call)
{
	return call->rows.has_foreign_table;
}

/* Writes the labels table, if one was requested, unless it has labels that may be newer. */
bool
gk_call_write_labels(GkCall *call, Tuplestorestate *labels, GkLabelsWritten *written)
{
	GkLabelsInput input = {.rows = labels};
	bool		is_current;

	if (call->table == NULL)
		return true;
	gk_progress_phase(GK_PHASE_WRITING);
	/* who reads again may have planned the first time by a snapshot that postgres_fdw keeps */
	is_current = !(call->arguments.readings > 0 && gk_call_is_bound(call)) &&
		gk_labels_table_lock(call->table, call->read_by, keeps_lock(call));
	if (is_current && call->labels_stay)
		gk_use_shared_labels(call, &input);
	if (is_current)
	{
		gk_labels_table_write(call->table, &input, call->labelling.version, written);
		check_empty_node(call, written);
	}
	if (call->labels_stay)
		gk_job_end(call->job);
	return is_current;
}

/* Raises the error of rows that would have to be read anew then. */
void
gk_refuse_bound(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("Others have labelled, written or altered the labels table since the rows "
					   "were read, and a foreign table cannot be read anew in this "
					   "transaction."),
			 errhint("The transaction might succeed if retried.")));
}

/* Ends what outlives the job. */
void
gk_call_close(GkCall *call)
{
	UnregisterSnapshot(call->read_by);
	call->read_by = NULL;
	gk_progress_end(call->progress);
	SPI_finish();
}

/* The same, and remembers the fit. */
void
gk_call_end(GkCall *call)
{
	gk_call_close(call);
	call->report.total_seconds = gk_seconds_since(call->begin);
	gk_remember_fit(&call->report);
}

/* The same for the table of labels as well; its labels, NULL if there is none. */
static Tuplestorestate *
put_all_labels(GkCall *call, Tuplestorestate *result, TupleDesc result_row)
{
	Tuplestorestate *labels = NULL;

	if (call->labels_stay && call->labelling.k == 0)
		gk_call_describe_fit(call, 0, NULL);
	if (call->labels_stay)
		gk_share_labels(call);
	if (call->table != NULL && !call->labels_stay)
	{
		MemoryContextSwitchTo(call->caller);
		labels = tuplestore_begin_heap(false, false, work_mem);
		MemoryContextSwitchTo(gk_job_context(call->job));
	}
	if (labels != NULL || result != NULL)
		put_labels(call, result, result_row, labels);
	return labels;
}

/* The labels for the table of labels; NULL if there is none. */
Tuplestorestate *
gk_call_labels(GkCall *call)
{
	return put_all_labels(call, NULL, NULL);
}

/*
 * Ends a fit, and writes its labels table; false, without its results and what functions of the
 * source have set since the nest level of settings, if it is to be repeated.
 */
static bool
finish_fit(GkCall *call, Tuplestorestate *result, Tuplestorestate *labels, int nest_level)
{
	GkLabelsWritten written;
	bool		is_written;

	gk_call_end_job(call);
	is_written = gk_call_write_labels(call, labels, &written);
	if (!is_written && gk_call_is_bound(call))
		gk_refuse_bound();
	gk_call_end(call);
	if (labels != NULL)
		tuplestore_end(labels);
	if (!is_written)
		tuplestore_clear(result);
	AtEOXact_GUC(is_written, nest_level);
	return is_written;
}

/* Clusters the rows of a source; false if that is to be repeated, with the labels table locked. */
static bool
fit(FunctionCallInfo fcinfo, int readings)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			nest_level = NewGUCNestLevel();
	Tuplestorestate *labels;
	GkCall		call;

	gk_call_begin(&call, fcinfo, 0);
	call.arguments.labels_may_stay = true;
	call.arguments.readings = readings;
	gk_call_read(&call);
	gk_call_fit(&call);
	gk_call_put_clusters(&call, result);
	labels = gk_call_labels(&call);
	return finish_fit(&call, result->setResult, labels, nest_level);
}

/* SQL: clusters the rows of a source; one row for every cluster. */
Datum
gkmeans_fit(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	for (int readings = 0; !fit(fcinfo, readings); readings++)
		;
	return (Datum) 0;
}

/* The same, with a row for every row of the source. */
static bool
fit_predict(FunctionCallInfo fcinfo, int readings)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			nest_level = NewGUCNestLevel();
	Tuplestorestate *labels;
	GkCall		call;

	gk_call_begin(&call, fcinfo, 1);
	if (call.arguments.source.id_column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("gkmeans_fit_predict needs an id_column"),
				 errhint("Name the column that identifies the rows as id_column.")));
	call.arguments.source.id_type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	call.arguments.readings = readings;
	gk_call_read(&call);
	gk_call_fit(&call);
	labels = put_all_labels(&call, result->setResult, result->setDesc);
	return finish_fit(&call, result->setResult, labels, nest_level);
}

/* SQL: clusters the rows of a source; one row for every row of it. */
Datum
gkmeans_fit_predict(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	for (int readings = 0; !fit_predict(fcinfo, readings); readings++)
		;
	return (Datum) 0;
}
