/*
 * What the kernels of the filter share: their arguments, what they know of a row, and the bound
 * that decides or flags it (points.cu has the proof).
 */
#ifndef GK_FILTER_CUH
#define GK_FILTER_CUH

#include "kernels.cuh"

namespace gk
{

#define FILTER_CANDIDATES 32		/* of a flagged row that are listed */
#define NO_SCORE 3.2e38f

/*
 * Points in 16 bits lie in pieces of 128 points × 64 columns, one after the other in shared memory
 * and outside; the eight 16-byte parts of a row of 64 columns are in an order that depends on the
 * row: what wgmma calls the 128-byte swizzle.  Rows lie in shared memory in the same way.
 */
#define PIECE_POINTS 128
#define PIECE_COLUMNS 64

/* Rows of a block of filter_tiles.cu. */
#define FILTER_ROWS 128

/* Pieces side by side. */
static __host__ __device__ __forceinline__ int
pieces_of(int depth)
{
	return (depth + PIECE_COLUMNS - 1) / PIECE_COLUMNS;
}

struct FilterArguments
{
	const float *features;
	const float *center;
	const uint32_t *bounds;
	int64_t		rows;
	int			d;
	int			depth;

	const __half *points;
	const float *lower;
	const float *slack;
	const float *norm;
	const float *error;
	const PointScale *scale;
	int			count;			/* of points */

	const int32_t *labels;		/* what the labels were, NULL if that is no help */
	int32_t    *fresh;
	uint32_t   *flag_count;
	uint32_t   *open_count;		/* of rows that only all points can decide */
	uint32_t	flag_capacity;
	int64_t    *flag_rows;
	float	   *flag_limits;
	uint32_t   *candidate_counts;
	int32_t    *candidates;
};

/* Fresh labels of all rows of a tile, or flags: one file each. */
bool		filter_hopper_fits(const Shard &shard, int64_t points);
int64_t		filter_hopper_wave(const Shard &shard);
void		filter_hopper(Shard &shard, const FilterArguments &a);
bool		filter_resident_fits(const Shard &shard, int64_t points);
void		filter_resident(Shard &shard, const FilterArguments &a);
void		filter_tiles(Shard &shard, const FilterArguments &a);

/* The candidates of the flagged rows. */
void		list_tiles(Shard &shard, const FilterArguments &a);

#ifdef __CUDACC__

/* An address in shared memory, as instructions take it. */
static __device__ __forceinline__ uint32_t
shared_address(const void *at)
{
	return (uint32_t) __cvta_generic_to_shared(at);
}

/* Where the part of 8 values of a row lies in a piece. */
static __device__ __forceinline__ int
place_of(int row, int part)
{
	return row * PIECE_COLUMNS + (part ^ (row & 7)) * 8;
}

/* Where the value of a point lies. */
static __device__ __forceinline__ int64_t
place_of_point(int depth, int64_t point, int column)
{
	return (point / PIECE_POINTS * pieces_of(depth) + column / PIECE_COLUMNS) *
		(PIECE_POINTS * PIECE_COLUMNS) +
		place_of((int) (point % PIECE_POINTS), column % PIECE_COLUMNS / 8) + column % 8;
}

/* What a thread knows of a row: least, second, which. */
struct Best
{
	float		least;
	float		second;
	int			point;
};

/* Joins what two threads know of a row. */
static __device__ __forceinline__ void
join(Best *best, float least, float second, int point)
{
	best->second = fminf(fminf(best->second, second), fmaxf(best->least, least));
	if (least < best->least)
		best->point = point;
	best->least = fminf(best->least, least);
}

/* Joins what the four threads of a row know. */
static __device__ __forceinline__ void
join_four(Best *best)
{
#pragma unroll
	for (int other = 1; other < 4; other *= 2)
		join(best, __shfl_xor_sync(0xffffffffu, best->least, other),
			 __shfl_xor_sync(0xffffffffu, best->second, other),
			 __shfl_xor_sync(0xffffffffu, best->point, other));
}

/* What is known of a row before it is compared, in the scale of the points. */
struct RowBound
{
	float		norm;
	float		error;
	float		factor;			/* the row is multiplied by it … */
	float		back;			/* … and minus products by this; NaN = can't be decided */
};

/* 2^exponent as a float, -126 <= exponent <= 127. */
static __device__ __forceinline__ float
power_of_two(int exponent)
{
	return __int_as_float((exponent + 127) << 23);
}

/* Reads the bound of a row from its code. */
static __device__ __forceinline__ RowBound
read_bound(uint32_t code, int point_exponent)
{
	float		norm = __uint_as_float(code & 0xffff0000u);
	int			exponent = scale_of_norm(norm);
	int			difference = point_exponent - exponent;
	bool		usable = norm == 0.0f || (difference >= -60 && difference <= 60);
	float		unit = power_of_two(point_exponent);
	RowBound	bound;

	bound.norm = norm * unit;
	bound.error = __uint_as_float(code << 16) * unit;
	bound.factor = norm == 0.0f ? 0.0f : power_of_two(exponent);
	bound.back = !usable ? __int_as_float(0x7fc00000) :
		norm == 0.0f ? 0.0f : -power_of_two(difference);
	return bound;
}

/* How much a row's part of the bound is. */
static __device__ __forceinline__ float
row_part(const FilterArguments &a, float norm, float error)
{
	return a.scale->lambda * norm * norm * 0.5f + a.scale->mu * error * error * 0.5f +
		norm * norm * ((float) a.d * 0x1p-50f);
}

/* How much the point's own is, from what is known of the point. */
static __device__ __forceinline__ float
own_part(float norm, float error, float point_slack, float point_norm, float point_error)
{
	return point_slack + error * point_norm + norm * point_error;
}

/* The score up to which a point can be nearest, if `least` is that of one with these parts. */
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

/* sum + the products of eight values of a row and a point. */
static __device__ __forceinline__ float
add_products(const uint4 &row, const uint4 &point, float sum)
{
	const __half2 *left = (const __half2 *) &row;
	const __half2 *right = (const __half2 *) &point;

#pragma unroll
	for (int j = 0; j < 4; j++)
	{
		float2		u = __half22float2(left[j]);
		float2		v = __half22float2(right[j]);

		sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
	}
	return sum;
}

/*
 * A score above which no point can be nearest, from the score of one with these parts that was made
 * outside of the tensor cores.
 */
static __device__ __forceinline__ float
first_limit(float score, float own, float part)
{
	return score + 1.0625f * (own + part) + fabsf(score) * 0x1p-16f;
}

/* Counts one more for each thread that is here; the thread's own number. */
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

/* Labels a row, or flags it; `limit` is the score up to which a point can be nearest. */
static __device__ __forceinline__ void
conclude(const FilterArguments &a, int64_t row, const Best &best, float limit, float back)
{
	bool		usable = isfinite(back) && isfinite(limit);
	bool		sure = usable && best.second > limit;

	a.fresh[row] = sure ? best.point : GK_PENDING;
	if (usable && !sure)
	{
		uint32_t	place = take_number(a.flag_count);

		if (place < a.flag_capacity)
		{
			a.flag_rows[place] = row;
			a.flag_limits[place] = limit;
			a.candidate_counts[place] = 0;
		}
	}
	/* not a number, or infinite: nothing is known */
	if (!usable)
		atomicAdd(a.open_count, 1u);
}

/* Four features of a row, minus the centre, times the row's factor, as 16-bit. */
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

#endif							/* __CUDACC__ */

}								/* namespace gk */

#endif							/* GK_FILTER_CUH */
