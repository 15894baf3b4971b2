/*
 * A module for tests: replaces gkmeans's CPU engine by one of its own, whose row hashes are
 * chosen at build time (test/unit/Makefile).
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"

#include "choose_engine.h"
#include "reference_engine.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static bool reference = false;

/* The CPU engine of this module, or the reference engine. */
static const GkEngineClass *
own_engine(const GkEngineClass *engine_class)
{
	return reference ? gk_reference_engine() : gk_cpu_engine();
}

/* Defines the setting, and offers gkmeans the engines. */
void
_PG_init(void)
{
	void	  **wrap = find_rendezvous_variable(GK_WRAP_ENGINE);

	DefineCustomBoolVariable("gkmeans.reference",
							 "Takes the reference engine, for tests.",
							 NULL,
							 &reference, false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
	*wrap = (void *) own_engine;
}
