/*
 * The filter: fresh labels of a tile by 16-bit products in the tensor cores, and lists of the
 * points that can be nearest to the rows that these don't decide.
 *
 * For each row the least and second least of lower - y·e over all points are found.  Rows whose
 * gap is wider than what the filter may err (points.cu) have their label; for the others a second
 * run over those rows alone lists candidates, and exact.cu decides among them.
 */
#include <algorithm>

#include "filter.cuh"

namespace gk
{

/* Flagged rows of a tile that can always be listed, where memory is not scarce. */
#define LISTED_ROWS (INT64_C(64) << 10)

/* Bytes of a row in the list. */
#define LISTED_BYTES (sizeof(int64_t) + sizeof(float) + (1 + FILTER_CANDIDATES) * sizeof(int32_t))

/* Flagged rows of a tile whose candidates can be listed: all of a small one. */
static uint32_t
flag_capacity(const Shard &shard, int64_t tile_rows)
{
	int64_t		room = (int64_t) (shard.account.limit / 32 / LISTED_BYTES);
	int64_t		all = std::clamp<int64_t>(room, 1024, LISTED_ROWS);

	return (uint32_t) std::max<int64_t>(std::min(tile_rows / 8, room), std::min(tile_rows, all));
}

/* Memory for tiles of so many rows. */
void
reserve_filter(Shard &shard, int64_t tile_rows)
{
	shard.flag_capacity = flag_capacity(shard, tile_rows);
	shard.fresh.reserve(shard, tile_rows);
	shard.flag_count.reserve(shard, 2);
	shard.flag_rows.reserve(shard, shard.flag_capacity);
	shard.flag_limits.reserve(shard, shard.flag_capacity);
	shard.flag_candidate_counts.reserve(shard, shard.flag_capacity);
	shard.flag_candidates.reserve(shard, (int64_t) shard.flag_capacity * FILTER_CANDIDATES);
}

/* Frees the memory of tiles where it is for tiles more than twice as large as these. */
void
release_filter(Shard &shard, int64_t tile_rows)
{
	if (shard.fresh.capacity() <= (uint64_t) tile_rows * 2)
		return;
	shard.fresh.release();
	shard.flag_rows.release();
	shard.flag_limits.release();
	shard.flag_candidate_counts.release();
	shard.flag_candidates.release();
}

/* Rows that all processors compare at a time, 1 where that makes no difference. */
int64_t
filter_wave(const Shard &shard, int64_t points)
{
	if (filter_resident_fits(shard, points))
		return 1;
	if (filter_hopper_fits(shard, points))
		return filter_hopper_wave(shard);
	return (int64_t) shard.device->processors * FILTER_ROWS;
}

/* About how long a row takes. */
double
filter_seconds(const Shard &shard, int64_t points)
{
	double		padded = (double) ((points + 63) / 64 * 64);

	return padded * (shard.depth + 16) * 2 / 2e14 + shard.dimension * 4 / 2e12;
}

/*
 * Fresh labels of a tile, GK_PENDING where the filter can't decide; `labelled`: labels are of these
 * points.
 */
void
filter_tile(Shard &shard, const Tile &tile, const Points &points, bool labelled)
{
	FilterArguments a;

	a.features = tile.features;
	a.center = shard.center.get();
	a.bounds = shard.bounds.get() + tile.first;
	a.rows = tile.rows;
	a.d = shard.dimension;
	a.depth = shard.depth;
	a.points = points.rounded.get();
	a.lower = points.lower.get();
	a.slack = points.slack.get();
	a.norm = points.norm.get();
	a.error = points.error.get();
	a.scale = points.scale.get();
	a.count = (int) points.count;
	a.labels = labelled ? shard.labels.get() + tile.first : nullptr;
	a.fresh = shard.fresh.get();
	a.flag_count = shard.flag_count.get();
	a.open_count = shard.flag_count.get() + 1;
	a.flag_capacity = shard.flag_capacity;
	a.flag_rows = shard.flag_rows.get();
	a.flag_limits = shard.flag_limits.get();
	a.candidate_counts = shard.flag_candidate_counts.get();
	a.candidates = shard.flag_candidates.get();
	GK_CUDA(cudaMemsetAsync, a.flag_count, 0, 2 * sizeof(uint32_t), shard.device->compute);
	if (filter_resident_fits(shard, a.count))
		filter_resident(shard, a);
	else if (filter_hopper_fits(shard, a.count))
		filter_hopper(shard, a);
	else
		filter_tiles(shard, a);
	list_tiles(shard, a);
}

}								/* namespace gk */
