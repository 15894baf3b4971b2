/*
 * The module: what happens when the library is loaded.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "checked_command.h"
#include "settings.h"

/* From 18 on, pg_get_loaded_modules() shows these. */
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "gkmeans",.version = GK_EXTENSION_VERSION);
#else
PG_MODULE_MAGIC;
#endif

PGDLLEXPORT void _PG_init(void);

/*
 * Defines settings and checks; devices, threads and memory wait for the first fit.  Settings cannot
 * be defined twice, and a WARNING about one that the session has set looks for cancels.
 */
void
_PG_init(void)
{
	HOLD_INTERRUPTS();
	gk_define_settings();
	gk_install_checks();
	RESUME_INTERRUPTS();
}
