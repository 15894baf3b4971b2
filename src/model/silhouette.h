/*
 * The silhouette: rows drawn without regard to their order, and each compared with all others.
 */
#ifndef GK_SILHOUETTE_H
#define GK_SILHOUETTE_H

#include "postgres.h"

#include <math.h>

#include "quality.h"

typedef struct GkSample GkSample;

/* An empty sample of at most clustering->sample rows; 54000 if they could not be compared. */
extern GkSample *gk_begin_sample(const GkClustering *clustering);

/* Takes a row into the sample if it is drawn: number, label and features as compared. */
extern void gk_offer_row(GkSample *sample, int64 number, int32 label, const float *features);

/*
 * Measures the sample: silhouette_rows, silhouette and silhouettes of the quality, which are left
 * alone where they are not defined.
 */
extern void gk_measure_sample(GkSample *sample, GkQuality *quality);

/* (b - a) / max(a, b), of the distances to the own cluster and to the nearest other one. */
static inline double
gk_silhouette(double own, double other)
{
	double		greater = Max(own, other);

	return greater > 0.0 && isfinite(greater) ? (other - own) / greater : 0.0;
}

#endif							/* GK_SILHOUETTE_H */
