/*
 * Drawing rows by mass, whatever their order, and fetching rows.
 */
#ifndef GK_DRAW_H
#define GK_DRAW_H

#include "postgres.h"

#include "job.h"

/* The rows to draw from, and the random numbers to use. */
typedef struct GkDrawer
{
	GkJob	   *job;
	int64		rows;			/* in the engine */
	uint64		seed;
	uint32		start;
	uint32		round;			/* counts the draws made so far */
} GkDrawer;

/*
 * Draws `count` rows with replacement, each with a probability proportional to its mass;
 * `greatest` is the greatest mass of a row.  Writes the engine's numbers of the distinct rows
 * drawn, ordered by hash and bits.  Returns how many; 0 if there is no mass.
 */
extern int64 gk_draw_rows(GkDrawer *drawer, GkMass mass, double greatest, int64 count, int64 *rows);

/*
 * The features of rows, as they are compared: count × dimension.  Both arrays lie in the context of
 * the job.
 */
extern void gk_fetch_rows(GkJob *job, const int64 *rows, int64 count, float *features);

#endif							/* GK_DRAW_H */
