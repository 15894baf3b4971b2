/*
 * The columns of a described source.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "feature_hint.h"
#include "source_columns.h"
#include "source_query.h"

/* The most column names in a message. */
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

/* The names of all columns, or of the first few if there are many. */
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

/* A column whose name differs only in case, 0 if there is none. */
static int
find_other_case(const GkSource *source, const char *name)
{
	for (int i = 1; i <= source->columns->natts; i++)
		if (pg_strcasecmp(gk_column_name(source, i), name) == 0)
			return i;
	return 0;
}

/* A hint for a list of names where one is wanted, or an array. */
static const char *
several_hint(const char *argument)
{
	if (argument == NULL || strcmp(argument, "features") == 0)
		return "Several names are an array: '{age,income}' or ARRAY['age', 'income'].";
	if (strcmp(argument, "id_column") == 0)
		return "The argument is one name. For a key of several columns, make one of them in a "
			"query as the source: SELECT ARRAY[tenant, customer] AS id, ... FROM ...";
	return "The argument is one name. Make one column of several in a query as the source.";
}

/* A hint for a column that does not exist. */
static const char *
missing_hint(const GkSource *source, const char *name, const char *argument)
{
	const char *dot = strrchr(name, '.');
	int			other = find_other_case(source, name);

	if (source->columns->natts == 0)
		return "It has no columns at all.";
	if (strcmp(dot != NULL ? dot + 1 : name, "*") == 0)
		return psprintf("Its columns are %s.%s", column_names(source),
						argument != NULL && strcmp(argument, "features") == 0
						? " Leave features out to take every number that is not a key." : "");
	if (strpbrk(name, "()+*/|:") != NULL)
		return psprintf("Expressions belong in a query as the source: SELECT %s AS name FROM ...",
						name);
	if (strchr(name, ',') != NULL)
		return several_hint(argument);
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
				 argument == NULL ? errdetail("It is a feature of the model.")
				 : errdetail("It is named by the argument %s.", argument),
				 errhint("%s", missing_hint(source, name, argument))));
	return found;
}

/* Reports that the columns of a source are not those that were described. */
void
gk_refuse_change(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("source changed while it was being read"),
			 errdetail("Its columns, or their types, are no longer those that were described."),
			 errhint("Try again.")));
}

/* Reports the same if a type that was there before was dropped. */
void
gk_require_type(Oid type)
{
	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		gk_refuse_change();
}

/* Requires the types of columns; the analysis or the planning of another may have dropped one. */
static void
require_types(List *targets)
{
	ListCell   *cell;

	foreach(cell, targets)
		gk_require_type(exprType((Node *) lfirst_node(TargetEntry, cell)->expr));
}

/* The columns that a query selects. */
TupleDesc
gk_selected_columns(List *targets)
{
	MemoryContext before = CurrentMemoryContext;
	volatile TupleDesc columns = NULL;

	PG_TRY();
	{
		require_types(targets);
		/* others may drop one even now */
		columns = ExecCleanTypeFromTL(targets);
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
	return columns;
}

/* The name of a type for a query; an error if it was dropped. */
char *
gk_type_name(Oid type)
{
	/* "character" and "bit" without a length would be of length 1 */
	char	   *name = format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
											FORMAT_TYPE_FORCE_QUALIFY |
											FORMAT_TYPE_INVALID_AS_NULL);

	if (name == NULL)
		gk_refuse_change();
	return name;
}

/* The name of a type for a message; that error if it was dropped. */
char *
gk_shown_type(Oid type)
{
	char	   *name = format_type_extended(type, -1, FORMAT_TYPE_INVALID_AS_NULL);

	if (name == NULL)
		gk_refuse_change();
	return name;
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
						name, gk_shown_type(type)),
				 errhint("%s", gk_feature_hint(type, name))));
	for (int i = 0; i < source->count; i++)
		if (source->features[i] == column)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("feature \"%s\" is named more than once", name)));
	source->names[source->count] = name;
	source->features[source->count++] = column;
}
