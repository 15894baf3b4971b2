/*
 * Which kernels this machine runs.
 */
#include <string.h>

#include "kernels.h"

#if defined(__x86_64__) && defined(__linux__) && defined(GK_HAVE_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From asm/prctl.h and the manual of the processor. */
#define REQUEST_STATE 0x1023
#define TILE_STATE 18
#define TILE_STATES 0x60000u
#define CPUID_AMX (1u << 22 | 1u << 24)

/* With fewer features than this, the products are mostly padding. */
#define AMX_PAYS 24

/* True if this machine multiplies tiles of bfloat16, and Linux lets this process do so. */
static bool
has_amx(void)
{
	unsigned	a;
	unsigned	b;
	unsigned	c;
	unsigned	d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & CPUID_AMX) != CPUID_AMX)
		return false;
	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
		return false;
	__asm__("xgetbv" : "=a" (a), "=d" (d) : "c" (0));
	return (a & TILE_STATES) == TILE_STATES &&
		syscall(SYS_arch_prctl, REQUEST_STATE, TILE_STATE) == 0;
}
#endif

#if defined(__x86_64__)
/* True if this machine runs the kernels with AVX-512. */
static bool
has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}
#endif

/* The kernels of a name, if this machine runs them. */
const GkKernels *
gk_cpu_kernels_find(const char *name)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
#if defined(__linux__) && defined(GK_HAVE_AMX)
	if (strcmp(name, "amx") == 0 && has_avx512() && has_amx())
		return &gk_cpu_kernels_amx;
#endif
	if (strcmp(name, "avx512") == 0 && has_avx512())
		return &gk_cpu_kernels_avx512;
	if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") &&
		__builtin_cpu_supports("fma"))
		return &gk_cpu_kernels_avx2;
#endif
	return strcmp(name, "generic") == 0 ? &gk_cpu_kernels_generic : NULL;
}

/* The best kernels of this machine for rows of d features. */
const GkKernels *
gk_cpu_kernels_for(int d)
{
	static const char *const names[] = {"amx", "avx512", "avx2"};
	const GkKernels *kernels = NULL;

#if defined(__x86_64__) && defined(__linux__) && defined(GK_HAVE_AMX)
	bool		narrow = d < AMX_PAYS;
#else
	bool		narrow = true;

	(void) d;
#endif
	for (int i = narrow ? 1 : 0; i < 3 && kernels == NULL; i++)
		kernels = gk_cpu_kernels_find(names[i]);
	return kernels != NULL ? kernels : &gk_cpu_kernels_generic;
}
