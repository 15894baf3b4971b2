/*
 * The CUDA engine: opening and closing, its thread, the intake of rows, and the C boundary.
 */
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "cuda_engine.h"
#include "nccl.h"

namespace gk
{

/* Bytes that a device must have free at the beginning. */
#define LEAST_FREE (DRIVER_RESERVE + (UINT64_C(64) << 20))

/* Batches with fewer bytes in all are copied from unpinned memory: pinning takes longer. */
#define LEAST_PINNED (UINT64_C(2) << 20)

/* Bytes of the arena of a device. */
#define ARENA_BYTES (UINT64_C(4) << 20)

/* Rows that fetch_apart() copies at a time, and what it copies of each. */
#define FETCHED_ROWS INT64_C(16384)
#define FETCHED_BYTES (sizeof(double) + sizeof(int32_t))

/*
 * How long the engine's thread polls for the next command, and the caller for the end of one,
 * before they sleep: waking up takes 0.05 to 0.2 ms, a good part of an iteration.
 */
#define POLL_COMMAND std::chrono::microseconds(500)
#define POLL_END std::chrono::milliseconds(3)

/*
 * Steps shorter than this are waited for without sleep: waking up may take 0.1 ms.  For others, the
 * share that is slept through, up to a maximum: a command can be cancelled.
 */
#define LEAST_SLEPT INT64_C(400000)
#define SLEPT_SHARE 0.6
#define MOST_SLEPT std::chrono::milliseconds(5)

/* Notes how long a step has taken.  One that took longer may have been disturbed. */
void
StepTimer::note(Clock::time_point begun)
{
	int64_t		taken = std::chrono::nanoseconds(Clock::now() - begun).count();

	usual = usual == 0 ? taken : std::min(taken, usual + usual / 16);
}

/* Sleeps while a step goes on. */
void
StepTimer::sleep(Clock::time_point begun, std::chrono::nanoseconds most) const
{
	std::chrono::nanoseconds share((int64_t) (usual * SLEPT_SHARE));
	int64_t		left = (std::min<std::chrono::nanoseconds>({share, most, MOST_SLEPT}) -
						(Clock::now() - begun)).count();
	timespec	pause = {0, (long) left};

	if (usual >= LEAST_SLEPT && left > 0)
		nanosleep(&pause, nullptr);
}

/* Polls a condition for at most this long. */
template <typename F, typename D> static void
poll_until(F is_so, D most)
{
	auto		end = std::chrono::steady_clock::now() + most;

	while (!is_so() && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
}

/* Throws unless a device has enough free memory for what a fit needs besides its rows. */
static void
require_memory(const Device *device)
{
	size_t		free_bytes;
	size_t		total;

	GK_CUDA(cudaSetDevice(device->ordinal));
	GK_CUDA(cudaMemGetInfo(&free_bytes, &total));
	if (free_bytes < LEAST_FREE)
		fail_device_full(device->ordinal, LEAST_FREE);
}

/* Opens the devices and starts the thread. */
Engine::Engine(const GkEngineConfig &config) : weighted(config.weighted)
{
	SignalsBlocked blocked;
	std::vector<Device *> devices;
	int			visible = 0;
	int			count = config.device_count;

	check_context();
	GK_CUDA(cudaGetDeviceCount(&visible));
	if (visible == 0)
		fail(GK_NO_DEVICE, "cudaGetDeviceCount", "no GPU is visible");
	if (count == 0)
		count = std::min(visible, GK_MAX_DEVICES);
	if (config.host_memory_limit != 0)
		host.limit = config.host_memory_limit;
	host.draw = config.draw_host_memory;
	host.give_back = config.return_host_memory;
	for (int i = 0; i < count; i++)
	{
		devices.push_back(open_device(config.device_count == 0 ? i : config.devices[i]));
		require_memory(devices.back());
	}
	/* NCCL's memory is not available for rows */
	if (count > 1)
		open_reduce(devices);
	for (Device *device : devices)
	{
		shards.push_back(std::make_unique<Shard>(device, host, weighted,
												 config.device_memory_limit, stopping));
		shards.back()->arena.open(*shards.back(), ARENA_BYTES);
		shards.back()->counters.reserve(*shards.back(), 1);
		shards.back()->resting.reserve(*shards.back(), 1);
	}
	shard_ranges.resize(shards.size());
	if (count > 1)
		fetched = std::make_unique<PinnedBlock>(host, FETCHED_ROWS * FETCHED_BYTES);
	status = make_status(GK_OK, "", "");
	thread = std::thread([this] { run_commands(); });
}

/* Waits until the devices have finished; false if they have not after some seconds. */
bool
Engine::comes_to_rest() const
{
	for (int tries = 0; tries < 50000; tries++)
	{
		bool		busy = false;

		for (const auto &shard : shards)
			busy |= cudaStreamQuery(shard->device->compute) == cudaErrorNotReady;
		if (!busy)
			return true;
		pause_between_looks(tries);
	}
	return false;
}

/* Waits until the devices have finished their work or abandoned it. */
void
Engine::end_work()
{
	/* other devices may be waiting for one that has failed */
	if (summing && !comes_to_rest())
		abort_reduce(shards);
	summing = false;
	for (auto &shard : shards)
		(void) cudaStreamSynchronize(shard->device->compute);
}

/* Stops the thread and frees everything. */
Engine::~Engine()
{
	stopping.close();
	for (auto &shard : shards)
		shard->hurry(true);
	{
		std::lock_guard<std::mutex> lock(mutex);

		wanted.notify_all();
	}
	if (thread.joinable())
		thread.join();
	end_work();

	UnpinningHeld held;

	take_back_buffer();
	shards.clear();
}

/* Notes the memory of the batches, which is pinned once a source turns out to be large. */
void
Engine::lend_buffer(void *base, size_t bytes)
{
	take_back_buffer();
	lent = base;
	lent_bytes = bytes;
	/* all has been read: a command comes soon, and waking up takes 0.1 ms */
	if (base == nullptr)
		wake();
}

/* Wakes the thread before there is a command. */
void
Engine::wake()
{
	std::lock_guard<std::mutex> lock(mutex);

	woken = true;
	wanted.notify_all();
}

/* Pins the lent memory before a copy that is worth it; if that fails, copies take longer. */
void
Engine::pin_buffer(uint64_t copying)
{
	bool		is_first = copied < LEAST_PINNED;
	cudaError_t error;

	copied += copying;
	if (lent == nullptr || !is_first || copied < LEAST_PINNED)
		return;

	SignalsBlocked blocked;

	error = cudaHostRegister(lent, lent_bytes, cudaHostRegisterPortable);
	if (error == cudaErrorMemoryAllocation || error == cudaErrorNotSupported ||
		error == cudaErrorHostMemoryAlreadyRegistered || error == cudaErrorInvalidValue)
	{
		(void) cudaGetLastError();
		return;
	}
	check(error, "cudaHostRegister");
	is_pinned = true;
	pinned_peak = std::max<size_t>(pinned_peak, lent_bytes);
}

/* Waits for the copies out of the lent memory and unpins it. */
void
Engine::take_back_buffer()
{
	for (auto &shard : shards)
		(void) cudaStreamSynchronize(shard->device->copy);
	if (is_pinned)
		(void) cudaHostUnregister(lent);
	is_pinned = false;
	lent = nullptr;
	copied = 0;
}

/* Sets the number of features of a row. */
void
Engine::set_dimension(int d)
{
	if (d < 1 || d > GK_MAX_DIMENSION)
		fail(GK_LIMIT, "set_dimension", "too many features");
	dimension = d;
	for (auto &shard : shards)
		shard->set_dimension(d);
}

/* Copies a batch to the device that has the fewest rows. */
uint64_t
Engine::append(const GkBatch &batch)
{
	int			least = 0;
	int64_t		local;
	cudaEvent_t event;

	if (rows + batch.rows > GK_MAX_ROWS)
		fail(GK_LIMIT, "append", "too many rows");
	for (size_t i = 1; i < shards.size(); i++)
		if (shards[i]->rows < shards[least]->rows)
			least = (int) i;
	pin_buffer((uint64_t) batch.rows * dimension * sizeof(float));
	local = shards[least]->rows;
	event = batch.rows == 0 ? nullptr :
		shards[least]->append(batch.features, batch.weights, batch.rows);
	if (batch.rows > 0)
	{
		if (!ranges.empty() && ranges.back().shard == least)
			ranges.back().rows += batch.rows;
		else
			ranges.push_back(Range{least, rows, local, batch.rows});
	}
	rows += batch.rows;
	reading.push_back(Reading{++tickets, shards[least].get(), event});
	return tickets;
}

/* The greatest ticket up to which all batches' memory is free again. */
uint64_t
Engine::reclaim()
{
	while (!reading.empty())
	{
		cudaError_t error = cudaSuccess;

		if (reading.front().event != nullptr)
			error = cudaEventQuery(reading.front().event);
		if (error == cudaErrorNotReady)
			return reading.front().ticket - 1;
		check(error, "cudaEventQuery");
		if (reading.front().event != nullptr)
			reading.front().shard->recycle(reading.front().event);
		reading.pop_front();
	}
	return tickets;
}

/* Drops all rows. */
void
Engine::clear()
{
	for (auto &shard : shards)
		shard->clear();
	(void) reclaim();
	ranges.clear();
	for (auto &list : shard_ranges)
		list.clear();
	rows = 0;
	whole_range.clear();
	state = GkState{};
	sums_valid = false;
	for (auto &shard : shards)
	{
		shard->origin.release();
		shard->centroids.release();
		shard->candidates.release();
		shard->regions.release();
		shard->sums.release();
		shard->totals.release();
		shard->grid_scales.release();
		shard->grid_exponents.release();
		shard->grid_origin.release();
		shard->scratch.release();
	}
}

/* Waits for the transfers and makes the maps of row numbers. */
void
Engine::seal(GkCommand *c)
{
	for (auto &shard : shards)
	{
		shard->use();
		GK_CUDA(cudaStreamSynchronize(shard->device->copy));
	}
	for (auto &list : shard_ranges)
		list.clear();
	for (const Range &one : ranges)
		shard_ranges[one.shard].push_back(one);
	whole_range.clear();
	c->seal.rows = rows;
}

/* How many rows of a shard come before a row in append order. */
int64_t
Engine::local_end(int shard, int64_t row) const
{
	const std::vector<Range> &list = shard_ranges[shard];
	auto		after = std::lower_bound(list.begin(), list.end(), row,
										 [](const Range &one, int64_t r) { return one.first < r; });

	if (after == list.begin())
		return 0;
	after--;
	return after->local + std::min(after->rows, row - after->first);
}

/* The place in append order of a shard's row. */
int64_t
Engine::global_row(int shard, int64_t local) const
{
	const std::vector<Range> &list = shard_ranges[shard];
	auto		after = std::upper_bound(list.begin(), list.end(), local,
										 [](int64_t r, const Range &one) { return r < one.local; });

	after--;
	return after->first + (local - after->local);
}

/* The location of a row. */
const Range &
Engine::range_of(int64_t row) const
{
	auto		after = std::upper_bound(ranges.begin(), ranges.end(), row,
										 [](int64_t r, const Range &one) { return r < one.first; });

	return *(after - 1);
}

/* The status of an exception that is being handled. */
static GkStatus
status_of_exception()
{
	try
	{
		throw;
	}
	catch (const Failure &failure)
	{
		return failure.status;
	}
	catch (const Stopped &)
	{
		return make_status(GK_INTERNAL, "", "the engine is being closed");
	}
	catch (const std::bad_alloc &)
	{
		return make_status(GK_NO_HOST_MEMORY, "malloc", "out of memory");
	}
	catch (const std::system_error &)
	{
		return make_status(GK_NO_HOST_MEMORY, "pthread_create", "could not start a thread");
	}
	catch (const std::exception &error)
	{
		return make_status(GK_INTERNAL, "", error.what());
	}
	catch (...)
	{
		return make_status(GK_INTERNAL, "", "unknown exception");
	}
}

/* The name of each command for a profiler, and what runs it. */
const Engine::NamedCommand Engine::commands[GK_OPERATIONS] = {
	[GK_SEAL] = {"seal", &Engine::seal},
	[GK_RANGE] = {"range", &Engine::range},
	[GK_MOMENTS] = {"moments", &Engine::moments},
	[GK_TRANSFORM] = {"transform", &Engine::transform},
	[GK_GRID] = {"grid", &Engine::set_grid},
	[GK_CANDIDATES] = {"candidates", &Engine::run_candidates},
	[GK_POTENTIALS] = {"potentials", &Engine::potentials},
	[GK_MASSES] = {"masses", &Engine::masses},
	[GK_ENTRIES] = {"entries", &Engine::entries},
	[GK_DRAW] = {"draw", &Engine::draw},
	[GK_LABEL_WEIGHTS] = {"label weights", &Engine::label_weights},
	[GK_MERGE] = {"merge", &Engine::merge},
	[GK_ROWS] = {"rows", &Engine::get_rows},
	[GK_COMPARE] = {"compare", &Engine::compare},
	[GK_CENTROIDS] = {"set centroids", &Engine::set_centroids},
	[GK_STEP] = {"step", &Engine::step},
	[GK_MOVE] = {"move", &Engine::move_centroids},
	[GK_RELOCATE] = {"relocate", &Engine::relocate},
	[GK_DISTANCES] = {"distances", &Engine::distances},
	[GK_FARTHEST] = {"farthest", &Engine::farthest},
	[GK_ASSIGN] = {"assign", &Engine::assign},
	[GK_STATISTICS] = {"statistics", &Engine::statistics},
	[GK_SQUARES] = {"squares", &Engine::squares},
	[GK_SEPARATION] = {"separation", &Engine::separate},
	[GK_GET_CENTROIDS] = {"get centroids", &Engine::get_centroids}
};

/* After a stop planned by a test: does what closing does, and keeps the engine usable. */
void
Engine::outlive_stop()
{
	for (auto &shard : shards)
		shard->hurry(true);
	end_work();
	for (auto &shard : shards)
		shard->hurry(stopping.is_closing());
}

/* Runs a command and returns its status. */
GkStatus
Engine::run_one(GkCommand *c)
{
	ProfileRange range(commands[c->operation].name);
	int64_t		centroids = state.centroids;

	try
	{
		check_context();
		if (!gk_can_run(&state, c))
			fail(GK_INTERNAL, "submit", "a command needs data that does not exist");
		gk_forget(&state, c);
		for (auto &shard : shards)
			shard->counters_clear &= c->operation == GK_STEP;
		updated &= c->operation == GK_STEP;
		(this->*commands[c->operation].run) (c);
		gk_note(&state, c, centroids);
		return make_status(GK_OK, "", "");
	}
	catch (...)
	{
		GkStatus	ended = status_of_exception();

		sums_valid = state.given = updated = false;
		if (stopping.is_planned())
			outlive_stop();
		return ended;
	}
}

/* The thread: waits for a command, runs it. */
void
Engine::run_commands()
{
	std::unique_lock<std::mutex> lock(mutex);

	/* pause_between_looks() would otherwise sleep 50 µs longer than it asks for */
	(void) prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	while (!stopping.is_closing())
	{
		GkCommand  *now = command;
		GkStatus	ended;

		if (now == nullptr)
		{
			/* the next command often comes at once */
			lock.unlock();
			poll_until([this] { return !idle || stopping.is_closing(); }, POLL_COMMAND);
			lock.lock();
			wanted.wait(lock, [this]
						{ return command != nullptr || woken || stopping.is_closing(); });
			woken = false;
			continue;
		}
		lock.unlock();
		ended = run_one(now);
		lock.lock();
		status = ended;
		command = nullptr;
		idle = true;
		finished.notify_all();
	}
}

/* Starts a command. */
void
Engine::submit(GkCommand *c)
{
	std::lock_guard<std::mutex> lock(mutex);

	if (command != nullptr)
		fail(GK_INTERNAL, "submit", "a command is running");
	command = c;
	idle = false;
	stepping = c->operation == GK_STEP;
	submitted = StepTimer::Clock::now();
	wanted.notify_all();
}

/* Waits at most this long for the command. */
GkStatus
Engine::wait(int milliseconds)
{
	std::unique_lock<std::mutex> lock(mutex, std::defer_lock);

	if (stepping && !idle)
		timer.sleep(submitted, std::chrono::milliseconds(milliseconds));
	/* most steps end while this polls */
	poll_until([this] { return idle.load(); },
			   std::min(POLL_END, std::chrono::milliseconds(milliseconds)));
	lock.lock();
	if (!idle)
		finished.wait_for(lock, std::chrono::milliseconds(milliseconds),
						  [this] { return idle.load(); });
	return idle ? status : make_status(GK_RUNNING, "", "");
}

/* Begins to copy labels and d² of rows of a shard; it may have none yet. */
static void
copy_state(const Shard &shard, int64_t first, int64_t count, int32_t *labels, double *distance2)
{
	cudaStream_t stream = shard.device->compute;

	shard.use();
	if (labels != nullptr && shard.labels.get() != nullptr)
		GK_CUDA(cudaMemcpyAsync(labels, shard.labels.get() + first, count * sizeof(int32_t),
								cudaMemcpyDeviceToHost, stream));
	else if (labels != nullptr)
		memset(labels, 0xff, count * sizeof(int32_t));
	if (distance2 != nullptr && shard.distance2.get() != nullptr)
		GK_CUDA(cudaMemcpyAsync(distance2, shard.distance2.get() + first, count * sizeof(double),
								cudaMemcpyDeviceToHost, stream));
	else if (distance2 != nullptr)
		memset(distance2, 0, count * sizeof(double));
}

/* Waits for the copies of all shards. */
void
Engine::await_copies()
{
	for (auto &shard : shards)
	{
		shard->use();
		GK_CUDA(cudaStreamSynchronize(shard->device->compute));
	}
}

/*
 * Copies labels and d² of at most FETCHED_ROWS rows of several shards.  Those of a shard lie side
 * by side on its device: one copy brings them here, however many ranges they are.
 */
void
Engine::fetch_apart(int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	double	   *all_distance2 = (double *) fetched->data;
	int32_t    *all_labels = (int32_t *) (all_distance2 + FETCHED_ROWS);
	std::vector<int64_t> parts(shards.size());
	std::vector<int64_t> next(shards.size());
	int64_t		place = 0;

	for_ranges(from, count, [&](int i, int64_t first, int64_t, int64_t part)
	{
		if (parts[i] == 0)
			next[i] = first;
		parts[i] += part;
	});
	for (size_t i = 0; i < shards.size(); i++)
	{
		if (parts[i] > 0)
			copy_state(*shards[i], next[i], parts[i],
					   labels == nullptr ? nullptr : all_labels + place,
					   distance2 == nullptr ? nullptr : all_distance2 + place);
		next[i] = place;
		place += parts[i];
	}
	await_copies();
	for_ranges(from, count, [&](int i, int64_t, int64_t at, int64_t part)
	{
		if (labels != nullptr)
			memcpy(labels + at, all_labels + next[i], part * sizeof(int32_t));
		if (distance2 != nullptr)
			memcpy(distance2 + at, all_distance2 + next[i], part * sizeof(double));
		next[i] += part;
	});
}

/* Copies labels and d² of rows. */
void
Engine::fetch(int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	check_context();
	if (from < 0 || count < 0 || count > rows - from)
		fail(GK_INTERNAL, "fetch", "no such rows");
	if (shards.size() == 1)
	{
		copy_state(*shards[0], from, count, labels, distance2);
		await_copies();
		return;
	}
	for (int64_t at = 0; at < count; at += FETCHED_ROWS)
		fetch_apart(from + at, std::min(FETCHED_ROWS, count - at),
					labels == nullptr ? nullptr : labels + at,
					distance2 == nullptr ? nullptr : distance2 + at);
}

/* Counts the memory. */
void
Engine::usage(GkUsage *usage) const
{
	memset(usage, 0, sizeof(*usage));
	usage->host_bytes = host.used;
	usage->host_peak = host.peak;
	usage->pinned_bytes = host.used + (is_pinned ? lent_bytes : 0);
	usage->pinned_peak = host.peak + pinned_peak;
	for (const auto &shard : shards)
	{
		usage->device_bytes += shard->account.used;
		usage->device_peak += shard->account.peak;
		usage->device[usage->devices++] = GkDeviceUsage{shard->device->ordinal,
														shard->account.used, shard->account.peak};
	}
	usage->threads = 1;
}

/* The engine as C sees it. */
struct Handle
{
	GkEngine	base;
	Engine	   *engine;
};

/* Calls a function; an exception becomes the status. */
template <typename F> static GkStatus
guarded(F function)
{
	try
	{
		function();
		return make_status(GK_OK, "", "");
	}
	catch (...)
	{
		return status_of_exception();
	}
}

/* The engine behind C's pointer. */
static Engine &
engine_of(GkEngine *engine)
{
	return *((Handle *) engine)->engine;
}

/* Opens an engine; NULL if that fails. */
static GkStatus
cuda_open(const GkEngineConfig *config, GkEngine **engine)
{
	*engine = nullptr;
	return guarded([&]
	{
		auto		handle = std::make_unique<Handle>();

		handle->base.class_of = gk_cuda_engine();
		handle->engine = new Engine(*config);
		*engine = &handle.release()->base;
	});
}

/* Lends the memory that batches will lie in. */
static GkStatus
cuda_lend_buffer(GkEngine *engine, void *base, size_t bytes)
{
	return guarded([&] { engine_of(engine).lend_buffer(base, bytes); });
}

/* Sets the number of features of a row. */
static GkStatus
cuda_set_dimension(GkEngine *engine, int dimension)
{
	return guarded([&] { engine_of(engine).set_dimension(dimension); });
}

/* Takes a batch of rows. */
static GkStatus
cuda_append(GkEngine *engine, const GkBatch *batch, uint64_t *ticket)
{
	return guarded([&] { *ticket = engine_of(engine).append(*batch); });
}

/* Reports which batches' memory is free again. */
static GkStatus
cuda_reclaim(GkEngine *engine, uint64_t *ticket)
{
	return guarded([&] { *ticket = engine_of(engine).reclaim(); });
}

/* Drops all rows. */
static GkStatus
cuda_clear(GkEngine *engine)
{
	return guarded([&] { engine_of(engine).clear(); });
}

/* Starts a command. */
static GkStatus
cuda_submit(GkEngine *engine, GkCommand *command)
{
	return guarded([&] { engine_of(engine).submit(command); });
}

/* Waits for the command; returns its status, or that it is still running. */
static GkStatus
cuda_wait(GkEngine *engine, int milliseconds)
{
	GkStatus	status;
	GkStatus	outer = guarded([&] { status = engine_of(engine).wait(milliseconds); });

	return outer.code == GK_OK ? status : outer;
}

/* Copies labels and d² of rows. */
static GkStatus
cuda_fetch(GkEngine *engine, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	return guarded([&] { engine_of(engine).fetch(from, count, labels, distance2); });
}

/* Reports the engine's memory. */
static void
cuda_usage(const GkEngine *engine, GkUsage *usage)
{
	((const Handle *) engine)->engine->usage(usage);
}

/* Describes a device by what stays the same. */
static GkDevice
describe_device(int ordinal)
{
	GkDevice	device = {};
	cudaDeviceProp property;
	Speed		speed = speed_of(ordinal);

	GK_CUDA(cudaGetDeviceProperties(&property, ordinal));
	device.number = ordinal;
	snprintf(device.name, sizeof(device.name), "%.63s", property.name);
	device.major = property.major;
	device.minor = property.minor;
	device.total_bytes = property.totalGlobalMem;
	device.flops = speed.flops;
	device.bandwidth = speed.bandwidth;
	return device;
}

/* The descriptions of all devices, made once: each takes a millisecond. */
static const std::vector<GkDevice> &
describe_devices()
{
	static std::mutex mutex;
	static auto &described = *new std::vector<GkDevice>;
	std::lock_guard<std::mutex> lock(mutex);
	int			count = 0;

	GK_CUDA(cudaGetDeviceCount(&count));
	while ((int) described.size() < count)
		described.push_back(describe_device((int) described.size()));
	return described;
}

/* Lists the devices without opening them. */
static void
list_devices(GkDevice *devices, int capacity, int *count)
{
	SignalsBlocked blocked;

	*count = 0;
	check_context();
	for (const GkDevice &described : describe_devices())
	{
		Device	   *open = find_device(described.number);
		int			at = (*count)++;

		if (at >= capacity)
			continue;
		devices[at] = described;
		if (open != nullptr)
		{
			size_t		free_bytes;
			size_t		total;

			GK_CUDA(cudaSetDevice(described.number));
			GK_CUDA(cudaMemGetInfo(&free_bytes, &total));
			devices[at].free_bytes = free_bytes;
			devices[at].own_bytes = open->own_bytes;
			devices[at].open = true;
		}
	}
}

/* Lists the devices. */
static GkStatus
cuda_list_devices(GkDevice *devices, int capacity, int *count)
{
	return guarded([&] { list_devices(devices, capacity, count); });
}

/* Releases what the process keeps between engines. */
static void
cuda_release_process(void)
{
	(void) guarded([] { close_reduce(); });
	(void) guarded([] { close_devices(); });
}

/* Closes an engine. */
static void
cuda_close(GkEngine *engine)
{
	Handle	   *handle = (Handle *) engine;

	if (handle == nullptr)
		return;
	(void) guarded([&] { delete handle->engine; });
	delete handle;
}

}								/* namespace gk */

/*
 * For tests: check number `look` from now on for the engine being closed, and those after it,
 * answer yes; 0 cancels the plan.  Returns how many checks an earlier plan was still waiting
 * for, 0 if it has stopped a command.
 */
extern "C" __attribute__((visibility("default"))) int64_t
gk_cuda_stop(GkEngine *engine, int64_t look)
{
	return gk::engine_of(engine).plan_stop(look);
}

/* The class of the CUDA engine; the library's entry point. */
extern "C" __attribute__((visibility("default"))) const GkEngineClass *
gk_cuda_engine(void)
{
	static const GkEngineClass class_of = {
		GK_ENGINE_INTERFACE, "cuda", gk::cuda_open, gk::cuda_lend_buffer,
		gk::cuda_set_dimension, gk::cuda_append, gk::cuda_reclaim, gk::cuda_clear,
		gk::cuda_submit, gk::cuda_wait, gk::cuda_fetch, gk::cuda_usage, gk::cuda_close,
		gk::cuda_list_devices, gk::cuda_release_process, nullptr
	};

	return &class_of;
}
