/*
 * Drift: how current rows differ from those that a version was fitted to.
 *
 * The population stability index (PSI) of a cluster is (now - then) × ln(now ÷ then), where now
 * and then are its shares of the rows; that of a model is their sum.  An empty share counts as
 * half a row.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "alloc.h"
#include "definition.h"
#include "drift.h"
#include "fitted.h"
#include "scorer.h"
#include "summary.h"

/* The most clusters and features that are recorded, so that all is less than GK_MAX_JSON_BYTES. */
#define MOST_WRITTEN 1000

/* Reads what a version records about its rows. */
void
gk_read_then(const GkModelRow *row, GkThen *then)
{
	bool		is_null;
	Datum		definition = slot_getattr(row->slot, GK_MODEL_DEFINITION, &is_null);
	GkMetric	metric;
	int			k;
	int			d;

	gk_row_shape(row, &k, &d, &metric);
	then->scale = is_null ? NULL : gk_definition_text(DatumGetJsonbP(definition), "scale");
	then->k_asked = is_null ? NAN : gk_json_number(&DatumGetJsonbP(definition)->root, "k");
	then->sizes = gk_row_counts(row, GK_MODEL_SIZES, k);
	then->avg_distances = gk_row_measures(row, GK_MODEL_AVG_DISTANCES, k);
	then->means = gk_row_doubles(row, GK_MODEL_FEATURE_MEAN, d);
	then->deviations = gk_row_measures(row, GK_MODEL_FEATURE_DEVIATION, d);
	then->centroids = gk_row_matrix(row, GK_MODEL_CENTROIDS, k, d);
}

/* Now over then. */
double
gk_drift_ratio(double now, double then)
{
	if (now == then)
		return 1.0;
	return then > 0.0 ? now / then : NAN;
}

/* The stability index of one share. */
static double
stability(int64 rows_then, int64 all_then, int64 rows_now, int64 all_now)
{
	double		then = Max((double) rows_then, 0.5) / all_then;
	double		now = Max((double) rows_now, 0.5) / all_now;

	return (now - then) * log(now / then);
}

/* The number of rows of all earlier clusters; 0 if unknown. */
static int64
count_then(const GkThen *then, int k)
{
	int64		all = 0;

	for (int c = 0; then->sizes != NULL && c < k; c++)
		all += then->sizes[c];
	return all;
}

/* Compares the clusters. */
static void
find_clusters(const GkModel *model, const GkThen *then, const GkCluster *now, int64 all_now,
			  GkDrift *drift)
{
	int64		all_then = count_then(then, model->k);

	drift->psi = all_then > 0 ? 0.0 : NAN;
	drift->k = model->k;
	drift->clusters = gk_allocate(model->k, sizeof(GkClusterDrift));
	for (int i = 0; i < model->k; i++)
	{
		int			place = gk_cluster_at(model, i);
		GkClusterDrift *cluster = &drift->clusters[place];

		cluster->cluster_id = gk_cluster_id(model, place);
		cluster->name = gk_cluster_name(model, place);
		cluster->rows_now = now[i].size;
		cluster->share_now = (double) now[i].size / all_now;
		cluster->avg_distance_now = now[i].avg_distance;
		cluster->avg_distance_then = then->avg_distances != NULL ? then->avg_distances[place] : NAN;
		cluster->rows_then = all_then > 0 ? then->sizes[place] : -1;
		cluster->share_then = all_then > 0 ? (double) then->sizes[place] / all_then : NAN;
		cluster->psi = all_then > 0 ? stability(then->sizes[place], all_then, now[i].size, all_now)
			: NAN;
	}
	/* in cluster order, so that the sum does not depend on the order of ties */
	for (int c = 0; c < model->k && all_then > 0; c++)
		drift->psi += drift->clusters[c].psi;
}

/* Compares the features. */
static void
find_features(const GkModel *model, const GkThen *then, const GkFeatureStatistics *now,
			  const GkRows *rows, GkDrift *drift)
{
	drift->dimension = model->dimension;
	drift->features = gk_allocate(model->dimension, sizeof(GkFeatureDrift));
	for (int j = 0; j < model->dimension; j++)
	{
		GkFeatureDrift *feature = &drift->features[j];
		int			column = model->array_column != NULL ? 0 : j;
		double		difference;

		feature->feature = gk_feature_name(model, j);
		feature->mean_then = then->means != NULL ? then->means[j] : NAN;
		feature->mean_now = now->mean[j];
		feature->deviation_then = then->deviations != NULL ? then->deviations[j] : NAN;
		feature->deviation_now = now->deviation[j];
		feature->deviation_ratio = gk_drift_ratio(feature->deviation_now, feature->deviation_then);
		difference = feature->mean_now - feature->mean_then;
		feature->shift = difference == 0.0 ? 0.0 : feature->deviation_then > 0.0
			? difference / feature->deviation_then : NAN;
		feature->unusable_now = (double) rows->unusable[column] / rows->read;
	}
}

/* Compares the current rows. */
void
gk_find_drift(const GkModel *model, const GkThen *then, const GkCluster *now,
			  const GkFitSpec *spec, const GkPrepared *prepared, const GkRows *rows,
			  GkDrift *drift)
{
	GkFeatureStatistics statistics;

	drift->checked_at = GetCurrentTimestamp();
	drift->version = model->version;
	gk_find_feature_statistics(spec, prepared, &statistics);
	find_clusters(model, then, now, spec->rows, drift);
	find_features(model, then, &statistics, rows, drift);
}

/* A cluster or feature, and how far it drifted. */
typedef struct Rank
{
	int			place;
	double		distance;		/* -1 if it is not known */
} Rank;

/* The order by drift, the farthest first. */
static int
compare_ranks(const void *a, const void *b, void *argument)
{
	const Rank *left = a;
	const Rank *right = b;

	if (left->distance != right->distance)
		return left->distance > right->distance ? -1 : 1;
	return (left->place > right->place) - (left->place < right->place);
}

/* The order of places. */
static int
compare_places(const void *a, const void *b, void *argument)
{
	int			left = ((const Rank *) a)->place;
	int			right = ((const Rank *) b)->place;

	return (left > right) - (left < right);
}

/* Keeps those that drifted most, in the order of their positions; returns how many. */
static int
choose_written(Rank *ranks, int count)
{
	int			written = Min(count, MOST_WRITTEN);

	if (written == count)
		return count;
	qsort_interruptible(ranks, count, sizeof(Rank), compare_ranks, NULL);
	qsort_interruptible(ranks, written, sizeof(Rank), compare_places, NULL);
	return written;
}

/* Appends a key and a number, null if that is not finite. */
static void
append_number(StringInfo json, const char *key, double number)
{
	char		digits[DOUBLE_SHORTEST_DECIMAL_LEN] = "null";

	if (isfinite(number))
		double_to_shortest_decimal_buf(number, digits);
	appendStringInfo(json, ", \"%s\": %s", key, digits);
}

/* Appends a key and a number of rows, null if unknown. */
static void
append_rows(StringInfo json, const char *key, int64 rows)
{
	if (rows < 0)
		appendStringInfo(json, ", \"%s\": null", key);
	else
		appendStringInfo(json, ", \"%s\": " INT64_FORMAT, key, rows);
}

/* Appends a name, or the beginning of a long one. */
static void
append_name(StringInfo json, const char *name)
{
	char	   *beginning = pnstrdup(name, gk_repeated_length(name));

	escape_json(json, beginning);
	pfree(beginning);
}

/* Appends the clusters. */
static void
append_clusters(StringInfo json, const GkDrift *drift)
{
	Rank	   *ranks = gk_allocate(drift->k, sizeof(Rank));
	int			written;

	for (int c = 0; c < drift->k; c++)
		ranks[c] = (Rank) {c, isnan(drift->clusters[c].psi) ? -1.0 : drift->clusters[c].psi};
	written = choose_written(ranks, drift->k);
	for (int i = 0; i < written; i++)
	{
		const GkClusterDrift *cluster = &drift->clusters[ranks[i].place];

		appendStringInfo(json, "%s{\"cluster_id\": %d, \"name\": ", i > 0 ? ", " : "",
						 cluster->cluster_id);
		append_name(json, cluster->name);
		append_rows(json, "rows_then", cluster->rows_then);
		append_number(json, "share_then", cluster->share_then);
		append_rows(json, "rows_now", cluster->rows_now);
		append_number(json, "share_now", cluster->share_now);
		append_number(json, "psi", cluster->psi);
		append_number(json, "avg_distance_then", cluster->avg_distance_then);
		append_number(json, "avg_distance_now", cluster->avg_distance_now);
		appendStringInfoChar(json, '}');
	}
	pfree(ranks);
}

/* Appends the features. */
static void
append_features(StringInfo json, const GkDrift *drift)
{
	Rank	   *ranks = gk_allocate(drift->dimension, sizeof(Rank));
	int			written;

	for (int j = 0; j < drift->dimension; j++)
		ranks[j] = (Rank) {j, isnan(drift->features[j].shift) ? -1.0
		: fabs(drift->features[j].shift)};
	written = choose_written(ranks, drift->dimension);
	for (int i = 0; i < written; i++)
	{
		const GkFeatureDrift *feature = &drift->features[ranks[i].place];

		appendStringInfo(json, "%s{\"feature\": ", i > 0 ? ", " : "");
		append_name(json, feature->feature);
		append_number(json, "mean_then", feature->mean_then);
		append_number(json, "mean_now", feature->mean_now);
		append_number(json, "shift", feature->shift);
		append_number(json, "deviation_then", feature->deviation_then);
		append_number(json, "deviation_now", feature->deviation_now);
		append_number(json, "deviation_ratio", feature->deviation_ratio);
		append_number(json, "unusable_now", feature->unusable_now);
		appendStringInfoChar(json, '}');
	}
	pfree(ranks);
}

/* The drift as JSON. */
char *
gk_drift_json(const GkDrift *drift)
{
	StringInfoData json;
	char		time[MAXDATELEN + 1];

	initStringInfo(&json);
	appendStringInfo(&json, "{\"checked_at\": \"%s\"",
					 JsonEncodeDateTime(time, TimestampTzGetDatum(drift->checked_at),
										TIMESTAMPTZOID, NULL));
	append_number(&json, "version", drift->version);
	append_number(&json, "psi", drift->psi);
	appendStringInfoString(&json, ", \"clusters\": [");
	append_clusters(&json, drift);
	appendStringInfoString(&json, "], \"features\": [");
	append_features(&json, drift);
	appendStringInfoString(&json, "]}");
	return json.data;
}
