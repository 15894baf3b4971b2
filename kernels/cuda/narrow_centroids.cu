/*
 * Packs few centroids of few features as narrow_kernel wants them.
 */
#include "narrow_pack.cuh"

namespace gk
{

/* Packs centroids for narrow_kernel: one block. */
static __global__ void
__launch_bounds__(PACK_THREADS)
pack_kernel(const double *exact, const float *origin, int count, int padded, int d,
			double whole_norm, float *packed)
{
	pack_block(exact, origin, count, padded, d, whole_norm, packed);
}

/* Allocates memory for packed centroids. */
void
reserve_narrow(Shard &shard, Centroids &centroids)
{
	NarrowShape shape = narrow_shape(shard.dimension, (int) centroids.count);

	centroids.packed.reserve(shard, narrow_layout(shape.parts, shape.padded).total);
}

/* Packs centroids. */
void
pack_centroids(Shard &shard, Centroids &centroids)
{
	NarrowShape shape = narrow_shape(shard.dimension, (int) centroids.count);

	shard.use();
	pack_kernel<<<1, PACK_THREADS, 0, shard.device->compute>>>
		(centroids.exact.get(), shard.origin.get(), (int) centroids.count, shape.padded,
		 shard.dimension, shard.whole_norm, centroids.packed.get());
	GK_LAUNCHED("pack_kernel");
}

}								/* namespace gk */
