/*
 * Loops over the numbers of rows, four at a time.
 *
 * Rows of doubles lie behind each other, GK_LANES unused doubles after the last.  Ranges and
 * shifts have room for gk_lanes() numbers; those beyond the dimension mean nothing.
 */
#ifndef GK_LANES_H
#define GK_LANES_H

#include "postgres.h"

#define GK_LANES 4

/* A number of numbers, rounded up. */
static inline int
gk_lanes(int count)
{
	return (count + GK_LANES - 1) / GK_LANES * GK_LANES;
}

/* Extends ranges by the numbers of rows, none of which is NaN. */
extern void gk_widen_ranges(double *least, double *greatest, const double *rows, int64 count,
							int dimension);

/* Subtracts the shift from rows and rounds them to float32: 0, never -0. */
extern void gk_round_rows(const double *rows, const double *shift, int64 count, int dimension,
						  float *rounded);

#endif							/* GK_LANES_H */
