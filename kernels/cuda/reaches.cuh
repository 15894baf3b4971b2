/*
 * Classes of reaches: how far the list of a region should extend, as its rows have it.
 */
#ifndef GK_REACHES_CUH
#define GK_REACHES_CUH

#include "filter.cuh"
#include "regions.h"

namespace gk
{

/* The bits of the least reach of the first class, in the scale of all origins: 2^-14. */
#define FIRST_REACH ((127 - 14) << 4)

/* The class of a reach, in that scale. */
static __device__ __forceinline__ int
class_of_reach(float reach)
{
	return max(0, min((int) (__float_as_uint(reach) >> 19) - FIRST_REACH, REACHES - 1));
}

/* The greatest reach of a class. */
static __device__ __forceinline__ float
reach_of_class(int its)
{
	return __uint_as_float((uint32_t) (its + FIRST_REACH + 1) << 19);
}

/* 2^exponent, or what is nearest to it. */
static __device__ __forceinline__ float
rough_power_of_two(int exponent)
{
	return power_of_two(max(-126, min(126, exponent)));
}

}								/* namespace gk */

#endif							/* GK_REACHES_CUH */
