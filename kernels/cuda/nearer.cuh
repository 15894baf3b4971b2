/*
 * The nearer of two centroids.
 */
#ifndef GK_NEARER_CUH
#define GK_NEARER_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include <cstdint>

namespace gk
{

/* Takes a centroid if it is nearer; of equals, the one with the lowest number; INT32_MAX = none. */
static __device__ __forceinline__ void
take_nearer(double its, int its_centroid, double *best, int *centroid)
{
	if (its_centroid != INT32_MAX &&
		(*centroid == INT32_MAX || its < *best || (its == *best && its_centroid < *centroid)))
	{
		*best = its;
		*centroid = its_centroid;
	}
}

}								/* namespace gk */

#endif							/* GK_NEARER_CUH */
