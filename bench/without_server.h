/*
 * What src/fit calls of a server, for programs without one: memory is malloc's, errors end the
 * program, and there are no interrupts.
 */
#ifndef WITHOUT_SERVER_H
#define WITHOUT_SERVER_H

#include "postgres.h"

#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* Those of the C library, not the server's. */
#undef fprintf
#undef printf
#undef vfprintf

#endif							/* WITHOUT_SERVER_H */
