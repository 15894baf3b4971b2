/*
 * A ring of stages in shared memory, which a producer fills by asynchronous copies and consumers
 * read: barriers, copies and positions.
 */
#ifndef GK_RING_CUH
#define GK_RING_CUH

#include "wgmma.cuh"

/* Threads for which one arrival at the end of a stage counts. */
#ifdef ARRIVE_BY_LANE
#define LANES_OF_ARRIVAL 1
#else
#define LANES_OF_ARRIVAL 32
#endif

#ifdef HAS_WGMMA

namespace gk
{

namespace ptx = cuda::ptx;

/*
 * Signals that a warp has read its part of a stage.  One lane arrives for all, which is correct
 * after __syncwarp(); racecheck only tracks the reads of each lane, so build with
 * -DARRIVE_BY_LANE for it.
 */
static __device__ __forceinline__ void
arrive_warp(uint64_t *barrier)
{
	__syncwarp();
	if (threadIdx.x % LANES_OF_ARRIVAL == 0)
		(void) ptx::mbarrier_arrive(barrier);
}

/* Waits until the phase of this parity is over. */
static __device__ __forceinline__ void
wait_barrier(uint64_t *barrier, uint32_t parity)
{
	while (!ptx::mbarrier_try_wait_parity(barrier, parity))
		;
}

/* Announces so many bytes of copies that the barrier counts. */
static __device__ __forceinline__ void
expect_bytes(uint64_t *barrier, uint32_t bytes)
{
	(void) ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared,
										  barrier, bytes);
}

/* Starts a copy to shared memory that the barrier counts. */
static __device__ __forceinline__ void
copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
	ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to, from, bytes, barrier);
}

/* The position of the producer or a consumer in the ring. */
struct Ring
{
	int			stage;
	uint32_t	parity;

	__device__ __forceinline__ void step(int stages)
	{
		if (++stage == stages)
		{
			stage = 0;
			parity ^= 1;
		}
	}
};

}								/* namespace gk */

#endif							/* HAS_WGMMA */

#endif							/* GK_RING_CUH */
