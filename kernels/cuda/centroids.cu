/*
 * Norms and rounding errors of centroids and rows, for the filter: docs/filter.md has the bound.
 *
 * With y = x - p and e = c - p (p, the origin, near the mean), the nearest centroid is the one with
 * the least s = |e|²/2 - y·e.  The filter uses 16-bit roundings ŷ and ê of y and e, scaled by
 * powers of two.  Its error is at most
 *
 *     |y - ŷ| |e| + |ŷ| (|e - ê| + γ |ê|)                    (Cauchy and Schwarz)
 *
 * where γ bounds the accumulation.  Both products are split by a b <= t a²/2 + b²/(2 t), which
 * holds for every t > 0, into a part of the row and a part of the centroid.  The latter is
 * subtracted from |e|²/2 beforehand ("lower"), so it costs nothing in the filter, and a distant
 * centroid loosens no other's bound.
 */
#include <algorithm>
#include <cmath>

#include "accumulation.h"
#include "centroids.cuh"
#include "exact.h"
#include "warp.cuh"

namespace gk
{

/* A thread's part of |x - origin|². */
template <int LANES, typename T> static __device__ __forceinline__ T
part_of_norm(const float *x, const float *origin, int d)
{
	T			sum = 0;

	for (int j = threadIdx.x % LANES * 4; j < d; j += LANES * 4)
	{
		float4		v = read_four(x, j, d, d % 4 == 0);
		float4		p = read_four(origin, j, d, d % 4 == 0);

		sum += square((T) v.x - (T) p.x) + square((T) v.y - (T) p.y) + square((T) v.z - (T) p.z) +
			square((T) v.w - (T) p.w);
	}
	return sum;
}

/* A thread's part of the squared rounding error of a scaled row. */
template <int LANES> static __device__ __forceinline__ float
part_of_error(const float *x, const float *origin, int d, float scale)
{
	float		sum = 0.0f;

	for (int j = threadIdx.x % LANES * 4; j < d; j += LANES * 4)
	{
		float4		v = read_four(x, j, d, d % 4 == 0);
		float4		p = read_four(origin, j, d, d % 4 == 0);

		sum += square(lost_in_half((v.x - p.x) * scale)) +
			square(lost_in_half((v.y - p.y) * scale)) +
			square(lost_in_half((v.z - p.z) * scale)) +
			square(lost_in_half((v.w - p.w) * scale));
	}
	return sum;
}

/* Norm and rounding error of rows, LANES threads a row. */
template <int LANES> static __global__ void
bounds_kernel(const float *features, const float *origin, int64_t rows, int d, int64_t sampled,
			  uint32_t *bounds, RowStatistics *statistics)
{
	int64_t		groups = (int64_t) gridDim.x * blockDim.x / LANES;
	int64_t		row = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / LANES;

	/* all lanes of a warp stay as long as one has a row */
	for (; row - threadIdx.x % 32 / LANES < rows; row += groups)
	{
		const float *x = features + min(row, rows - 1) * d;
		float		norm2 = sum_of_lanes<LANES>(part_of_norm<LANES, float>(x, origin, d));
		float		norm = sqrtf(norm2);
		float		error;
		uint32_t	code;
		int			exponent;

		/* recomputes squares that may have overflowed a float; the whole warp decides together */
		if (!__all_sync(0xffffffffu, norm2 > 1e-28f && norm2 < 1e36f))
			norm = __double2float_ru(
				sqrt(sum_of_lanes<LANES>(part_of_norm<LANES, double>(x, origin, d))));
		norm *= 1.0f + 1.0f / 512;
		code = code_up(norm);
		exponent = scale_of_norm(__uint_as_float(code << 16));
		error = sqrtf(sum_of_lanes<LANES>(
			part_of_error<LANES>(x, origin, d, power_of_two(exponent))));
		/* the subtraction in float, and a scale that did not bring the norm into its range */
		error = error * power_of_two(-exponent) * (1.0f + 1.0f / 512) + norm * 0x1p-22f + 0x1p-140f;
		if (threadIdx.x % LANES == 0 && row < rows)
		{
			bounds[row] = code << 16 | (code == 0x7f80 ? code : code_up(error));
			if (code != 0x7f80 && norm > 0.0f && (row & sampled) == 0)
			{
				atomicAdd(&statistics->norm_log, (double) log2f(norm));
				atomicAdd(&statistics->error_log, (double) log2f(error));
				atomicAdd(&statistics->count, 1ull);
			}
		}
	}
}

/* Enqueues the kernel. */
template <int LANES> static void
launch_bounds(Shard &shard, const Slice &slice)
{
	int64_t		blocks = (slice.rows * LANES + 255) / 256;
	int64_t		sampled = 1;		/* every this many rows, a power of two */

	while (sampled * 2048 < slice.rows)
		sampled *= 2;

	bounds_kernel<LANES><<<blocks_for(shard, blocks, 8), 256, 0, shard.device->compute>>>
		(slice.features, shard.origin.get(), slice.rows, shard.dimension, sampled - 1,
		 shard.bounds.get() + slice.first, shard.row_statistics.get());
	GK_LAUNCHED("bounds_kernel");
}

/* Norm and rounding error of the rows of a slice. */
void
compute_bounds(Shard &shard, const Slice &slice)
{
	if (shard.dimension <= 8)
		launch_bounds<2>(shard, slice);
	else if (shard.dimension <= 32)
		launch_bounds<8>(shard, slice);
	else
		launch_bounds<32>(shard, slice);
}

/* Computes the mean of a few rows as the origin. */
static __global__ void
sample_kernel(const float *features, int64_t rows, int64_t step, int d, float *origin)
{
	int			j = blockIdx.x * blockDim.x + threadIdx.x;
	double		sum = 0.0;
	int			count = 0;

	if (j >= d)
		return;
	for (int64_t row = 0; row < rows; row += step)
	{
		sum += features[row * d + j];
		count++;
	}
	origin[j] = (float) (sum / count);
}

/* Makes the mean of a few rows the origin, unless there is one. */
void
sample_origin(Shard &shard)
{
	if (shard.origin.get() != nullptr || shard.rows == 0)
		return;
	shard.row_statistics.reserve(shard, 1);
	shard.origin.reserve(shard, shard.dimension);

	Slice		slice;

	try
	{
		slice = shard.start_slice(0, INT64_MAX / 2);
	}
	catch (...)
	{
		/* an existing origin is assumed to be good */
		shard.origin.release();
		throw;
	}

	sample_kernel<<<(shard.dimension + 127) / 128, 128, 0, shard.device->compute>>>
		(slice.features, slice.rows, slice.rows / 256 + 1, shard.dimension, shard.origin.get());
	GK_LAUNCHED("sample_kernel");
	shard.finish_slice(slice, false);
	shard.bounds_valid = false;
	shard.whole_norm = 0.0;
}

/*
 * Sets the origin, which the filter subtracts from rows and centroids; whole_norm is as in the
 * shard.
 */
void
set_origin(Shard &shard, const double *origin, double whole_norm)
{
	std::vector<float> rounded(origin, origin + shard.dimension);

	for (float &value : rounded)
		if (!std::isfinite(value))
			value = 0.0f;
	shard.use();
	shard.origin.reserve(shard, shard.dimension);
	shard.row_statistics.reserve(shard, 1);
	GK_CUDA(cudaMemcpyAsync(shard.origin.get(), rounded.data(), rounded.size() * sizeof(float),
							cudaMemcpyHostToDevice, shard.device->compute));
	shard.whole_norm = whole_norm;
	shard.bounds_valid = false;
	shard.centroids.prepared = shard.candidates.prepared = false;
}

/* Slots of the hash table of so many centroids: a power of two, at least twice as many. */
static int64_t
hash_slots(int64_t count)
{
	int64_t		slots = 64;

	while (slots < 2 * count)
		slots *= 2;
	return slots;
}

/* Allocates memory for this many centroids. */
void
reserve_centroids(Shard &shard, Centroids &centroids, int64_t count)
{
	centroids.count = count;
	centroids.padded = (count + 127) / 128 * 128;
	centroids.prepared = false;
	centroids.exact.reserve(shard, count * shard.dimension);
	/* those of regions are compared otherwise */
	centroids.narrow = &centroids != &shard.regions.centers && suits_narrow(shard, count);
	if (centroids.narrow)
		return reserve_narrow(shard, centroids);
	centroids.rounded.reserve(shard, centroids.padded * tiles_of(shard.depth) * TILE_COLUMNS);
	centroids.lower.reserve(shard, centroids.padded);
	centroids.slack.reserve(shard, centroids.padded);
	centroids.norm.reserve(shard, centroids.padded);
	centroids.error.reserve(shard, centroids.padded);
	centroids.scale.reserve(shard, 1);
	centroids.hashes.reserve(shard, hash_slots(count));
	centroids.firsts.reserve(shard, hash_slots(count) + count);
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

/* The norms of the centroids, and their hashes: one warp a centroid. */
static __global__ void
norms_kernel(const double *exact, const float *origin, int64_t count, int d, CentroidScale *scale,
			 Twins twins)
{
	int			lane = threadIdx.x % 32;
	int64_t		centroid = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;
	double		norm2 = 0.0;
	unsigned long long hash = 0;
	bool		whole = true;

	if (centroid >= count)
		return;
	for (int j = lane; j < d; j += 32)
	{
		double		c = exact[centroid * d + j];
		double		e = c - (double) origin[j];

		norm2 += e * e;
		whole &= c == rint(c);
		hash += gk_mix((uint64_t) __double_as_longlong(c) + (uint64_t) j * GK_HASH_KEY);
	}
	norm2 = sum_of_lanes<32>(norm2);
	hash = sum_of_lanes<32>(hash);
	if (!whole)
		scale->fractions = 1;
	if (lane == 0)
	{
		atomicMax(&scale->greatest_norm, (unsigned long long) __double_as_longlong(sqrt(norm2)));
		twins.add(centroid, gk_mix(hash));
	}
}

/*
 * Scaled 16-bit centroids, with norm and error of each: one warp a centroid.  The `sums` of their
 * clusters, unless NULL, say how much each counts for the split of the bound: a few that are far
 * from the others and have hardly any rows must not spoil it for the rest.
 */
static __global__ void
round_kernel(const double *exact, const float *origin, int64_t count, int64_t padded, int d,
			 int depth, double gamma, const int64_t *sums, __half *rounded, float *norm,
			 float *error, CentroidScale *scale)
{
	int			lane = threadIdx.x % 32;
	int64_t		centroid = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;
	double		greatest = __longlong_as_double((long long) scale->greatest_norm);
	int			exponent = greatest > 0.0 && greatest < 1e300 ? 14 - ilogb(greatest) : 0;
	double		factor;

	exponent = max(-126, min(126, exponent));
	factor = ldexp(1.0, exponent);
	if (centroid >= padded)
		return;
	if (lane == 0 && centroid == 0)
		scale->exponent = exponent;
	round_centroid(centroid < count ? exact + centroid * d : nullptr, origin, d, depth, factor,
				   gamma, [&](int j) { return rounded + place_of_centroid(depth, centroid, j); },
				   [&](double length, double missed)
	{
		double		weight = sums != nullptr && centroid < count ?
			(double) sums[centroid * (d + 1) + d] : 0.0;

		store_bounds(centroid, length, missed, fmax(weight, 0.0) + 1.0, norm, error, scale);
		atomicMax(&scale->greatest_error, __float_as_uint(error[centroid]));
	});
}

/* Scores that are exact have room for the number of a centroid: so many are fewer than 2^17. */
#define EXACT_SCORES 0x1p17

/*
 * What makes exact scores positive, if they are exact; 0 if not.  whole_norm is as in the shard,
 * `greatest` the greatest norm of the centroids.
 */
static __device__ __forceinline__ double
exact_shift(const CentroidScale &scale, double whole_norm, double gamma)
{
	double		greatest = __longlong_as_double((long long) scale.greatest_norm);
	double		shift = ldexp(1.0, ilogb(fmax(whole_norm * greatest, 1.0)) + 1);
	bool		small = greatest * greatest + 4.0 * shift < EXACT_SCORES;

	return whole_norm > 0.0 && scale.fractions == 0 && small && isfinite(gamma) ? shift : 0.0;
}

/* |c - origin|² of whole numbers, exact. */
static __device__ double
whole_norm2(const double *c, const float *origin, int d)
{
	double		norm2 = 0.0;

	for (int j = 0; j < d; j++)
		norm2 += (c[j] - (double) origin[j]) * (c[j] - (double) origin[j]);
	return norm2;
}

/* The lower bounds of |e|²/2 by the two splits, or exact ones. */
static __global__ void
lower_kernel(const double *exact, const float *origin, int64_t count, int64_t padded, int d,
			 double whole_norm, double gamma, Twins twins, const float *norm, const float *error,
			 const RowStatistics *rows, CentroidScale *scale, float *lower, float *slack)
{
	int64_t		centroid = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	double		shift = exact_shift(*scale, whole_norm, gamma);
	double		row_norm = rows->norm_log / rows->count + scale->exponent;
	double		row_error = rows->error_log / rows->count + scale->exponent;
	double		lambda = safe_power(scale->error_log / scale->weight - row_norm);
	double		mu = safe_power(scale->norm_log / scale->weight - row_error);

	if (centroid == 0)
	{
		float		lowest;

		scale->lambda = __double2float_ru(lambda);
		scale->mu = __double2float_ru(mu);
		bound_centroid(greatest_norm_of(*scale), __uint_as_float(scale->greatest_error), lambda, mu,
					   d, &lowest, &scale->greatest_slack);
		scale->exact = shift > 0.0;
	}
	if (centroid >= padded)
		return;
	/* of equal centroids, the first is nearest: the others are like those that pad the last tile */
	slack[centroid] = 0.0f;
	if (centroid >= count || twins.has_earlier(exact, centroid, d))
		lower[centroid] = 3.0e38f;
	else if (shift > 0.0)
		lower[centroid] = (float) ldexp(whole_norm2(exact + centroid * d, origin, d) / 2.0 + shift,
										2 * scale->exponent);
	else
		bound_centroid(norm[centroid], error[centroid], lambda, mu, d, &lower[centroid],
					   &slack[centroid]);
}

/* The sums of the clusters of centroids in the step before, or NULL. */
static const int64_t *
sums_of(const Shard &shard, const Centroids &centroids)
{
	const Buffer<int64_t> &sums = shard.totals.get() != nullptr ? shard.totals : shard.sums;
	uint64_t	count = (uint64_t) centroids.count * (shard.dimension + 1);

	return &centroids == &shard.centroids && sums.capacity() >= count ? sums.get() : nullptr;
}

/* Prepares centroids for the filter. */
void
prepare_centroids(Shard &shard, Centroids &centroids)
{
	cudaStream_t stream = shard.device->compute;
	int			d = shard.dimension;
	int64_t		slots = hash_slots(centroids.count);
	double		gamma = accumulation_bound(shard.device->accumulation, shard.depth);
	Twins		twins = {(unsigned long long *) centroids.hashes.get(), centroids.firsts.get(),
		centroids.firsts.get() + slots, (unsigned) (slots - 1)};

	if (centroids.prepared)
		return;
	shard.use();
	if (centroids.narrow)
	{
		pack_centroids(shard, centroids);
		centroids.prepared = true;
		return;
	}
	GK_CUDA(cudaMemsetAsync(twins.hashes, 0xff, slots * sizeof(*twins.hashes), stream));
	GK_CUDA(cudaMemsetAsync(twins.firsts, 0xff, slots * sizeof(*twins.firsts), stream));
	GK_CUDA(cudaMemsetAsync(centroids.scale.get(), 0, sizeof(CentroidScale), stream));
	norms_kernel<<<(centroids.count + 7) / 8, 256, 0, stream>>>
		(centroids.exact.get(), shard.origin.get(), centroids.count, d, centroids.scale.get(),
		 twins);
	round_kernel<<<(centroids.padded + 7) / 8, 256, 0, stream>>>
		(centroids.exact.get(), shard.origin.get(), centroids.count, centroids.padded, d,
		 shard.depth, gamma,
		 sums_of(shard, centroids), centroids.rounded.get(), centroids.norm.get(),
		 centroids.error.get(), centroids.scale.get());
	lower_kernel<<<(centroids.padded + 255) / 256, 256, 0, stream>>>
		(centroids.exact.get(), shard.origin.get(), centroids.count, centroids.padded, d,
		 shard.whole_norm, gamma, twins, centroids.norm.get(), centroids.error.get(),
		 shard.row_statistics.get(), centroids.scale.get(), centroids.lower.get(),
		 centroids.slack.get());
	GK_LAUNCHED("prepare_centroids");
	/* comes last: a command that failed before is followed by others */
	centroids.prepared = true;
}

}								/* namespace gk */
