/*
 * The function behind the view gkmeans.drift: the drift recorded in the rows of a model.
 *
 * Rows are untrusted input: what gkmeans would not have written is left out.
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "alloc.h"
#include "definition.h"
#include "model.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gk_visible_drift);

/* The versions of a model, ascending. */
typedef struct Versions
{
	int		   *numbers;
	int			count;
} Versions;

/* The version that the rows of a drift were compared with; 0 = not known, or deleted since. */
static int
version_then(const GkModelRow *row, const Versions *versions, JsonbContainer *drift)
{
	/* an imported drift is that of another model */
	bool		is_imported = gk_row_has_status(row, "imported");
	double		number = is_imported ? 0.0 : gk_json_number(drift, "version");
	int			version = number >= 1.0 && number < row->version ? (int) number : 0;

	return bsearch_arg(&version, versions->numbers, versions->count, sizeof(int),
					   gk_compare_integers, NULL) != NULL ? version : 0;
}

/* The name that a cluster had then. */
static Datum
name_of(JsonbContainer *cluster, int id)
{
	JsonbValue	name;
	char		number[32];

	if (gk_json_find(cluster, "name", &name) && name.type == jbvString)
		return PointerGetDatum(cstring_to_text_with_len(name.val.string.val, name.val.string.len));
	snprintf(number, sizeof(number), "cluster %d", id);
	return CStringGetTextDatum(number);
}

/* Puts a number that may be unknown. */
static void
put_number(JsonbContainer *cluster, const char *key, Datum *value, bool *is_null)
{
	double		number = gk_json_number(cluster, key);

	*is_null = isnan(number);
	*value = Float8GetDatum(number);
}

/*
 * Puts the recorded drift of one cluster of that version into a result; returns its id, or the last
 * one if it does not come after that: gkmeans records each once, in order.
 */
static double
put_cluster(const GkModelRow *row, int then, JsonbContainer *cluster, double last,
			ReturnSetInfo *result)
{
	double		id = gk_json_number(cluster, "cluster_id");
	Datum		values[10] = {0};
	bool		nulls[10] = {0};

	if (!(id > last && id < GK_MAX_CLUSTERS && id == trunc(id)))
		return last;
	values[0] = Int32GetDatum(row->version);
	values[1] = slot_getattr(row->slot, GK_MODEL_FINISHED_AT, &nulls[1]);
	values[2] = Int32GetDatum((int) id);
	values[3] = name_of(cluster, (int) id);
	put_number(cluster, "share_then", &values[4], &nulls[4]);
	put_number(cluster, "share_now", &values[5], &nulls[5]);
	put_number(cluster, "psi", &values[6], &nulls[6]);
	put_number(cluster, "avg_distance_then", &values[7], &nulls[7]);
	put_number(cluster, "avg_distance_now", &values[8], &nulls[8]);
	values[9] = Int32GetDatum(then);
	nulls[9] = then == 0;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	/* there may be millions */
	pfree(DatumGetPointer(values[3]));
	return id;
}

/* Puts the drift recorded in one row into a result. */
static void
put_row(const GkModelRow *row, const Versions *versions, ReturnSetInfo *result)
{
	Jsonb	   *drift = gk_row_json(row, GK_MODEL_DRIFT);
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	value;
	double		last = -1.0;
	int			then;

	if (drift == NULL || !gk_json_find(&drift->root, "clusters", &value) ||
		value.type != jbvBinary || !JsonContainerIsArray(value.val.binary.data))
		return;
	then = version_then(row, versions, &drift->root);
	iterator = JsonbIteratorInit(value.val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (token == WJB_ELEM && value.type == jbvBinary &&
			JsonContainerIsObject(value.val.binary.data))
			last = put_cluster(row, then, value.val.binary.data, last, result);
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
	Versions	versions;

	InitMaterializedSRF(fcinfo, 0);
	if (relation == NULL)
		return (Datum) 0;
	versions.numbers = gk_model_versions(relation, &versions.count);
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		MemoryContext before = MemoryContextSwitchTo(context);
		GkModelRow	row;

		gk_open_row(&row, relation, gk_head(heads));
		put_row(&row, &versions, result);
		MemoryContextSwitchTo(before);
		MemoryContextReset(context);
	}
	gk_end_heads(heads);
	gk_close_visible_model(relation);
	return (Datum) 0;
}
