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
