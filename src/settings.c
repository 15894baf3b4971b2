/*
 * The settings of the extension, and the engine that they choose.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "utils/guc.h"

#include "settings.h"

typedef enum EngineChoice
{
	ENGINE_AUTO,
	ENGINE_CPU,
	ENGINE_CUDA
} EngineChoice;

static const struct config_enum_entry engine_choices[] = {
	{"auto", ENGINE_AUTO, false},
	{"cpu", ENGINE_CPU, false},
	{"cuda", ENGINE_CUDA, false},
	{NULL, 0, false}
};

int			gk_ring_size_kb = 32 * 1024;

static int	cpu_threads = 0;		/* 0 = one for every core */
static int	host_memory_limit_kb = 0;	/* 0 = none */
static int	engine_choice = ENGINE_AUTO;
static int	fault_at = 0;			/* 0 = never */

/* The settings that say how a fit runs. */
static void
define_user_settings(void)
{
	DefineCustomEnumVariable("gkmeans.engine",
							 "Engine that clusters the rows.",
							 "\"auto\" takes the GPUs where there are any, else the CPUs.",
							 &engine_choice, ENGINE_AUTO, engine_choices,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.cpu_threads",
							"Threads of the CPU engine.",
							"0 means one for every core that the backend may use.",
							&cpu_threads, 0, 0, 1024,
							PGC_USERSET, 0, NULL, NULL, NULL);
}

/* The settings that limit what a fit may take; only superusers may change them. */
static void
define_limits(void)
{
	DefineCustomIntVariable("gkmeans.ring_size",
							"Shared memory through which the rows of a fit reach the engine.",
							NULL,
							&gk_ring_size_kb, 32 * 1024, 1024, 1024 * 1024,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.host_memory_limit",
							"Host memory that the rows of one fit may take.",
							"0 means no limit.",
							&host_memory_limit_kb, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("gkmeans.fault_at",
							"Number of the engine call that is made to fail, for tests.",
							"0 means none.",
							&fault_at, 0, 0, INT_MAX,
							PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
}

/* Defines the settings; once, from _PG_init. */
void
gk_define_settings(void)
{
	define_user_settings();
	define_limits();
#if PG_VERSION_NUM >= 150000
	MarkGUCPrefixReserved("gkmeans");
#else
	EmitWarningsOnPlaceholders("gkmeans");
#endif
}

/* Opens the CUDA library, which lies beside this one; NULL, and why, if that fails. */
static const GkEngineClass *
load_cuda_engine(const char **reason)
{
	static const GkEngineClass *(*cuda_engine) (void) = NULL;
	Dl_info		own;
	char		path[MAXPGPATH];
	void	   *library;
	sigset_t	all;
	sigset_t	before;

	if (cuda_engine != NULL)
		return cuda_engine();
	if (dladdr((void *) gk_define_settings, &own) == 0 || own.dli_fname == NULL)
		elog(ERROR, "could not find the path of the gkmeans library");
	strlcpy(path, own.dli_fname, sizeof(path));
	get_parent_directory(path);
	strlcat(path, "/gkmeans_cuda" DLSUFFIX, sizeof(path));
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

/* The engine class as it is, or the one that fails where a test wants it to. */
static const GkEngineClass *
with_fault(const GkEngineClass *engine_class)
{
	return fault_at == 0 ? engine_class : gk_fault_engine(engine_class, fault_at, GK_DEVICE_ERROR);
}

/* What the settings say about the engine to be opened. */
static GkEngineConfig
engine_config(bool weighted)
{
	GkEngineConfig config = {0};

	config.weighted = weighted;
	config.threads = cpu_threads;
	config.host_memory_limit = (uint64_t) host_memory_limit_kb * 1024;
	return config;
}

/* Opens the engine that the settings ask for; in *reason one line why it is that one. */
GkEngine *
gk_open_engine(GkJob *job, bool weighted, const char **reason)
{
	GkEngineConfig config = engine_config(weighted);
	const GkEngineClass *cuda;
	GkEngine   *engine;
	GkStatus	status;

	*reason = "gkmeans.engine is cpu";
	if (engine_choice == ENGINE_CPU)
		return gk_job_open_engine(job, with_fault(gk_cpu_engine()), &config);

	cuda = load_cuda_engine(reason);
	if (cuda == NULL && engine_choice == ENGINE_CUDA)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("the CUDA engine cannot be used: %s", *reason),
				 errhint("Set gkmeans.engine to auto or cpu.")));
	if (cuda != NULL)
	{
		engine = gk_job_try_open_engine(job, with_fault(cuda), &config, &status);
		if (engine_choice == ENGINE_CUDA || status.code != GK_NO_DEVICE)
		{
			gk_check(status);
			*reason = engine_choice == ENGINE_CUDA ? "gkmeans.engine is cuda" : "a device is there";
			return engine;
		}
		*reason = pstrdup(status.message);
	}
	return gk_job_open_engine(job, with_fault(gk_cpu_engine()), &config);
}
