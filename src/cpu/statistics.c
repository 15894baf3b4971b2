/*
 * Distances, farthest rows and statistics of the clusters on the CPU engine.
 */
#include <math.h>
#include <string.h>

#include "state.h"
#include "exact.h"

#define PARTIAL_BYTES ((size_t) 64 << 20)

/* How many workers may have `bytes` of results of their own. */
int
gk_cpu_partial_workers(const GkCpuEngine *engine, size_t bytes)
{
	size_t		workers = PARTIAL_BYTES / (bytes + 1);

	if (workers > (size_t) engine->pool.threads)
		workers = engine->pool.threads;
	return workers < 1 ? 1 : (int) workers;
}

/* Notes an error unless the rows have their d². */
bool
gk_cpu_need_distances(GkCpuEngine *engine)
{
	if (engine->per_row_state != GK_PER_ROW_DISTANCE2)
		gk_cpu_fail(engine, GK_INTERNAL, "distances",
					"a command needs distances that do not exist");
	return engine->per_row_state == GK_PER_ROW_DISTANCE2;
}

/* d² of the rows of some blocks to the centroids of their labels. */
static void
distances_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	(void) context;
	(void) worker;
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b++)
		engine->kernels->own_distances(gk_cpu_block(engine, b), engine->d, engine->centroids.base,
									   gk_cpu_labels(engine) + b * GK_BLOCK,
									   gk_cpu_distance2(engine) + b * GK_BLOCK);
}

/* d² of all rows to the centroids of their labels. */
void
gk_cpu_run_distances(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		blocks = gk_cpu_block_count(engine);

	(void) command;
	engine->per_row_state = GK_PER_ROW_NOTHING;
	if (!gk_cpu_array_need(engine, &engine->per_row, gk_cpu_padded_rows(engine), sizeof(double)))
		return;
	if (gk_cpu_for_each(engine, blocks, 64.0 * engine->d, distances_chunk, NULL))
		engine->per_row_state = GK_PER_ROW_DISTANCE2;
}

/* True if an entry comes after another: farther first, then by hash, bits and number. */
static bool
comes_after(const GkCpuEngine *engine, const GkEntry *entry, const GkEntry *other)
{
	int			order;

	if (entry->distance2 != other->distance2)
		return entry->distance2 < other->distance2;
	if (entry->hash != other->hash)
		return entry->hash > other->hash;
	order = gk_cpu_compare_rows(engine, entry->row, other->row);
	return order != 0 ? order > 0 : entry->row > other->row;
}

/* The farthest rows so far: a heap, the last of them in order at its root. */
typedef struct Heap
{
	int64_t		count;
	GkEntry    *entries;
} Heap;

/* What the workers gather. */
typedef struct Farthest
{
	int64_t		capacity;
	Heap	   *heaps;			/* a worker */
} Farthest;

/* Puts an entry into the heap in place of its root. */
static void
sift_down(const GkCpuEngine *engine, Heap *heap, GkEntry entry)
{
	GkEntry    *entries = heap->entries;
	int64_t		at = 0;

	for (;;)
	{
		int64_t		child = 2 * at + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && comes_after(engine, &entries[child + 1], &entries[child]))
			child++;
		if (!comes_after(engine, &entries[child], &entry))
			break;
		entries[at] = entries[child];
		at = child;
	}
	entries[at] = entry;
}

/* Adds an entry to a heap that is not full. */
static void
sift_up(const GkCpuEngine *engine, Heap *heap, GkEntry entry)
{
	GkEntry    *entries = heap->entries;
	int64_t		at = heap->count++;

	while (at > 0 && comes_after(engine, &entry, &entries[(at - 1) / 2]))
	{
		entries[at] = entries[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	entries[at] = entry;
}

/* Offers an entry to a heap with this capacity. */
static void
offer(const GkCpuEngine *engine, Heap *heap, int64_t capacity, GkEntry entry)
{
	if (heap->count < capacity)
		sift_up(engine, heap, entry);
	else if (comes_after(engine, &heap->entries[0], &entry))
		sift_down(engine, heap, entry);
}

/* Keeps the farthest rows with a weight of those that a worker sees. */
static void
farthest_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	Farthest   *farthest = context;
	Heap	   *heap = &farthest->heaps[worker];

	for (int64_t row = from; row < to; row++)
	{
		GkEntry		entry = {.row = row,.distance2 = gk_cpu_distance2(engine)[row]};

		if (row % 256 == 0 && gk_cpu_stopped(engine))
			return;
		if (!(gk_cpu_weight(engine, row) > 0) ||
			(heap->count == farthest->capacity && entry.distance2 < heap->entries[0].distance2))
			continue;
		entry.hash = gk_cpu_row_hash(engine, row);
		offer(engine, heap, farthest->capacity, entry);
	}
}

/* Brings the heaps of the workers together in the first one, then its entries into order. */
static void
finish_farthest(GkCpuEngine *engine, Farthest *farthest, int workers)
{
	Heap	   *heap = &farthest->heaps[0];
	int64_t		count;

	for (int w = 1; w < workers; w++)
		for (int64_t i = 0; i < farthest->heaps[w].count && !gk_cpu_stopped(engine); i++)
			offer(engine, heap, farthest->capacity, farthest->heaps[w].entries[i]);
	count = heap->count;
	while (heap->count > 1 && !gk_cpu_stopped(engine))
	{
		GkEntry		last = heap->entries[0];

		heap->count--;
		sift_down(engine, heap, heap->entries[heap->count]);
		heap->entries[heap->count] = last;
	}
	heap->count = count;
}

/* Lists the rows farthest from their centroids, farthest first. */
void
gk_cpu_run_farthest(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		capacity = command->farthest.count;
	Farthest	farthest;
	int			workers;

	command->farthest.found = 0;
	if (capacity > engine->n)
		capacity = engine->n;
	if (capacity < 1 || !gk_cpu_need_distances(engine))
		return;
	workers = gk_cpu_partial_workers(engine, capacity * sizeof(GkEntry));
	if (!gk_cpu_array_need(engine, &engine->scratch, workers,
						   capacity * sizeof(GkEntry) + sizeof(Heap)))
		return;
	farthest.capacity = capacity;
	farthest.heaps = engine->scratch.base;
	for (int w = 0; w < workers; w++)
		farthest.heaps[w] = (Heap) {
			.entries = (GkEntry *) (farthest.heaps + workers) + w * capacity
		};
	if (!gk_cpu_parallel(engine, engine->n, 16384, workers, farthest_chunk, &farthest))
		return;
	finish_farthest(engine, &farthest, workers);
	command->farthest.found = farthest.heaps[0].count;
	memcpy(command->farthest.entries, farthest.heaps[0].entries,
		   farthest.heaps[0].count * sizeof(GkEntry));
}

/* The statistics under way. */
typedef struct Tallying
{
	GkTally    *tallies;		/* k for each worker */
	GkTallyScales scales;
	double		weight_scale;
} Tallying;

/* Adds a weight to a tally. */
static inline void
add_weight(const Tallying *tallying, GkTally *tally, double weight)
{
	tally->weight[0] += gk_quantize(weight, tallying->weight_scale);
	tally->weight[1] += gk_quantize_rest(weight, tallying->weight_scale, tallying->scales.rest);
}

/* Adds rows to a worker's tallies. */
static void
statistics_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Tallying *tallying = context;
	GkTally    *tallies = tallying->tallies + worker * engine->k;
	const int32_t *labels = gk_cpu_labels(engine);
	const double *weights = engine->weighted ? engine->weights.base : NULL;

	engine->kernels->tally(&tallying->scales, gk_cpu_distance2(engine) + from,
						   weights != NULL ? weights + from : NULL, labels + from,
						   (int) (to - from), tallies);
	for (int64_t row = from; weights != NULL && row < to; row++)
		add_weight(tallying, &tallies[labels[row]], weights[row]);
}

/* Adds a tally to another. */
static void
add_tally(GkTally *to, const GkTally *from)
{
	to->size += from->size;
	for (int i = 0; i < 2; i++)
		to->weight[i] += from->weight[i];
	for (int i = 0; i < 4; i++)
		to->sums[i] += from->sums[i];
	if (from->radius2 > to->radius2)
		to->radius2 = from->radius2;
}

/* Size, weight, inertia, distance and radius of each cluster. */
void
gk_cpu_run_statistics(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		k = engine->k;
	int			workers = gk_cpu_partial_workers(engine, k * sizeof(GkTally));
	Tallying	tallying = {.weight_scale = ((const double *) engine->scales.base)[engine->d]};
	GkTally		one = {0};

	if (!gk_cpu_need_distances(engine) ||
		!gk_cpu_array_need(engine, &engine->scratch, workers, k * sizeof(GkTally)))
		return;
	tallying.tallies = engine->scratch.base;
	tallying.scales.inertia = gk_power_of_two(command->statistics.inertia_exponent);
	tallying.scales.distance = gk_power_of_two(command->statistics.distance_exponent);
	tallying.scales.rest = gk_power_of_two(command->statistics.rest_bits);
	memset(tallying.tallies, 0, workers * k * sizeof(GkTally));
	if (!gk_cpu_parallel(engine, engine->n, 16384, workers, statistics_chunk, &tallying))
		return;
	add_weight(&tallying, &one, 1.0);
	for (int64_t c = 0; c < k; c++)
	{
		GkTally    *tally = &tallying.tallies[c];

		for (int w = 1; w < workers; w++)
			add_tally(tally, tally + w * k);
		for (int i = 0; i < 2 && !engine->weighted; i++)
			tally->weight[i] = tally->size * one.weight[i];
		command->statistics.sizes[c] = tally->size;
		command->statistics.weights[c] = (GkSum) {tally->weight[0], tally->weight[1]};
		command->statistics.inertia[c] = (GkSum) {tally->sums[0], tally->sums[1]};
		command->statistics.distance[c] = (GkSum) {tally->sums[2], tally->sums[3]};
		command->statistics.radius2[c] = tally->radius2;
	}
}
