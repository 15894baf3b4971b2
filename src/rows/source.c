/*
 * The row source: which columns of the user's query are features, id and weight.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/plancache.h"

#include "source_columns.h"
#include "source_text.h"

/* The columns that a FROM item yields. */
static TupleDesc
describe_columns(const char *from)
{
	SPIPlanPtr	plan = SPI_prepare(psprintf("SELECT * FROM %s AS source", from), 0, NULL);
	CachedPlanSource *source;
	TupleDesc	columns;

	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	source = linitial(SPI_plan_get_plan_sources(plan));
	columns = CreateTupleDescCopy(source->resultDesc);
	SPI_freeplan(plan);
	return columns;
}

/* The name of a column. */
static const char *
column_name(const GkSource *source, int column)
{
	return NameStr(TupleDescAttr(source->columns, column - 1)->attname);
}

/* The type of a column. */
static Oid
column_type(const GkSource *source, int column)
{
	return TupleDescAttr(source->columns, column - 1)->atttypid;
}

/* The names of all columns, for a HINT. */
static const char *
column_names(const GkSource *source)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 1; i <= source->columns->natts; i++)
		appendStringInfo(&names, "%s%s", i > 1 ? ", " : "",
						 quote_identifier(column_name(source, i)));
	return names.data;
}

/* Finds a column by its name. */
static int
find_column(const GkSource *source, const char *name)
{
	int			found = 0;

	for (int i = 1; i <= source->columns->natts; i++)
	{
		if (strcmp(column_name(source, i), name) != 0)
			continue;
		if (found > 0)
			ereport(ERROR,
					(errcode(ERRCODE_AMBIGUOUS_COLUMN),
					 errmsg("source has more than one column \"%s\"", name),
					 errhint("Give the columns different names with AS.")));
		found = i;
	}
	if (found == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("source has no column \"%s\"", name),
				 source->columns->natts > 0 ?
				 errhint("Its columns are: %s.", column_names(source)) :
				 errhint("It has no columns at all.")));
	return found;
}

/* Adds a column to the features. */
static void
add_feature(GkSource *source, int column)
{
	GkColumn   *described = &source->described[source->count];

	if (!gk_describe_column(column_type(source, column), described))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, which cannot be a feature",
						column_name(source, column), format_type_be(column_type(source, column))),
				 errhint("A feature is a number, an array of numbers, or a vector.")));
	for (int i = 0; i < source->count; i++)
		if (source->features[i] == column)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("feature \"%s\" is named more than once",
							column_name(source, column))));
	source->features[source->count++] = column;
}

/* Adds the columns that nobody named: the numbers, or else the arrays. */
static void
add_default_features(GkSource *source, bool arrays)
{
	for (int i = 1; i <= source->columns->natts; i++)
	{
		GkColumn	described;

		if (i == source->id || i == source->weight ||
			!gk_describe_column(column_type(source, i), &described) ||
			(described.shape != GK_SCALAR) != arrays)
			continue;
		(void) find_column(source, column_name(source, i));
		add_feature(source, i);
	}
}

/* Finds the features: those named, or all that can be. */
static void
find_features(GkSource *source)
{
	const GkSourceSpec *spec = &source->spec;
	int			room = Max(list_length(spec->features), source->columns->natts);
	ListCell   *cell;

	source->features = palloc((room + 1) * sizeof(int));
	source->described = palloc((room + 1) * sizeof(GkColumn));
	foreach(cell, spec->features)
		add_feature(source, find_column(source, lfirst(cell)));
	if (spec->features == NIL)
		add_default_features(source, false);
	if (source->count == 0)
		add_default_features(source, true);
	if (source->count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("source has no column that can be a feature"),
				 errhint("A feature is a number, an array of numbers, or a vector.")));
	for (int i = 0; source->count > 1 && i < source->count; i++)
		if (source->described[i].shape != GK_SCALAR)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" is not the only feature, but an array",
							column_name(source, source->features[i])),
					 errhint("Features are any number of numeric columns, or one array.")));
}

/* Finds the weight. */
static void
find_weight(GkSource *source)
{
	GkColumn	described;

	source->weight = find_column(source, source->spec.weight_column);
	if (!gk_describe_column(column_type(source, source->weight), &described) ||
		described.shape != GK_SCALAR)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("weight column \"%s\" is of type %s, which is not a number",
						column_name(source, source->weight),
						format_type_be(column_type(source, source->weight)))));
}

/* Finds the id, and whether it can be had in the type asked for. */
static void
find_id(GkSource *source)
{
	Oid			type;
	Oid			wanted = source->spec.id_type;

	source->id = find_column(source, source->spec.id_column);
	type = column_type(source, source->id);
	source->id_type = OidIsValid(wanted) ? wanted : type;
	if (!can_coerce_type(1, &type, &source->id_type, COERCION_IMPLICIT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("id column \"%s\" is of type %s, not %s",
						column_name(source, source->id), format_type_be(type),
						format_type_be(wanted))));
}

/* Parses the source, finds its columns and checks their names and types. */
GkSource *
gk_source_describe(const GkSourceSpec *spec)
{
	GkSource   *source = palloc0(sizeof(GkSource));

	source->spec = *spec;
	source->from = gk_source_from(spec->source);
	source->columns = describe_columns(source->from);
	if (spec->id_column != NULL)
		find_id(source);
	if (spec->weight_column != NULL)
		find_weight(source);
	find_features(source);
	return source;
}

/* The type of the id column. */
Oid
gk_source_id_type(const GkSource *source)
{
	return source->id_type;
}

/* How many columns the features are, and whether they are one array. */
int
gk_source_columns(const GkSource *source, bool *is_array)
{
	*is_array = source->described[0].shape != GK_SCALAR;
	return source->count;
}

/* The name of the column of a feature. */
const char *
gk_source_column_name(const GkSource *source, int i)
{
	return column_name(source, source->features[i]);
}
