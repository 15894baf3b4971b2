/*
 * A module for tests: the settings gkmeans.fault_at, the number of the engine call that fails, and
 * gkmeans.vectors, the vectors that scoring uses.
 */
#include "postgres.h"

#include <limits.h>

#include "fmgr.h"
#include "utils/guc.h"

#include "choose_engine.h"
#include "fault_engine.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static int	fault_at = 0;
static char *vectors = NULL;

/* The engine class as it is, or the one that fails. */
static const GkEngineClass *
with_fault(const GkEngineClass *engine_class)
{
	return fault_at == 0 ? engine_class : gk_fault_engine(engine_class, fault_at, GK_DEVICE_ERROR);
}

/* Defines the settings, and offers gkmeans the engine that fails. */
void
_PG_init(void)
{
	void	  **wrap = find_rendezvous_variable(GK_WRAP_ENGINE);

	DefineCustomIntVariable("gkmeans.fault_at",
							"Number of the engine call that is made to fail, for tests.",
							"0 means none.",
							&fault_at, 0, 0, INT_MAX,
							PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
	*wrap = (void *) with_fault;
	DefineCustomStringVariable("gkmeans.vectors",
							   "Vectors that rows are compared with centroids by, for tests.",
							   "NULL means the widest.",
							   &vectors, NULL,
							   PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
	*find_rendezvous_variable("gkmeans_vectors") = &vectors;
}
