/*
 * A module for tests: replaces gkmeans's CPU engine by one of its own, whose row hashes are
 * chosen at build time (test/unit/Makefile).
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"

#include "choose_engine.h"
#include "local_cluster.h"
#include "reference_engine.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/* The values of the setting that are no number of nodes. */
#define CPU 0
#define REFERENCE (-1)

static int	test_engine = CPU;

/* A cluster engine with so many nodes, the rows shared out unevenly. */
static const GkEngineClass *
cluster_of(int nodes)
{
	LocalPlan	plan = {.nodes = nodes,.piece = 4096};

	for (int i = 0; i < nodes; i++)
	{
		plan.shares[i] = 1 + i * i;
		plan.classes[i] = gk_cpu_engine();
	}
	return gk_local_cluster(&plan);
}

/* The CPU engine of this module, the reference engine, or a cluster of CPU engines. */
static const GkEngineClass *
own_engine(const GkEngineClass *engine_class)
{
	if (test_engine == REFERENCE)
		return gk_reference_engine();
	return test_engine == CPU ? gk_cpu_engine() : cluster_of(test_engine);
}

/* Defines the setting, and offers gkmeans the engines. */
void
_PG_init(void)
{
	void	  **wrap = find_rendezvous_variable(GK_WRAP_ENGINE);

	DefineCustomIntVariable("gkmeans.test_engine",
							"Takes the reference engine (-1), or a cluster of so many nodes.",
							NULL,
							&test_engine, CPU, REFERENCE, MOST_NODES,
							PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
	*wrap = (void *) own_engine;
}
