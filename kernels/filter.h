/*
 * The filter: new labels of a slice by 16-bit products in the tensor cores, and candidates for
 * the rows that these do not decide.
 */
#ifndef GK_FILTER_H
#define GK_FILTER_H

#include "shard.h"

namespace gk
{

#define FILTER_CANDIDATES 32		/* of a flagged row that are listed */

/* A label that the exact pass has yet to decide. */
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

	const __half *centroids;
	const float *lower;
	const float *slack;
	const float *norm;
	const float *error;
	const CentroidScale *scale;
	int			count;			/* of centroids */

	const int32_t *labels;		/* the previous labels, NULL if they do not help */
	int32_t    *fresh;
	uint32_t   *flag_count;
	uint32_t   *open_count;		/* of rows without a list of candidates */
	uint32_t	flag_capacity;
	int64_t    *flag_rows;
	float	   *flag_limits;
	uint32_t   *candidate_counts;
	int32_t    *candidates;
};

/* Allocates memory for slices of this many rows, compared with this many centroids. */
void		reserve_filter(Shard &shard, int64_t slice_rows, int64_t centroids);

/* Frees it if it is for slices more than twice as large. */
void		release_filter(Shard &shard, int64_t slice_rows);

/* Rows of a full wave: all multiprocessors at a time; 1 if that does not matter. */
int64_t		filter_wave(const Shard &shard, int64_t centroids);

/* About how long a row takes. */
double		filter_seconds(const Shard &shard, int64_t centroids);

/* Fresh labels of a slice; `labelled`: its labels are of these centroids. */
void		label_slice(Shard &shard, const Slice &slice, const Centroids &centroids,
						bool labelled);

}								/* namespace gk */

#endif							/* GK_FILTER_H */
