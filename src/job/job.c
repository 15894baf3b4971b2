/*
 * The job of one fit: owns the resources that outlive a function call, and waits for the
 * engine.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "engine_error.h"
#include "job.h"
#include "progress.h"

/* The longest single wait for the engine, in milliseconds. */
#define WAIT_MILLISECONDS 10

struct GkJob
{
	ResourceOwner owner;
	MemoryContext context;
	GkRelease  *releases;		/* last acquired first */
	GkEngine   *engine;			/* NULL = not open */
	bool		of_transaction; /* it may last until the commit */
	GkCommand	command;		/* the current one; after an error it outlives the stack */
	GkJob	   *whole;			/* the job that this one is part of, or NULL */
	GkUsage		with_parts;		/* the most that its engine and those of its parts held at once */
	GkJob	   *next;			/* the job that this one is nested in */
};

static GkJob *jobs = NULL;

/* The most memory that the engines of this session held at once; only the peaks count. */
static GkUsage engines_peak;

/* Bytes of the current rings, and the most that they held at once. */
static Size rings_bytes = 0;
static Size rings_peak = 0;

/* Releases what the job owns, and its memory. */
static void
release_job(GkJob *job)
{
	GkJob	  **link = &jobs;

	while (*link != job)
		link = &(*link)->next;
	*link = job->next;

	for (GkRelease *release = job->releases; release != NULL; release = release->next)
		gk_job_release(release);
	MemoryContextDelete(job->context);
}

/* Releases the jobs of an ending resource owner, silently after an error. */
static void
release_jobs_of_owner(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	GkJob	   *next;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	for (GkJob *job = jobs; job != NULL; job = next)
	{
		next = job->next;
		if (job->owner != CurrentResourceOwner)
			continue;
		if (isCommit && !job->of_transaction)
			elog(WARNING, "gkmeans job leaked: it was still alive when its transaction committed");
		release_job(job);
	}
}

/* Raises an error if too many jobs of this backend are open. */
static void
check_nesting(void)
{
	int			nested = 0;

	/* parts have no segments */
	for (GkJob *job = jobs; job != NULL; job = job->next)
		nested += job->whole == NULL;
	gk_check_nesting(nested);
}

/* Begins a job of a resource owner; its memory is a context below another one. */
static GkJob *
begin_job(ResourceOwner owner, MemoryContext parent)
{
	static bool registered = false;
	MemoryContext context;
	GkJob	   *job;

	if (!registered)
		RegisterResourceReleaseCallback(release_jobs_of_owner, NULL);
	registered = true;

	context = AllocSetContextCreate(parent, "gkmeans", ALLOCSET_DEFAULT_SIZES);
	job = MemoryContextAllocZero(context, sizeof(GkJob));
	job->owner = owner;
	job->context = context;
	job->next = jobs;
	jobs = job;
	return job;
}

/* Begins a job; its memory is context "gkmeans" below the transaction's. */
GkJob *
gk_job_begin(void)
{
	check_nesting();
	return begin_job(CurrentResourceOwner, CurTransactionContext);
}

/* Begins a job that is part of another one. */
GkJob *
gk_job_begin_part(GkJob *whole)
{
	GkJob	   *job = begin_job(CurrentResourceOwner, CurTransactionContext);

	job->whole = whole;
	return job;
}

/* True if a job is a part of another one. */
bool
gk_job_is_part(const GkJob *job)
{
	return job->whole != NULL;
}

/* Begins a job that lasts from statement to statement. */
GkJob *
gk_job_begin_in_transaction(void)
{
	GkJob	   *job;

	check_nesting();
	job = begin_job(TopTransactionResourceOwner, TopTransactionContext);
	job->of_transaction = true;
	return job;
}

/* Releases everything and the job itself. */
void
gk_job_end(GkJob *job)
{
	release_job(job);
}

/* Where the job's palloc'd data lives. */
MemoryContext
gk_job_context(GkJob *job)
{
	return job->context;
}

/* Takes a place in the job's list for a resource that is acquired next. */
GkRelease *
gk_job_reserve(GkJob *job, GkReleaseFunction function)
{
	GkRelease  *release = MemoryContextAllocZero(job->context, sizeof(GkRelease));

	release->function = function;
	release->next = job->releases;
	job->releases = release;
	return release;
}

/* Releases one resource before the end of the job. */
void
gk_job_release(GkRelease *release)
{
	void	   *resource = release->resource;

	release->resource = NULL;
	if (resource != NULL)
		release->function(resource);
}

/* How many jobs are alive in this backend. */
int
gk_live_jobs(void)
{
	int			count = 0;

	for (GkJob *job = jobs; job != NULL; job = job->next)
		count++;
	return count;
}

/* The palloc'd bytes of the jobs that are alive. */
Size
gk_job_bytes(void)
{
	Size		bytes = 0;

	for (GkJob *job = jobs; job != NULL; job = job->next)
		bytes += MemoryContextMemAllocated(job->context, true);
	return bytes;
}

/* The entry of a device in a usage, added if missing; NULL if there is no room for it. */
static GkDeviceUsage *
usage_of_device(GkUsage *usage, int number)
{
	for (int i = 0; i < usage->devices; i++)
		if (usage->device[i].number == number)
			return &usage->device[i];
	if (usage->devices == lengthof(usage->device))
		return NULL;
	usage->device[usage->devices] = (GkDeviceUsage) {.number = number};
	return &usage->device[usage->devices++];
}

/* Adds an engine's usage of each device. */
static void
add_devices(GkUsage *usage, const GkUsage *one)
{
	for (int i = 0; i < one->devices; i++)
	{
		GkDeviceUsage *device = usage_of_device(usage, one->device[i].number);

		if (device == NULL)
			continue;
		device->bytes += one->device[i].bytes;
		device->peak += one->device[i].peak;
	}
}

/* The memory of the engines of all jobs. */
static void
add_engines(GkUsage *usage)
{
	memset(usage, 0, sizeof(*usage));
	for (GkJob *job = jobs; job != NULL; job = job->next)
	{
		GkUsage		one;

		if (job->engine == NULL)
			continue;
		job->engine->class_of->usage(job->engine, &one);
		usage->host_bytes += one.host_bytes;
		usage->host_peak += one.host_peak;
		usage->pinned_bytes += one.pinned_bytes;
		usage->pinned_peak += one.pinned_peak;
		usage->device_bytes += one.device_bytes;
		usage->device_peak += one.device_peak;
		add_devices(usage, &one);
	}
}

/* The memory of the engines of all jobs, and the most that this session's held at once. */
void
gk_engines_usage(GkUsage *usage)
{
	add_engines(usage);
	usage->host_peak = Max(usage->host_peak, engines_peak.host_peak);
	usage->pinned_peak = Max(usage->pinned_peak, engines_peak.pinned_peak);
	usage->device_peak = Max(usage->device_peak, engines_peak.device_peak);
	for (int i = 0; i < engines_peak.devices; i++)
	{
		GkDeviceUsage *device = usage_of_device(usage, engines_peak.device[i].number);

		if (device != NULL)
			device->peak = Max(device->peak, engines_peak.device[i].peak);
	}
}

/* The memory of the rings of all jobs, and the most that they held at once. */
void
gk_rings_usage(Size *bytes, Size *most)
{
	*bytes = rings_bytes;
	*most = rings_peak;
}

/* Notes that a ring was created. */
void
gk_note_ring(Size bytes)
{
	rings_bytes += bytes;
	rings_peak = Max(rings_peak, rings_bytes);
}

/* Notes that a ring was freed. */
void
gk_forget_ring(Size bytes)
{
	rings_bytes -= bytes;
}

/* Updates the peaks before an engine closes. */
static void
note_peak(const GkUsage *usage)
{
	GkUsage		others;

	add_engines(&others);
	engines_peak.host_peak = Max(engines_peak.host_peak, others.host_bytes + usage->host_peak);
	engines_peak.pinned_peak = Max(engines_peak.pinned_peak,
								   others.pinned_bytes + usage->pinned_peak);
	engines_peak.device_peak = Max(engines_peak.device_peak,
								   others.device_bytes + usage->device_peak);
	for (int i = 0; i < usage->devices; i++)
	{
		const GkDeviceUsage *own = &usage->device[i];
		GkDeviceUsage *known = usage_of_device(&engines_peak, own->number);
		GkDeviceUsage *other = usage_of_device(&others, own->number);

		if (known != NULL)
			known->peak = Max(known->peak, own->peak + (other != NULL ? other->bytes : 0));
	}
}

/* The host bytes of the engine of the whole. */
uint64
gk_job_whole_bytes(const GkJob *job)
{
	GkUsage		usage = {0};

	if (job->whole != NULL && job->whole->engine != NULL)
		job->whole->engine->class_of->usage(job->whole->engine, &usage);
	return usage.host_bytes;
}

/* Updates the peaks of the whole before the engine of a part closes. */
static void
note_part(GkJob *whole, const GkUsage *part)
{
	GkUsage		usage = {0};
	GkUsage    *peak = &whole->with_parts;

	if (whole->engine != NULL)
		whole->engine->class_of->usage(whole->engine, &usage);
	peak->host_peak = Max(peak->host_peak, usage.host_bytes + part->host_peak);
	peak->pinned_peak = Max(peak->pinned_peak, usage.pinned_bytes + part->pinned_peak);
	peak->device_peak = Max(peak->device_peak, usage.device_bytes + part->device_peak);
}

/* The memory of the job's engine. */
void
gk_job_usage(const GkJob *job, GkUsage *usage)
{
	job->engine->class_of->usage(job->engine, usage);
	usage->host_peak = Max(usage->host_peak, job->with_parts.host_peak);
	usage->pinned_peak = Max(usage->pinned_peak, job->with_parts.pinned_peak);
	usage->device_peak = Max(usage->device_peak, job->with_parts.device_peak);
}

/* The release function of a job's engine. */
static void
close_engine(void *resource)
{
	GkJob	   *job = resource;
	GkEngine   *engine = job->engine;
	GkUsage		usage;

	engine->class_of->usage(engine, &usage);
	job->engine = NULL;
	note_peak(&usage);
	if (job->whole != NULL)
		note_part(job->whole, &usage);
	engine->class_of->close(engine);
}

/* Opens the engine of a job that has none; NULL if that fails, with the cause in *status. */
GkEngine *
gk_job_try_open_engine(GkJob *job, const GkEngineClass *engine_class,
					   const GkEngineConfig *config, GkStatus *status)
{
	GkRelease  *release = gk_job_reserve(job, close_engine);

	Assert(job->engine == NULL);
	*status = engine_class->open(config, &job->engine);
	if (job->engine != NULL)
		release->resource = job;
	return job->engine;
}

/* Opens the engine of a job. */
GkEngine *
gk_job_open_engine(GkJob *job, const GkEngineClass *engine_class, const GkEngineConfig *config)
{
	GkStatus	status;
	GkEngine   *engine = gk_job_try_open_engine(job, engine_class, config, &status);

	gk_check(status);
	return engine;
}

/* The engine of a job. */
GkEngine *
gk_job_engine(GkJob *job)
{
	return job->engine;
}

/* Waits for what runs elsewhere; cancel, timeout and termination act within 10 ms. */
void
gk_wait(GkStatus (*wait) (void *argument, int milliseconds), void *argument)
{
	GkStatus	status;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (IsUnderPostmaster && !PostmasterIsAlive())
			proc_exit(1);
		pgstat_report_wait_start(gk_progress_wait_event());
		status = wait(argument, WAIT_MILLISECONDS);
		pgstat_report_wait_end();
		if (status.code != GK_RUNNING)
			break;
	}
	gk_check(status);
}

/* Waits for the command of an engine. */
static GkStatus
wait_for_engine(void *argument, int milliseconds)
{
	GkEngine   *engine = argument;

	return engine->class_of->wait(engine, milliseconds);
}

/* Runs a command to its end. */
void
gk_run(GkJob *job, GkCommand *command)
{
	GkEngine   *engine = job->engine;

	job->command = *command;
	gk_check(engine->class_of->submit(engine, &job->command));
	gk_wait(wait_for_engine, engine);
	*command = job->command;
}
