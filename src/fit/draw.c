/*
 * Drawing rows by mass, whatever their order.
 *
 * The rows lie on a line in the order of their hash, each as long as its mass,
 * an integer; a draw is a point of the line.  The engine sums the masses by the
 * leading bits of the hash, and lists the rows of those buckets that a point
 * fell into.
 */
#include "postgres.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "fixed_point.h"
#include "random.h"

/* Room for the rows of the wanted buckets, to begin with. */
#define FIRST_CAPACITY 32768

/* The buckets that points fell into, and their rows. */
typedef struct Line
{
	GkMass		mass;
	int			exponent;
	int			bits;
	int64	   *buckets;		/* 2^bits: Σ of the masses */
	uint8	   *wanted;			/* 2^bits */
	int64	   *points;			/* ascending */
	int64		count;			/* of the points */
	GkEntry    *entries;		/* rows of the wanted buckets, by hash */
	int64		used;
	int64		capacity;
} Line;

/* Ascending int64. */
static int
compare_points(const void *a, const void *b, void *unused)
{
	int64		left = *(const int64 *) a;
	int64		right = *(const int64 *) b;

	return (left > right) - (left < right);
}

/* Ascending hash, then ascending row. */
static int
compare_entries(const void *a, const void *b, void *unused)
{
	const GkEntry *left = a;
	const GkEntry *right = b;

	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;
	return (left->row > right->row) - (left->row < right->row);
}

/* Buckets of about 16 rows. */
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

	command.u.masses.mass = line->mass;
	command.u.masses.exponent = line->exponent;
	command.u.masses.bits = line->bits;
	command.u.masses.buckets = line->buckets;
	gk_run(job, &command);
	for (int64 i = 0; i < INT64CONST(1) << line->bits; i++)
		total += line->buckets[i];
	return total;
}

/* Throws the points onto the line and marks their buckets. */
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

/* Sorts the entries by hash and makes one of those with the same. */
static void
merge_entries(Line *line)
{
	int64		kept = 0;

	qsort_interruptible(line->entries, line->used, sizeof(GkEntry), compare_entries, NULL);
	for (int64 i = 0; i < line->used; i++)
	{
		if (kept > 0 && line->entries[kept - 1].hash == line->entries[i].hash)
			line->entries[kept - 1].mass += line->entries[i].mass;
		else
			line->entries[kept++] = line->entries[i];
	}
	line->used = kept;
}

/* Collects the rows of the wanted buckets. */
static void
collect_entries(GkDrawer *drawer, Line *line)
{
	GkCommand	command = {.operation = GK_ENTRIES};

	line->capacity = FIRST_CAPACITY;
	line->entries = gk_allocate(line->capacity, sizeof(GkEntry));
	command.u.entries.mass = line->mass;
	command.u.entries.exponent = line->exponent;
	command.u.entries.bits = line->bits;
	command.u.entries.wanted = line->wanted;
	while (command.u.entries.from < drawer->rows)
	{
		if (line->used > line->capacity / 2)
		{
			line->capacity *= 2;
			line->entries = repalloc_huge(line->entries,
										  mul_size(line->capacity, sizeof(GkEntry)));
		}
		command.u.entries.entries = line->entries + line->used;
		command.u.entries.capacity = line->capacity - line->used;
		gk_run(drawer->job, &command);
		line->used += command.u.entries.count;
		command.u.entries.from = command.u.entries.next;
		merge_entries(line);
	}
}

/* The rows that the points lie in. */
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
		pfree(line.entries);
	}
	pfree(line.points);
	pfree(line.wanted);
	pfree(line.buckets);
	return found;
}
