/*
 * Rows in an engine of their own: a sample of a fit's rows, which is fitted before all of them.
 */
#ifndef GK_PILOT_H
#define GK_PILOT_H

#include "postgres.h"

#include "engine.h"
#include "fit_spec.h"
#include "job.h"

/* Appends count × dimension features to an engine, and waits until it has read them. */
extern void gk_append_rows(GkEngine *engine, const float *features, int64 count, int dimension);

/*
 * Draws `count` rows by weight, with replacement, and opens an engine with those that were drawn in
 * another job; returns how many.  They have no weights there.
 */
extern int64 gk_open_pilot(GkJob *job, const GkFitSpec *spec, double greatest_weight, int64 count,
						   GkJob *pilot);

#endif							/* GK_PILOT_H */
