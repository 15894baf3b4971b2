/*
 * The clusters of a version as rows, and its centroids as an array.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "clusters.h"
#include "sql_function.h"
#include "sql_values.h"

GK_SQL_FUNCTION(gkmeans_clusters);
GK_SQL_FUNCTION(gkmeans_centroids);

/* The clusters of a head row. */
typedef struct Clusters
{
	int			k;
	int			dimension;
	double	   *centroids;
	int32	   *ids;
	char	  **names;			/* arrays are NULL if unknown */
	int64	   *sizes;
	double	   *weights;
	double	   *inertias;
	double	   *avg_distances;
	double	   *radii;
} Clusters;

/* Reads and checks them. */
static void
read_clusters(Relation relation, TupleTableSlot *slot, Clusters *clusters)
{
	GkModelRow	row;
	GkMetric	metric;

	gk_open_row(&row, relation, slot);
	gk_row_shape(&row, &clusters->k, &clusters->dimension, &metric);
	clusters->centroids = gk_row_matrix(&row, GK_MODEL_CENTROIDS, clusters->k,
										clusters->dimension);
	if (clusters->centroids == NULL)
		gk_model_is_damaged(relation, row.version, "centroids");
	clusters->ids = gk_row_ids(&row, GK_MODEL_CLUSTER_IDS, clusters->k);
	clusters->names = gk_row_names(&row, clusters->k);
	clusters->sizes = gk_row_counts(&row, GK_MODEL_SIZES, clusters->k);
	clusters->weights = gk_row_measures(&row, GK_MODEL_WEIGHTS, clusters->k);
	clusters->inertias = gk_row_measures(&row, GK_MODEL_INERTIAS, clusters->k);
	clusters->avg_distances = gk_row_measures(&row, GK_MODEL_AVG_DISTANCES, clusters->k);
	clusters->radii = gk_row_measures(&row, GK_MODEL_RADII, clusters->k);
}

/* Numbers as an array. */
static Datum
array_of_doubles(const double *values, int count)
{
	Datum	   *elements = palloc(count * sizeof(Datum));
	ArrayType  *array;

	for (int i = 0; i < count; i++)
		elements[i] = Float8GetDatum(values[i]);
	array = construct_array(elements, count, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
							TYPALIGN_DOUBLE);
	pfree(elements);
	return PointerGetDatum(array);
}

/* Puts a number of a cluster; NULL if it is unknown. */
static void
put_measure(Datum *value, bool *is_null, const double *values, int cluster)
{
	*is_null = values == NULL || isnan(values[cluster]);
	*value = *is_null ? (Datum) 0 : Float8GetDatum(values[cluster]);
}

/* The columns of a cluster, from its centroid on. */
static void
describe_cluster(const Clusters *clusters, int cluster, Datum *values, bool *nulls)
{
	values[0] = array_of_doubles(clusters->centroids + (int64) cluster * clusters->dimension,
								 clusters->dimension);
	nulls[0] = false;
	nulls[1] = clusters->sizes == NULL;
	values[1] = nulls[1] ? (Datum) 0 : Int64GetDatum(clusters->sizes[cluster]);
	put_measure(&values[2], &nulls[2], clusters->weights, cluster);
	put_measure(&values[3], &nulls[3], clusters->inertias, cluster);
	put_measure(&values[4], &nulls[4], clusters->avg_distances, cluster);
	put_measure(&values[5], &nulls[5], clusters->radii, cluster);
}

/* Puts one row for every cluster of a head row into a result. */
void
gk_put_model_clusters(Relation relation, TupleTableSlot *slot, ReturnSetInfo *result,
					  bool with_names)
{
	int			first = with_names ? 2 : 1;
	Clusters	clusters;

	read_clusters(relation, slot, &clusters);
	for (int c = 0; c < clusters.k; c++)
	{
		const char *name = clusters.names != NULL ? clusters.names[c] : NULL;
		Datum		values[8] = {0};
		bool		nulls[8] = {0};

		CHECK_FOR_INTERRUPTS();
		values[0] = Int32GetDatum(clusters.ids != NULL ? clusters.ids[c] : c);
		if (with_names)
		{
			nulls[1] = name == NULL;
			values[1] = nulls[1] ? (Datum) 0 : CStringGetTextDatum(name);
		}
		describe_cluster(&clusters, c, values + first, nulls + first);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		pfree(DatumGetPointer(values[first]));
	}
}

/* SQL: the clusters of a version. */
Datum
gkmeans_clusters(PG_FUNCTION_ARGS)
{
	Relation	relation;
	GkHeads    *heads;

	gk_begin_result(fcinfo);
	if (PG_ARGISNULL(0))
		return (Datum) 0;
	relation = gk_open_model(PG_GETARG_OID(0));
	heads = gk_begin_heads(relation);
	gk_find_head_or_fail(heads, relation, gk_version_argument(fcinfo, 1));
	gk_put_model_clusters(relation, gk_head(heads), (ReturnSetInfo *) fcinfo->resultinfo, true);
	gk_end_heads(heads);
	relation_close(relation, NoLock);
	return (Datum) 0;
}

/* SQL: the centroids of a version, k × dimension. */
Datum
gkmeans_centroids(PG_FUNCTION_ARGS)
{
	Relation	relation;
	GkHeads    *heads;
	Clusters	clusters;
	Datum		centroids;
	bool		is_null;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	relation = gk_open_model(PG_GETARG_OID(0));
	heads = gk_begin_heads(relation);
	gk_find_head_or_fail(heads, relation, gk_version_argument(fcinfo, 1));
	read_clusters(relation, gk_head(heads), &clusters);
	centroids = PointerGetDatum(DatumGetArrayTypePCopy(slot_getattr(gk_head(heads),
																	 GK_MODEL_CENTROIDS,
																	 &is_null)));
	gk_end_heads(heads);
	relation_close(relation, NoLock);
	return centroids;
}
