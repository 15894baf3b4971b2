/*
 * The SQL function gkmeans_select_k.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"

#include "alloc.h"
#include "selection.h"
#include "sql_function.h"

GK_SQL_FUNCTION(gkmeans_select_k);

#define DEFAULT_STARTS 4
#define MAX_SAMPLE 1000000

/* Places of the arguments that a fit does not have. */
enum
{
	K = 2,
	CRITERION,
	N_INIT = 11,
	SAMPLE = 14,
	GAP_REFERENCES
};

/* Where the arguments of a fit are among those of this function; -1 = it has no such one. */
static const int places[] = {0, 1, -1, -1, 4, 5, -1, 6, 7, 8, 9, 10, N_INIT, 12, 13, -1,
-1, -1};

#define FIT_ARGUMENTS ((int) lengthof(places))
#define FIT_K 2
#define FIT_N_INIT 12

/* An argument that is a number within bounds. */
static int
number_within(FunctionCallInfo fcinfo, int number, const char *argument, int by_default,
			  int least, int greatest)
{
	int			value = PG_ARGISNULL(number) ? by_default : PG_GETARG_INT32(number);

	if (value < least || value > greatest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s is out of range", argument),
				 errhint("Valid values are %d to %d.", least, greatest)));
	return value;
}

/* Reads what is to be tried. */
static void
read_spec(FunctionCallInfo fcinfo, GkCandidateSpec *spec)
{
	if (!gk_read_candidates(fcinfo, K, "k", spec))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("k is NULL"),
				 errhint("List the numbers of clusters to be tried: '{2,3,4,5,6}'.")));
	if (!PG_ARGISNULL(SAMPLE))
		spec->sample = number_within(fcinfo, SAMPLE, "sample", 0, 1, MAX_SAMPLE);
	spec->references = number_within(fcinfo, GAP_REFERENCES, "gap_references", spec->references,
									 0, GK_MAX_REFERENCES);
	if (spec->criterion == GK_FIGURE_GAP && spec->references == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("criterion \"gap\" needs gap_references"),
				 errhint("Leave out gap_references, or set it to 20.")));
}

/* Begins the call with the arguments of a fit. */
static void
begin_call(GkCall *call, FunctionCallInfo fcinfo, int greatest_k)
{
	LOCAL_FCINFO(fit, lengthof(places));

	InitFunctionCallInfoData(*fit, fcinfo->flinfo, FIT_ARGUMENTS, fcinfo->fncollation, NULL, NULL);
	for (int i = 0; i < FIT_ARGUMENTS; i++)
		if (places[i] < 0)
			fit->args[i] = (NullableDatum) {.isnull = true};
		else
			fit->args[i] = fcinfo->args[places[i]];
	fit->args[FIT_K] = (NullableDatum) {.value = Int64GetDatum(greatest_k)};
	if (fit->args[FIT_N_INIT].isnull)
		fit->args[FIT_N_INIT] = (NullableDatum) {.value = Int32GetDatum(DEFAULT_STARTS)};
	gk_call_begin(call, fit, 0);
	call->arguments.fit.for_model = true;
}

/* SQL: how good the clusterings with several k are; one row for each k. */
Datum
gkmeans_select_k(PG_FUNCTION_ARGS)
{
	GkCandidateSpec spec;
	GkSelection selection;
	GkCall		call;

	InitMaterializedSRF(fcinfo, 0);
	read_spec(fcinfo, &spec);
	begin_call(&call, fcinfo, spec.candidates[spec.count - 1]);
	gk_call_read(&call);
	gk_select_k(&call, &spec, &selection);
	gk_put_selection(&selection, (ReturnSetInfo *) fcinfo->resultinfo);
	gk_call_end_job(&call);
	gk_call_close(&call);
	return (Datum) 0;
}
