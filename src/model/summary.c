/*
 * A version's clusters as people look at them: in views, pictures and reports.
 */
#include "postgres.h"

#include <math.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/scansup.h"
#include "utils/rel.h"

#include "summary.h"

/* Features that a profile names at most, and the least deviation that is worth it. */
#define PROFILE_FEATURES 3
#define PROFILE_LEAST 0.5

/* The name of an array of features: the name of a column, of which PostgreSQL keeps no more. */
static char *
read_array_column(const GkModelRow *row)
{
	char	   *name = gk_row_short_text(row, GK_MODEL_ARRAY_COLUMN);

	if (name != NULL)
		truncate_identifier(name, strlen(name), false);
	return name;
}

/* Bytes of a name where it is shown again and again. */
int
gk_repeated_length(const char *name)
{
	int			length = (int) strlen(name);

	/* damaged text may end within a character, beyond which PostgreSQL would count */
	return length <= GK_MAX_REPEATED_NAME ? length
		: pg_mbcliplen(name, length, GK_MAX_REPEATED_NAME);
}

/* The names of features, each of which is shown for every cluster: the beginnings of long ones. */
static char **
read_features(const GkModelRow *row, int dimension)
{
	char	  **features = gk_row_texts(row, GK_MODEL_FEATURES, dimension);

	for (int j = 0; features != NULL && j < dimension; j++)
		features[j][gk_repeated_length(features[j])] = '\0';
	return features;
}

/* Reads what is known of the clusters of a version. */
void
gk_read_summary(const GkModelRow *row, bool with_deviations, GkSummary *summary)
{
	bool		is_null;
	Datum		deployed = slot_getattr(row->slot, GK_MODEL_DEPLOYED, &is_null);
	GkMetric	metric;

	summary->version = row->version;
	summary->deployed = !is_null && DatumGetBool(deployed);
	gk_row_shape(row, &summary->k, &summary->dimension, &metric);
	summary->centroids = gk_row_matrix(row, GK_MODEL_CENTROIDS, summary->k, summary->dimension);
	summary->array_column = read_array_column(row);
	summary->features = read_features(row, summary->dimension);
	if ((summary->features == NULL) != (summary->array_column != NULL))
		gk_model_is_damaged(row->relation, row->version, "features");
	summary->ids = gk_row_ids(row, GK_MODEL_CLUSTER_IDS, summary->k);
	summary->names = gk_row_names(row, summary->k);
	summary->sizes = gk_row_counts(row, GK_MODEL_SIZES, summary->k);
	summary->weights = gk_row_measures(row, GK_MODEL_WEIGHTS, summary->k);
	summary->inertias = gk_row_measures(row, GK_MODEL_INERTIAS, summary->k);
	summary->avg_distances = gk_row_measures(row, GK_MODEL_AVG_DISTANCES, summary->k);
	summary->radii = gk_row_measures(row, GK_MODEL_RADII, summary->k);
	summary->mean = gk_row_doubles(row, GK_MODEL_FEATURE_MEAN, summary->dimension);
	summary->deviation = gk_row_measures(row, GK_MODEL_FEATURE_DEVIATION, summary->dimension);
	summary->map_x = gk_row_doubles(row, GK_MODEL_MAP_X, summary->k);
	summary->map_y = gk_row_doubles(row, GK_MODEL_MAP_Y, summary->k);
	if (with_deviations)
		summary->deviations = gk_row_measure_matrix(row, GK_MODEL_DEVIATIONS, summary->k,
													summary->dimension);
}

/* Ends the error of a damaged version, which may become a WARNING; raises every other one again. */
void
gk_end_damage(MemoryContext context, bool warns)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (!gk_is_damage(error))
		PG_RE_THROW();
	FlushErrorState();
	if (warns)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("%s", error->message),
				 error->detail != NULL ? errdetail("%s", error->detail) : 0));
	FreeErrorData(error);
}

/* Reads a version; false if it is damaged. */
bool
gk_try_summary(const GkModelRow *row, bool with_deviations, bool warns, GkSummary *summary)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool is_whole = true;

	PG_TRY();
	{
		gk_read_summary(row, with_deviations, summary);
	}
	PG_CATCH();
	{
		gk_end_damage(context, warns);
		is_whole = false;
	}
	PG_END_TRY();
	return is_whole;
}

/* The id of a cluster. */
int
gk_summary_id(const GkSummary *summary, int c)
{
	return summary->ids != NULL ? summary->ids[c] : c;
}

/* The name of a cluster. */
const char *
gk_summary_name(const GkSummary *summary, int c)
{
	return summary->names != NULL && summary->names[c] != NULL ? summary->names[c]
		: psprintf("cluster %d", gk_summary_id(summary, c));
}

/* The name of a feature. */
const char *
gk_summary_feature(const GkSummary *summary, int j)
{
	return summary->features != NULL ? summary->features[j]
		: psprintf("%s[%d]", summary->array_column, j + 1);
}

/* How many deviations a centroid is from the mean of the rows; NaN if that is not known. */
double
gk_z_score(const GkSummary *summary, int c, int j)
{
	if (summary->mean == NULL || summary->deviation == NULL || !(summary->deviation[j] > 0.0))
		return NAN;
	return (summary->centroids[(int64) c * summary->dimension + j] - summary->mean[j]) /
		summary->deviation[j];
}

/* The order of features: those that stand out most first. */
int
gk_compare_ranks(const void *a, const void *b, void *argument)
{
	const GkRank *left = a;
	const GkRank *right = b;

	if (left->z != right->z)
		return left->z > right->z ? -1 : 1;
	return (left->feature > right->feature) - (left->feature < right->feature);
}

/* The features of a cluster in that order. */
void
gk_rank_features(const GkSummary *summary, int c, GkRank *order)
{
	for (int j = 0; j < summary->dimension; j++)
	{
		double		z = gk_z_score(summary, c, j);

		order[j] = (GkRank) {j, isnan(z) ? -1.0 : fabs(z)};
	}
	qsort_interruptible(order, summary->dimension, sizeof(GkRank), gk_compare_ranks, NULL);
}

/* The sign of a standard deviation, which database and client may lack. */
static const char *
deviation_sign(bool is_sent)
{
	int			client = pg_get_client_encoding();
	bool		is_lost = is_sent && client != PG_UTF8 && client != PG_SQL_ASCII;

	return GetDatabaseEncoding() == PG_UTF8 && !is_lost ? "σ" : "sd";
}

/* The features that stand out, and by how much; NULL if the rows are not known. */
const char *
gk_describe_profile(const GkSummary *summary, int c, GkRank *order, bool is_sent)
{
	const char *sign = deviation_sign(is_sent);
	StringInfoData profile;

	if (summary->mean == NULL || summary->deviation == NULL)
		return NULL;
	initStringInfo(&profile);
	gk_rank_features(summary, c, order);
	for (int i = 0; i < PROFILE_FEATURES && i < summary->dimension; i++)
		if (order[i].z >= PROFILE_LEAST)
			appendStringInfo(&profile, "%s%s %+.1f %s", i > 0 ? ", " : "",
							 gk_summary_feature(summary, order[i].feature),
							 gk_z_score(summary, c, order[i].feature), sign);
	return profile.len > 0 ? profile.data : "average";
}

/* All rows of a version's clusters; 0 if they are not known. */
double
gk_total_size(const GkSummary *summary)
{
	double		total = 0.0;

	for (int c = 0; summary->sizes != NULL && c < summary->k; c++)
		total += (double) summary->sizes[c];
	return total;
}
