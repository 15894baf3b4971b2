/*
 * The kernels for x86-64 with AVX2 and FMA.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

#define GK_KERNELS gk_kernels_avx2
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
#define v_take(index, value, best, id) \
	_mm256_blendv_epi8(index, _mm256_set1_epi32(id), \
					   _mm256_castps_si256(_mm256_cmp_ps(value, best, _CMP_LT_OQ)))
#define v_not_above(a, b) ((uint32_t) _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NGT_UQ)))

/* 8 × 8 floats from rows `stride` apart to a block. */
static inline void
transpose_8x8(float *block, const float *rows, int stride)
{
	__m256		r[8];
	__m256		s[8];

	for (int i = 0; i < 8; i++)
		r[i] = _mm256_loadu_ps(rows + (size_t) i * stride);
	for (int i = 0; i < 8; i += 2)
	{
		s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
		s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
	}
	for (int i = 0; i < 8; i += 4)
	{
		r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
		r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
		r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
		r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
	}
	for (int i = 0; i < 4; i++)
	{
		_mm256_storeu_ps(block + i * 16, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
		_mm256_storeu_ps(block + (i + 4) * 16, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
	}
}

/* 16 × 16 floats. */
static void
transpose_16x16(float *block, const float *rows, int stride)
{
	for (int row = 0; row < 16; row += 8)
		for (int j = 0; j < 16; j += 8)
			transpose_8x8(block + j * 16 + row, rows + (size_t) row * stride + j, stride);
}

#define GK_TRANSPOSE transpose_16x16

#include "cpu_kernels_template.h"
#endif
