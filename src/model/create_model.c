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
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "alloc.h"
#include "assign.h"
#include "clusters.h"
#include "definition.h"
#include "fit_call.h"
#include "fitted.h"
#include "selection.h"
#include "snapshot_rows.h"
#include "sql_function.h"
#include "sql_values.h"
#include "target.h"

GK_SQL_FUNCTION(gkmeans_create_model);

/* Places of the arguments; those after criterion are counted from the last one. */
enum
{
	MODEL,
	SOURCE,
	FEATURES,
	K,
	INITIAL_CENTROIDS = 7,
	LABELS_MODE = 17,
	K_CANDIDATES = 19,
	CRITERION,
	MOST_ARGUMENTS = 32
};

/* A call that makes a model. */
typedef struct Creation
{
	GkCall		call;
	GkCandidateSpec candidates;	/* count 0: k was given */
	GkTarget	target;
	GkDraft		draft;
	const char *definition;
	const char *path;			/* the search_path that was set when it was made */
} Creation;

/* Puts the clusters of an existing model that stays as it is. */
static void
put_existing(Oid relation_id, ReturnSetInfo *result)
{
	Relation	relation = gk_open_model(relation_id);
	GkHeads    *heads;

	/* it may have been made while the call waited */
	gk_push_writer_snapshot();
	heads = gk_begin_heads(relation);
	gk_find_head_or_fail(heads, relation, 0);
	gk_put_model_clusters(relation, gk_head(heads), result, false);
	gk_end_heads(heads);
	PopActiveSnapshot();
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
	creation->path = pstrdup(GetConfigOption("search_path", false, false));
	gk_begin_draft(&creation->draft);
	gk_draft_begun(&creation->draft);
	gk_draft_text(&creation->draft, GK_MODEL_NOTE, gk_text_or(fcinfo, last, NULL));
	gk_open_target(&creation->target, name, choice, creation->definition);
	gk_progress_model(creation->target.name);
	MemoryContextSwitchTo(before);
	return !creation->target.exists || choice != GK_MODEL_SKIP;
}

/* Begins the job; where k is to be chosen, the greatest candidate stands for it. */
static void
begin_call(Creation *creation, FunctionCallInfo fcinfo)
{
	GkCandidateSpec *candidates = &creation->candidates;
	LOCAL_FCINFO(fit, MOST_ARGUMENTS);

	memset(candidates, 0, sizeof(*candidates));
	if (!gk_read_candidates(fcinfo, K_CANDIDATES, "k_candidates", candidates))
	{
		gk_call_begin(&creation->call, fcinfo, SOURCE);
		return;
	}
	if (!PG_ARGISNULL(K) || !PG_ARGISNULL(INITIAL_CENTROIDS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("k_candidates and %s cannot both be given",
						PG_ARGISNULL(K) ? "initial_centroids" : "k"),
				 errhint("Leave out one of the two.")));
	Assert(PG_NARGS() <= MOST_ARGUMENTS);
	InitFunctionCallInfoData(*fit, fcinfo->flinfo, PG_NARGS(), fcinfo->fncollation, NULL, NULL);
	memcpy(fit->args, fcinfo->args, PG_NARGS() * sizeof(NullableDatum));
	fit->args[K].value = Int64GetDatum(candidates->candidates[candidates->count - 1]);
	fit->args[K].isnull = false;
	gk_call_begin(&creation->call, fit, SOURCE);
}

/* Fits with k, or with the candidate that is chosen; the table of these goes into the row. */
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

/* Notes in the definition which features were chosen, if none were given. */
static void
define_features(Creation *creation, FunctionCallInfo fcinfo)
{
	MemoryContext before = MemoryContextSwitchTo(creation->call.caller);

	if (PG_ARGISNULL(FEATURES))
		creation->definition = gk_define_features(creation->definition,
												  creation->call.report.features);
	MemoryContextSwitchTo(before);
}

/* Drafts the version's copy of the definition, in which a refit looks for the chosen candidate. */
static void
draft_definition(Creation *creation)
{
	Datum		definition = DirectFunctionCall1(jsonb_in, CStringGetDatum(creation->definition));

	gk_check_definition_path(DatumGetJsonbP(definition), creation->path);
	if (creation->candidates.count > 0)
		definition = JsonbPGetDatum(gk_define_k(DatumGetJsonbP(definition),
												creation->call.arguments.fit.k));
	gk_draft_set(&creation->draft, GK_MODEL_DEFINITION, definition);
}

/* SQL: fits a model and creates its table. */
Datum
gkmeans_create_model(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			nest_level = NewGUCNestLevel();
	Tuplestorestate *labels;
	GkLabelsWritten written;
	GkArguments asked;
	bool		is_written;
	Creation	creation;
	GkCall	   *call = &creation.call;

	InitMaterializedSRF(fcinfo, 0);
	begin_call(&creation, fcinfo);
	if (!begin_creation(&creation, fcinfo))
	{
		MemoryContextSwitchTo(call->caller);
		gk_job_end(call->job);
		gk_call_close(call);
		put_existing(creation.target.relation_id, result);
		AtEOXact_GUC(true, nest_level);
		return (Datum) 0;
	}
	call->arguments.fit.for_model = true;
	call->arguments.of_model = true;
	call->arguments.labels_are_new = PG_ARGISNULL(LABELS_MODE);
	call->arguments.labels_may_stay = true;
	gk_call_read(call);
	define_features(&creation, fcinfo);
	gk_check_model_size(call);
	fit_model(&creation);
	gk_call_put_clusters(call, result);
	gk_draft_version(&creation.draft, call);
	gk_call_describe_fit(call, creation.target.version, NULL);
	labels = gk_call_labels(call);
	gk_draft_figures(&creation.draft, call);
	gk_keep_request(call, &asked);
	gk_call_end_job(call);
	gk_draft_json(&creation.draft, GK_MODEL_REPORT, gk_report_json(&call->report));
	gk_draft_deployed(&creation.draft, "fitted");
	is_written = gk_call_write_labels(call, labels, &written);
	gk_progress_phase(GK_PHASE_WRITING);
	draft_definition(&creation);
	gk_write_target(&creation.target, &creation.draft, creation.definition);
	gk_call_end(call);
	/* what functions of the source have set does not count where its rows are read again */
	AtEOXact_GUC(is_written, nest_level);
	if (!is_written)
		(void) gk_assign_newer(call, creation.target.relation_id, creation.target.version, &asked);
	if (labels != NULL)
		tuplestore_end(labels);
	return (Datum) 0;
}
