/*
 * A shard: the intake of rows, spilling rows to the host, and slices.
 */
#include <algorithm>
#include <cstring>

#include <time.h>

#include "cuda/launch.h"

namespace gk
{

/* Plans which check from now on finds the engine closing; 0 cancels the plan. */
int64_t
StopFlag::plan(int64_t look)
{
	int64_t		left = looks.exchange(look);

	counting = look > 0;
	return std::max<int64_t>(left, 0);
}

/* Page-locked memory for rows, weights behind the features. */
Chunk::Chunk(Account &account, int64_t most, int dimension, bool weighted)
	: capacity(most), weights_at(((uint64_t) most * dimension * sizeof(float) + 15) / 16 * 16),
	  memory(account, weights_at + (weighted ? most * sizeof(double) : 0))
{
}

/* A device's share of an engine, without rows yet. */
Shard::Shard(Device *on, Account &host_account, bool with_weights, uint64_t limit,
			 StopFlag &stop)
	: weighted(with_weights), host(host_account), stopping(stop)
{
	size_t		free_bytes;
	size_t		total;

	device = on;
	account.device = on;
	use();
	GK_CUDA(cudaMemGetInfo(&free_bytes, &total));
	account.limit = free_bytes - std::min<uint64_t>(free_bytes, DRIVER_RESERVE);
	account.full = limit == 0 || limit >= account.limit;
	if (!account.full)
		account.limit = limit;
	for (int i = 0; i < 2; i++)
	{
		loaded[i] = new_event();
		done[i] = new_event();
	}
	for (cudaEvent_t &pace : paces)
		pace = new_event();
	for (cudaEvent_t &marker : markers)
		marker = new_event();
	forks = new_event();
	shared_block.reset(new PinnedBlock(host, sizeof(Shared)));
	result = shared()->counters;
	GK_CUDA(cudaHostGetDevicePointer((void **) &device_results, shared()->counters, 0));
	GK_CUDA(cudaHostGetDevicePointer((void **) &stop_flag, &shared()->stop, 0));
}

/* Waits for the device's work. */
Shard::~Shard()
{
	(void) cudaSetDevice(device->ordinal);
	(void) cudaStreamSynchronize(device->copy);
	(void) cudaStreamSynchronize(device->compute);
}

/* Throws Stopped if the engine is being closed. */
void
Shard::check_stop() const
{
	if (stopping.is_set())
		throw Stopped{};
}

/* Tells the longest kernels to end soon, whatever their results; or cancels that. */
void
Shard::hurry(bool now)
{
	__atomic_store_n(&shared()->stop, now, __ATOMIC_RELEASE);
}

/* Frees the memory of the centroids. */
void
Centroids::release()
{
	count = padded = 0;
	prepared = narrow = ordered = false;
	exact.release();
	rounded.release();
	lower.release();
	slack.release();
	norm.release();
	error.release();
	scale.release();
	sorted.rounded.release();
	sorted.lower.release();
	sorted.numbers.release();
	sorted.unsorted.release();
	sorted.workspace.release();
	hashes.release();
	firsts.release();
	packed.release();
}

/* An event of this shard's device. */
cudaEvent_t
Shard::new_event()
{
	cudaEvent_t event;

	if (!spare_events.empty())
	{
		event = spare_events.back();
		spare_events.pop_back();
		return event;
	}
	use();
	GK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	all_events.list.push_back(event);
	return event;
}

/* Sets the number of features of a row. */
void
Shard::set_dimension(int d)
{
	dimension = d;
	depth = (d + 15) / 16 * 16;
}

/* Bytes of a row's data. */
uint64_t
Shard::row_bytes() const
{
	return (uint64_t) dimension * sizeof(float) + (weighted ? sizeof(double) : 0);
}

/* Rows of a chunk of host memory, and so of a stream buffer. */
int64_t
Shard::chunk_rows() const
{
	uint64_t	bytes = std::min<uint64_t>(std::max<uint64_t>(account.limit / 16, 1 << 20),
										   64 << 20);

	return std::max<int64_t>(bytes / row_bytes(), 1);
}

/* Memory to leave free for the work on the rows. */
uint64_t
Shard::work_bytes() const
{
	return std::min<uint64_t>(account.limit / 4, 192 << 20);
}

/* True if this many more rows fit the device, with room left to work on them. */
bool
Shard::fits(int64_t count)
{
	uint64_t	state = (uint64_t) (rows + count) * 16;
	uint64_t	work = work_bytes();
	uint64_t	width = (uint64_t) dimension * sizeof(float);
	uint64_t	after = features.after(*this, (resident + count) * width);

	if (weighted)
		after += weights.after(*this, (resident + count) * sizeof(double));
	return spilled.empty() && after + state + work <= account.limit;
}

/* Takes rows; the event fires when the batch's memory is free; no event if it is free at once. */
cudaEvent_t
Shard::append(const float *x, const double *w, int64_t count)
{
	uint64_t	width = (uint64_t) dimension * sizeof(float);
	cudaEvent_t event;

	use();
	if (!fits(count) || !features.grow(*this, (resident + count) * width) ||
		(weighted && !weights.grow(*this, (resident + count) * sizeof(double))))
	{
		append_to_host(x, w, count);
		return nullptr;
	}
	GK_CUDA(cudaMemcpyAsync((char *) features.data() + resident * width, x, count * width,
							cudaMemcpyHostToDevice, device->copy));
	if (weighted)
		GK_CUDA(cudaMemcpyAsync((double *) weights.data() + resident, w, count * sizeof(double),
								cudaMemcpyHostToDevice, device->copy));
	resident += count;
	rows += count;
	event = new_event();
	GK_CUDA(cudaEventRecord(event, device->copy));
	return event;
}

/* Takes rows that do not fit the device. */
void
Shard::append_to_host(const float *x, const double *w, int64_t count)
{
	while (count > 0)
	{
		if (spilled.empty() || spilled.back()->rows == spilled.back()->capacity)
		{
			uint64_t	bytes = chunk_rows() * row_bytes();

			if (!host.has_room(bytes))
				fail_memory(GK_NO_HOST_MEMORY, -1, host.used + bytes, host.limit,
							"rows that do not fit the devices exceed the host memory limit");
			spilled.push_back(std::make_unique<Chunk>(host, chunk_rows(), dimension, weighted));
			spilled.back()->first = rows;
		}

		Chunk	   &chunk = *spilled.back();
		int64_t		part = std::min(count, chunk.capacity - chunk.rows);

		memcpy(chunk.features() + chunk.rows * dimension, x, part * dimension * sizeof(float));
		if (weighted)
			memcpy(chunk.weights() + chunk.rows, w, part * sizeof(double));
		chunk.rows += part;
		rows += part;
		count -= part;
		x += part * dimension;
		w += weighted ? part : 0;
	}
}

/* Moves the last resident rows to host memory. */
void
Shard::demote()
{
	int64_t		count = std::min(resident, chunk_rows());
	uint64_t	bytes = count * row_bytes();

	check_stop();
	if (!host.has_room(bytes))
		fail_memory(GK_NO_HOST_MEMORY, -1, host.used + bytes, host.limit,
					"rows that do not fit the devices exceed the host memory limit");

	auto		chunk = std::make_unique<Chunk>(host, count, dimension, weighted);

	chunk->first = resident - count;
	chunk->rows = count;
	GK_CUDA(cudaMemcpy(chunk->features(), (float *) features.data() + chunk->first * dimension,
					   count * dimension * sizeof(float), cudaMemcpyDeviceToHost));
	if (weighted)
		GK_CUDA(cudaMemcpy(chunk->weights(), (double *) weights.data() + chunk->first,
						   count * sizeof(double), cudaMemcpyDeviceToHost));
	/* comes last: a chunk in the list holds rows, whatever fails */
	spilled.push_front(std::move(chunk));
	resident -= count;
	features.shrink(resident * dimension * sizeof(float));
	weights.shrink(resident * sizeof(double));
}

/* Throws if this many more bytes exceed the limit. */
void
Shard::check_room(uint64_t bytes) const
{
	if (account.has_room(bytes))
		return;
	if (account.full)
		fail_device_full(device->ordinal, bytes);
	fail_memory(GK_NO_DEVICE_MEMORY, device->ordinal, account.used + bytes, account.limit,
				"out of device memory");
}

/* Makes room for this many bytes by moving rows to the host. */
void
Shard::make_room(uint64_t bytes)
{
	use();
	GK_CUDA(cudaStreamSynchronize(device->copy));
	GK_CUDA(cudaStreamSynchronize(device->compute));
	while (!account.has_room(bytes) && resident > 0)
		demote();
	check_room(bytes);
	/*
	 * Once rows are spilled, a pass needs the stream buffers and may not ask for room.  So they
	 * are made here, once: reserve_stream() comes back to this function where the device has less
	 * memory than the account says, and then finds `streaming` set.
	 */
	if (!spilled.empty() && !streaming)
	{
		uint64_t	need = 2 * (chunk_rows() * row_bytes() + 1024);

		while (!account.has_room(bytes + need) && resident > 0)
			demote();
		reserve_stream();
	}
	while (!account.has_room(bytes) && resident > 0)
		demote();
	check_room(bytes);
}

/* Creates the stream buffers, through which rows on the host pass, unless they exist. */
void
Shard::reserve_stream()
{
	bool		are_new = !streaming;

	streaming = true;
	try
	{
		for (int i = 0; i < 2; i++)
		{
			stream_features[i].reserve(*this, chunk_rows() * dimension);
			if (weighted)
				stream_weights[i].reserve(*this, chunk_rows());
		}
		/* kernels may still use what the arena had before */
		if (are_new)
			GK_CUDA(cudaStreamSynchronize(device->compute));
	}
	catch (...)
	{
		streaming = false;
		throw;
	}
}

/* Drops all rows. */
void
Shard::clear()
{
	use();
	GK_CUDA(cudaStreamSynchronize(device->copy));
	GK_CUDA(cudaStreamSynchronize(device->compute));
	features.release();
	weights.release();
	spilled.clear();
	rows = resident = 0;
	bounds_valid = false;
	labels.release();
	bounds.release();
	distance2.release();
	drawn_count = -1;
	drop_hash_heads();
	streaming = false;
	for (int i = 0; i < 2; i++)
	{
		stream_features[i].release();
		stream_weights[i].release();
	}
}

/* The chunk that holds a row. */
const Chunk &
Shard::chunk_of(int64_t row) const
{
	auto		after = std::upper_bound(spilled.begin(), spilled.end(), row,
										 [](int64_t r, const std::unique_ptr<Chunk> &chunk)
										 { return r < chunk->first; });

	return **(after - 1);
}

/* Starts the copy of rows of a chunk to a stream buffer; the compute stream waits for it. */
void
Shard::load(const Chunk &chunk, Slice *slice)
{
	int			slot = next_slot;
	int64_t		at = slice->first - chunk.first;

	next_slot = 1 - next_slot;
	reserve_stream();
	slice->slot = slot;
	slice->rows = std::min(slice->rows, std::min(chunk.rows - at, chunk_rows()));
	slice->features = stream_features[slot].get();
	slice->weights = weighted ? stream_weights[slot].get() : nullptr;
	GK_CUDA(cudaStreamWaitEvent(device->copy, done[slot], 0));
	GK_CUDA(cudaMemcpyAsync(slice->features, chunk.features() + at * dimension,
							slice->rows * dimension * sizeof(float), cudaMemcpyHostToDevice,
							device->copy));
	if (weighted)
		GK_CUDA(cudaMemcpyAsync(slice->weights, chunk.weights() + at, slice->rows * sizeof(double),
								cudaMemcpyHostToDevice, device->copy));
	GK_CUDA(cudaEventRecord(loaded[slot], device->copy));
	GK_CUDA(cudaStreamWaitEvent(device->compute, loaded[slot], 0));
}

/* The slice at `from` of at most `most` rows. */
Slice
Shard::start_slice(int64_t from, int64_t most)
{
	Slice		slice;

	use();
	/* not more than a few slices ahead, so that a pass can be left soon */
	wait_event(paces[next_pace]);
	slice.first = from;
	slice.rows = std::min(most, rows - from);
	slice.slot = -1;
	if (from >= resident)
	{
		load(chunk_of(from), &slice);
		return slice;
	}
	slice.rows = std::min(slice.rows, resident - from);
	slice.features = (float *) features.data() + from * dimension;
	slice.weights = weighted ? (double *) weights.data() + from : nullptr;
	return slice;
}

/* Ends the use of a slice; copies changes back to the host. */
void
Shard::finish_slice(const Slice &slice, bool write_back)
{
	if (slice.slot >= 0)
	{
		const Chunk &chunk = chunk_of(slice.first);

		if (write_back)
			GK_CUDA(cudaMemcpyAsync(chunk.features() + (slice.first - chunk.first) * dimension,
									slice.features, slice.rows * dimension * sizeof(float),
									cudaMemcpyDeviceToHost, device->compute));
		GK_CUDA(cudaEventRecord(done[slice.slot], device->compute));
	}
	GK_CUDA(cudaEventRecord(paces[next_pace], device->compute));
	next_pace = (next_pace + 1) % 2;
}

/* Backs off (30 µs) after 2000 unsuccessful polls. */
void
pause_between_looks(int tries)
{
	timespec	pause = {0, 30000};

	if (tries > 2000)
		nanosleep(&pause, nullptr);
}

/* True if an event has happened; throws Stopped if the engine is being closed. */
static bool
has_happened(cudaEvent_t event, const Shard &shard)
{
	cudaError_t error = cudaEventQuery(event);

	if (error == cudaSuccess)
		return true;
	if (error != cudaErrorNotReady)
		check(error, "cudaEventQuery");
	shard.check_stop();
	return false;
}

/* Waits for an event, or throws Stopped. */
void
Shard::wait_event(cudaEvent_t event)
{
	for (int tries = 0; !has_happened(event, *this); tries++)
		pause_between_looks(tries);
}

/* Has the device bring its counters to a place. */
void
Shard::send_counters(int place)
{
	use();
	report_counters(*this, device_place(place));
	mark_counters(place);
}

/* Lets has_counters() tell when what has been enqueued is done. */
void
Shard::mark_counters(int place)
{
	GK_CUDA(cudaEventRecord(markers[place], device->compute));
}

/* True if they are there; throws Stopped if the engine is being closed. */
bool
Shard::has_counters(int place) const
{
	return has_happened(markers[place], *this);
}

/* The counters at a place. */
const Counters &
Shard::counters_at(int place) const
{
	return shared()->counters[place];
}

/* Waits for the compute stream, or throws Stopped. */
void
Shard::wait()
{
	use();
	wait_event(paces[next_pace]);
	GK_CUDA(cudaEventRecord(paces[next_pace], device->compute));
	wait_event(paces[next_pace]);
}

/* Has the copy stream wait for what the compute stream has been given. */
void
Shard::let_copies_follow()
{
	use();
	GK_CUDA(cudaEventRecord(forks, device->compute));
	GK_CUDA(cudaStreamWaitEvent(device->copy, forks, 0));
}

/* The features and weight of a row that is not on the device. */
void
Shard::host_row(int64_t row, const float **x, const double **w) const
{
	const Chunk &chunk = chunk_of(row);

	*x = chunk.features() + (row - chunk.first) * dimension;
	*w = weighted ? chunk.weights() + (row - chunk.first) : nullptr;
}

/* Labels of all rows, none at first. */
void
Shard::need_labels()
{
	if (labels.capacity() >= (uint64_t) rows && labels.get() != nullptr)
		return;
	labels.reserve(*this, rows + 1);
	use();
	GK_CUDA(cudaMemsetAsync(labels.get(), 0xff, rows * sizeof(int32_t), device->compute));
}

/* d² of all rows, 0 at first. */
void
Shard::need_distance2()
{
	if (distance2.capacity() >= (uint64_t) rows && distance2.get() != nullptr)
		return;
	distance2.reserve(*this, rows + 1);
	use();
	GK_CUDA(cudaMemsetAsync(distance2.get(), 0, rows * sizeof(double), device->compute));
}

/* d² of all rows, if there is room. */
void
Shard::want_distance2()
{
	uint64_t	bytes = (uint64_t) rows * sizeof(double);

	if (rows > 0 && distance2.get() == nullptr && can_spare(bytes))
		need_distance2();
}

/* Memory for the leading bits of the hashes. */
void
Shard::want_hash_heads()
{
	uint64_t	bytes = (uint64_t) rows * sizeof(uint32_t);

	if (rows > 0 && hash_heads.get() == nullptr && can_spare(bytes))
		hash_heads.reserve(*this, rows);
}

/* Forgets the hashes. */
void
Shard::drop_hash_heads()
{
	hash_heads_valid = false;
	hash_heads.release();
}

}								/* namespace gk */
