/*
 * The engine that a program is asked to time.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine_library.h"
#include "state.h"

/* The class of the engine: the CPU engine, or the one in a library. */
const GkEngineClass *
class_of_engine(const char *library)
{
	const GkEngineClass *(*get) (void);
	void	   *handle;

	if (library == NULL || *library == '\0')
		return gk_cpu_engine();
	handle = dlopen(library, RTLD_NOW);
	if (handle == NULL)
	{
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	get = (const GkEngineClass *(*) (void)) dlsym(handle, "gk_cuda_engine");
	return get();
}
