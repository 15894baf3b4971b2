/*
 * Shared by the kernels of the filter: the layout of 16-bit values in shared memory, the best
 * scores of a row, and the bound that decides or flags it (docs/filter.md has the proof).
 */
#ifndef GK_FILTER_CUH
#define GK_FILTER_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include <cuda_fp16.h>

#include "filter.h"
#include "launch.h"

namespace gk
{

#define NO_SCORE 3.2e38f

/*
 * 16-bit operands lie in tiles of 64 columns of some rows or of 128 centroids, one tile after
 * the other, in shared and global memory.  The eight 16-byte parts of a row of a tile are
 * permuted depending on the row: wgmma's 128-byte swizzle.
 */
#define TILE_CENTROIDS 128
#define TILE_COLUMNS 64

/* Tiles side by side. */
static __host__ __device__ __forceinline__ int
tiles_of(int depth)
{
	return (depth + TILE_COLUMNS - 1) / TILE_COLUMNS;
}

/* An address in shared memory, as PTX instructions take it. */
static __device__ __forceinline__ uint32_t
shared_address(const void *at)
{
	return (uint32_t) __cvta_generic_to_shared(at);
}

/* The position in a tile of a part of 8 values of a row. */
static __device__ __forceinline__ int
place_of(int row, int part)
{
	return row * TILE_COLUMNS + (part ^ (row & 7)) * 8;
}

/* The position of a value of a centroid. */
static __device__ __forceinline__ int64_t
place_of_centroid(int depth, int64_t centroid, int column)
{
	return (centroid / TILE_CENTROIDS * tiles_of(depth) + column / TILE_COLUMNS) *
		(TILE_CENTROIDS * TILE_COLUMNS) +
		place_of((int) (centroid % TILE_CENTROIDS), column % TILE_COLUMNS / 8) + column % 8;
}

/* The two least scores of a row that a thread has seen, and the centroid of the least. */
struct Best
{
	float		least;
	float		second;
	int			centroid;
};

/* Merges a score into a row's best two. */
static __device__ __forceinline__ void
take_score(Best *best, float score, int centroid)
{
	best->second = fminf(best->second, fmaxf(best->least, score));
	if (score < best->least)
		best->centroid = centroid;
	best->least = fminf(best->least, score);
}

/* Merges the best two of a row from two threads; FIRST: of equal scores, the first centroid's. */
template <bool FIRST = false> static __device__ __forceinline__ void
join(Best *best, float least, float second, int centroid)
{
	best->second = fminf(fminf(best->second, second), fmaxf(best->least, least));
	if (least < best->least || (FIRST && least == best->least && centroid < best->centroid))
		best->centroid = centroid;
	best->least = fminf(best->least, least);
}

/* Merges the best two of a row from its four threads. */
template <bool FIRST = false> static __device__ __forceinline__ void
join_four(Best *best)
{
#pragma unroll
	for (int other = 1; other < 4; other *= 2)
		join<FIRST>(best, __shfl_xor_sync(0xffffffffu, best->least, other),
					__shfl_xor_sync(0xffffffffu, best->second, other),
					__shfl_xor_sync(0xffffffffu, best->centroid, other));
}

/* The scores that are not below this one are of no use. */
static __device__ __forceinline__ float
bar_of(const Best &best)
{
	return best.second;
}

/* The least scores of a row that a thread has seen, and the centroids of two of them. */
struct BestThree : Best
{
	float		third;			/* or less: others that it leaves out are not below */
	int			other;			/* the centroid of the second */
};

static __device__ __forceinline__ float
bar_of(const BestThree &best)
{
	return best.third;
}

#define NOTHING_SEEN BestThree{{NO_SCORE, NO_SCORE, 0}, NO_SCORE, 0}

/* Merges a score into a row's best three. */
static __device__ __forceinline__ void
take_score(BestThree *best, float score, int centroid)
{
	best->third = fminf(best->third, fmaxf(best->second, score));
	if (score < best->second)
		best->other = score < best->least ? best->centroid : centroid;
	take_score((Best *) best, score, centroid);
}

/* Merges the best three of a row that another thread sends for its own. */
static __device__ __forceinline__ void
join_other(BestThree *best, const BestThree &sent, int other)
{
	const BestThree its = {
		{__shfl_xor_sync(0xffffffffu, sent.least, other),
		 __shfl_xor_sync(0xffffffffu, sent.second, other),
		 __shfl_xor_sync(0xffffffffu, sent.centroid, other)},
		__shfl_xor_sync(0xffffffffu, sent.third, other),
		__shfl_xor_sync(0xffffffffu, sent.other, other)
	};

	take_score(best, its.least, its.centroid);
	take_score(best, its.second, its.other);
	best->third = fminf(best->third, its.third);
}

/* Merges the best three of a row from its four threads. */
static __device__ __forceinline__ void
join_four(BestThree *best)
{
	join_other(best, *best, 1);
	join_other(best, *best, 2);
}

/* The least of the values of the four threads of a row. */
static __device__ __forceinline__ float
least_of_four(float value)
{
	value = fminf(value, __shfl_xor_sync(0xffffffffu, value, 1));
	return fminf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/* The greatest norm of a centroid, in their scale. */
static __device__ __forceinline__ float
greatest_norm_of(const CentroidScale &scale)
{
	return __double2float_ru(ldexp(__longlong_as_double((long long) scale.greatest_norm),
								   scale.exponent));
}

/* Bounds of a row, in the scale of the centroids, and its own scale. */
struct RowBound
{
	float		norm;
	float		error;
	float		factor;			/* the row is multiplied by it … */
	float		back;			/* … and negated products by this; NaN = undecidable */
};

/* The power of two that brings a norm to 2^14 .. 2^15. */
static __device__ __forceinline__ int
scale_of_norm(float norm)
{
	int			exponent = 14 - (int) ((__float_as_uint(norm) >> 23) & 255) + 127;

	return max(-126, min(126, exponent));
}

/* 2^exponent as a float, -126 <= exponent <= 127. */
static __device__ __forceinline__ float
power_of_two(int exponent)
{
	return __int_as_float((exponent + 127) << 23);
}

/* Reads the bound of a row from its code. */
static __device__ __forceinline__ RowBound
read_bound(uint32_t code, int centroid_exponent)
{
	float		norm = __uint_as_float(code & 0xffff0000u);
	int			exponent = scale_of_norm(norm);
	int			difference = centroid_exponent - exponent;
	bool		usable = norm == 0.0f || (difference >= -60 && difference <= 60);
	float		unit = power_of_two(centroid_exponent);
	RowBound	bound;

	bound.norm = norm * unit;
	bound.error = __uint_as_float(code << 16) * unit;
	bound.factor = norm == 0.0f ? 0.0f : power_of_two(exponent);
	bound.back = !usable ? __int_as_float(0x7fc00000) :
		norm == 0.0f ? 0.0f : -power_of_two(difference);
	return bound;
}

/* The row's part of the bound. */
static __device__ __forceinline__ float
row_part(const FilterArguments &a, float norm, float error)
{
	return a.scale->lambda * norm * norm * 0.5f + a.scale->mu * error * error * 0.5f +
		norm * norm * ((float) a.d * 0x1p-50f);
}

/* The centroid's part, from its norm and rounding error. */
static __device__ __forceinline__ float
own_part(float norm, float error, float centroid_slack, float centroid_norm, float centroid_error)
{
	return centroid_slack + error * centroid_norm + norm * centroid_error;
}

/* The score up to which a centroid can be nearest, if one with these parts has score `least`. */
static __device__ __forceinline__ float
limit_of(float least, float own, float part)
{
	return least + own + part + (fabsf(least) + own + part) * 0x1p-19f;
}

/* sum += a × b, 16 × 8 × 16. */
static __device__ __forceinline__ void
multiply(float *sum, const uint32_t *a, const uint32_t *b)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
				 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
	for (int i = 0; i < 2; i++)
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
					 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
					 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
					 : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}

/* Upper bound on the winning score, from one score computed outside the tensor cores. */
static __device__ __forceinline__ float
first_limit(float score, float own, float part)
{
	/* never 0: scores up to it count only if they are below it */
	return score + 1.0625f * (own + part) + fabsf(score) * 0x1p-16f + 0x1p-140f;
}

/* Adds one for each participating thread; returns the thread's own number. */
static __device__ __forceinline__ uint32_t
take_number(uint32_t *count)
{
	unsigned	here = __activemask();
	int			leader = __ffs(here) - 1;
	uint32_t	first = 0;

	if ((int) (threadIdx.x % 32) == leader)
		first = atomicAdd(count, (uint32_t) __popc(here));
	return __shfl_sync(here, first, leader) + __popc(here & ((1u << threadIdx.x % 32) - 1));
}

/* True if a row's limit means something. */
static __device__ __forceinline__ bool
is_usable(float limit, float back)
{
	return isfinite(back) && isfinite(limit);
}

/* Labels a row, or flags it; `limit` is the score up to which a centroid can be nearest. */
static __device__ __forceinline__ void
conclude(const FilterArguments &a, int64_t row, const Best &best, float limit, float back)
{
	bool		usable = is_usable(limit, back);

	/* a row without scores may have a centroid that only pads the last tile */
	a.fresh[row] = min(best.centroid, a.count - 1);
	if (!a.approximate && (!usable || !(best.second > limit)))
	{
		uint32_t	place = take_number(a.flag_count);

		a.flag_rows[place] = (int32_t) row;
		a.flag_limits[place] = usable ? limit : INFINITY;
	}
}

/* The same, but lists a row that has but two candidates as a pair. */
static __device__ __forceinline__ void
conclude(const FilterArguments &a, int64_t row, const BestThree &best, float limit, float back)
{
	const Best	two = {best.least, fminf(best.second, best.third), best.centroid};

	if (a.approximate || !isfinite(back) || !isfinite(limit) || two.second > limit ||
		!(best.third > limit) || max(best.centroid, best.other) >= a.count)
		conclude(a, row, two, limit, back);
	else
	{
		uint32_t	place = take_number(a.pair_count);

		a.fresh[row] = best.centroid;
		a.pair_rows[-1 - (int64_t) place] = (int32_t) row;
		a.pair_others[-1 - (int64_t) place] = best.other;
	}
}

/* Prefetches rows into the L2 cache; called by THREADS consecutive threads. */
template <int THREADS> static __device__ __forceinline__ void
prefetch_rows(const FilterArguments &a, int64_t first, int rows)
{
	const char *from = (const char *) (a.features + first * a.d);
	int			bytes = first < a.rows ?
		(int) min((int64_t) rows, a.rows - first) * a.d * (int) sizeof(float) : 0;

	for (int at = threadIdx.x % THREADS * 128; at < bytes; at += THREADS * 128)
		asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at));
}

/* x². */
template <typename T> static __device__ __forceinline__ T
square(T x)
{
	return x * x;
}

/* The error of rounding a value to 16 bits. */
static __device__ __forceinline__ float
lost_in_half(float y)
{
	return y - __half2float(__float2half_rn(y));
}

/* A positive float rounded up to 16 bits. */
static __device__ __forceinline__ uint32_t
code_up(float value)
{
	return value > 1.7e38f ? 0x7f80 : (__float_as_uint(value) + 0xffff) >> 16;
}

/* Four features of a row, minus the origin, times the row's factor, as 16-bit. */
static __device__ __forceinline__ uint2
convert(float4 x, float4 p, float factor)
{
	__half2		low = __floats2half2_rn((x.x - p.x) * factor, (x.y - p.y) * factor);
	__half2		high = __floats2half2_rn((x.z - p.z) * factor, (x.w - p.w) * factor);
	uint2		both;

	both.x = *(uint32_t *) &low;
	both.y = *(uint32_t *) &high;
	return both;
}

/* Four values of a row from column j on; 0 past the end. */
static __device__ __forceinline__ float4
read_four(const float *row, int j, int d, bool aligned)
{
	float4		x = make_float4(0, 0, 0, 0);

	if (aligned)
	{
		if (j < d)
			x = __ldg((const float4 *) (row + j));
		return x;
	}
	if (j < d)
		x.x = __ldg(row + j);
	if (j + 1 < d)
		x.y = __ldg(row + j + 1);
	if (j + 2 < d)
		x.z = __ldg(row + j + 2);
	if (j + 3 < d)
		x.w = __ldg(row + j + 3);
	return x;
}

}								/* namespace gk */

#endif							/* GK_FILTER_CUH */
