/*
 * Which engine a fit gets: the CPU engine, or the CUDA engine on some of the GPUs.
 *
 * The cost estimates are rough on purpose: they only have to tell jobs of milliseconds from
 * jobs of minutes. gkmeans_last_fit() shows the choice and its reason.
 */
#include "postgres.h"

#include <unistd.h>

#include "fmgr.h"

#include "choose_engine.h"
#include "cuda_library.h"
#include "engine_error.h"
#include "gpu_slots.h"
#include "host_memory.h"
#include "settings.h"
#include "speed.h"

/* Expected iterations of a fit, unless its limit is lower. */
#define EXPECTED_ITERATIONS 20.0

/* Seconds to open the first GPU, each further one, and the links between them. */
#define FIRST_DEVICE_SECONDS 0.4
#define NEXT_DEVICE_SECONDS 0.3
#define LINK_SECONDS 1.1

/* A job that takes the CPUs less time than this does not even look for GPUs. */
#define SMALL_SECONDS 1.0

/* A job that takes the CPUs less time than this does not wait for a GPU slot. */
#define PATIENCE_SECONDS 60.0

/* The threads that every fit may have, if there is no other limit: for each CPU, and at least. */
#define THREADS_PER_CPU 2
#define ALLOWED_THREADS 16

/* True if the choice of the engine depends on the work. */
bool
gk_engine_depends_on_work(void)
{
	return gk_engine_choice != GK_ENGINE_CPU && gk_cuda_library_installed();
}

/* The engine class, or a test module's replacement for it. */
static const GkEngineClass *
tested(const GkEngineClass *engine_class)
{
	void	  **wrap = find_rendezvous_variable(GK_WRAP_ENGINE);

	return *wrap == NULL ? engine_class : ((GkWrapEngine) *wrap) (engine_class);
}

/* Opens the CPU engine. */
static GkEngine *
open_cpu(GkJob *job, const GkEngineConfig *config)
{
	return gk_job_open_engine(job, tested(gk_cpu_engine()), config);
}

/* Floating-point operations of the whole job. */
static double
operations(const GkWork *work)
{
	return 2.0 * work->rows * work->k * work->dimension * work->starts
		* Min(work->iterations, EXPECTED_ITERATIONS);
}

/* Bytes of the rows as an engine keeps them. */
static double
row_bytes(const GkWork *work)
{
	return work->rows * work->dimension * sizeof(float);
}

/* How many CPUs the host has. */
static int
count_cpus(void)
{
	return (int) Max(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

/* The most threads of a fit: a role must not take all that the system lets the server have. */
static int
most_threads(void)
{
	return gk_max_cpu_threads > 0 ? gk_max_cpu_threads
		: Max(THREADS_PER_CPU * count_cpus(), ALLOWED_THREADS);
}

/* Expected seconds on the CPU engine. */
static double
cpu_seconds(const GkWork *work)
{
	double		threads = Min(gk_cpu_threads > 0 ? gk_cpu_threads : count_cpus(),
							  most_threads());

	return operations(work) / (threads * GK_THREAD_FILTER_FLOPS);
}

/* Expected seconds on one GPU, once it is open. */
static double
one_device_seconds(const GkWork *work, const GkDevice *device)
{
	double		passes = work->starts * Min(work->iterations, EXPECTED_ITERATIONS);
	double		flops = device->flops > 0.0 ? device->flops : GK_DEVICE_FLOPS;
	double		bandwidth = device->bandwidth > 0.0 ? device->bandwidth : GK_DEVICE_BANDWIDTH;

	return Max(operations(work) / (GK_DEVICE_FIT_SHARE * flops),
			   passes * row_bytes(work) / (GK_DEVICE_READ_SHARE * bandwidth));
}

/* Expected seconds on several GPUs, including their opening. */
static double
device_seconds(const GkWork *work, const GkDevice *devices, int count)
{
	double		opening = 0.0;
	double		slowest = 0.0;

	for (int i = 0; i < count; i++)
	{
		if (!devices[i].open)
			opening += i == 0 ? FIRST_DEVICE_SECONDS : NEXT_DEVICE_SECONDS;
		slowest = Max(slowest, one_device_seconds(work, &devices[i]));
	}
	if (count > 1 && opening > 0.0)
		opening += LINK_SECONDS;
	return opening + slowest / count;
}

/* How many devices to use: the least expected time, and enough memory for the rows if possible. */
static int
devices_that_pay(const GkWork *work, const GkDevice *devices, int count)
{
	int			best = 1;

	while (best < count && row_bytes(work) > 0.8 * best * devices[0].total_bytes)
		best++;
	for (int tried = best + 1; tried <= count; tried++)
		if (device_seconds(work, devices, tried) < device_seconds(work, devices, best))
			best = tried;
	return best;
}

/* Takes the devices that gkmeans.devices names, or as many as are worthwhile. */
static void
choose_devices(const GkWork *work, const GkDevice *devices, int count, GkEngineConfig *config)
{
	int			named = gk_named_devices(config->devices, lengthof(config->devices));

	if (named > 0)
	{
		config->device_count = named;
		return;
	}
	config->device_count = gk_all_devices_named() ? count : devices_that_pay(work, devices, count);
	for (int i = 0; i < config->device_count; i++)
		config->devices[i] = devices[i].number;
}

/* Describes the devices taken; the description of one that does not exist is zero. */
static void
look_up_devices(const GkEngineConfig *config, const GkDevice *devices, int count, GkDevice *taken)
{
	for (int i = 0; i < config->device_count; i++)
	{
		taken[i] = (GkDevice) {.number = config->devices[i]};
		for (int j = 0; j < count; j++)
			if (devices[j].number == config->devices[i])
				taken[i] = devices[j];
	}
}

/* Lists the devices; why no GPU can be used, or NULL.  If one is demanded, errors are raised. */
static const char *
find_devices(bool demanded, const GkEngineClass **cuda, GkDevice *devices, int *count)
{
	const char *reason = NULL;
	GkStatus	status;

	*cuda = gk_cuda_class(&reason);
	if (*cuda == NULL)
		return reason;
	status = (*cuda)->list_devices(devices, GK_MAX_DEVICES, count);
	if (status.code == GK_OK && *count == 0)
		return "no CUDA device found";
	if (demanded && status.code != GK_NO_DEVICE)
		gk_check(status);
	*count = Min(*count, GK_MAX_DEVICES);
	return status.code == GK_OK ? NULL : pstrdup(status.message);
}

/* Raises the error that a GPU was asked for and there is none. */
static void
raise_no_device(const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("the CUDA engine cannot be used: %s", reason),
			 errhint("Set gkmeans.engine to auto or cpu.")));
}

/* True if the CPUs suit the job better than these GPUs; *reason says why. */
static bool
prefers_cpu(const GkWork *work, bool may_wait, const GkDevice *devices, int count,
			const char **reason)
{
	double		seconds = cpu_seconds(work);
	double		seconds_of_devices = device_seconds(work, devices, count);

	if (seconds <= seconds_of_devices)
	{
		*reason = psprintf("about %.1f s on the CPUs, no more on GPUs", seconds);
		return true;
	}
	if ((!may_wait || seconds < PATIENCE_SECONDS) && !gk_try_slot())
	{
		*reason = "every GPU slot is taken";
		return true;
	}
	*reason = psprintf("about %.1f s on the CPUs, %.1f s on %d GPU%s", seconds,
					   seconds_of_devices, count, count == 1 ? "" : "s");
	return false;
}

/* True if an engine could not be opened because of its devices. */
static bool
devices_fail(GkStatus status)
{
	return status.code == GK_NO_DEVICE || status.code == GK_NO_DEVICE_MEMORY ||
		status.code == GK_DEVICE_ERROR || status.code == GK_CONTEXT_LOST;
}

/* Opens the CUDA engine; NULL, with the cause in *reason, if the CPU engine may stand in for it. */
static GkEngine *
open_cuda(GkJob *job, const GkWork *work, GkEngineConfig *config, const char **reason)
{
	bool		is_part = gk_job_is_part(job);
	bool		demanded = gk_engine_choice == GK_ENGINE_CUDA && !is_part;
	bool		had_slot = gk_has_slot();
	GkDevice	devices[GK_MAX_DEVICES];
	GkDevice	taken[GK_MAX_DEVICES];
	int			count = 0;
	const GkEngineClass *cuda;
	const char *missing = find_devices(demanded, &cuda, devices, &count);
	GkEngine   *engine;
	GkStatus	status;

	if (missing != NULL)
	{
		if (demanded)
			raise_no_device(missing);
		*reason = missing;
		return NULL;
	}
	*reason = "gkmeans.engine is cuda";
	choose_devices(work, devices, count, config);
	look_up_devices(config, devices, count, taken);
	/* what the whole job runs on may hold the slot that its part would wait for */
	if (!demanded && prefers_cpu(work, !is_part, taken, config->device_count, reason))
		return NULL;
	gk_take_slot();
	gk_note_opening(cuda);
	engine = gk_job_try_open_engine(job, tested(cuda), config, &status);
	if (devices_fail(status) && !demanded && config->device_count > 1)
	{
		/* one device may be free, and needs no NCCL */
		*reason = psprintf("%s, but: %s", *reason, status.message);
		config->device_count = 1;
		engine = gk_job_try_open_engine(job, tested(cuda), config, &status);
	}
	if (status.code == GK_NO_DEVICE && demanded)
		raise_no_device(status.message);
	if (devices_fail(status) && !demanded)
	{
		if (!had_slot)
			gk_return_slot();
		*reason = pstrdup(status.message);
		return NULL;
	}
	gk_check(status);
	return engine;
}

/* Opens the engine that the settings and the work call for. */
GkEngine *
gk_open_engine(GkJob *job, const GkWork *work, const char **reason)
{
	GkEngineConfig config = {0};
	GkEngine   *engine = NULL;

	config.weighted = work->weighted;
	config.threads = gk_cpu_threads;
	config.max_threads = most_threads();
	gk_limit_host_memory(&config, gk_job_whole_bytes(job));
	config.device_memory_limit = (uint64_t) gk_device_memory_limit_kb * 1024;
	if (gk_engine_choice == GK_ENGINE_CPU)
		*reason = "gkmeans.engine is cpu";
	else if (!gk_engine_depends_on_work() && gk_engine_choice == GK_ENGINE_AUTO)
		*reason = "gkmeans_cuda library not installed";
	else if (gk_engine_choice == GK_ENGINE_AUTO && cpu_seconds(work) < SMALL_SECONDS)
		*reason = psprintf("about %.1f s on the CPUs", cpu_seconds(work));
	else
		engine = open_cuda(job, work, &config, reason);
	return engine != NULL ? engine : open_cpu(job, &config);
}
