/*
 * The settings of the extension, and the engine that they choose.
 */
#include "postgres.h"

#include <limits.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/fd.h"
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
int			gk_cpu_threads = 0;
int			gk_host_memory_limit_kb = 0;

static int	engine_choice = ENGINE_AUTO;
static int	fault_at = 0;

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
							&gk_cpu_threads, 0, 0, 1024,
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
							&gk_host_memory_limit_kb, 0, 0, INT_MAX,
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
