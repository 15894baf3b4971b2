/*
 * Orders entries whose hashes are equal by the bits of their rows.
 *
 * Only the engine that holds the rows can compare them (GK_COMPARE).  One command compares the
 * rows of every run of equal hashes with one row of the run, which splits the run in three:
 * rows before it, equal to it, and after it.  A run nearly always consists of equal rows: then
 * one command is enough.
 *
 * Plain C that is also C++, without allocation: for the fit layer and for engines.
 */
#ifndef GK_TIES_H
#define GK_TIES_H

#include <time.h>

#include "engine.h"
#include "random.h"

/* Fills in order[i] as GK_COMPARE does; the context is the caller's. */
typedef void (*GkCompareRows) (void *context, const int64_t *rows, const int64_t *others,
							   int64_t count, int8_t *order);

/* Work arrays, each with one element per entry. */
typedef struct GkTies
{
	int64_t    *ends;			/* end of the run that begins here, negated if its rows are equal */
	int64_t    *rows;
	int64_t    *others;
	int8_t	   *order;
} GkTies;

/* The end of the run that begins at an entry. */
static inline int64_t
gk_tie_end(const GkTies *ties, int64_t begin)
{
	return ties->ends[begin] < 0 ? -ties->ends[begin] : ties->ends[begin];
}

/* Marks a run; one of a single row, or of rows known to be equal, needs no more work. */
static inline void
gk_tie_mark(GkTies *ties, int64_t begin, int64_t end, bool equal)
{
	if (begin < end)
		ties->ends[begin] = equal || end - begin == 1 ? -end : end;
}

/* Swaps two entries and their comparison results. */
static inline void
gk_tie_swap(GkEntry *entries, int8_t *order, int64_t a, int64_t b)
{
	GkEntry		entry = entries[a];
	int8_t		its = order[a];

	entries[a] = entries[b];
	order[a] = order[b];
	entries[b] = entry;
	order[b] = its;
}

/* Splits a run by how its rows compare with one of them. */
static inline void
gk_tie_split(GkEntry *entries, GkTies *ties, int8_t *order, int64_t begin, int64_t end)
{
	GkEntry    *run = entries + begin;
	int64_t		less = 0;
	int64_t		greater = end - begin;

	for (int64_t at = 0; at < greater;)
	{
		if (order[at] < 0)
			gk_tie_swap(run, order, less++, at++);
		else if (order[at] > 0)
			gk_tie_swap(run, order, --greater, at);
		else
			at++;
	}
	gk_tie_mark(ties, begin, begin + less, false);
	gk_tie_mark(ties, begin + less, begin + greater, true);
	gk_tie_mark(ties, begin + greater, end, false);
}

/* Lists the rows of all runs that may differ, each with a row of its run. */
static inline int64_t
gk_tie_pairs(const GkEntry *entries, int64_t count, GkTies *ties, uint64_t seed, uint32_t round)
{
	int64_t		pairs = 0;

	for (int64_t begin = 0, end; begin < count; begin = end)
	{
		int64_t		one;

		end = gk_tie_end(ties, begin);
		if (ties->ends[begin] < 0)
			continue;
		one = begin + (int64_t) gk_random_below(end - begin, seed, 0, round, begin);
		for (int64_t i = begin; i < end; i++)
		{
			ties->rows[pairs] = entries[i].row;
			ties->others[pairs++] = entries[one].row;
		}
	}
	return pairs;
}

/*
 * Orders entries by the bits of their rows within the runs that gk_tie_mark() has marked, from
 * the first entry to the last.  Afterwards the rows of each run are equal, in any order.
 */
static inline void
gk_order_ties(GkEntry *entries, int64_t count, GkTies *ties, GkCompareRows compare, void *context)
{
	int64_t		pairs;
	struct timespec now;
	uint64_t	seed;
	uint32_t	round = 0;

	/* a row that can be foreseen may have been placed so that it splits off itself alone */
	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	seed = (uint64_t) now.tv_nsec ^ (uint64_t) (uintptr_t) &now;
	while ((pairs = gk_tie_pairs(entries, count, ties, seed, round++)) > 0)
	{
		int8_t	   *order = ties->order;

		compare(context, ties->rows, ties->others, pairs, order);
		for (int64_t begin = 0, end; begin < count; begin = end)
		{
			end = gk_tie_end(ties, begin);
			if (ties->ends[begin] < 0)
				continue;
			gk_tie_split(entries, ties, order, begin, end);
			order += end - begin;
		}
	}
}

#endif							/* GK_TIES_H */
