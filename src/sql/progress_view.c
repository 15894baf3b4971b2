/*
 * The SQL function behind the view gkmeans.progress.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "common/string.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "live_fits.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gk_running_fits);

/* The columns. */
enum
{
	PID,
	DATABASE_NAME,
	ROLE_NAME,
	MODEL,
	PHASE,
	GROUP_NO,
	GROUPS,
	START_NO,
	STARTS,
	ITERATION,
	MAX_ITERATIONS,
	ROWS_DONE,
	ROWS_ESTIMATED,
	INERTIA,
	MOVED,
	ENGINE,
	DEVICES,
	DEVICE_BYTES,
	NODES,
	STARTED_AT,
	SECONDS,
	REMAINING_SECONDS,
	COLUMNS
};

/* A row of the result: what is not set is NULL. */
typedef struct Row
{
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS];
} Row;

/* Sets a column. */
static void
set(Row *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

/* Sets a column to a text, unless there is none. */
static void
set_text(Row *row, int column, const char *text)
{
	if (text != NULL)
		set(row, column, CStringGetTextDatum(text));
}

/* Sets a column to a whole number, unless it is below the least that says something. */
static void
set_integer(Row *row, int column, int number, int least)
{
	if (number >= least)
		set(row, column, Int32GetDatum(number));
}

/* The same for a number of any size. */
static void
set_count(Row *row, int column, int64 number, int64 least)
{
	if (number >= least)
		set(row, column, Int64GetDatum(number));
}

/* Sets a column to a number, unless it is not known. */
static void
set_number(Row *row, int column, double number)
{
	if (!isnan(number))
		set(row, column, Float8GetDatum(number));
}

/* Seconds between two times. */
static double
seconds_between(int64 from, int64 to)
{
	return (double) (to - from) / USECS_PER_SEC;
}

/*
 * Seconds that a phase still takes: reading, by the rows that are expected; iterating, at most, as
 * starts may converge earlier.  NaN where nothing is known.
 */
static double
remaining_seconds(const GkLiveFit *fit, int64 now)
{
	double		seconds = seconds_between(fit->phase_started, now);

	if (fit->phase == GK_PHASE_READING && fit->rows > 0 &&
		fit->expected > fit->rows)
		return seconds * (fit->expected - fit->rows) / fit->rows;
	if (fit->phase == GK_PHASE_ITERATING && fit->iteration > 0)
		return seconds / fit->iteration *
			(fit->max_iterations - fit->iteration +
			 (double) (fit->starts - fit->start) * fit->max_iterations);
	return NAN;
}

/* True if the current user may see more of a fit than that it runs. */
static bool
may_see(const GkLiveFit *fit)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), fit->role);
}

/* The encoding of a database; -1 if it was dropped. */
static int
encoding_of(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	int			encoding = -1;

	if (HeapTupleIsValid(tuple))
	{
		encoding = ((Form_pg_database) GETSTRUCT(tuple))->encoding;
		ReleaseSysCache(tuple);
	}
	return encoding;
}

/* The name of a model; one of another database may be in an encoding of its own. */
static const char *
model_name(const GkLiveFit *fit)
{
	if (fit->model == NULL || fit->database == MyDatabaseId || pg_is_ascii(fit->model) ||
		(encoding_of(fit->database) == GetDatabaseEncoding() &&
		 pg_verifymbstr(fit->model, strlen(fit->model), true)))
		return fit->model;
	return "?";
}

/* What only some may see. */
static void
describe(const GkLiveFit *fit, Row *row)
{
	int64		now = GetCurrentTimestamp();

	set_text(row, DATABASE_NAME, get_database_name(fit->database));
	set_text(row, ROLE_NAME, GetUserNameFromId(fit->role, true));
	set_text(row, MODEL, model_name(fit));
	set_integer(row, START_NO, fit->start, 1);
	set_integer(row, STARTS, fit->starts, 1);
	if (fit->start > 0)
	{
		set_integer(row, ITERATION, fit->iteration, 0);
		set_integer(row, MAX_ITERATIONS, fit->max_iterations, 1);
	}
	set_count(row, ROWS_DONE, fit->rows, 0);
	set_count(row, ROWS_ESTIMATED, fit->expected, 1);
	set_number(row, INERTIA, fit->inertia);
	set_count(row, MOVED, fit->moved, 0);
	set_text(row, ENGINE, fit->engine);
	if (fit->engine != NULL)
	{
		set_integer(row, DEVICES, fit->devices, 0);
		set_count(row, DEVICE_BYTES, (int64) fit->device_bytes, 0);
	}
	set_integer(row, NODES, fit->nodes, 0);
	set(row, STARTED_AT, TimestampTzGetDatum(fit->started));
	set_number(row, SECONDS, Max(0.0, seconds_between(fit->started, now)));
	set_number(row, REMAINING_SECONDS, remaining_seconds(fit, now));
}

/* SQL: the fits that run on the server now. */
Datum
gk_running_fits(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			count;
	GkLiveFit  *fits = gk_live_fits(&count);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < count; i++)
	{
		Row			row;

		memset(row.nulls, true, sizeof(row.nulls));
		set(&row, PID, Int32GetDatum(fits[i].pid));
		set_text(&row, PHASE, gk_phase_name(fits[i].phase));
		if (may_see(&fits[i]))
			describe(&fits[i], &row);
		tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}
