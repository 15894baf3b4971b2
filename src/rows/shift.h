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

#include "postgres.h"

/* How a feature is treated. */
typedef enum GkFeatureClass
{
	GK_FEATURE_EXACT,			/* float32 holds it: never shifted */
	GK_FEATURE_REAL,
	GK_FEATURE_INTEGER
} GkFeatureClass;

/* The shift of the features of a feed, and their ranges so far; lies in shared memory. */
typedef struct GkShift GkShift;

/* Bytes that it takes for so many features at most. */
extern Size gk_shift_bytes(int features);

/* Makes one that is not settled; `classes` has `count` entries, or one for all features. */
extern void gk_shift_init(GkShift *shift, int features, const GkFeatureClass *classes, int count);

/* Begins a reading: no value has been seen.  A shift that is settled stays so. */
extern void gk_shift_begin(GkShift *shift, int dimension);

/* The shift of each feature; NULL until it is settled. */
extern const double *gk_shift_values(GkShift *shift);

/*
 * Settles the shift by the ranges of some rows: `exact` if these are all rows there are, else it is
 * guessed.  If another process was faster, what it said holds.  Gives the shift of each feature.
 */
extern const double *gk_shift_settle(GkShift *shift, int dimension, const double *least,
									 const double *greatest, bool exact);

/* Settles it before any reading: `values` is what is taken off. */
extern void gk_shift_set(GkShift *shift, int dimension, const double *values);

/* Adds to the ranges those that a process has seen. */
extern void gk_shift_widen(GkShift *shift, int dimension, const double *least,
						   const double *greatest);

/* After a reading: puts right what was guessed wrong; true if there was anything. */
extern bool gk_shift_correct(GkShift *shift, int dimension);

#endif							/* GK_SHIFT_H */
