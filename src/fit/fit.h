/*
 * The algorithm: k-means on an engine that holds the rows.
 *
 * Knows the engine interface and nothing of Datum, SPI or CUDA. Lloyd's iteration, with
 * scikit-learn's stopping rules and relocation of empty clusters; seeding is in seed.c.  All
 * randomness comes from a counter-based generator keyed by the seed, and all draws order the
 * rows by hash and bits, so the order of the rows does not matter.
 */
#ifndef GK_FIT_H
#define GK_FIT_H

#include "postgres.h"

#include "fit_result.h"
#include "fit_spec.h"
#include "job.h"
#include "prepare.h"

/* Fits; labels and d² of the result stay in the engine (fetch). */
extern void gk_fit(GkJob *job, const GkFitSpec *spec, GkFit *fit);

/* The same of rows that gk_prepare() has prepared, once for fits with any k, seed, init, limits. */
extern void gk_fit_prepared(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared, GkFit *fit);

/*
 * Brings the labels and d² of an earlier fit of these rows, made for a model, back into the
 * engine.  Its labels are numbered again.
 */
extern void gk_fit_restore(GkJob *job, const GkFitSpec *spec, GkFit *fit);

/* Labels the rows with spec->points; labels and d² stay in the engine. */
extern void gk_label(GkJob *job, const GkFitSpec *spec);

/*
 * Labels prepared rows with `count` centroids as rows are compared with them; labels and d² stay in
 * the engine.  Fills in a cluster for each of these, whose id is its label; returns the inertia.
 */
extern double gk_fit_label(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared,
						   const double *points, int64 count, GkCluster *clusters);

/* Gives the clusters of a fit for a model other ids, by their places, and sorts them by these. */
extern void gk_fit_renumber(GkFit *fit, int dimension, const int32 *ids);

/* Turns a row's d² into its distance: Euclidean, or 1 - cos. */
extern double gk_distance(GkMetric metric, double distance2);

#endif							/* GK_FIT_H */
