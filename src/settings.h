/*
 * The settings of the extension, and the engine that they choose.
 */
#ifndef GK_SETTINGS_H
#define GK_SETTINGS_H

#include "engine.h"

extern int	gk_ring_size_kb;		/* gkmeans.ring_size */
extern int	gk_cpu_threads;			/* gkmeans.cpu_threads; 0 = every core this backend may use */
extern int	gk_host_memory_limit_kb;	/* gkmeans.host_memory_limit; 0 = none */

/* Defines the settings; once, from _PG_init. */
extern void gk_define_settings(void);

/*
 * The engine that the settings ask for, and in *reason one line why it is that one.
 * Error 58000 if it is not to be had.
 */
extern const GkEngineClass *gk_choose_engine(const char **reason);

/* What the settings say about the engine to be opened. */
extern void gk_engine_config(bool weighted, GkEngineConfig *config);

#endif							/* GK_SETTINGS_H */
