/*
 * What this session remembers: its last fit and the most memory it took.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "job.h"
#include "report.h"

static bool has_report = false;
static GkReport last_report;

/* The most that fits of this session took at once. */
static struct
{
	uint64		host;
	uint64		pinned;
	uint64		device;
	uint64		ring;
} peak;

/* The rings of the fits that read rows now. */
static Size ring_bytes_now = 0;

PG_FUNCTION_INFO_V1(gkmeans_last_fit);
PG_FUNCTION_INFO_V1(gkmeans_memory);

/* Remembers a fit that ended well. */
void
gk_remember_fit(const GkReport *report)
{
	last_report = *report;
	has_report = true;
}

/* Notes the memory that an engine took, beside those that are open still. */
void
gk_note_engine(const GkUsage *usage)
{
	GkUsage		others;

	gk_engines_usage(&others);
	peak.host = Max(peak.host, others.host_bytes + usage->host_peak);
	peak.pinned = Max(peak.pinned, others.pinned_bytes + usage->pinned_peak);
	peak.device = Max(peak.device, others.device_bytes + usage->device_peak);
}

/* Notes that a ring was created. */
void
gk_note_ring(Size bytes)
{
	ring_bytes_now += bytes;
	peak.ring = Max(peak.ring, ring_bytes_now);
}

/* Notes that a ring was freed. */
void
gk_forget_ring(Size bytes)
{
	ring_bytes_now -= bytes;
}

/* SQL: the report of the last fit of this session, no row before the first. */
Datum
gkmeans_last_fit(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const GkReport *report = &last_report;
	Datum		values[24];
	bool		nulls[24] = {0};
	int			column = 0;

	InitMaterializedSRF(fcinfo, 0);
	if (!has_report)
		return (Datum) 0;
	values[column++] = Int64GetDatum(report->rows_read);
	values[column++] = Int64GetDatum(report->rows_skipped);
	values[column++] = Int32GetDatum(report->dimension);
	values[column++] = Int32GetDatum((int32) report->k);
	values[column++] = Int32GetDatum((int32) report->k_effective);
	values[column++] = Int32GetDatum(report->iterations);
	values[column++] = BoolGetDatum(report->converged);
	values[column++] = Float8GetDatum(report->inertia);
	values[column++] = Int32GetDatum(report->best_start + 1);
	values[column++] = CStringGetTextDatum(report->engine);
	values[column++] = CStringGetTextDatum(report->engine_reason);
	values[column++] = Int32GetDatum(report->usage.devices);
	values[column++] = Int32GetDatum(report->usage.threads);
	values[column++] = Int32GetDatum(report->workers);
	values[column++] = BoolGetDatum(report->read_twice);
	values[column++] = Float8GetDatum(report->read_seconds);
	values[column++] = Float8GetDatum(report->seed_seconds);
	values[column++] = Float8GetDatum(report->iterate_seconds);
	values[column++] = Float8GetDatum(report->label_seconds);
	values[column++] = Int64GetDatum((int64) report->usage.host_peak);
	values[column++] = Int64GetDatum((int64) report->usage.pinned_peak);
	values[column++] = Int64GetDatum((int64) report->usage.device_peak);
	values[column++] = Int64GetDatum((int64) report->ring_bytes);
	Assert(column == result->setDesc->natts && column <= (int) lengthof(values));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}

/* One row of gkmeans_memory(); no device is told from another. */
static void
put_memory(ReturnSetInfo *result, const char *kind, uint64 bytes, uint64 most)
{
	Datum		values[4] = {0};
	bool		nulls[4] = {false, true, false, false};

	values[0] = CStringGetTextDatum(kind);
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

	InitMaterializedSRF(fcinfo, 0);
	gk_engines_usage(&usage);
	put_memory(result, "host", usage.host_bytes, Max(usage.host_peak, peak.host));
	put_memory(result, "pinned", usage.pinned_bytes, Max(usage.pinned_peak, peak.pinned));
	put_memory(result, "device", usage.device_bytes, Max(usage.device_peak, peak.device));
	put_memory(result, "ring", ring_bytes_now, peak.ring);
	put_memory(result, "jobs", gk_job_bytes(), 0);
	return (Datum) 0;
}
