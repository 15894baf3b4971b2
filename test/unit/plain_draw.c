/*
 * A draw of rows (GK_DRAW) by the other commands of an engine.
 */
#include <stdlib.h>
#include <string.h>

#include "plain_draw.h"
#include "random.h"
#include "ties.h"

/* Memory, or the end of the test. */
static void *
allocate(int64_t count, size_t size)
{
	void	   *memory = malloc(count * size + 1);

	if (memory == NULL)
		abort();
	return memory;
}

/* The order of entries by hash. */
static int
compare_hashes(const void *a, const void *b)
{
	uint64_t	left = ((const GkEntry *) a)->hash;
	uint64_t	right = ((const GkEntry *) b)->hash;

	return (left > right) - (left < right);
}

/* The order of points. */
static int
compare_points(const void *a, const void *b)
{
	int64_t		left = *(const int64_t *) a;
	int64_t		right = *(const int64_t *) b;

	return (left > right) - (left < right);
}

/* Has the engine compare rows; the context is the drawer. */
static void
compare_rows(void *context, const int64_t *rows, const int64_t *others, int64_t count,
			 int8_t *order)
{
	const PlainDrawer *drawer = context;
	GkCommand	c = {.operation = GK_COMPARE};

	c.compare.rows = rows;
	c.compare.others = others;
	c.compare.count = count;
	c.compare.order = order;
	drawer->run(drawer->engine, &c);
}

/* Sorts entries into the order of the line, and joins those of equal rows; returns how many. */
static int64_t
join_equals(const PlainDrawer *drawer, GkEntry *entries, int64_t count)
{
	GkTies		ties = {
		.ends = allocate(count, sizeof(int64_t)),.rows = allocate(count, sizeof(int64_t)),
		.others = allocate(count, sizeof(int64_t)),.order = allocate(count, sizeof(int8_t))
	};
	int64_t		kept = 0;

	qsort(entries, count, sizeof(GkEntry), compare_hashes);
	for (int64_t begin = 0, end; begin < count; begin = end)
	{
		for (end = begin + 1; end < count && entries[end].hash == entries[begin].hash;)
			end++;
		gk_tie_mark(&ties, begin, end, false);
	}
	gk_order_ties(entries, count, &ties, compare_rows, (void *) drawer);
	for (int64_t begin = 0, end; begin < count; begin = end)
	{
		end = gk_tie_end(&ties, begin);
		entries[kept] = entries[begin];
		for (int64_t i = begin + 1; i < end; i++)
			entries[kept].mass += entries[i].mass;
		kept++;
	}
	free(ties.ends);
	free(ties.rows);
	free(ties.others);
	free(ties.order);
	return kept;
}

/* All rows with mass, in the order of the line; equal ones once. */
static GkEntry *
make_line(const PlainDrawer *drawer, const GkCommand *draw, int64_t *count)
{
	uint8_t		wanted = 1;
	GkCommand	c = {.operation = GK_ENTRIES};

	c.entries.mass = draw->draw.mass;
	c.entries.exponent = draw->draw.exponent;
	c.entries.wanted = &wanted;
	c.entries.capacity = drawer->rows;
	c.entries.entries = allocate(drawer->rows, sizeof(GkEntry));
	drawer->run(drawer->engine, &c);
	*count = join_equals(drawer, c.entries.entries, c.entries.count);
	return c.entries.entries;
}

/* The points of a draw, ascending. */
static int64_t *
draw_points(const GkCommand *c)
{
	int64_t    *points = allocate(c->draw.count, sizeof(int64_t));

	for (int64_t i = 0; i < c->draw.count; i++)
		points[i] = (int64_t) gk_random_below((uint64_t) c->draw.total, c->draw.seed,
											  c->draw.start, c->draw.round, (uint64_t) i);
	qsort(points, c->draw.count, sizeof(int64_t), compare_points);
	return points;
}

/* The rows of the line that contain points; returns how many. */
static int64_t
find_rows(const GkEntry *line, const int64_t *points, int64_t count, int64_t *rows)
{
	int64_t		found = 0;
	int64_t		end = 0;

	for (int64_t i = 0; i < count; line++)
	{
		end += line->mass;
		if (points[i] < end)
			rows[found++] = line->row;
		while (i < count && points[i] < end)
			i++;
	}
	return found;
}

/* Compares all rows with those drawn. */
static void
compare_drawn(const PlainDrawer *drawer, GkCommand *draw, const int64_t *rows)
{
	int64_t		values = draw->draw.found * drawer->d;
	double	   *candidates = allocate(values, sizeof(double));
	GkCommand	c = {.operation = GK_ROWS};

	c.rows.rows = rows;
	c.rows.count = draw->draw.found;
	c.rows.features = draw->draw.features;
	drawer->run(drawer->engine, &c);
	for (int64_t i = 0; i < values; i++)
		candidates[i] = draw->draw.features[i];
	c = (GkCommand) {.operation = GK_CANDIDATES};
	c.candidates.candidates = candidates;
	c.candidates.count = draw->draw.found;
	c.candidates.first_label = draw->draw.first_label;
	drawer->run(drawer->engine, &c);
	draw->draw.greatest = c.candidates.greatest;
	free(candidates);
}

/* Carries out the command, which is a draw. */
void
plain_draw(const PlainDrawer *drawer, GkCommand *command)
{
	int64_t		count;
	GkEntry    *line = make_line(drawer, command, &count);

	command->draw.total = command->draw.found = 0;
	for (int64_t i = 0; i < count; i++)
		command->draw.total += line[i].mass;
	if (command->draw.total > 0)
	{
		int64_t    *points = draw_points(command);
		int64_t    *rows = allocate(command->draw.count, sizeof(int64_t));

		command->draw.found = find_rows(line, points, command->draw.count, rows);
		compare_drawn(drawer, command, rows);
		free(rows);
		free(points);
	}
	free(line);
}
