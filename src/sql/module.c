/*
 * The module: what happens when the library is loaded.
 */
#include "postgres.h"

#include "fmgr.h"

#include "settings.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/* Defines the settings; devices, threads and memory wait for the first fit. */
void
_PG_init(void)
{
	gk_define_settings();
}
