/*
 * A centroid for the filter: its 16-bit values, its norm and rounding error, its lower bound
 * (docs/filter.md has the derivation); and what the kernels that make these have in common.
 */
#ifndef GK_CENTROIDS_CUH
#define GK_CENTROIDS_CUH

#include "exact.h"
#include "filter.cuh"
#include "rounding.cuh"
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
 * The 16-bit values of a centroid, or zeros if there is none, by a warp: *place_at(j) is where
 * column j goes.  take(length, error) gets upper bounds of its norm and of what all roundings lose.
 */
template <typename F, typename G> static __device__ __forceinline__ void
round_centroid(const double *c, const float *origin, int d, int depth, double factor, double gamma,
			   F place_at, G take)
{
	Rounded		all = round_columns(depth, [&](int j)
	{
		return c != nullptr && j < d ? (c[j] - (double) origin[j]) * factor : 0.0;
	}, place_at);

	if (threadIdx.x % 32 == 0)
	{
		double		length = sqrt(all.norm2) * (1.0 + 0x1p-40);

		take(length, (sqrt(all.lost2) + gamma * sqrt(all.kept2)) * (1.0 + 0x1p-40) +
			 length * 0x1p-50);
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

/*
 * Finds the first of centroids that are equal: a hash table of all of them.  A slot is UINT64_MAX
 * while it is free; two centroids of one hash share a slot, whether they are equal or not.
 */
struct Twins
{
	unsigned long long *hashes;
	unsigned   *firsts;			/* the first centroid of each slot */
	unsigned   *slots;			/* of each centroid */
	unsigned	mask;

	__device__ __forceinline__ void clear(int64_t slot) const
	{
		hashes[slot] = UINT64_MAX;
		firsts[slot] = UINT32_MAX;
	}

	__device__ __forceinline__ void add(int64_t centroid, unsigned long long hash) const
	{
		const unsigned long long free = UINT64_MAX;
		unsigned	slot = (unsigned) (hash >> 32) & mask;
		unsigned long long there;

		hash = hash == free ? 0 : hash;
		while ((there = atomicCAS(&hashes[slot], free, hash)) != free && there != hash)
			slot = (slot + 1) & mask;
		atomicMin(&firsts[slot], (unsigned) centroid);
		slots[centroid] = slot;
	}

	/* True if an earlier centroid has the same bits. */
	__device__ __forceinline__ bool has_earlier(const double *exact, int64_t centroid, int d) const
	{
		int64_t		first = firsts[slots[centroid]];
		bool		same = first < centroid;

		for (int j = 0; same && j < d; j++)
			same = __double_as_longlong(exact[first * d + j]) ==
				__double_as_longlong(exact[centroid * d + j]);
		return same;
	}
};

/* Slots of the hash table of so many centroids: a power of two, at least twice as many. */
static inline int64_t
hash_slots(int64_t count)
{
	int64_t		slots = 64;

	while (slots < 2 * count)
		slots *= 2;
	return slots;
}

/* Centroids, and what the filter gets of them. */
struct CentroidArguments
{
	CentroidArguments(const Shard &shard, const Centroids &centroids);

	const double *exact;
	const float *origin;
	int64_t		count;
	int64_t		padded;
	int			d;
	int			depth;
	double		gamma;			/* of accumulation_bound() */
	double		whole_norm;		/* as in the shard */
	const int64_t *sums;		/* of their clusters in the step before, or NULL */
	Twins		twins;
	int64_t		slots;			/* of these */
	__half	   *rounded;
	float	   *norm;
	float	   *error;
	float	   *lower;
	float	   *slack;
	CentroidScale *scale;
};

/* Warps of a block that each measure or round a centroid. */
#define CENTROID_WARPS 8

/* The norm of a centroid, in all lanes, and its hash: a warp; what gets them is clear at first. */
static __device__ __forceinline__ double
measure_centroid(const CentroidArguments &a, int64_t centroid)
{
	int			lane = threadIdx.x % 32;
	double		norm2 = 0.0;
	unsigned long long hash = 0;
	bool		whole = true;

	for (int j = lane; j < a.d; j += 32)
	{
		double		c = a.exact[centroid * a.d + j];
		double		e = c - (double) a.origin[j];

		norm2 += e * e;
		whole &= c == rint(c);
		hash += gk_mix((uint64_t) __double_as_longlong(c) + (uint64_t) j * GK_HASH_KEY);
	}
	norm2 = sum_of_lanes<32>(norm2);
	hash = sum_of_lanes<32>(hash);
	if (!whole)
		a.scale->fractions = 1;
	if (lane == 0)
		a.twins.add(centroid, gk_mix(hash));
	return sqrt(norm2);
}

/* Measures the centroids of a block; atomic operations on one number take their time. */
static __device__ __forceinline__ void
measure_centroids(const CentroidArguments &a)
{
	__shared__ unsigned long long greatest;
	int64_t		centroid = (int64_t) blockIdx.x * CENTROID_WARPS + threadIdx.x / 32;

	if (threadIdx.x == 0)
		greatest = 0;
	__syncthreads();
	if (centroid < a.count)
	{
		double		norm = measure_centroid(a, centroid);

		if (threadIdx.x % 32 == 0)
			atomicMax(&greatest, (unsigned long long) __double_as_longlong(norm));
	}
	__syncthreads();
	if (threadIdx.x == 0)
		atomicMax(&a.scale->greatest_norm, greatest);
}

/* What a centroid adds to the means of its set. */
struct BoundLogs
{
	double		norm;
	double		error;
	double		weight;
	unsigned	greatest_error;	/* bits of a float */
};

/*
 * The scaled 16-bit values of a centroid or, past the last, zeros, with norm and error: a warp,
 * once all are measured.  The sums of the clusters say how much each counts for the split of the
 * bound: a few that are far from the others and have hardly any rows must not spoil it for the
 * rest.
 */
static __device__ __forceinline__ void
scale_centroid(const CentroidArguments &a, int64_t centroid, BoundLogs *logs)
{
	double		greatest = __longlong_as_double((long long) a.scale->greatest_norm);
	int			exponent = greatest > 0.0 && greatest < 1e300 ? 14 - ilogb(greatest) : 0;

	exponent = max(-126, min(126, exponent));
	if (threadIdx.x % 32 == 0 && centroid == 0)
		a.scale->exponent = exponent;
	round_centroid(centroid < a.count ? a.exact + centroid * a.d : nullptr, a.origin, a.d, a.depth,
				   ldexp(1.0, exponent), a.gamma,
				   [&](int j) { return a.rounded + place_of_centroid(a.depth, centroid, j); },
				   [&](double length, double missed)
	{
		bool		counts = length > 0.0 && isfinite(length);
		double		weight = 1.0 + (a.sums != nullptr && centroid < a.count ?
									fmax((double) a.sums[centroid * (a.d + 1) + a.d], 0.0) : 0.0);

		a.norm[centroid] = __double2float_ru(length);
		a.error[centroid] = __double2float_ru(missed);
		*logs = {counts ? weight * log2(length) : 0.0, counts ? weight * log2(missed) : 0.0,
			counts ? weight : 0.0, __float_as_uint(__double2float_ru(missed))};
	});
}

/* Rounds the centroids of a block, from one on. */
static __device__ __forceinline__ void
scale_centroids(const CentroidArguments &a, int64_t first)
{
	__shared__ BoundLogs logs[CENTROID_WARPS];
	int			warp = threadIdx.x / 32;
	BoundLogs	all = {};

	if (threadIdx.x < CENTROID_WARPS)
		logs[threadIdx.x] = {};
	__syncthreads();
	if (first + warp < a.padded)
		scale_centroid(a, first + warp, &logs[warp]);
	__syncthreads();
	if (threadIdx.x > 0)
		return;
	for (const BoundLogs &its : logs)
		all = {all.norm + its.norm, all.error + its.error, all.weight + its.weight,
			max(all.greatest_error, its.greatest_error)};
	atomicAdd(&a.scale->norm_log, all.norm);
	atomicAdd(&a.scale->error_log, all.error);
	atomicAdd(&a.scale->weight, all.weight);
	atomicMax(&a.scale->greatest_error, all.greatest_error);
}

}								/* namespace gk */

#endif							/* GK_CENTROIDS_CUH */
