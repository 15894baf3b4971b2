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
	centroids.ordered = suits_hopper(shard, count);
	if (centroids.ordered)
	{
		centroids.sorted.rounded.reserve(shard, centroids.padded * tiles_of(shard.depth) *
												TILE_COLUMNS);
		centroids.sorted.lower.reserve(shard, centroids.padded);
		centroids.sorted.numbers.reserve(shard, centroids.padded);
		reserve_sorting(shard, centroids);
	}
}

/* Measures centroids: one warp each. */
static __global__ void
measure_kernel(CentroidArguments a)
{
	measure_centroids(a);
}

/* Scales and rounds centroids: one warp each. */
static __global__ void
round_kernel(CentroidArguments a)
{
	scale_centroids(a, (int64_t) blockIdx.x * CENTROID_WARPS);
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

/* The lower bounds of |e|²/2 by the two splits, or exact ones; clears so many numbers. */
static __global__ void
lower_kernel(CentroidArguments a, const RowStatistics *rows, uint32_t *to_clear, int64_t numbers)
{
	int64_t		centroid = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	CentroidScale *scale = a.scale;
	double		shift = exact_shift(*scale, a.whole_norm, a.gamma);
	double		row_norm = rows->norm_log / rows->count + scale->exponent;
	double		row_error = rows->error_log / rows->count + scale->exponent;
	double		lambda = safe_power(scale->error_log / scale->weight - row_norm);
	double		mu = safe_power(scale->norm_log / scale->weight - row_error);

	for (int64_t i = centroid; i < numbers; i += (int64_t) gridDim.x * blockDim.x)
		to_clear[i] = 0;
	if (centroid == 0)
	{
		float		lowest;

		scale->lambda = __double2float_ru(lambda);
		scale->mu = __double2float_ru(mu);
		bound_centroid(greatest_norm_of(*scale), __uint_as_float(scale->greatest_error), lambda, mu,
					   a.d, &lowest, &scale->greatest_slack);
		scale->exact = shift > 0.0;
	}
	if (centroid >= a.padded)
		return;
	/* of equal centroids, the first is nearest: the others are like those that pad the last tile */
	a.slack[centroid] = 0.0f;
	if (centroid >= a.count || a.twins.has_earlier(a.exact, centroid, a.d))
		a.lower[centroid] = 3.0e38f;
	else if (shift > 0.0)
		a.lower[centroid] =
			(float) ldexp(whole_norm2(a.exact + centroid * a.d, a.origin, a.d) / 2.0 + shift,
						  2 * scale->exponent);
	else
		bound_centroid(a.norm[centroid], a.error[centroid], lambda, mu, a.d, &a.lower[centroid],
					   &a.slack[centroid]);
}

/* The sums of the clusters of centroids in the step before, or NULL. */
static const int64_t *
sums_of(const Shard &shard, const Centroids &centroids)
{
	const Buffer<int64_t> &sums = shard.totals.get() != nullptr ? shard.totals : shard.sums;
	uint64_t	count = (uint64_t) centroids.count * (shard.dimension + 1);

	return &centroids == &shard.centroids && sums.capacity() >= count ? sums.get() : nullptr;
}

/* The arguments of what prepares centroids for the filter. */
CentroidArguments::CentroidArguments(const Shard &shard, const Centroids &centroids)
	: exact(centroids.exact.get()), origin(shard.origin.get()), count(centroids.count),
	  padded(centroids.padded), d(shard.dimension), depth(shard.depth),
	  gamma(accumulation_bound(shard.device->accumulation, shard.depth)),
	  whole_norm(shard.whole_norm), sums(sums_of(shard, centroids)), twins(),
	  slots(hash_slots(count)), rounded(centroids.rounded.get()), norm(centroids.norm.get()),
	  error(centroids.error.get()), lower(centroids.lower.get()), slack(centroids.slack.get()),
	  scale(centroids.scale.get())
{
	twins = {(unsigned long long *) centroids.hashes.get(), centroids.firsts.get(),
		centroids.firsts.get() + slots, (unsigned) (slots - 1)};
}

/* Prepares the bounds of rounded centroids and the filter's counters: the last that it needs. */
void
bound_centroids(Shard &shard, Centroids &centroids)
{
	CentroidArguments a(shard, centroids);
	int64_t		numbers = flag_counters(shard);
	bool		reserved = shard.flag_counts.capacity() >= (uint64_t) numbers;

	lower_kernel<<<(unsigned) ((a.padded + 255) / 256), 256, 0, shard.device->compute>>>
		(a, shard.row_statistics.get(), shard.flag_counts.get(), reserved ? numbers : 0);
	GK_LAUNCHED("lower_kernel");
	if (centroids.ordered)
		sort_centroids(shard, centroids);
	shard.flags_clear = reserved;
	/* comes last: a command that failed before is followed by others */
	centroids.prepared = true;
}

/* Prepares centroids for the filter. */
void
prepare_centroids(Shard &shard, Centroids &centroids)
{
	cudaStream_t stream = shard.device->compute;

	if (centroids.prepared)
		return;
	shard.use();
	if (centroids.narrow)
	{
		pack_centroids(shard, centroids);
		centroids.prepared = true;
		return;
	}

	CentroidArguments a(shard, centroids);

	GK_CUDA(cudaMemsetAsync(a.twins.hashes, 0xff, a.slots * sizeof(*a.twins.hashes), stream));
	GK_CUDA(cudaMemsetAsync(a.twins.firsts, 0xff, a.slots * sizeof(*a.twins.firsts), stream));
	GK_CUDA(cudaMemsetAsync(a.scale, 0, sizeof(CentroidScale), stream));
	measure_kernel<<<(unsigned) ((a.count + CENTROID_WARPS - 1) / CENTROID_WARPS),
		CENTROID_WARPS * 32, 0, stream>>>(a);
	round_kernel<<<(unsigned) ((a.padded + CENTROID_WARPS - 1) / CENTROID_WARPS),
		CENTROID_WARPS * 32, 0, stream>>>(a);
	GK_LAUNCHED("prepare_centroids");
	bound_centroids(shard, centroids);
}

}								/* namespace gk */
