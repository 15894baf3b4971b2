/*
 * The SQL function gkmeans_create_model.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "alloc.h"
#include "clusters.h"
#include "definition.h"
#include "fit_call.h"
#include "quantiles.h"
#include "selection.h"
#include "sql_function.h"
#include "target.h"

GK_SQL_FUNCTION(gkmeans_create_model);

/* Places of the arguments. */
enum
{
	MODEL,
	SOURCE,
	K = 3,
	INITIAL_CENTROIDS = 7,
	IF_EXISTS = 18,
	NOTE,
	K_CANDIDATES,
	CRITERION,
	ARGUMENTS
};

/* A call that makes a model. */
typedef struct Creation
{
	GkCall		call;
	GkCandidateSpec candidates;	/* count 0: k was given */
	GkTarget	target;
	GkDraft		draft;
	const char *definition;
	double	   *score_quantiles;	/* GK_QUANTILES; NULL = not known */
} Creation;

/* An argument by its name; NULL if it is NULL. */
static char *
text_of(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

/* Refuses a model that would be too large for a row. */
static void
check_size(const GkCall *call)
{
	int64		numbers = call->arguments.fit.k * call->rows.dimension;

	if (numbers > GK_MAX_MODEL_NUMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("model is too large"),
				 errdetail("Its centroids have %lld numbers, the limit is %lld.",
						   (long long) numbers, (long long) GK_MAX_MODEL_NUMBERS)));
}

/* The features: their names, or that of the array that holds them. */
static void
draft_features(Creation *creation)
{
	bool		is_array;
	int			count;
	const char *const *names = gk_source_features(creation->call.source, &count, &is_array);

	if (is_array)
		gk_draft_text(&creation->draft, GK_MODEL_ARRAY_COLUMN, names[0]);
	else
		gk_draft_texts(&creation->draft, GK_MODEL_FEATURES, names, count);
}

/* True if any number is not zero. */
static bool
has_nonzero(const double *values, int count)
{
	for (int i = 0; i < count; i++)
		if (values[i] != 0.0)
			return true;
	return false;
}

/* Mean, deviation, least and greatest value of the features, in the units of the centroids. */
static void
draft_statistics(Creation *creation)
{
	const GkFitSpec *spec = &creation->call.arguments.fit;
	const GkFitModel *model = &creation->call.fit.model;
	int			d = spec->dimension;
	double	   *mean = gk_allocate(d, sizeof(double));
	double	   *deviation = gk_allocate(d, sizeof(double));
	double	   *least = gk_allocate(d, sizeof(double));
	double	   *greatest = gk_allocate(d, sizeof(double));

	for (int j = 0; j < d; j++)
	{
		bool		keep = spec->metric == GK_COSINE;
		double		unit = keep ? 1.0 : model->factor[j] > 0.0 ? 1.0 / model->factor[j] : 0.0;
		double		origin = keep ? 0.0 : model->offset[j] + spec->shift[j];

		mean[j] = model->mean[j] * unit + origin;
		deviation[j] = sqrt(model->variance[j]) * unit;
		least[j] = model->least[j] * unit + origin;
		greatest[j] = model->greatest[j] * unit + origin;
	}
	gk_draft_doubles(&creation->draft, GK_MODEL_FEATURE_MEAN, mean, d);
	gk_draft_doubles(&creation->draft, GK_MODEL_FEATURE_DEVIATION, deviation, d);
	gk_draft_doubles(&creation->draft, GK_MODEL_FEATURE_LEAST, least, d);
	gk_draft_doubles(&creation->draft, GK_MODEL_FEATURE_GREATEST, greatest, d);
}

/* True if every number of a list equals its position. */
static bool
is_identity(const int32 *list, int count)
{
	for (int i = 0; i < count; i++)
		if (list[i] != i)
			return false;
	return true;
}

/* The ids of the clusters; those of initial centroids that ended empty are not used. */
static void
draft_ids(Creation *creation)
{
	const GkFit *fit = &creation->call.fit;
	int32	   *ids = gk_allocate(fit->k, sizeof(int32));

	for (int64 c = 0; c < fit->k; c++)
		ids[c] = fit->clusters[c].id;
	if (!is_identity(ids, (int) fit->k))
		gk_draft_integers(&creation->draft, GK_MODEL_CLUSTER_IDS, ids, (int) fit->k);
	pfree(ids);
}

/* How rows are compared. */
static void
draft_comparison(Creation *creation)
{
	const GkFitSpec *spec = &creation->call.arguments.fit;
	const GkFit *fit = &creation->call.fit;
	GkDraft    *draft = &creation->draft;
	int			d = spec->dimension;
	int			k = (int) fit->k;

	gk_draft_text(draft, GK_MODEL_METRIC, spec->metric == GK_COSINE ? "cosine" : "euclidean");
	gk_draft_set(draft, GK_MODEL_K, Int32GetDatum(k));
	gk_draft_set(draft, GK_MODEL_DIMENSION, Int32GetDatum(d));
	if (has_nonzero(spec->shift, d))
		gk_draft_doubles(draft, GK_MODEL_SHIFT, spec->shift, d);
	if (spec->scale != GK_SCALE_NONE)
	{
		gk_draft_doubles(draft, GK_MODEL_SCALE_OFFSET, fit->model.offset, d);
		gk_draft_doubles(draft, GK_MODEL_SCALE_FACTOR, fit->model.factor, d);
	}
	gk_draft_matrix(draft, GK_MODEL_CENTROIDS, fit->centroids, k, d);
	if (memcmp(fit->centroids, fit->model.points, (Size) k * d * sizeof(double)) != 0)
		gk_draft_matrix(draft, GK_MODEL_POINTS, fit->model.points, k, d);
	if (!is_identity(fit->model.ties, k))
		gk_draft_integers(draft, GK_MODEL_TIES, fit->model.ties, k);
	draft_ids(creation);
}

/* An array of numbers, some of which may be unknown. */
static Datum
measures_array(const double *values, int count)
{
	Datum	   *elements = gk_allocate(count, sizeof(Datum));
	bool	   *nulls = gk_allocate(count, sizeof(bool));
	int			lower = 1;

	for (int i = 0; i < count; i++)
	{
		nulls[i] = isnan(values[i]);
		elements[i] = Float8GetDatum(values[i]);
	}
	return PointerGetDatum(construct_md_array(elements, nulls, 1, &count, &lower, FLOAT8OID,
											  sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* The sizes of the clusters. */
static void
draft_sizes(Creation *creation)
{
	const GkFit *fit = &creation->call.fit;
	Datum	   *sizes = gk_allocate(fit->k, sizeof(Datum));

	for (int64 c = 0; c < fit->k; c++)
		sizes[c] = Int64GetDatum(fit->clusters[c].size);
	gk_draft_set(&creation->draft, GK_MODEL_SIZES,
				 PointerGetDatum(construct_array(sizes, (int) fit->k, INT8OID, sizeof(int64),
												 FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)));
}

/* The statistics of each cluster. */
static void
draft_clusters(Creation *creation)
{
	const GkFit *fit = &creation->call.fit;
	GkDraft    *draft = &creation->draft;
	int			k = (int) fit->k;
	double	   *numbers = gk_allocate(4 * fit->k, sizeof(double));

	for (int c = 0; c < k; c++)
	{
		numbers[c] = fit->clusters[c].weight;
		numbers[k + c] = fit->clusters[c].inertia;
		numbers[2 * k + c] = fit->clusters[c].avg_distance;
		numbers[3 * k + c] = fit->clusters[c].radius;
	}
	draft_sizes(creation);
	gk_draft_set(draft, GK_MODEL_WEIGHTS, measures_array(numbers, k));
	gk_draft_set(draft, GK_MODEL_INERTIAS, measures_array(numbers + k, k));
	gk_draft_set(draft, GK_MODEL_AVG_DISTANCES, measures_array(numbers + 2 * k, k));
	gk_draft_set(draft, GK_MODEL_RADII, measures_array(numbers + 3 * k, k));
}

/* The statistics of the fit as a whole. */
static void
draft_fit(Creation *creation)
{
	const GkCall *call = &creation->call;
	const GkFit *fit = &call->fit;
	GkDraft    *draft = &creation->draft;
	double	   *quantiles = gk_allocate(GK_QUANTILES, sizeof(double));

	gk_draft_set(draft, GK_MODEL_ROWS_READ, Int64GetDatum(call->rows.read));
	gk_draft_set(draft, GK_MODEL_ROWS_USED, Int64GetDatum(call->arguments.fit.rows));
	gk_draft_set(draft, GK_MODEL_INERTIA, Float8GetDatum(fit->inertia));
	gk_draft_set(draft, GK_MODEL_TOTAL_SS, Float8GetDatum(fit->model.total));
	gk_draft_set(draft, GK_MODEL_BETWEEN_SS, Float8GetDatum(fit->model.total - fit->inertia));
	gk_draft_set(draft, GK_MODEL_ITERATIONS, Int32GetDatum(fit->iterations));
	gk_draft_set(draft, GK_MODEL_CONVERGED, BoolGetDatum(fit->converged));
	gk_draft_json(draft, GK_MODEL_HISTORY, gk_history_json(&fit->model.history));
	if (gk_find_quantiles(call->engine, call->arguments.fit.metric, fit,
						  call->arguments.fit.rows, quantiles))
	{
		gk_draft_doubles(draft, GK_MODEL_SCORE_QUANTILES, quantiles, GK_QUANTILES);
		creation->score_quantiles = quantiles;
	}
}

/* Makes the row of the new version, while the engine has the rows. */
static void
draft_version(Creation *creation)
{
	MemoryContext before = MemoryContextSwitchTo(creation->call.caller);

	draft_features(creation);
	draft_comparison(creation);
	draft_statistics(creation);
	draft_clusters(creation);
	draft_fit(creation);
	MemoryContextSwitchTo(before);
}

/* Puts the clusters of an existing model that stays as it is. */
static void
put_existing(Oid relation_id, ReturnSetInfo *result)
{
	Relation	relation = gk_open_model(relation_id);
	GkHeads    *heads = gk_begin_heads(relation);

	gk_find_head_or_fail(heads, relation, 0);
	gk_put_model_clusters(relation, gk_head(heads), result, false);
	gk_end_heads(heads);
	relation_close(relation, NoLock);
}

/* Reads the arguments about the model, and creates or locks it; false if it is to be skipped. */
static bool
begin_creation(Creation *creation, FunctionCallInfo fcinfo)
{
	char	   *name = text_of(fcinfo, MODEL);
	char	   *if_exists = text_of(fcinfo, IF_EXISTS);
	GkModelExists choice = gk_model_exists_word(if_exists != NULL ? if_exists : "error");
	MemoryContext before = MemoryContextSwitchTo(creation->call.caller);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("model is NULL"),
				 errhint("Give a name for the model's table.")));
	PreventCommandIfReadOnly("gkmeans_create_model()");
	creation->score_quantiles = NULL;
	creation->definition = gk_definition(fcinfo);
	gk_begin_draft(&creation->draft);
	gk_draft_begun(&creation->draft);
	gk_draft_text(&creation->draft, GK_MODEL_NOTE, text_of(fcinfo, NOTE));
	gk_open_target(&creation->target, name, choice, creation->definition);
	MemoryContextSwitchTo(before);
	return !creation->target.exists || choice != GK_MODEL_SKIP;
}

/* Begins the job; where k is to be chosen, the greatest candidate stands for it. */
static void
begin_call(Creation *creation, FunctionCallInfo fcinfo)
{
	LOCAL_FCINFO(fit, ARGUMENTS);

	memset(&creation->candidates, 0, sizeof(creation->candidates));
	if (!gk_read_candidates(fcinfo, K_CANDIDATES, "k_candidates", &creation->candidates))
	{
		gk_call_begin(&creation->call, fcinfo, SOURCE);
		return;
	}
	if (!PG_ARGISNULL(K) || !PG_ARGISNULL(INITIAL_CENTROIDS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k_candidates and %s are given",
						PG_ARGISNULL(K) ? "initial_centroids" : "k"),
				 errhint("Leave out one of the two.")));
	InitFunctionCallInfoData(*fit, fcinfo->flinfo, ARGUMENTS, fcinfo->fncollation, NULL, NULL);
	for (int i = 0; i < ARGUMENTS; i++)
		fit->args[i] = fcinfo->args[i];
	fit->args[K].value = Int64GetDatum(creation->candidates.candidates[creation->candidates.count - 1]);
	fit->args[K].isnull = false;
	gk_call_begin(&creation->call, fit, SOURCE);
}

/* Fits with k, or with the candidate that is chosen; the table of the candidates goes into the row. */
static void
fit_model(Creation *creation)
{
	GkCall	   *call = &creation->call;
	GkSelection selection;
	MemoryContext before;

	if (creation->candidates.count == 0)
	{
		gk_call_fit(call);
		return;
	}
	gk_select_k(call, &creation->candidates, &selection);
	gk_take_chosen(call, &creation->candidates, &selection);
	before = MemoryContextSwitchTo(call->caller);
	gk_draft_json(&creation->draft, GK_MODEL_K_SELECTION, gk_selection_json(&selection));
	MemoryContextSwitchTo(before);
}

/* SQL: fits a model and creates its table. */
Datum
gkmeans_create_model(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Tuplestorestate *labels;
	GkLabelsWritten written;
	Creation	creation;
	GkCall	   *call = &creation.call;

	InitMaterializedSRF(fcinfo, 0);
	begin_call(&creation, fcinfo);
	if (!begin_creation(&creation, fcinfo))
	{
		MemoryContextSwitchTo(call->caller);
		gk_job_end(call->job);
		SPI_finish();
		put_existing(creation.target.relation_id, result);
		return (Datum) 0;
	}
	call->arguments.fit.for_model = true;
	call->arguments.of_model = true;
	gk_call_read(call);
	check_size(call);
	fit_model(&creation);
	gk_call_put_clusters(call, result);
	draft_version(&creation);
	gk_call_describe_fit(call, creation.target.version, NULL, creation.score_quantiles);
	labels = gk_call_labels(call);
	gk_call_end_job(call);
	gk_draft_json(&creation.draft, GK_MODEL_REPORT, gk_report_json(&call->report));
	gk_draft_deployed(&creation.draft, "fitted");
	gk_call_write_labels(call, labels, &written);
	gk_write_target(&creation.target, &creation.draft, creation.definition);
	gk_call_end(call);
	if (labels != NULL)
		tuplestore_end(labels);
	return (Datum) 0;
}
