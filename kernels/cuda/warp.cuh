/*
 * Reductions over the lanes of a warp.
 */
#ifndef GK_WARP_CUH
#define GK_WARP_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

namespace gk
{

/* The sum over LANES lanes STRIDE apart, in all of them. */
template <int LANES, int STRIDE = 1, typename T> static __device__ __forceinline__ T
sum_of_lanes(T value)
{
#pragma unroll
	for (int other = LANES / 2; other > 0; other /= 2)
		value += __shfl_xor_sync(0xffffffffu, value, other * STRIDE);
	return value;
}

/* The greatest value of a warp, in all lanes. */
static __device__ __forceinline__ double
greatest_of_warp(double value)
{
#pragma unroll
	for (int other = 16; other > 0; other /= 2)
		value = fmax(value, __shfl_xor_sync(0xffffffffu, value, other));
	return value;
}

}								/* namespace gk */

#endif							/* GK_WARP_CUH */
