/*
 * Drawing rows by mass, whatever their order, and fetching rows.
 */
#ifndef GK_DRAW_H
#define GK_DRAW_H

#include "postgres.h"

#include "job.h"

typedef struct GkLine GkLine;

/* The rows to draw from, and the random numbers to use. */
typedef struct GkDrawer
{
	GkJob	   *job;
	int64		rows;			/* in the engine */
	uint64		seed;
	uint32		start;
	uint32		round;			/* counts the draws made so far */
	bool		keeps_line;		/* the memory of a draw is kept for the next one … */
	GkLine	   *spare;			/* … here, until gk_end_drawing() */
} GkDrawer;

/* Frees what a drawer keeps. */
extern void gk_end_drawing(GkDrawer *drawer);

/*
 * Draws `count` rows with replacement, each with a probability proportional to its mass;
 * `greatest` is the greatest mass of a row.  Writes the engine's numbers of the distinct rows
 * drawn, ordered by hash and bits, and how often each was, unless `times` is NULL.  Returns how
 * many rows; 0 if there is no mass.
 */
extern int64 gk_draw_rows(GkDrawer *drawer, GkMass mass, double greatest, int64 count, int64 *rows,
						  int64 *times);

/*
 * The same in two steps, so that the caller knows Σ of the masses before the rows are chosen, and
 * may choose about as many as first said: the second one gives the line back.  gk_free_line() in
 * its place draws nothing.
 */
extern GkLine *gk_begin_draw(GkDrawer *drawer, GkMass mass, double greatest, int64 count,
							 double *total);
extern int64 gk_finish_draw(GkDrawer *drawer, GkLine *line, int64 count, int64 *rows,
							int64 *times);
extern void gk_free_line(GkLine *line);

/* Σ of the masses alone. */
extern double gk_sum_masses(GkDrawer *drawer, GkMass mass, double greatest);

/*
 * Has the engine draw `count` rows by mass, and compare all rows with those drawn, as GK_DRAW does:
 * their labels begin with `first_label`, and `features` has room for `count` rows.  Returns how
 * many were drawn, or -1 if the engine leaves that to the caller; `compared` (mass × d²) is the
 * greatest one afterwards.
 */
extern int64 gk_draw_in_engine(GkDrawer *drawer, GkMass mass, double greatest, int64 count,
							   int64 first_label, float *features, double *total,
							   double *compared);

/*
 * Draws `count` of the rows, which have no weights, at even distances on their line: of equal rows
 * as many as their share asks for.  Writes the distinct rows drawn, ordered by hash and bits, and
 * how often each was.  Returns how many rows.
 */
extern int64 gk_draw_evenly(GkDrawer *drawer, int64 count, int64 *rows, int64 *times);

/*
 * The same of rows that the caller goes through twice, with hashes of his own: first
 * gk_count_on_line() of each, then gk_choose_on_line(), then gk_offer_to_line() of each again, then
 * gk_drawn_from_line().  The line lies in the current memory context, which is the job's.
 */
extern GkLine *gk_begin_line(int64 rows, int64 count);
extern void gk_count_on_line(GkLine *line, uint64 hash);
extern void gk_choose_on_line(GkLine *line, GkDrawer *drawer, int64 count);
extern void gk_offer_to_line(GkLine *line, GkDrawer *drawer, uint64 hash, int64 row);
extern int64 gk_drawn_from_line(GkLine *line, GkDrawer *drawer, int64 *rows, int64 *times);

/*
 * The features of rows, as they are compared: count × dimension.  Both arrays lie in the context of
 * the job.
 */
extern void gk_fetch_rows(GkJob *job, const int64 *rows, int64 count, float *features);

#endif							/* GK_DRAW_H */
