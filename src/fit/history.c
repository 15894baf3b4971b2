/*
 * The iterations of a fit, written down.
 */
#include "postgres.h"

#include "alloc.h"
#include "history.h"

#define FIRST_CAPACITY 64

/* An empty history. */
void
gk_history_begin(GkHistory *history)
{
	*history = (GkHistory) {.capacity = FIRST_CAPACITY,.every = 1};
	history->iterations = gk_allocate(FIRST_CAPACITY, sizeof(GkIteration));
}

/* True if an iteration stays however many there are. */
static bool
stays(const GkIteration *iteration)
{
	return iteration->iteration == 1 || iteration->is_last;
}

/* True if an iteration is among those that are kept. */
static bool
is_kept(const GkHistory *history, const GkIteration *iteration)
{
	return stays(iteration) || (iteration->iteration - 1) % history->every == 0;
}

/* Drops about half of what lies between. */
static void
thin_out(GkHistory *history)
{
	int			kept = 0;

	history->every *= 2;
	history->between = 0;
	for (int i = 0; i < history->count; i++)
	{
		GkIteration iteration = history->iterations[i];

		if (!is_kept(history, &iteration))
			continue;
		history->between += !stays(&iteration);
		history->iterations[kept++] = iteration;
	}
	history->count = kept;
}

/* Adds an iteration at its place. */
void
gk_history_add(GkHistory *history, const GkIteration *iteration)
{
	int			place = history->count;

	if (!is_kept(history, iteration))
		return;
	if (history->count == history->capacity)
	{
		history->capacity *= 2;
		history->iterations = repalloc(history->iterations,
									   history->capacity * sizeof(GkIteration));
	}
	while (place > 0 && history->iterations[place - 1].start > iteration->start)
		place--;
	memmove(history->iterations + place + 1, history->iterations + place,
			(history->count++ - place) * sizeof(GkIteration));
	history->iterations[place] = *iteration;
	history->between += !stays(iteration);
	while (history->between > GK_HISTORY_ROOM)
		thin_out(history);
}
