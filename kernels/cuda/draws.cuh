/*
 * The steps of a draw: what a thread or a warp does for a point or a row.
 */
#ifndef GK_DRAWS_CUH
#define GK_DRAWS_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "draws.h"
#include "exact.h"
#include "random.h"

namespace gk
{

/* The sum of the values of the block's threads before this one, and that of all. */
template <int THREADS, typename T> static __device__ T
sum_before(T mine, T *all)
{
	__shared__ T warps[THREADS / 32];
	int			lane = threadIdx.x % 32;
	T			sum = mine;
	T			before = 0;

	for (int step = 1; step < 32; step *= 2)
	{
		T			other = __shfl_up_sync(0xffffffffu, sum, step);

		sum += lane >= step ? other : 0;
	}
	if (lane == 31)
		warps[threadIdx.x / 32] = sum;
	__syncthreads();
	*all = 0;
	for (int w = 0; w < THREADS / 32; w++)
	{
		before += w < (int) threadIdx.x / 32 ? warps[w] : 0;
		*all += warps[w];
	}
	__syncthreads();
	return before + sum - mine;
}

/* The bucket that contains a point of the line. */
static __device__ __forceinline__ int64_t
bucket_of_point(const Draw &s, int64_t point)
{
	int64_t		low = 0;
	int64_t		high = INT64_C(1) << s.bits;

	/* the last one that does not begin behind the point: those before it without mass are empty */
	while (high - low > 1)
	{
		int64_t		middle = low + (high - low) / 2;

		if (s.begins[middle] <= point)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Draws a point, and marks its bucket. */
static __device__ __forceinline__ void
draw_point(const Draw &s, int64_t i, int64_t total)
{
	int64_t		point = (int64_t) gk_random_below((uint64_t) total, s.seed, s.start, s.round,
												  (uint64_t) i);
	int64_t		bucket = bucket_of_point(s, point);

	s.points[i] = {bucket, point - s.begins[bucket]};
	s.wanted[bucket] = 1;
}

/* Chains a listed row by its bucket. */
static __device__ __forceinline__ void
chain_row(const Draw &s, int64_t i)
{
	s.is_drawn[i] = 0;
	s.next[i] = atomicExch(&s.chains[gk_hash_bucket(s.list[i].hash, s.bits)],
						   (int32_t) i + 1) - 1;
}

/* True if two rows have the same bits. */
static __device__ bool
are_equal(const Draw &s, int64_t row, int64_t other)
{
	bool		equal = s.weights == nullptr ||
		__double_as_longlong(s.weights[row]) == __double_as_longlong(s.weights[other]);

	for (int j = 0; equal && j < s.d; j++)
		equal = __float_as_uint(s.features[row * s.d + j]) ==
			__float_as_uint(s.features[other * s.d + j]);
	return equal;
}

/* The rows of a chain, one a lane of a warp, -1 in the others; false if there are more. */
static __device__ bool
spread_chain(const Draw &s, int32_t chain, int32_t *mine)
{
	*mine = -1;
	for (int i = 0; i < 32 && chain >= 0; i++)
	{
		if ((int) threadIdx.x % 32 == i)
			*mine = chain;
		chain = s.next[chain];
	}
	return chain < 0;
}

/* True in the lane of the first of the equal rows of a chain that contain a point of its bucket. */
static __device__ bool
contains(int32_t mine, const Listed &one, int64_t point)
{
	int64_t		begin = 0;
	int64_t		mass = 0;
	bool		is_first = mine >= 0;

	for (int i = 0; i < 32 && __shfl_sync(0xffffffffu, mine, i) >= 0; i++)
	{
		uint64_t	hash = __shfl_sync(0xffffffffu, one.hash, i);
		int64_t		its = __shfl_sync(0xffffffffu, one.mass, i);
		int64_t		row = __shfl_sync(0xffffffffu, one.row, i);

		begin += hash < one.hash ? its : 0;
		mass += hash == one.hash ? its : 0;
		is_first = is_first && (hash != one.hash || one.row <= row);
	}
	return is_first && point >= begin && point < begin + mass;
}

/* True if all rows of a chain with the hash of that of a lane have its bits. */
static __device__ bool
is_one_of_equals(const Draw &s, int32_t mine, const Listed &one, int lane)
{
	uint64_t	hash = __shfl_sync(0xffffffffu, one.hash, lane);
	int64_t		row = __shfl_sync(0xffffffffu, one.row, lane);

	return __all_sync(0xffffffffu, mine < 0 || one.hash != hash || one.row == row ||
					  are_equal(s, one.row, row));
}

/* Marks the row that contains a point; false if it cannot tell which one does.  A warp does it. */
static __device__ bool
mark_row(const Draw &s, const DrawnPoint &point)
{
	int32_t		mine;
	Listed		one = {};
	unsigned	lanes;
	int			lane;

	if (!spread_chain(s, s.chains[point.bucket] - 1, &mine))
		return false;
	if (mine >= 0)
		one = s.list[mine];
	lanes = __ballot_sync(0xffffffffu, contains(mine, one, point.rest));
	lane = __ffs((int) lanes) - 1;
	if (lane < 0 || !is_one_of_equals(s, mine, one, lane))
		return false;
	if ((int) threadIdx.x % 32 == lane && atomicExch(&s.is_drawn[mine], 1) == 0)
		atomicAdd(&s.drawn[point.bucket], 1);
	return true;
}

/* How many drawn rows of its chain come before a row. */
static __device__ int
drawn_before(const Draw &s, int32_t chain, uint64_t hash)
{
	int			before = 0;

	for (int32_t at = chain; at >= 0; at = s.next[at])
		before += s.is_drawn[at] && s.list[at].hash < hash;
	return before;
}

/* Writes the number of a listed row, if it is drawn, at its place in the order of the line. */
static __device__ __forceinline__ void
place_drawn(const Draw &s, int64_t i)
{
	int64_t		bucket = (int64_t) gk_hash_bucket(s.list[i].hash, s.bits);

	if (s.is_drawn[i])
		s.rows[s.drawn[bucket] + drawn_before(s, s.chains[bucket] - 1, s.list[i].hash)] =
			s.list[i].row;
}

}								/* namespace gk */

#endif							/* GK_DRAWS_CUH */
