/*
 * The kernels for x86-64 with AMX for bfloat16, and AVX-512 for all that is no product.
 */
#if defined(__x86_64__) && defined(GK_HAVE_AMX)
#include "kernels_512.h"

#define GK_KERNELS gk_cpu_kernels_amx
#define GK_KERNELS_NAME "amx"
#define GK_PANEL 32
#define GK_FILTER "kernels_amx.h"

#include "kernels_template.h"
#endif
