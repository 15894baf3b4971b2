/*
 * Adding to fixed-point sums in shared and global memory.
 */
#ifndef GK_SUMS_CUH
#define GK_SUMS_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include <stdint.h>

namespace gk
{

/* The bits of 1.5 × 2^52: doubles near it are 1 apart, so adding it to a value rounds that. */
#define ROUNDED_ZERO UINT64_C(0x4338000000000000)

/* gk_quantize() + ROUNDED_ZERO: the product is exact, for scale is a power of two. */
static __device__ __forceinline__ uint64_t
rounded_bits(double value, double scale)
{
	return (uint64_t) __double_as_longlong(__fma_rn(value, scale, 0x1.8p52));
}

/* gk_quantize() without the slow conversion to an integer. */
static __device__ __forceinline__ int64_t
quantize(double value, double scale)
{
	return (int64_t) (rounded_bits(value, scale) - ROUNDED_ZERO);
}

/* What quantize() rounds away: quantize(rest_of(value, scale), rest_scale) is the second limb. */
static __device__ __forceinline__ double
rest_of(double value, double scale)
{
	return __fma_rn(value, scale, -__dsub_rn(__fma_rn(value, scale, 0x1.8p52), 0x1.8p52));
}

/* to += value; in shared memory, which has no 64-bit atomic add, by two 32-bit ones. */
static __device__ __forceinline__ void
add_shared(int64_t *to, int64_t value)
{
	uint32_t   *halves = (uint32_t *) to;
	uint32_t	low = (uint32_t) value;
	uint32_t	high = (uint32_t) ((uint64_t) value >> 32);
	uint32_t	before = atomicAdd(&halves[0], low);

	high += before + low < low;
	if (high != 0)
		atomicAdd(&halves[1], high);
}

/* to += value, in shared or global memory. */
template <bool SHARED> static __device__ __forceinline__ void
add_sum(int64_t *to, int64_t value)
{
	if (SHARED)
		add_shared(to, value);
	else
		atomicAdd((unsigned long long *) to, (unsigned long long) value);
}

}								/* namespace gk */

#endif							/* GK_SUMS_CUH */
