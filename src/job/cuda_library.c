/*
 * The library of the CUDA engine, loaded on demand.
 */
#include "postgres.h"

#include "storage/ipc.h"

#include "cuda_library.h"
#include "library.h"

#define LIBRARY "gkmeans_cuda"

/* True if the library is installed; loading it may still fail. */
bool
gk_cuda_library_installed(void)
{
	return gk_library_installed(LIBRARY);
}

/* Releases the devices before the libraries' own exit handlers run, in whatever order. */
static void
release_devices(int code, Datum cuda_class)
{
	((const GkEngineClass *) DatumGetPointer(cuda_class))->release_process();
}

/* The CUDA engine's class, loaded on demand. */
const GkEngineClass *
gk_cuda_class(const char **reason)
{
	static const GkEngineClass *cuda_class = NULL;
	const GkEngineClass *(*cuda_engine) (void);

	if (cuda_class != NULL)
		return cuda_class;
	cuda_engine = (const GkEngineClass *(*) (void))
		gk_library_function(LIBRARY, "gk_cuda_engine", reason);
	if (cuda_engine == NULL)
		return NULL;
	if (cuda_engine()->interface != GK_ENGINE_INTERFACE)
	{
		*reason = LIBRARY " library belongs to another version of gkmeans";
		return NULL;
	}
	cuda_class = cuda_engine();
	if (cuda_class->release_process != NULL)
		on_proc_exit(release_devices, PointerGetDatum(cuda_class));
	return cuda_class;
}
