/*
 * The shift: what is taken off a feature before it is rounded to float32.
 */
#include "postgres.h"

#include <math.h>

#include "shift.h"

/* A feature is shifted if it lies further from zero than so many times its range. */
#define FAR 16.0
/* The grid of shifts has the least power of 16 that is not less than the range. */
#define GRID_BITS 4
/* What a guess adds to each side of the range that it has seen, as a share of it. */
#define GUESS_MARGIN 0.15
/* float32 holds all integers up to here. */
#define EXACT_INTEGER 16777216.0

/* The shift of a feature with such a range. */
double
gk_shift_of_range(double least, double greatest, GkFeatureClass feature_class)
{
	double		range = greatest - least;
	double		farthest = Max(fabs(least), fabs(greatest));
	double		grid;
	int			exponent;

	if (feature_class == GK_FEATURE_EXACT || farthest <= FAR * range)
		return 0.0;
	if (feature_class == GK_FEATURE_INTEGER && farthest <= EXACT_INTEGER)
		return 0.0;
	if (range == 0.0)
		return (double) (float) least == least ? 0.0 : least;

	/* frexp: range = fraction × 2^exponent, 1/2 <= fraction < 1 */
	if (frexp(range, &exponent) == 0.5)
		exponent--;
	grid = ldexp(1.0, (int) ceil((double) exponent / GRID_BITS) * GRID_BITS);
	return rint((least / 2 + greatest / 2) / grid) * grid;
}

/* The shift that the whole feature will probably have, from the range of some rows. */
double
gk_guess_shift(double least, double greatest, GkFeatureClass feature_class)
{
	double		margin = (greatest - least) * GUESS_MARGIN;

	return gk_shift_of_range(least - margin, greatest + margin, feature_class);
}

/* An integer in the order of the doubles. */
static int64
key_of(double value)
{
	int64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits >= 0 ? bits : bits ^ PG_INT64_MAX;
}

/* The double of such an integer. */
static double
value_of(int64 key)
{
	int64		bits = key >= 0 ? key : key ^ PG_INT64_MAX;
	double		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* An empty range. */
void
gk_range_init(GkSharedRange *range)
{
	atomic_init(&range->least, PG_INT64_MAX);
	atomic_init(&range->greatest, PG_INT64_MIN);
}

/* Widens a range by another; any process may do so at any time. */
void
gk_range_merge(GkSharedRange *range, double least, double greatest)
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

/* The range itself; false if it is empty. */
bool
gk_range_get(GkSharedRange *range, double *least, double *greatest)
{
	int64		low = atomic_load(&range->least);
	int64		high = atomic_load(&range->greatest);

	if (low > high)
		return false;
	*least = value_of(low);
	*greatest = value_of(high);
	return true;
}
