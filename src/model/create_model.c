/*
 * The SQL function gkmeans_create_model.
 */
#include "postgres.h"

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
#include "fitted.h"
#include "sql_function.h"
#include "sql_values.h"
#include "target.h"

GK_SQL_FUNCTION(gkmeans_create_model);

/* Places of the arguments. */
enum
{
	MODEL,
	SOURCE
};

/* A call that makes a model. */
typedef struct Creation
{
	GkCall		call;
	GkTarget	target;
	GkDraft		draft;
	const char *definition;
} Creation;

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
	int			last = PG_NARGS() - 1;
	const char *name = gk_text_or(fcinfo, MODEL, NULL);
	GkModelExists choice = gk_model_exists_word(gk_text_or(fcinfo, last - 1, "error"));
	MemoryContext before = MemoryContextSwitchTo(creation->call.caller);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("model is NULL"),
				 errhint("Give a name for the model's table.")));
	PreventCommandIfReadOnly("gkmeans_create_model()");
	gk_call_track_changes(&creation->call, gk_text_or(fcinfo, last - 2, NULL));
	creation->definition = gk_definition(fcinfo);
	gk_begin_draft(&creation->draft);
	gk_draft_begun(&creation->draft);
	gk_draft_text(&creation->draft, GK_MODEL_NOTE, gk_text_or(fcinfo, last, NULL));
	gk_open_target(&creation->target, name, choice, creation->definition);
	gk_progress_model(creation->target.name);
	MemoryContextSwitchTo(before);
	return !creation->target.exists || choice != GK_MODEL_SKIP;
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
	gk_call_begin(call, fcinfo, SOURCE);
	if (!begin_creation(&creation, fcinfo))
	{
		MemoryContextSwitchTo(call->caller);
		gk_job_end(call->job);
		gk_call_close(call);
		put_existing(creation.target.relation_id, result);
		return (Datum) 0;
	}
	call->arguments.fit.for_model = true;
	call->arguments.of_model = true;
	gk_call_read(call);
	gk_check_model_size(call);
	gk_call_fit(call);
	gk_call_put_clusters(call, result);
	gk_draft_version(&creation.draft, call);
	gk_call_describe_fit(call, creation.target.version, NULL);
	labels = gk_call_labels(call);
	gk_call_end_job(call);
	gk_draft_json(&creation.draft, GK_MODEL_REPORT, gk_report_json(&call->report));
	gk_draft_deployed(&creation.draft, "fitted");
	gk_call_write_labels(call, labels, &written);
	gk_progress_phase(GK_PHASE_WRITING);
	gk_write_target(&creation.target, &creation.draft, creation.definition);
	gk_call_end(call);
	if (labels != NULL)
		tuplestore_end(labels);
	return (Datum) 0;
}
