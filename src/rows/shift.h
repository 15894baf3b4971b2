/*
 * The shift: a constant subtracted from a feature before it is rounded to float32.
 *
 * It depends only on the least and the greatest value of the feature, so not on the order of
 * the rows.  While the rows are read for the first time, these are not known: the first process
 * that has seen enough rows publishes a guess, and all processes track the true range.  If the
 * guess was wrong, the source is read again.
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

/* The size of a shift for at most this many features. */
extern Size gk_shift_bytes(int features);

/* Initialises a shift that is not yet determined; `classes` has `count` entries, or one for all. */
extern void gk_shift_init(GkShift *shift, int features, const GkFeatureClass *classes, int count);

/* Begins a reading: forgets the ranges, and keeps a shift that is determined. */
extern void gk_shift_begin(GkShift *shift, int dimension);

/* The shift of each feature; NULL until it is determined. */
extern const double *gk_shift_values(GkShift *shift);

/* The ranges of the features among some rows: least infinite and greatest -infinite if none. */
typedef struct GkRanges
{
	const double *least;
	const double *greatest;
} GkRanges;

/*
 * Determines the shift from the ranges of the rows `seen`: a guess, which the ranges of the first
 * `quarter` of them help to make, or exactly if these are all the rows (NULL).  If another process
 * was faster, its result holds.  Returns the shift of each feature.
 */
extern const double *gk_shift_settle(GkShift *shift, int dimension, const GkRanges *seen,
									 const GkRanges *quarter);

/* Sets the shift before any reading. */
extern void gk_shift_set(GkShift *shift, int dimension, const double *values);

/* Extends the ranges by those that a process has seen. */
extern void gk_shift_widen(GkShift *shift, int dimension, const double *least,
						   const double *greatest);

/* The range of a feature, after a reading that has seen a row. */
extern void gk_shift_range(GkShift *shift, int feature, double *least, double *greatest);

/* The shift of a feature whose values have this range. */
extern double gk_shift_of_range(double least, double greatest, GkFeatureClass feature_class);

/* True if real tells values of this width apart that lie at most so far from its zero. */
extern bool gk_real_tells_apart(double farthest, double width);

/*
 * After another reading of rows that may be others each time: corrects a shift that does not serve
 * these values; true if they must be read again.  It need not be theirs: less the shift, real must
 * tell them apart, and all be finite.  What real rounds of the only one, the shift makes up for.
 */
extern bool gk_shift_adapt(double *shift, double least, double greatest,
						   GkFeatureClass feature_class);

/*
 * After a reading: corrects wrong guesses, or only what does not serve, if the rows may be others
 * each time; true if there was anything.
 */
extern bool gk_shift_correct(GkShift *shift, int dimension, bool exactly);

#endif							/* GK_SHIFT_H */
