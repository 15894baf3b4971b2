/*
 * Anomaly scores: a row's distance from its centroid, relative to the other rows of its cluster.
 */
#ifndef GK_ANOMALY_H
#define GK_ANOMALY_H

#include "postgres.h"

/*
 * Quantiles of the anomaly score: 0, 0.05 … 0.90, 0.91 … 0.99, 0.991 … 0.999, 0.9991 …
 * 0.9999 and 1.
 */
#define GK_QUANTILES 47

/* The level of quantile number i, a share of the rows. */
extern double gk_quantile_level(int i);

/* distance ÷ average distance of the cluster; NaN if that is not known. */
extern double gk_anomaly_score(double distance, double avg_distance);

/* The share of the fit's rows with a lower score; NaN if it is not known. */
extern double gk_anomaly_percentile(const double *quantiles, double score);

#endif							/* GK_ANOMALY_H */
