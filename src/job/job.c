/*
 * The job of one fit: who owns what outlives a function call, and how the
 * backend waits for an engine.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "job.h"
#include "report.h"

/* How long one wait for the engine may be, in milliseconds. */
#define WAIT_MILLISECONDS 10

struct GkJob
{
	ResourceOwner owner;
	MemoryContext context;
	GkRelease  *releases;		/* last acquired first */
	GkCommand	command;		/* the one that runs; outlives the stack after an error */
	GkJob	   *next;			/* the job that this one is nested in */
};

static GkJob *jobs = NULL;

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

/* Releases the jobs of a resource owner that ends: silently after an error. */
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
		if (isCommit)
			elog(WARNING, "gkmeans job leaked: it was still alive when its transaction committed");
		release_job(job);
	}
}

/* Begins a job; its memory is context "gkmeans" below the transaction's. */
GkJob *
gk_job_begin(void)
{
	static bool registered = false;
	MemoryContext context;
	GkJob	   *job;

	if (!registered)
		RegisterResourceReleaseCallback(release_jobs_of_owner, NULL);
	registered = true;

	context = AllocSetContextCreate(CurTransactionContext, "gkmeans", ALLOCSET_DEFAULT_SIZES);
	job = MemoryContextAllocZero(context, sizeof(GkJob));
	job->owner = CurrentResourceOwner;
	job->context = context;
	job->next = jobs;
	jobs = job;
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

/* The release function of an engine. */
static void
close_engine(void *resource)
{
	GkEngine   *engine = resource;
	GkUsage		usage;

	engine->class_of->usage(engine, &usage);
	gk_note_engine(&usage);
	engine->class_of->close(engine);
}

/* Tries to open an engine that the job owns: NULL, and why, if it is not to be had. */
GkEngine *
gk_job_try_open_engine(GkJob *job, const GkEngineClass *engine_class,
					   const GkEngineConfig *config, GkStatus *status)
{
	GkRelease  *release = gk_job_reserve(job, close_engine);
	GkEngine   *engine = NULL;

	*status = engine_class->open(config, &engine);
	release->resource = engine;
	return engine;
}

/* Opens an engine that the job owns. */
GkEngine *
gk_job_open_engine(GkJob *job, const GkEngineClass *engine_class, const GkEngineConfig *config)
{
	GkStatus	status;
	GkEngine   *engine = gk_job_try_open_engine(job, engine_class, config, &status);

	gk_check(status);
	return engine;
}

/* The open engine of a job, or NULL. */
static GkEngine *
engine_of_job(GkJob *job)
{
	for (GkRelease *release = job->releases; release != NULL; release = release->next)
		if (release->function == close_engine && release->resource != NULL)
			return release->resource;
	return NULL;
}

/* The memory of the engines of all jobs, added up. */
void
gk_engines_usage(GkUsage *usage)
{
	memset(usage, 0, sizeof(*usage));
	for (GkJob *job = jobs; job != NULL; job = job->next)
	{
		GkEngine   *engine = engine_of_job(job);
		GkUsage		one;

		if (engine == NULL)
			continue;
		engine->class_of->usage(engine, &one);
		usage->host_bytes += one.host_bytes;
		usage->host_peak += one.host_peak;
		usage->pinned_bytes += one.pinned_bytes;
		usage->pinned_peak += one.pinned_peak;
		usage->device_bytes += one.device_bytes;
		usage->device_peak += one.device_peak;
	}
}

/* The job that owns an engine. */
static GkJob *
job_of_engine(GkEngine *engine)
{
	for (GkJob *job = jobs; job != NULL; job = job->next)
		if (engine_of_job(job) == engine)
			return job;
	elog(ERROR, "gkmeans engine belongs to no job");
}

/* Raises what a lack of memory means: a limit of ours, or one of the system's. */
static void
raise_no_memory(const GkStatus *status, const char *setting)
{
	if (status->needed <= status->allowed)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("gkmeans: %s", status->message),
				 status->needed > 0
				 ? errdetail("%s failed for %llu bytes.", status->where,
							 (unsigned long long) status->needed)
				 : errdetail("%s failed.", status->where),
				 errhint("The operating system has no more, or limits what a process may take.")));
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("gkmeans: %s", status->message),
			 errdetail("%llu bytes are needed, %llu bytes are allowed.",
					   (unsigned long long) status->needed, (unsigned long long) status->allowed),
			 errhint("The setting \"%s\" limits this memory.", setting)));
}

/* Raises that a device is full, by whatever there is besides this fit. */
static void
raise_device_full(const GkStatus *status)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("gkmeans: out of memory of GPU %d", status->device),
			 status->needed > 0
			 ? errdetail("%llu bytes are needed, %llu bytes are free.",
						 (unsigned long long) status->needed, (unsigned long long) status->allowed)
			 : errdetail("%s failed.", status->where),
			 errhint("Other processes may hold its memory; \"gkmeans.devices\" names the GPUs to use, "
					 "\"gkmeans.engine\" the engine.")));
}

/* Raises what a failure of a device means. */
static void
raise_device_error(const GkStatus *status)
{
	ereport(ERROR,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("gkmeans: %s", status->message),
			 status->device >= 0
			 ? errdetail("%s failed on device %d with error %d.",
						 status->where, status->device, status->native)
			 : errdetail("%s failed.", status->where),
			 status->code == GK_CONTEXT_LOST
			 ? errhint("Reconnect: this session cannot use its devices any more.") : 0));
}

/* Raises an error unless the status is GK_OK. */
void
gk_check(GkStatus status)
{
	switch (status.code)
	{
		case GK_OK:
			return;
		case GK_NO_DEVICE:
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("gkmeans: %s", status.message)));
			break;
		case GK_NO_DEVICE_MEMORY:
			if (status.native != 0)
				raise_device_full(&status);
			raise_no_memory(&status, "gkmeans.device_memory_limit");
			break;
		case GK_NO_HOST_MEMORY:
			raise_no_memory(&status, "gkmeans.host_memory_limit");
			break;
		case GK_LIMIT:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("gkmeans: %s", status.message)));
			break;
		case GK_DEVICE_ERROR:
		case GK_CONTEXT_LOST:
			raise_device_error(&status);
			break;
		case GK_RUNNING:
		case GK_INTERNAL:
			break;
	}
	elog(ERROR, "gkmeans: %s failed: %s", status.where, status.message);
}

/* Runs a command to its end; cancel, timeout and termination act within 10 ms. */
void
gk_run(GkEngine *engine, GkCommand *command)
{
	GkJob	   *job = job_of_engine(engine);
	GkStatus	status;

	job->command = *command;
	gk_check(engine->class_of->submit(engine, &job->command));
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (IsUnderPostmaster && !PostmasterIsAlive())
			proc_exit(1);
		status = engine->class_of->wait(engine, WAIT_MILLISECONDS);
		if (status.code != GK_RUNNING)
			break;
	}
	gk_check(status);
	*command = job->command;
}
