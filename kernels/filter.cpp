/*
 * The filter: the choice of the kernel, and its memory.
 *
 * For each row it finds the least and second least of lower - y·e over all centroids.  If their
 * gap exceeds the filter's error bound (docs/filter.md), the row has its label.  The other rows
 * are flagged, and flagged.cu decides them.
 */
#include <algorithm>

#include "cuda/launch.h"
#include "filter.h"
#include "regions.h"
#include "speed.h"

namespace gk
{

/* Slices of narrow.cu begin at multiples of this: it copies 16 bytes at a time. */
#define NARROW_WAVE 64

/* True if narrow.cu compares rows with so many centroids, without the filter. */
bool
suits_narrow(const Shard &shard, int64_t centroids)
{
	return narrow_fits(shard, centroids) && !regions_are_forced();
}

/* Counters of the labels. */
uint32_t *
label_counts(const Shard &shard)
{
	return shard.flag_counts.get() + 2 + flagged_blocks(shard);
}

/* How many counters there are. */
int64_t
flag_counters(const Shard &shard)
{
	return 2 + flagged_blocks(shard) + listed_labels(shard, shard.centroids.count);
}

/* Allocates memory for slices of this many rows. */
void
reserve_filter(Shard &shard, int64_t slice_rows)
{
	shard.fresh.reserve(shard, slice_rows);
	shard.flags_clear &= shard.flag_counts.capacity() >= (uint64_t) flag_counters(shard);
	shard.flag_counts.reserve(shard, flag_counters(shard));
	shard.flag_rows.reserve(shard, slice_rows);
	shard.flag_limits.reserve(shard, slice_rows);
	shard.found_distances.reserve(shard, flagged_blocks(shard) * BLOCK_ROWS);
	shard.found_centroids.reserve(shard, flagged_blocks(shard) * BLOCK_ROWS);
}

/* Frees the memory of slices if it is for slices more than twice as large. */
void
release_filter(Shard &shard, int64_t slice_rows)
{
	if (shard.fresh.capacity() <= (uint64_t) slice_rows * 2)
		return;
	shard.fresh.release();
	shard.flag_rows.release();
	shard.flag_limits.release();
}

/* True if filter_hopper.cu compares rows with so many centroids. */
bool
suits_hopper(const Shard &shard, int64_t centroids)
{
	return !filter_resident_fits(shard, centroids) && !filter_wide_suits(shard) &&
		filter_hopper_fits(shard, centroids);
}

/* Rows of a full wave: all multiprocessors at a time; 1 if that does not matter. */
int64_t
filter_wave(const Shard &shard, int64_t centroids)
{
	if (suits_narrow(shard, centroids))
		return NARROW_WAVE;
	if (filter_resident_fits(shard, centroids))
		return 1;
	if (filter_wide_suits(shard))
		return filter_wide_wave(shard);
	if (filter_hopper_fits(shard, centroids))
		return filter_hopper_wave(shard);
	return filter_generic_wave(shard);
}

/* About how long a row takes. */
double
filter_seconds(const Shard &shard, int64_t centroids)
{
	double		padded = (double) ((centroids + 63) / 64 * 64);
	double		share = filter_wide_suits(shard) ? GK_DEVICE_WIDE_SHARE : GK_DEVICE_FILTER_SHARE;
	const Speed &speed = shard.device->speed;

	if (suits_narrow(shard, centroids))
		return narrow_seconds(shard, centroids);
	return padded * (shard.depth + 16) * 2 / (share * speed.flops) +
		shard.dimension * 4 / (GK_DEVICE_READ_SHARE * speed.bandwidth);
}

/* The arguments of the filter for a slice. */
FilterArguments::FilterArguments(const Shard &shard, const Slice &slice,
								 const Centroids &with, bool labelled)
	: features(slice.features), origin(shard.origin.get()),
	  bounds(shard.bounds.get() + slice.first), rows(slice.rows), d(shard.dimension),
	  depth(shard.depth), exact(with.exact.get()), centroids(with.rounded.get()),
	  lower(with.lower.get()), slack(with.slack.get()), norm(with.norm.get()),
	  error(with.error.get()), scale(with.scale.get()), sorted(with.sorted.rounded.get()),
	  sorted_lower(with.sorted.lower.get()), numbers(with.sorted.numbers.get()),
	  count((int) with.count),
	  row_list(nullptr), row_count(nullptr), approximate(false),
	  labels(labelled ? shard.labels.get() + slice.first : nullptr), distances(nullptr),
	  fresh(shard.fresh.get()),
	  flag_count(shard.flag_counts.get()), flag_rows(shard.flag_rows.get()),
	  flag_limits(shard.flag_limits.get()), pair_count(flag_count + 1),
	  pair_rows(flag_rows + rows), pair_others((int32_t *) (flag_limits + rows))
{
}

/* Compares all rows with all centroids. */
static void
compare_all(Shard &shard, const FilterArguments &a)
{
	if (filter_resident_fits(shard, a.count))
		filter_resident(shard, a);
	else if (filter_wide_suits(shard))
		filter_wide(shard, a);
	else if (filter_hopper_fits(shard, a.count))
		filter_hopper(shard, a);
	else
		filter_generic(shard, a);
}

/* Finds the regions of a slice's rows: those with the nearest origins, or nearly. */
void
place_slice(Shard &shard, const Slice &slice)
{
	FilterArguments near(shard, slice, shard.regions.centers, false);

	near.approximate = true;
	compare_all(shard, near);
	keep_regions(shard, slice);
}

/* Compares each row with the centroids of its region. */
static void
compare_by_regions(Shard &shard, const Slice &slice, const FilterArguments &a)
{
	if (!shard.regions.placed)
		place_slice(shard, slice);
	order_rows(shard, slice, a);
	filter_regions(shard, a);
}

/* Compares those that remain with all. */
static void
compare_left(Shard &shard, FilterArguments &a)
{
	decide_listed(shard, a);
	list_left(shard, a);
	a.row_list = shard.regions.left.get();
	a.row_count = left_count(shard);
	filter_generic(shard, a);
}

/* Compares the rows of a slice with most centroids; `nearer`: with those that may be nearer. */
static void
compare_slice(Shard &shard, const Slice &slice, const Centroids &centroids, bool labelled,
			  bool nearer)
{
	if (centroids.narrow)
		return narrow_labels(shard, slice, centroids);

	FilterArguments a(shard, slice, centroids, labelled);

	if (nearer)
		a.distances = shard.distance2.get() + slice.first;
	if (!shard.flags_clear)
		GK_CUDA(cudaMemsetAsync(a.flag_count, 0, flag_counters(shard) * sizeof(uint32_t),
								shard.device->compute));
	shard.flags_clear = false;
	if (labelled && has_regions(shard, centroids))
		compare_by_regions(shard, slice, a);
	else
		compare_all(shard, a);
}

/* Compares the rows of a slice with most centroids. */
void
begin_filter(Shard &shard, const Slice &slice, const Centroids &centroids, bool labelled)
{
	compare_slice(shard, slice, centroids, labelled, false);
}

/* Compares what that has left, and decides what is flagged. */
void
end_filter(Shard &shard, const Slice &slice, const Centroids &centroids, bool labelled)
{
	if (centroids.narrow)
		return;

	FilterArguments a(shard, slice, centroids, labelled);

	if (labelled && has_regions(shard, centroids))
		compare_left(shard, a);
	if (filter_wide_suits(shard))
		decide_pairs(shard, a);
	decide_flagged(shard, a);
}

/* Fresh labels of a slice. */
void
filter_slice(Shard &shard, const Slice &slice, const Centroids &centroids, bool labelled)
{
	begin_filter(shard, slice, centroids, labelled);
	end_filter(shard, slice, centroids, labelled);
}

/* Fresh labels of a slice, where only nearer centroids matter. */
void
filter_nearer(Shard &shard, const Slice &slice, const Centroids &centroids)
{
	compare_slice(shard, slice, centroids, false, true);
	end_filter(shard, slice, centroids, false);
}

}								/* namespace gk */
