/*
 * Anomaly scores: a row's distance from its centroid, relative to the other rows of its cluster.
 */
#ifndef GK_ANOMALY_H
#define GK_ANOMALY_H

#include "postgres.h"

#include "model.h"

/* The level of quantile number i, a share of the rows. */
extern double gk_quantile_level(int i);

/* distance ÷ average distance of the cluster; NaN if that is not known. */
extern double gk_anomaly_score(double distance, double avg_distance);

/* The share of the fit's rows with a lower score; NaN if it is not known. */
extern double gk_anomaly_percentile(const double *quantiles, double score);

#endif							/* GK_ANOMALY_H */
