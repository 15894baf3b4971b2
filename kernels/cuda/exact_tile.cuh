/*
 * d² by the definition between some rows and some centroids, by the threads of a block.
 */
#ifndef GK_EXACT_TILE_CUH
#define GK_EXACT_TILE_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include <cstdint>

#include "exact.h"

namespace gk
{

#define STEP 32					/* features of a stage in shared memory */

/*
 * d² between EACH rows and one centroid in each thread, CENTROIDS × (256 / CENTROIDS) × EACH in
 * all.  `rows` holds the positions of the rows; all threads of a block must take part.
 */
template <int CENTROIDS, int EACH = 4> struct ExactTile
{
	static constexpr int ROWS = 256 / CENTROIDS * EACH;

	float		x[ROWS][STEP + 1];
	double		c[CENTROIDS][STEP + 1];

	/* rows[i] < 0: no row */
	__device__ void run(const float *features, const int64_t *rows, const double *centroids,
						int64_t first_centroid, int64_t count, int d, double sums[EACH])
	{
		int			p = threadIdx.x % CENTROIDS;
		int			group = threadIdx.x / CENTROIDS;

		for (int i = 0; i < EACH; i++)
			sums[i] = 0.0;
		for (int from = 0; from < d; from += STEP)
		{
			int			width = min(STEP, d - from);

			__syncthreads();
			for (int e = threadIdx.x; e < ROWS * STEP; e += 256)
			{
				int			r = e / STEP;
				int			j = e % STEP;

				x[r][j] = rows[r] >= 0 && j < width ? features[rows[r] * d + from + j] : 0.0f;
			}
			for (int e = threadIdx.x; e < CENTROIDS * STEP; e += 256)
			{
				int			q = e / STEP;
				int			j = e % STEP;

				c[q][j] = first_centroid + q < count && j < width ?
					centroids[(first_centroid + q) * d + from + j] : 0.0;
			}
			__syncthreads();
#pragma unroll 4
			for (int j = 0; j < width; j++)
				for (int i = 0; i < EACH; i++)
					sums[i] = gk_add_square(sums[i], x[group * EACH + i][j], c[p][j]);
		}
	}
};

}								/* namespace gk */

#endif							/* GK_EXACT_TILE_CUH */
