/*
 * The principal axes of points: Jacobi's method.
 *
 * Every pair of axes is turned so that their covariance is 0, again and again, until all are
 * small beside the variances.  Slow for many features, but simple, exact and always the same.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "axes.h"

/* Rounds over all pairs at most; about 10 are needed. */
#define MAX_ROUNDS 60

/* The sums of the squares on the diagonal and above it. */
static void
sum_squares(const double *matrix, int d, double *on, double *above)
{
	*on = *above = 0.0;
	for (int64 i = 0; i < d; i++)
	{
		*on += matrix[i * d + i] * matrix[i * d + i];
		for (int64 j = i + 1; j < d; j++)
			*above += matrix[i * d + j] * matrix[i * d + j];
	}
}

/* Turns two rows of a matrix. */
static void
turn_rows(double *p, double *q, int count, double cosine, double sine)
{
	for (int j = 0; j < count; j++)
	{
		double		left = p[j];
		double		right = q[j];

		p[j] = cosine * left - sine * right;
		q[j] = sine * left + cosine * right;
	}
}

/* Turns two columns of a square matrix. */
static void
turn_columns(double *matrix, int64 d, int p, int q, double cosine, double sine)
{
	for (int64 i = 0; i < d; i++)
	{
		double		left = matrix[i * d + p];
		double		right = matrix[i * d + q];

		matrix[i * d + p] = cosine * left - sine * right;
		matrix[i * d + q] = sine * left + cosine * right;
	}
}

/* Turns axes p and q so that their covariance is 0. */
static void
turn_pair(double *matrix, int64 d, int p, int q, double *axes)
{
	double		covariance = matrix[p * d + q];
	double		ratio;
	double		tangent;
	double		cosine;

	if (covariance == 0.0)
		return;
	ratio = (matrix[q * d + q] - matrix[p * d + p]) / (2 * covariance);
	tangent = (ratio >= 0.0 ? 1.0 : -1.0) / (fabs(ratio) + sqrt(ratio * ratio + 1.0));
	cosine = 1.0 / sqrt(tangent * tangent + 1.0);
	turn_rows(matrix + p * d, matrix + q * d, (int) d, cosine, tangent * cosine);
	turn_columns(matrix, d, p, q, cosine, tangent * cosine);
	matrix[p * d + q] = matrix[q * d + p] = 0.0;
	turn_rows(axes + p * d, axes + q * d, (int) d, cosine, tangent * cosine);
}

/* The eigenvectors of a symmetric matrix. */
void
gk_find_axes(double *matrix, int dimension, double *axes)
{
	double		on;
	double		above;

	memset(axes, 0, (Size) dimension * dimension * sizeof(double));
	for (int64 i = 0; i < dimension; i++)
		axes[i * dimension + i] = 1.0;
	for (int round = 0; round < MAX_ROUNDS; round++)
	{
		sum_squares(matrix, dimension, &on, &above);
		if (!(above > 1e-30 * on))
			return;
		for (int p = 0; p < dimension; p++)
			for (int q = p + 1; q < dimension; q++)
			{
				CHECK_FOR_INTERRUPTS();
				turn_pair(matrix, dimension, p, q, axes);
			}
	}
}
