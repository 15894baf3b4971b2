/*
 * The library of the CUDA engine, loaded on demand.
 */
#ifndef GK_CUDA_LIBRARY_H
#define GK_CUDA_LIBRARY_H

#include "postgres.h"

#include "engine.h"

/* True if the library is installed; loading it may still fail. */
extern bool gk_cuda_library_installed(void);

/* The CUDA engine's class.  NULL if unavailable, with the cause in *reason. */
extern const GkEngineClass *gk_cuda_class(const char **reason);

#endif							/* GK_CUDA_LIBRARY_H */
