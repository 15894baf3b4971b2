/*
 * What the kernels of AVX2 and AVX-512 share.
 */
#ifndef GK_KERNELS_X86_H
#define GK_KERNELS_X86_H

#include <immintrin.h>
#include <stdint.h>

/* Four doubles. */
typedef __m256d Q;

#define q_sqrt(q) _mm256_sqrt_pd(q)
#define q_widen(four) _mm256_cvtps_pd(four)

/* Rows to columns. */
static inline __attribute__((always_inline)) void
turn_4x4(Q *v)
{
	Q			low0 = _mm256_unpacklo_pd(v[0], v[1]);
	Q			high0 = _mm256_unpackhi_pd(v[0], v[1]);
	Q			low1 = _mm256_unpacklo_pd(v[2], v[3]);
	Q			high1 = _mm256_unpackhi_pd(v[2], v[3]);

	v[0] = _mm256_permute2f128_pd(low0, low1, 0x20);
	v[1] = _mm256_permute2f128_pd(high0, high1, 0x20);
	v[2] = _mm256_permute2f128_pd(low0, low1, 0x31);
	v[3] = _mm256_permute2f128_pd(high0, high1, 0x31);
}

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

#define GK_TRANSPOSE_8 transpose_8x8

#endif							/* GK_KERNELS_X86_H */
