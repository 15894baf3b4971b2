/*
 * Regions: rows that lie near each other, with an origin of their own.
 *
 * A row is compared with the centroids of its region's list alone, which are those nearest to the
 * origin.  What is left out is farther from the origin than `reach`, which proves for most rows of
 * clustered data that it is not nearest; the other rows are compared with all centroids.  Near its
 * own origin the filter leaves fewer rows in doubt, too (docs/filter.md).
 */
#ifndef GK_REGIONS_H
#define GK_REGIONS_H

#include "shard.h"

namespace gk
{

/* Lists begin at multiples of this many centroids. */
#define LIST_STEP 8

/* Classes of reaches that rows need, a sixteenth of an octave each. */
#define REACHES 512

/* The most regions. */
#define MOST_REGIONS 1024

/* If centroids have moved, and if so, if finish_step() has measured them for the regions. */
enum class Moved
{
	NO,
	YES,
	MEASURED
};

/*
 * Chooses regions for new centroids, or lists their centroids anew if these have moved; without
 * regions, a row takes about `seconds`.
 */
void		prepare_regions(Shard &shard, int64_t slice_rows, double seconds, Moved moved);

/* Keeps the regions for so many new centroids if they suit; otherwise forgets them. */
void		reuse_regions(Shard &shard, int64_t centroids);

/* Takes into account what a pass over all rows has shown: regions end if they do not pay. */
void		judge_regions(Shard &shard);

/* True if a test wants regions wherever they are possible. */
bool		regions_are_forced();

/* True if rows are compared with the centroids of a region. */
bool		has_regions(const Shard &shard, const Centroids &centroids);

}								/* namespace gk */

#endif							/* GK_REGIONS_H */
