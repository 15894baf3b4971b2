/*
 * An engine against another one: every output of every command, bit for bit.
 */
#ifndef ENGINE_COMPARE_H
#define ENGINE_COMPARE_H

#include "engine_cases.h"

/* A comparison. */
typedef struct Comparison
{
	const GkEngineClass *tested;
	const GkEngineClass *oracle;
	char		where[200];		/* the case that runs */
	bool		differs;		/* some output differs; the first is reported */
	int64_t		draws;			/* that the tested engine made by itself */
	GkUsage		usage;			/* of the tested engine, before it was closed last */
} Comparison;

/* A whole fit of at most this many steps on both engines, twice from the same centroids. */
extern void compare_fit(Comparison *comparison, const Data *data, Feeding feeding, int steps);

/*
 * Fits on the same two engines, one after the other: with k of each number in turn, first on one
 * data set, then on another one that takes its place.  Both are weighted, or neither is.
 */
extern void compare_refits(Comparison *comparison, const Data *data, const Data *next,
						   Feeding feeding, const int64_t *ks, int count);

/*
 * Iterations that a shift within a tolerance ends, each of the first ones in turn, and others after
 * them; returns how often that ended them.
 */
extern int	compare_resting(Comparison *comparison, const Data *data, Feeding feeding);

/* Rows drawn by weight, and by distance to these. */
extern void compare_rows_drawn(Comparison *comparison, const Data *data, Feeding feeding);

/* Candidates that come after others, many of which are as near as these, or nearly. */
extern void compare_nearer(Comparison *comparison, const Data *data, Feeding feeding);

/* A first candidate, which is a centroid of the data, then the others. */
extern void compare_first_and_others(Comparison *comparison, const Data *data, Feeding feeding);

/*
 * Candidates and centroids in orders that no fit has, labels that are no centroids' in between;
 * the last rows are candidates.
 */
extern void compare_odd_orders(Comparison *comparison, const Data *data, Feeding feeding);

/* Which of all rows, as points of the caller, become one. */
extern void compare_points_merged(Comparison *comparison, const Data *data, Feeding feeding);

/* The farthest rows from one centroid; various counts. */
extern void compare_farthest(Comparison *comparison, const Data *data, Feeding feeding);

/*
 * A data set at the limits of the arithmetic, of a random shape, through one of the comparisons
 * above; says which in `where`, behind what is there.
 */
extern void compare_at_limits(Comparison *comparison, Feeding feeding);

/* An exponent that makes masses up to `greatest` large and sums of them no overflow. */
extern int	mass_exponent(int64_t rows, double greatest);

#endif							/* ENGINE_COMPARE_H */
