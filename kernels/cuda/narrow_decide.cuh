/*
 * The labels of a tile of rows, from their best two scores or by the definition.
 */
#ifndef GK_NARROW_DECIDE_CUH
#define GK_NARROW_DECIDE_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "exact.h"
#include "narrow_scores.cuh"

namespace gk
{

/* The centroids from .. from + 31 with scores up to `limit`, as bits. */
template <int D> static __device__ __forceinline__ unsigned
near_centroids(const NarrowArguments &a, const NarrowWarp &w, const float (&y)[D], int from,
			   float limit)
{
	unsigned	near = 0;

	for (int at = from; at < min(a.padded, from + 32); at += 4)
	{
		const float *values = w.packed + w.layout.values + at;
		float4		score = *(const float4 *) (w.packed + w.layout.lower + at);
		unsigned	four;

#pragma unroll
		for (int j = 0; j < D; j++)
		{
			float4		c = *(const float4 *) (values + j / 4 * w.layout.part + j % 4 * a.padded);

			score.x = fmaf(y[j], c.x, score.x);
			score.y = fmaf(y[j], c.y, score.y);
			score.z = fmaf(y[j], c.z, score.z);
			score.w = fmaf(y[j], c.w, score.w);
		}
		/* also if nothing is known */
		four = !(score.x > limit) | !(score.y > limit) << 1 | !(score.z > limit) << 2 |
			!(score.w > limit) << 3;
		near |= four << (at - from);
	}
	return a.count - from < 32 ? near & ((1u << (a.count - from)) - 1) : near;
}

/* The label of a row among the centroids with scores up to `limit`. */
template <int D> static __device__ __forceinline__ int
decide_row(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int row, float limit)
{
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		x[D];
	float		y[D];
	double		best = 0.0;
	int			centroid = -1;

#pragma unroll
	for (int j = 0; j < D; j++)
	{
		x[j] = j < a.d ? feature_of(a, tile, row, j) : 0.0f;
		y[j] = j < a.d ? fmaf(x[j], factor, -w.packed[w.layout.origin + j]) : 0.0f;
	}
	for (int from = 0; from < a.count; from += 32)
		for (unsigned near = near_centroids(a, w, y, from, limit); near != 0; near &= near - 1)
		{
			int			its = from + __ffs(near) - 1;
			double		sum = 0.0;

#pragma unroll
			for (int j = 0; j < D; j++)
				if (j < a.d)
					sum = gk_add_square(sum, x[j], __ldg(a.exact + its * a.d + j));
			if (centroid < 0 || sum < best)
			{
				best = sum;
				centroid = its;
			}
		}
	return max(centroid, 0);
}

/* Decides rows of a lane; `open`: which, as bits. */
template <int D> static __device__ __forceinline__ void
decide_open(const NarrowArguments &a, const NarrowWarp &w, const float *tile, unsigned open,
			const float *limits, OwnRows *own)
{
	/* by way of shared memory, so that there is one loop: for limits, then for labels */
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
		if (open >> r & 1)
			w.items[own_row(r)] = __float_as_uint(limits[r]);
	for (unsigned left = open; left != 0; left &= left - 1)
	{
		int			row = own_row(__ffs(left) - 1);

		w.items[row] = decide_row<D>(a, w, tile, row, __uint_as_float(w.items[row]));
	}
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
		if (open >> r & 1)
			own->label[r] = (int32_t) w.items[own_row(r)];
	__syncwarp();
}

/* The labels of a lane's rows. */
template <int D> static __device__ __forceinline__ void
decide_own(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int valid,
		   OwnRows *own)
{
	const NarrowBound &bound = *(const NarrowBound *) w.packed;
	float		limits[LANE_ROWS];
	unsigned	open = 0;

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
	{
		const Best &best = own->best[r];
		float		limit = best.least + fmaf(bound.wide_row, own->norm2[r], bound.wide_rest);

		own->label[r] = best.centroid;
		limits[r] = limit;
		if (!(best.second > limit) && own_row(r) < valid)
		{
			limits[r] = narrow_limit(bound, best.least, own->norm2[r],
									 w.packed[w.layout.norm + best.centroid]);
			open |= (unsigned) !(best.second > limits[r]) << r;
		}
	}
	if (__any_sync(WARP_LANES, open != 0))
		decide_open<D>(a, w, tile, open, limits, own);
}

}								/* namespace gk */

#endif							/* GK_NARROW_DECIDE_CUH */
