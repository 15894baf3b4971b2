/*
 * A sample of the rows of a fit, independent of their order in the source.
 */
#ifndef GK_SAMPLE_H
#define GK_SAMPLE_H

#include "postgres.h"

#include "fit.h"

/*
 * Draws rows after a fit for a model, by weight: all rows if there are at most `count`, else at
 * most `count`.  Writes the engine's numbers of the rows; returns how many.
 */
extern int64 gk_sample_rows(GkJob *job, const GkFitSpec *spec, const GkFit *fit, int64 count,
							int64 *rows);

/*
 * The features of these rows, as they are compared: count × dimension; and the places of their
 * clusters: count.  They come in the order of their features.  All arrays are in the context of the
 * job.
 */
extern void gk_sample_features(GkJob *job, const GkFitSpec *spec, const GkFit *fit,
							   const int64 *rows, int count, float *features, int32 *places);

#endif							/* GK_SAMPLE_H */
