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

/*
 * Draws bytes for what is no engine's, where engines of the fit have taken some: an error (53200)
 * if a limit does not allow them.  gk_host_account_return() returns them.
 */
extern void gk_draw_host_memory(uint64 bytes, uint64 taken);

#endif							/* GK_HOST_MEMORY_H */
