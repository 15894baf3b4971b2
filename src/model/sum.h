/*
 * The sum of numbers of clusters or labels, whatever order they are in.
 */
#ifndef GK_SUM_H
#define GK_SUM_H

#include "postgres.h"

/* Adds numbers up, from the least to the greatest: they are sorted in place. */
extern double gk_sum(double *numbers, int64 count);

#endif							/* GK_SUM_H */
