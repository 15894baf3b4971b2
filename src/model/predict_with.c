/*
 * The SQL functions that predict without a table: from an exported model, or from centroids.
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "assign.h"
#include "exported.h"
#include "scorer.h"
#include "sql_function.h"
#include "sql_values.h"

/* Centroids between two looks at interrupts. */
#define CENTROIDS_AT_ONCE 4096

GK_SQL_FUNCTION(gkmeans_export);
GK_SQL_FUNCTION(gkmeans_predict_with);
GK_SQL_FUNCTION(gkmeans_predict_centroids);

/* The state that gkmeans_predict_with keeps between calls. */
typedef struct Exported
{
	GkScorer   *scorer;
	bool		is_constant;	/* the argument cannot change */
	Jsonb	   *source;			/* in the scorer's context */
} Exported;

/* True if all of a version is asked for, false if it is what predictions need. */
static bool
wants_all(FunctionCallInfo fcinfo)
{
	const char *format = gk_text_or(fcinfo, 1, "json");

	if (strcmp(format, "json") != 0 && strcmp(format, "predict") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid format: \"%s\"", format),
				 errhint("Valid values are \"json\", \"predict\".")));
	return strcmp(format, "json") == 0;
}

/* SQL: a version of a model as JSON. */
Datum
gkmeans_export(PG_FUNCTION_ARGS)
{
	Relation	relation;
	GkHeads    *heads;
	GkModelRow	row;
	bool		all = wants_all(fcinfo);
	char	   *json;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	relation = gk_open_model(PG_GETARG_OID(0));
	heads = gk_begin_heads(relation);
	gk_find_head_or_fail(heads, relation, gk_version_argument(fcinfo, 2));
	gk_open_row(&row, relation, gk_head(heads));
	json = gk_export_model(gk_unpack_model(relation, row.slot, CurrentMemoryContext),
						   all ? &row : NULL);
	gk_end_heads(heads);
	relation_close(relation, NoLock);
	PG_RETURN_TEXT_P(cstring_to_text(json));
}

/* True if the exported model is a constant of the expression. */
static bool
is_constant(FmgrInfo *function)
{
	return function->fn_expr != NULL && IsA(function->fn_expr, FuncExpr) &&
		IsA(linitial(((FuncExpr *) function->fn_expr)->args), Const);
}

/* True if two values are the same, byte for byte. */
static bool
is_same(const Jsonb *left, const Jsonb *right)
{
	return VARSIZE(left) == VARSIZE(right) && memcmp(left, right, VARSIZE(left)) == 0;
}

/* Unpacks an exported model, unless it is the same as in the previous call. */
static GkScorer *
scorer_of(FunctionCallInfo fcinfo)
{
	Exported   *exported = fcinfo->flinfo->fn_extra;
	Jsonb	   *given;
	MemoryContext before;

	if (exported != NULL && exported->is_constant)
		return exported->scorer;
	given = PG_GETARG_JSONB_P(0);
	if (exported != NULL && is_same(exported->source, given))
		return exported->scorer;
	fcinfo->flinfo->fn_extra = NULL;
	if (exported == NULL)
	{
		exported = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(Exported));
		exported->scorer = gk_new_scorer(fcinfo);
		exported->is_constant = is_constant(fcinfo->flinfo);
	}
	else
		MemoryContextReset(exported->scorer->context);
	before = MemoryContextSwitchTo(exported->scorer->context);
	exported->source = (Jsonb *) PG_DETOAST_DATUM_COPY(PointerGetDatum(given));
	gk_prepare_scorer(exported->scorer, gk_unpack_exported(exported->source), fcinfo, 1);
	MemoryContextSwitchTo(before);
	fcinfo->flinfo->fn_extra = exported;
	return exported->scorer;
}

/* SQL: the cluster of a row by an exported model. */
Datum
gkmeans_predict_with(PG_FUNCTION_ARGS)
{
	GkScorer   *scorer = scorer_of(fcinfo);
	double		distance2;

	if (!gk_take_features(scorer, fcinfo))
		PG_RETURN_NULL();
	PG_RETURN_INT32(gk_cluster_id(scorer->model, gk_nearest_cluster(scorer, &distance2)));
}

/* Refuses centroids and features that do not match. */
static void
check_arrays(ArrayType *centroids, ArrayType *features)
{
	if (ARR_NDIM(centroids) != 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("centroids must be an array of arrays, one for each centroid")));
	if (array_contains_nulls(centroids))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("centroids contains a NULL")));
	if (ARR_NDIM(features) != 1 || ARR_DIMS(features)[0] != ARR_DIMS(centroids)[1])
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("features does not fit the centroids"),
				 errdetail("It must have one dimension and %d elements.",
						   ARR_DIMS(centroids)[1])));
}

/* True if all numbers are finite. */
static bool
all_finite(const double *values, int count)
{
	for (int j = 0; j < count; j++)
		if (!isfinite(values[j]))
			return false;
	return true;
}

/* The nearest centroid, -1 for none; differences are multiplied before and after they are taken. */
static int
nearest_of(ArrayType *centroids, const double *values, double before, double after,
		   double *least)
{
	int			d = ARR_DIMS(centroids)[1];
	int			nearest = -1;

	*least = HUGE_VAL;
	for (int c = 0; c < ARR_DIMS(centroids)[0]; c++)
	{
		const double *centroid = (const double *) ARR_DATA_PTR(centroids) + (int64) c * d;
		double		sum = 0.0;

		if (c % CENTROIDS_AT_ONCE == 0)
			CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
		{
			double		difference = (values[j] * before - centroid[j] * before) * after;

			sum += difference * difference;
		}
		if (sum < *least)
		{
			*least = sum;
			nearest = c;
		}
	}
	return nearest;
}

/* SQL: the nearest of some centroids, counted from 0, in double precision. */
Datum
gkmeans_predict_centroids(PG_FUNCTION_ARGS)
{
	ArrayType  *centroids = PG_GETARG_ARRAYTYPE_P(0);
	ArrayType  *features = PG_GETARG_ARRAYTYPE_P(1);
	const double *values = (const double *) ARR_DATA_PTR(features);
	double		least;
	int			nearest;

	check_arrays(centroids, features);
	if (array_contains_nulls(features) || !all_finite(values, ARR_DIMS(features)[0]))
		PG_RETURN_NULL();
	nearest = nearest_of(centroids, values, 1.0, 1.0, &least);
	/* where squares leave the range of double, others of the same order do not */
	if (nearest < 0)
		nearest = nearest_of(centroids, values, 0x1p-600, 1.0, &least);
	else if (least < 0x1p-900)
		nearest = nearest_of(centroids, values, 1.0, 0x1p600, &least);
	if (nearest < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32(nearest);
}
