/*
 * Anomaly scores: how far a row is from its centroid, beside the other rows of its cluster.
 */
#include "postgres.h"

#include <math.h>

#include "anomaly.h"

/* The share of the rows that quantile number i stands for: finer and finer towards the top. */
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

/* The share of the fit's rows with a lower score. */
double
gk_anomaly_percentile(const double *quantiles, double score)
{
	double		from;
	double		to;
	int			above = 0;

	if (quantiles == NULL || isnan(score))
		return NAN;
	while (above < GK_QUANTILES && quantiles[above] < score)
		above++;
	if (above == 0)
		return 0.0;
	from = gk_quantile_level(above - 1);
	if (above == GK_QUANTILES)
		return 1.0;
	if (isinf(quantiles[above]))
		return from;
	to = gk_quantile_level(above);
	return from + (to - from) * (score - quantiles[above - 1]) /
		(quantiles[above] - quantiles[above - 1]);
}
