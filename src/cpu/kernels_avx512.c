/*
 * The kernels for x86-64 with AVX-512 (F, DQ, VL, BW).
 */
#if defined(__x86_64__)
#include "kernels_512.h"

#define GK_KERNELS gk_cpu_kernels_avx512
#define GK_KERNELS_NAME "avx512"
#define GK_PANEL 12

#include "kernels_template.h"
#endif
