/*
 * The silhouette: rows drawn without regard to their order, and each compared with all others.
 */
#ifndef GK_SILHOUETTE_H
#define GK_SILHOUETTE_H

#include "postgres.h"

#include <math.h>

#include "clustering.h"

typedef struct GkSample GkSample;

/*
 * An empty sample of at most clustering->sample rows; 54000 if they could not be compared.  The
 * engine draws them, if it knows of no weights, or the caller goes through all rows that count
 * twice.  Equal rows are drawn as often as their share asks for.
 */
extern GkSample *gk_begin_sample(const GkClustering *clustering, bool by_engine);

/* The first time: counts a row, with its label and its features as compared. */
extern void gk_count_row(GkSample *sample, int32 label, const float *features);

/* In between: chooses; one row at least was counted. */
extern void gk_choose_rows(GkSample *sample);

/* The second time: takes a row into the sample if it is drawn. */
extern void gk_offer_row(GkSample *sample, int64 number, int32 label, const float *features);

/*
 * Measures the sample, once, at the end: the mean silhouette of its rows, and of those of each
 * label, which are left alone where they are not defined.  Returns the number of its rows.
 */
extern int64 gk_measure_sample(GkSample *sample, double *mean, double *by_label);

/* (b - a) / max(a, b), of the distances to the own cluster and to the nearest other one. */
static inline double
gk_silhouette(double own, double other)
{
	double		greater = Max(own, other);

	return greater > 0.0 && isfinite(greater) ? (other - own) / greater : 0.0;
}

#endif							/* GK_SILHOUETTE_H */
