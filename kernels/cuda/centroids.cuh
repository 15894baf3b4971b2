/*
 * A centroid for the filter: its 16-bit values, its norm and rounding error, its lower bound
 * (docs/filter.md has the derivation).
 */
#ifndef GK_CENTROIDS_CUH
#define GK_CENTROIDS_CUH

#include "filter.cuh"
#include "warp.cuh"

namespace gk
{

/* Stores norm and error of a centroid, and adds their logarithms to the means, with a weight. */
static __device__ __forceinline__ void
store_bounds(int64_t centroid, double length, double missed, double weight, float *norm,
			 float *error, CentroidScale *scale)
{
	norm[centroid] = __double2float_ru(length);
	error[centroid] = __double2float_ru(missed);
	if (length > 0.0 && isfinite(length))
	{
		atomicAdd(&scale->norm_log, weight * log2(length));
		atomicAdd(&scale->error_log, weight * log2(missed));
		atomicAdd(&scale->weight, weight);
	}
}

/*
 * The 16-bit values of a centroid, or zeros if there is none, by a warp: value_at(j) is where
 * column j goes.  take(length, error) gets upper bounds of its norm and of what all roundings lose.
 */
template <typename F, typename G> static __device__ __forceinline__ void
round_centroid(const double *c, const float *origin, int d, int depth, double factor, double gamma,
			   F value_at, G take)
{
	int			lane = threadIdx.x % 32;
	double		norm2 = 0.0;
	double		kept2 = 0.0;
	double		lost2 = 0.0;

	for (int j = lane; j < tiles_of(depth) * TILE_COLUMNS; j += 32)
	{
		double		e = c != nullptr && j < d ? (c[j] - (double) origin[j]) * factor : 0.0;
		/* out of range of 16 bits: gets no value, so that every row has it as a candidate */
		__half		kept = fabs(e) < 60000.0 ? __double2half(e) : __float2half(0.0f);
		double		lost = e - (double) __half2float(kept);

		*value_at(j) = kept;
		norm2 += e * e;
		kept2 += (double) __half2float(kept) * (double) __half2float(kept);
		lost2 += lost * lost;
	}
	norm2 = sum_of_lanes<32>(norm2);
	kept2 = sum_of_lanes<32>(kept2);
	lost2 = sum_of_lanes<32>(lost2);
	if (lane == 0)
	{
		double		length = sqrt(norm2) * (1.0 + 0x1p-40);

		take(length, (sqrt(lost2) + gamma * sqrt(kept2)) * (1.0 + 0x1p-40) + length * 0x1p-50);
	}
}

/* 2^x within the range of a float, and positive whatever x is. */
static __device__ double
safe_power(double x)
{
	return isfinite(x) ? exp2(fmax(-40.0, fmin(40.0, x))) : 1.0;
}

/* The lower bound of |e|²/2 by the two splits, from the centroid's norm and error. */
static __device__ __forceinline__ void
bound_centroid(double norm, double error, double lambda, double mu, int d, float *lower,
			   float *slack)
{
	double		half = norm * norm / 2;
	/* the splits; roundings here and in the filter; the rounding of d² itself in double */
	double		bound = half - error * error / (2 * lambda) - norm * norm / (2 * mu) -
		half * 0x1p-21 - norm * norm * d * 0x1p-50;

	*lower = bound > -3.0e38 && bound < 3.0e38 ? __double2float_rd(bound) : -3.0e38f;
	*slack = __double2float_ru(half - (double) *lower + half * 0x1p-21);
}

}								/* namespace gk */

#endif							/* GK_CENTROIDS_CUH */
