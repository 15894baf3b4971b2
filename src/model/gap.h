/*
 * What clusters would be found in rows that have none: the references of the gap statistic.
 *
 * Tibshirani, Walther and Hastie, "Estimating the number of clusters in a data set via the gap
 * statistic", 2001.
 */
#ifndef GK_GAP_H
#define GK_GAP_H

#include "postgres.h"

#include "fit_call.h"

/* Features of rows that have a gap, at most: the axes cost the cube of it. */
#define GK_MAX_GAP_DIMENSION 512

/* References at most. */
#define GK_MAX_REFERENCES 1000

/* What the references say of one k. */
typedef struct GkReference
{
	int			k;
	double		expected;		/* mean of ln(Σ d² ÷ (rows - clusters)); NaN = not defined */
	double		error;			/* its standard deviation × √(1 + 1 ÷ references) */
} GkReference;

/*
 * Fits each k to each of `count` random data sets, which are uniform in the box of the principal
 * axes of the rows in the engine of the call; the rows are prepared.  A data set has as many rows
 * as the engine, but at most `sample`.  The same bits whatever the engine and the order of the
 * rows.
 */
extern void gk_find_references(const GkCall *call, const GkPrepared *prepared, int sample,
							   int count, GkReference *references, int ks);

#endif							/* GK_GAP_H */
