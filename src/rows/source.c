/*
 * The row source: which columns of the user's query are features, id and weight.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"

#include "feature_hint.h"
#include "source_columns.h"
#include "source_query.h"

/* Names of columns in a message, at most. */
#define MAX_NAMES 20

/* The name of a column. */
const char *
gk_column_name(const GkSource *source, int column)
{
	return NameStr(TupleDescAttr(source->columns, column - 1)->attname);
}

/* The type of a column. */
Oid
gk_column_type(const GkSource *source, int column)
{
	return TupleDescAttr(source->columns, column - 1)->atttypid;
}

/* The names of all columns, or the first of very many. */
static const char *
column_names(const GkSource *source)
{
	int			count = source->columns->natts;
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 1; i <= Min(count, MAX_NAMES); i++)
		appendStringInfo(&names, "%s\"%s\"", i > 1 ? ", " : "", gk_column_name(source, i));
	if (count > MAX_NAMES)
		appendStringInfo(&names, " and %d more", count - MAX_NAMES);
	return names.data;
}

/* A column whose name differs in nothing but upper and lower case, 0 if there is none. */
static int
find_other_case(const GkSource *source, const char *name)
{
	for (int i = 1; i <= source->columns->natts; i++)
		if (pg_strcasecmp(gk_column_name(source, i), name) == 0)
			return i;
	return 0;
}

/* What to do about a column that is missing. */
static const char *
missing_hint(const GkSource *source, const char *name)
{
	const char *dot = strrchr(name, '.');
	int			other = find_other_case(source, name);

	if (source->columns->natts == 0)
		return "It has no columns at all.";
	if (strpbrk(name, "()+*/|:") != NULL)
		return psprintf("Expressions belong in a query as the source: SELECT %s AS name FROM ...",
						name);
	if (strchr(name, ',') != NULL)
		return "Several names are an array: '{age,income}' or ARRAY['age', 'income'].";
	if (other > 0)
		return psprintf("Perhaps you meant \"%s\": upper and lower case differ here.",
						gk_column_name(source, other));
	if (dot != NULL && find_other_case(source, dot + 1) > 0)
		return psprintf("Perhaps you meant \"%s\": columns are named without their table.",
						gk_column_name(source, find_other_case(source, dot + 1)));
	return psprintf("Its columns are %s.", column_names(source));
}

/* Finds a column by its name. */
int
gk_find_column(const GkSource *source, const char *name, const char *argument)
{
	int			found = 0;

	for (int i = 1; i <= source->columns->natts; i++)
	{
		if (strcmp(gk_column_name(source, i), name) != 0)
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
				 errdetail("It is named by the argument %s.", argument),
				 errhint("%s", missing_hint(source, name))));
	return found;
}

/* Adds a column to the features. */
void
gk_add_feature(GkSource *source, int column)
{
	const char *name = gk_column_name(source, column);
	Oid			type = gk_column_type(source, column);

	if (!gk_describe_column(type, &source->described[source->count]))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, which cannot be a feature",
						name, format_type_be(type)),
				 errhint("%s", gk_feature_hint(type, name))));
	for (int i = 0; i < source->count; i++)
		if (source->features[i] == column)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("feature \"%s\" is named more than once", name)));
	source->names[source->count] = name;
	source->features[source->count++] = column;
}

/* How to join an array with the other features: an expression of SQL. */
static const char *
joined_features(const GkSource *source, int array)
{
	const char *type = source->described[array].shape == GK_VECTOR ? "real[]"
		: format_type_be(gk_column_type(source, source->features[array]));
	const char *name = quote_identifier(source->names[array]);
	StringInfoData scalars;

	initStringInfo(&scalars);
	for (int i = 0; i < source->count; i++)
		if (source->described[i].shape == GK_SCALAR)
			appendStringInfo(&scalars, "%s%s", scalars.len > 0 ? ", " : "",
							 quote_identifier(source->names[i]));
	if (scalars.len == 0)
		return psprintf("%s || %s", name, quote_identifier(source->names[array == 0 ? 1 : 0]));
	if (source->described[array].shape == GK_VECTOR)
		name = psprintf("%s::real[]", name);
	return psprintf("%s || ARRAY[%s]::%s", name, scalars.data, type);
}

/* Refuses an array beside other features. */
static void
check_shapes(const GkSource *source)
{
	for (int i = 0; source->count > 1 && i < source->count; i++)
		if (source->described[i].shape != GK_SCALAR)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" is an array, but not the only feature",
							source->names[i]),
					 errhint("Name it alone, or give a query as the source, with all features in "
							 "one array: %s.", joined_features(source, i))));
}

/* Finds the features: those named, or those that suggest themselves. */
static void
find_features(GkSource *source)
{
	const GkSourceSpec *spec = &source->spec;
	int			room = Max(list_length(spec->features), source->columns->natts) + 1;
	ListCell   *cell;

	source->features = palloc(room * sizeof(int));
	source->names = palloc(room * sizeof(char *));
	source->described = palloc(room * sizeof(GkColumn));
	foreach(cell, spec->features)
		gk_add_feature(source, gk_find_column(source, lfirst(cell), "features"));
	if (spec->features == NIL)
		gk_choose_features(source);
	check_shapes(source);
}

/* Finds the weight. */
static void
find_weight(GkSource *source)
{
	const char *name = source->spec.weight_column;
	GkColumn	described;
	Oid			type;

	source->weight = gk_find_column(source, name, "weight_column");
	type = gk_column_type(source, source->weight);
	if (!gk_describe_column(type, &described))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("weight column \"%s\" is of type %s, which is not a number",
						name, format_type_be(type)),
				 errhint("%s", gk_feature_hint(type, name))));
	if (described.shape != GK_SCALAR)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("weight column \"%s\" is of type %s, which is not a number",
						name, format_type_be(type)),
				 errhint("A weight is one number for each row.")));
}

/* Finds the id, and whether it can be had in the type asked for. */
static void
find_id(GkSource *source)
{
	const char *name = source->spec.id_column;
	Oid			wanted = source->spec.id_type;
	Oid			type;

	source->id = gk_find_column(source, name, "id_column");
	type = gk_column_type(source, source->id);
	source->id_type = OidIsValid(wanted) ? wanted : type;
	if (!can_coerce_type(1, &type, &source->id_type, COERCION_IMPLICIT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("id column \"%s\" is of type %s, not %s",
						name, format_type_be(type), format_type_be(wanted)),
				 errhint("Give NULL::%s as the first argument, id_type.", format_type_be(type))));
}

/* Parses the source, finds its columns and checks their names and types. */
GkSource *
gk_source_describe(const GkSourceSpec *spec)
{
	GkSource   *source = palloc0(sizeof(GkSource));

	source->spec = *spec;
	source->text = gk_source_text(spec->source);
	source->query = gk_query_analyze(source->text, psprintf("SELECT * FROM %s AS source",
															source->text->from));
	source->columns = ExecCleanTypeFromTL(source->query->targetList);
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

/* The names of the feature columns. */
const char *const *
gk_source_features(const GkSource *source, int *count, bool *is_array)
{
	*count = source->count;
	*is_array = source->described[0].shape != GK_SCALAR;
	return source->names;
}

/* Says that rows are compared by their direction from zero. */
void
gk_source_by_direction(GkSource *source)
{
	source->by_direction = true;
}
