/*
 * The commands of the iteration.
 */
#include <cmath>
#include <cstring>

#include "cuda_engine.h"
#include "exact.h"
#include "filter.h"
#include "nccl.h"
#include "regions.h"
#include "speed.h"

namespace gk
{

/* The target duration of a slice: a pass can be stopped between slices. */
#define SLICE_SECONDS 6e-3

/*
 * The target share of the rows in a slice, within limits: a slice takes another 12 bytes a row.
 */
#define SLICE_BYTES (INT64_C(512) << 20)
#define MOST_ROWS (INT64_C(8) << 20)

/* So many rows keep their hashes from one seeding to the next. */
#define KEPT_HASHES (INT64_C(1) << 20)

/* Bytes of the rows of a relocation that move at a time. */
#define MOVED_BYTES (INT64_C(4) << 20)

/*
 * An iteration that takes longer is not begun before the one before it has ended: it is lost if
 * that was the last one.
 */
#define STEP_AHEAD_SECONDS 6e-4

/* No iteration begins in a command that has taken so long: the caller shows how far it is. */
#define STEPS_TOGETHER std::chrono::milliseconds(20)

/* Rows in a slice of a pass that reads this many bytes a row. */
int64_t
Engine::plain_rows(double bytes_a_row) const
{
	double		bandwidth = GK_DEVICE_WORK_SHARE * shards[0]->device->speed.bandwidth;

	return std::max<int64_t>((int64_t) (SLICE_SECONDS * bandwidth / bytes_a_row), 1024);
}

/* Rows in a slice of the filter: whole waves, because a partial wave takes as long. */
int64_t
Engine::filter_rows(int64_t centroids) const
{
	double		seconds = filter_seconds(*shards[0], centroids);
	int64_t		wave = filter_wave(*shards[0], centroids);
	int64_t		most = std::clamp(SLICE_BYTES / (dimension * (int64_t) sizeof(float)),
								  MOST_ROWS / 2, MOST_ROWS);
	int64_t		longest = 1;

	for (const auto &shard : shards)
		longest = std::max(longest, shard->rows);
	most = std::clamp<int64_t>((int64_t) (SLICE_SECONDS / seconds), 512, most);
	return std::min(longest, (most + wave - 1) / wave * wave);
}

/* Rows in a slice of a step: more where a step needs no memory for them. */
int64_t
Engine::step_rows() const
{
	int64_t		k = shards[0]->centroids.count;
	int64_t		wave = filter_wave(*shards[0], k);

	if (!shards[0]->centroids.narrow)
		return filter_rows(k);
	return ((int64_t) (SLICE_SECONDS / filter_seconds(*shards[0], k)) / wave + 1) * wave;
}

/*
 * Prepares everything that labels need besides the centroids: for the filter or (narrow) without
 * it, with memory for fresh labels or (not fresh) without.
 */
void
Engine::prepare_filter(int64_t centroids, bool narrow, bool fresh)
{
	bool		valid = true;

	for (auto &shard : shards)
	{
		shard->need_labels();
		if (shard->rows == 0)
			continue;
		if (!narrow)
		{
			shard->bounds.reserve(*shard, shard->rows);
			reserve_filter(*shard, filter_rows(centroids));
		}
		else if (fresh)
			shard->fresh.reserve(*shard, filter_rows(centroids));
		sample_origin(*shard);
		valid = valid && (narrow || shard->bounds_valid);
	}
	if (valid)
		return;
	for (auto &shard : shards)
	{
		if (shard->rows > 0)
			zero(*shard, shard->row_statistics.get(), 1);
		shard->bounds_valid = shard->centroids.prepared = shard->candidates.prepared = false;
	}
	walk("row bounds", plain_rows(dimension * 4.0), [](Shard &shard, const Slice &slice)
		 { compute_bounds(shard, slice); });
	for (auto &shard : shards)
		shard->bounds_valid = true;
}

/* Zeroes the counters, unless they are clear. */
void
Engine::clear_counters()
{
	for (auto &shard : shards)
	{
		if (!shard->counters_clear)
			zero(*shard, shard->counters.get(), 1);
		shard->counters_clear = true;
	}
}

/* Begins to count, from zero. */
void
Engine::reset_counters()
{
	clear_counters();
	for (auto &shard : shards)
		shard->counters_clear = false;
}

/* Begins to copy a pass's counters to the host. */
void
Engine::copy_counters(int place)
{
	for (auto &shard : shards)
		shard->send_counters(place);
}

/* Waits until the counters are here. */
void
Engine::await_counters(int place)
{
	/* polls them in turn: if one has failed, others may wait for it for ever */
	for (int tries = 0, done = false; !done; tries++)
	{
		done = true;
		for (auto &shard : shards)
			done = shard->has_counters(place) && done;
		if (!done)
			pause_between_looks(tries);
	}
	for (auto &shard : shards)
		shard->result = &shard->counters_at(place);
}

/* Copies a pass's counters to the host. */
void
Engine::read_counters()
{
	copy_counters(0);
	await_counters(0);
}

/* The number of integers in the sums of the clusters. */
int64_t
Engine::sum_count() const
{
	return shards[0]->centroids.count * (dimension + 1) * (grid.wide ? 2 : 1);
}

/* The sums over all rows, on a device. */
int64_t *
Engine::final_sums(Shard &shard) const
{
	return shards.size() > 1 ? shard.totals.get() : shard.sums.get();
}

/* The greatest whole number that 16 bits have with all below it, and that of an origin. */
#define GREATEST_WHOLE 2048.0
#define GREATEST_ORIGIN 1e6

/*
 * Where rows are small whole numbers, makes the origin of the filter such a one too, so that
 * nothing is rounded.  Returns an upper bound of the norms of the rows less the origin; 0: there
 * are other rows, and the origin stays.
 */
double
Engine::round_origin(std::vector<double> *origin) const
{
	double		norm2 = 0.0;

	for (int j = 0; j < dimension && !whole_range.empty(); j++)
	{
		double		middle = std::rint((*origin)[j]);
		double		most = std::max(std::fabs(whole_range[j] - middle),
									std::fabs(whole_range[dimension + j] - middle));

		/* also if it is no number */
		if (!(most <= GREATEST_WHOLE && std::fabs(middle) <= GREATEST_ORIGIN))
			return 0.0;
		norm2 += most * most;
	}
	for (int j = 0; j < dimension && norm2 > 0.0; j++)
		(*origin)[j] = std::rint((*origin)[j]);
	return std::sqrt(norm2) * (1.0 + 0x1p-40);
}

/* GK_GRID: the grid of the sums, and the origin of the filter. */
void
Engine::set_grid(GkCommand *c)
{
	std::vector<double> scales(dimension + 1);
	std::vector<double> origin(c->grid.origin, c->grid.origin + dimension);
	double		whole_norm = round_origin(&origin);

	for (int j = 0; j <= dimension; j++)
		scales[j] = gk_power_of_two(c->grid.exponents[j]);
	grid.wide = c->grid.wide;
	grid.rest_bits = c->grid.rest_bits;
	sums_valid = false;
	for (auto &shard : shards)
	{
		shard->grid_scales.reserve(*shard, dimension + 1);
		shard->grid_exponents.reserve(*shard, dimension + 1);
		shard->grid_origin.reserve(*shard, dimension);
		to_device(*shard, shard->grid_scales.get(), scales.data(), dimension + 1);
		to_device(*shard, shard->grid_exponents.get(), c->grid.exponents, dimension + 1);
		to_device(*shard, shard->grid_origin.get(), c->grid.origin, dimension);
		set_origin(*shard, origin.data(), whole_norm);
		shard->wait();
	}
}

/* Prepares the regions of centroids that have moved or not. */
void
Engine::prepare_regions_of(Shard &shard, Moved moved)
{
	int64_t		k = shard.centroids.count;

	if (!shard.centroids.narrow)
		prepare_regions(shard, filter_rows(k), filter_seconds(shard, k), moved);
}

/* Prepares what rows are compared with. */
void
Engine::prepare_comparison(Shard &shard)
{
	prepare_regions_of(shard, shard.centroids.prepared ? Moved::NO : Moved::YES);
	prepare_centroids(shard, shard.centroids);
}

/* Prepares the sums of the clusters, cleared if `all` rows are to be summed, and the filter. */
void
Engine::prepare_step(int64_t k, bool all)
{
	bool		several = shards.size() > 1;

	prepare_filter(k, shards[0]->centroids.narrow, false);
	for (auto &shard : shards)
	{
		shard->sums.reserve(*shard, sum_count());
		if (several)
			shard->totals.reserve(*shard, sum_count());
		if (all)
			zero(*shard, shard->sums.get(), sum_count());
		if (shard->rows > 0)
			prepare_comparison(*shard);
	}
	reset_counters();
	sums_valid = false;
}

/* Begins labels and sums of a slice; `all`: of all its rows, not only of those that moved. */
void
Engine::begin_labels(Shard &shard, const Slice &slice, bool all)
{
	if (shard.centroids.narrow)
		narrow_step(shard, slice, shard.centroids, grid, all);
	else
		begin_filter(shard, slice, shard.centroids, true);
}

/* Ends them. */
void
Engine::end_labels(Shard &shard, const Slice &slice, bool all)
{
	if (shard.centroids.narrow)
		return;
	end_filter(shard, slice, shard.centroids, true);
	sum_slice(shard, slice, grid, shard.centroids.count, all);
}

/* Finds the regions of a shard's rows, if it has any, and all rows are in device memory. */
void
Engine::place_rows(Shard &shard)
{
	Regions    &regions = shard.regions;

	if (!has_regions(shard, shard.centroids) || regions.placed || shard.resident < shard.rows)
		return;
	for (int64_t from = 0; from < shard.rows;)
	{
		Slice		slice = shard.start_slice(from, filter_rows(shard.centroids.count));

		place_slice(shard, slice);
		shard.finish_slice(slice, false);
		from += slice.rows;
	}
	regions.placed = true;
}

/*
 * Prepares what steps need, so that the first takes no longer: memory, bounds and regions of the
 * rows, and the kernels, which CUDA loads when they first run, here on no rows.
 */
void
Engine::prepare_first_step(int64_t k)
{
	prepare_step(k, true);
	for (auto &shard : shards)
	{
		Slice		none = {};

		if (shard->rows == 0)
			continue;
		shard->use();
		place_rows(*shard);
		begin_labels(*shard, none, true);
		end_labels(*shard, none, true);
		load_finish();
		shard->send_counters(0);
	}
	prepare_relocation(k);
}

/* GK_CENTROIDS: sets them, forgets the labels. */
void
Engine::set_centroids(GkCommand *c)
{
	int64_t		k = c->centroids.k;

	if (k < 1 || k > GK_MAX_CLUSTERS)
		fail(GK_LIMIT, "GK_CENTROIDS", "too many clusters");
	spherical = c->centroids.spherical;
	sums_valid = false;
	updated = true;
	timer.reset();
	for (auto &shard : shards)
	{
		/* made by seeding, with fewer centroids and thus larger slices */
		shard->candidates.release();
		if (shard->rows > KEPT_HASHES)
			shard->drop_hash_heads();
		reuse_regions(*shard, k);
		release_filter(*shard, filter_rows(k));
		reserve_centroids(*shard, shard->centroids, k);
		shard->shifts.reserve(*shard, 2 * k);
		to_device(*shard, shard->centroids.exact.get(), c->centroids.centroids, k * dimension);
		shard->need_labels();
		shard->use();
		GK_CUDA(cudaMemsetAsync(shard->labels.get(), 0xff, shard->rows * sizeof(int32_t),
								shard->device->compute));
	}
	if (k > 1 && shards[0]->grid_scales.get() != nullptr)
		prepare_first_step(k);
	for (auto &shard : shards)
		shard->wait();
}

/* Gives the sums of a step to the caller, and sets them to 0. */
void
Engine::give_sums(GkCommand *c)
{
	to_host(*shards[0], c->step.sums, (const int64_t *) final_sums(*shards[0]), sum_count());
	for (auto &shard : shards)
		zero(*shard, shard->sums.get(), sum_count());
}

/* Tells the caller which clusters are empty. */
void
Engine::give_empty(GkCommand *c)
{
	int64_t		k = shards[0]->centroids.count;
	Shard	   &shard = *shards[0];

	shard.use();
	shard.scratch.reserve(shard, k);
	mark_empty(shard, grid, final_sums(shard), k, (uint8_t *) shard.scratch.get());
	to_host(shard, c->step.is_empty, (const uint8_t *) shard.scratch.get(), k);
}

/*
 * Enqueues the update of a step, and what the next step needs, of the new centroids and otherwise:
 * the devices prepare that while the caller looks at this one.
 */
void
Engine::enqueue_update(const GkCommand *c, int place)
{
	StepEnd		end = {spherical, false, c->step.more > 0 ? c->step.tolerance : 0.0};

	for (auto &shard : shards)
	{
		bool		measured = false;

		/* a shard without rows has no origin */
		if (shard->centroids.narrow && shard->rows > 0)
			end_narrow_step(*shard, grid, final_sums(*shard), end, shard->device_place(place));
		else
			measured = finish_step(*shard, grid, final_sums(*shard), end,
								   shard->device_place(place));
		shard->mark_counters(place);
		if (shard->centroids.narrow || shard->rows == 0)
			continue;
		bound_centroids(*shard, shard->centroids);
		prepare_regions_of(*shard, measured ? Moved::MEASURED : Moved::YES);
	}
}

/* Enqueues an iteration, whose counters go to a place. */
void
Engine::enqueue_step(const GkCommand *c, int place)
{
	int64_t		k = shards[0]->centroids.count;
	bool		give = c->step.sums != nullptr;
	bool		all = !sums_valid || sums_given != give || (give && !c->step.changes);

	prepare_step(k, all);
	walk("assign and sum", 0, rows, step_rows(), false,
		 [&](Shard &shard, const Slice &slice) { begin_labels(shard, slice, all); },
		 [&](Shard &shard, const Slice &slice) { end_labels(shard, slice, all); });
	if (shards.size() > 1)
	{
		summing = true;
		reduce_sums(shards, sum_count());
	}
	if (give)
		copy_counters(place);
	else
		enqueue_update(c, place);
	sums_valid = true;
	sums_given = give;
}

/* Waits for an iteration that was not to follow; it has changed nothing unless centroids rest. */
void
Engine::leave_behind(const GkCommand *c, int place)
{
	await_counters(place);
	/* its labels are newer than the centroids */
	if (c->step.changed > 0 && c->step.empty == 0)
		sums_valid = updated = false;
}

/* Takes in what an iteration came to; true if none may follow. */
bool
Engine::end_step(GkCommand *c, int place)
{
	await_counters(place);
	for (auto &shard : shards)
		judge_regions(*shard);
	c->step.changed = 0;
	for (auto &shard : shards)
		c->step.changed += shard->result->changed;
	c->step.empty = shards[0]->result->empty;
	c->step.shift2 = c->step.empty > 0 ? 0.0 : shards[0]->result->shift2;
	c->step.between = c->step.empty > 0 ? 0.0 : shards[0]->result->between;
	updated = c->step.sums == nullptr && c->step.empty == 0;
	return c->step.changed == 0 || c->step.empty > 0 ||
		(c->step.tolerance > 0.0 && c->step.shift2 <= c->step.tolerance);
}

/*
 * True if an iteration may begin before the one before it is known not to be the last.  If it was,
 * because no label changed or a cluster is empty, another one changes nothing.  But after an update
 * that is not that of the sums, labels may stay and centroids move.
 */
bool
Engine::may_step_ahead(const GkCommand *c) const
{
	double		seconds = timer.seconds();

	if (seconds == 0.0)
		for (const auto &shard : shards)
			seconds = std::max(seconds, (double) shard->rows *
							   filter_seconds(*shard, shard->centroids.count));
	return updated && c->step.more > 0 && seconds <= STEP_AHEAD_SECONDS;
}

/*
 * GK_STEP: assign, sum, and unless a cluster is empty or sums are asked for, new centroids; as
 * often as is asked for and takes little time.
 */
void
Engine::step(GkCommand *c)
{
	auto		begun = StepTimer::Clock::now();
	auto		last = begun + STEPS_TOGETHER;
	int64_t		most = 1 + c->step.more;
	int64_t		enqueued = 0;
	bool		ended = false;

	for (auto &shard : shards)
		if (c->step.more > 0 && c->step.tolerance > 0.0)
			zero(*shard, shard->resting.get(), 1);
	for (c->step.earlier = 0;; c->step.earlier++)
	{
		int64_t		under_way = may_step_ahead(c) ? STEPS_UNDER_WAY : 1;

		for (; enqueued < std::min(c->step.earlier + under_way, most); enqueued++)
			enqueue_step(c, (int) (enqueued % STEPS_UNDER_WAY));
		timer.sleep(begun, std::chrono::seconds(1));
		ended = end_step(c, (int) (c->step.earlier % STEPS_UNDER_WAY));
		timer.note(begun);
		begun = StepTimer::Clock::now();
		if (begun > last)
			most = enqueued;
		if (ended || c->step.earlier + 1 == most)
			break;
		c->step.iterated[c->step.earlier] = {c->step.changed, c->step.shift2, c->step.between};
	}
	if (c->step.earlier + 1 < enqueued)
		leave_behind(c, (int) ((c->step.earlier + 1) % STEPS_UNDER_WAY));
	summing = false;
	if (c->step.sums != nullptr)
		give_sums(c);
	else if (c->step.empty > 0 && c->step.is_empty != nullptr)
		give_empty(c);
}

/* GK_MOVE: new centroids from elsewhere; labels and sums stay. */
void
Engine::move_centroids(GkCommand *c)
{
	for (auto &shard : shards)
	{
		to_device(*shard, shard->centroids.exact.get(), c->move.centroids,
				  shard->centroids.count * dimension);
		shard->centroids.prepared = false;
	}
	for (auto &shard : shards)
		shard->wait();
}

/* Rows that move between clusters, in the scratch memory of a device. */
struct MovedRows
{
	float	   *features;
	double	   *weights;
	int32_t    *labels;
	int64_t    *clusters;
};

/* Where so many such rows are. */
static MovedRows
moved_rows(Shard &shard, int64_t count)
{
	MovedRows	moved = {};
	Scratch		plan;

	for (int pass = 0; pass < 2; pass++)
	{
		plan.used = 0;
		moved.features = plan.take<float>(count * shard.dimension);
		moved.weights = plan.take<double>(count);
		moved.labels = plan.take<int32_t>(count);
		moved.clusters = plan.take<int64_t>(count);
		shard.scratch.reserve(shard, plan.used);
		plan.base = shard.scratch.get();
	}
	return moved;
}

/* How many rows of a relocation move at a time. */
int64_t
Engine::most_moved() const
{
	return std::max<int64_t>(MOVED_BYTES / (dimension * (int64_t) sizeof(float)), 16);
}

/* Brings some rows of a relocation to every device. */
void
Engine::bring_moved(const GkCommand *c, int64_t from, int64_t count)
{
	std::vector<float> features(count * dimension);
	std::vector<double> weights(count);
	std::vector<int32_t> labels(count);

	read_rows(c->relocate.rows + from, count, features.data(), weights.data());
	read_labels(c->relocate.rows + from, count, labels.data());
	for (auto &shard : shards)
	{
		MovedRows	moved = moved_rows(*shard, count);

		to_device(*shard, moved.features, features.data(), count * dimension);
		to_device(*shard, moved.weights, weights.data(), count);
		to_device(*shard, moved.labels, labels.data(), count);
		to_device(*shard, moved.clusters, c->relocate.clusters + from, count);
	}
	for (auto &shard : shards)
		shard->wait();
}

/*
 * Moves the rows of a relocation in the sums of every device, or (sign -1) back; with `there`, they
 * are still where they were brought to.
 */
void
Engine::move(const GkCommand *c, int sign, bool there)
{
	int64_t		most = most_moved();

	for (int64_t from = 0; from < c->relocate.count; from += most)
	{
		int64_t		count = std::min(most, c->relocate.count - from);

		if (!there)
			bring_moved(c, from, count);
		for (auto &shard : shards)
		{
			MovedRows	moved = moved_rows(*shard, count);

			shard->use();
			move_rows(*shard, grid, shard->centroids.count, final_sums(*shard), count,
					  moved.features, weighted ? moved.weights : nullptr, moved.labels,
					  moved.clusters, sign);
		}
	}
	for (auto &shard : shards)
		shard->wait();
}

/* GK_RELOCATE: the update of a step with empty clusters, with some rows moved to them. */
void
Engine::relocate(GkCommand *c)
{
	move(c, 1, false);
	reset_counters();
	for (auto &shard : shards)
	{
		finish_step(*shard, grid, final_sums(*shard), {spherical, true, 0.0},
					shard->device_place(0));
		shard->mark_counters(0);
	}
	await_counters(0);
	c->relocate.shift2 = shards[0]->result->shift2;
	c->relocate.between = shards[0]->result->between;
	move(c, -1, c->relocate.count <= most_moved());
}

/* GK_DISTANCES: d² to the centroid of the label. */
void
Engine::distances(GkCommand *)
{
	for (auto &shard : shards)
	{
		shard->need_labels();
		shard->need_distance2();
	}
	reset_counters();
	walk("distances", plain_rows(dimension * 12.0), [](Shard &shard, const Slice &slice)
		 { label_distances(shard, slice, shard.centroids, USE_DISTANCES, 0, false); });
	for (auto &shard : shards)
		shard->wait();
}

/* GK_ASSIGN: labels and d² with the centroids as they are. */
void
Engine::assign(GkCommand *c)
{
	int64_t		k = shards[0]->centroids.count;

	for (auto &shard : shards)
		shard->need_distance2();
	prepare_filter(k, shards[0]->centroids.narrow, true);
	for (auto &shard : shards)
		if (shard->rows > 0)
			prepare_comparison(*shard);
	reset_counters();
	sums_valid = false;
	walk("assign", filter_rows(k), [&](Shard &shard, const Slice &slice)
	{
		if (k > 1)
			filter_slice(shard, slice, shard.centroids, true);
		label_distances(shard, slice, shard.centroids, USE_ASSIGN, 0, false);
	});
	read_counters();
	for (auto &shard : shards)
		judge_regions(*shard);
	c->assign.changed = 0;
	c->assign.greatest = c->assign.greatest_distance = 0.0;
	for (auto &shard : shards)
	{
		c->assign.changed += shard->result->changed;
		c->assign.greatest = std::max(c->assign.greatest, from_bits(shard->result->greatest));
		c->assign.greatest_distance = std::max(c->assign.greatest_distance,
												 from_bits(shard->result->greatest_distance));
	}
}

/* GK_STATISTICS: for each cluster, from the labels and d² of GK_ASSIGN. */
void
Engine::statistics(GkCommand *c)
{
	int64_t		k = shards[0]->centroids.count;
	std::vector<int64_t> part(k * 8);
	StatisticsGrid scales;
	int			weight_exponent;

	to_host(*shards[0], &weight_exponent, shards[0]->grid_exponents.get() + dimension, 1);
	scales.weight_scale = gk_power_of_two(weight_exponent);
	scales.inertia_scale = gk_power_of_two(c->statistics.inertia_exponent);
	scales.distance_scale = gk_power_of_two(c->statistics.distance_exponent);
	scales.rest_scale = gk_power_of_two(c->statistics.rest_bits);
	for (auto &shard : shards)
	{
		shard->scratch.reserve(*shard, k * 8 * sizeof(int64_t));
		zero(*shard, (int64_t *) shard->scratch.get(), k * 8);
	}
	walk("statistics", plain_rows(16), [&](Shard &shard, const Slice &slice)
		 { statistics_slice(shard, slice, scales, (int64_t *) shard.scratch.get()); });
	memset(c->statistics.sizes, 0, k * sizeof(int64_t));
	memset(c->statistics.weights, 0, k * sizeof(GkSum));
	memset(c->statistics.inertia, 0, k * sizeof(GkSum));
	memset(c->statistics.distance, 0, k * sizeof(GkSum));
	memset(c->statistics.radius2, 0, k * sizeof(double));
	for (auto &shard : shards)
	{
		to_host(*shard, part.data(), (const int64_t *) shard->scratch.get(), k * 8);
		for (int64_t i = 0; i < k; i++)
		{
			const int64_t *from = &part[i * 7];

			c->statistics.sizes[i] += from[0];
			c->statistics.weights[i].high += from[1];
			c->statistics.weights[i].low += from[2];
			c->statistics.inertia[i].high += from[3];
			c->statistics.inertia[i].low += from[4];
			c->statistics.distance[i].high += from[5];
			c->statistics.distance[i].low += from[6];
			c->statistics.radius2[i] = std::max(c->statistics.radius2[i],
												  from_bits((unsigned long long) part[k * 7 + i]));
		}
	}
}

/* to += integers of a device, some milliseconds at a time. */
static void
add_from_device(Shard &shard, int64_t *to, const int64_t *from, int64_t count)
{
	const int64_t most = COPY_BYTES / sizeof(int64_t);
	std::vector<int64_t> part(std::min(count, most));

	for (int64_t at = 0; at < count; at += most)
	{
		int64_t		size = std::min(count - at, most);

		to_host(shard, part.data(), from + at, size);
		/* sums of squares wrap if their grid is too fine */
		for (int64_t i = 0; i < size; i++)
			to[at + i] = (int64_t) ((uint64_t) to[at + i] + (uint64_t) part[i]);
	}
}

/* GK_SQUARES: in the memory of the sums of a step, which are lost. */
void
Engine::squares(GkCommand *c)
{
	int64_t		k = shards[0]->centroids.count;
	int64_t		count = 2 * k * (dimension + 1);
	double		rest_scale = gk_power_of_two(c->squares.rest_bits);
	std::vector<double> scales(dimension + 1);

	for (int j = 0; j <= dimension; j++)
		scales[j] = gk_power_of_two(c->squares.exponents[j]);
	sums_valid = false;
	for (auto &shard : shards)
	{
		shard->scratch.reserve(*shard, scales.size() * sizeof(double));
		shard->sums.reserve(*shard, count);
		to_device(*shard, (double *) shard->scratch.get(), scales.data(), scales.size());
		zero(*shard, shard->sums.get(), count);
	}
	walk("squares", plain_rows(dimension * 16.0), [&](Shard &shard, const Slice &slice)
		 { square_slice(shard, slice, (const double *) shard.scratch.get(), rest_scale); });
	to_host(*shards[0], c->squares.sums, (const int64_t *) shards[0]->sums.get(), count);
	for (size_t s = 1; s < shards.size(); s++)
		add_from_device(*shards[s], c->squares.sums, shards[s]->sums.get(), count);
}

/* GK_GET_CENTROIDS: copies them out. */
void
Engine::get_centroids(GkCommand *c)
{
	Shard	   &shard = *shards[0];

	to_host(shard, c->get_centroids.centroids, (const double *) shard.centroids.exact.get(),
			shard.centroids.count * dimension);
}

}								/* namespace gk */
