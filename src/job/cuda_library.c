/*
 * The library of the CUDA engine, loaded on demand.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "storage/ipc.h"

#include "cuda_library.h"

/* Where the CUDA library is: beside this one. */
static const char *
cuda_library_path(void)
{
	static char path[MAXPGPATH];
	Dl_info		own;

	if (dladdr((void *) gk_cuda_class, &own) == 0 || own.dli_fname == NULL)
		elog(ERROR, "could not find the path of the gkmeans library");
	strlcpy(path, own.dli_fname, sizeof(path));
	get_parent_directory(path);
	strlcat(path, "/gkmeans_cuda" DLSUFFIX, sizeof(path));
	return path;
}

/* True if the library is installed; loading it may still fail. */
bool
gk_cuda_library_installed(void)
{
	return access(cuda_library_path(), F_OK) == 0;
}

/* Opens the CUDA library. */
static const GkEngineClass *
load_cuda_class(const char **reason)
{
	const GkEngineClass *(*cuda_engine) (void);
	const char *path = cuda_library_path();
	void	   *library;
	sigset_t	all;
	sigset_t	before;

	if (access(path, F_OK) != 0)
	{
		*reason = "gkmeans_cuda library not installed";
		return NULL;
	}

	/* the library may start threads, which must not receive this process's signals */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (library == NULL)
	{
		*reason = psprintf("gkmeans_cuda library not loaded: %s", dlerror());
		return NULL;
	}
	cuda_engine = (const GkEngineClass *(*) (void)) dlsym(library, "gk_cuda_engine");
	if (cuda_engine == NULL)
		elog(ERROR, "gkmeans_cuda library has no function gk_cuda_engine");
	return cuda_engine();
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

	if (cuda_class != NULL)
		return cuda_class;
	cuda_class = load_cuda_class(reason);
	if (cuda_class != NULL && cuda_class->release_process != NULL)
		on_proc_exit(release_devices, PointerGetDatum(cuda_class));
	return cuda_class;
}
