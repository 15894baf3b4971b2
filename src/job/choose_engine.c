/*
 * Which engine a fit gets: the CPU engine, or the CUDA engine on some of the GPUs.
 *
 * The costs that decide are rough on purpose: they only have to tell jobs of milliseconds
 * from jobs of minutes.  What was chosen, and why, is in gkmeans_last_fit().
 */
#include "postgres.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "common/string.h"
#include "storage/fd.h"
#include "storage/ipc.h"

#include "gpu_slots.h"
#include "choose_engine.h"
#include "settings.h"

/* Iterations that a fit is expected to take, if it may take so many. */
#define EXPECTED_ITERATIONS 20.0

/* What a thread, a GPU and its memory are expected to do in a second. */
#define THREAD_FLOPS 4e10
#define DEVICE_FLOPS 5e13
#define DEVICE_BANDWIDTH 2e12

/* Seconds to open the first GPU, each further one, and the links between them. */
#define FIRST_DEVICE_SECONDS 0.4
#define NEXT_DEVICE_SECONDS 0.3
#define LINK_SECONDS 1.1

/* A job that the CPUs do in this time is not worth a look for GPUs. */
#define SMALL_SECONDS 1.0

/* A job that the CPUs do in this time does not wait for a GPU slot. */
#define PATIENCE_SECONDS 60.0

/* Where the CUDA library is: beside this one. */
static const char *
cuda_library_path(void)
{
	static char path[MAXPGPATH];
	Dl_info		own;

	if (dladdr((void *) gk_cuda_class, &own) == 0 || own.dli_fname == NULL)
		elog(ERROR, "could not find the path of the gkmeans library");
	strlcpy(path, own.dli_fname, sizeof(path));
	get_parent_directory(path);
	strlcat(path, "/gkmeans_cuda" DLSUFFIX, sizeof(path));
	return path;
}

/* Whether the work makes a difference to the choice of the engine. */
bool
gk_engine_depends_on_work(void)
{
	return gk_engine_choice != GK_ENGINE_CPU && access(cuda_library_path(), F_OK) == 0;
}

/* Opens the CUDA library. */
static const GkEngineClass *
load_cuda_class(const char **reason)
{
	const GkEngineClass *(*cuda_engine) (void);
	const char *path = cuda_library_path();
	void	   *library;
	sigset_t	all;
	sigset_t	before;

	if (access(path, F_OK) != 0)
	{
		*reason = "gkmeans_cuda library not installed";
		return NULL;
	}

	/* a library may start threads; they must not take this process's signals */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (library == NULL)
	{
		*reason = psprintf("gkmeans_cuda library not loaded: %s", dlerror());
		return NULL;
	}
	cuda_engine = (const GkEngineClass *(*) (void)) dlsym(library, "gk_cuda_engine");
	if (cuda_engine == NULL)
		elog(ERROR, "gkmeans_cuda library has no function gk_cuda_engine");
	return cuda_engine();
}

/* Gives the devices back before the libraries' own exit handlers run, in whatever order. */
static void
release_devices(int code, Datum cuda_class)
{
	((const GkEngineClass *) DatumGetPointer(cuda_class))->release_process();
}

/* The CUDA engine's class, loaded on demand. */
const GkEngineClass *
gk_cuda_class(const char **reason)
{
	static const GkEngineClass *cuda_class = NULL;

	if (cuda_class != NULL)
		return cuda_class;
	cuda_class = load_cuda_class(reason);
	if (cuda_class != NULL && cuda_class->release_process != NULL)
		on_proc_exit(release_devices, PointerGetDatum(cuda_class));
	return cuda_class;
}

/* The engine class as it is, or the one that fails where a test wants it to. */
static const GkEngineClass *
with_fault(const GkEngineClass *engine_class)
{
	return gk_fault_at == 0 ? engine_class
		: gk_fault_engine(engine_class, gk_fault_at, GK_DEVICE_ERROR);
}

/* Opens the CPU engine. */
static GkEngine *
open_cpu(GkJob *job, const GkEngineConfig *config)
{
	return gk_job_open_engine(job, with_fault(gk_cpu_engine()), config);
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

/* Seconds that the CPU engine is expected to take. */
static double
cpu_seconds(const GkWork *work)
{
	double		threads = gk_cpu_threads > 0 ? gk_cpu_threads
		: Max(sysconf(_SC_NPROCESSORS_ONLN), 1);

	return operations(work) / (threads * THREAD_FLOPS);
}

/* Seconds that the GPUs are expected to take together, their opening included. */
static double
device_seconds(const GkWork *work, const GkDevice *devices, int count)
{
	double		passes = work->starts * Min(work->iterations, EXPECTED_ITERATIONS);
	double		seconds = 0.0;

	for (int i = 0; i < count; i++)
		if (!devices[i].open)
			seconds += i == 0 ? FIRST_DEVICE_SECONDS : NEXT_DEVICE_SECONDS;
	if (count > 1 && seconds > 0.0)
		seconds += LINK_SECONDS;
	return seconds + Max(operations(work) / DEVICE_FLOPS,
						 passes * row_bytes(work) / DEVICE_BANDWIDTH) / count;
}

/* How many of the devices pay: the least expected time, and room for the rows if there is any. */
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

/* Takes the devices that gkmeans.devices names, or those that pay. */
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

/* What is known of the devices that were taken; of one that is not there, nothing. */
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

/* Why no GPU can be used at all, else NULL; fills in the devices. */
static const char *
find_devices(const GkEngineClass **cuda, GkDevice *devices, int *count)
{
	const char *reason = NULL;
	GkStatus	status;

	*cuda = gk_cuda_class(&reason);
	if (*cuda == NULL)
		return reason;
	status = (*cuda)->list_devices(devices, GK_MAX_DEVICES, count);
	if (status.code == GK_OK && *count == 0)
		return "no CUDA device found";
	if (gk_engine_choice == GK_ENGINE_CUDA && status.code != GK_NO_DEVICE)
		gk_check(status);
	*count = Min(*count, GK_MAX_DEVICES);
	return status.code == GK_OK ? NULL : pstrdup(status.message);
}

/* Raises the error that there is no GPU where one was asked for. */
static void
raise_no_device(const char *reason)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("the CUDA engine cannot be used: %s", reason),
			 errhint("Set gkmeans.engine to auto or cpu.")));
}

/* Whether the job is better done without these GPUs; in *reason why. */
static bool
prefers_cpu(const GkWork *work, const GkDevice *devices, int count, const char **reason)
{
	double		seconds = cpu_seconds(work);
	double		seconds_of_devices = device_seconds(work, devices, count);

	if (seconds <= seconds_of_devices)
	{
		*reason = psprintf("about %.1f s on the CPUs, no more on GPUs", seconds);
		return true;
	}
	if (seconds < PATIENCE_SECONDS && !gk_try_slot())
	{
		*reason = "every GPU slot is taken";
		return true;
	}
	*reason = psprintf("about %.1f s on the CPUs, %.1f s on %d GPU%s", seconds,
					   seconds_of_devices, count, count == 1 ? "" : "s");
	return false;
}

/* Whether it is for the devices that an engine was not opened. */
static bool
devices_fail(GkStatus status)
{
	return status.code == GK_NO_DEVICE || status.code == GK_NO_DEVICE_MEMORY ||
		status.code == GK_DEVICE_ERROR || status.code == GK_CONTEXT_LOST;
}

/* Opens the CUDA engine; NULL, and why, where the CPU engine may stand in for it. */
static GkEngine *
open_cuda(GkJob *job, const GkWork *work, GkEngineConfig *config, const char **reason)
{
	bool		demanded = gk_engine_choice == GK_ENGINE_CUDA;
	bool		had_slot = gk_has_slot();
	GkDevice	devices[GK_MAX_DEVICES];
	GkDevice	taken[GK_MAX_DEVICES];
	int			count = 0;
	const GkEngineClass *cuda;
	const char *missing = find_devices(&cuda, devices, &count);
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
	if (!demanded && prefers_cpu(work, taken, config->device_count, reason))
		return NULL;
	gk_take_slot();
	gk_note_opening(cuda);
	engine = gk_job_try_open_engine(job, with_fault(cuda), config, &status);
	if (devices_fail(status) && !demanded && config->device_count > 1)
	{
		/* one may be free, and needs nothing that several do, NCCL above all */
		*reason = psprintf("%s, but: %s", *reason, status.message);
		config->device_count = 1;
		engine = gk_job_try_open_engine(job, with_fault(cuda), config, &status);
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

/* The least of `least` and the limits in files of a control group and of those above it. */
static uint64
least_group_limit(const char *root, char *group, const char *file, uint64 least)
{
	char	   *slash = group;

	while (slash != NULL)
	{
		FILE	   *limit = AllocateFile(psprintf("%s%s/%s", root, group, file), "r");
		unsigned long long bytes;

		if (limit != NULL && fscanf(limit, "%llu", &bytes) == 1)
			least = Min(least, bytes);
		if (limit != NULL)
			FreeFile(limit);
		slash = strrchr(group, '/');
		if (slash != NULL)
			*slash = '\0';
	}
	return least;
}

/* Bytes of memory that the host has, or that a container or service may take of it. */
static uint64
usable_memory(void)
{
	uint64		bytes = (uint64) sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	FILE	   *groups = AllocateFile("/proc/self/cgroup", "r");
	char		line[MAXPGPATH];

	while (groups != NULL && fgets(line, sizeof(line), groups) != NULL)
	{
		char	   *group = strchr(line, '/');

		if (group == NULL)
			continue;
		(void) pg_strip_crlf(line);
		if (strncmp(line, "0::", 3) == 0)
			bytes = least_group_limit("/sys/fs/cgroup", group, "memory.max", bytes);
		else if (strstr(line, ":memory:") != NULL)
			bytes = least_group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
									  bytes);
	}
	if (groups != NULL)
		FreeFile(groups);
	return bytes;
}

/* Bytes of host memory that the rows of a fit may take. */
static uint64
host_memory_limit(void)
{
	if (gk_host_memory_limit_kb > 0)
		return (uint64) gk_host_memory_limit_kb * 1024;
	return usable_memory() / 4 * 3;
}

/* Opens the engine that the settings and the work ask for. */
GkEngine *
gk_open_engine(GkJob *job, const GkWork *work, const char **reason)
{
	GkEngineConfig config = {0};
	GkEngine   *engine = NULL;

	config.weighted = work->weighted;
	config.threads = gk_cpu_threads;
	config.host_memory_limit = host_memory_limit();
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
