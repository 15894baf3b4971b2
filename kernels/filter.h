/*
 * The filter: fresh labels of a slice by 16-bit products in the tensor cores, and the candidates
 * of the rows that these don't decide.
 */
#ifndef GK_FILTER_H
#define GK_FILTER_H

#include "shard.h"

namespace gk
{

#define FILTER_CANDIDATES 32		/* of a flagged row that are listed */

/* A fresh label that the exact pass is still to decide. */
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

	const int32_t *labels;		/* what the labels were, NULL if that is no help */
	int32_t    *fresh;
	uint32_t   *flag_count;
	uint32_t   *open_count;		/* of rows that only all centroids can decide */
	uint32_t	flag_capacity;
	int64_t    *flag_rows;
	float	   *flag_limits;
	uint32_t   *candidate_counts;
	int32_t    *candidates;
};

/* Memory for slices of so many rows. */
void		reserve_filter(Shard &shard, int64_t slice_rows);

/* Frees it where it is for slices more than twice as large as these. */
void		release_filter(Shard &shard, int64_t slice_rows);

/* Rows that all processors compare at a time, 1 where that makes no difference. */
int64_t		filter_wave(const Shard &shard, int64_t centroids);

/* About how long a row takes. */
double		filter_seconds(const Shard &shard, int64_t centroids);

/* Fresh labels of a slice, GK_PENDING where the filter can't decide. */
void		filter_slice(Shard &shard, const Slice &slice, const Centroids &centroids,
						 bool labelled);

}								/* namespace gk */

#endif							/* GK_FILTER_H */
