/*
 * The row source: which columns of the user's query are features, id and weight.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "feature_hint.h"
#include "id_parts.h"
#include "source_choice.h"
#include "source_columns.h"
#include "source_origins.h"
#include "source_query.h"
#include "source_tables.h"

/* True if all features are arrays of one type. */
static bool
are_alike(const GkSource *source)
{
	for (int i = 0; i < source->count; i++)
		if (source->described[i].shape == GK_SCALAR ||
			source->described[i].element != source->described[0].element)
			return false;
	return true;
}

/* Appends a feature, with the casts that it needs to become float8[], or to be joined to one. */
static void
append_joined(StringInfo joined, const GkSource *source, int i)
{
	const GkColumn *column = &source->described[i];
	bool		is_scalar = column->shape == GK_SCALAR;
	bool		continues = is_scalar && i > 0 && column[-1].shape == GK_SCALAR;

	appendStringInfoString(joined, i == 0 ? "" : continues ? ", " : " || ");
	appendStringInfo(joined, "%s%s", is_scalar && !continues ? "ARRAY[" : "",
					 quote_identifier(source->names[i]));
	if (column->element == GK_BOOL)
		appendStringInfoString(joined, is_scalar ? "::int" : "::int[]");
	if (column->shape == GK_VECTOR)
		appendStringInfoString(joined, "::real[]");
	if (is_scalar && (i + 1 == source->count || column[1].shape != GK_SCALAR))
		appendStringInfoString(joined, "]::float8[]");
	/* what is joined to float8[] becomes that as well */
	if (!is_scalar && i == 0 && column->element != GK_FLOAT8 && !are_alike(source))
		appendStringInfoString(joined, "::float8[]");
}

/*
 * An SQL expression that joins all features in one array, which loses nothing of them.  An array
 * that is NULL makes it NULL; joined, its elements would be missing.
 */
static const char *
joined_features(const GkSource *source)
{
	StringInfoData joined;
	const char *before = "CASE WHEN ";

	initStringInfo(&joined);
	for (int i = 0; i < source->count; i++)
		if (source->described[i].shape != GK_SCALAR)
		{
			appendStringInfo(&joined, "%s%s IS NOT NULL", before,
							 quote_identifier(source->names[i]));
			before = " AND ";
		}
	appendStringInfoString(&joined, " THEN ");
	for (int i = 0; i < source->count; i++)
		append_joined(&joined, source, i);
	appendStringInfoString(&joined, " END");
	return joined.data;
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
							 "one array: %s.", joined_features(source))));
}

/* Finds the features: those named, or a choice. */
static void
find_features(GkSource *source)
{
	const GkSourceSpec *spec = &source->spec;
	const char *argument = spec->dimension > 0 ? NULL : "features";
	int			room = Max(list_length(spec->features), source->columns->natts) + 1;
	ListCell   *cell;

	source->features = palloc(room * sizeof(int));
	source->names = palloc(room * sizeof(char *));
	source->described = palloc(room * sizeof(GkColumn));
	foreach(cell, spec->features)
		gk_add_feature(source, gk_find_column(source, lfirst(cell), argument));
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
						name, gk_shown_type(type)),
				 errhint("%s", gk_feature_hint(type, name))));
	if (described.shape != GK_SCALAR)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("weight column \"%s\" is of type %s, which is not a number",
						name, gk_shown_type(type)),
				 errhint("A weight is one number for each row.")));
}

/* The type whose values the ids are: that of the column, if a pseudo-type was asked for. */
static Oid
type_of_ids(const GkSource *source)
{
	return get_typtype(source->id_type) != TYPTYPE_PSEUDO ? source->id_type
		: gk_column_type(source, source->id);
}

/* Finds the id column, and checks its type against the requested one. */
static void
find_id(GkSource *source)
{
	const char *name = source->spec.id_column;
	Oid			wanted = source->spec.id_type;
	Oid			type;

	source->id = gk_find_column(source, name,
								source->spec.id_argument != NULL ? source->spec.id_argument
								: "id_column");
	type = gk_column_type(source, source->id);
	source->id_type = OidIsValid(wanted) ? wanted : type;
	/* it is kept from here on, if nobody has dropped it before */
	source->id_parts = gk_id_parts(type_of_ids(source));
	gk_require_type(source->id_type);
	if (!can_coerce_type(1, &type, &source->id_type, COERCION_IMPLICIT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("id column \"%s\" is of type %s, not %s",
						name, gk_shown_type(type), gk_shown_type(wanted)),
				 errhint("Give NULL::%s as the first argument, id_type.", gk_shown_type(type))));
}

/* The query of all columns of a source, analysed. */
static Query *
analyze_text(const GkSourceText *text)
{
	return gk_query_analyze(text, psprintf("SELECT * FROM %s AS source", text->from));
}

/* Analyses the text of a source; what is known then are its columns. */
static GkSource *
analyze_source(const GkSourceText *text)
{
	GkSource   *source = palloc0(sizeof(GkSource));

	source->text = text;
	source->query = analyze_text(text);
	source->columns = gk_selected_columns(source->query->targetList);
	return source;
}

/* Finds the columns that arguments name; others may drop their types. */
static void
find_columns(GkSource *source)
{
	if (source->spec.id_column != NULL)
		find_id(source);
	if (source->spec.weight_column != NULL)
		find_weight(source);
	find_features(source);
}

/* Parses the source, finds its columns and checks their names and types. */
GkSource *
gk_source_describe(const GkSourceSpec *spec)
{
	GkSourceText *text = spec->settings == NULL ? gk_source_text(spec->source)
		: gk_source_text_by(spec->source, spec->settings);
	GkSource   *source = analyze_source(text);
	MemoryContext before = CurrentMemoryContext;

	text->of_node = spec->of_node;
	text->is_compared = spec->first != NULL;
	source->spec = *spec;
	PG_TRY();
	{
		find_columns(source);
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
	return source;
}

/* Raises an error unless a source has the column that an argument names. */
void
gk_source_require(const GkSourceText *text, const char *name, const char *argument)
{
	(void) gk_find_column(analyze_source(text), name, argument);
}

/* The type of the id column. */
Oid
gk_source_id_type(const GkSource *source)
{
	return source->id_type;
}

/* The query of all columns, by what the names mean now. */
Query *
gk_source_analyze(const GkSource *source)
{
	return analyze_text(source->text);
}

/*
 * Raises an error if the columns are others by what the names mean now: rows are read by the places
 * of columns, so others must not take their place.  What is called to find out may drop the type
 * that was asked for.
 */
void
gk_source_check_columns(const GkSource *source)
{
	const Query *query = gk_source_analyze(source);

	if (!equalTupleDescs(gk_selected_columns(query->targetList), source->columns))
		gk_refuse_change();
	if (source->id > 0)
		gk_require_type(source->id_type);
}

/* Raises an error if the type of the id column is no longer what it was. */
void
gk_source_check_ids(const GkSource *source)
{
	if (source->id > 0)
		gk_check_id_parts(type_of_ids(source), source->id_parts, source->spec.id_column);
}

/* The names of the feature columns. */
const char *const *
gk_source_features(const GkSource *source, int *count, bool *is_array)
{
	*count = source->count;
	*is_array = source->described[0].shape != GK_SCALAR;
	return source->names;
}

/* The names of the columns of a table that the source reads. */
List *
gk_source_columns_of(const GkSource *source, Oid relation_id, bool *has_others)
{
	return gk_columns_read(source->query, relation_id, has_others);
}

/* Declares that the source must not read tables. */
void
gk_source_forbid(GkSource *source, List *tables)
{
	source->forbidden = tables;
}

/* Declares that something is written by the rows. */
void
gk_source_write(GkSource *source)
{
	source->is_written = true;
}

/* The tables that the source reads. */
List *
gk_source_tables(const GkSource *source)
{
	return gk_tables_read(source->query);
}

/* The same by what its names mean now. */
List *
gk_source_tables_now(const GkSource *source)
{
	return gk_tables_read(gk_source_analyze(source));
}

/* True if a feature or the weight is made of a column of a table. */
bool
gk_source_is_made_of(const GkSource *source, Oid relation_id, const char *column)
{
	return gk_are_made_of(source->query, source->features, source->count, relation_id, column) ||
		gk_are_made_of(source->query, &source->weight, source->weight > 0, relation_id, column);
}

/* Declares how rows are shifted. */
void
gk_source_shift(GkSource *source, int dimension, const double *shift)
{
	source->spec.dimension = dimension;
	source->spec.shift = shift;
}

/* Declares that rows are compared by direction. */
void
gk_source_by_direction(GkSource *source)
{
	source->by_direction = true;
}
