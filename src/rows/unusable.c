/*
 * Rows that cannot be clustered: the reason, the column, and a name for the row.
 *
 * A row comes here only after its decoding has failed, so nothing here needs to be fast.
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "source_columns.h"
#include "unusable.h"

/* How much of a value and of a row a message shows, in bytes; larger values are not fetched. */
#define SHOWN_OF_VALUE 64
#define SHOWN_OF_ROW 200
#define LARGEST_SHOWN (1024 * 1024)

/* The most columns named when no row is usable. */
#define COLUMNS_NAMED 3

/* One number of a row. */
typedef struct Value
{
	int			column;			/* of the source's features, from 0; the weight comes after them */
	int			element;		/* of an array, from 1; 0 = the column itself */
	bool		is_null;
	double		number;
} Value;

/* Visits a number; true ends the walk. */
typedef bool (*Visitor) (const Value *value, void *context);

/* The text of a value that is not NULL; "..." if it is large, or its type has been dropped. */
static const char *
value_text(Oid type, Datum value)
{
	Oid			output;
	bool		is_varlena;

	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		return "...";
	getTypeOutputInfo(type, &output, &is_varlena);
	return is_varlena && toast_raw_datum_size(value) > LARGEST_SHOWN ? "..."
		: OidOutputFunctionCall(output, value);
}

/* Appends a value's text, or its beginning. */
static void
append_value(StringInfo text, Oid type, const NullableDatum *value, bool is_piece)
{
	const char *all = value->isnull ? "null" : value_text(type, value->value);
	int			length;
	int			shown;

	/* many columns come as arrays; without their braces they read as one row */
	length = strlen(all);
	if (is_piece && length >= 2)
	{
		all++;
		length -= 2;
	}
	shown = length <= SHOWN_OF_VALUE ? length : pg_mbcliplen(all, length, SHOWN_OF_VALUE);
	appendBinaryStringInfo(text, all, shown);
	if (shown < length)
		appendStringInfoString(text, "...");
}

/* The values of a row, or the first of them. */
static const char *
row_text(const GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	StringInfoData text;
	bool		pieces = feeder->feed->width > 0 && feeder->scalars == NULL;

	initStringInfo(&text);
	for (int i = 0; i < feeder->count && text.len < SHOWN_OF_ROW; i++)
	{
		if (i > 0)
			appendStringInfoString(&text, ", ");
		append_value(&text, get_fn_expr_argtype(fcinfo->flinfo, GK_FIRST_FEATURE + i),
					 &fcinfo->args[GK_FIRST_FEATURE + i], pieces);
		if (text.len >= SHOWN_OF_ROW && i + 1 < feeder->count)
			appendStringInfoString(&text, ", ...");
	}
	return text.data;
}

/* A name for the current row. */
const char *
gk_row_name(const GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	if (feeder->ids == NULL)
		return psprintf("The row (%s)", row_text(feeder, fcinfo));
	if (PG_ARGISNULL(GK_ID))
		return "The row with id NULL";
	return psprintf("The row with id %s", value_text(feeder->id_type, PG_GETARG_DATUM(GK_ID)));
}

/* Visits the elements of an array; those of a piece are columns of their own. */
static bool
visit_elements(const GkFeeder *feeder, int argument, Datum array, Visitor visit, void *context)
{
	const GkColumn *column = &feeder->columns[argument];
	bool		is_piece = feeder->feed->width > 0;
	Datum	   *elements;
	bool	   *nulls;
	int			count;

	/* pgvector admits neither NULL nor NaN */
	if (column->shape == GK_VECTOR)
		return false;
	deconstruct_array(DatumGetArrayTypeP(array), column->element_type, column->length,
					  column->by_value, column->align, &elements, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		Value		value = {.column = is_piece ? argument * GK_PIECE + i : 0,
			.element = is_piece ? 0 : i + 1,.is_null = nulls[i]};

		if (!nulls[i])
			value.number = gk_decode_scalar(column->element, elements[i]);
		if (visit(&value, context))
			return true;
	}
	return false;
}

/* Visits the numbers of a row, its weight last. */
static void
visit_row(const GkFeeder *feeder, FunctionCallInfo fcinfo, Visitor visit, void *context)
{
	Value		weight = {.column = feeder->feed->columns};

	for (int i = 0; i < feeder->count; i++)
	{
		const NullableDatum *argument = &fcinfo->args[GK_FIRST_FEATURE + i];
		Value		value = {.column = i,.is_null = argument->isnull};

		if (feeder->scalars == NULL && !argument->isnull)
		{
			if (visit_elements(feeder, i, argument->value, visit, context))
				return;
			continue;
		}
		if (!argument->isnull)
			value.number = gk_decode_scalar(feeder->columns[i].element, argument->value);
		if (visit(&value, context))
			return;
	}
	weight.is_null = feeder->weighted && PG_ARGISNULL(GK_WEIGHT);
	(void) visit(&weight, context);
}

/* True if a number can be clustered. */
static bool
is_usable(const Value *value)
{
	return !value->is_null && isfinite((float) value->number);
}

/* A visitor: stops at the first number that cannot be clustered. */
static bool
find_unusable(const Value *value, void *context)
{
	if (is_usable(value))
		return false;
	*(Value *) context = *value;
	return true;
}

/* A visitor: counts for each column. */
static bool
count_unusable(const Value *value, void *context)
{
	GkFeeder   *feeder = context;

	if (value->is_null)
		feeder->nulls[value->column]++;
	else if (!is_usable(value))
		feeder->not_finite[value->column]++;
	return false;
}

/* Describes a number that cannot be clustered. */
static const char *
kind_of(const Value *value)
{
	if (value->is_null)
		return "NULL";
	if (isnan(value->number))
		return "NaN";
	return isinf(value->number) ? "infinite, or too large for double precision"
		: "too large for real";
}

/* Reports an unusable row. */
void
gk_raise_unusable(const GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	Value		value = {0};
	const char *name;

	visit_row(feeder, fcinfo, find_unusable, &value);
	name = NameStr(gk_feed_names(feeder->feed)[value.column]);
	ereport(ERROR,
			(errcode(value.is_null ? ERRCODE_NULL_VALUE_NOT_ALLOWED :
					 ERRCODE_INVALID_PARAMETER_VALUE),
			 value.element > 0
			 ? errmsg("element %d of column \"%s\" is %s", value.element, name, kind_of(&value))
			 : errmsg("column \"%s\" is %s", name, kind_of(&value)),
			 errdetail("%s cannot be clustered.", gk_row_name(feeder, fcinfo)),
			 errhint("Leave such rows out of the source, or skip them with nulls => 'skip'.")));
}

/* Counts a row for the columns that made it unusable; how its features were decoded. */
void
gk_note_unusable(GkFeeder *feeder, FunctionCallInfo fcinfo, GkDecoded features)
{
	int			columns = feeder->feed->columns;

	if (feeder->nulls == NULL)
	{
		feeder->nulls = MemoryContextAllocZero(feeder->context, 2 * (columns + 1) * sizeof(int64));
		feeder->not_finite = feeder->nulls + columns + 1;
	}
	if (feeder->feed->width > 0)
	{
		visit_row(feeder, fcinfo, count_unusable, feeder);
		return;
	}
	if (feeder->weighted && PG_ARGISNULL(GK_WEIGHT))
		feeder->nulls[columns]++;
	if (features == GK_DECODED_NULL)
		feeder->nulls[0]++;
	else if (features != GK_DECODED)
		feeder->not_finite[0]++;
}

/* Adds this process's counts to the feed. */
void
gk_merge_troubles(GkFeeder *feeder)
{
	GkTroubles *troubles = gk_feed_troubles(feeder->feed);

	atomic_fetch_add(&feeder->feed->zeros, feeder->zeros);
	for (int i = 0; feeder->nulls != NULL && i <= feeder->feed->columns; i++)
	{
		atomic_fetch_add(&troubles[i].nulls, feeder->nulls[i]);
		atomic_fetch_add(&troubles[i].not_finite, feeder->not_finite[i]);
	}
}

/* The column not yet named that made most rows unusable; -1 if none did. */
static int
worst_column(const int64 *unusable, int columns, const int *named, int count)
{
	int64		most = 0;
	int			worst = -1;

	for (int i = 0; i <= columns; i++)
	{
		bool		is_named = false;

		for (int j = 0; j < count; j++)
			is_named = is_named || named[j] == i;
		if (is_named || unusable[i] <= most)
			continue;
		most = unusable[i];
		worst = i;
	}
	return worst;
}

/* Appends a phrase about the rows that something made unusable. */
static void
append_phrase(StringInfo text, const char *what, int64 rows, int64 all)
{
	appendStringInfoString(text, text->len > 0 ? ", " : "");
	if (rows < all)
		appendStringInfo(text, "%s in " INT64_FORMAT, what, rows);
	else
		appendStringInfo(text, "%s in %s", what, all == 1 ? "it" : "all of them");
}

/* Describes what is wrong with a column, or its elements, in an unusable row. */
static const char *
describe_trouble(bool is_number, bool nulls)
{
	if (is_number)
		return nulls ? "is NULL" : "is NaN, infinite or too large";
	return nulls ? "is NULL or has a NULL element"
		: "has an element that is NaN, infinite or too large";
}

/* The name of a column of features, or behind them of the weight. */
static const char *
name_of_column(const GkSource *source, int column)
{
	return column < source->count ? source->names[column] : source->spec.weight_column;
}

/* Appends phrases about the columns with most NULLs, or most numbers that are not finite. */
static void
append_columns(StringInfo text, const GkSource *source, const int64 *unusable, int64 all,
			   bool nulls)
{
	int			named[COLUMNS_NAMED];

	for (int i = 0; i < COLUMNS_NAMED; i++)
	{
		int			worst = worst_column(unusable, source->count, named, i);
		bool		is_number = source->described[0].shape == GK_SCALAR || worst > 0;

		if (worst < 0)
			return;
		named[i] = worst;
		append_phrase(text, psprintf("column \"%s\" %s", name_of_column(source, worst),
									 describe_trouble(is_number, nulls)), unusable[worst], all);
	}
}

/* Describes why no row of a source was usable. */
const char *
gk_describe_troubles(const GkSource *source, const GkTroubleCounts *counts, int64 rows)
{
	StringInfoData text;

	initStringInfo(&text);
	append_columns(&text, source, counts->nulls, rows, true);
	append_columns(&text, source, counts->not_finite, rows, false);
	if (counts->zeros > 0)
		append_phrase(&text, "all features are zero", counts->zeros, rows);
	return text.data;
}
