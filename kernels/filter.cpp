/*
 * The filter: the choice of the kernel, and its memory.
 *
 * For each row it finds the least and second least of lower - y·e over all centroids.  If their
 * gap exceeds the filter's error bound (docs/filter.md), the row has its label.  The other rows
 * are flagged: a second run over these lists their candidates, and exact.cu decides among them.
 */
#include <algorithm>

#include "cuda/launch.h"
#include "filter.h"
#include "speed.h"

namespace gk
{

/* Flagged rows of a slice that can always be listed, unless memory is scarce. */
#define LISTED_ROWS (INT64_C(64) << 10)

/* Slices of the narrow kernel begin at multiples of this: it copies 16 bytes at a time. */
#define NARROW_WAVE 64

/* Bytes of a row in the list. */
#define LISTED_BYTES (sizeof(int64_t) + sizeof(float) + (1 + FILTER_CANDIDATES) * sizeof(int32_t))

/* The capacity for flagged rows: all rows of a small slice. */
static uint32_t
flag_capacity(const Shard &shard, int64_t slice_rows)
{
	int64_t		room = (int64_t) (shard.account.limit / 32 / LISTED_BYTES);
	int64_t		all = std::clamp<int64_t>(room, 1024, LISTED_ROWS);

	return (uint32_t) std::max<int64_t>(std::min(slice_rows / 8, room), std::min(slice_rows, all));
}

/* Allocates memory for slices of this many rows, compared with this many centroids. */
void
reserve_filter(Shard &shard, int64_t slice_rows, int64_t centroids)
{
	if (narrow_fits(shard, centroids))
		return shard.fresh.reserve(shard, slice_rows);
	shard.flag_capacity = flag_capacity(shard, slice_rows);
	shard.fresh.reserve(shard, slice_rows);
	shard.flag_count.reserve(shard, 2);
	shard.flag_rows.reserve(shard, shard.flag_capacity);
	shard.flag_limits.reserve(shard, shard.flag_capacity);
	shard.flag_candidate_counts.reserve(shard, shard.flag_capacity);
	shard.flag_candidates.reserve(shard, (int64_t) shard.flag_capacity * FILTER_CANDIDATES);
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
	shard.flag_candidate_counts.release();
	shard.flag_candidates.release();
}

/* Rows of a full wave: all multiprocessors at a time; 1 if that does not matter. */
int64_t
filter_wave(const Shard &shard, int64_t centroids)
{
	if (narrow_fits(shard, centroids))
		return NARROW_WAVE;
	if (filter_resident_fits(shard, centroids))
		return 1;
	if (filter_hopper_fits(shard, centroids))
		return filter_hopper_wave(shard);
	return filter_generic_wave(shard);
}

/* About how long a row takes. */
double
filter_seconds(const Shard &shard, int64_t centroids)
{
	double		padded = (double) ((centroids + 63) / 64 * 64);
	const Speed &speed = shard.device->speed;

	if (narrow_fits(shard, centroids))
		return narrow_seconds(shard, centroids);
	return padded * (shard.depth + 16) * 2 / (GK_DEVICE_FILTER_SHARE * speed.flops) +
		shard.dimension * 4 / (GK_DEVICE_READ_SHARE * speed.bandwidth);
}

/* The arguments of the filter for a slice. */
FilterArguments::FilterArguments(const Shard &shard, const Slice &slice,
								 const Centroids &with, bool labelled)
	: features(slice.features), origin(shard.origin.get()),
	  bounds(shard.bounds.get() + slice.first), rows(slice.rows), d(shard.dimension),
	  depth(shard.depth), centroids(with.rounded.get()), lower(with.lower.get()),
	  slack(with.slack.get()), norm(with.norm.get()), error(with.error.get()),
	  scale(with.scale.get()), count((int) with.count),
	  labels(labelled ? shard.labels.get() + slice.first : nullptr), fresh(shard.fresh.get()),
	  flag_count(shard.flag_count.get()), open_count(shard.flag_count.get() + 1),
	  flag_capacity(shard.flag_capacity), flag_rows(shard.flag_rows.get()),
	  flag_limits(shard.flag_limits.get()),
	  candidate_counts(shard.flag_candidate_counts.get()),
	  candidates(shard.flag_candidates.get())
{
}

/* Fresh labels of a slice, GK_PENDING where the filter can't decide. */
static void
filter_slice(Shard &shard, const Slice &slice, const Centroids &centroids, bool labelled)
{
	FilterArguments a(shard, slice, centroids, labelled);

	GK_CUDA(cudaMemsetAsync(a.flag_count, 0, 2 * sizeof(uint32_t), shard.device->compute));
	if (filter_resident_fits(shard, a.count))
		filter_resident(shard, a);
	else if (filter_hopper_fits(shard, a.count))
		filter_hopper(shard, a);
	else
		filter_generic(shard, a);
	list_candidates(shard, a);
}

/* Fresh labels of a slice; `labelled`: its labels are of these centroids. */
void
label_slice(Shard &shard, const Slice &slice, const Centroids &centroids, bool labelled)
{
	if (narrow_fits(shard, centroids.count))
		return narrow_labels(shard, slice, centroids);
	filter_slice(shard, slice, centroids, labelled);
	decide_flagged(shard, slice, centroids);
}

}								/* namespace gk */
