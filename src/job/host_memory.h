/*
 * How much of the host's memory a fit may take.
 */
#ifndef GK_HOST_MEMORY_H
#define GK_HOST_MEMORY_H

#include "postgres.h"

/* Bytes that the rows of a fit may take. */
extern uint64 gk_host_memory_allowed(void);

#endif							/* GK_HOST_MEMORY_H */
