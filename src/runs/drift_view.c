/*
 * The function behind the view gkmeans.drift: the drift recorded in the rows of a model.
 *
 * Rows are untrusted input: what gkmeans would not have written is left out.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "definition.h"
#include "model.h"
#include "sql_function.h"
#include "summary.h"

GK_SQL_FUNCTION(gk_visible_drift);

/* The names of the clusters of the deployed version. */
typedef struct Names
{
	int			count;
	GkSummary	summary;
} Names;

/* Reads the names; none if no version is deployed, or it is damaged. */
static void
read_names(Relation relation, Names *names)
{
	GkHeads    *heads = gk_begin_heads(relation);
	GkModelRow	row;

	memset(names, 0, sizeof(*names));
	if (gk_find_head(heads, 0))
	{
		gk_open_row(&row, relation, gk_head(heads));
		if (gk_row_has_centroids(&row) && gk_try_summary(&row, false, &names->summary))
			names->count = names->summary.k;
	}
	gk_end_heads(heads);
}

/* The name of a cluster; ids ascend. */
static const char *
name_of(const Names *names, int id)
{
	int			low = 0;
	int			high = names->count - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;
		int			found = gk_summary_id(&names->summary, middle);

		if (found == id)
			return gk_summary_name(&names->summary, middle);
		if (found < id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return psprintf("cluster %d", id);
}

/* Puts a number that may be unknown. */
static void
put_number(JsonbContainer *cluster, const char *key, Datum *value, bool *is_null)
{
	double		number = gk_json_number(cluster, key);

	*is_null = isnan(number);
	*value = Float8GetDatum(number);
}

/* Puts the recorded drift of one cluster into a result. */
static void
put_cluster(const GkModelRow *row, const Names *names, JsonbContainer *cluster,
			ReturnSetInfo *result)
{
	double		id = gk_json_number(cluster, "cluster_id");
	Datum		values[9] = {0};
	bool		nulls[9] = {0};

	if (!(id >= 0.0 && id < GK_MAX_CLUSTERS))
		return;
	values[0] = Int32GetDatum(row->version);
	values[1] = slot_getattr(row->slot, GK_MODEL_FINISHED_AT, &nulls[1]);
	values[2] = Int32GetDatum((int) id);
	values[3] = CStringGetTextDatum(name_of(names, (int) id));
	put_number(cluster, "share_then", &values[4], &nulls[4]);
	put_number(cluster, "share_now", &values[5], &nulls[5]);
	put_number(cluster, "psi", &values[6], &nulls[6]);
	put_number(cluster, "avg_distance_then", &values[7], &nulls[7]);
	put_number(cluster, "avg_distance_now", &values[8], &nulls[8]);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Puts the drift recorded in one row into a result. */
static void
put_row(const GkModelRow *row, const Names *names, ReturnSetInfo *result)
{
	bool		is_null;
	Datum		drift = slot_getattr(row->slot, GK_MODEL_DRIFT, &is_null);
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	value;

	if (is_null || !gk_json_find(&DatumGetJsonbP(drift)->root, "clusters", &value) ||
		value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data))
		return;
	iterator = JsonbIteratorInit(value.val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (token == WJB_ELEM && value.type == jbvBinary &&
			JsonContainerIsObject(value.val.binary.data))
			put_cluster(row, names, value.val.binary.data, result);
	}
}

/* SQL: the recorded drift of the clusters of a model. */
Datum
gk_visible_drift(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	relation = gk_open_visible_model(PG_GETARG_OID(0));
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans drift",
												  ALLOCSET_DEFAULT_SIZES);
	GkHeads    *heads;
	Names		names;

	InitMaterializedSRF(fcinfo, 0);
	if (relation == NULL)
		return (Datum) 0;
	read_names(relation, &names);
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		MemoryContext before = MemoryContextSwitchTo(context);
		GkModelRow	row;

		gk_open_row(&row, relation, gk_head(heads));
		put_row(&row, &names, result);
		MemoryContextSwitchTo(before);
		MemoryContextReset(context);
	}
	gk_end_heads(heads);
	relation_close(relation, AccessShareLock);
	return (Datum) 0;
}
