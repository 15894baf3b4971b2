/*
 * What the kernels with vectors of AVX-512 share.
 */
#ifndef GK_KERNELS_512_H
#define GK_KERNELS_512_H

#include "kernels.h"
#include "kernels_x86.h"

#define GK_WIDTH 16

typedef __m512 V;
typedef __m512i VI;

#define v_load(from) _mm512_loadu_ps(from)
#define v_store(to, v) _mm512_storeu_ps(to, v)
#define vi_load(from) _mm512_loadu_si512(from)
#define vi_store(to, v) _mm512_storeu_si512(to, v)
#define v_set(x) _mm512_set1_ps(x)
#define v_fnmadd(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define v_fmsub(a, b, c) _mm512_fmsub_ps(a, b, c)
#define v_min(a, b) _mm512_min_ps(a, b)
#define v_max(a, b) _mm512_max_ps(a, b)
#define v_sqrt(v) _mm512_sqrt_ps(v)
#define v_if_less(a, b, yes, no) \
	_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes)
#define v_take(index, value, best, id) \
	_mm512_mask_set1_epi32(index, _mm512_cmp_ps_mask(value, best, _CMP_LT_OQ), id)
#define v_not_above(a, b) ((uint32_t) _mm512_cmp_ps_mask(a, b, _CMP_NGT_UQ))
#define v_differs(a, b) ((uint32_t) _mm512_cmpneq_epi32_mask(a, b))
#define d_load(from) _mm512_cvtps_pd(_mm256_loadu_ps(from))

/* The rows of the mask, side by side, and their norm2. */
static inline void
compress(const GkFilter *filter, GkTile *tile, int position, const float *block, uint32_t mask)
{
	float	   *x = tile->x + position;
	__m512		sum = _mm512_setzero_ps();
	__m512		scale = _mm512_set1_ps(filter->scale);
	__mmask16	from = (__mmask16) mask;
	__mmask16	to = (__mmask16) ((1u << __builtin_popcount(mask)) - 1);

	for (int j = 0; j < filter->d; j++)
	{
		__m512		v = _mm512_fmsub_ps(_mm512_loadu_ps(block + j * GK_BLOCK), scale,
										_mm512_set1_ps(filter->origin[j]));

		sum = _mm512_fmadd_ps(v, v, sum);
		_mm512_mask_storeu_ps(x + j * GK_TILE, to, _mm512_maskz_compress_ps(from, v));
	}
	_mm512_mask_storeu_ps(tile->norm2 + position, to, _mm512_maskz_compress_ps(from, sum));
}

/* 16 × 16 floats from rows `stride` apart to a block. */
static void
transpose_16x16(float *block, const float *rows, int stride)
{
	__m512		r[16];
	__m512		s[16];

	for (int i = 0; i < 16; i++)
		r[i] = _mm512_loadu_ps(rows + (size_t) i * stride);
	for (int i = 0; i < 16; i += 2)
	{
		s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
		s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
	}
	for (int i = 0; i < 16; i += 4)
	{
		r[i] = _mm512_shuffle_ps(s[i], s[i + 2], 0x44);
		r[i + 1] = _mm512_shuffle_ps(s[i], s[i + 2], 0xee);
		r[i + 2] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0x44);
		r[i + 3] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0xee);
	}
	for (int i = 0; i < 4; i++)
	{
		s[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
		s[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
		s[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
		s[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
	}
	for (int i = 0; i < 4; i++)
	{
		_mm512_storeu_ps(block + i * 16, _mm512_shuffle_f32x4(s[i], s[i + 8], 0x88));
		_mm512_storeu_ps(block + (i + 4) * 16, _mm512_shuffle_f32x4(s[i + 4], s[i + 12], 0x88));
		_mm512_storeu_ps(block + (i + 8) * 16, _mm512_shuffle_f32x4(s[i], s[i + 8], 0xdd));
		_mm512_storeu_ps(block + (i + 12) * 16, _mm512_shuffle_f32x4(s[i + 4], s[i + 12], 0xdd));
	}
}

#define GK_COMPRESS compress
#define GK_TRANSPOSE transpose_16x16

#endif							/* GK_KERNELS_512_H */
