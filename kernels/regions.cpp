/*
 * Regions: when there are any, and their memory.
 */
#include "regions.h"

#include <algorithm>

#include <cuda_fp16.h>

#include "check.h"
#include "cuda_engine.h"
#include "filter.h"
#include "speed.h"

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

/* Rows of the sample whose gaps are measured. */
#define MEASURED_GAPS 64

/* Bytes of a row besides its features that regions read and write, and the share of bandwidth. */
#define ORDER_BYTES 128
#define ORDER_SHARE 0.3

/* Memory of lists, and of norms: bytes, or a part of all rows if that is more. */
#define LISTS_BYTES (UINT64_C(4) << 20)
#define LISTS_SHARE 64

/* Centroids of a list for which there is room on average, at least. */
#define LEAST_LIST 24

/* The most of one list: so many, or so many times what a region has on average. */
#define LONG_LIST 128
#define LONG_SHARE 8

/* A part of the rows that can have several candidates; of small slices, all. */
#define FLAGGED_SHARE 16
#define FLAGGED_ROWS (INT64_C(4) << 10)

/* Bytes of a row of a slice. */
#define ROW_BYTES (3 * sizeof(int32_t) + sizeof(RegionFlag) / FLAGGED_SHARE)

/* There is room for so many more centroids, as a part of them: a search adds some for a while. */
#define MORE_CENTROIDS 8

/* Rows of the sample: a part of all, at most so many, among which origins are chosen. */
#define SAMPLED_SHARE 128
#define MOST_SAMPLED 8192

/* As gk_cuda_regions(). */
static std::atomic<int> wish{0};

/* Rows that have got their labels from their regions, or as candidates of these, for tests. */
static std::atomic<int64_t> decided_rows{0};

/* For tests as well: a GPU was too small for regions, or too old. */
static std::atomic<bool> unfit{false};

/* Frees the memory of the regions. */
void
Regions::release()
{
	decided = placed = ordered = left_clear = false;
	count = 0;
	width = 0;
	room = 0;
	most = 0;
	centers.release();
	memory.release();
	order.release();
	left.release();
	tiles.release();
	flags.release();
	region_of.release();
}

/* Keeps the regions for so many new centroids if they suit; otherwise forgets them. */
void
reuse_regions(Shard &shard, int64_t centroids)
{
	const Regions &r = shard.regions;

	/* origins come from the rows, and so does whether they pay, mostly */
	if (!r.decided || r.wish != wish || centroids > r.width || centroids < r.width / 2)
		shard.regions.release();
	/* slices may change, and so may the memory of the order */
	shard.regions.ordered = false;
}

/* True if a test wants regions wherever they are possible. */
bool
regions_are_forced()
{
	return wish > 0;
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

/* About how long a row takes that has a region: its list is mostly one panel. */
static double
region_seconds(const Shard &shard)
{
	const Speed &speed = shard.device->speed;

	return 64.0 * (shard.depth + 16) * 2 / (GK_DEVICE_FILTER_SHARE * speed.flops) +
		(shard.dimension * 4 + ORDER_BYTES) / (ORDER_SHARE * speed.bandwidth);
}

/*
 * How many regions there can be: fewer than 2 if there is no memory, or no use in them where a row
 * takes so long without.
 */
static int
most_regions(const Shard &shard, double seconds)
{
	int64_t		k = shard.centroids.count;
	int64_t		most = std::min<int64_t>(k, MOST_REGIONS);

	if (wish < 0)
		return 0;
	if (!filter_regions_fits(shard))
	{
		unfit = true;
		return 0;
	}
	if (wish > 0)
		return (int) std::min<int64_t>(k / 3, FEW_REGIONS);
	if (k < LEAST_CENTROIDS || k > MOST_CENTROIDS ||
		region_seconds(shard) >= seconds)
		return 0;
	most = std::min<int64_t>(most, shard.rows / ROWS_PER_REGION);
	most = std::min<int64_t>(most, list_bytes(shard) / (k * sizeof(float)));
	return (int) std::min<int64_t>(most, list_bytes(shard) / LEAST_LIST /
								   (shard.depth * sizeof(__half)));
}

/* Allocates a part of the scratch memory for choosing origins among so many. */
static Sample
reserve_sample(Shard &shard, int most, Gap **gaps)
{
	Sample		sample = {};
	Scratch		plan;

	sample.count = (int) (wish > 0 ? std::min<int64_t>(shard.rows, MOST_SAMPLED) :
						  std::min<int64_t>(shard.rows / SAMPLED_SHARE, MOST_SAMPLED));
	for (int pass = 0; pass < 2; pass++)
	{
		plan.used = 0;
		sample.rows = plan.take<float>((int64_t) sample.count * shard.dimension);
		sample.regions = plan.take<uint16_t>(sample.count);
		sample.nearest2 = plan.take<float>(sample.count);
		sample.farthest = plan.take<unsigned long long>(most + 1);
		sample.offers = plan.take<unsigned long long>(SEED_OFFERS);
		sample.between = plan.take<float>(SEED_OFFERS * SEED_OFFERS);
		*gaps = plan.take<Gap>(MEASURED_GAPS);
		shard.scratch.reserve(shard, plan.used);
		plan.base = shard.scratch.get();
	}
	return sample;
}

/* d² between a row of the sample and the nearest other one. */
static float
nearest_of_gap(const Gap &gap)
{
	uint32_t	bits = ~gap.nearest;
	float		distance2;

	memcpy(&distance2, &bits, sizeof(distance2));
	return distance2;
}

/* True if many rows of the sample have another one much nearer than most of them. */
static bool
has_structure(Shard &shard, const Sample &sample, Gap *gaps)
{
	Gap			found[MEASURED_GAPS];
	int			near = 0;

	zero(shard, gaps, MEASURED_GAPS);
	measure_gaps(shard, sample, gaps, MEASURED_GAPS);
	to_host(shard, found, (const Gap *) gaps, MEASURED_GAPS);
	for (const Gap &gap : found)
		near += gap.sum2 > (float) sample.count * GAP * nearest_of_gap(gap);
	return near * 4 >= MEASURED_GAPS;
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

/*
 * Chooses the seeds, and finds the nearest one of each row of the sample; returns their number.
 * Row 0 is the first; the others are picked several at a time.
 */
static int
choose_seeds(Shard &shard, const Sample &sample, int most)
{
	std::vector<unsigned long long> found(most + 1);
	int			few = (int) std::min<int64_t>(FEW_REGIONS,
											  shard.centroids.count / CENTROIDS_PER_REGION);
	int			from = 0;
	int			to = 1;
	int			count = 1;

	zero(shard, sample.farthest, most + 1);
	for (bool more = true; more; more = count == to && to > from && to < most)
	{
		find_nearest_seeds(shard, sample, from, to);
		pick_seeds(shard, sample, to, most);
		to_host(shard, found.data(), (const unsigned long long *) sample.farthest, most);
		from = to;
		to = (int) found[0];
		count = count_seeds(found, to);
		if (count >= few && few > 1 && wish <= 0 &&
			seed_distance2(found[few - 1]) * FLAT < seed_distance2(found[1]))
		{
			from = 0;
			count = few;
			break;
		}
	}
	find_nearest_seeds(shard, sample, from, count);
	return count;
}

/* Divides the memory of the regions, if there is any; returns how much they need. */
static uint64_t
divide_memory(Regions &r, int d, int64_t columns)
{
	Scratch		plan;

	plan.base = r.memory.get();
	r.rounded = plan.take<__half>(r.room * columns);
	r.origins = plan.take<float>((int64_t) r.count * d);
	r.norms = plan.take<float>(r.count * r.width);
	r.radii = plan.take<float>(r.count);
	r.limits = plan.take<float>(r.count);
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
	if (shard.regions.order.capacity() < (uint64_t) slice_rows)
		shard.regions.ordered = false;
	shard.regions.order.reserve(shard, slice_rows);
	shard.regions.left.reserve(shard, slice_rows);
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
	uint64_t	all;

	r.most = (int) std::min<int64_t>(r.width, std::max<int64_t>(LONG_LIST, LONG_SHARE * k / count));
	r.most = (r.most + LIST_STEP - 1) / LIST_STEP * LIST_STEP;
	r.room = std::min((int64_t) (list_bytes(shard) / bytes), (int64_t) count * r.most);
	r.count = count;
	need = divide_memory(r, shard.dimension, columns);
	all = need + shard.rows * sizeof(uint16_t) + slice_rows * ROW_BYTES +
		(uint64_t) count * shard.dimension * 16 + (1 << 20);
	if (wish <= 0 && !shard.account.has_room(all))
		return false;
	r.memory.reserve(shard, need);
	(void) divide_memory(r, shard.dimension, columns);
	reserve_centroids(shard, r.centers, count);
	r.region_of.reserve(shard, shard.rows);
	reserve_slices(shard, slice_rows);
	zero(shard, r.limits, count);
	zero(shard, r.used, 1);
	r.left_clear = false;
	zero(shard, r.statistics, count);
	zero(shard, r.reaches, (uint64_t) count * REACHES);
	return r.room > 0;
}

/* Chooses the regions of new centroids; true if there are any. */
static bool
choose_regions(Shard &shard, int64_t slice_rows, double seconds)
{
	int			most = most_regions(shard, seconds);
	Sample		sample;
	Slice		slice;
	Gap		   *gaps;
	int			count;

	if (most < 2)
		return false;
	shard.use();
	sample = reserve_sample(shard, most, &gaps);
	/* all rows in device memory, or else a slice */
	slice = shard.start_slice(0, shard.resident > 0 ? shard.resident : slice_rows);
	take_sample(shard, slice, sample);
	shard.finish_slice(slice, false);
	if (wish <= 0 && !has_structure(shard, sample, gaps))
		return false;
	count = choose_seeds(shard, sample, most);
	if (count < 2 || !reserve_regions(shard, count, slice_rows))
		return false;
	set_region_origins(shard, sample);
	prepare_centroids(shard, shard.regions.centers);
	measure_regions(shard);
	sample_reaches(shard, sample);
	list_regions(shard, wish > 0);
	return true;
}

/* Frees the regions, and remembers that there are none. */
static void
give_up_regions(Regions &r)
{
	int64_t		width = r.width;

	r.release();
	r.width = width;
	r.decided = true;
}

/* Decides whether there are regions, and chooses them. */
static void
decide_regions(Shard &shard, int64_t slice_rows, double seconds)
{
	Regions    &r = shard.regions;

	r.wish = wish;
	r.width = shard.centroids.count + shard.centroids.count / MORE_CENTROIDS;
	try
	{
		if (!choose_regions(shard, slice_rows, seconds))
			give_up_regions(r);
	}
	catch (...)
	{
		r.release();
		throw;
	}
	r.decided = true;
}

/* Chooses regions for new centroids, or lists their centroids anew if these have moved. */
void
prepare_regions(Shard &shard, int64_t slice_rows, double seconds, Moved moved)
{
	Regions    &r = shard.regions;

	if (!r.decided)
		decide_regions(shard, slice_rows, seconds);
	else if (r.count > 0 && moved != Moved::NO)
	{
		if (moved != Moved::MEASURED)
			measure_regions(shard);
		list_regions(shard, wish > 0);
	}
	if (r.count == 0)
		return;
	reserve_slices(shard, slice_rows);
	/* their origin may have changed */
	if (!r.placed && moved != Moved::NO)
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

	/* rows were compared without them */
	if (shard.regions.count == 0 || shard.centroids.narrow)
		return;
	shard.regions.placed = true;
	decided_rows += shard.rows - (int64_t) shard.result->left;
	if (!pay)
		give_up_regions(shard.regions);
}

}								/* namespace gk */

/*
 * For tests: regions always (1), never (-1), or when they pay (0).  Returns how many rows have got
 * their labels by regions since the last call; -1 if none has, and a GPU cannot have them.
 */
extern "C" __attribute__((visibility("default"))) int64_t
gk_cuda_regions(int wish)
{
	int64_t		decided = gk::decided_rows.exchange(0);
	bool		unfit = gk::unfit.exchange(false);

	gk::wish = wish;
	return decided == 0 && unfit ? -1 : decided;
}
