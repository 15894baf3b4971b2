/*
 * The SQL functions that compare two clusterings: gkmeans_compare and gkmeans_transitions those of
 * models, or versions of one, gkmeans_compare_labels labels from anywhere.
 *
 * The models may have different features and scales, so the rows are labelled by the scoring
 * functions in one query, which the executor runs in parallel where it can.  Citus sends it to its
 * workers, where the models are not, or are others: there they are constants of the query, and it
 * collects the rows first, unless one worker has them all: each shard would get a query with all
 * constants otherwise.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/tstoreReceiver.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "alloc.h"
#include "assign.h"
#include "citus.h"
#include "contingency.h"
#include "definition.h"
#include "exported.h"
#include "label_pairs.h"
#include "model_cache.h"
#include "model_type.h"
#include "own_function.h"
#include "scorer.h"
#include "settings.h"
#include "source.h"
#include "source_columns.h"
#include "source_query.h"
#include "sql_function.h"
#include "summary.h"
#include "sql_values.h"
#include "table_name.h"

GK_SQL_FUNCTION(gkmeans_compare);
GK_SQL_FUNCTION(gkmeans_compare_labels);
GK_SQL_FUNCTION(gkmeans_transitions);

/*
 * The functions that label a row, by a model or by what it exports.  Citus looks the latter up once
 * more when it has the rows, so that is in a schema where nobody can make a better match.
 */
#define PREDICT "gkmeans_predict_version"
#define PREDICT_WITH "_gkmeans_predict_with"

/* The columns of a row that says how much two clusterings agree. */
#define AGREEMENT_COLUMNS 5

/* Two models and the rows that they share. */
typedef struct Comparison
{
	const GkModel *from;
	const GkModel *to;
	GkContingency contingency;
} Comparison;

/* Raises the error of an argument that must not be NULL. */
static void
refuse_null(const char *argument)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s is NULL", argument)));
}

/* The model and version of two arguments. */
static const GkModel *
read_model(FunctionCallInfo fcinfo, int model, const char *argument, int version)
{
	if (PG_ARGISNULL(model))
		refuse_null(argument);
	return gk_read_model(PG_GETARG_OID(model), gk_version_argument(fcinfo, version),
						 CurrentMemoryContext);
}

/* A call that labels a row of the source. */
static const char *
labelling(const GkModel *model, bool is_of_citus)
{
	if (is_of_citus)
		return psprintf("gkmeans." PREDICT_WITH "(%s::pg_catalog.jsonb, source.*)",
						quote_literal_cstr(gk_export_model(model, NULL)));
	return psprintf("%s." PREDICT "(%u::pg_catalog.regclass, %d, source.*)",
					gk_extension_schema_name(), model->relation, model->version);
}

/*
 * Makes sure that a query calls that function for both models, not a better match of its name, and
 * that Citus still plans it, or does not.
 */
static void
check_labelling(const Query *query, const void *function)
{
	if (gk_is_citus_query(query) != (strcmp(function, PREDICT_WITH) == 0))
		gk_refuse_change();
	for (int i = 0; i < 2; i++)
	{
		const Node *call = gk_query_column(query, list_nth_node(TargetEntry, query->targetList, i));

		gk_check_own_function(IsA(call, FuncExpr) ? ((const FuncExpr *) call)->funcid : InvalidOid,
							  function);
	}
}

/*
 * The same where Citus plans it and writes the outer query anew, with unqualified names: all are
 * looked up by now, and it is planned by another path.
 */
static void
check_export_labelling(const Query *query, const void *function)
{
	check_labelling(query, function);
	gk_citus_set_search_path();
}

/* True if Citus plans a query over the source. */
static bool
is_of_citus(const GkSourceText *source)
{
	return gk_has_citus() &&
		gk_is_citus_query(gk_query_rewrite(source, psprintf("SELECT FROM %s AS source",
															source->from)));
}

/* The text of an argument that must be there. */
static char *
text_of(FunctionCallInfo fcinfo, int number, const char *argument)
{
	if (PG_ARGISNULL(number))
		refuse_null(argument);
	return text_to_cstring(PG_GETARG_TEXT_PP(number));
}

/* Takes what a query found; rows that lack one of the labels are left out. */
static void
take_rows(GkContingency *contingency, Tuplestorestate *store, TupleDesc descriptor)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);

	contingency->shared = gk_allocate(tuplestore_tuple_count(store), sizeof(GkShared));
	while (tuplestore_gettupleslot(store, true, false, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (!slot->tts_isnull[0] && !slot->tts_isnull[1])
			contingency->shared[contingency->count++] =
				(GkShared) {DatumGetInt32(slot->tts_values[0]), DatumGetInt32(slot->tts_values[1]),
			DatumGetInt64(slot->tts_values[2])};
	}
	ExecDropSingleTupleTableSlot(slot);
}

/* Raises an error if a list of nodes has the rows: only this server can run a query over all. */
static void
refuse_nodes(void)
{
	bool		automatic;

	if (gk_named_nodes(&automatic) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compare clusterings while gkmeans.nodes is a list of servers"),
				 errdetail("This server would read its own table of that name, not the nodes'."),
				 errhint("Set gkmeans.nodes to '' or 'auto'.")));
}

/* Raises an error if no row has labels of both. */
static void
check_rows(const GkContingency *contingency)
{
	if (contingency->count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the source has no row with both labels")));
}

/*
 * Labels the rows of a source, and counts those with the same labels; true if they were read by a
 * newer snapshot than the models.
 */
static bool
count_rows(const GkSourceText *source, Comparison *comparison)
{
	Tuplestorestate *store = tuplestore_begin_heap(false, false, work_mem);
	DestReceiver *receiver = CreateTuplestoreDestReceiver();
	bool		by_export = is_of_citus(source);
	int			limit_level = NewGUCNestLevel();
	int			path_level;
	GkSourceQuery *query;
	bool		is_changed;
	bool		is_newer;

	if (by_export)
		gk_set_locally("citus.max_intermediate_result_size", "-1");
	query = gk_query_plan(source,
						  psprintf("SELECT %s, %s, pg_catalog.count(*) FROM %s%s AS source%s"
								   " GROUP BY 1, 2 ORDER BY 1, 2",
								   labelling(comparison->from, by_export),
								   labelling(comparison->to, by_export),
								   by_export ? "(SELECT * FROM " : "", source->from,
								   by_export ? " OFFSET 0) AS source" : ""),
						  InvalidOid, by_export ? check_export_labelling : check_labelling,
						  by_export ? PREDICT_WITH : PREDICT);
	path_level = NewGUCNestLevel();
	/* and run by that */
	if (by_export)
		gk_citus_set_search_path();
	SetTuplestoreDestReceiverParams(receiver, store, CurrentMemoryContext, false, NULL, NULL);
	is_newer = gk_query_push_snapshot(query, &is_changed);
	gk_query_run(query, NULL, receiver);
	PopActiveSnapshot();
	AtEOXact_GUC(true, path_level);
	AtEOXact_GUC(true, limit_level);
	take_rows(&comparison->contingency, store,
			  ExecCleanTypeFromTL(query->plan->planTree->targetlist));
	receiver->rDestroy(receiver);
	tuplestore_end(store);
	check_rows(&comparison->contingency);
	return is_newer;
}

/* Labels the rows of a source by both models. */
static void
compare_models(FunctionCallInfo fcinfo, Comparison *comparison)
{
	int			nest_level = NewGUCNestLevel();
	GkSourceText *source;
	bool		is_newer;

	if (!PG_ARGISNULL(0))
		gk_push_definition_snapshot(PG_GETARG_OID(0), PG_ARGISNULL(2));
	comparison->from = read_model(fcinfo, 0, "model_a", 3);
	comparison->to = read_model(fcinfo, 1, "model_b", 4);
	source = gk_source_text(gk_source_argument(fcinfo, 2, PG_GETARG_OID(0)));
	refuse_nodes();
	is_newer = count_rows(source, comparison);
	AtEOXact_GUC(false, nest_level);
	if (is_newer && gk_version_argument(fcinfo, 3) == 0)
		gk_check_overtaken(comparison->from);
	if (is_newer && gk_version_argument(fcinfo, 4) == 0)
		gk_check_overtaken(comparison->to);
	PopActiveSnapshot();
}

/* Measures how much two clusterings agree, and makes the row of it. */
static Datum
agreement_row(TupleDesc descriptor, const GkContingency *contingency)
{
	GkAgreement agreement;
	Datum		values[AGREEMENT_COLUMNS];
	bool		nulls[AGREEMENT_COLUMNS] = {0};

	gk_measure_agreement(contingency, &agreement);
	values[0] = Int64GetDatum(agreement.rows);
	values[1] = Float8GetDatum(agreement.adjusted_rand);
	values[2] = Float8GetDatum(agreement.normalized_mutual_info);
	values[3] = Int64GetDatum(agreement.moved);
	values[4] = Float8GetDatum((double) agreement.moved / agreement.rows);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}

/* SQL: how much two models agree on the rows of a source. */
Datum
gkmeans_compare(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, AGREEMENT_COLUMNS);
	Comparison	comparison = {0};

	compare_models(fcinfo, &comparison);
	return agreement_row(descriptor, &comparison.contingency);
}

/* SQL: how much two columns of labels agree. */
Datum
gkmeans_compare_labels(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, AGREEMENT_COLUMNS);
	GkSourceText *source = gk_source_text(text_of(fcinfo, 0, "source"));
	const char *a = text_of(fcinfo, 1, "label_a");
	const char *b = text_of(fcinfo, 2, "label_b");
	GkContingency contingency = {0};
	GkSourceQuery *query;

	gk_source_require(source, a, "label_a");
	gk_source_require(source, b, "label_b");
	refuse_nodes();
	query = gk_query_plan(source, psprintf("SELECT source.%s, source.%s FROM %s AS source",
										   quote_identifier(a), quote_identifier(b), source->from),
						  InvalidOid, NULL, NULL);
	gk_count_labels(query, &contingency);
	check_rows(&contingency);
	return agreement_row(descriptor, &contingency);
}

/* The place of the cluster with an id. */
static int
place_of_id(const GkModel *model, int id)
{
	int			low = 0;
	int			high = model->k - 1;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (gk_cluster_id(model, middle) < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The names of the clusters as texts, by place. */
static Datum *
names_of(const GkModel *model)
{
	Datum	   *names = gk_allocate(model->k, sizeof(Datum));

	for (int place = 0; place < model->k; place++)
	{
		const char *name = gk_cluster_name(model, place);

		names[place] = PointerGetDatum(cstring_to_text_with_len(name, gk_repeated_length(name)));
	}
	return names;
}

/* Rows of a cluster of the first model, from an entry on. */
static int64
rows_from(const GkContingency *contingency, int64 entry)
{
	int64		rows = 0;

	for (int64 i = entry; i < contingency->count &&
		 contingency->shared[i].from == contingency->shared[entry].from; i++)
		rows += contingency->shared[i].rows;
	return rows;
}

/* SQL: how many rows of each cluster of one model are in each of another. */
Datum
gkmeans_transitions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Comparison	comparison = {0};
	const GkContingency *contingency = &comparison.contingency;
	const Datum *from_names;
	const Datum *to_names;
	int64		rows = 0;

	InitMaterializedSRF(fcinfo, 0);
	compare_models(fcinfo, &comparison);
	/* made once, because the pairs of clusters may be many */
	from_names = names_of(comparison.from);
	to_names = names_of(comparison.to);
	for (int64 i = 0; i < contingency->count; i++)
	{
		const GkShared *shared = &contingency->shared[i];
		Datum		values[6];
		bool		nulls[6] = {0};

		CHECK_FOR_INTERRUPTS();
		if (i == 0 || shared->from != contingency->shared[i - 1].from)
			rows = rows_from(contingency, i);
		values[0] = Int32GetDatum(shared->from);
		values[1] = from_names[place_of_id(comparison.from, shared->from)];
		values[2] = Int32GetDatum(shared->to);
		values[3] = to_names[place_of_id(comparison.to, shared->to)];
		values[4] = Int64GetDatum(shared->rows);
		values[5] = Float8GetDatum((double) shared->rows / rows);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
