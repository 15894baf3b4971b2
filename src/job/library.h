/*
 * Libraries beside that of the extension, loaded on demand.
 */
#ifndef GK_LIBRARY_H
#define GK_LIBRARY_H

#include "postgres.h"

/* True if a library is installed; loading it may still fail. */
extern bool gk_library_installed(const char *name);

/*
 * Loads a library, and finds a function in it.  NULL if it is not installed or cannot be loaded,
 * with the cause in *reason.
 */
extern void *gk_library_function(const char *name, const char *function, const char **reason);

#endif							/* GK_LIBRARY_H */
