/*
 * How much of the host's memory a fit may take.
 */
#ifndef GK_HOST_MEMORY_H
#define GK_HOST_MEMORY_H

#include "postgres.h"

#include "engine.h"

/*
 * Sets the limits of a fit's host memory, of which it has taken some bytes, and of that of the fits
 * of all sessions together.
 */
extern void gk_limit_host_memory(GkEngineConfig *config, uint64 taken);

#endif							/* GK_HOST_MEMORY_H */
