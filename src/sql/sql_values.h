/*
 * Values between SQL and C: arguments, and columns of a result.
 */
#ifndef GK_SQL_VALUES_H
#define GK_SQL_VALUES_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "fmgr.h"

/* An argument as text, or its default. */
extern const char *gk_text_or(FunctionCallInfo fcinfo, int number, const char *by_default);

/* An argument as text; 22004 for NULL. */
extern const char *gk_required_text(FunctionCallInfo fcinfo, int number, const char *argument);

/* Raises 22004 if an argument is NULL. */
extern void gk_require_argument(FunctionCallInfo fcinfo, int number, const char *argument);

/* The position of a word among the valid ones, which end with NULL; 22023 if it is not valid. */
extern int	gk_find_word(const char *argument, const char *word, const char *const *words);

/* Such words as a list for a hint. */
extern char *gk_list_words(const char *const *words);

/* Raises 22023 with a hint about the valid values. */
extern void gk_out_of_range(const char *argument, const char *valid);

/* Raises the error of a function that another version of the extension has made: 55000. */
__attribute__((noreturn))
extern void gk_refuse_version(void);

/*
 * The row type of a result, before anything may drop the function; the error of another version if
 * it has other columns.
 */
extern TupleDesc gk_result_row(FunctionCallInfo fcinfo, int columns);

/*
 * Begins a result of rows of a function that may be called for each row of a query: to look its
 * columns up, as InitMaterializedSRF(fcinfo, 0) does, takes memory until the query ends.
 */
extern void gk_begin_result(FunctionCallInfo fcinfo);

/* Puts a number into a column of a result; NaN becomes NULL. */
extern void gk_put_number(Datum *value, bool *is_null, double number);

#endif							/* GK_SQL_VALUES_H */
