/*
 * The launchers: each enqueues work on a shard's compute stream and returns.
 */
#ifndef GK_LAUNCH_H
#define GK_LAUNCH_H

#include "shard.h"

namespace gk
{

/* centroids.cu: norms and rounding errors for the filter */
void		reserve_centroids(Shard &shard, Centroids &centroids, int64_t count);
void		prepare_centroids(Shard &shard, Centroids &centroids);
void		bound_centroids(Shard &shard, Centroids &centroids);
void		set_origin(Shard &shard, const double *origin, double whole_norm);
void		sample_origin(Shard &shard);
void		compute_bounds(Shard &shard, const Slice &slice);

/* sorted.cu: centroids in the order of their lower bounds */
void		reserve_sorting(Shard &shard, Centroids &centroids);
void		sort_centroids(Shard &shard, const Centroids &centroids);

/* filter_*.cu: fresh labels of all rows of a slice, or flags */
struct FilterArguments;
bool		filter_resident_fits(const Shard &shard, int64_t centroids);
void		filter_resident(Shard &shard, const FilterArguments &a);
bool		filter_hopper_fits(const Shard &shard, int64_t centroids);
int64_t		filter_hopper_wave(const Shard &shard);
void		filter_hopper(Shard &shard, const FilterArguments &a);
bool		filter_wide_suits(const Shard &shard);
int64_t		filter_wide_wave(const Shard &shard);
void		filter_wide(Shard &shard, const FilterArguments &a);
int64_t		filter_generic_wave(const Shard &shard);
void		filter_generic(Shard &shard, const FilterArguments &a);

/* regions.cu: regions of centroids */
struct FilterArguments;
struct Sample
{
	float	   *rows;			/* count × d */
	int			count;
	uint16_t   *regions;		/* count: the nearest seed */
	float	   *nearest2;		/* count: d² to it, later to its region's origin */
	unsigned long long *farthest;	/* of each seed: bits of d², and number; first, their count */
	unsigned long long *offers;		/* SEED_OFFERS rows that can be seeds next, likewise */
	float	   *between;		/* SEED_OFFERS²: d² between these */
};
#define SEED_OFFERS 256
struct Gap
{
	uint32_t	nearest;		/* the bits of d² to the nearest row not equal to it, inverted */
	float		sum2;			/* Σ d² to all */
};
void		take_sample(Shard &shard, const Slice &slice, const Sample &sample);
void		measure_gaps(Shard &shard, const Sample &sample, Gap *gaps, int count);
void		find_nearest_seeds(Shard &shard, const Sample &sample, int from, int to);
void		pick_seeds(Shard &shard, const Sample &sample, int count, int most);
void		set_region_origins(Shard &shard, const Sample &sample);
void		measure_regions(Shard &shard);
void		sample_reaches(Shard &shard, const Sample &sample);
void		list_regions(Shard &shard, bool tight);

/* filter_regions.cu: fresh labels of a slice from its regions, or GK_LEFT */
size_t		region_place_count(int regions);
int64_t		region_tile_count(int64_t rows, int regions);
bool		filter_regions_fits(const Shard &shard);
void		keep_regions(Shard &shard, const Slice &slice);
void		order_rows(Shard &shard, const Slice &slice, const FilterArguments &a);
void		filter_regions(Shard &shard, const FilterArguments &a);
void		decide_listed(Shard &shard, const FilterArguments &a);
void		list_left(Shard &shard, const FilterArguments &a);
uint32_t   *left_count(const Shard &shard);

/* flagged.cu: labels of the flagged rows, by the definition; `centroids` as they are */
#define BLOCK_ROWS 128			/* of a block */
int64_t		flagged_blocks(const Shard &shard);
void		decide_flagged(Shard &shard, const FilterArguments &a);
void		decide_pairs(Shard &shard, const FilterArguments &a);

/* How tensor cores get rows: from a warp, or of a warpgroup in shared memory or in registers. */
enum Products
{
	BY_WARPS,
	BY_WARPGROUPS,
	BY_REGISTERS
};

/* products.cu: true if there are kernels of warpgroups for a device, which is current */
bool		has_warpgroups(const Device &device);

/*
 * Products of pairs of 16-bit rows and centroids, as the tensor cores make them; false if no filter
 * makes them so on this device.  Multiples of 16 columns and 64 pairs.
 */
bool		multiply_pairs(const Device &device, const uint16_t *a, const uint16_t *b, int depth,
						   int64_t pairs, Products by, float *products);

/*
 * narrow.cu: few centroids of few features.  narrow_step() replaces the labels of a slice by new
 * ones and updates the sums; narrow_labels() makes fresh labels, all of them decided.
 */
struct Grid;
bool		narrow_fits(const Shard &shard, int64_t centroids);
double		narrow_seconds(const Shard &shard, int64_t centroids);
void		reserve_narrow(Shard &shard, Centroids &centroids);
void		pack_centroids(Shard &shard, Centroids &centroids);
void		narrow_labels(Shard &shard, const Slice &slice, const Centroids &centroids);
void		narrow_step(Shard &shard, const Slice &slice, const Centroids &centroids,
						const Grid &grid, bool all);

/* exact.cu: by the definition */
enum DistanceUse
{
	USE_DISTANCES,
	USE_ASSIGN,
	USE_CANDIDATES
};
void		label_distances(Shard &shard, const Slice &slice, const Centroids &centroids,
							DistanceUse use, int64_t first_label, bool forget);
void		load_distances();
void		potentials_slice(Shard &shard, const Slice &slice, const double *trials, int count,
							 double scale, int64_t *sums);
struct Separation
{
	const double *at;			/* the points, row-major */
	const int64_t *ends;		/* of the groups of points */
	int64_t		points;
	int64_t		groups;
	bool		single;			/* each group is one point: roots can wait for the least */
	bool		cosine;
};
void		separation_slice(Shard &shard, const float *features, int64_t rows,
							 const Separation &separation, const int32_t *labels, double *own,
							 double *other);

/*
 * neighbours.cu: keys of the nearest neighbours of points among each other, GK_NEIGHBOUR_COUNT for
 * each that is wanted, in each of some shares of the points: shares × wanted lists; with room for
 * neighbour_room() values, which are to be prepared
 */
#define NEIGHBOUR_TILE 64		/* points of a tile */
int			neighbour_shares(const Shard &shard, int64_t wanted);
int64_t		neighbour_room(const Shard &shard, int64_t count, int64_t wanted);
void		prepare_neighbours(Shard &shard, const float *points, int64_t count, float *room);
void		find_neighbours(Shard &shard, const float *points, int64_t count, float *room,
							int64_t first, int64_t wanted, int shares, uint64_t *lists);

/* neighbour_products.cu: the same of many points, but for tiles that have too many near others */
bool		near_points_suit(const Shard &shard, int64_t count);
int64_t		near_points_room(const Shard &shard, int64_t count, int64_t wanted);
void		prepare_near_points(Shard &shard, const float *points, int64_t count,
								const float *origin, const float *greatest, float *room);
const int  *find_near_points(Shard &shard, const float *points, int64_t count, float *room,
							 int64_t first, int64_t wanted, uint64_t *lists);

/* merges.cu: rounds of unions */
struct MergeState;
struct Clusters
{
	int64_t		count;
	int64_t		wanted;			/* unions */
	int			d;
	bool		spherical;
	float	   *means;			/* count × d */
	double	   *weights;
	uint64_t   *lists;			/* count × GK_NEIGHBOUR_COUNT: keys of unions, the least first */
	uint64_t   *best;			/* count: the first union that a cluster can have */
	int32_t    *parts;			/* count: which one became a part of it in this round; -1 = none */
	int32_t    *into;			/* count, as all below: of the command */
	int32_t    *rounds;
	float	   *costs;
	MergeState *state;
};
uint64_t	merge_state_bytes();
void		price_unions(Shard &shard, const Clusters &clusters, int64_t first, int64_t wanted,
						 int shares, const uint64_t *neighbours);
void		begin_merging(Shard &shard, const Clusters &clusters);
void		merge_rounds(Shard &shard, const Clusters &clusters, int rounds);
const int  *merging_has_ended(const Clusters &clusters);

/* sums.cu: fixed-point sums of rows */
struct Grid
{
	bool		wide;
	int			rest_bits;
};
int64_t		listed_labels(const Shard &shard, int64_t k);
void		sum_slice(Shard &shard, const Slice &slice, const Grid &grid, int64_t k, bool all);
void		square_slice(Shard &shard, const Slice &slice, const double *scales, double rest_scale);
void		move_rows(Shard &shard, const Grid &grid, int64_t k, int64_t *sums, int64_t count,
					  const float *features, const double *weights, const int32_t *labels,
					  const int64_t *clusters, int sign);

/* update.cu: centroids from sums */
void		load_finish();
void		report_counters(Shard &shard, Counters *place);
struct StepEnd
{
	bool		spherical;
	bool		even_if_empty;		/* new centroids even if clusters are empty */
	double		tolerance;			/* a shift within it sets shard.resting; 0: nothing does */
};
bool		finish_step(Shard &shard, const Grid &grid, const int64_t *sums, const StepEnd &end,
						Counters *place);
void		end_narrow_step(Shard &shard, const Grid &grid, const int64_t *sums, const StepEnd &end,
							Counters *place);
void		mark_empty(Shard &shard, const Grid &grid, const int64_t *sums, int64_t k,
					   uint8_t *is_empty);

/* passes.cu: whole-data passes */
void		range_slice(Shard &shard, const Slice &slice, uint32_t *least, uint32_t *greatest,
						unsigned long long *weight_bits, unsigned long long *fractions);
struct MomentGrid
{
	const double *pivot;
	const double *first_scales;
	const double *second_scales;
	double		weight_scale;
	double		rest_scale;
};
void		moments_slice(Shard &shard, const Slice &slice, const MomentGrid &grid, int64_t *sums);
void		transform_slice(Shard &shard, const Slice &slice, const double *offset,
							const double *factor, bool normalize);
struct StatisticsGrid
{
	double		weight_scale;
	double		inertia_scale;
	double		distance_scale;
	double		rest_scale;
};
void		statistics_slice(Shard &shard, const Slice &slice, const StatisticsGrid &grid,
							 int64_t *sums);
void		label_weights_slice(Shard &shard, const Slice &slice, const Grid &grid, int64_t *sums);

/* rows.cu: hashes, masses and lists of rows */
struct Mass
{
	bool		distance;			/* times d² */
	double		scale;
};
/* the condition for listing a row */
struct Wanted
{
	Mass		mass;
	const uint8_t *buckets;			/* lists rows with mass > 0 in these buckets; NULL: by key */
	int			bits;
	uint64_t	key;				/* bits of d² at least … */
	uint64_t	hash_limit;			/* … and, if equal, at most this hash */
	bool		only_equal;			/* d² == key and hash == hash_limit */
};
struct Listed
{
	int64_t		row;				/* in the shard */
	uint64_t	hash;
	int64_t		mass;
	double		distance2;
};
void		hash_slice(Shard &shard, const Slice &slice);
void		masses_slice(Shard &shard, const Slice &slice, const Mass &mass, int bits,
						 int64_t *buckets);
void		list_slice(Shard &shard, const Slice &slice, const Wanted &wanted, Listed *list,
					   uint64_t capacity);
template <typename T> void gather_rows(Shard &shard, const T *values, int width,
									   const int64_t *rows, int64_t count, T *to);
/* counts rows by the bits from number `shift` up to those that are known to be `prefix` */
#define DIGIT_BITS 12
#define DIGIT_VALUES (1 << DIGIT_BITS)
struct Digit
{
	bool		of_hash;			/* of the hash, or else of d² without its sign … */
	uint64_t	distance;			/* … of rows with d² of these bits */
	uint64_t	prefix;
	int			known;				/* the number of the last bit of the prefix; 64 = none */
	int			shift;
};
void		histogram_slice(Shard &shard, const Slice &slice, const Digit &digit,
							unsigned long long *counts);
void		load_lists();

/* a row of a shard, and the number of the other row */
struct RowPair
{
	int64_t		row;
	int64_t		other;
};
void		compare_pairs(Shard &shard, const RowPair *pairs, int64_t count, const float *others,
						  const double *other_weights, int8_t *order);

/* The number of blocks for this many units of work. */
static inline int
blocks_for(const Shard &shard, int64_t units, int per_processor)
{
	int64_t		most = (int64_t) shard.device->processors * per_processor;

	return (int) (units < 1 ? 1 : units < most ? units : most);
}

}								/* namespace gk */

#endif							/* GK_LAUNCH_H */
