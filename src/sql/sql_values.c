/*
 * Values between SQL and C: arguments, and columns of a result.
 */
#include "postgres.h"

#include <math.h>

#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "sql_values.h"

/* An argument as text, or its default. */
const char *
gk_text_or(FunctionCallInfo fcinfo, int number, const char *by_default)
{
	return PG_ARGISNULL(number) ? by_default : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

/* An argument as text, which must not be NULL. */
const char *
gk_required_text(FunctionCallInfo fcinfo, int number, const char *argument)
{
	gk_require_argument(fcinfo, number, argument);
	return text_to_cstring(PG_GETARG_TEXT_PP(number));
}

/* Raises an error if an argument is NULL. */
void
gk_require_argument(FunctionCallInfo fcinfo, int number, const char *argument)
{
	if (PG_ARGISNULL(number))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s is NULL", argument)));
}

/* The position of a word among the valid ones. */
int
gk_find_word(const char *argument, const char *word, const char *const *words)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s: \"%s\"", argument, word),
			 errhint("Valid values are %s.", gk_list_words(words))));
}

/* The words as a list for a hint. */
char *
gk_list_words(const char *const *words)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; words[i] != NULL; i++)
		appendStringInfo(&list, "%s\"%s\"", i > 0 ? ", " : "", words[i]);
	return list.data;
}

/* Reports an argument that is out of range. */
void
gk_out_of_range(const char *argument, const char *valid)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s is out of range", argument),
			 errhint("Valid values are %s.", valid)));
}

/* Raises the error of a function that another version of the extension has made. */
void
gk_refuse_version(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("extension \"gkmeans\" and its library have different versions"),
			 errhint("Run ALTER EXTENSION gkmeans UPDATE.")));
}

/* The row type of a result. */
TupleDesc
gk_result_row(FunctionCallInfo fcinfo, int columns)
{
	TupleDesc	descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE ||
		descriptor->natts != columns)
		gk_refuse_version();
	return BlessTupleDesc(descriptor);
}

/* Begins a result of rows, with the columns that the caller knows. */
void
gk_begin_result(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		is_known = result != NULL && IsA(result, ReturnSetInfo) &&
		result->expectedDesc != NULL;

	InitMaterializedSRF(fcinfo, is_known ? MAT_SRF_USE_EXPECTED_DESC : 0);
}

/* Puts a number into a column of a result. */
void
gk_put_number(Datum *value, bool *is_null, double number)
{
	*is_null = isnan(number);
	*value = Float8GetDatum(number);
}
