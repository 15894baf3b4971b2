/*
 * Drawing rows by mass, whatever their order, and fetching rows.
 *
 * The rows form a line, ordered by hash and, if hashes are equal, by bits.  Each is as long as
 * its mass, an integer; a draw is a point of the line.  The engine sums the masses by the
 * leading bits of the hash, and lists the rows of the buckets that contain a drawn point.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "draw.h"
#include "engine_error.h"
#include "exact.h"
#include "fixed_point.h"
#include "random.h"
#include "ties.h"

/* Initial capacity for the rows of the wanted buckets. */
#define FIRST_CAPACITY 32768

/* The cost of a listed row, in buckets: it is copied, sorted, and perhaps compared. */
#define ROW_COST 8.0

/* The most bits that an engine takes. */
#define MOST_BITS 20

/* A bucket that contains drawn points. */
typedef struct Hit
{
	int64		bucket;
	int64		begin;			/* where it begins on the line */
} Hit;

/* The buckets that contain drawn points, and their rows. */
typedef struct GkLine
{
	GkMass		mass;
	int			exponent;
	int			bits;
	int64	   *buckets;		/* 2^bits: Σ of the masses */
	int64		total;			/* Σ of the buckets, for a draw by mass */
	uint8	   *wanted;			/* 2^bits */
	int64	   *points;			/* ascending */
	int64		count;			/* of the points */
	struct Hit *hits;			/* the wanted buckets, ascending */
	int64		hit_count;
	GkEntry    *entries;		/* rows of the wanted buckets, in order, equal ones once */
	int64		used;
	int64		capacity;
	GkTies		ties;			/* of the entries */
} GkLine;

/* Sorts points. */
#define ST_SORT sort_points
#define ST_ELEMENT_TYPE int64
#define ST_COMPARE(a, b) (*(a) < *(b) ? -1 : *(a) > *(b))
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

/* Sorts entries by hash. */
#define ST_SORT sort_by_hash
#define ST_ELEMENT_TYPE GkEntry
#define ST_COMPARE(a, b) ((a)->hash < (b)->hash ? -1 : (a)->hash > (b)->hash)
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

/* Bits of the number of groups for so many values: a few in each. */
static int
group_bits(int64 count)
{
	int			bits = 0;

	while (bits < MOST_BITS && count >> bits > 1)
		bits++;
	return bits;
}

/* From how many values are in each group to where the group begins, one place further on. */
static void
add_up(int64 *counts, int bits)
{
	for (int64 group = 0; group < INT64CONST(1) << bits; group++)
		counts[group + 1] += counts[group];
}

/* Sorts entries by hash: in groups by its leading bits, which are evenly distributed. */
static void
sort_entries_by_hash(GkEntry *entries, int64 count)
{
	int			bits = group_bits(count);
	int64	   *ends = gk_allocate_zero((INT64CONST(1) << bits) + 1, sizeof(int64));
	GkEntry    *before = gk_allocate(count, sizeof(GkEntry));

	memcpy(before, entries, count * sizeof(GkEntry));
	for (int64 i = 0; i < count; i++)
		ends[gk_hash_bucket(before[i].hash, bits) + 1]++;
	add_up(ends, bits);
	for (int64 i = 0; i < count; i++)
		entries[ends[gk_hash_bucket(before[i].hash, bits)]++] = before[i];
	for (int64 group = 0, begin = 0; group < INT64CONST(1) << bits; begin = ends[group++])
		if (ends[group] - begin > 1)
			sort_by_hash(entries + begin, ends[group] - begin);
	pfree(before);
	pfree(ends);
}

/* Draws points below a total, evenly distributed, and sorts them in groups likewise. */
static void
draw_points(GkDrawer *drawer, GkLine *line, int64 total)
{
	int			bits = group_bits(line->count);
	double		scale = ldexp(1.0, bits) / total * (1 - 1e-9);
	int64	   *ends = gk_allocate_zero((INT64CONST(1) << bits) + 1, sizeof(int64));
	int64	   *drawn = gk_allocate(line->count, sizeof(int64));

	for (int64 i = 0; i < line->count; i++)
	{
		drawn[i] = (int64) gk_random_below((uint64) total, drawer->seed, drawer->start,
										   drawer->round, (uint64) i);
		ends[(int64) (drawn[i] * scale) + 1]++;
	}
	add_up(ends, bits);
	for (int64 i = 0; i < line->count; i++)
		line->points[ends[(int64) (drawn[i] * scale)]++] = drawn[i];
	for (int64 group = 0, begin = 0; group < INT64CONST(1) << bits; begin = ends[group++])
		if (ends[group] - begin > 1)
			sort_points(line->points + begin, ends[group] - begin);
	pfree(drawn);
	pfree(ends);
}

/*
 * Bits of the buckets for a draw of so many rows: about as much work with the buckets as with the
 * rows of those that contain points.
 */
static int
bucket_bits(int64 rows, int64 count)
{
	int			bits = 0;

	while (bits < MOST_BITS && ldexp(1.0, 2 * bits) < ROW_COST * rows * count &&
		   rows >> bits > 0)
		bits++;
	return bits;
}

/* Σ of the masses of all buckets. */
static int64
sum_masses(GkJob *job, GkLine *line)
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

/* Marks the buckets of the points. */
static void
mark_buckets(GkLine *line)
{
	int64		bucket = 0;
	int64		begin = 0;

	line->hits = gk_allocate(Min(line->count, INT64CONST(1) << line->bits), sizeof(Hit));
	for (int64 i = 0; i < line->count; i++)
	{
		while (line->points[i] - begin >= line->buckets[bucket])
			begin += line->buckets[bucket++];
		if (!line->wanted[bucket])
			line->hits[line->hit_count++] = (Hit) {.bucket = bucket,.begin = begin};
		line->wanted[bucket] = 1;
	}
}

/* Draws the points and marks their buckets. */
static void
throw_points(GkDrawer *drawer, GkLine *line, int64 total)
{
	draw_points(drawer, line, total);
	drawer->round++;
	mark_buckets(line);
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
sort_entries(GkJob *job, GkLine *line)
{
	const GkEntry *entries = line->entries;
	int64		begin = 0;

	sort_entries_by_hash(line->entries, line->used);
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
merge_entries(GkJob *job, GkLine *line)
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
reserve_entries(GkLine *line, int64 capacity)
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
free_entries(GkLine *line)
{
	pfree(line->entries);
	pfree(line->ties.ends);
	pfree(line->ties.rows);
	pfree(line->ties.others);
	pfree(line->ties.order);
	line->entries = NULL;
	line->ties = (GkTies) {0};
	line->capacity = 0;
}

/* Collects the rows of the wanted buckets. */
static void
collect_entries(GkDrawer *drawer, GkLine *line)
{
	GkCommand	command = {.operation = GK_ENTRIES};
	int64		capacity = Max(FIRST_CAPACITY,
							   4 * line->hit_count * (1 + (drawer->rows >> line->bits)));

	capacity = Min(capacity, 2 * drawer->rows);
	if (line->capacity < capacity)
	{
		if (line->entries != NULL)
			free_entries(line);
		reserve_entries(line, capacity);
	}
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

/* The rows that contain the points, and how many each of them contains. */
static int64
rows_of_points(GkJob *job, const GkLine *line, int64 *rows, int64 *times)
{
	int64		found = 0;
	int64		point = 0;
	int64		entry = 0;

	for (int64 i = 0; i < line->hit_count; i++)
	{
		int64		end = line->hits[i].begin;

		for (; entry < line->used && gk_hash_bucket(line->entries[entry].hash, line->bits) ==
			 line->hits[i].bucket; entry++)
		{
			end += line->entries[entry].mass;
			if (point == line->count || line->points[point] >= end)
				continue;
			rows[found] = line->entries[entry].row;
			times[found] = 0;
			for (; point < line->count && line->points[point] < end; point++)
				times[found]++;
			found++;
		}
	}
	if (point < line->count)
		gk_contradict(gk_job_engine(job), "fewer rows are listed than were summed");
	return found;
}

/* A line with so many bits, whose buckets are to be filled. */
static GkLine *
make_line(int bits)
{
	GkLine	   *line = gk_allocate_zero(1, sizeof(GkLine));

	line->bits = bits;
	line->buckets = gk_allocate(INT64CONST(1) << bits, sizeof(int64));
	line->wanted = gk_allocate_zero(INT64CONST(1) << bits, sizeof(uint8));
	return line;
}

/* An empty line of so many rows, for so many points. */
GkLine *
gk_begin_line(int64 rows, int64 count)
{
	GkLine	   *line = make_line(bucket_bits(rows, count));

	memset(line->buckets, 0, sizeof(int64) << line->bits);
	return line;
}

/* Frees the points of a line. */
static void
free_points(GkLine *line)
{
	if (line->points != NULL)
		pfree(line->points);
	if (line->hits != NULL)
		pfree(line->hits);
	line->points = NULL;
	line->hits = NULL;
}

/* Frees a line. */
void
gk_free_line(GkLine *line)
{
	if (line->entries != NULL)
		free_entries(line);
	free_points(line);
	pfree(line->wanted);
	pfree(line->buckets);
	pfree(line);
}

/* Frees a line, or keeps it for the next draw, without points. */
static void
give_line_back(GkDrawer *drawer, GkLine *line)
{
	if (!drawer->keeps_line)
	{
		gk_free_line(line);
		return;
	}
	for (int64 i = 0; i < line->hit_count; i++)
		line->wanted[line->hits[i].bucket] = 0;
	free_points(line);
	line->hit_count = line->used = 0;
	drawer->spare = line;
}

/* The line that a drawer keeps, if it has about so many bits, or else a new one. */
static GkLine *
take_line(GkDrawer *drawer, int bits)
{
	GkLine	   *line = drawer->spare;

	drawer->spare = NULL;
	if (line != NULL && abs(line->bits - bits) <= 1)
		return line;
	if (line != NULL)
		gk_free_line(line);
	return make_line(bits);
}

/* Frees the line that a drawer keeps. */
void
gk_end_drawing(GkDrawer *drawer)
{
	if (drawer->spare != NULL)
		gk_free_line(drawer->spare);
	drawer->spare = NULL;
}

/* Sums the masses of the rows. */
GkLine *
gk_begin_draw(GkDrawer *drawer, GkMass mass, double greatest, int64 count, double *total)
{
	GkLine	   *line = take_line(drawer, bucket_bits(drawer->rows, count));

	line->mass = mass;
	line->exponent = gk_grid_exponent(greatest, gk_value_bits(drawer->rows));
	line->total = sum_masses(drawer->job, line);
	*total = ldexp((double) line->total, -line->exponent);
	return line;
}

/* Draws rows with replacement, by mass. */
int64
gk_finish_draw(GkDrawer *drawer, GkLine *line, int64 count, int64 *rows, int64 *times)
{
	int64	   *own_times = times == NULL ? gk_allocate(count, sizeof(int64)) : NULL;
	int64		found = 0;

	line->count = count;
	if (line->total > 0)
	{
		line->points = gk_allocate(line->count, sizeof(int64));
		throw_points(drawer, line, line->total);
		collect_entries(drawer, line);
		found = rows_of_points(drawer->job, line, rows, times == NULL ? own_times : times);
	}
	if (own_times != NULL)
		pfree(own_times);
	give_line_back(drawer, line);
	return found;
}

/* Σ of the masses alone. */
double
gk_sum_masses(GkDrawer *drawer, GkMass mass, double greatest)
{
	int64	   *total = gk_allocate(1, sizeof(int64));
	GkLine		line = {.mass = mass,.buckets = total};
	double		sum;

	line.exponent = gk_grid_exponent(greatest, gk_value_bits(drawer->rows));
	sum = ldexp((double) sum_masses(drawer->job, &line), -line.exponent);
	pfree(total);
	return sum;
}

/* Has the engine draw rows, and compare all rows with those drawn. */
int64
gk_draw_in_engine(GkDrawer *drawer, GkMass mass, double greatest, int64 count, int64 first_label,
				  float *features, double *total, double *compared)
{
	GkCommand	command = {.operation = GK_DRAW};

	command.draw.mass = mass;
	command.draw.exponent = gk_grid_exponent(greatest, gk_value_bits(drawer->rows));
	command.draw.count = count;
	command.draw.seed = drawer->seed;
	command.draw.start = drawer->start;
	command.draw.round = drawer->round;
	command.draw.first_label = first_label;
	command.draw.features = features;
	gk_run(drawer->job, &command);
	if (command.draw.found < 0)
		return -1;
	*total = ldexp((double) command.draw.total, -command.draw.exponent);
	drawer->round += command.draw.total > 0;
	if (command.draw.found > 0)
		*compared = command.draw.greatest;
	return command.draw.found;
}

/* Both. */
int64
gk_draw_rows(GkDrawer *drawer, GkMass mass, double greatest, int64 count, int64 *rows,
			 int64 *times)
{
	double		total;
	GkLine	   *line = gk_begin_draw(drawer, mass, greatest, count, &total);

	return gk_finish_draw(drawer, line, count, rows, times);
}

/* Chooses points at even distances on a line of `total` units, the first one at random. */
static void
choose_points(GkDrawer *drawer, GkLine *line, int64 total, int64 count)
{
	uint64		offset = gk_random_below((uint64) total, drawer->seed, drawer->start,
										 drawer->round++, 0);

	line->count = count;
	line->points = gk_allocate(count, sizeof(int64));
	for (int64 i = 0; i < count; i++)
		line->points[i] = (int64) (((uint128) i * total + offset) / count);
	mark_buckets(line);
}

/* Draws rows of the engine evenly: each is a unit of the line. */
int64
gk_draw_evenly(GkDrawer *drawer, int64 count, int64 *rows, int64 *times)
{
	GkLine	   *line = gk_begin_line(drawer->rows, count);
	int64		found;

	line->mass = GK_MASS_WEIGHT;
	/* a node may lie: no bucket contains the points of a line without rows */
	if (sum_masses(drawer->job, line) != drawer->rows)
		gk_contradict(gk_job_engine(drawer->job), "the rows were summed to another number");
	choose_points(drawer, line, drawer->rows, count);
	collect_entries(drawer, line);
	found = rows_of_points(drawer->job, line, rows, times);
	gk_free_line(line);
	return found;
}

/* Counts a row. */
void
gk_count_on_line(GkLine *line, uint64 hash)
{
	line->buckets[gk_hash_bucket(hash, line->bits)]++;
}

/* Chooses the points, once all rows are counted. */
void
gk_choose_on_line(GkLine *line, GkDrawer *drawer, int64 count)
{
	int64		total = 0;

	for (int64 i = 0; i < INT64CONST(1) << line->bits; i++)
		total += line->buckets[i];
	reserve_entries(line, Min(FIRST_CAPACITY, 2 * total));
	choose_points(drawer, line, total, Min(count, total));
}

/* Takes a row in if its bucket contains a point. */
void
gk_offer_to_line(GkLine *line, GkDrawer *drawer, uint64 hash, int64 row)
{
	if (!line->wanted[gk_hash_bucket(hash, line->bits)])
		return;
	if (line->used == line->capacity)
	{
		merge_entries(drawer->job, line);
		if (line->used > line->capacity / 2)
			reserve_entries(line, 2 * line->capacity);
	}
	line->entries[line->used++] = (GkEntry) {.row = row,.hash = hash,.mass = 1};
}

/* The rows drawn; frees the line. */
int64
gk_drawn_from_line(GkLine *line, GkDrawer *drawer, int64 *rows, int64 *times)
{
	int64		found;

	merge_entries(drawer->job, line);
	found = rows_of_points(drawer->job, line, rows, times);
	gk_free_line(line);
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
