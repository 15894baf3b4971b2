/*
 * Chooses the features if the user did not name them.
 *
 * It takes every number except keys, which only identify rows.  If both plain columns and an
 * array could be meant, it is an error that asks the user.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "source_choice.h"
#include "source_keys.h"

/* The most column names in a message. */
#define MAX_NAMES 20

/* The columns by kind, numbered from 1. */
typedef struct Choice
{
	List	   *scalars;
	List	   *arrays;
	List	   *keys;			/* numbers among them */
	StringInfoData left_out;	/* for a DETAIL */
	int			left_out_count;
} Choice;

/* Records a column that is left out, and why. */
static void
leave_out(const GkSource *source, Choice *choice, int column, const char *reason)
{
	if (choice->left_out_count++ < MAX_NAMES)
		appendStringInfo(&choice->left_out, "%s\"%s\" (%s)", choice->left_out.len > 0 ? ", " : "",
						 gk_column_name(source, column), reason);
}

/* Assigns a column to its kind. */
static void
sort_column(const GkSource *source, Choice *choice, int column)
{
	const char *key = gk_key_of_column(source->query, column);
	GkColumn	described;
	bool		is_number = gk_describe_column(gk_column_type(source, column), &described);

	if (key != NULL)
		leave_out(source, choice, column, key);
	else if (!is_number)
		leave_out(source, choice, column, gk_shown_type(gk_column_type(source, column)));
	if (!is_number)
		return;
	if (key != NULL)
		choice->keys = lappend_int(choice->keys, column);
	else if (described.shape == GK_SCALAR)
		choice->scalars = lappend_int(choice->scalars, column);
	else
		choice->arrays = lappend_int(choice->arrays, column);
}

/* Assigns all columns but id and weight to their kinds. */
static void
sort_columns(const GkSource *source, Choice *choice)
{
	memset(choice, 0, sizeof(*choice));
	initStringInfo(&choice->left_out);
	for (int i = 1; i <= source->columns->natts; i++)
		if (i != source->id && i != source->weight)
			sort_column(source, choice, i);
	if (choice->left_out_count > MAX_NAMES)
		appendStringInfo(&choice->left_out, " and %d more", choice->left_out_count - MAX_NAMES);
}

/* The names of columns for a message. */
static const char *
names_of(const GkSource *source, const List *columns)
{
	StringInfoData names;
	int			count = list_length(columns);

	initStringInfo(&names);
	for (int i = 0; i < Min(count, MAX_NAMES); i++)
		appendStringInfo(&names, "%s\"%s\"", i > 0 ? ", " : "",
						 gk_column_name(source, list_nth_int(columns, i)));
	if (count > MAX_NAMES)
		appendStringInfo(&names, " and %d more", count - MAX_NAMES);
	return names.data;
}

/* The argument that names these columns, as the user would write it. */
static const char *
argument_of(const GkSource *source, const List *columns)
{
	int			count = Min(list_length(columns), MAX_NAMES);
	Datum	   *names = palloc(count * sizeof(Datum));
	ArrayType  *array;

	for (int i = 0; i < count; i++)
		names[i] = CStringGetTextDatum(gk_column_name(source, list_nth_int(columns, i)));
	array = construct_array(names, count, TEXTOID, -1, false, TYPALIGN_INT);
	return psprintf("features => %s",
					quote_literal_cstr(OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array))));
}

/* Asks if the columns or an array is meant. */
static void
ask_for_shape(const GkSource *source, const Choice *choice)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMBIGUOUS_COLUMN),
			 errmsg("source has numbers beside an array, and features are not given"),
			 errdetail("Columns of numbers: %s. Columns of arrays: %s.",
					   names_of(source, choice->scalars), names_of(source, choice->arrays)),
			 errhint("Write %s for the array, or %s for the numbers.",
					 argument_of(source, list_make1_int(linitial_int(choice->arrays))),
					 argument_of(source, choice->scalars))));
}

/* Asks which of several arrays is meant. */
static void
ask_for_array(const GkSource *source, const Choice *choice)
{
	ereport(ERROR,
			(errcode(ERRCODE_AMBIGUOUS_COLUMN),
			 errmsg("source has several arrays, and features are not given"),
			 errdetail("Arrays: %s.", names_of(source, choice->arrays)),
			 errhint("Write %s or %s.",
					 argument_of(source, list_make1_int(linitial_int(choice->arrays))),
					 argument_of(source, list_make1_int(lsecond_int(choice->arrays))))));
}

/* Reports that no column can be chosen. */
static void
refuse_choice(const GkSource *source, const Choice *choice)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 choice->keys != NIL
			 ? errmsg("source has no numbers besides its keys")
			 : errmsg("source has no column that can be a feature"),
			 choice->left_out_count > 0
			 ? errdetail("Left out: %s.", choice->left_out.data) : 0,
			 choice->keys != NIL
			 ? errhint("If they are measures, write %s.", argument_of(source, choice->keys))
			 : errhint("A feature is a number, a boolean, an array of these, or a vector.")));
}

/* Reports the choice. */
static void
tell_choice(const GkSource *source, const Choice *choice, const List *chosen)
{
	ereport(NOTICE,
			(errmsg_plural("features are not given: clustering by column %s",
						   "features are not given: clustering by columns %s",
						   list_length(chosen), names_of(source, chosen)),
			 choice->left_out_count > 0
			 ? errdetail("Left out: %s.", choice->left_out.data) : 0,
			 list_length(chosen) > MAX_NAMES
			 ? errhint("Name the features to choose others.")
			 : errhint("Name the features to choose others: %s.", argument_of(source, chosen))));
}

/* Chooses the features. */
void
gk_choose_features(GkSource *source)
{
	Choice		choice;
	List	   *chosen;
	ListCell   *cell;

	sort_columns(source, &choice);
	if (choice.scalars != NIL && choice.arrays != NIL)
		ask_for_shape(source, &choice);
	if (list_length(choice.arrays) > 1)
		ask_for_array(source, &choice);
	chosen = choice.scalars != NIL ? choice.scalars : choice.arrays;
	if (chosen == NIL)
		refuse_choice(source, &choice);
	foreach(cell, chosen)
	{
		int			column = lfirst_int(cell);

		(void) gk_find_column(source, gk_column_name(source, column), "features");
		gk_add_feature(source, column);
	}
	tell_choice(source, &choice, chosen);
}
