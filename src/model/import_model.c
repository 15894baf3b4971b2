/*
 * The SQL function gkmeans_import_model: a model from centroids.
 */
#include "postgres.h"


#include "access/relation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/snapmgr.h"

#include "alloc.h"
#include "arguments.h"
#include "definition.h"
#include "draft.h"
#include "exact.h"
#include "exported.h"
#include "map.h"
#include "prepare.h"
#include "shift.h"
#include "snapshot_rows.h"
#include "sql_function.h"
#include "sql_values.h"
#include "target.h"

GK_SQL_FUNCTION(gkmeans_import_model);

/* Places of the arguments. */
enum
{
	MODEL,
	CENTROIDS,
	FEATURES,
	METRIC,
	SCALE_OFFSET,
	SCALE_FACTOR,
	NAMES,
	SOURCE,
	IF_EXISTS,
	NOTE,
	EXPORTED
};

/* The arguments of an import. */
typedef struct Import
{
	int			k;
	int			dimension;
	bool		cosine;
	const double *centroids;
	const double *offset;		/* NULL = not scaled */
	const double *factor;
	double	   *shift;			/* subtracted before rows are rounded */
	bool		is_shifted;		/* if any of it is not zero */
} Import;

/* Refuses an argument. */
static void
refuse(const char *argument, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %s", argument, what)));
}

/* An argument that is an array; NULL if it is NULL. */
static ArrayType *
array_argument(FunctionCallInfo fcinfo, int number, const char *argument, int dimensions,
			   int count, bool allow_nulls)
{
	ArrayType  *array;

	if (PG_ARGISNULL(number))
		return NULL;
	array = PG_GETARG_ARRAYTYPE_P(number);
	if (ARR_NDIM(array) != dimensions)
		refuse(argument, dimensions == 2 ? "must be an array of arrays, one for each centroid"
			   : "must be an array of one dimension");
	if (count > 0 && ARR_DIMS(array)[0] != count)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s has %d elements, expected %d", argument, ARR_DIMS(array)[0], count)));
	if (!allow_nulls && array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s contains a NULL", argument)));
	return array;
}

/* The elements of an array of doubles, all in the range of float32. */
static const double *
check_doubles(ArrayType *array, int64 count, const char *argument)
{
	const double *values;

	if (array == NULL)
		return NULL;
	values = (const double *) ARR_DATA_PTR(array);
	for (int64 i = 0; i < count; i++)
		if (!gk_is_real(values[i]))
			refuse(argument, "contains a value that is not finite or too large for real");
	return values;
}

/* The centroids. */
static void
read_centroids(FunctionCallInfo fcinfo, Import *import)
{
	ArrayType  *array = array_argument(fcinfo, CENTROIDS, "centroids", 2, 0, false);

	if (array == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("centroids is NULL")));
	import->k = ARR_DIMS(array)[0];
	import->dimension = ARR_DIMS(array)[1];
	if (import->dimension > GK_MAX_DIMENSION || import->k > GK_MAX_CLUSTERS ||
		(int64) import->k * import->dimension > GK_MAX_MODEL_NUMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("model is too large"),
				 errdetail("The limits are %d centroids, %d features, and %lld numbers in all.",
						   GK_MAX_CLUSTERS, GK_MAX_DIMENSION,
						   (long long) GK_MAX_MODEL_NUMBERS)));
	import->centroids = check_doubles(array, (int64) import->k * import->dimension, "centroids");
}

/* Scale and metric. */
static void
read_comparison(FunctionCallInfo fcinfo, Import *import)
{
	int			d = import->dimension;

	import->cosine = gk_metric_word(gk_text_or(fcinfo, METRIC, "euclidean")) == GK_COSINE;
	import->offset = check_doubles(array_argument(fcinfo, SCALE_OFFSET, "scale_offset", 1, d,
												  false), d, "scale_offset");
	import->factor = check_doubles(array_argument(fcinfo, SCALE_FACTOR, "scale_factor", 1, d,
												  false), d, "scale_factor");
	if ((import->offset == NULL) != (import->factor == NULL))
		refuse(import->offset == NULL ? "scale_offset" : "scale_factor", "is missing");
	for (int j = 0; import->factor != NULL && j < d; j++)
		if (!gk_is_factor(import->factor[j]))
			refuse("scale_factor", "contains a number that is negative or too small to divide by");
}

/* The range of a feature, as far as centroids and scale show it. */
static void
find_range(const Import *import, int j, double *least, double *greatest)
{
	double		factor = import->factor != NULL ? import->factor[j] : 0.0;

	*least = HUGE_VAL;
	*greatest = -HUGE_VAL;
	for (int64 c = 0; c < import->k && !import->cosine; c++)
	{
		*least = Min(*least, import->centroids[c * import->dimension + j]);
		*greatest = Max(*greatest, import->centroids[c * import->dimension + j]);
	}
	if (import->offset == NULL)
		return;
	*least = Min(*least, import->offset[j] - (factor > 0.0 ? 1.0 / factor : 0.0));
	*greatest = Max(*greatest, import->offset[j] + (factor > 0.0 ? 1.0 / factor : 0.0));
}

/*
 * Shifts the features that lie far from zero, as a fit does: rows that are rounded before the
 * offset is subtracted could not be told apart.
 */
static void
choose_shift(Import *import)
{
	import->shift = gk_allocate_zero(import->dimension, sizeof(double));
	/* directions are those from zero */
	if (import->cosine && import->offset == NULL)
		return;
	for (int j = 0; j < import->dimension; j++)
	{
		double		least;
		double		greatest;

		find_range(import, j, &least, &greatest);
		import->shift[j] = gk_shift_of_range(least, greatest, GK_FEATURE_REAL);
		import->is_shifted |= import->shift[j] != 0.0;
	}
}

/* Puts how rows are compared into the version; the offset is that of shifted rows. */
static void
draft_comparison(GkDraft *draft, const Import *import)
{
	int			d = import->dimension;
	double	   *offset;

	gk_draft_text(draft, GK_MODEL_METRIC, import->cosine ? "cosine" : "euclidean");
	if (import->is_shifted)
		gk_draft_doubles(draft, GK_MODEL_SHIFT, import->shift, d);
	if (import->offset == NULL)
		return;
	offset = gk_allocate(d, sizeof(double));
	for (int j = 0; j < d; j++)
		offset[j] = import->offset[j] - import->shift[j];
	gk_draft_doubles(draft, GK_MODEL_SCALE_OFFSET, offset, d);
	gk_draft_doubles(draft, GK_MODEL_SCALE_FACTOR, import->factor, d);
	pfree(offset);
}

/* A centroid as rows are compared with it. */
static void
compare_centroid(const Import *import, const double *centroid, double *point)
{
	for (int j = 0; j < import->dimension; j++)
	{
		/* with the cosine metric, rows are compared with unit vectors */
		if (import->cosine)
			point[j] = centroid[j];
		else if (import->factor != NULL)
			point[j] = (centroid[j] - import->offset[j]) * import->factor[j];
		else
			point[j] = centroid[j] - import->shift[j];
		if (!gk_is_real(point[j]))
			refuse("centroids", "contains a value that is too large when scaled");
	}
	if (import->cosine && !gk_make_unit(point, import->dimension))
		refuse("centroids", "contains one without a direction");
}

/* The centroids as stored and as rows are compared with them. */
static void
draft_centroids(GkDraft *draft, const Import *import)
{
	int64		d = import->dimension;
	double	   *points = gk_allocate(import->k * d, sizeof(double));

	for (int c = 0; c < import->k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		compare_centroid(import, import->centroids + c * d, points + c * d);
	}
	gk_draft_matrix(draft, GK_MODEL_CENTROIDS, import->cosine ? points : import->centroids,
					import->k, import->dimension);
	if (!import->cosine && (import->factor != NULL || import->is_shifted))
		gk_draft_matrix(draft, GK_MODEL_POINTS, points, import->k, import->dimension);
	gk_draft_centroid_map(draft, points, import->k, import->dimension);
	pfree(points);
}

/* The order of names. */
static int
compare_names(const void *a, const void *b, void *argument)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Refuses a name that no column of a row can have. */
static void
check_length(const char *name)
{
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("features contains an empty name")));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("feature name \"%s\" is too long", name),
				 errdetail("Rows have columns of these names, and a column's has at most %d bytes.",
						   NAMEDATALEN - 1)));
}

/* Refuses names that are not different. */
static void
check_different(const char *const *names, int count)
{
	const char **sorted = gk_allocate(count, sizeof(char *));

	memcpy(sorted, names, count * sizeof(char *));
	qsort_interruptible(sorted, count, sizeof(char *), compare_names, NULL);
	for (int i = 1; i < count; i++)
		if (strcmp(sorted[i - 1], sorted[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("feature \"%s\" is named more than once", sorted[i])));
	pfree(sorted);
}

/* Refuses names that are not those of different columns. */
static void
check_names(const char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		check_length(names[i]);
	check_different(names, count);
}

/* Refuses a version whose features have the same names. */
static void
check_drafted_features(const GkDraft *draft)
{
	Datum	   *elements;
	const char **names;
	int			count;

	if (draft->nulls[GK_MODEL_FEATURES - 1])
		return;
	deconstruct_array(DatumGetArrayTypeP(draft->values[GK_MODEL_FEATURES - 1]), TEXTOID, -1, false,
					  TYPALIGN_INT, &elements, NULL, &count);
	names = gk_allocate(count, sizeof(char *));
	for (int i = 0; i < count; i++)
		names[i] = TextDatumGetCString(elements[i]);
	check_different(names, count);
}

/* The names of the features: given, or x1, x2, … */
static void
draft_features(GkDraft *draft, FunctionCallInfo fcinfo, const Import *import)
{
	int			d = import->dimension;
	ArrayType  *array = array_argument(fcinfo, FEATURES, "features", 1, d, false);
	const char **names = gk_allocate(d, sizeof(char *));
	Datum	   *elements;
	bool	   *nulls;

	if (array != NULL)
		deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &d);
	for (int j = 0; j < d; j++)
		names[j] = array != NULL ? TextDatumGetCString(elements[j]) : psprintf("x%d", j + 1);
	check_names(names, d);
	gk_draft_texts(draft, GK_MODEL_FEATURES, names, d);
}

/* The names of the clusters. */
static void
draft_names(GkDraft *draft, FunctionCallInfo fcinfo, const Import *import)
{
	ArrayType  *array = array_argument(fcinfo, NAMES, "names", 1, import->k, true);

	if (array == NULL)
		return;
	gk_check_names(array);
	gk_draft_set(draft, GK_MODEL_NAMES, PointerGetDatum(array));
}

/* The whole version. */
static void
draft_import(GkDraft *draft, FunctionCallInfo fcinfo, const Import *import)
{
	gk_begin_draft(draft);
	gk_draft_begun(draft);
	gk_draft_set(draft, GK_MODEL_K, Int32GetDatum(import->k));
	gk_draft_set(draft, GK_MODEL_DIMENSION, Int32GetDatum(import->dimension));
	draft_comparison(draft, import);
	draft_centroids(draft, import);
	draft_features(draft, fcinfo, import);
	draft_names(draft, fcinfo, import);
	gk_draft_text(draft, GK_MODEL_NOTE, gk_text_or(fcinfo, NOTE, NULL));
	gk_draft_deployed(draft, "imported");
}

/* The version that another model was exported as. */
static int
draft_from_json(GkDraft *draft, FunctionCallInfo fcinfo)
{
	static const struct
	{
		int			number;
		const char *name;
	}			others[] = {
		{CENTROIDS, "centroids"}, {FEATURES, "features"}, {SCALE_OFFSET, "scale_offset"},
		{SCALE_FACTOR, "scale_factor"}, {NAMES, "names"}
	};
	int			k;

	for (int i = 0; i < lengthof(others); i++)
		if (!PG_ARGISNULL(others[i].number))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s and exported cannot both be given", others[i].name)));
	(void) gk_metric_word(gk_text_or(fcinfo, METRIC, "euclidean"));
	gk_begin_draft(draft);
	k = gk_draft_exported(draft, PG_GETARG_JSONB_P(EXPORTED));
	check_drafted_features(draft);
	gk_draft_begun(draft);
	gk_draft_text(draft, GK_MODEL_NOTE, gk_text_or(fcinfo, NOTE, NULL));
	gk_draft_deployed(draft, "imported");
	return k;
}

/* The version that the arguments describe; how many clusters it has. */
static int
draft_from_arguments(GkDraft *draft, FunctionCallInfo fcinfo)
{
	Import		import = {0};

	if (!PG_ARGISNULL(EXPORTED))
		return draft_from_json(draft, fcinfo);
	read_centroids(fcinfo, &import);
	read_comparison(fcinfo, &import);
	choose_shift(&import);
	draft_import(draft, fcinfo, &import);
	return import.k;
}

/* The number of clusters of an existing model that stays as it is. */
static int
existing_k(Oid relation_id)
{
	Relation	relation = gk_open_model(relation_id);
	GkHeads    *heads;
	GkModelRow	row;
	int			k;

	/* it may have been made while the call waited */
	gk_push_writer_snapshot();
	heads = gk_begin_heads(relation);
	gk_find_head_or_fail(heads, relation, 0);
	gk_open_row(&row, relation, gk_head(heads));
	k = gk_row_integer(&row, GK_MODEL_K, 1, GK_MAX_CLUSTERS);
	gk_end_heads(heads);
	PopActiveSnapshot();
	relation_close(relation, NoLock);
	return k;
}

/* The definition of an existing model that gets the version. */
static const char *
define_again(Oid relation_id, const char *definition, const GkDraft *draft)
{
	Relation	relation = gk_open_model(relation_id);
	bool		is_scaled = !draft->nulls[GK_MODEL_SCALE_FACTOR - 1];
	const char *again = gk_define_again(relation, definition, is_scaled);

	relation_close(relation, NoLock);
	return again;
}

/* Writes the version. */
static void
write_import(const GkTarget *target, GkDraft *draft, const char *definition)
{
	if (target->exists)
		definition = define_again(target->relation_id, definition, draft);
	gk_draft_json(draft, GK_MODEL_DEFINITION, definition);
	gk_write_target(target, draft, definition);
}

/* SQL: creates a model from centroids; returns how many. */
Datum
gkmeans_import_model(PG_FUNCTION_ARGS)
{
	const char *name = gk_text_or(fcinfo, MODEL, NULL);
	GkModelExists if_exists = gk_model_exists_word(gk_text_or(fcinfo, IF_EXISTS, "error"));
	const char *definition = gk_definition(fcinfo);
	GkTarget	target;
	GkDraft		draft;
	int			k;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("model is NULL"),
				 errhint("Give a name for the model's table.")));
	PreventCommandIfReadOnly("gkmeans_import_model()");
	PreventCommandIfParallelMode("gkmeans_import_model()");
	k = draft_from_arguments(&draft, fcinfo);
	if (!PG_ARGISNULL(EXPORTED))
		definition = gk_define_exported(definition, PG_GETARG_JSONB_P(EXPORTED));
	else if (PG_ARGISNULL(FEATURES))
		definition = gk_define_features(definition,
										DatumGetArrayTypeP(draft.values[GK_MODEL_FEATURES - 1]));
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	gk_open_target(&target, name, if_exists, definition);
	if (!target.exists || if_exists != GK_MODEL_SKIP)
		write_import(&target, &draft, definition);
	SPI_finish();
	PG_RETURN_INT32(target.exists && if_exists == GK_MODEL_SKIP ? existing_k(target.relation_id)
					: k);
}
