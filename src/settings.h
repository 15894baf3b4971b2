/*
 * The settings of the extension, and the engine that they choose.
 */
#ifndef GK_SETTINGS_H
#define GK_SETTINGS_H

#include "postgres.h"

#include "engine.h"
#include "job.h"

extern int	gk_ring_size_kb;		/* gkmeans.ring_size */

/* Defines the settings; once, from _PG_init. */
extern void gk_define_settings(void);

/*
 * Opens the engine that the settings ask for, owned by the job; in *reason one line why
 * it is that one.  Error 58000 if it is not to be had.
 */
extern GkEngine *gk_open_engine(GkJob *job, bool weighted, const char **reason);

#endif							/* GK_SETTINGS_H */
