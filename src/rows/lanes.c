/*
 * Loops over the numbers of rows, four at a time; the compiler makes vectors of them.
 *
 * Many rows at a time, because a processor waits if it reads as a vector what it has just written
 * number by number.
 */
#include "postgres.h"

#include "lanes.h"

/* Extends four ranges. */
static inline void
widen_lanes(double *restrict least, double *restrict greatest, const double *restrict numbers,
			int64 count, int dimension)
{
	double		low[GK_LANES];
	double		high[GK_LANES];

	memcpy(low, least, sizeof(low));
	memcpy(high, greatest, sizeof(high));
	for (int64 row = 0; row < count; row++, numbers += dimension)
		for (int lane = 0; lane < GK_LANES; lane++)
		{
			low[lane] = numbers[lane] < low[lane] ? numbers[lane] : low[lane];
			high[lane] = numbers[lane] > high[lane] ? numbers[lane] : high[lane];
		}
	memcpy(least, low, sizeof(low));
	memcpy(greatest, high, sizeof(high));
}

/* Extends ranges by the numbers of rows. */
void
gk_widen_ranges(double *least, double *greatest, const double *rows, int64 count, int dimension)
{
	for (int i = 0; i < dimension; i += GK_LANES)
		widen_lanes(least + i, greatest + i, rows + i, count, dimension);
}

/* Subtracts the shift from numbers and rounds them; adding 0 turns -0 into 0. */
static inline void
round_numbers(const double *restrict numbers, const double *restrict shift, int count,
			  float *restrict rounded)
{
	for (int i = 0; i < count; i++)
		rounded[i] = (float) (numbers[i] - shift[i]) + 0.0f;
}

/* Rounds rows; lanes beyond the dimension spill into the rows behind, which are rounded later. */
void
gk_round_rows(const double *rows, const double *shift, int64 count, int dimension,
			  float *rounded)
{
	int64		left = count;

	for (; left >= GK_LANES; left--, rows += dimension, rounded += dimension)
		for (int i = 0; i < dimension; i += GK_LANES)
			round_numbers(rows + i, shift + i, GK_LANES, rounded + i);
	for (; left > 0; left--, rows += dimension, rounded += dimension)
		round_numbers(rows, shift, dimension, rounded);
}
