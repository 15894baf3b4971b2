/*
 * The settings of the extension.
 */
#ifndef GK_SETTINGS_H
#define GK_SETTINGS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "engine.h"

/* The most that gkmeans.max_gpu_backends can be. */
#define GK_MAX_GPU_BACKENDS 1000

typedef enum GkEngineChoice
{
	GK_ENGINE_AUTO,
	GK_ENGINE_CPU,
	GK_ENGINE_CUDA
} GkEngineChoice;

extern int	gk_engine_choice;	/* gkmeans.engine, a GkEngineChoice */
extern int	gk_cpu_threads;		/* gkmeans.cpu_threads; 0 = one for every core */
extern int	gk_max_cpu_threads;	/* gkmeans.max_cpu_threads; 0 = no cap */
extern int	gk_queue_timeout_ms;	/* gkmeans.queue_timeout; 0 = no limit */
extern int	gk_ring_size_kb;	/* gkmeans.ring_size */
extern int	gk_host_memory_limit_kb;	/* gkmeans.host_memory_limit; 0 = by the host */
extern int	gk_total_host_memory_limit_kb;	/* gkmeans.total_host_memory_limit; 0 = by the host */
extern int	gk_device_memory_limit_kb;	/* gkmeans.device_memory_limit; 0 = what is free */
extern int	gk_max_gpu_backends;	/* gkmeans.max_gpu_backends; 0 = any number */
extern int	gk_model_cache_size_kb; /* gkmeans.model_cache_size; 0 = none */

/* Defines the settings; once, from _PG_init. */
extern void gk_define_settings(void);

/* Sets a parameter of the server until the nest level of settings ends; see AtEOXact_GUC(). */
extern void gk_set_locally(const char *name, const char *value);

/* The devices that gkmeans.devices names; 0 if it leaves the choice open, or names all. */
extern int	gk_named_devices(int *numbers, int capacity);

/*
 * The foreign servers that gkmeans.nodes names, as char *; NIL if it is empty, or if *automatic is
 * true: then it is "auto".
 */
extern List *gk_named_nodes(bool *automatic);

/*
 * The role that has set gkmeans.nodes: the owner of the database if that has the setting, the role
 * that has logged in if a role has it, a superuser if it is in a file.
 */
extern Oid	gk_nodes_setter(void);

/* True if gkmeans.devices asks for every device. */
extern bool gk_all_devices_named(void);

#endif							/* GK_SETTINGS_H */
