/*
 * The standard deviations of the features within the clusters of a clustering.
 *
 * The engine adds up the squares as integers, so the order of the rows does not matter; the second
 * limb keeps the deviations of a cluster that is small beside the range of all rows.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "deviations.h"
#include "exact.h"
#include "fixed_point.h"

/* Distances may be rounded by far less. */
#define REACH_MARGIN 1.000001

/* The squares under way. */
typedef struct Squares
{
	const GkClustering *clustering;
	int			bits;			/* of a value in a sum over all rows */
	double	   *limits;			/* dimension + 1: no weight × (x - c)² is above, no weight */
	int		   *exponents;		/* dimension + 1 */
	int64	   *sums;			/* k × (dimension + 1), and as many second limbs */
} Squares;

/* Finds how large a weight × (x - c)² of each feature may be; false if one may be infinite. */
static bool
find_limits(Squares *squares, const double *centroids, double reach)
{
	int			d = squares->clustering->dimension;
	float	   *range = gk_allocate(2 * (int64) d, sizeof(float));
	double	   *limits = squares->limits;
	GkCommand	command = {.operation = GK_RANGE};
	bool		finite = true;

	command.range.least = range;
	command.range.greatest = range + d;
	gk_run(squares->clustering->job, &command);
	memset(limits, 0, d * sizeof(double));
	for (int64 c = 0; c < squares->clustering->k; c++)
	{
		const double *centroid = centroids + c * d;

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			limits[j] = Max(limits[j], Max(fabs(centroid[j] - range[j]),
										   fabs(centroid[j] - range[d + j])));
	}
	limits[d] = command.range.greatest_weight;
	for (int j = 0; j < d; j++)
	{
		/* a row that is far from others may be near to its own centroid */
		limits[j] = Min(limits[j], reach * REACH_MARGIN);
		limits[j] = limits[d] * (limits[j] * limits[j]);
		finite = finite && isfinite(limits[j]);
	}
	pfree(range);
	return finite;
}

/* Has the engine add up the squares. */
static void
add_squares(Squares *squares)
{
	int			d = squares->clustering->dimension;
	GkCommand	command = {.operation = GK_SQUARES};

	for (int j = 0; j <= d; j++)
		squares->exponents[j] = gk_grid_exponent(squares->limits[j], squares->bits);
	command.squares.exponents = squares->exponents;
	command.squares.rest_bits = squares->bits;
	command.squares.sums = squares->sums;
	gk_run(squares->clustering->job, &command);
}

/* The value of a sum. */
static double
value_of(const Squares *squares, int64 label, int j)
{
	int64		width = squares->clustering->dimension + 1;
	int64		at = label * width + j;

	return gk_grid_value(squares->sums[at], squares->sums[squares->clustering->k * width + at],
						 squares->exponents[j], squares->bits);
}

/* From the sums of a label to its deviations. */
static void
derive_deviations(const Squares *squares, int64 label, double *deviations)
{
	int			d = squares->clustering->dimension;
	double		weight = value_of(squares, label, d);

	for (int j = 0; j < d; j++)
		deviations[j] = weight > 0.0 ? sqrt(value_of(squares, label, j) / weight) : NAN;
}

/* Finds the deviations around the centroids that the engine has. */
void
gk_find_deviations(const GkClustering *clustering, const double *centroids, double reach,
				   double *deviations)
{
	int64		d = clustering->dimension;
	Squares		squares = {.clustering = clustering,.bits = gk_value_bits(clustering->rows)};

	squares.limits = gk_allocate(d + 1, sizeof(double));
	squares.exponents = gk_allocate(d + 1, sizeof(int));
	squares.sums = gk_allocate(clustering->k * (d + 1), 2 * sizeof(int64));
	for (int64 label = 0; label < clustering->k; label++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int64 i = label * d; i < (label + 1) * d; i++)
			deviations[i] = NAN;
	}
	if (find_limits(&squares, centroids, reach))
	{
		add_squares(&squares);
		for (int64 label = 0; label < clustering->k; label++)
		{
			CHECK_FOR_INTERRUPTS();
			derive_deviations(&squares, label, deviations + label * d);
		}
	}
	pfree(squares.sums);
	pfree(squares.exponents);
	pfree(squares.limits);
}
