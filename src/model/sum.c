/*
 * The sum of numbers, whatever order they are in: that of labels is by their names, which must not
 * decide about the last bits of a figure.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "sum.h"

/* The order of numbers. */
static int
compare_numbers(const void *a, const void *b, void *argument)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return (left > right) - (left < right);
}

/* Adds numbers up, from the least to the greatest. */
double
gk_sum(double *numbers, int64 count)
{
	double		sum = 0.0;

	qsort_interruptible(numbers, count, sizeof(double), compare_numbers, NULL);
	for (int64 i = 0; i < count; i++)
		sum += numbers[i];
	return sum;
}
