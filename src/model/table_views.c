/*
 * The functions behind the views gkmeans.iterations and gkmeans.k_selection, which read tables
 * stored as JSON arrays of objects in the rows of a model.
 *
 * Rows are untrusted input: an object without its key is left out, and anything else that
 * gkmeans would not have written counts as unknown.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/rel.h"

#include "definition.h"
#include "model.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gk_visible_iterations);
GK_SQL_FUNCTION(gk_visible_k_selection);

#define MOST_COLUMNS 16
#define MOST_KEYS 2

/* A table of one row of a model, on its way into a result; column 0 is the version. */
typedef struct Table
{
	GkModelAttribute attribute;
	int			keys;			/* columns from 1 on that tell the objects apart */
	ReturnSetInfo *result;
	double		last[MOST_KEYS];	/* keys of the object before, which ascend */
} Table;

/* A number as a value of some type; false if it does not fit. */
static bool
convert_number(double number, Oid type, Datum *value)
{
	double		greatest = type == INT4OID ? PG_INT32_MAX : 0x1p53;

	if (isnan(number))
		return false;
	if (type == FLOAT8OID)
		*value = Float8GetDatum(number);
	else if (!(number >= 0.0 && number <= greatest && number == floor(number)))
		return false;
	else
		*value = type == INT4OID ? Int32GetDatum((int32) number) : Int64GetDatum((int64) number);
	return true;
}

/* The value of a column in an object; false if it is not known. */
static bool
find_value(JsonbContainer *object, Form_pg_attribute column, Datum *value)
{
	const char *key = NameStr(column->attname);
	JsonbValue	found;

	if (column->atttypid != BOOLOID)
		return convert_number(gk_json_number(object, key), column->atttypid, value);
	if (!gk_json_find(object, key, &found) || found.type != jbvBool)
		return false;
	*value = BoolGetDatum(found.val.boolean);
	return true;
}

/* True if the keys of an object come after those of the one before, which makes them unique. */
static bool
comes_next(Table *table, const Datum *values)
{
	int			order = 0;

	for (int i = 0; i < table->keys && order == 0; i++)
	{
		double		key = DatumGetInt32(values[1 + i]);

		order = (key > table->last[i]) - (key < table->last[i]);
	}
	if (order <= 0)
		return false;
	for (int i = 0; i < table->keys; i++)
		table->last[i] = DatumGetInt32(values[1 + i]);
	return true;
}

/* Puts an object into the result. */
static void
put_object(Table *table, int version, JsonbContainer *object)
{
	TupleDesc	descriptor = table->result->setDesc;
	Datum		values[MOST_COLUMNS] = {0};
	bool		nulls[MOST_COLUMNS] = {0};

	Assert(descriptor->natts <= MOST_COLUMNS);
	values[0] = Int32GetDatum(version);
	for (int i = 1; i < descriptor->natts; i++)
	{
		nulls[i] = !find_value(object, TupleDescAttr(descriptor, i), &values[i]);
		if (nulls[i] && i <= table->keys)
			return;
	}
	if (comes_next(table, values))
		tuplestore_putvalues(table->result->setResult, descriptor, values, nulls);
}

/* Puts the table of one row into the result. */
static void
put_table(Table *table, const GkModelRow *row)
{
	Jsonb	   *json = gk_row_json(row, table->attribute);
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	value;

	if (json == NULL || !JB_ROOT_IS_ARRAY(json) || JB_ROOT_IS_SCALAR(json))
		return;
	for (int i = 0; i < MOST_KEYS; i++)
		table->last[i] = -1.0;
	iterator = JsonbIteratorInit(&json->root);
	while ((token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (token == WJB_ELEM && value.type == jbvBinary &&
			JsonContainerIsObject(value.val.binary.data))
			put_object(table, row->version, value.val.binary.data);
	}
}

/* Puts the tables of all rows of a model into the result. */
static Datum
put_tables(FunctionCallInfo fcinfo, GkModelAttribute attribute, int keys)
{
	Table		table = {.attribute = attribute,.keys = keys};
	Relation	relation = gk_open_visible_model(PG_GETARG_OID(0));
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans table",
												  ALLOCSET_DEFAULT_SIZES);
	GkHeads    *heads;

	InitMaterializedSRF(fcinfo, 0);
	if (relation == NULL)
		return (Datum) 0;
	table.result = (ReturnSetInfo *) fcinfo->resultinfo;
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		MemoryContext before = MemoryContextSwitchTo(context);
		GkModelRow	row;

		gk_open_row(&row, relation, gk_head(heads));
		put_table(&table, &row);
		MemoryContextSwitchTo(before);
		MemoryContextReset(context);
	}
	gk_end_heads(heads);
	gk_close_visible_model(relation);
	return (Datum) 0;
}

/* SQL: the iterations of the fits of a model. */
Datum
gk_visible_iterations(PG_FUNCTION_ARGS)
{
	return put_tables(fcinfo, GK_MODEL_HISTORY, 2);
}

/* SQL: the candidates of k of the fits of a model. */
Datum
gk_visible_k_selection(PG_FUNCTION_ARGS)
{
	return put_tables(fcinfo, GK_MODEL_K_SELECTION, 1);
}
