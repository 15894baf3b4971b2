/*
 * What the kernels of narrow.cu share: how few centroids of few features are laid out, and the
 * bound that decides a row in float32 (docs/filter.md has the proof).
 */
#ifndef GK_NARROW_CUH
#define GK_NARROW_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "launch.h"

namespace gk
{

/* Constants of the bound, at the beginning of the packed centroids. */
struct NarrowBound
{
	float		factor;			/* rows are multiplied by it: a power of two */
	float		wide_row;		/* a window without roots: wide_row × |y|² + wide_rest */
	float		wide_rest;
	float		gamma;
	float		definition;
	float		greatest;		/* of the centroids' norms */
	float		inflation;		/* of a sum of squares */
	float		unused;
};

/* Where the parts of the packed centroids begin, in floats; all are multiples of four. */
struct NarrowLayout
{
	int			origin;			/* parts × 4 */
	int			lower;			/* padded: |e|²/2 */
	int			norm;			/* padded */
	int			values;			/* for each part: four features × padded, negated */
	int			part;			/* floats of a part: lanes that read parts in turn use all banks */
	int			total;
};

/* The layout for so many parts of four features, and centroids. */
static __host__ __device__ __forceinline__ NarrowLayout
narrow_layout(int parts, int padded)
{
	NarrowLayout layout;

	layout.origin = sizeof(NarrowBound) / sizeof(float);
	layout.lower = layout.origin + parts * 4;
	layout.norm = layout.lower + padded;
	layout.values = layout.norm + padded;
	layout.part = padded * 4 + 4;
	layout.total = layout.values + parts * layout.part;
	return layout;
}

/*
 * The score up to which a centroid can be nearest, if one of this norm has score `least`;
 * infinite if nothing is known.
 */
static __device__ __forceinline__ float
narrow_limit(const NarrowBound &bound, float least, float norm2, float own_norm)
{
	float		x = sqrtf(fmaf(norm2, bound.inflation, 0x1p-100f)) * (1.0f + 0x1p-20f);
	float		c = fminf(bound.greatest, (2.0f * x + own_norm) * (1.0f + 0x1p-10f));
	float		window = (bound.gamma * (c * c + 2.0f * x * c) +
						  bound.definition * (x + c) * (x + c) + 0x1p-90f) * 1.001f;

	return norm2 < 0x1p80f && bound.greatest < 0x1p40f ? least + window : INFINITY;
}

}								/* namespace gk */

#endif							/* GK_NARROW_CUH */
