/*
 * The iterations of a fit, written down for those who look at it later.
 */
#ifndef GK_HISTORY_H
#define GK_HISTORY_H

#include "postgres.h"

/* Iterations that are kept at most, besides the first and the last of each start. */
#define GK_HISTORY_ROOM 1000

/* One iteration. */
typedef struct GkIteration
{
	int			start;			/* from 1 */
	int			iteration;		/* of that start, from 1 */
	double		inertia;		/* of the rows as labelled in it, to the centroids it ends with */
	double		shift;			/* √ Σ (new - old)² over the centroids, as rows are compared;
								 * NaN at the end of a search */
	int64		moved;			/* rows with another label than before it; all, the first time;
								 * -1 at the end of a search */
	bool		is_last;		/* of its start */
} GkIteration;

/*
 * Where they are too many, every second one between the first and the last of a start is
 * dropped, again and again: what is kept are the iterations 1, 1 + every, 1 + 2 × every …
 */
typedef struct GkHistory
{
	GkIteration *iterations;
	int			count;
	int			capacity;
	int			between;		/* those that are neither first nor last */
	int			every;
} GkHistory;

/* An empty history in the current memory context, which it stays in. */
extern void gk_history_begin(GkHistory *history);

/* Adds an iteration after those of its start and of the starts before it. */
extern void gk_history_add(GkHistory *history, const GkIteration *iteration);

#endif							/* GK_HISTORY_H */
