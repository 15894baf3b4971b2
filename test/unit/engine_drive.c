/*
 * Driving an engine without a server.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine_drive.h"
#include "exact.h"

/* Seconds on one of the clocks of the system. */
static double
read_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Seconds on a monotonic clock. */
double
now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/* Seconds that the threads of this process have worked. */
double
worked(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static const char *context = NULL;

/* Sets the text to print if the program ends early. */
void
set_context(const char *text)
{
	context = text;
}

/* Ends the program unless the status is GK_OK. */
void
check_status(GkStatus status)
{
	if (status.code == GK_OK)
		return;
	if (context != NULL)
		printf("# %s\n", context);
	printf("Bail out! %s: %s (code %d, %llu of %llu bytes)\n", status.where, status.message,
		   (int) status.code, (unsigned long long) status.needed,
		   (unsigned long long) status.allowed);
	exit(1);
}

/* The order of the rows of entries. */
static int
compare_entry_rows(const void *a, const void *b)
{
	const GkEntry *left = a;
	const GkEntry *right = b;

	return (left->row > right->row) - (left->row < right->row);
}

/* Runs a command to its end; sorts a list that comes in any order. */
void
run(GkEngine *engine, GkCommand *command)
{
	GkStatus	status;

	check_status(engine->class_of->submit(engine, command));
	while ((status = engine->class_of->wait(engine, 10)).code == GK_RUNNING)
		;
	check_status(status);
	if (command->operation == GK_ENTRIES)
		qsort(command->entries.entries, command->entries.count, sizeof(GkEntry),
			  compare_entry_rows);
}

/* A batch of the rows from number `from` on. */
static GkBatch
batch_of(const Rows *rows, int64_t from, int64_t batch_rows)
{
	return (GkBatch) {
		.rows = rows->n - from < batch_rows ? rows->n - from : batch_rows,
		.features = rows->x + from * rows->d,
		.weights = rows->w == NULL ? NULL : rows->w + from
	};
}

/* Copies a batch into a slot of the buffer, the weights behind the features. */
static void
move_batch(GkBatch *batch, int d, char *slot)
{
	size_t		bytes = (size_t) batch->rows * d * sizeof(float);

	batch->features = memcpy(slot, batch->features, bytes);
	if (batch->weights != NULL)
		batch->weights = memcpy(slot + (bytes + 15) / 16 * 16, batch->weights,
								batch->rows * sizeof(double));
}

/* A ring of batches that is lent to an engine. */
typedef struct Slots
{
	char	   *buffer;
	size_t		bytes;			/* of one */
	int			count;
	uint64_t   *tickets;		/* count: of what lies there */
	uint64_t	done;
} Slots;

/* Makes the slots and lends them. */
static Slots
lend_slots(GkEngine *engine, const Rows *rows, int64_t batch_rows, int count)
{
	size_t		row_bytes = rows->d * sizeof(float) + sizeof(double);
	Slots		slots = {.bytes = (batch_rows * row_bytes + 4111) / 4096 * 4096,.count = count};

	slots.buffer = aligned_alloc(4096, count * slots.bytes);
	slots.tickets = calloc(count, sizeof(uint64_t));
	memset(slots.buffer, 0, count * slots.bytes);
	check_status(engine->class_of->lend_buffer(engine, slots.buffer, count * slots.bytes));
	return slots;
}

/* Appends a batch by way of the next slot. */
static void
append_through(GkEngine *engine, Slots *slots, int64_t number, GkBatch *batch, int d)
{
	int			slot = (int) (number % slots->count);

	while (slots->done < slots->tickets[slot])
		check_status(engine->class_of->reclaim(engine, &slots->done));
	move_batch(batch, d, slots->buffer + slot * slots->bytes);
	check_status(engine->class_of->append(engine, batch, &slots->tickets[slot]));
}

/* Sets the dimension, appends all rows, this many at a time, and seals; gives the seconds. */
double
append_rows(GkEngine *engine, const Rows *rows, int64_t batch_rows, int slot_count)
{
	GkCommand	seal = {.operation = GK_SEAL};
	Slots		slots = {0};
	double		seconds;

	if (slot_count > 0)
		slots = lend_slots(engine, rows, batch_rows, slot_count);
	seconds = -now();
	check_status(engine->class_of->set_dimension(engine, rows->d));
	for (int64_t i = 0; i < rows->n; i += batch_rows)
	{
		GkBatch		batch = batch_of(rows, i, batch_rows);
		uint64_t	ticket;

		if (slot_count > 0)
			append_through(engine, &slots, i / batch_rows, &batch, rows->d);
		else
			check_status(engine->class_of->append(engine, &batch, &ticket));
	}
	run(engine, &seal);
	seconds += now();
	if (slot_count > 0)
		check_status(engine->class_of->lend_buffer(engine, NULL, 0));
	free(slots.tickets);
	free(slots.buffer);
	if (seal.seal.rows != rows->n)
	{
		printf("Bail out! rows are missing\n");
		exit(1);
	}
	return seconds;
}

/* Sets the grid of the sums. */
void
set_grid(GkEngine *engine, bool wide, const int *exponents, const double *center)
{
	GkCommand	c = {.operation = GK_GRID};

	c.grid.wide = wide;
	c.grid.rest_bits = REST_BITS;
	c.grid.exponents = exponents;
	c.grid.origin = center;
	run(engine, &c);
}

/* Sets the centroids. */
void
set_centroids(GkEngine *engine, const double *centroids, int64_t k, bool spherical)
{
	GkCommand	c = {.operation = GK_CENTROIDS};

	c.centroids.centroids = centroids;
	c.centroids.k = k;
	c.centroids.spherical = spherical;
	run(engine, &c);
}

/*
 * Moves the farthest rows to the empty clusters of a step, as the fit layer does it; `entries` has
 * room for as many rows as clusters are empty.  Gives shift2 and between.
 */
void
relocate_farthest(GkEngine *engine, const uint8_t *is_empty, int64_t empty, GkEntry *entries,
				  double numbers[2])
{
	int64_t    *rows = calloc(empty, sizeof(int64_t));
	int64_t    *clusters = calloc(empty, sizeof(int64_t));
	GkCommand	c = {.operation = GK_DISTANCES};
	int64_t		found;

	run(engine, &c);
	c = (GkCommand) {.operation = GK_FARTHEST};
	c.farthest.count = empty;
	c.farthest.entries = entries;
	run(engine, &c);
	found = c.farthest.found;
	for (int64_t i = 0, cluster = 0; i < found; i++, cluster++)
	{
		while (!is_empty[cluster])
			cluster++;
		rows[i] = entries[i].row;
		clusters[i] = cluster;
	}
	c = (GkCommand) {.operation = GK_RELOCATE};
	c.relocate.count = found;
	c.relocate.rows = rows;
	c.relocate.clusters = clusters;
	run(engine, &c);
	free(rows);
	free(clusters);
	numbers[0] = c.relocate.shift2;
	numbers[1] = c.relocate.between;
}

/* The label of a row by the definition, and its d². */
int32_t
nearest_centroid(const float *row, int d, const double *centroids, int64_t k, double *distance2)
{
	int32_t		label = -1;

	*distance2 = INFINITY;
	for (int64_t c = 0; c < k; c++)
	{
		double		sum = 0.0;

		for (int j = 0; j < d; j++)
			sum = gk_add_square(sum, row[j], centroids[c * d + j]);
		if (sum < *distance2)
		{
			*distance2 = sum;
			label = (int32_t) c;
		}
	}
	return label;
}
