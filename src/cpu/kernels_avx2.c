/*
 * The kernels for x86-64 with AVX2 and FMA.
 */
#if defined(__x86_64__)
#include "kernels_x86.h"

#define GK_KERNELS gk_cpu_kernels_avx2
#define GK_KERNELS_NAME "avx2"
#define GK_PANEL 6
#define GK_WIDTH 8

typedef __m256 V;
typedef __m256i VI;

#define v_load(from) _mm256_loadu_ps(from)
#define v_store(to, v) _mm256_storeu_ps(to, v)
#define vi_load(from) _mm256_loadu_si256((const __m256i *) (from))
#define vi_store(to, v) _mm256_storeu_si256((__m256i *) (to), v)
#define v_set(x) _mm256_set1_ps(x)
#define v_fnmadd(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define v_fmsub(a, b, c) _mm256_fmsub_ps(a, b, c)
#define v_min(a, b) _mm256_min_ps(a, b)
#define v_max(a, b) _mm256_max_ps(a, b)
#define v_sqrt(v) _mm256_sqrt_ps(v)
#define v_if_less(a, b, yes, no) _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define v_take(index, value, best, id) \
	_mm256_blendv_epi8(index, _mm256_set1_epi32(id), \
					   _mm256_castps_si256(_mm256_cmp_ps(value, best, _CMP_LT_OQ)))
#define v_not_above(a, b) ((uint32_t) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NGT_UQ)))
#define v_differs(a, b) \
	(255 & ~(uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b))))
#define d_load(from) _mm256_cvtps_pd(_mm_loadu_ps(from))

#include "kernels_template.h"
#endif
