/*
 * The SQL functions gkmeans_drift and gkmeans_feature_drift.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "alloc.h"
#include "assign.h"
#include "defined_call.h"
#include "definition.h"
#include "drift.h"
#include "model_cache.h"
#include "model_writes.h"
#include "owner.h"
#include "run.h"
#include "sql_function.h"
#include "sql_values.h"

GK_SQL_FUNCTION(gkmeans_drift);
GK_SQL_FUNCTION(gkmeans_feature_drift);

/* Positions of the arguments. */
enum
{
	MODEL,
	SOURCE,
	VERSION
};

/* The state of a call. */
typedef struct Look
{
	Relation	relation;
	const GkModel *model;
	GkThen		then;
	bool		as_owner;		/* the source is that of the definition */
	GkOwner		owner;
	GkCall		call;
	GkDrift		drift;
} Look;

/* Opens the model: as its owner, if the source is the owner's text. */
static void
open_model(Look *look, FunctionCallInfo fcinfo)
{
	gk_require_argument(fcinfo, MODEL, "model");
	look->as_owner = PG_ARGISNULL(SOURCE);
	look->relation = gk_open_model(PG_GETARG_OID(MODEL));
	if (look->as_owner)
		gk_begin_as_owner(look->relation, &look->owner);
}

/* Reads the requested version. */
static void
read_version(Look *look, FunctionCallInfo fcinfo)
{
	int			version = gk_version_argument(fcinfo, VERSION);
	GkHeads    *heads = gk_begin_heads(look->relation);
	GkModelRow	row;

	look->model = gk_read_model(PG_GETARG_OID(MODEL), version, CurrentMemoryContext);
	gk_find_head_or_fail(heads, look->relation, version);
	gk_open_row(&row, look->relation, gk_head(heads));
	gk_read_then(&row, &look->then);
	gk_end_heads(heads);
}

/* The source of the definition, with its weights. */
static void
use_definition(Look *look)
{
	Jsonb	   *definition = gk_model_definition(look->relation);
	GkArguments *arguments = &look->call.arguments;

	gk_use_definition_path(definition);
	arguments->source.source = gk_definition_text(definition, "source");
	arguments->source.weight_column = gk_definition_text(definition, "weight_column");
	arguments->fit.weighted = arguments->source.weight_column != NULL;
	if (arguments->source.source == NULL)
		gk_model_has_no_source(look->relation);
}

/* Reads the rows, and labels them with the version. */
static void
read_rows(Look *look, FunctionCallInfo fcinfo)
{
	GkCall	   *call = &look->call;

	gk_call_open(call);
	gk_progress_model(gk_quoted_model_name(RelationGetRelid(look->relation)));
	if (look->as_owner)
		use_definition(look);
	else
		call->arguments.source.source = text_to_cstring(PG_GETARG_TEXT_PP(SOURCE));
	gk_call_compare_as(call, look->model);
	call->arguments.fit.k = look->model->k;
	call->arguments.fit.n_init = 1;
	call->arguments.fit.max_iter = 1;
	gk_call_read(call);
	if (gk_version_argument(fcinfo, VERSION) == 0 &&
		(call->rows.is_newer || call->cluster != NULL))
		gk_check_overtaken(look->model);
	gk_call_check_rows(call);
	gk_call_check_as(call, look->model);
}

/* Computes the drift, in the current memory context. */
static void
find_drift(Look *look)
{
	GkCall	   *call = &look->call;
	GkFitSpec  *spec = &call->arguments.fit;
	GkCluster  *now = gk_allocate(look->model->k, sizeof(GkCluster));
	GkPrepared	prepared;
	MemoryContext before;

	gk_prepare(call->job, spec, &prepared);
	(void) gk_fit_label(call->job, spec, &prepared, spec->points, look->model->k, now);
	before = MemoryContextSwitchTo(call->caller);
	gk_find_drift(look->model, &look->then, now, spec, &prepared, &call->rows, &look->drift);
	MemoryContextSwitchTo(before);
	gk_call_end_job(call);
	gk_call_close(call);
}

/* Reads the rows and computes their drift. */
static void
look_at(Look *look, FunctionCallInfo fcinfo)
{
	memset(look, 0, sizeof(Look));
	open_model(look, fcinfo);
	gk_push_definition_snapshot(PG_GETARG_OID(MODEL), look->as_owner);
	read_version(look, fcinfo);
	read_rows(look, fcinfo);
	find_drift(look);
	PopActiveSnapshot();
	relation_close(look->relation, NoLock);
	if (look->as_owner)
		gk_end_as_owner(&look->owner);
}

/* SQL: how the rows of the clusters of a model changed. */
Datum
gkmeans_drift(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Look		look;

	InitMaterializedSRF(fcinfo, 0);
	look_at(&look, fcinfo);
	for (int c = 0; c < look.drift.k; c++)
	{
		const GkClusterDrift *cluster = &look.drift.clusters[c];
		Datum		values[10];
		bool		nulls[10] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int32GetDatum(cluster->cluster_id);
		values[1] = CStringGetTextDatum(cluster->name);
		nulls[2] = cluster->rows_then < 0;
		values[2] = Int64GetDatum(cluster->rows_then);
		gk_put_number(&values[3], &nulls[3], cluster->share_then);
		values[4] = Int64GetDatum(cluster->rows_now);
		gk_put_number(&values[5], &nulls[5], cluster->share_now);
		gk_put_number(&values[6], &nulls[6], cluster->psi);
		gk_put_number(&values[7], &nulls[7], cluster->avg_distance_then);
		gk_put_number(&values[8], &nulls[8], cluster->avg_distance_now);
		gk_put_number(&values[9], &nulls[9], gk_drift_ratio(cluster->avg_distance_now,
														 cluster->avg_distance_then));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* SQL: how the features of the rows of a model changed. */
Datum
gkmeans_feature_drift(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Look		look;

	InitMaterializedSRF(fcinfo, 0);
	look_at(&look, fcinfo);
	for (int j = 0; j < look.drift.dimension; j++)
	{
		const GkFeatureDrift *feature = &look.drift.features[j];
		Datum		values[8];
		bool		nulls[8] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = CStringGetTextDatum(feature->feature);
		gk_put_number(&values[1], &nulls[1], feature->mean_then);
		gk_put_number(&values[2], &nulls[2], feature->mean_now);
		gk_put_number(&values[3], &nulls[3], feature->shift);
		gk_put_number(&values[4], &nulls[4], feature->deviation_then);
		gk_put_number(&values[5], &nulls[5], feature->deviation_now);
		gk_put_number(&values[6], &nulls[6], feature->deviation_ratio);
		gk_put_number(&values[7], &nulls[7], feature->unusable_now);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
