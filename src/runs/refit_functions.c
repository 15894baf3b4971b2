/*
 * The SQL function gkmeans_refit and the procedure gkmeans_refresh.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/proc.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "refit.h"
#include "run.h"
#include "settings.h"
#include "sql_function.h"
#include "sql_values.h"
#include "subtransaction.h"

GK_SQL_FUNCTION(gkmeans_refit);
GK_SQL_FUNCTION(gkmeans_refresh);

#define MAX_STARTS 1000

/* How long the record of a failure waits for a lock, in ms. */
#define MOST_WAIT 10000

/* How often the record is tried: in the run's transaction, in a new one, without a notification. */
#define MOST_RECORDS 3

/* Positions of the arguments. */
enum
{
	MODEL,
	DEPLOY,
	MIN_IMPROVEMENT,
	ONLY_IF_DRIFT,
	STARTS,
	RESCALE,
	LABELS_TABLE,
	LABELS_MODE,
	CHANGES_TABLE,
	KEEP,
	NOTE
};

/* Parses when to deploy. */
static GkDeploy
deploy_word(const char *word)
{
	static const char *const words[] = {"better", "always", "never", NULL};

	return gk_find_word("deploy", word, words);
}

/* Reads and checks the arguments. */
static void
read_spec(FunctionCallInfo fcinfo, GkRefitSpec *spec)
{
	const char *deploy = gk_text_or(fcinfo, DEPLOY, NULL);

	gk_require_argument(fcinfo, MODEL, "model");
	spec->model = PG_GETARG_OID(MODEL);
	spec->deploy = deploy_word(deploy != NULL ? deploy : "better");
	spec->min_improvement = PG_ARGISNULL(MIN_IMPROVEMENT) ? 0.0
		: PG_GETARG_FLOAT8(MIN_IMPROVEMENT);
	spec->only_if_drift = PG_ARGISNULL(ONLY_IF_DRIFT) ? NAN : PG_GETARG_FLOAT8(ONLY_IF_DRIFT);
	spec->starts = PG_ARGISNULL(STARTS) ? -1 : PG_GETARG_INT32(STARTS);
	spec->rescale = !PG_ARGISNULL(RESCALE) && PG_GETARG_BOOL(RESCALE);
	spec->labels_table = gk_text_or(fcinfo, LABELS_TABLE, NULL);
	spec->labels_mode = gk_text_or(fcinfo, LABELS_MODE, NULL);
	spec->changes_table = gk_text_or(fcinfo, CHANGES_TABLE, NULL);
	spec->keep = PG_ARGISNULL(KEEP) ? -1 : PG_GETARG_INT32(KEEP);
	spec->note = gk_text_or(fcinfo, NOTE, NULL);
	if (!(fabs(spec->min_improvement) <= 1.0))
		gk_out_of_range("min_improvement", "numbers from -1 to 1");
	if (!PG_ARGISNULL(ONLY_IF_DRIFT) && !(spec->only_if_drift >= 0.0))
		gk_out_of_range("only_if_drift", "0 and above");
	if (!PG_ARGISNULL(STARTS) && (spec->starts < 0 || spec->starts > MAX_STARTS))
		gk_out_of_range("starts", "0 to 1000");
	if (!PG_ARGISNULL(KEEP) && spec->keep < 1)
		gk_out_of_range("keep", "1 and above");
}

/* SQL: fits a new version of a model; returns the result. */
Datum
gkmeans_refit(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *set = (ReturnSetInfo *) fcinfo->resultinfo;
	GkRefitResult result;
	GkRefitSpec spec;
	Datum		values[10] = {0};
	bool		nulls[10] = {0};

	InitMaterializedSRF(fcinfo, 0);
	read_spec(fcinfo, &spec);
	gk_refit(&spec, 0, &result);
	values[0] = Int32GetDatum(result.version);
	values[1] = CStringGetTextDatum(result.status);
	values[2] = BoolGetDatum(result.deployed);
	values[3] = Int64GetDatum(result.rows);
	gk_put_number(&values[4], &nulls[4], result.inertia_before);
	gk_put_number(&values[5], &nulls[5], result.inertia);
	gk_put_number(&values[6], &nulls[6], result.improvement);
	gk_put_number(&values[7], &nulls[7], result.psi);
	nulls[8] = result.moved < 0;
	values[8] = Int64GetDatum(result.moved);
	values[9] = CStringGetTextDatum(result.outcome);
	tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	return (Datum) 0;
}

/* Commits; returns the error, in the current memory context, or NULL. */
static ErrorData *
try_commit(void)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		SPI_commit();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return error;
}

/* A run: its arguments, its version, and its failure. */
typedef struct Run
{
	GkRefitSpec spec;
	int			version;
	ErrorData  *error;
	bool		is_silent;		/* its failure is recorded without a notification */
} Run;

/* An attempt: the refit. */
static void
refit(void *argument)
{
	Run		   *run = argument;
	GkRefitResult result;

	gk_refit(&run->spec, run->version, &result);
	gk_leave_run(run->spec.model, run->version);
}

/*
 * An attempt: the record that it failed.  It does not wait long for who holds the row: the timeout
 * that has ended the refit may not come again.
 */
static void
record_failure(void *argument)
{
	Run		   *run = argument;
	int			nest_level = NewGUCNestLevel();

	if (LockTimeout == 0 || LockTimeout > MOST_WAIT)
		gk_set_locally("lock_timeout", psprintf("%d", MOST_WAIT));
	if (StatementTimeout > 0 && !get_timeout_active(STATEMENT_TIMEOUT))
		enable_timeout_after(STATEMENT_TIMEOUT, StatementTimeout);
	gk_record_failure(run->spec.model, run->version, run->error, !run->is_silent);
	AtEOXact_GUC(true, nest_level);
}

/* Records and commits that a run failed; returns the error, or NULL. */
static ErrorData *
try_record(Run *run)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		error = gk_try(record_failure, run, true);
	}
	PG_CATCH();
	{
		/* its subtransaction could not begin, and is left to the end of the statement */
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	return error != NULL ? error : try_commit();
}

/* True if an error of the record says that it shall not be tried again. */
static bool
ends_record(const ErrorData *error)
{
	return error == NULL || error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
}

/*
 * Records that a run failed, without hiding its error.  The transaction of the run may not be able
 * to write any more: one that could not be serialized, or whose servers of Citus were cancelled.
 */
static void
end_failed(Run *run)
{
	int			level = GetCurrentTransactionNestLevel();
	ErrorData  *error = try_record(run);

	for (int i = 1; i < MOST_RECORDS && !ends_record(error) &&
		 GetCurrentTransactionNestLevel() == level; i++)
	{
		SPI_rollback();
		EnsurePortalSnapshotExists();
		/* a queue that is full takes no notification, nor does a channel without a name */
		run->is_silent |= error->sqlerrcode == ERRCODE_PROGRAM_LIMIT_EXCEEDED ||
			error->sqlerrcode == ERRCODE_INVALID_PARAMETER_VALUE;
		error = try_record(run);
	}
	if (error != NULL)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not record that version %d failed: %s", run->version,
						error->message)));
}

/* Runs a refit in transactions of its own. */
static void
run_in_transactions(Run *run)
{
	run->version = gk_enter_run(run->spec.model, run->spec.note);
	SPI_commit();
	EnsurePortalSnapshotExists();
	run->error = gk_try(refit, run, true);
	if (run->error == NULL)
		run->error = try_commit();
	if (run->error == NULL)
	{
		/* a timeout that came during the commit is not for the next statement */
		CHECK_FOR_INTERRUPTS();
		return;
	}
	EnsurePortalSnapshotExists();
	end_failed(run);
	ReThrowError(run->error);
}

/* True if the caller lets a procedure commit. */
static bool
may_commit(FunctionCallInfo fcinfo)
{
	return fcinfo->context != NULL && IsA(fcinfo->context, CallContext) &&
		!castNode(CallContext, fcinfo->context)->atomic && !IsSubTransaction();
}

/* Raises the error of a call that cannot write, now or after its first commit. */
static void
check_writable(void)
{
	PreventCommandIfReadOnly("gkmeans_refresh()");
	if (DefaultXactReadOnly)
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("gkmeans_refresh() commits, and the next transaction is read-only"),
				 errhint("Set \"%s\" to off.", "default_transaction_read_only")));
}

/* SQL: fits a new version of a model, and records the run. */
Datum
gkmeans_refresh(PG_FUNCTION_ARGS)
{
	GkRefitResult result;
	Run			run = {0};

	read_spec(fcinfo, &run.spec);
	if (!may_commit(fcinfo))
	{
		gk_refit(&run.spec, 0, &result);
		PG_RETURN_VOID();
	}
	check_writable();
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	run_in_transactions(&run);
	SPI_finish();
	PG_RETURN_VOID();
}
