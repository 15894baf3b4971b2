/*
 * The launchers: each enqueues work on a shard's compute stream and returns.
 */
#ifndef GK_KERNELS_CUH
#define GK_KERNELS_CUH

#include "shard.cuh"

namespace gk
{

/* A fresh label that the exact pass is still to decide. */
#define GK_PENDING (-2)

/* points.cu: what the filter knows of points and rows */
void		reserve_points(Shard &shard, Points &points, int64_t count);
void		prepare_points(Shard &shard, Points &points);
void		set_center(Shard &shard, const double *center);
void		sample_center(Shard &shard);
void		compute_bounds(Shard &shard, const Tile &tile);

/* filter.cu: fresh labels by 16-bit products, and the rows these can't decide */
void		reserve_filter(Shard &shard, int64_t tile_rows);
void		release_filter(Shard &shard, int64_t tile_rows);
int64_t		filter_wave(const Shard &shard, int64_t points);
void		filter_tile(Shard &shard, const Tile &tile, const Points &points, bool labelled);
double		filter_seconds(const Shard &shard, int64_t points);

/* exact.cu: by the definition */
void		decide_flagged(Shard &shard, const Tile &tile, const Points &points);
enum DistanceUse
{
	USE_DISTANCES,
	USE_ASSIGN,
	USE_CANDIDATES
};
void		label_distances(Shard &shard, const Tile &tile, const Points &points, DistanceUse use,
							int64_t first_label, bool forget);
void		potentials_tile(Shard &shard, const Tile &tile, const double *trials, int count,
							double scale, int64_t *sums);

/* update.cu: fixed-point sums and centroids */
struct Grid
{
	bool		wide;
	int			rest_bits;
};
void		sum_tile(Shard &shard, const Tile &tile, const Grid &grid, int64_t k, bool all);
void		add_totals(Shard &shard, int64_t count);
void		move_rows(Shard &shard, const Grid &grid, int64_t k, int64_t *sums, int64_t count,
					  const float *features, const double *weights, const int32_t *labels,
					  const int64_t *clusters, int sign);
void		finish_step(Shard &shard, const Grid &grid, int64_t *sums, bool spherical,
						bool even_if_empty);
void		mark_empty(Shard &shard, const Grid &grid, const int64_t *sums, int64_t k,
					   uint8_t *is_empty);

/* passes.cu: whole-data passes */
void		range_tile(Shard &shard, const Tile &tile, uint32_t *least, uint32_t *greatest,
					   unsigned long long *weight_bits);
struct MomentGrid
{
	const double *pivot;
	const double *first_scales;
	const double *second_scales;
	double		weight_scale;
	double		rest_scale;
};
void		moments_tile(Shard &shard, const Tile &tile, const MomentGrid &grid, int64_t *sums);
void		transform_tile(Shard &shard, const Tile &tile, const double *offset,
						   const double *factor, bool normalize);
struct StatisticsGrid
{
	double		weight_scale;
	double		inertia_scale;
	double		distance_scale;
	double		rest_scale;
};
void		statistics_tile(Shard &shard, const Tile &tile, const StatisticsGrid &grid,
							int64_t *sums);
void		label_weights_tile(Shard &shard, const Tile &tile, const Grid &grid, int64_t *sums);

/* rows.cu: hashes, masses and lists of rows */
struct Mass
{
	bool		distance;			/* times d² */
	double		scale;
};
/* what a row must be to be listed */
struct Wanted
{
	Mass		mass;
	const uint8_t *buckets;			/* by mass > 0 and bucket; NULL: by key */
	int			bits;
	uint64_t	key;				/* bits of d² at least … */
	uint64_t	hash_limit;			/* … and at most this hash where they are equal */
	bool		only_equal;			/* d² == key and hash == hash_limit */
};
struct Listed
{
	int64_t		row;				/* in the shard */
	uint64_t	hash;
	int64_t		mass;
	double		distance2;
};
void		masses_tile(Shard &shard, const Tile &tile, const Mass &mass, int bits,
						int64_t *buckets);
void		list_tile(Shard &shard, const Tile &tile, const Wanted &wanted, Listed *list,
					  uint64_t capacity);
template <typename T> void gather_rows(Shard &shard, const T *values, int width,
									   const int64_t *rows, int64_t count, T *to);
/* counts rows by the 16 bits below those that are known, of d² or (with_hash) of the hash */
void		histogram_tile(Shard &shard, const Tile &tile, bool with_hash, uint64_t known_distance,
						   uint64_t prefix, int shift, unsigned long long *counts);

/* The power of two that brings a norm to 2^14 .. 2^15. */
static __device__ __forceinline__ int
scale_of_norm(float norm)
{
	int			exponent = 14 - (int) ((__float_as_uint(norm) >> 23) & 255) + 127;

	return max(-126, min(126, exponent));
}

/* Blocks for so many units of work. */
static inline int
blocks_for(const Shard &shard, int64_t units, int per_processor)
{
	int64_t		most = (int64_t) shard.device->processors * per_processor;

	return (int) (units < 1 ? 1 : units < most ? units : most);
}

}								/* namespace gk */

#endif							/* GK_KERNELS_CUH */
