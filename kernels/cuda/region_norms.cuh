/*
 * How far centroids are from the origins of regions: upper bounds of their norms there.
 */
#ifndef GK_REGION_NORMS_CUH
#define GK_REGION_NORMS_CUH

#include "exact_tile.cuh"
#include "shard.h"

namespace gk
{

/* Centroids and regions of a block; it has 256 threads. */
#define NORM_WIDTH 64
#define NORM_REGIONS 8

/* All centroids and all origins. */
struct NormArguments
{
	explicit NormArguments(const Shard &shard)
		: origins(shard.regions.origins), regions(shard.regions.count),
		  exact(shard.centroids.exact.get()), count(shard.centroids.count), d(shard.dimension),
		  norms(shard.regions.norms)
	{
	}

	__host__ __device__ int64_t widths() const { return (count + NORM_WIDTH - 1) / NORM_WIDTH; }

	/* How many blocks do it. */
	__host__ int64_t blocks() const
	{
		return widths() * ((regions + NORM_REGIONS - 1) / NORM_REGIONS);
	}

	const float *origins;
	int			regions;
	const double *exact;
	int64_t		count;
	int			d;
	float	   *norms;
};

/* The part of a block. */
static __device__ __forceinline__ void
measure_norms(const NormArguments &a, int64_t block)
{
	constexpr int EACH = NORM_REGIONS * NORM_WIDTH / 256;
	__shared__ ExactTile<NORM_WIDTH, EACH> tile;
	__shared__ int64_t places[NORM_REGIONS];
	int64_t		first = block % a.widths() * NORM_WIDTH;
	int			region = (int) (block / a.widths()) * NORM_REGIONS;
	int64_t		c = first + threadIdx.x % NORM_WIDTH;
	double		sums[EACH];

	if (threadIdx.x < NORM_REGIONS)
		places[threadIdx.x] =
			region + (int) threadIdx.x < a.regions ? region + (int) threadIdx.x : -1;
	__syncthreads();
	tile.run(a.origins, places, a.exact, first, a.count, a.d, sums);
#pragma unroll
	for (int i = 0; i < EACH; i++)
	{
		int			r = region + (int) threadIdx.x / NORM_WIDTH * EACH + i;

		if (r < a.regions && c < a.count)
			a.norms[(int64_t) r * a.count + c] =
				__double2float_ru(sqrt(sums[i]) * (1.0 + 0x1p-36));
	}
}

}								/* namespace gk */

#endif							/* GK_REGION_NORMS_CUH */
