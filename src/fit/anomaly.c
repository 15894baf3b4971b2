/*
 * Anomaly scores: a row's distance from its centroid, relative to the other rows of its cluster.
 */
#include "postgres.h"

#include <math.h>

#include "anomaly.h"

/* The level of quantile number i, a share of the rows; levels get denser towards the top. */
double
gk_quantile_level(int i)
{
	if (i <= 18)
		return i * 5 / 100.0;
	if (i <= 27)
		return (90 + i - 18) / 100.0;
	if (i <= 36)
		return (990 + i - 27) / 1000.0;
	if (i <= 45)
		return (9990 + i - 36) / 10000.0;
	return 1.0;
}

/* distance ÷ average distance of the cluster. */
double
gk_anomaly_score(double distance, double avg_distance)
{
	return distance == 0.0 && avg_distance == 0.0 ? 0.0 : distance / avg_distance;
}

/* A score cut to the bits that quantiles have, so that equal scores compare equal to them. */
static double
as_quantile(double score)
{
	uint64		bits;

	score += 0.0;
	memcpy(&bits, &score, sizeof(bits));
	bits &= ~(uint64) UINT32_MAX;
	memcpy(&score, &bits, sizeof(score));
	return score;
}

/* The share of the fit's rows with a lower score. */
double
gk_anomaly_percentile(const double *quantiles, double score)
{
	double		from;
	double		to;
	int			above = 0;

	if (quantiles == NULL || isnan(score))
		return NAN;
	while (above < GK_QUANTILES && as_quantile(quantiles[above]) < as_quantile(score))
		above++;
	if (above == 0)
		return 0.0;
	from = gk_quantile_level(above - 1);
	if (above == GK_QUANTILES)
		return 1.0;
	if (isinf(quantiles[above]))
		return from;
	to = gk_quantile_level(above);
	return from + (to - from) * Min(1.0, (score - quantiles[above - 1]) /
									(quantiles[above] - quantiles[above - 1]));
}
