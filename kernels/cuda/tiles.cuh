/*
 * What the filters whose rows and centroids both pass through shared memory have in common: tiles
 * of a block's rows times tiles of PANEL centroids.
 */
#ifndef GK_TILES_CUH
#define GK_TILES_CUH

#include "wgmma.cuh"

namespace gk
{

#define BLOCK_ROWS 128			/* of a block of 256 threads */

/* Copies 16 bytes from global to shared memory, asynchronously if the device can. */
static __device__ __forceinline__ void
copy_16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(to)), "l"(from));
#else
	*(uint4 *) to = *(const uint4 *) from;
#endif
}

/* Commits the copies since the last group as a group. */
static __device__ __forceinline__ void
copy_commit()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;");
#endif
}

/* Waits until at most N groups of copies are in flight. */
template <int N> static __device__ __forceinline__ void
copy_wait()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" :: "n"(N));
#endif
}

#ifdef HAS_WGMMA

/* Multiplies a tile of rows and PANEL centroids, `steps` × 16 deep. */
template <int PANEL> static __device__ __forceinline__ void
multiply_tiles(float (&sums)[PANEL / 8][4], const __half *rows, const __half *centroids,
			   int steps, bool first)
{
	multiply_tile(sums, describe(rows + threadIdx.x / 128 * 64 * TILE_COLUMNS),
				  describe(centroids), steps, first);
	wait_products<0>();
}

#else

/* Four 8×8 matrices from shared memory. */
static __device__ __forceinline__ void
load_matrices(uint32_t *to, const __half *from)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
				 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(from)));
}

/* Between stores and these products, a barrier is enough. */
static __device__ __forceinline__ void
publish_stores()
{
}

/* Multiplies a tile of rows and PANEL centroids, `steps` × 16 deep. */
template <int PANEL> static __device__ __forceinline__ void
multiply_tiles(float (&sums)[PANEL / 8][4], const __half *rows, const __half *centroids,
			   int steps, bool first)
{
	int			lane = threadIdx.x % 32;
	int			row = threadIdx.x / 32 * 16 + (lane & 15);
	int			centroid = (lane & 7) + ((lane >> 4) << 3);

	if (first)
#pragma unroll
		for (int n = 0; n < PANEL / 8; n++)
			sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
#pragma unroll
	for (int step = 0; step < TILE_COLUMNS / 16; step++)
	{
		uint32_t	a[4];

		if (step >= steps)
			break;
		load_matrices(a, rows + place_of(row, step * 2 + (lane >> 4)));
#pragma unroll
		for (int n = 0; n < PANEL / 16; n++)
		{
			uint32_t	b[4];

			load_matrices(b, centroids + place_of(n * 16 + centroid, step * 2 + ((lane >> 3) & 1)));
			multiply(sums[n * 2], a, b);
			multiply(sums[n * 2 + 1], a, b + 2);
		}
	}
}

#endif

}								/* namespace gk */

#endif							/* GK_TILES_CUH */
