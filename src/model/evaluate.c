/*
 * The SQL functions that measure a clustering: of a model, or by labels from anywhere.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "alloc.h"
#include "assign.h"
#include "definition.h"
#include "engine_error.h"
#include "host_account.h"
#include "host_memory.h"
#include "id_texts.h"
#include "label_numbers.h"
#include "model_cache.h"
#include "prepare.h"
#include "quality.h"
#include "scorer.h"
#include "source_query.h"
#include "sql_function.h"
#include "sql_values.h"

GK_SQL_FUNCTION(gkmeans_evaluate);
GK_SQL_FUNCTION(gkmeans_evaluate_labels);
GK_SQL_FUNCTION(gkmeans_cluster_quality);

#define FIGURES 12
#define MAX_SAMPLE 1000000

/* Sample and seed. */
static void
read_sample(FunctionCallInfo fcinfo, int first, GkClustering *clustering)
{
	clustering->seed = PG_ARGISNULL(first + 1) ? 0 : PG_GETARG_INT64(first + 1);
	if (PG_ARGISNULL(first))
		return;
	clustering->sample = PG_GETARG_INT32(first);
	if (clustering->sample < 1 || clustering->sample > MAX_SAMPLE)
		gk_out_of_range("sample", psprintf("1 to %d", MAX_SAMPLE));
}

/* Describes the rows of a call. */
static void
describe_rows(const GkCall *call, GkClustering *clustering)
{
	clustering->job = call->job;
	clustering->engine = call->engine;
	clustering->metric = call->arguments.fit.metric;
	clustering->rows = call->arguments.fit.rows;
	clustering->dimension = call->rows.dimension;
}

/* Raises an error if no row has a label. */
static void
check_labels(int count, const char *column)
{
	if (count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the source has no row with a label"),
				 errdetail("Column \"%s\" is NULL in all usable rows.", column)));
}

/* Reads a source, labels it by a model and measures that. */
static const GkModel *
measure_model(FunctionCallInfo fcinfo, GkCall *call, GkQuality *quality)
{
	GkClustering clustering = {0};
	int			nest_level = NewGUCNestLevel();
	const GkModel *model;

	read_sample(fcinfo, 3, &clustering);
	gk_require_argument(fcinfo, 0, "model");
	gk_push_definition_snapshot(PG_GETARG_OID(0), PG_ARGISNULL(1));
	model = gk_label_source(call, PG_GETARG_OID(0), gk_version_argument(fcinfo, 2),
							gk_source_argument(fcinfo, 1, PG_GETARG_OID(0)), NULL, InvalidOid,
							NULL, GK_EXISTS_ERROR);
	PopActiveSnapshot();
	AtEOXact_GUC(false, nest_level);
	gk_call_check_rows(call);
	describe_rows(call, &clustering);
	clustering.k = model->k;
	clustering.packed = model->packed;
	gk_progress_phase(GK_PHASE_MEASURING);
	gk_measure(&clustering, quality);
	return model;
}

/* The figures, from the number of rows on. */
static void
put_figures(const GkQuality *quality, Datum *values, bool *nulls)
{
	double		total = quality->total;

	memset(nulls, false, FIGURES * sizeof(bool));
	values[0] = Int64GetDatum(quality->rows);
	values[1] = Int32GetDatum(quality->clusters);
	values[2] = Float8GetDatum(quality->inertia);
	values[3] = Float8GetDatum(quality->inertia / quality->rows);
	values[4] = Float8GetDatum(total - quality->inertia);
	values[5] = Float8GetDatum(total);
	gk_put_number(&values[6], &nulls[6], total > 0.0 ? (total - quality->inertia) / total : NAN);
	gk_put_number(&values[7], &nulls[7], quality->silhouette);
	values[8] = Int64GetDatum(quality->silhouette_rows);
	gk_put_number(&values[9], &nulls[9], quality->simplified_silhouette);
	gk_put_number(&values[10], &nulls[10], quality->davies_bouldin);
	gk_put_number(&values[11], &nulls[11], quality->calinski_harabasz);
}

/* SQL: the figures of a model on the rows of a source. */
Datum
gkmeans_evaluate(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, FIGURES + 1);
	GkCall		call;
	GkQuality	quality;
	Datum		values[FIGURES + 1];
	bool		nulls[FIGURES + 1] = {0};

	values[0] = Int32GetDatum(measure_model(fcinfo, &call, &quality)->version);
	put_figures(&quality, values + 1, nulls + 1);
	gk_call_end_job(&call);
	gk_call_close(&call);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}

/* The labels in the order of their clusters. */
static int *
places_of_labels(const GkModel *model)
{
	int		   *labels = gk_allocate(model->k, sizeof(int));

	for (int i = 0; i < model->k; i++)
		labels[gk_cluster_at(model, i)] = i;
	return labels;
}

/* Puts one row for every cluster of a model into a result. */
static void
put_clusters(const GkModel *model, const GkQuality *quality, ReturnSetInfo *result)
{
	int		   *labels = places_of_labels(model);

	for (int place = 0; place < model->k; place++)
	{
		int			label = labels[place];
		int			nearest = quality->nearest[label];
		Datum		values[7] = {0};
		bool		nulls[7] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int32GetDatum(gk_cluster_id(model, place));
		values[1] = CStringGetTextDatum(gk_cluster_name(model, place));
		values[2] = Int64GetDatum(quality->sizes[label]);
		gk_put_number(&values[3], &nulls[3], quality->silhouettes[label]);
		gk_put_number(&values[4], &nulls[4], quality->simplified_silhouettes[label]);
		nulls[5] = nearest < 0;
		if (nearest >= 0)
			values[5] = Int32GetDatum(gk_cluster_id(model, gk_cluster_at(model, nearest)));
		gk_put_number(&values[6], &nulls[6], quality->separations[label]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

/* SQL: the figures of the clusters of a model on the rows of a source. */
Datum
gkmeans_cluster_quality(PG_FUNCTION_ARGS)
{
	GkCall		call;
	GkQuality	quality;
	const GkModel *model;

	InitMaterializedSRF(fcinfo, 0);
	model = measure_model(fcinfo, &call, &quality);
	put_clusters(model, &quality, (ReturnSetInfo *) fcinfo->resultinfo);
	gk_call_end_job(&call);
	gk_call_close(&call);
	return (Datum) 0;
}

/* The number of a row whose label has not come, and each of its bytes. */
#define UNREAD ((int32) 0x80808080)
#define UNREAD_BYTE 0x80

/* Raises the error that rows have several labels, or none: a node may lie. */
__attribute__((noreturn))
static void
refuse_labels(const GkCall *call)
{
	gk_contradict(call->engine, "rows have several labels, or none");
}

/* Numbers the labels in their order, so that the order of the rows does not show. */
static void
sort_labels(GkLabelNumbers *numbers, int32 *of_rows, int64 rows)
{
	int32	   *places = gk_label_places(numbers);

	for (int64 row = 0; row < rows; row++)
	{
		CHECK_FOR_INTERRUPTS();
		if (of_rows[row] >= 0)
			of_rows[row] = places[of_rows[row]];
	}
	pfree(places);
}

/* The numbers of all rows' labels, which were read as ids, -1 for NULL. */
static void
number_labels(GkCall *call, GkLabelNumbers *numbers, int32 *of_rows)
{
	int64		rows = call->arguments.fit.rows;
	int64		found = 0;
	int			nest_level = gk_begin_id_texts();
	Datum		id;
	bool		is_null;
	int64		row;

	memset(of_rows, UNREAD_BYTE, rows * sizeof(int32));
	while (gk_row_ids_next(call->rows.ids, &id, &is_null, &row))
	{
		CHECK_FOR_INTERRUPTS();
		if (row < 0)
			continue;
		if (of_rows[row] != UNREAD)
			refuse_labels(call);
		found++;
		of_rows[row] = is_null ? -1 : gk_label_number(numbers, id);
	}
	gk_end_id_texts(nest_level);
	if (found != rows)
		refuse_labels(call);
}

/* The same; what rows without a type consist of may be dropped by the source, or by others. */
static void
try_number_labels(GkCall *call, GkLabelNumbers *numbers, int32 *of_rows)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		number_labels(call, numbers, of_rows);
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
}

/* The labels of all rows in the order of their texts; returns how many there are. */
static int
read_labels(GkCall *call, int32 *of_rows)
{
	GkLabelNumbers *numbers;
	int			count;

	/* to scale many rows can take long */
	gk_source_check_ids(call->source);
	numbers = gk_label_numbers_create(call->id_type);
	try_number_labels(call, numbers, of_rows);
	sort_labels(numbers, of_rows, call->arguments.fit.rows);
	count = gk_label_numbers_count(numbers);
	gk_label_numbers_drop(numbers);
	return count;
}

/* Returns memory that was drawn. */
static void
return_drawn(void *bytes)
{
	gk_host_account_return(*(uint64 *) bytes);
}

/* Draws what it takes to measure labels: there may be as many as rows. */
static void
draw_memory(GkJob *job, const GkClustering *clustering)
{
	uint64	   *bytes = MemoryContextAlloc(gk_job_context(job), sizeof(uint64));
	GkRelease  *release = gk_job_reserve(job, return_drawn);
	GkUsage		usage;

	gk_job_usage(job, &usage);
	*bytes = mul_size((Size) clustering->k * clustering->dimension, GK_MEASURED_BYTES);
	gk_draw_host_memory(*bytes, usage.host_bytes);
	release->resource = bytes;
}

/* Begins the job and reads the arguments. */
static void
begin_labels_call(GkCall *call, FunctionCallInfo fcinfo)
{
	GkArguments *arguments = &call->arguments;

	gk_call_open(call);
	arguments->source.source = gk_required_text(fcinfo, 0, "source");
	arguments->source.id_column = gk_required_text(fcinfo, 2, "label_column");
	arguments->source.id_argument = "label_column";
	if (!PG_ARGISNULL(1))
		arguments->source.features = gk_features_argument(fcinfo, 1);
	arguments->fit.metric = gk_metric_word(gk_text_or(fcinfo, 3, "euclidean"));
	arguments->fit.scale = gk_scale_word(gk_text_or(fcinfo, 4, "none"));
	arguments->source.nulls_are_errors = gk_nulls_word(gk_text_or(fcinfo, 5, "skip"));
	arguments->fit.k = 1;
	arguments->fit.n_init = 1;
	arguments->fit.max_iter = 1;
}

/* SQL: the figures of labels from anywhere. */
Datum
gkmeans_evaluate_labels(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, FIGURES);
	GkClustering clustering = {0};
	GkPrepared	prepared = {0};
	GkCall		call;
	GkQuality	quality;
	int32	   *labels;
	Datum		values[FIGURES];
	bool		nulls[FIGURES];

	read_sample(fcinfo, 6, &clustering);
	begin_labels_call(&call, fcinfo);
	gk_call_read(&call);
	gk_call_check_rows(&call);
	gk_prepare(call.job, &call.arguments.fit, &prepared);
	describe_rows(&call, &clustering);
	labels = gk_allocate(clustering.rows, sizeof(int32));
	clustering.k = read_labels(&call, labels);
	clustering.labels = labels;
	check_labels(clustering.k, call.arguments.source.id_column);
	draw_memory(call.job, &clustering);
	gk_progress_phase(GK_PHASE_MEASURING);
	gk_measure(&clustering, &quality);
	put_figures(&quality, values, nulls);
	gk_call_end_job(&call);
	gk_call_close(&call);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}
