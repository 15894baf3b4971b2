/*
 * Reports about fits: the SQL functions gkmeans_last_fit, gkmeans_memory and gkmeans_sessions.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "host_account.h"
#include "job.h"
#include "report.h"
#include "sql_function.h"
#include "sql_values.h"

static bool has_report = false;
static GkReport last_report;
static Oid	last_role;			/* that the fit ran as */

GK_SQL_FUNCTION(gkmeans_last_fit);
GK_SQL_FUNCTION(gkmeans_last_fit_nodes);
GK_SQL_FUNCTION(gkmeans_memory);
GK_SQL_FUNCTION(gkmeans_sessions);

/* Where what is remembered of the last fit lies. */
static MemoryContext report_context = NULL;

/* Copies what the nodes of a fit did. */
static GkNodeLine *
copy_nodes(const GkReport *report)
{
	GkNodeLine *nodes = palloc(Max(report->node_count, 1) * sizeof(GkNodeLine));

	for (int i = 0; i < report->node_count; i++)
	{
		nodes[i] = report->nodes[i];
		nodes[i].name = pstrdup(nodes[i].name);
		nodes[i].engine = pstrdup(nodes[i].engine);
		nodes[i].engine_reason = pstrdup(nodes[i].engine_reason);
	}
	return nodes;
}

/* Remembers a fit that ended well. */
void
gk_remember_fit(const GkReport *report)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "gkmeans report",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	GkReport	copy = *report;

	copy.features = DatumGetArrayTypePCopy(PointerGetDatum(report->features));
	copy.nodes = copy_nodes(report);
	MemoryContextSwitchTo(before);
	if (has_report)
		MemoryContextDelete(report_context);
	report_context = context;
	last_report = copy;
	last_role = GetUserId();
	has_report = true;
}

/* True if the current user may see the report: a function may have fitted as another role. */
static bool
may_see_report(void)
{
	return has_report && (has_privs_of_role(GetUserId(), last_role) ||
						  has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS));
}

/* Raises an error if the function was created by another version, with other columns. */
static void
check_columns(const ReturnSetInfo *result, int count)
{
	if (result->setDesc->natts != count)
		gk_refuse_version();
}

/* SQL: the report of the last fit of this session, no row before the first. */
Datum
gkmeans_last_fit(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const GkReport *report = &last_report;
	Datum		values[32];
	bool		nulls[32] = {0};
	int			column = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (!may_see_report())
		return (Datum) 0;
	values[column++] = Int64GetDatum(report->rows_read);
	values[column++] = Int64GetDatum(report->rows_skipped);
	values[column++] = PointerGetDatum(report->features);
	values[column++] = Int32GetDatum(report->dimension);
	values[column++] = Int32GetDatum((int32) report->k);
	values[column++] = Int32GetDatum((int32) report->k_effective);
	values[column++] = Int32GetDatum(report->iterations);
	values[column++] = BoolGetDatum(report->converged);
	values[column++] = Float8GetDatum(report->inertia);
	values[column++] = Int32GetDatum(report->best_start + 1);
	values[column++] = CStringGetTextDatum(report->quality);
	values[column++] = Int32GetDatum(report->search_rounds);
	values[column++] = Float8GetDatum(report->search_improvement);
	values[column++] = CStringGetTextDatum(report->engine);
	values[column++] = CStringGetTextDatum(report->engine_reason);
	values[column++] = Int32GetDatum(report->usage.devices);
	values[column++] = Int32GetDatum(report->usage.threads);
	values[column++] = Int32GetDatum(report->workers);
	values[column++] = BoolGetDatum(report->read_twice);
	values[column++] = Float8GetDatum(report->open_seconds);
	values[column++] = Float8GetDatum(report->read_seconds);
	values[column++] = Float8GetDatum(report->prepare_seconds);
	values[column++] = Float8GetDatum(report->seed_seconds);
	values[column++] = Float8GetDatum(report->iterate_seconds);
	values[column++] = Float8GetDatum(report->label_seconds);
	values[column++] = Float8GetDatum(report->total_seconds);
	values[column++] = Int64GetDatum((int64) report->usage.host_peak);
	values[column++] = Int64GetDatum((int64) report->usage.pinned_peak);
	values[column++] = Int64GetDatum((int64) report->usage.device_peak);
	values[column++] = Int64GetDatum((int64) report->ring_bytes);
	values[column++] = Int32GetDatum(report->node_count);
	values[column++] = Float8GetDatum(report->exchange_seconds);
	Assert(column <= (int) lengthof(values));
	check_columns(result, column);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}

/* SQL: what each node of the last fit of this session did. */
Datum
gkmeans_last_fit_nodes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			count = may_see_report() ? last_report.node_count : 0;

	InitMaterializedSRF(fcinfo, 0);
	check_columns(result, 10);
	for (int i = 0; i < count; i++)
	{
		const GkNodeLine *node = &last_report.nodes[i];
		Datum		values[10] = {CStringGetTextDatum(node->name),
			Int64GetDatum(node->rows_read), Int64GetDatum(node->rows_skipped),
			CStringGetTextDatum(node->engine), CStringGetTextDatum(node->engine_reason),
			Float8GetDatum(node->read_seconds), Float8GetDatum(node->compute_seconds),
			Int64GetDatum((int64) node->bytes), Int64GetDatum((int64) node->sent),
			Int64GetDatum((int64) node->received)};
		bool		nulls[10] = {0};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* Puts one row of gkmeans_memory(); device -1 means none. */
static void
put_memory(ReturnSetInfo *result, const char *kind, int device, uint64 bytes, uint64 most)
{
	Datum		values[4] = {0};
	bool		nulls[4] = {false, device < 0, false, false};

	values[0] = CStringGetTextDatum(kind);
	values[1] = Int32GetDatum(device);
	values[2] = Int64GetDatum((int64) bytes);
	values[3] = Int64GetDatum((int64) Max(bytes, most));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* SQL: the memory that the fits of this session hold, and the most they held. */
Datum
gkmeans_memory(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	GkUsage		usage;
	Size		ring;
	Size		most;

	InitMaterializedSRF(fcinfo, 0);
	gk_engines_usage(&usage);
	gk_rings_usage(&ring, &most);
	put_memory(result, "host", -1, usage.host_bytes, usage.host_peak);
	put_memory(result, "pinned", -1, usage.pinned_bytes, usage.pinned_peak);
	for (int i = 0; i < usage.devices; i++)
		put_memory(result, "device", usage.device[i].number, usage.device[i].bytes,
				   usage.device[i].peak);
	put_memory(result, "ring", -1, ring, most);
	put_memory(result, "jobs", -1, gk_job_bytes(), 0);
	return (Datum) 0;
}

/* SQL: the sessions of the server whose fits hold host memory. */
Datum
gkmeans_sessions(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			pid;
	uint64		bytes;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; gk_host_account_entry(i, &pid, &bytes); i++)
	{
		Datum		values[2] = {Int32GetDatum(pid), Int64GetDatum((int64) bytes)};
		bool		nulls[2] = {false, false};

		if (pid != 0 && bytes > 0)
			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
