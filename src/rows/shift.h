/*
 * The shift: what is taken off a feature before it is rounded to float32.
 *
 * It depends on the least and the greatest value of the feature alone, so it
 * does not follow the order of the rows.  While the rows are read for the first time
 * these are not known: the first process that has seen enough rows publishes a guess,
 * and all track the true range.  If the guess was wrong the source is read again.
 */
#ifndef GK_SHIFT_H
#define GK_SHIFT_H

#include <stdatomic.h>

#include "postgres.h"

/* How a feature is treated. */
typedef enum GkFeatureClass
{
	GK_FEATURE_EXACT,			/* float32 holds it: never shifted */
	GK_FEATURE_REAL,
	GK_FEATURE_INTEGER
} GkFeatureClass;

/* The range of a feature in shared memory, as keys in the order of the values. */
typedef struct GkSharedRange
{
	_Atomic int64 least;
	_Atomic int64 greatest;
} GkSharedRange;

/* The shift of a feature with such a range. */
extern double gk_shift_of_range(double least, double greatest, GkFeatureClass feature_class);

/* The shift that the whole feature will probably have, from the range of some rows. */
extern double gk_guess_shift(double least, double greatest, GkFeatureClass feature_class);

/* An empty range, a range widened by another, and the range itself (false if empty). */
extern void gk_range_init(GkSharedRange *range);
extern void gk_range_merge(GkSharedRange *range, double least, double greatest);
extern bool gk_range_get(GkSharedRange *range, double *least, double *greatest);

#endif							/* GK_SHIFT_H */
