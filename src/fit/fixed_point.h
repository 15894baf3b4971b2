/*
 * The choice of fixed-point grids (exact.h): as fine as a sum over all rows allows.
 */
#ifndef GK_FIXED_POINT_H
#define GK_FIXED_POINT_H

#include <math.h>
#include <stdint.h>

/* Bits of one value so that a sum over this many rows stays within 2^62. */
static inline int
gk_value_bits(int64_t rows)
{
	int			bits = 62;

	while (bits > 0 && (rows - 1) >> (62 - bits) > 0)
		bits--;
	return bits < 50 ? bits : 50;
}

/* The exponent of the grid on which values up to `greatest` take these bits. */
static inline int
gk_grid_exponent(double greatest, int bits)
{
	int			exponent;

	if (!(greatest > 0.0))
		return 0;
	(void) frexp(greatest, &exponent);
	exponent = bits - exponent;
	return exponent > 1000 ? 1000 : exponent;
}

#endif							/* GK_FIXED_POINT_H */
