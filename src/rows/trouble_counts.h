/*
 * How many rows each column of a source made unusable.
 */
#ifndef GK_TROUBLE_COUNTS_H
#define GK_TROUBLE_COUNTS_H

#include "postgres.h"

/* Columns are those of the features, in turn, and behind them the weight. */
typedef struct GkTroubleCounts
{
	int			columns;		/* of features, + 1 */
	int64	   *nulls;			/* columns */
	int64	   *not_finite;		/* likewise */
	int64		zeros;			/* rows of zeros, which have no direction */
} GkTroubleCounts;

#endif							/* GK_TROUBLE_COUNTS_H */
