/*
 * The SQL functions that score a row by a model.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "alloc.h"
#include "anomaly.h"
#include "nearest.h"
#include "scorer.h"
#include "sql_function.h"
#include "sql_values.h"

GK_SQL_FUNCTION(gkmeans_predict);
GK_SQL_FUNCTION(gkmeans_predict_version);
GK_SQL_FUNCTION(gkmeans_distance);
GK_SQL_FUNCTION(gkmeans_transform);
GK_SQL_FUNCTION(gkmeans_name);
GK_SQL_FUNCTION(gkmeans_anomaly_score);
GK_SQL_FUNCTION(gkmeans_anomaly_percentile);
GK_SQL_FUNCTION(gkmeans_nearest);
GK_SQL_FUNCTION(gkmeans_explain);
GK_SQL_FUNCTION(gkmeans_score);

/* A centroid and its distance. */
typedef struct Neighbour
{
	int			place;			/* position in the order of ties */
	double		distance2;
} Neighbour;

/* The number of the nearest cluster. */
static Datum
predict(GkScorer *scorer, FunctionCallInfo fcinfo)
{
	double		distance2;

	if (!gk_take_features(scorer, fcinfo))
		PG_RETURN_NULL();
	PG_RETURN_INT32(gk_cluster_id(scorer->model, gk_nearest_cluster(scorer, &distance2)));
}

/* SQL: the number of the nearest cluster. */
Datum
gkmeans_predict(PG_FUNCTION_ARGS)
{
	return predict(gk_scorer(fcinfo, 1), fcinfo);
}

/* SQL: the number of the nearest cluster of a version. */
Datum
gkmeans_predict_version(PG_FUNCTION_ARGS)
{
	return predict(gk_version_scorer(fcinfo, gk_version_argument(fcinfo, 1), 2), fcinfo);
}

/* SQL: the distance to the nearest centroid. */
Datum
gkmeans_distance(PG_FUNCTION_ARGS)
{
	GkScorer   *scorer = gk_scorer(fcinfo, 1);
	double		distance2;

	if (!gk_take_features(scorer, fcinfo))
		PG_RETURN_NULL();
	(void) gk_nearest_cluster(scorer, &distance2);
	PG_RETURN_FLOAT8(gk_distance(scorer->model->metric, distance2));
}

/* SQL: the distances to all centroids, in the order of the clusters. */
Datum
gkmeans_transform(PG_FUNCTION_ARGS)
{
	GkScorer   *scorer = gk_scorer(fcinfo, 1);
	const GkModel *model = scorer->model;
	Datum	   *distances;

	if (!gk_take_features(scorer, fcinfo))
		PG_RETURN_NULL();
	gk_all_distances2(scorer);
	distances = gk_allocate(model->k, sizeof(Datum));
	for (int i = 0; i < model->k; i++)
		distances[gk_cluster_at(model, i)] =
			Float8GetDatum(gk_distance(model->metric, scorer->distances2[i]));
	PG_RETURN_ARRAYTYPE_P(construct_array(distances, model->k, FLOAT8OID, sizeof(float8),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* SQL: the name of the nearest cluster. */
Datum
gkmeans_name(PG_FUNCTION_ARGS)
{
	GkScorer   *scorer = gk_scorer(fcinfo, 1);
	double		distance2;
	int			cluster;

	if (!gk_take_features(scorer, fcinfo))
		PG_RETURN_NULL();
	cluster = gk_nearest_cluster(scorer, &distance2);
	PG_RETURN_TEXT_P(cstring_to_text(gk_cluster_name(scorer->model, cluster)));
}

/* The anomaly score of a row whose nearest cluster is known; NaN if it has none. */
static double
score_of(const GkModel *model, int cluster, double distance2)
{
	return model->avg_distances == NULL ? NAN
		: gk_anomaly_score(gk_distance(model->metric, distance2), model->avg_distances[cluster]);
}

/* The anomaly score of a call; NaN if the row or the model has none. */
static double
score_of_call(GkScorer *scorer, FunctionCallInfo fcinfo)
{
	double		distance2;
	int			cluster;

	if (!gk_take_features(scorer, fcinfo))
		return NAN;
	cluster = gk_nearest_cluster(scorer, &distance2);
	return score_of(scorer->model, cluster, distance2);
}

/* SQL: the distance over the average distance of the nearest cluster. */
Datum
gkmeans_anomaly_score(PG_FUNCTION_ARGS)
{
	double		score = score_of_call(gk_scorer(fcinfo, 1), fcinfo);

	if (isnan(score))
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(score);
}

/* SQL: the share of the fit's rows with a lower anomaly score. */
Datum
gkmeans_anomaly_percentile(PG_FUNCTION_ARGS)
{
	GkScorer   *scorer = gk_scorer(fcinfo, 1);
	double		percentile = gk_anomaly_percentile(scorer->model->score_quantiles,
												   score_of_call(scorer, fcinfo));

	if (isnan(percentile))
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(percentile);
}

/* The order of centroids by their distance, ties as a fit decides them. */
static int
compare_neighbours(const void *a, const void *b, void *argument)
{
	const Neighbour *left = a;
	const Neighbour *right = b;

	if (left->distance2 != right->distance2)
		return left->distance2 < right->distance2 ? -1 : 1;
	return (left->place > right->place) - (left->place < right->place);
}

/* All centroids, the nearest first. */
static Neighbour *
find_neighbours(GkScorer *scorer)
{
	int			k = scorer->model->k;
	Neighbour  *neighbours = gk_allocate(k, sizeof(Neighbour));

	gk_all_distances2(scorer);
	for (int i = 0; i < k; i++)
		neighbours[i] = (Neighbour) {i, scorer->distances2[i]};
	qsort_interruptible(neighbours, k, sizeof(Neighbour), compare_neighbours, NULL);
	return neighbours;
}

/* SQL: the n nearest clusters. */
Datum
gkmeans_nearest(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int			count = PG_GETARG_INT32(1);
	GkScorer   *scorer;
	const GkModel *model;
	Neighbour  *neighbours;

	gk_begin_result(fcinfo);
	if (count < 1)
		gk_out_of_range("n", "1 and above");
	scorer = gk_scorer(fcinfo, 2);
	model = scorer->model;
	if (!gk_take_features(scorer, fcinfo))
		return (Datum) 0;
	neighbours = find_neighbours(scorer);
	for (int i = 0; i < count && i < model->k; i++)
	{
		int			cluster = gk_cluster_at(model, neighbours[i].place);
		Datum		values[3];
		bool		nulls[3] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int32GetDatum(gk_cluster_id(model, cluster));
		values[1] = CStringGetTextDatum(gk_cluster_name(model, cluster));
		values[2] = Float8GetDatum(gk_distance(model->metric, neighbours[i].distance2));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* A feature's part of the squared distance. */
typedef struct Part
{
	int			feature;
	double		centroid;		/* as compared */
	double		square;
} Part;

/* The order of features by their part, then by their number. */
static int
compare_parts(const void *a, const void *b, void *argument)
{
	const Part *left = a;
	const Part *right = b;

	if (left->square != right->square)
		return left->square > right->square ? -1 : 1;
	return (left->feature > right->feature) - (left->feature < right->feature);
}

/* The parts of the squared distance to the nearest centroid, the greatest first. */
static Part *
find_parts(const GkScorer *scorer, double *distance2)
{
	const GkModel *model = scorer->model;
	int			d = model->dimension;
	Part	   *parts = gk_allocate(d, sizeof(Part));
	int64		place = gk_nearest(model->packed, scorer->row, d, model->k, distance2);
	const double *packed = model->packed + place / GK_GROUP * GK_GROUP * d + place % GK_GROUP;

	for (int j = 0; j < d; j++)
	{
		double		difference = scorer->row[j] - packed[(int64) j * GK_GROUP];

		parts[j] = (Part) {j, packed[(int64) j * GK_GROUP], difference * difference};
	}
	qsort_interruptible(parts, d, sizeof(Part), compare_parts, NULL);
	return parts;
}

/* The value of a feature as it is compared, in the units of the centroids. */
static double
value_in_units(const GkScorer *scorer, int feature)
{
	const GkModel *model = scorer->model;

	if (model->metric == GK_COSINE)
		return scorer->row[feature];
	return scorer->stored[feature] + (model->shift != NULL ? model->shift[feature] : 0.0);
}

/* That value less a coordinate of a centroid: before the shift is added, which may round both. */
static double
difference_in_units(const GkScorer *scorer, int feature, double centroid)
{
	const GkModel *model = scorer->model;

	if (model->metric == GK_COSINE || model->factor == NULL)
		return scorer->row[feature] - centroid;
	return scorer->stored[feature] - model->offset[feature] -
		(model->factor[feature] > 0.0 ? centroid / model->factor[feature] : 0.0);
}

/* SQL: the features by their share of the squared distance. */
Datum
gkmeans_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	GkScorer   *scorer;
	Part	   *parts;
	double		distance2;

	gk_begin_result(fcinfo);
	scorer = gk_scorer(fcinfo, 1);
	if (!gk_take_features(scorer, fcinfo))
		return (Datum) 0;
	parts = find_parts(scorer, &distance2);
	for (int i = 0; i < scorer->model->dimension; i++)
	{
		int			feature = parts[i].feature;
		char	   *name = gk_feature_name(scorer->model, feature);
		Datum		values[5];
		bool		nulls[5] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = CStringGetTextDatum(name);
		values[1] = Float8GetDatum(value_in_units(scorer, feature));
		values[2] = Float8GetDatum(gk_in_units(scorer->model, feature, parts[i].centroid));
		values[3] = Float8GetDatum(difference_in_units(scorer, feature, parts[i].centroid));
		values[4] = Float8GetDatum(distance2 > 0.0 ? parts[i].square / distance2 : 0.0);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		pfree(DatumGetPointer(values[0]));
		pfree(name);
	}
	return (Datum) 0;
}

/* The nearest and the second nearest centroid; there is none if second.place is -1. */
static void
find_two(GkScorer *scorer, Neighbour *first, Neighbour *second)
{
	gk_all_distances2(scorer);
	*first = *second = (Neighbour) {-1, 0.0};
	for (int i = 0; i < scorer->model->k; i++)
	{
		double		distance2 = scorer->distances2[i];

		if (first->place < 0 || distance2 < first->distance2)
		{
			*second = *first;
			*first = (Neighbour) {i, distance2};
		}
		else if (second->place < 0 || distance2 < second->distance2)
			*second = (Neighbour) {i, distance2};
	}
}

/* The columns of gkmeans_score. */
static void
describe_row(GkScorer *scorer, Datum *values, bool *nulls)
{
	const GkModel *model = scorer->model;
	Neighbour	first;
	Neighbour	second;
	double		distance;
	double		other = NAN;
	double		score;
	int			cluster;

	find_two(scorer, &first, &second);
	cluster = gk_cluster_at(model, first.place);
	distance = gk_distance(model->metric, first.distance2);
	if (second.place >= 0)
		other = gk_distance(model->metric, second.distance2);
	score = score_of(model, cluster, first.distance2);
	values[0] = Int32GetDatum(gk_cluster_id(model, cluster));
	values[1] = CStringGetTextDatum(gk_cluster_name(model, cluster));
	nulls[0] = nulls[1] = false;
	gk_put_number(&values[2], &nulls[2], distance);
	nulls[3] = second.place < 0;
	if (second.place >= 0)
		values[3] = Int32GetDatum(gk_cluster_id(model, gk_cluster_at(model, second.place)));
	gk_put_number(&values[4], &nulls[4], other);
	gk_put_number(&values[5], &nulls[5], other == 0.0 ? 0.0 : (other - distance) / other);
	gk_put_number(&values[6], &nulls[6], score);
	gk_put_number(&values[7], &nulls[7], gk_anomaly_percentile(model->score_quantiles, score));
}

/* SQL: all figures of a row; NULLs for one that cannot be compared. */
Datum
gkmeans_score(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor;
	Datum		values[8] = {0};
	bool		nulls[8];
	GkScorer   *scorer;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	descriptor = gk_result_row(fcinfo, lengthof(values));
	memset(nulls, true, sizeof(nulls));
	scorer = gk_scorer(fcinfo, 1);
	if (gk_take_features(scorer, fcinfo))
		describe_row(scorer, values, nulls);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}
