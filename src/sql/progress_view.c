/*
 * The SQL function behind the view gkmeans.progress.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_authid.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "running.h"
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
remaining_seconds(const GkRunning *running, int64 now)
{
	double		seconds = seconds_between(running->phase_started, now);

	if (running->phase == GK_PHASE_READING && running->rows > 0 &&
		running->expected > running->rows)
		return seconds * (running->expected - running->rows) / running->rows;
	if (running->phase == GK_PHASE_ITERATING && running->iteration > 0)
		return seconds / running->iteration *
			(running->max_iterations - running->iteration +
			 (double) (running->starts - running->start) * running->max_iterations);
	return NAN;
}

/* Whether the current user may see more of a fit than that it runs. */
static bool
may_see(const GkRunning *running)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), running->role);
}

/* The name of a model; one of another database may be in an encoding of its own. */
static const char *
model_name(const GkRunning *running)
{
	if (running->model == NULL)
		return NULL;
	if (running->database == MyDatabaseId ||
		pg_verifymbstr(running->model, strlen(running->model), true))
		return running->model;
	return "?";
}

/* What only some may see. */
static void
describe(const GkRunning *running, Row *row)
{
	int64		now = GetCurrentTimestamp();

	set_text(row, DATABASE_NAME, get_database_name(running->database));
	set_text(row, ROLE_NAME, GetUserNameFromId(running->role, true));
	set_text(row, MODEL, model_name(running));
	set_integer(row, START_NO, running->start, 1);
	set_integer(row, STARTS, running->starts, 1);
	if (running->start > 0)
	{
		set_integer(row, ITERATION, running->iteration, 0);
		set_integer(row, MAX_ITERATIONS, running->max_iterations, 1);
	}
	set_count(row, ROWS_DONE, running->rows, 0);
	set_count(row, ROWS_ESTIMATED, running->expected, 1);
	set_number(row, INERTIA, running->inertia);
	set_count(row, MOVED, running->moved, 0);
	set_text(row, ENGINE, running->engine);
	if (running->engine != NULL)
	{
		set_integer(row, DEVICES, running->devices, 0);
		set_count(row, DEVICE_BYTES, (int64) running->device_bytes, 0);
	}
	set(row, STARTED_AT, TimestampTzGetDatum(running->started));
	set_number(row, SECONDS, Max(0.0, seconds_between(running->started, now)));
	set_number(row, REMAINING_SECONDS, remaining_seconds(running, now));
}

/* SQL: the fits that run on the server now. */
Datum
gk_running_fits(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			count;
	GkRunning  *running = gk_find_running(&count);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < count; i++)
	{
		Row			row;

		memset(row.nulls, true, sizeof(row.nulls));
		set(&row, PID, Int32GetDatum(running[i].pid));
		set_text(&row, PHASE, gk_phase_name(running[i].phase));
		if (may_see(&running[i]))
			describe(&running[i], &row);
		tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}
