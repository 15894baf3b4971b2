/*
 * The shift: a constant subtracted from a feature before it is rounded to float32.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "storage/shmem.h"

#include "once.h"
#include "shift.h"

/* A feature is shifted if its distance from zero exceeds this multiple of its range. */
#define FAR 16.0
/* Shifts are multiples of a power of 16, the least that is not below the range. */
#define GRID_BITS 4
/* The part of the range seen so far that a guess adds on each side at most … */
#define GUESS_MARGIN 0.15
/* and by this many times what it has gained since a quarter of the rows, four times the rows. */
#define GUESS_GROWTH 4.0
/* float32 holds all integers up to this one. */
#define EXACT_INTEGER 16777216.0
/* Steps of float32 into which it divides values that it tells apart, at least. */
#define ENOUGH_STEPS 1024.0

/* The shift of a feature whose values have this range. */
double
gk_shift_of_range(double least, double greatest, GkFeatureClass feature_class)
{
	double		range = greatest - least;
	double		farthest = Max(fabs(least), fabs(greatest));
	double		grid;
	int			exponent;

	if (feature_class == GK_FEATURE_EXACT || farthest <= FAR * range)
		return 0.0;
	/* rows that the fit has not seen may have a value beside it */
	if (range == 0.0)
		return farthest < EXACT_INTEGER && (double) (float) least == least ? 0.0 : least;
	if (feature_class == GK_FEATURE_INTEGER && farthest <= EXACT_INTEGER)
		return 0.0;

	/* frexp: range = fraction × 2^exponent, 1/2 <= fraction < 1 */
	if (frexp(range, &exponent) == 0.5)
		exponent--;
	grid = ldexp(1.0, (int) ceil((double) exponent / GRID_BITS) * GRID_BITS);
	return rint((least / 2 + greatest / 2) / grid) * grid;
}

/*
 * The likely shift of the whole feature, from the ranges of some rows and of a quarter of them:
 * those of values between bounds no longer grow, and others grow with the rows.
 */
static double
guess_shift(const GkRanges *seen, const GkRanges *quarter, int i, GkFeatureClass feature_class)
{
	double		least = seen->least[i];
	double		greatest = seen->greatest[i];
	double		most = (greatest - least) * GUESS_MARGIN;
	double		below = GUESS_GROWTH * (quarter->least[i] - least);
	double		above = GUESS_GROWTH * (greatest - quarter->greatest[i]);

	return gk_shift_of_range(least - Min(below, most), greatest + Min(above, most), feature_class);
}

/* An integer in the order of the doubles. */
static int64
key_of(double value)
{
	int64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits >= 0 ? bits : bits ^ PG_INT64_MAX;
}

/* The double of this integer. */
static double
value_of(int64 key)
{
	int64		bits = key >= 0 ? key : key ^ PG_INT64_MAX;
	double		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* The range of a feature, as keys in the order of the values. */
typedef struct Range
{
	_Atomic int64 least;
	_Atomic int64 greatest;
} Range;

struct GkShift
{
	GkOnce		settled;
	int			features;		/* capacity */
	double		values[FLEXIBLE_ARRAY_MEMBER];
	/* the ranges follow, and the classes as bytes */
};

/* The ranges of the features. */
static Range *
ranges_of(GkShift *shift)
{
	return (Range *) (shift->values + shift->features);
}

/* The classes of the features. */
static uint8 *
classes_of(GkShift *shift)
{
	return (uint8 *) (ranges_of(shift) + shift->features);
}

/* The size of a shift for at most this many features. */
Size
gk_shift_bytes(int features)
{
	return add_size(offsetof(GkShift, values),
					mul_size(features, sizeof(double) + sizeof(Range) + sizeof(uint8)));
}

/* Initialises a shift that is not yet determined. */
void
gk_shift_init(GkShift *shift, int features, const GkFeatureClass *classes, int count)
{
	atomic_init(&shift->settled, GK_UNSET);
	shift->features = features;
	memset(shift->values, 0, features * sizeof(double));
	for (int i = 0; i < features; i++)
		classes_of(shift)[i] = classes[count == 1 ? 0 : i];
}

/* Begins a reading. */
void
gk_shift_begin(GkShift *shift, int dimension)
{
	for (int i = 0; i < dimension; i++)
	{
		atomic_init(&ranges_of(shift)[i].least, PG_INT64_MAX);
		atomic_init(&ranges_of(shift)[i].greatest, PG_INT64_MIN);
	}
}

/* The shift of each feature. */
const double *
gk_shift_values(GkShift *shift)
{
	return gk_once_is_set(&shift->settled) ? shift->values : NULL;
}

/* Determines the shift from the ranges of some rows. */
const double *
gk_shift_settle(GkShift *shift, int dimension, const GkRanges *seen, const GkRanges *quarter)
{
	if (gk_once_begin(&shift->settled))
	{
		for (int i = 0; i < dimension; i++)
		{
			GkFeatureClass feature_class = classes_of(shift)[i];

			shift->values[i] = quarter != NULL ? guess_shift(seen, quarter, i, feature_class)
				: gk_shift_of_range(seen->least[i], seen->greatest[i], feature_class);
		}
		gk_once_end(&shift->settled);
	}
	return shift->values;
}

/* Widens a range; any process may do so at any time. */
static void
widen(Range *range, double least, double greatest)
{
	int64		low = key_of(least);
	int64		high = key_of(greatest);
	int64		seen;

	seen = atomic_load(&range->least);
	while (low < seen && !atomic_compare_exchange_weak(&range->least, &seen, low))
		;
	seen = atomic_load(&range->greatest);
	while (high > seen && !atomic_compare_exchange_weak(&range->greatest, &seen, high))
		;
}

/* Sets the shift before any reading. */
void
gk_shift_set(GkShift *shift, int dimension, const double *values)
{
	memset(shift->values, 0, shift->features * sizeof(double));
	memcpy(shift->values, values, Min(dimension, shift->features) * sizeof(double));
	atomic_store(&shift->settled, GK_SET);
}

/* Extends the ranges by those that a process has seen. */
void
gk_shift_widen(GkShift *shift, int dimension, const double *least, const double *greatest)
{
	for (int i = 0; i < dimension; i++)
		widen(&ranges_of(shift)[i], least[i], greatest[i]);
}

/* The range of a feature. */
void
gk_shift_range(GkShift *shift, int feature, double *least, double *greatest)
{
	*least = value_of(atomic_load(&ranges_of(shift)[feature].least));
	*greatest = value_of(atomic_load(&ranges_of(shift)[feature].greatest));
}

/* True if real tells values of this width apart that lie at most so far from its zero. */
bool
gk_real_tells_apart(double farthest, double width)
{
	return farthest * FLT_EPSILON <= width / ENOUGH_STEPS;
}

/* The shift that gives a value back, with what real has stored of it less another, if any does. */
static double
shift_of_one(double shift, double value)
{
	return value - (float) (value - shift);
}

/* True if a shift serves values of this range as well. */
static bool
serves(double shift, double least, double greatest, GkFeatureClass feature_class)
{
	double		farthest = Max(fabs(least - shift), fabs(greatest - shift));

	if (shift == gk_shift_of_range(least, greatest, feature_class))
		return true;
	if (isinf((float) farthest))
		return false;
	if (least == greatest)
		return farthest <= fabs(least) &&
			shift_of_one(shift, least) + (float) (least - shift) == least;
	return (feature_class == GK_FEATURE_INTEGER && farthest <= EXACT_INTEGER) ||
		gk_real_tells_apart(farthest, greatest - least);
}

/* After another reading: corrects a shift that does not serve these values. */
bool
gk_shift_adapt(double *shift, double least, double greatest, GkFeatureClass feature_class)
{
	if (!serves(*shift, least, greatest, feature_class))
	{
		*shift = gk_shift_of_range(least, greatest, feature_class);
		return true;
	}
	if (least == greatest)
		*shift = shift_of_one(*shift, least);
	return false;
}

/* After a reading: corrects wrong guesses, or only what does not serve. */
bool
gk_shift_correct(GkShift *shift, int dimension, bool exactly)
{
	bool		changed = false;

	if (!gk_once_is_set(&shift->settled))
		return false;
	for (int i = 0; i < dimension; i++)
	{
		GkFeatureClass feature_class = classes_of(shift)[i];
		double		least;
		double		greatest;
		double		value;

		gk_shift_range(shift, i, &least, &greatest);
		if (least > greatest)
			continue;
		if (!exactly)
		{
			changed |= gk_shift_adapt(&shift->values[i], least, greatest, feature_class);
			continue;
		}
		value = gk_shift_of_range(least, greatest, feature_class);
		changed = changed || value != shift->values[i];
		shift->values[i] = value;
	}
	return changed;
}
