/*
 * The update: the centroid of a cluster from its sums, on the host.  The engine that adds all rows
 * up, and the one that adds up the sums of others, get the same bits because both use this.
 *
 * Files that include this are compiled with -ffp-contract=off.
 */
#ifndef GK_UPDATE_H
#define GK_UPDATE_H

#include "engine.h"
#include "exact.h"

/* What does not change from cluster to cluster. */
typedef struct GkUpdate
{
	int			dimension;
	bool		spherical;
	GkGrid		grid;			/* rest_bits 0 unless wide */
} GkUpdate;

/* The value of a sum; `lows` is NULL unless the grid is wide. */
static inline double
gk_update_value(const GkUpdate *update, const int64_t *highs, const int64_t *lows, int j)
{
	return lows == NULL ? (double) highs[j]
		: gk_sum_value(highs[j], lows[j], update->grid.rest_bits);
}

/* gk_centroid(); a product with a power of two is rounded as ldexp() rounds, and quicker. */
static inline double
gk_update_coordinate(double sum, double weight, int sum_exponent, int weight_exponent)
{
	int			exponent = weight_exponent - sum_exponent;

	if (exponent < -1022 || exponent > 1023)
		return gk_centroid(sum, weight, sum_exponent, weight_exponent);
	return sum / weight * gk_power_of_two(exponent);
}

/* The sums of a cluster over a weight above zero into `mean`; its norm. */
static inline double
gk_update_mean(const GkUpdate *update, const int64_t *highs, const int64_t *lows, double weight,
			   double *mean)
{
	const int  *exponents = update->grid.exponents;
	double		norm2 = 0.0;

	for (int j = 0; j < update->dimension; j++)
	{
		mean[j] = gk_update_coordinate(gk_update_value(update, highs, lows, j), weight,
									   exponents[j], exponents[update->dimension]);
		norm2 += mean[j] * mean[j];
	}
	return sqrt(norm2);
}

/*
 * Makes the new centroid of a cluster in place of the old one; it stays without weight, or without
 * the direction that is needed.  `mean` is room for one.  Returns |new - old|², and in *between
 * what the cluster adds to `between` of GK_STEP.
 */
static inline double
gk_update_centroid(const GkUpdate *update, const int64_t *highs, const int64_t *lows, double *mean,
				   double *centroid, double *between)
{
	double		weight = gk_update_value(update, highs, lows, update->dimension);
	double		shift = 0.0;
	double		gain = 0.0;
	double		divisor;
	double		ratio;
	double		norm;

	*between = 0.0;
	if (!(weight > 0.0))
		return 0.0;
	divisor = update->spherical ? gk_direction_weight(weight) : weight;
	ratio = divisor / weight;
	norm = gk_update_mean(update, highs, lows, divisor, mean);
	for (int j = 0; j < update->dimension; j++)
	{
		double		fresh = !update->spherical ? mean[j]
			: norm > 0.0 ? mean[j] / norm : centroid[j];
		double		step = fresh - centroid[j];

		shift += step * step;
		gain += gk_gain(mean[j] * ratio, update->grid.origin[j], fresh);
		centroid[j] = fresh;
	}
	*between = gain * ldexp(weight, -update->grid.exponents[update->dimension] -
							update->grid.rest_bits);
	return shift;
}

#endif							/* GK_UPDATE_H */
