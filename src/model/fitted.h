/*
 * What a fit leaves in the row of its version.
 */
#ifndef GK_FITTED_H
#define GK_FITTED_H

#include "postgres.h"

#include "draft.h"
#include "fit_call.h"
#include "prepare.h"
#include "quality.h"

/* Raises 54000 if the centroids would be too large for a row. */
extern void gk_check_model_size(const GkCall *call);

/*
 * Mean, deviation, least and greatest value of the features in the units of the centroids, each
 * with an entry for each feature.
 */
typedef struct GkFeatureStatistics
{
	double	   *mean;
	double	   *deviation;
	double	   *least;
	double	   *greatest;
} GkFeatureStatistics;

/* Finds them for rows that are prepared; in the current memory context. */
extern void gk_find_feature_statistics(const GkFitSpec *spec, const GkPrepared *prepared,
									   GkFeatureStatistics *statistics);

/* Fills in the row of a new version, in the caller's context, while the engine has the rows. */
extern void gk_draft_version(GkDraft *draft, GkCall *call);

/*
 * Measures a fit on the rows of its call, as gkmeans_evaluate() does a model if no seed is given;
 * the labels in the engine are other ones then, without d².
 */
extern void gk_measure_fit(const GkCall *call, const GkFit *fit, int sample, bool with_deviations,
						   GkQuality *quality);

/*
 * Does so with the defaults of gkmeans_evaluate(), and adds the figures to the row, and the
 * deviations within the clusters unless they are too many.
 */
extern void gk_draft_figures(GkDraft *draft, GkCall *call);

#endif							/* GK_FITTED_H */
