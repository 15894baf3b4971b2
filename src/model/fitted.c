/*
 * What a fit leaves in the row of its version.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"

#include "alloc.h"
#include "definition.h"
#include "deviations.h"
#include "exact.h"
#include "fitted.h"
#include "map.h"
#include "nearest.h"
#include "seconds.h"

/* Refuses a model that would be too large for a row. */
void
gk_check_model_size(const GkCall *call)
{
	int64		numbers = call->arguments.fit.k * call->rows.dimension;

	if (numbers > GK_MAX_MODEL_NUMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("model is too large"),
				 errdetail("Its centroids have %lld numbers, the limit is %lld.",
						   (long long) numbers, (long long) GK_MAX_MODEL_NUMBERS)));
}

/* The features: their names, or that of the array that holds them. */
static void
draft_features(GkDraft *draft, const GkCall *call)
{
	bool		is_array;
	int			count;
	const char *const *names = gk_source_features(call->source, &count, &is_array);

	if (is_array)
		gk_draft_text(draft, GK_MODEL_ARRAY_COLUMN, names[0]);
	else
		gk_draft_texts(draft, GK_MODEL_FEATURES, names, count);
}

/* True if any number is not zero. */
static bool
has_nonzero(const double *values, int count)
{
	for (int i = 0; i < count; i++)
		if (values[i] != 0.0)
			return true;
	return false;
}

/* What a difference of 1 between compared values of a feature is in the units of the centroids. */
static double
unit_of(const GkFitSpec *spec, const double *factor, int j)
{
	return spec->metric == GK_COSINE ? 1.0 : factor[j] > 0.0 ? 1.0 / factor[j] : 0.0;
}

/* Mean, deviation, least and greatest value of the features, in the units of the centroids. */
void
gk_find_feature_statistics(const GkFitSpec *spec, const GkPrepared *prepared,
						   GkFeatureStatistics *statistics)
{
	int			d = spec->dimension;

	statistics->mean = gk_allocate(d, sizeof(double));
	statistics->deviation = gk_allocate(d, sizeof(double));
	statistics->least = gk_allocate(d, sizeof(double));
	statistics->greatest = gk_allocate(d, sizeof(double));
	for (int j = 0; j < d; j++)
	{
		bool		keep = spec->metric == GK_COSINE;
		double		unit = unit_of(spec, prepared->factor, j);
		double		origin = keep ? 0.0 : prepared->offset[j] + spec->shift[j];

		statistics->mean[j] = prepared->mean[j] * unit + origin;
		statistics->deviation[j] = sqrt(prepared->variance[j]) * unit;
		if (!keep && prepared->factor[j] == 0.0 && prepared->left_out_mean != NULL)
		{
			statistics->mean[j] = prepared->left_out_mean[j] + spec->shift[j];
			statistics->deviation[j] = sqrt(prepared->left_out_variance[j]);
		}
		statistics->least[j] = prepared->least[j] * unit + origin;
		statistics->greatest[j] = prepared->greatest[j] * unit + origin;
	}
}

/* The same in the row. */
static void
draft_statistics(GkDraft *draft, const GkCall *call)
{
	const GkFitSpec *spec = &call->arguments.fit;
	const GkFitModel *model = &call->fit.model;
	GkPrepared	prepared = {.offset = model->offset,.factor = model->factor,.mean = model->mean,
		.variance = model->variance,.least = model->least,.greatest = model->greatest};
	GkFeatureStatistics statistics;

	gk_find_feature_statistics(spec, &prepared, &statistics);
	gk_draft_doubles(draft, GK_MODEL_FEATURE_MEAN, statistics.mean, spec->dimension);
	gk_draft_doubles(draft, GK_MODEL_FEATURE_DEVIATION, statistics.deviation, spec->dimension);
	gk_draft_doubles(draft, GK_MODEL_FEATURE_LEAST, statistics.least, spec->dimension);
	gk_draft_doubles(draft, GK_MODEL_FEATURE_GREATEST, statistics.greatest, spec->dimension);
}

/* True if every number of a list equals its position. */
static bool
is_identity(const int32 *list, int count)
{
	for (int i = 0; i < count; i++)
		if (list[i] != i)
			return false;
	return true;
}

/* The ids of the clusters; those of initial centroids that ended empty are not used. */
static void
draft_ids(GkDraft *draft, const GkCall *call)
{
	const GkFit *fit = &call->fit;
	int32	   *ids = gk_allocate(fit->k, sizeof(int32));

	for (int64 c = 0; c < fit->k; c++)
		ids[c] = fit->clusters[c].id;
	if (!is_identity(ids, (int) fit->k))
		gk_draft_integers(draft, GK_MODEL_CLUSTER_IDS, ids, (int) fit->k);
	pfree(ids);
}

/*
 * Refuses centroids that real cannot hold.  The sums round each row to their grid: the mean of a
 * cluster that weighs next to nothing beside others can leave the range of its rows.
 */
static void
check_points(const GkFit *fit, int dimension)
{
	for (int64 i = 0; i < fit->k * dimension; i++)
		if (!gk_is_real(fit->model.points[i]))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("the centroid of a cluster is out of range"),
					 errdetail("It weighs so little beside the other clusters that its mean has "
							   "lost its digits."),
					 errhint("Leave out rows of such weights, or values near the end of real.")));
}

/* How rows are compared. */
static void
draft_comparison(GkDraft *draft, const GkCall *call)
{
	const GkFitSpec *spec = &call->arguments.fit;
	const GkFit *fit = &call->fit;
	int			d = spec->dimension;
	int			k = (int) fit->k;

	check_points(fit, d);
	gk_draft_text(draft, GK_MODEL_METRIC, spec->metric == GK_COSINE ? "cosine" : "euclidean");
	gk_draft_set(draft, GK_MODEL_K, Int32GetDatum(k));
	gk_draft_set(draft, GK_MODEL_DIMENSION, Int32GetDatum(d));
	if (has_nonzero(spec->shift, d))
		gk_draft_doubles(draft, GK_MODEL_SHIFT, spec->shift, d);
	if (spec->scale != GK_SCALE_NONE)
	{
		gk_draft_doubles(draft, GK_MODEL_SCALE_OFFSET, fit->model.offset, d);
		gk_draft_doubles(draft, GK_MODEL_SCALE_FACTOR, fit->model.factor, d);
	}
	gk_draft_matrix(draft, GK_MODEL_CENTROIDS, fit->centroids, k, d);
	if (memcmp(fit->centroids, fit->model.points, (Size) k * d * sizeof(double)) != 0)
		gk_draft_matrix(draft, GK_MODEL_POINTS, fit->model.points, k, d);
	if (!is_identity(fit->model.ties, k))
		gk_draft_integers(draft, GK_MODEL_TIES, fit->model.ties, k);
	draft_ids(draft, call);
}

/* The sizes of the clusters. */
static void
draft_sizes(GkDraft *draft, const GkCall *call)
{
	const GkFit *fit = &call->fit;
	Datum	   *sizes = gk_allocate(fit->k, sizeof(Datum));

	for (int64 c = 0; c < fit->k; c++)
		sizes[c] = Int64GetDatum(fit->clusters[c].size);
	gk_draft_set(draft, GK_MODEL_SIZES,
				 PointerGetDatum(construct_array(sizes, (int) fit->k, INT8OID, sizeof(int64),
												 FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)));
}

/* The statistics of each cluster. */
static void
draft_clusters(GkDraft *draft, const GkCall *call)
{
	const GkFit *fit = &call->fit;
	int			k = (int) fit->k;
	double	   *numbers = gk_allocate(4 * fit->k, sizeof(double));

	for (int c = 0; c < k; c++)
	{
		numbers[c] = fit->clusters[c].weight;
		numbers[k + c] = fit->clusters[c].inertia;
		numbers[2 * k + c] = fit->clusters[c].avg_distance;
		numbers[3 * k + c] = fit->clusters[c].radius;
	}
	draft_sizes(draft, call);
	gk_draft_measures(draft, GK_MODEL_WEIGHTS, numbers, k);
	gk_draft_measures(draft, GK_MODEL_INERTIAS, numbers + k, k);
	gk_draft_measures(draft, GK_MODEL_AVG_DISTANCES, numbers + 2 * k, k);
	gk_draft_measures(draft, GK_MODEL_RADII, numbers + 3 * k, k);
}

/* The statistics of the fit as a whole. */
static void
draft_fit(GkDraft *draft, GkCall *call)
{
	const GkFit *fit = &call->fit;
	const double *quantiles = gk_call_quantiles(call);

	gk_draft_set(draft, GK_MODEL_ROWS_READ, Int64GetDatum(call->rows.read));
	gk_draft_set(draft, GK_MODEL_ROWS_USED, Int64GetDatum(call->arguments.fit.rows));
	gk_draft_set(draft, GK_MODEL_INERTIA, Float8GetDatum(fit->inertia));
	gk_draft_set(draft, GK_MODEL_TOTAL_SS, Float8GetDatum(fit->model.total));
	gk_draft_set(draft, GK_MODEL_BETWEEN_SS, Float8GetDatum(fit->model.total - fit->inertia));
	gk_draft_set(draft, GK_MODEL_ITERATIONS, Int32GetDatum(fit->iterations));
	gk_draft_set(draft, GK_MODEL_CONVERGED, BoolGetDatum(fit->converged));
	gk_draft_json(draft, GK_MODEL_HISTORY, gk_history_json(&fit->model.history));
	if (quantiles != NULL)
		gk_draft_doubles(draft, GK_MODEL_SCORE_QUANTILES, quantiles, GK_QUANTILES);
}

/* Makes the row of a new version, while the engine has the rows. */
void
gk_draft_version(GkDraft *draft, GkCall *call)
{
	MemoryContext before = MemoryContextSwitchTo(call->caller);

	gk_progress_phase(GK_PHASE_MEASURING);
	draft_features(draft, call);
	draft_comparison(draft, call);
	draft_statistics(draft, call);
	draft_clusters(draft, call);
	draft_fit(draft, call);
	gk_draft_map(draft, call);
	MemoryContextSwitchTo(before);
}

/* The centroids of a fit in the order in which ties are decided. */
static double *
pack_points(const GkFit *fit, int dimension)
{
	double	   *packed = gk_allocate(GK_GROUPS(fit->k) * GK_GROUP * dimension, sizeof(double));

	for (int64 label = 0; label < fit->k; label++)
	{
		CHECK_FOR_INTERRUPTS();
		gk_pack_centroid(packed, dimension, label,
						 fit->model.points + (int64) fit->model.ties[label] * dimension);
	}
	gk_pack_rest(packed, dimension, fit->k);
	return packed;
}

/* Measures a fit. */
void
gk_measure_fit(const GkCall *call, const GkFit *fit, int sample, bool with_deviations,
			   GkQuality *quality)
{
	const GkFitSpec *spec = &call->arguments.fit;
	GkClustering clustering = {.job = call->job,.engine = call->engine};

	clustering.metric = spec->metric;
	clustering.rows = spec->rows;
	clustering.dimension = spec->dimension;
	clustering.k = (int) fit->k;
	clustering.weighted = spec->weighted;
	clustering.packed = pack_points(fit, spec->dimension);
	clustering.sample = sample;
	clustering.with_deviations = with_deviations;
	gk_measure(&clustering, quality);
}

/* Sets a figure unless it is not defined. */
static void
draft_figure(GkDraft *draft, GkModelAttribute number, double figure)
{
	if (isfinite(figure))
		gk_draft_set(draft, number, Float8GetDatum(figure));
}

/* Sets the deviations within the clusters, in the units of the centroids, by cluster. */
static void
draft_deviations(GkDraft *draft, const GkCall *call, const double *deviations)
{
	const GkFit *fit = &call->fit;
	int64		d = call->arguments.fit.dimension;
	double	   *in_units = gk_allocate(fit->k * d, sizeof(double));

	for (int64 label = 0; label < fit->k; label++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			in_units[fit->model.ties[label] * d + j] = deviations[label * d + j] *
				unit_of(&call->arguments.fit, fit->model.factor, j);
	}
	gk_draft_measure_matrix(draft, GK_MODEL_DEVIATIONS, in_units, (int) fit->k, (int) d);
	pfree(in_units);
}

/* Measures the fit of a call, and adds the figures to the row of its version. */
void
gk_draft_figures(GkDraft *draft, GkCall *call)
{
	GkQuality	quality;
	instr_time	begin;
	MemoryContext before;

	gk_progress_phase(GK_PHASE_MEASURING);
	INSTR_TIME_SET_CURRENT(begin);
	gk_measure_fit(call, &call->fit, 0,
				   call->fit.k * call->arguments.fit.dimension <= GK_MAX_DEVIATIONS, &quality);
	before = MemoryContextSwitchTo(call->caller);
	draft_figure(draft, GK_MODEL_SILHOUETTE, quality.silhouette);
	draft_figure(draft, GK_MODEL_SIMPLIFIED_SILHOUETTE, quality.simplified_silhouette);
	draft_figure(draft, GK_MODEL_DAVIES_BOULDIN, quality.davies_bouldin);
	draft_figure(draft, GK_MODEL_CALINSKI_HARABASZ, quality.calinski_harabasz);
	if (quality.deviations != NULL)
		draft_deviations(draft, call, quality.deviations);
	MemoryContextSwitchTo(before);
	call->report.measure_seconds = gk_seconds_since(begin);
}
