/*
 * The filter: new labels of a slice by 16-bit products in the tensor cores, and by the definition
 * where these do not decide.
 */
#ifndef GK_FILTER_H
#define GK_FILTER_H

#include "shard.h"

namespace gk
{

/* A label that the centroids of a region have not decided, or have yet to decide. */
#define GK_LEFT (-3)
#define GK_PENDING (-2)

/* The arguments of the filter's kernels. */
struct FilterArguments
{
	/* `labelled`: the rows' labels are of these centroids */
	FilterArguments(const Shard &shard, const Slice &slice, const Centroids &centroids,
					bool labelled);

	const float *features;
	const float *origin;
	const uint32_t *bounds;
	int64_t		rows;
	int			d;
	int			depth;

	const double *exact;		/* count × d */
	const __half *centroids;
	const float *lower;
	const float *slack;
	const float *norm;
	const float *error;
	const CentroidScale *scale;
	const __half *sorted;		/* for filter_hopper: tiles in the order of lower bounds, … */
	const float *sorted_lower;
	const int32_t *numbers;		/* … and the numbers of these centroids */
	int			count;			/* of centroids */

	const int32_t *row_list;	/* the rows to compare, for filter_generic; NULL = all */
	const uint32_t *row_count;	/* of the list */
	bool		approximate;	/* any near centroid will do: no row is flagged */
	const int32_t *labels;		/* the previous labels, NULL if they do not help */
	const double *distances;	/* d² up to which centroids matter, for filter_hopper; NULL: all */
	int32_t    *fresh;
	uint32_t   *flag_count;		/* rows that are not decided … */
	int32_t    *flag_rows;		/* … their numbers in the slice … */
	float	   *flag_limits;	/* … and the scores up to which a centroid can be nearest */
	uint32_t   *pair_count;		/* rows that have their fresh label or one other centroid: … */
	int32_t    *pair_rows;		/* … their numbers, backwards from here, where flag_rows ends … */
	int32_t    *pair_others;	/* … and the other centroids, likewise, where flag_limits does */
};

/* True if narrow.cu compares rows with so many centroids, without the filter. */
bool		suits_narrow(const Shard &shard, int64_t centroids);

/* True if filter_hopper.cu compares rows with so many centroids. */
bool		suits_hopper(const Shard &shard, int64_t centroids);

/* Allocates memory for slices of this many rows. */
void		reserve_filter(Shard &shard, int64_t slice_rows);

/* Frees it if it is for slices more than twice as large. */
void		release_filter(Shard &shard, int64_t slice_rows);

/*
 * How many numbers flag_counts has, all 0 when the filter begins: of flagged rows, of pairs, of
 * what flagged.cu counts, and of rows of each label, for sum_slice().
 */
int64_t		flag_counters(const Shard &shard);

/* The last of these. */
uint32_t   *label_counts(const Shard &shard);

/* Rows of a full wave: all multiprocessors at a time; 1 if that does not matter. */
int64_t		filter_wave(const Shard &shard, int64_t centroids);

/* About how long a row takes. */
double		filter_seconds(const Shard &shard, int64_t centroids);

/* Finds the regions of a slice's rows. */
void		place_slice(Shard &shard, const Slice &slice);

/* Fresh labels of a slice: begin_filter() enqueues what takes longest, end_filter() the rest. */
void		begin_filter(Shard &shard, const Slice &slice, const Centroids &centroids,
						 bool labelled);
void		end_filter(Shard &shard, const Slice &slice, const Centroids &centroids,
					   bool labelled);

/* Both. */
void		filter_slice(Shard &shard, const Slice &slice, const Centroids &centroids,
						 bool labelled);

/*
 * The same where only centroids matter that are nearer to a row than its distance2 says; if none
 * is, its label is any.
 */
void		filter_nearer(Shard &shard, const Slice &slice, const Centroids &centroids);

}								/* namespace gk */

#endif							/* GK_FILTER_H */
