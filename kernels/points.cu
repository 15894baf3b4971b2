/*
 * What the filter knows of points and rows.
 *
 * With y = x - p and e = c - p (p near the mean), the nearest point is the one with the least
 * s = |e|²/2 - y·e.  The filter has 16-bit roundings of y and e, scaled by powers of two, and is
 * wrong by at most
 *
 *     |y - ŷ| |e| + |ŷ| (|e - ê| + γ |ê|)                    (Cauchy and Schwarz)
 *
 * where γ bounds the accumulation.  Both products are split by a b <= t a²/2 + b²/(2 t), which
 * holds for every t > 0, into a part of the row and a part of the point: the latter is taken
 * off |e|²/2 beforehand ("lower"), so that it costs nothing in the filter and a far
 * point loosens nobody's bound but its own.
 */
#include <algorithm>
#include <cmath>

#include "exact.h"
#include "filter.cuh"

namespace gk
{

/* x². */
template <typename T> static __device__ __forceinline__ T
square(T x)
{
	return x * x;
}

/* The sum over LANES threads that follow each other, in all of them. */
template <int LANES, typename T> static __device__ __forceinline__ T
sum_of_lanes(T value)
{
#pragma unroll
	for (int other = LANES / 2; other > 0; other /= 2)
		value += __shfl_xor_sync(0xffffffffu, value, other);
	return value;
}

/* What rounding to 16 bits takes off a value. */
static __device__ __forceinline__ float
lost_in_half(float y)
{
	return y - __half2float(__float2half_rn(y));
}

/* A positive float as 16 bits that are not less. */
static __device__ __forceinline__ uint32_t
code_up(float value)
{
	return value > 1.7e38f ? 0x7f80 : (__float_as_uint(value) + 0xffff) >> 16;
}

/* The part of a thread in |x - center|². */
template <int LANES, typename T> static __device__ __forceinline__ T
part_of_norm(const float *x, const float *center, int d)
{
	T			sum = 0;

	for (int j = threadIdx.x % LANES * 4; j < d; j += LANES * 4)
	{
		float4		v = read_four(x, j, d, d % 4 == 0);
		float4		p = read_four(center, j, d, d % 4 == 0);

		sum += square((T) v.x - (T) p.x) + square((T) v.y - (T) p.y) + square((T) v.z - (T) p.z) +
			square((T) v.w - (T) p.w);
	}
	return sum;
}

/* The part of a thread in the square of what rounding takes off a scaled row. */
template <int LANES> static __device__ __forceinline__ float
part_of_error(const float *x, const float *center, int d, float scale)
{
	float		sum = 0.0f;

	for (int j = threadIdx.x % LANES * 4; j < d; j += LANES * 4)
	{
		float4		v = read_four(x, j, d, d % 4 == 0);
		float4		p = read_four(center, j, d, d % 4 == 0);

		sum += square(lost_in_half((v.x - p.x) * scale)) +
			square(lost_in_half((v.y - p.y) * scale)) +
			square(lost_in_half((v.z - p.z) * scale)) +
			square(lost_in_half((v.w - p.w) * scale));
	}
	return sum;
}

/* Norm and rounding error of rows: LANES threads a row. */
template <int LANES> static __global__ void
bounds_kernel(const float *features, const float *center, int64_t rows, int d, int64_t sampled,
			  uint32_t *bounds, RowStatistics *statistics)
{
	int64_t		groups = (int64_t) gridDim.x * blockDim.x / LANES;
	int64_t		row = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / LANES;

	/* all lanes of a warp stay as long as one has a row */
	for (; row - threadIdx.x % 32 / LANES < rows; row += groups)
	{
		const float *x = features + min(row, rows - 1) * d;
		float		norm2 = sum_of_lanes<LANES>(part_of_norm<LANES, float>(x, center, d));
		float		norm = sqrtf(norm2);
		float		error;
		uint32_t	code;
		int			exponent;

		/* squares that a float may not have held; a warp decides together */
		if (!__all_sync(0xffffffffu, norm2 > 1e-28f && norm2 < 1e36f))
			norm = __double2float_ru(
				sqrt(sum_of_lanes<LANES>(part_of_norm<LANES, double>(x, center, d))));
		norm *= 1.0f + 1.0f / 512;
		code = code_up(norm);
		exponent = scale_of_norm(__uint_as_float(code << 16));
		error = sqrtf(sum_of_lanes<LANES>(
			part_of_error<LANES>(x, center, d, power_of_two(exponent))));
		/* the subtraction in float, and a scale that did not bring the norm where it should */
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
launch_bounds(Shard &shard, const Tile &tile)
{
	int64_t		blocks = (tile.rows * LANES + 255) / 256;
	int64_t		sampled = 1;		/* every so many rows, a power of two */

	while (sampled * 2048 < tile.rows)
		sampled *= 2;

	bounds_kernel<LANES><<<blocks_for(shard, blocks, 8), 256, 0, shard.device->compute>>>
		(tile.features, shard.center.get(), tile.rows, shard.dimension, sampled - 1,
		 shard.bounds.get() + tile.first, shard.row_statistics.get());
	GK_LAUNCHED("bounds_kernel");
}

/* Norm and rounding error of the rows of a tile. */
void
compute_bounds(Shard &shard, const Tile &tile)
{
	if (shard.dimension <= 8)
		launch_bounds<2>(shard, tile);
	else if (shard.dimension <= 32)
		launch_bounds<8>(shard, tile);
	else
		launch_bounds<32>(shard, tile);
}

/* The mean of a few rows, as a centre. */
static __global__ void
sample_kernel(const float *features, int64_t rows, int64_t step, int d, float *center)
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
	center[j] = (float) (sum / count);
}

/* Makes the mean of a few rows the centre, unless there is one. */
void
sample_center(Shard &shard)
{
	if (shard.center.get() != nullptr || shard.rows == 0)
		return;
	shard.row_statistics.reserve(shard, 1);
	shard.center.reserve(shard, shard.dimension);

	Tile		tile;

	try
	{
		tile = shard.start_tile(0, INT64_MAX / 2);
	}
	catch (...)
	{
		/* a centre that is there is taken for a good one */
		shard.center.release();
		throw;
	}

	sample_kernel<<<(shard.dimension + 127) / 128, 128, 0, shard.device->compute>>>
		(tile.features, tile.rows, tile.rows / 256 + 1, shard.dimension, shard.center.get());
	GK_LAUNCHED("sample_kernel");
	shard.finish_tile(tile, false);
	shard.bounds_valid = false;
}

/* Sets the centre that the filter takes off rows and points. */
void
set_center(Shard &shard, const double *center)
{
	std::vector<float> rounded(center, center + shard.dimension);

	for (float &value : rounded)
		if (!std::isfinite(value))
			value = 0.0f;
	shard.use();
	shard.center.reserve(shard, shard.dimension);
	shard.row_statistics.reserve(shard, 1);
	GK_CUDA(cudaMemcpyAsync, shard.center.get(), rounded.data(), rounded.size() * sizeof(float),
			cudaMemcpyHostToDevice, shard.device->compute);
	shard.bounds_valid = false;
	shard.centroids.prepared = shard.candidates.prepared = false;
}

/* Memory for so many points. */
void
reserve_points(Shard &shard, Points &points, int64_t count)
{
	points.count = count;
	points.padded = (count + 127) / 128 * 128;
	points.prepared = false;
	points.exact.reserve(shard, count * shard.dimension);
	points.rounded.reserve(shard, points.padded * pieces_of(shard.depth) * PIECE_COLUMNS);
	points.lower.reserve(shard, points.padded);
	points.slack.reserve(shard, points.padded);
	points.norm.reserve(shard, points.padded);
	points.error.reserve(shard, points.padded);
	points.scale.reserve(shard, 1);
}

/* The norms of the points: one warp a point. */
static __global__ void
norms_kernel(const double *exact, const float *center, int64_t count, int d, PointScale *scale)
{
	int			lane = threadIdx.x % 32;
	int64_t		point = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;
	double		norm2 = 0.0;

	if (point >= count)
		return;
	for (int j = lane; j < d; j += 32)
	{
		double		e = exact[point * d + j] - (double) center[j];

		norm2 += e * e;
	}
	norm2 = sum_of_lanes<32>(norm2);
	if (lane == 0)
		atomicMax(&scale->greatest_norm, (unsigned long long) __double_as_longlong(sqrt(norm2)));
}

/* Scaled 16-bit points, with norm and error of each: one warp a point. */
static __global__ void
round_kernel(const double *exact, const float *center, int64_t count, int64_t padded, int d,
			 int depth, double gamma, __half *rounded, float *norm, float *error, PointScale *scale)
{
	int			lane = threadIdx.x % 32;
	int64_t		point = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;
	double		greatest = __longlong_as_double((long long) scale->greatest_norm);
	int			exponent = greatest > 0.0 && greatest < 1e300 ? 14 - ilogb(greatest) : 0;
	double		factor;
	double		norm2 = 0.0;
	double		kept2 = 0.0;
	double		lost2 = 0.0;

	exponent = max(-126, min(126, exponent));
	factor = ldexp(1.0, exponent);
	if (point >= padded)
		return;
	for (int j = lane; j < pieces_of(depth) * PIECE_COLUMNS; j += 32)
	{
		double		e = 0.0;
		__half		kept;
		double		lost;

		if (point < count && j < d)
			e = (exact[point * d + j] - (double) center[j]) * factor;
		/* a point too far for 16 bits: kept without a value, so that every row looks at it */
		kept = fabs(e) < 60000.0 ? __double2half(e) : __float2half(0.0f);
		rounded[place_of_point(depth, point, j)] = kept;
		lost = e - (double) __half2float(kept);
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
		double		missed = (sqrt(lost2) + gamma * sqrt(kept2)) * (1.0 + 0x1p-40) +
			length * 0x1p-50;

		norm[point] = __double2float_ru(length);
		error[point] = __double2float_ru(missed);
		if (point == 0)
			scale->exponent = exponent;
		if (length > 0.0 && isfinite(length))
		{
			atomicAdd(&scale->norm_log, log2(length));
			atomicAdd(&scale->norm_count, 1);
			atomicAdd(&scale->error_log, log2(missed));
			atomicAdd(&scale->error_count, 1);
		}
	}
}

/* 2^x within the range of a float, and positive whatever x is. */
static __device__ double
safe_power(double x)
{
	return isfinite(x) ? exp2(fmax(-40.0, fmin(40.0, x))) : 1.0;
}

/* The lower bounds of |e|²/2 by the two splits. */
static __global__ void
lower_kernel(int64_t count, int64_t padded, int d, const float *norm, const float *error,
			 const RowStatistics *rows, PointScale *scale, float *lower, float *slack)
{
	int64_t		point = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	double		row_norm = rows->norm_log / rows->count + scale->exponent;
	double		row_error = rows->error_log / rows->count + scale->exponent;
	double		lambda = safe_power(scale->error_log / scale->error_count - row_norm);
	double		mu = safe_power(scale->norm_log / scale->norm_count - row_error);

	if (point == 0)
	{
		scale->lambda = __double2float_ru(lambda);
		scale->mu = __double2float_ru(mu);
	}
	if (point < count)
	{
		double		e = norm[point];
		double		q = error[point];
		double		half = e * e / 2;
		double		bound;

		/* the splits; rounding here and in the filter; that of d² itself in double */
		bound = half - q * q / (2 * lambda) - e * e / (2 * mu) - half * 0x1p-21 -
			e * e * d * 0x1p-50;
		lower[point] = bound > -3.0e38 && bound < 3.0e38 ? __double2float_rd(bound) : -3.0e38f;
		slack[point] = __double2float_ru(half - (double) lower[point] + half * 0x1p-21);
	}
	else if (point < padded)
	{
		lower[point] = 3.0e38f;
		slack[point] = 0.0f;
	}
}

/* What bounds the accumulation of a sum of products of this depth, over the norms. */
static double
accumulation_bound(const Shard &shard)
{
	/* sm_90 keeps guard bits (measured at most depth / 8); older ones truncate in shorter steps */
	double		factor = shard.device->major >= 9 ? 1.0 : shard.device->major == 8 ? 1.5 : 4.0;

	return (factor * (shard.depth + 16) + 8) * 0x1p-24;
}

/* Makes points ready for the filter. */
void
prepare_points(Shard &shard, Points &points)
{
	cudaStream_t stream = shard.device->compute;
	int			d = shard.dimension;

	if (points.prepared)
		return;
	shard.use();
	GK_CUDA(cudaMemsetAsync, points.scale.get(), 0, sizeof(PointScale), stream);
	norms_kernel<<<(points.count + 7) / 8, 256, 0, stream>>>
		(points.exact.get(), shard.center.get(), points.count, d, points.scale.get());
	round_kernel<<<(points.padded + 7) / 8, 256, 0, stream>>>
		(points.exact.get(), shard.center.get(), points.count, points.padded, d, shard.depth,
		 accumulation_bound(shard), points.rounded.get(), points.norm.get(), points.error.get(),
		 points.scale.get());
	lower_kernel<<<(points.padded + 255) / 256, 256, 0, stream>>>
		(points.count, points.padded, d, points.norm.get(), points.error.get(),
		 shard.row_statistics.get(), points.scale.get(), points.lower.get(), points.slack.get());
	GK_LAUNCHED("prepare_points");
	points.prepared = true;
}

}								/* namespace gk */
