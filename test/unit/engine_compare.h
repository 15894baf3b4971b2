/*
 * An engine against another one: every output of every command, bit for bit.
 */
#ifndef ENGINE_COMPARE_H
#define ENGINE_COMPARE_H

#include "engine_cases.h"

/* What is compared. */
typedef struct Comparison
{
	const GkEngineClass *tested;
	const GkEngineClass *oracle;
	char		where[200];		/* the case that runs */
	bool		differs;		/* some output was not the same; the first is said */
	GkUsage		usage;			/* of the tested engine, before it was closed last */
} Comparison;

/* A whole fit of at most so many steps on both engines, twice from the same centroids. */
extern void compare_fit(Comparison *comparison, const Data *data, Feeding feeding, int steps);

/* The farthest rows from one centroid, in several numbers of them. */
extern void compare_farthest(Comparison *comparison, const Data *data, Feeding feeding);

/* An exponent that makes masses up to `greatest` large and sums of them no overflow. */
extern int	mass_exponent(int64_t rows, double greatest);

#endif							/* ENGINE_COMPARE_H */
