/*
 * Hashes and masses of rows.
 */
#ifndef GK_HASHES_CUH
#define GK_HASHES_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "exact.h"
#include "launch.h"
#include "warp.cuh"

namespace gk
{

/* Rows whose hashes and masses are asked for. */
struct RowArguments
{
	const float *features;
	const double *weights;
	const double *distance2;
	int64_t		rows;
	int64_t		first;			/* the slice's first row in the shard */
	int			d;
	int			width;			/* lanes on a row */
	uint32_t   *hash_heads;		/* NULL: none */
	bool		heads_valid;
};

RowArguments row_arguments(Shard &shard, const Slice &slice);

/* The part of a row's hash that one of `width` lanes computes. */
static __device__ __forceinline__ uint64_t
terms_of_hash(const float *x, int d, int lane, int width)
{
	uint64_t	terms = 0;

	for (int j = lane * 2; j < d; j += width * 2)
	{
		uint32_t	even = __float_as_uint(x[j]);
		uint32_t	odd = j + 1 < d ? __float_as_uint(x[j + 1]) : 0;

		terms += gk_hash_term(even, odd, j / 2);
	}
	return terms;
}

/*
 * The hash of row first + lane, for each lane; `width` lanes (a power of two) share the work on
 * a row.
 */
static __device__ uint64_t
hash_rows(const float *features, const double *weights, int64_t first, int64_t rows, int d,
		  int width)
{
	int			lane = threadIdx.x % 32;
	int			at_once = 32 / width;
	uint64_t	mine = 0;
	uint64_t	weight_bits = 0;

	for (int turn = 0; turn < width; turn++)
	{
		int64_t		row = first + turn * at_once + lane / width;
		uint64_t	terms =
			row < rows ? terms_of_hash(features + row * d, d, lane % width, width) : 0;

		for (int other = width / 2; other > 0; other /= 2)
			terms += __shfl_xor_sync(0xffffffffu, terms, other);
		terms = __shfl_sync(0xffffffffu, terms, lane % at_once * width);
		if (lane / at_once == turn)
			mine = terms;
	}
	if (weights != nullptr && first + lane < rows)
		weight_bits = (uint64_t) __double_as_longlong(weights[first + lane]);
	return gk_hash_finish(mine, weight_bits);
}

/* The quantised mass of a row. */
static __device__ int64_t
mass_of(const RowArguments &a, const Mass &mass, int64_t row)
{
	double		value = a.weights != nullptr ? a.weights[row] : 1.0;

	if (mass.distance)
		value = GK_MUL(value, a.distance2[row]);
	return gk_quantize(value, mass.scale);
}

/* The leading 32 bits of the hash of row first + lane, for each lane; kept if there is room. */
static __device__ __forceinline__ uint64_t
head_of_hash(const RowArguments &a, int64_t first)
{
	int64_t		row = first + threadIdx.x % 32;
	uint32_t	head;

	if (a.heads_valid)
		return row < a.rows ? (uint64_t) a.hash_heads[row] << 32 : 0;
	head = (uint32_t) (hash_rows(a.features, a.weights, first, a.rows, a.d, a.width) >> 32);
	if (a.hash_heads != nullptr && row < a.rows)
		a.hash_heads[row] = head;
	return (uint64_t) head << 32;
}

/* The hashes of the rows first + lane that are wanted: of all rows, if they are many. */
static __device__ __forceinline__ uint64_t
hash_wanted(const RowArguments &a, int64_t first, unsigned wanted)
{
	int			lane = threadIdx.x % 32;
	uint64_t	mine = 0;
	uint64_t	weight_bits = 0;

	if (__popc(wanted) >= a.width)
		return hash_rows(a.features, a.weights, first, a.rows, a.d, a.width);
	if (a.weights != nullptr && (wanted >> lane & 1))
		weight_bits = (uint64_t) __double_as_longlong(a.weights[first + lane]);
	for (; wanted != 0; wanted &= wanted - 1)
	{
		int			which = __ffs((int) wanted) - 1;
		uint64_t	terms = sum_of_lanes<32>(
			terms_of_hash(a.features + (first + which) * a.d, a.d, lane, 32));

		mine = lane == which ? terms : mine;
	}
	return gk_hash_finish(mine, weight_bits);
}

}								/* namespace gk */

#endif							/* GK_HASHES_CUH */
