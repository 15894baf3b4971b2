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

/* A centroid's score. */
static __device__ float
score_of(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int row, int centroid)
{
	const float *origin = w.packed + w.layout.origin;
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		score = w.packed[w.layout.lower + centroid];

	for (int j = 0; j < a.d; j++)
		score = fmaf(fmaf(feature_of(a, tile, row, j), factor, -origin[j]),
					 w.packed[w.layout.values + (j >> 2) * w.layout.part + (j & 3) * a.padded +
							  centroid], score);
	return score;
}

/* Takes a centroid if it is nearer by the definition than the best so far (INT32_MAX: none). */
static __device__ __forceinline__ void
take_by_definition(const NarrowArguments &a, const float *tile, int row, int its, double *best,
				   int *centroid)
{
	const double *c = a.exact + (int64_t) its * a.d;
	double		sum = 0.0;

	for (int j = 0; j < a.d; j++)
		sum = gk_add_square(sum, feature_of(a, tile, row, j), __ldg(c + j));
	if (*centroid == INT32_MAX || sum < *best)
	{
		*best = sum;
		*centroid = its;
	}
}

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

/* The label of a row among the centroids with scores up to `limit`, by one lane. */
template <int D> static __device__ __forceinline__ int
decide_alone(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int row, float limit)
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

/* The same by all lanes of a warp. */
static __device__ int
decide_together(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int row,
				float limit)
{
	double		best = 0.0;
	int			centroid = INT32_MAX;

	for (int c = threadIdx.x % 32; c < a.count; c += 32)
		if (!(score_of(a, w, tile, row, c) > limit))
			take_by_definition(a, tile, row, c, &best, &centroid);
#pragma unroll
	for (int other = 16; other > 0; other /= 2)
	{
		double		its = __shfl_xor_sync(WARP_LANES, best, other);
		int			its_centroid = __shfl_xor_sync(WARP_LANES, centroid, other);

		if (its_centroid != INT32_MAX &&
			(centroid == INT32_MAX || its < best || (its == best && its_centroid < centroid)))
		{
			best = its;
			centroid = its_centroid;
		}
	}
	return centroid == INT32_MAX ? 0 : centroid;
}

/* Decides open rows of a tile, each by the lane that has it; `open` and `limits` as in own. */
template <int D, int LANES> static __device__ __forceinline__ void
decide_open(const NarrowArguments &a, const NarrowWarp &w, const float *tile, unsigned open,
			const float *limits, OwnRows<LANES> *own)
{
	/* by way of shared memory, so that there is one loop: for limits, then for labels */
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		if (open >> r & 1)
			w.items[own_row<LANES>(r)] = __float_as_uint(limits[r]);
	for (unsigned left = open; left != 0; left &= left - 1)
	{
		int			row = own_row<LANES>(__ffs(left) - 1);

		w.items[row] = decide_alone<D>(a, w, tile, row, __uint_as_float(w.items[row]));
	}
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		if (open >> r & 1)
			own->label[r] = (int32_t) w.items[own_row<LANES>(r)];
	__syncwarp();
}

/* Decides open rows of a tile, each by the whole warp. */
template <int LANES> static __device__ __forceinline__ void
decide_open_together(const NarrowArguments &a, const NarrowWarp &w, const float *tile,
					 unsigned open, const float *limits, OwnRows<LANES> *own)
{
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		for (unsigned left = __ballot_sync(WARP_LANES, open >> r & 1); left != 0; left &= left - 1)
		{
			int			lane = __ffs(left) - 1;
			int			row = __shfl_sync(WARP_LANES, own_row<LANES>(r), lane);
			float		limit = __shfl_sync(WARP_LANES, limits[r], lane);
			int			label = decide_together(a, w, tile, row, limit);

			if (threadIdx.x % 32 == lane)
				own->label[r] = label;
		}
}

/* The labels of a lane's own rows. */
template <int D, int LANES> static __device__ __forceinline__ void
decide_own(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int valid,
		   OwnRows<LANES> *own)
{
	const NarrowBound &bound = *(const NarrowBound *) w.packed;
	float		limits[OwnRows<LANES>::COUNT];
	unsigned	open = 0;

#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
	{
		const Best &best = own->best[r];
		float		limit = best.least + fmaf(bound.wide_row, own->norm2[r], bound.wide_rest);

		own->label[r] = best.centroid;
		limits[r] = limit;
		if (!(best.second > limit) && own_row<LANES>(r) < valid && speaks<LANES>())
		{
			limits[r] = narrow_limit(bound, best.least, own->norm2[r],
									 w.packed[w.layout.norm + best.centroid]);
			open |= (unsigned) !(best.second > limits[r]) << r;
		}
	}
	if (!__any_sync(WARP_LANES, open != 0))
		return;
	if constexpr (D > 0)
		decide_open<D, LANES>(a, w, tile, open, limits, own);
	else
		decide_open_together<LANES>(a, w, tile, open, limits, own);
}

}								/* namespace gk */

#endif							/* GK_NARROW_DECIDE_CUH */
