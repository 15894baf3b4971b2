/*
 * How much of the host's memory a fit may take.
 */
#ifndef GK_HOST_MEMORY_H
#define GK_HOST_MEMORY_H

#include "postgres.h"

#include "engine.h"

/* Sets the limits of a fit's host memory, and of that of the fits of all sessions together. */
extern void gk_limit_host_memory(GkEngineConfig *config);

#endif							/* GK_HOST_MEMORY_H */
