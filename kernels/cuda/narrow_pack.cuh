/*
 * How one block packs few centroids of few features as narrow_kernel wants them.
 */
#ifndef GK_NARROW_PACK_CUH
#define GK_NARROW_PACK_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "exact.h"
#include "narrow.cuh"
#include "warp.cuh"

namespace gk
{

#define PACK_THREADS 512

/* The hash of a centroid, the same in all lanes of a warp: equal ones have equal hashes. */
static __device__ __forceinline__ unsigned long long
hash_of(const double *c, int d)
{
	unsigned long long hash = 0;

	for (int j = threadIdx.x % 32; j < d; j += 32)
		/* + 0: both zeros are equal */
		hash += gk_mix((uint64_t) __double_as_longlong(c[j] + 0.0) +
					   (uint64_t) (j + 1) * GK_HASH_KEY);
	return sum_of_lanes<32>(hash);
}

/* True if a centroid equals an earlier one, which then has all its rows. */
static __device__ __forceinline__ bool
is_repeated(const double *exact, int d, const unsigned long long *hashes, int centroid)
{
	bool		found = false;

	for (int other = threadIdx.x % 32; other < centroid; other += 32)
	{
		bool		equal = hashes[other] == hashes[centroid];

		for (int j = 0; j < d && equal; j++)
			equal = exact[other * d + j] == exact[centroid * d + j];
		found |= equal;
	}
	return __any_sync(WARP_LANES, found);
}

/* Stores a centroid less the origin, scaled and negated; its norm, in all lanes of a warp. */
static __device__ __forceinline__ double
pack_centroid(const double *c, const float *origin, double factor, int d, int parts, int padded,
			  float *values, int part_floats)
{
	double		norm2 = 0.0;

	for (int j = threadIdx.x % 32; j < parts * 4; j += 32)
	{
		double		e = 0.0;

		if (c != nullptr && j < d)
			e = c[j] * factor - (double) (float) ((double) origin[j] * factor);
		values[j / 4 * part_floats + j % 4 * padded] = (float) -e;
		norm2 += e * e;
	}
	return sqrt(sum_of_lanes<32>(norm2));
}

/* The power of two that brings a squared norm near 1. */
static __device__ __forceinline__ int
narrow_exponent(double norm2)
{
	int			exponent = norm2 > 0.0 && norm2 < 1e300 ? -ilogb(sqrt(norm2)) : 0;

	return max(-126, min(126, exponent));
}

/* Exact scores, in halves, are numbers of 24 bits. */
#define EXACT_NARROW 0x1p24

/* Stores the constants of the bound; `exact`: no score is rounded. */
static __device__ void
store_bound(NarrowBound *bound, double factor, double greatest, int d, bool exact)
{
	double		gamma = 1.01 * (d + 16) * 0x1p-24;
	double		definition = (d + 16) * 0x1p-49;

	bound->factor = (float) factor;
	bound->wide_row = __double2float_ru(1.01 * (gamma + 2.0 * definition));
	bound->wide_rest = __double2float_ru(
		1.01 * (2.0 * (gamma + definition) * greatest * greatest + 0x1p-89));
	bound->gamma = __double2float_ru(gamma);
	bound->definition = __double2float_ru(definition);
	bound->greatest = __double2float_ru(greatest);
	bound->inflation = __double2float_ru(1.0 + (d + 16) * 0x1p-23);
	bound->unused = 0.0f;
	if (!(greatest < 0x1p40))
		bound->wide_rest = bound->greatest = INFINITY;
	if (exact)
	{
		bound->wide_row = 0.0f;
		bound->wide_rest = -INFINITY;
	}
}

/*
 * The hashes of the centroids, and the greatest squared norm, as bits; *fractions becomes 1 if a
 * coordinate is no whole number.
 */
static __device__ __forceinline__ void
measure_centroids(const double *exact, const float *origin, int count, int d,
				  unsigned long long *hashes, unsigned long long *greatest, int *fractions)
{
	int			lane = threadIdx.x % 32;

	for (int c = threadIdx.x / 32; c < count; c += PACK_THREADS / 32)
	{
		unsigned long long hash = hash_of(exact + c * d, d);
		double		norm2 = 0.0;

		for (int j = lane; j < d; j += 32)
		{
			double		e = exact[c * d + j] - (double) origin[j];

			norm2 += e * e;
			if (exact[c * d + j] != rint(exact[c * d + j]))
				atomicOr(fractions, 1);
		}
		norm2 = sum_of_lanes<32>(norm2);
		if (lane == 0)
		{
			hashes[c] = hash;
			atomicMax(greatest, (unsigned long long) __double_as_longlong(norm2));
		}
	}
}

/* Packs centroids: a block of PACK_THREADS.  whole_norm is as in the shard. */
static __device__ __forceinline__ void
pack_block(const double *exact, const float *origin, int count, int padded, int d,
		   double whole_norm, float *packed)
{
	__shared__ unsigned long long hashes[NARROW_CENTROIDS];
	__shared__ unsigned long long greatest[2];
	__shared__ int fractions;
	int			parts = (d + 3) / 4;
	NarrowLayout layout = narrow_layout(parts, padded);
	int			lane = threadIdx.x % 32;
	double		factor;

	if (threadIdx.x < 2)
		greatest[threadIdx.x] = 0;
	if (threadIdx.x == 0)
		fractions = 0;
	__syncthreads();
	measure_centroids(exact, origin, count, d, hashes, &greatest[0], &fractions);
	__syncthreads();
	factor = ldexp(1.0, narrow_exponent(__longlong_as_double((long long) greatest[0])));
	for (int c = threadIdx.x / 32; c < padded; c += PACK_THREADS / 32)
	{
		bool		real = c < count && !is_repeated(exact, d, hashes, c);
		double		norm = pack_centroid(real ? exact + c * d : nullptr, origin, factor, d, parts,
										 padded, packed + layout.values + c, layout.part);
		double		above = norm * (1.0 + 0x1p-20) + 0x1p-120;

		if (lane == 0)
		{
			packed[layout.lower + c] = real ? (float) (norm * norm / 2.0) : 3.0e38f;
			packed[layout.norm + c] = __double2float_ru(above);
			atomicMax(&greatest[1], (unsigned long long) __double_as_longlong(above));
		}
	}
	for (int j = threadIdx.x; j < parts * 4; j += PACK_THREADS)
		packed[layout.origin + j] = j < d ? (float) ((double) origin[j] * factor) : 0.0f;
	__syncthreads();
	if (threadIdx.x == 0)
	{
		double		most2 = __longlong_as_double((long long) greatest[0]);

		store_bound((NarrowBound *) packed, factor,
					__longlong_as_double((long long) greatest[1]), d,
					whole_norm > 0.0 && fractions == 0 &&
					most2 + 2.0 * whole_norm * sqrt(most2) < EXACT_NARROW / 2);
	}
}

}								/* namespace gk */

#endif							/* GK_NARROW_PACK_CUH */
