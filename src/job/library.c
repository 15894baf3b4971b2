/*
 * Libraries beside that of the extension, loaded on demand.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "library.h"

/* Where a library is: beside this one. */
static const char *
path_of(const char *name)
{
	static char path[MAXPGPATH];
	Dl_info		own;

	if (dladdr((void *) gk_library_installed, &own) == 0 || own.dli_fname == NULL)
		elog(ERROR, "could not find the path of the gkmeans library");
	strlcpy(path, own.dli_fname, sizeof(path));
	get_parent_directory(path);
	strlcat(path, "/", sizeof(path));
	strlcat(path, name, sizeof(path));
	strlcat(path, DLSUFFIX, sizeof(path));
	return path;
}

/* True if a library is installed; loading it may still fail. */
bool
gk_library_installed(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

/* Loads a library, and finds a function in it. */
void *
gk_library_function(const char *name, const char *function, const char **reason)
{
	const char *path = path_of(name);
	void	   *library;
	void	   *found;
	sigset_t	all;
	sigset_t	before;

	if (access(path, F_OK) != 0)
	{
		*reason = psprintf("%s library not installed", name);
		return NULL;
	}

	/* the library may start threads, which must not receive this process's signals */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (library == NULL)
	{
		*reason = psprintf("%s library not loaded: %s", name, dlerror());
		return NULL;
	}
	found = dlsym(library, function);
	if (found == NULL)
		elog(ERROR, "%s library has no function %s", name, function);
	return found;
}
