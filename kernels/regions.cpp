/*
 * Regions: when there are any, and their memory.
 */
#include "regions.h"

#include <algorithm>

#include <cuda_fp16.h>

#include "check.h"
#include "cuda_engine.h"
#include "filter.h"

namespace gk
{

/* Fewer centroids than the first, or more than the second, have no regions. */
#define LEAST_CENTROIDS 128
#define MOST_CENTROIDS 16384

/* Rows of a region on average, and centroids if all have a place among few regions, at least. */
#define ROWS_PER_REGION 512
#define CENTROIDS_PER_REGION 8
#define FEW_REGIONS 128

/* Origins are chosen until the next one would be so much nearer, squared, than the last one was. */
#define GAP 16.0f

/* More than so many regions if even the last of the few is nearly as far as the first, squared. */
#define FLAT 4.0f

/* Centroids whose gaps are measured. */
#define SAMPLES 64

/* Seeds that are chosen between looks at them. */
#define SEEDS_AT_A_TIME 64

/* Memory of lists, and of norms: bytes, or a part of all rows if that is more. */
#define LISTS_BYTES (UINT64_C(4) << 20)
#define LISTS_SHARE 64

/* Centroids of a list for which there is room, at least. */
#define LEAST_LIST 32

/* A part of the rows that can have several candidates; of small slices, all. */
#define FLAGGED_SHARE 8
#define FLAGGED_ROWS (INT64_C(4) << 10)

/* Rows of a first slice that say what reach their regions need. */
#define SAMPLED_ROWS (INT64_C(32) << 10)

/* As gk_cuda_regions(). */
static std::atomic<int> wish{0};

/* Rows that have got their labels from their regions, or as candidates of these, for tests. */
static std::atomic<int64_t> decided_rows{0};

/* Frees the memory of the regions. */
void
Regions::release()
{
	decided = labelled = false;
	count = 0;
	room = 0;
	most = 0;
	centers.release();
	memory.release();
	order.release();
	tiles.release();
	flags.release();
}

/* Forgets the regions. */
void
forget_regions(Shard &shard)
{
	shard.regions.release();
}

/* True if rows are compared with the centroids of a region. */
bool
has_regions(const Shard &shard, const Centroids &centroids)
{
	return shard.regions.count > 0 && &centroids == &shard.centroids;
}

/* Bytes that the lists may have, and as many again the norms. */
static uint64_t
list_bytes(const Shard &shard)
{
	uint64_t	rows = (uint64_t) shard.rows * shard.dimension * sizeof(float);

	return std::min(std::max(rows / LISTS_SHARE, LISTS_BYTES), shard.account.limit / LISTS_SHARE);
}

/* How many regions there can be: fewer than 2 if there is no use in them, or no memory. */
static int
most_regions(const Shard &shard)
{
	int64_t		k = shard.centroids.count;
	int64_t		most = std::min<int64_t>(k, MOST_REGIONS);

	if (wish < 0 || !filter_regions_fits(shard))
		return 0;
	if (wish > 0)
		return (int) std::min<int64_t>(k / 3, FEW_REGIONS);
	if (k < LEAST_CENTROIDS || k > MOST_CENTROIDS)
		return 0;
	most = std::min<int64_t>(most, shard.rows / ROWS_PER_REGION);
	most = std::min<int64_t>(most, list_bytes(shard) / (k * sizeof(float)));
	return (int) std::min<int64_t>(most, list_bytes(shard) / LEAST_LIST /
								   (shard.depth * sizeof(__half)));
}

/* Allocates a part of the scratch memory for choosing seeds. */
static void
reserve_seeds(Shard &shard, int most, float **nearest2, unsigned long long **farthest, Gap **gaps)
{
	Scratch		plan;

	for (int pass = 0; pass < 2; pass++)
	{
		plan.used = 0;
		*nearest2 = plan.take<float>(shard.centroids.count);
		*farthest = plan.take<unsigned long long>(most + 1);
		*gaps = plan.take<Gap>(SAMPLES);
		shard.scratch.reserve(shard, plan.used);
		plan.base = shard.scratch.get();
	}
}

/* d² between a centroid and the nearest other one. */
static float
nearest_of_gap(const Gap &gap)
{
	uint32_t	bits = ~gap.nearest;
	float		distance2;

	memcpy(&distance2, &bits, sizeof(distance2));
	return distance2;
}

/* True if many centroids have another one much nearer than most of them. */
static bool
has_structure(Shard &shard, Gap *gaps)
{
	Gap			found[SAMPLES];
	int			near = 0;

	zero(shard, gaps, SAMPLES);
	measure_gaps(shard, gaps, SAMPLES);
	to_host(shard, found, (const Gap *) gaps, SAMPLES);
	for (const Gap &gap : found)
		near += gap.sum2 > (float) shard.centroids.count * GAP * nearest_of_gap(gap);
	return near * 4 >= SAMPLES;
}

/* d² between a seed and the nearest one before it. */
static float
seed_distance2(unsigned long long farthest)
{
	uint32_t	bits = (uint32_t) (farthest >> 32);
	float		distance2;

	memcpy(&distance2, &bits, sizeof(distance2));
	return distance2;
}

/* How many of the seeds found so far are to be origins; all of them: perhaps more. */
static int
count_seeds(const std::vector<unsigned long long> &farthest, int found)
{
	for (int i = 1; i < found; i++)
	{
		float		now = seed_distance2(farthest[i]);

		if (!(now > 0.0f) || (i > 1 && now * GAP < seed_distance2(farthest[i - 1])))
			return i;
	}
	return found;
}

/* Chooses the seeds; returns their number. */
static int
choose_seeds(Shard &shard, int most, float *nearest2, unsigned long long *farthest)
{
	std::vector<unsigned long long> found(most + 1);
	int			few = (int) std::min<int64_t>(FEW_REGIONS,
											  shard.centroids.count / CENTROIDS_PER_REGION);
	int			count = 0;

	zero(shard, farthest, most + 1);
	for (int from = 0; from < most && count == from; from += SEEDS_AT_A_TIME)
	{
		int			to = std::min(most, from + SEEDS_AT_A_TIME);

		spread_seeds(shard, from, to, nearest2, farthest);
		to_host(shard, found.data(), (const unsigned long long *) farthest, to + 1);
		count = count_seeds(found, to);
		if (count >= few && wish <= 0 &&
			seed_distance2(found[few - 1]) * FLAT < seed_distance2(found[1]))
			return few;
	}
	return count;
}

/* Divides the memory of the regions, if there is any; returns how much they need. */
static uint64_t
divide_memory(Regions &r, int64_t k, int d, int64_t columns)
{
	Scratch		plan;

	plan.base = r.memory.get();
	r.rounded = plan.take<__half>(r.room * columns);
	r.origins = plan.take<float>((int64_t) r.count * d);
	r.norms = plan.take<float>(r.count * k);
	r.radii = plan.take<float>(r.count);
	r.region_of = plan.take<int32_t>(k);
	r.lists = plan.take<RegionList>(r.count);
	r.scales = plan.take<CentroidScale>(r.count);
	r.statistics = plan.take<RowStatistics>(r.count);
	r.reaches = plan.take<uint32_t>((int64_t) r.count * REACHES);
	r.used = plan.take<uint32_t>(1);
	r.places = plan.take<uint32_t>(region_place_count(r.count));
	r.ids = plan.take<int32_t>(r.room);
	r.lower = plan.take<float>(r.room);
	r.slack = plan.take<float>(r.room);
	r.norm = plan.take<float>(r.room);
	r.error = plan.take<float>(r.room);
	return plan.used;
}

/* Memory for slices of this many rows. */
static void
reserve_slices(Shard &shard, int64_t slice_rows)
{
	shard.regions.order.reserve(shard, slice_rows);
	shard.regions.tiles.reserve(shard, region_tile_count(slice_rows, shard.regions.count));
	shard.regions.flags.reserve(shard, std::max(slice_rows / FLAGGED_SHARE,
												std::min(slice_rows, FLAGGED_ROWS)));
}

/* Allocates what so many regions need; false if that is too much. */
static bool
reserve_regions(Shard &shard, int count, int64_t slice_rows)
{
	Regions    &r = shard.regions;
	int64_t		k = shard.centroids.count;
	int64_t		columns = (shard.depth + 63) / 64 * 64;
	uint64_t	bytes = columns * sizeof(__half) + 4 * sizeof(float) + sizeof(int32_t);
	uint64_t	need;

	r.most = (int) std::min<int64_t>(list_bytes(shard) / bytes / count, k + LIST_STEP - 1) /
		LIST_STEP * LIST_STEP;
	r.room = (int64_t) count * r.most;
	r.count = count;
	need = divide_memory(r, k, shard.dimension, columns);
	if (!shard.account.has_room(need + slice_rows * (int64_t) (2 * sizeof(int32_t) + sizeof(RegionFlag) / FLAGGED_SHARE) +
								(uint64_t) count * shard.dimension * 16 + (1 << 20)))
		return false;
	r.memory.reserve(shard, need);
	(void) divide_memory(r, k, shard.dimension, columns);
	reserve_centroids(shard, r.centers, count);
	reserve_slices(shard, slice_rows);
	zero(shard, r.statistics, count);
	zero(shard, r.reaches, (uint64_t) count * REACHES);
	return r.most > 0;
}

/* True if the lists have most of the centroids' own regions. */
static bool
lists_pay(Shard &shard)
{
	int64_t		k = shard.centroids.count;
	std::vector<RegionList> lists(shard.regions.count);
	std::vector<int32_t> region_of(k);
	int64_t		listed = 0;

	to_host(shard, lists.data(), (const RegionList *) shard.regions.lists, lists.size());
	to_host(shard, region_of.data(), (const int32_t *) shard.regions.region_of, k);
	for (int32_t region : region_of)
		listed += lists[region].count > 0;
	return wish > 0 || listed * 2 > k;
}

/* Has some rows say what reach their regions need. */
static void
sample_rows(Shard &shard, int64_t slice_rows)
{
	Slice		slice = shard.start_slice(0, slice_rows);
	FilterArguments a(shard, slice, shard.regions.centers, false);

	list_sample(shard, a, SAMPLED_ROWS);
	a.approximate = true;
	a.row_list = shard.regions.order.get();
	a.row_count = left_count(shard);
	filter_generic(shard, a);
	sample_reaches(shard, slice, a);
	shard.finish_slice(slice, false);
}

/* Chooses the regions of new centroids; true if there are any. */
static bool
choose_regions(Shard &shard, int64_t slice_rows)
{
	int			most = most_regions(shard);
	float	   *nearest2;
	unsigned long long *farthest;
	Gap		   *gaps;
	int			count;

	if (most < 2)
		return false;
	shard.use();
	reserve_seeds(shard, most, &nearest2, &farthest, &gaps);
	if (wish <= 0 && !has_structure(shard, gaps))
		return false;
	count = choose_seeds(shard, most, nearest2, farthest);
	if (count < 2 || !reserve_regions(shard, count, slice_rows))
		return false;
	set_region_origins(shard, farthest);
	measure_regions(shard);
	center_regions(shard);
	measure_regions(shard);
	prepare_centroids(shard, shard.regions.centers);
	sample_rows(shard, slice_rows);
	list_regions(shard, wish > 0);
	return lists_pay(shard);
}

/* Chooses regions for new centroids, or lists their centroids anew after these have moved. */
void
prepare_regions(Shard &shard, int64_t slice_rows)
{
	Regions    &r = shard.regions;

	if (!r.decided)
	{
		try
		{
			if (!choose_regions(shard, slice_rows))
				r.release();
		}
		catch (...)
		{
			r.release();
			throw;
		}
		r.decided = true;
	}
	else if (r.count > 0 && !shard.centroids.prepared)
	{
		measure_regions(shard);
		list_regions(shard, wish > 0);
	}
	if (r.count == 0)
		return;
	reserve_slices(shard, slice_rows);
	/* their origin may have changed */
	if (!r.labelled && !shard.centroids.prepared)
	{
		r.centers.prepared = false;
		prepare_centroids(shard, r.centers);
	}
}

/* Takes into account what a pass over all rows has shown. */
void
judge_regions(Shard &shard)
{
	bool		pay = wish > 0 ||
		shard.result->left * 2 <= (unsigned long long) shard.rows;

	shard.regions.labelled = true;
	if (shard.regions.count > 0)
		decided_rows += shard.rows - (int64_t) shard.result->left;
	if (shard.regions.count > 0 && !pay)
	{
		shard.regions.release();
		shard.regions.decided = true;
	}
}

}								/* namespace gk */

/*
 * For tests: regions always (1), never (-1), or when they pay (0).  Returns how many rows have got
 * their labels by regions since the last call.
 */
extern "C" __attribute__((visibility("default"))) int64_t
gk_cuda_regions(int wish)
{
	gk::wish = wish;
	return gk::decided_rows.exchange(0);
}
