/*
 * Vectors rounded to 16 bits, and what that loses.
 */
#ifndef GK_ROUNDING_CUH
#define GK_ROUNDING_CUH

#include "filter.cuh"
#include "warp.cuh"

namespace gk
{

/* Squares of norms. */
struct Rounded
{
	double		norm2;			/* of the values */
	double		kept2;			/* of what they are in 16 bits */
	double		lost2;			/* of the difference */
};

/*
 * Rounds the columns of a vector, with those that pad it, by a warp: value_at(j) is column j,
 * *place_at(j) where it goes.  The squares are in all lanes.
 */
template <typename F, typename G> static __device__ __forceinline__ Rounded
round_columns(int depth, F value_at, G place_at)
{
	Rounded		all = {0.0, 0.0, 0.0};

	for (int j = threadIdx.x % 32; j < tiles_of(depth) * TILE_COLUMNS; j += 32)
	{
		double		value = value_at(j);
		/* out of range of 16 bits: gets no value, and all of it is lost */
		__half		kept = fabs(value) < 60000.0 ? __double2half(value) : __float2half(0.0f);
		double		lost = value - (double) __half2float(kept);

		*place_at(j) = kept;
		all.norm2 += value * value;
		all.kept2 += (double) __half2float(kept) * (double) __half2float(kept);
		all.lost2 += lost * lost;
	}
	return {sum_of_lanes<32>(all.norm2), sum_of_lanes<32>(all.kept2), sum_of_lanes<32>(all.lost2)};
}

}								/* namespace gk */

#endif							/* GK_ROUNDING_CUH */
