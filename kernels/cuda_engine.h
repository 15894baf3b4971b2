/*
 * The CUDA engine: rows on the devices, one thread that runs the commands.
 */
#ifndef GK_CUDA_ENGINE_H
#define GK_CUDA_ENGINE_H

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/launch.h"
#include "engine_state.h"
#include "pinned.h"
#include "profile.h"
#include "regions.h"

namespace gk
{

/* Rows that follow each other in append order and in a shard. */
struct Range
{
	int			shard;
	int64_t		first;			/* in append order */
	int64_t		local;			/* in the shard */
	int64_t		rows;
};

struct SeparationPart;
struct Draw;

/*
 * About how long steps take, for the threads that wait for one: they sleep through most of it.
 * A thread that polls all the time loses its processor for milliseconds where others want one.
 */
class StepTimer
{
public:
	using Clock = std::chrono::steady_clock;

	/* Steps will take another time. */
	void		reset() { usual = 0; }

	/* How long one usually takes, in seconds; 0 = unknown. */
	double		seconds() const { return usual * 1e-9; }

	/* Notes that a step has ended that began then. */
	void		note(Clock::time_point begun);

	/* Sleeps until a step that began then may end soon, but at most so long. */
	void		sleep(Clock::time_point begun, std::chrono::nanoseconds most) const;

private:
	std::atomic<int64_t> usual{0};	/* nanoseconds; 0 = unknown */
};

/* An engine: its shards, its thread, its command. */
class Engine
{
public:
	explicit Engine(const GkEngineConfig &config);
	~Engine();

	void		lend_buffer(void *base, size_t bytes);
	void		set_dimension(int d);
	uint64_t	append(const GkBatch &batch);
	uint64_t	reclaim();
	void		clear();
	void		submit(GkCommand *command);
	GkStatus	wait(int milliseconds);
	void		fetch(int64_t from, int64_t count, int32_t *labels, double *distance2);
	void		usage(GkUsage *usage) const;
	int64_t		plan_stop(int64_t look) { return stopping.plan(look); }

private:
	/* cuda_engine.cpp */
	struct NamedCommand
	{
		const char *name;
		void		(Engine::*run) (GkCommand *c);
	};
	static const NamedCommand commands[];

	void		wake();
	void		pin_buffer(uint64_t copying);
	void		take_back_buffer();
	bool		comes_to_rest() const;
	void		end_work();
	void		outlive_stop();
	void		run_commands();
	GkStatus	run_one(GkCommand *command);
	void		seal(GkCommand *c);
	int64_t		local_end(int shard, int64_t row) const;
	int64_t		global_row(int shard, int64_t local) const;
	const Range &range_of(int64_t row) const;
	template <typename F> void for_ranges(int64_t from, int64_t count, F f);
	void		fetch_apart(int64_t from, int64_t count, int32_t *labels, double *distance2);
	void		await_copies();

	/* commands_data.cpp */
	void		range(GkCommand *c);
	void		moments(GkCommand *c);
	void		transform(GkCommand *c);
	void		get_rows(GkCommand *c);
	void		read_rows(const int64_t *rows, int64_t count, float *features, double *weights);
	void		read_labels(const int64_t *rows, int64_t count, int32_t *labels);

	/* commands_seed.cpp */
	int64_t		most_candidates() const;
	double		compare_candidates(int64_t total, int64_t first,
								   const std::function<void(Shard &, int64_t, int64_t)> &fill,
								   const std::function<void(int64_t, int64_t)> &begun);
	void		run_candidates(GkCommand *c);
	void		potentials(GkCommand *c);
	void		masses(GkCommand *c);
	void		entries(GkCommand *c);
	void		label_weights(GkCommand *c);
	void		farthest(GkCommand *c);
	std::vector<unsigned long long> histogram(const Digit &digit);
	bool		list(const Wanted &wanted, int64_t from, int64_t to, uint64_t capacity,
					 std::vector<GkEntry> *found, uint64_t *most);
	uint64_t	list_rows() const;
	int64_t		list_in_order(const Wanted &wanted, int64_t from, int64_t most,
							  std::vector<GkEntry> *found);
	Wanted		find_farthest(int64_t count, uint64_t capacity, int64_t *equal, Wanted *ties);
	void		prepare_relocation(int64_t k);

	/* draws.cpp */
	void		draw(GkCommand *c);
	bool		reserve_draw(Shard &shard, Draw *draw);
	void		begin_draw(const GkCommand *c, Shard &shard, const Draw &draw);
	void		begin_few(const GkCommand *c, Shard &shard, const Draw &draw);
	void		compare_drawn_few(GkCommand *c, Shard &shard, const Draw &draw);
	bool		prepare_drawn(Shard &shard, int64_t count, int64_t first_label);
	void		reserve_drawn(Shard &shard, int64_t count);
	void		keep_drawn(Shard &shard, const Draw &draw, int64_t first, int64_t found);
	void		compare_drawn(GkCommand *c, Shard &shard, const Draw &draw);

	/* ties.cpp */
	void		compare(GkCommand *c);
	void		compare_rows(const int64_t *rows, const int64_t *others, int64_t count,
							 int8_t *order);
	void		compare_with(const int64_t *rows, const std::vector<int64_t> &others,
							 const std::vector<int64_t> &which, int8_t *order);
	static void compare_for_ties(void *context, const int64_t *rows, const int64_t *others,
								 int64_t count, int8_t *order);
	void		order_farthest(std::vector<GkEntry> *found, int64_t most);
	void		take_ties(const Wanted &ties, int64_t most, uint64_t capacity,
						  std::vector<GkEntry> *found);

	/* commands_fit.cpp */
	void		set_grid(GkCommand *c);
	double		round_origin(std::vector<double> *origin) const;
	void		set_centroids(GkCommand *c);
	void		step(GkCommand *c);
	void		enqueue_step(const GkCommand *c, int place);
	bool		end_step(GkCommand *c, int place);
	bool		may_step_ahead(const GkCommand *c) const;
	void		leave_behind(const GkCommand *c, int place);
	void		prepare_step(int64_t k, bool all);
	void		place_rows(Shard &shard);
	void		prepare_first_step(int64_t k);
	void		begin_labels(Shard &shard, const Slice &slice, bool all);
	void		end_labels(Shard &shard, const Slice &slice, bool all);
	void		prepare_regions_of(Shard &shard, Moved moved);
	void		prepare_comparison(Shard &shard);
	void		enqueue_update(const GkCommand *c, int place);
	void		give_sums(GkCommand *c);
	void		give_empty(GkCommand *c);
	void		move_centroids(GkCommand *c);
	void		relocate(GkCommand *c);
	int64_t		most_moved() const;
	void		bring_moved(const GkCommand *c, int64_t from, int64_t count);
	void		move(const GkCommand *c, int sign, bool there);
	void		distances(GkCommand *c);
	void		assign(GkCommand *c);
	void		statistics(GkCommand *c);
	void		squares(GkCommand *c);
	void		get_centroids(GkCommand *c);
	void		prepare_filter(int64_t centroids, bool narrow, bool fresh);
	int64_t		filter_rows(int64_t centroids) const;
	int64_t		step_rows() const;
	void		reset_counters();
	void		clear_counters();
	void		copy_counters(int place);
	void		await_counters(int place);
	void		read_counters();
	int64_t    *final_sums(Shard &shard) const;
	int64_t		sum_count() const;

	/* merges.cpp */
	void		merge(GkCommand *c);

	/* separation.cpp */
	void		separate(GkCommand *c);
	void		compare_own(const GkCommand *c, std::vector<SeparationPart> &parts);

	template <typename F, typename G> void walk(const char *pass, int64_t from, int64_t to,
												int64_t slice_rows, bool write_back, F begin,
												G end);
	template <typename F> void walk(const char *pass, int64_t from, int64_t to,
									int64_t slice_rows, bool write_back, F f)
	{
		walk(pass, from, to, slice_rows, write_back, f, [](Shard &, const Slice &) {});
	}
	template <typename F> void walk(const char *pass, int64_t slice_rows, F f)
	{
		walk(pass, 0, rows, slice_rows, false, f);
	}
	int64_t		plain_rows(double bytes_a_row) const;
	template <typename T> void sum_scratch(uint64_t offset, T *sums, int64_t count);

	bool		weighted;
	int			dimension = 0;
	int64_t		rows = 0;
	StopFlag	stopping;
	Account		host;
	std::vector<std::unique_ptr<Shard>> shards;
	std::unique_ptr<PinnedBlock> fetched;	/* of several shards: where fetch_apart() copies to */
	std::vector<Range> ranges;
	std::vector<std::vector<Range>> shard_ranges;

	/* batches whose memory is still being read */
	struct Reading
	{
		uint64_t	ticket;
		Shard	   *shard;
		cudaEvent_t event;
	};
	uint64_t	tickets = 0;
	std::deque<Reading> reading;
	void	   *lent = nullptr;
	size_t		lent_bytes = 0;
	uint64_t	copied = 0;		/* bytes of batches since it was lent */
	std::atomic<bool> is_pinned{false};
	std::atomic<size_t> pinned_peak{0};

	/* the state of the algorithm */
	GkState		state = {};
	Grid		grid = {};
	std::vector<float> whole_range;	/* d least, d greatest values, if the rows are whole numbers */
	bool		spherical = false;
	bool		sums_valid = false;
	bool		sums_given = false;		/* they are less those that the caller has */
	bool		summing = false;		/* a sum over the devices may be in progress */
	bool		updated = false;		/* the centroids are those of the sums, or labels unknown */

	/* the command */
	std::mutex	mutex;
	std::condition_variable wanted;
	std::condition_variable finished;
	GkCommand  *command = nullptr;
	bool		woken = false;			/* a command will come soon */
	std::atomic<bool> idle{true};
	bool		stepping = false;		/* the command is a step … */
	StepTimer::Clock::time_point submitted;	/* … that began then */
	StepTimer	timer;
	GkStatus	status;
	std::thread thread;
};

/*
 * Runs f(shard, local, at, rows) for each range that has rows from .. from + count - 1 of append
 * order: its rows among these begin with row `local` of that shard, which is number `at` of the
 * count.
 */
template <typename F> void
Engine::for_ranges(int64_t from, int64_t count, F f)
{
	for (int64_t row = from; row < from + count;)
	{
		const Range &one = range_of(row);
		int64_t		part = std::min(from + count, one.first + one.rows) - row;

		f(one.shard, one.local + (row - one.first), row - from, part);
		row += part;
	}
}

/*
 * Runs begin(shard, slice) and end(shard, slice) over the rows from .. to - 1 of append order: on
 * all devices at once, each in the order of its rows.  begin() enqueues what takes longest: so no
 * device waits while all the work of another one is enqueued.
 */
template <typename F, typename G> void
Engine::walk(const char *pass, int64_t from, int64_t to, int64_t slice_rows, bool write_back,
			 F begin, G end)
{
	ProfileRange range(pass);
	std::vector<int64_t> next(shards.size());
	std::vector<int64_t> last(shards.size());
	std::vector<Slice> slices(shards.size());
	bool		more = true;

	for (size_t i = 0; i < shards.size(); i++)
	{
		next[i] = local_end((int) i, from);
		last[i] = local_end((int) i, to);
	}
	while (more)
	{
		more = false;
		for (size_t i = 0; i < shards.size(); i++)
		{
			slices[i].rows = 0;
			if (next[i] >= last[i])
				continue;
			if (stopping.is_set())
				throw Stopped{};
			slices[i] = shards[i]->start_slice(next[i], std::min(slice_rows, last[i] - next[i]));
			begin(*shards[i], slices[i]);
			next[i] += slices[i].rows;
			more = true;
		}
		for (size_t i = 0; i < shards.size(); i++)
			if (slices[i].rows > 0)
			{
				shards[i]->use();
				end(*shards[i], slices[i]);
				shards[i]->finish_slice(slices[i], write_back);
			}
	}
}

/* Bytes copied between checks for the engine being closed: some milliseconds. */
#define COPY_BYTES (UINT64_C(32) << 20)

/* A double from its bits. */
static inline double
from_bits(unsigned long long bits)
{
	double		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Copies to a device, in stream order. */
template <typename T> void
to_device(Shard &shard, T *to, const T *from, uint64_t count)
{
	uint64_t	most = COPY_BYTES / sizeof(T);

	shard.use();
	for (uint64_t at = 0; at < count; at += most)
	{
		shard.check_stop();
		GK_CUDA(cudaMemcpyAsync(to + at, from + at, std::min(most, count - at) * sizeof(T),
								cudaMemcpyHostToDevice, shard.device->compute));
	}
}

/* Copies from a device in stream order, and waits for the copy. */
template <typename T> void
to_host(Shard &shard, T *to, const T *from, uint64_t count)
{
	uint64_t	most = COPY_BYTES / sizeof(T);

	if (count * sizeof(T) <= STAGING_BYTES)
	{
		/* through page-locked memory: one wait instead of three */
		shard.check_stop();
		shard.use();
		GK_CUDA(cudaMemcpyAsync(shard.staging(), from, count * sizeof(T), cudaMemcpyDeviceToHost,
								shard.device->compute));
		shard.wait();
		memcpy((void *) to, shard.staging(), count * sizeof(T));
		return;
	}
	shard.wait();
	for (uint64_t at = 0; at < count; at += most)
	{
		shard.check_stop();
		GK_CUDA(cudaMemcpyAsync(to + at, from + at, std::min(most, count - at) * sizeof(T),
								cudaMemcpyDeviceToHost, shard.device->compute));
	}
	shard.wait();
}

/* Copies from a device while it computes, but after what let_copies_follow() came after. */
template <typename T> void
copy_beside(Shard &shard, T *to, const T *from, uint64_t count)
{
	shard.use();
	GK_CUDA(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDeviceToHost,
							shard.device->copy));
	GK_CUDA(cudaStreamSynchronize(shard.device->copy));
}

/* sums := Σ over the shards of `count` integers, from number `offset` on of their scratch memory */
template <typename T> void
Engine::sum_scratch(uint64_t offset, T *sums, int64_t count)
{
	std::vector<T> part(shards.size() > 1 ? count : 0);

	to_host(*shards[0], sums, (const T *) shards[0]->scratch.get() + offset, count);
	for (size_t s = 1; s < shards.size(); s++)
	{
		to_host(*shards[s], part.data(), (const T *) shards[s]->scratch.get() + offset, count);
		for (int64_t i = 0; i < count; i++)
			sums[i] += part[i];
	}
}

/* Zeroes memory of a device, in stream order. */
template <typename T> void
zero(Shard &shard, T *to, uint64_t count)
{
	shard.use();
	GK_CUDA(cudaMemsetAsync(to, 0, count * sizeof(T), shard.device->compute));
}

/* Allocates parts of a shard's scratch memory for a command, aligned to 16 bytes. */
class Scratch
{
public:
	template <typename T> T *take(uint64_t count)
	{
		T		   *part = (T *) (base == nullptr ? nullptr : base + used);

		used += (count * sizeof(T) + 15) / 16 * 16;
		return part;
	}

	char	   *base = nullptr;
	uint64_t	used = 0;
};

}								/* namespace gk */

#endif							/* GK_CUDA_ENGINE_H */
