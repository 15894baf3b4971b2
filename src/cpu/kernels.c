/*
 * Which kernels this machine runs.
 */
#include <string.h>

#include "kernels.h"

/* The kernels of a name, or the best ones, if this machine runs them. */
const GkKernels *
gk_cpu_kernels_find(const char *name)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if ((name == NULL || strcmp(name, "avx512") == 0) &&
		__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
		return &gk_cpu_kernels_avx512;
	if ((name == NULL || strcmp(name, "avx2") == 0) &&
		__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &gk_cpu_kernels_avx2;
#endif
	if (name == NULL || strcmp(name, "generic") == 0)
		return &gk_cpu_kernels_generic;
	return NULL;
}
