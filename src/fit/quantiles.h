/*
 * The quantiles of the anomaly scores of the rows of a fit.
 */
#ifndef GK_QUANTILES_H
#define GK_QUANTILES_H

#include "postgres.h"

#include "anomaly.h"
#include "engine.h"
#include "fit.h"

/*
 * Finds them from the labels and distances in the engine; false if no row has a score.
 * Each but the first and the last is below the true one by at most 2^-20 of its value.
 */
extern bool gk_find_quantiles(GkEngine *engine, GkMetric metric, const GkFit *fit, int64 rows,
							  double *quantiles);

#endif							/* GK_QUANTILES_H */
