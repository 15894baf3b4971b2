/*
 * Drawing rows by mass, whatever their order, and fetching rows.
 *
 * The rows form a line, ordered by hash and, if hashes are equal, by bits.  Each is as long as
 * its mass, an integer; a draw is a point of the line.  The engine sums the masses by the
 * leading bits of the hash, and lists the rows of the buckets that contain a drawn point.
 */
#include "postgres.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "fixed_point.h"
#include "random.h"
#include "ties.h"

/* Initial capacity for the rows of the wanted buckets. */
#define FIRST_CAPACITY 32768

/* The buckets that contain drawn points, and their rows. */
typedef struct Line
{
	GkMass		mass;
	int			exponent;
	int			bits;
	int64	   *buckets;		/* 2^bits: Σ of the masses */
	uint8	   *wanted;			/* 2^bits */
	int64	   *points;			/* ascending */
	int64		count;			/* of the points */
	GkEntry    *entries;		/* rows of the wanted buckets, in order, equal ones once */
	int64		used;
	int64		capacity;
	GkTies		ties;			/* of the entries */
} Line;

/* Ascending int64. */
static int
compare_points(const void *a, const void *b, void *unused)
{
	int64		left = *(const int64 *) a;
	int64		right = *(const int64 *) b;

	return (left > right) - (left < right);
}

/* Ascending hash. */
static int
compare_hashes(const void *a, const void *b, void *unused)
{
	uint64		left = ((const GkEntry *) a)->hash;
	uint64		right = ((const GkEntry *) b)->hash;

	return (left > right) - (left < right);
}

/* Bits that make buckets of about 16 rows. */
static int
bucket_bits(int64 rows)
{
	int			bits = 0;

	while (bits < 20 && rows >> (bits + 5) > 0)
		bits++;
	return bits;
}

/* Σ of the masses of all buckets. */
static int64
sum_masses(GkJob *job, Line *line)
{
	GkCommand	command = {.operation = GK_MASSES};
	int64		total = 0;

	command.masses.mass = line->mass;
	command.masses.exponent = line->exponent;
	command.masses.bits = line->bits;
	command.masses.buckets = line->buckets;
	gk_run(job, &command);
	for (int64 i = 0; i < INT64CONST(1) << line->bits; i++)
		total += line->buckets[i];
	return total;
}

/* Draws the points and marks their buckets. */
static void
throw_points(GkDrawer *drawer, Line *line, int64 total)
{
	int64		bucket = 0;
	int64		end = line->buckets[0];

	for (int64 i = 0; i < line->count; i++)
		line->points[i] = (int64) gk_random_below((uint64) total, drawer->seed, drawer->start,
												  drawer->round, (uint64) i);
	drawer->round++;
	qsort_interruptible(line->points, line->count, sizeof(int64), compare_points, NULL);
	for (int64 i = 0; i < line->count; i++)
	{
		while (line->points[i] >= end)
			end += line->buckets[++bucket];
		line->wanted[bucket] = 1;
	}
}

/* Has the engine compare rows by their bits; the context is the job. */
static void
compare_rows(void *context, const int64 *rows, const int64 *others, int64 count, int8 *order)
{
	GkCommand	command = {.operation = GK_COMPARE};

	command.compare.rows = rows;
	command.compare.others = others;
	command.compare.count = count;
	command.compare.order = order;
	gk_run(context, &command);
}

/* Sorts the entries by hash and, if hashes are equal, by bits. */
static void
sort_entries(GkJob *job, Line *line)
{
	const GkEntry *entries = line->entries;
	int64		begin = 0;

	qsort_interruptible(line->entries, line->used, sizeof(GkEntry), compare_hashes, NULL);
	for (int64 i = 1; i <= line->used; i++)
	{
		if (i < line->used && entries[i].hash == entries[begin].hash)
			continue;
		gk_tie_mark(&line->ties, begin, i, false);
		begin = i;
	}
	gk_order_ties(line->entries, line->used, &line->ties, compare_rows, job);
}

/* Sorts the entries and merges those of equal rows. */
static void
merge_entries(GkJob *job, Line *line)
{
	int64		kept = 0;
	int64		end;

	sort_entries(job, line);
	for (int64 begin = 0; begin < line->used; begin = end)
	{
		GkEntry		entry = line->entries[begin];

		end = gk_tie_end(&line->ties, begin);
		for (int64 i = begin + 1; i < end; i++)
			entry.mass += line->entries[i].mass;
		line->entries[kept++] = entry;
	}
	line->used = kept;
}

/* Reallocates an array; NULL for a new one. */
static void *
lengthen(void *array, int64 count, Size size)
{
	return array == NULL ? gk_allocate(count, size) : repalloc_huge(array, mul_size(count, size));
}

/* Makes room for this many entries. */
static void
reserve_entries(Line *line, int64 capacity)
{
	line->entries = lengthen(line->entries, capacity, sizeof(GkEntry));
	line->ties.ends = lengthen(line->ties.ends, capacity, sizeof(int64));
	line->ties.rows = lengthen(line->ties.rows, capacity, sizeof(int64));
	line->ties.others = lengthen(line->ties.others, capacity, sizeof(int64));
	line->ties.order = lengthen(line->ties.order, capacity, sizeof(int8));
	line->capacity = capacity;
}

/* Frees the entries. */
static void
free_entries(Line *line)
{
	pfree(line->entries);
	pfree(line->ties.ends);
	pfree(line->ties.rows);
	pfree(line->ties.others);
	pfree(line->ties.order);
}

/* Collects the rows of the wanted buckets. */
static void
collect_entries(GkDrawer *drawer, Line *line)
{
	GkCommand	command = {.operation = GK_ENTRIES};

	reserve_entries(line, Min(FIRST_CAPACITY, 2 * drawer->rows));
	command.entries.mass = line->mass;
	command.entries.exponent = line->exponent;
	command.entries.bits = line->bits;
	command.entries.wanted = line->wanted;
	while (command.entries.from < drawer->rows)
	{
		if (line->used > line->capacity / 2)
			reserve_entries(line, 2 * line->capacity);
		command.entries.entries = line->entries + line->used;
		command.entries.capacity = line->capacity - line->used;
		gk_run(drawer->job, &command);
		line->used += command.entries.count;
		command.entries.from = command.entries.next;
		merge_entries(drawer->job, line);
	}
}

/* The rows that contain the points. */
static int64
rows_of_points(const Line *line, int64 *rows)
{
	int64		found = 0;
	int64		point = 0;
	int64		entry = 0;
	int64		begin = 0;

	for (int64 bucket = 0; bucket < INT64CONST(1) << line->bits; bucket++)
	{
		int64		end = begin;

		for (; entry < line->used
			 && gk_hash_bucket(line->entries[entry].hash, line->bits) == bucket; entry++)
		{
			end += line->entries[entry].mass;
			if (point == line->count || line->points[point] >= end)
				continue;
			rows[found++] = line->entries[entry].row;
			while (point < line->count && line->points[point] < end)
				point++;
		}
		begin += line->buckets[bucket];
	}
	if (point < line->count)
		elog(ERROR, "gkmeans engine lists fewer rows than it sums");
	return found;
}

/* Draws rows with replacement, by mass. */
int64
gk_draw_rows(GkDrawer *drawer, GkMass mass, double greatest, int64 count, int64 *rows)
{
	Line		line = {.mass = mass};
	int64		found = 0;
	int64		total;

	line.exponent = gk_grid_exponent(greatest, gk_value_bits(drawer->rows));
	line.bits = bucket_bits(drawer->rows);
	line.buckets = gk_allocate_zero(INT64CONST(1) << line.bits, sizeof(int64));
	line.wanted = gk_allocate_zero(INT64CONST(1) << line.bits, sizeof(uint8));
	line.count = count;
	line.points = gk_allocate(count, sizeof(int64));
	total = sum_masses(drawer->job, &line);
	if (total > 0)
	{
		throw_points(drawer, &line, total);
		collect_entries(drawer, &line);
		found = rows_of_points(&line, rows);
		free_entries(&line);
	}
	pfree(line.points);
	pfree(line.wanted);
	pfree(line.buckets);
	return found;
}

/* The features of rows, as they are compared. */
void
gk_fetch_rows(GkJob *job, const int64 *rows, int64 count, float *features)
{
	GkCommand	command = {.operation = GK_ROWS};

	command.rows.rows = rows;
	command.rows.count = count;
	command.rows.features = features;
	gk_run(job, &command);
}
