/*
 * Models as JSON, for predictions without the table, such as in a generated column.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "alloc.h"
#include "exact.h"
#include "exported.h"
#include "map.h"
#include "nearest.h"
#include "numeric_value.h"
#include "scorer.h"

/* The version of the format. */
#define FORMAT 1

/* What is no number in JSON. */
#define INFINITE "\"Infinity\""

/* Refuses a JSON value that is not an exported model. */
static void
refuse(const char *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("JSON value is not an exported model"),
			 errdetail("Key \"%s\" is missing or not as gkmeans_export() writes it.", key)));
}

/* Appends a number in its shortest form that reads back exactly. */
static void
append_double(StringInfo json, double value)
{
	char		buffer[DOUBLE_SHORTEST_DECIMAL_LEN];

	double_to_shortest_decimal_buf(value, buffer);
	appendStringInfoString(json, buffer);
}

/* Appends an array of numbers. */
static void
append_doubles(StringInfo json, const double *values, int count, int stride)
{
	appendStringInfoChar(json, '[');
	for (int j = 0; j < count; j++)
	{
		appendStringInfoString(json, j > 0 ? "," : "");
		append_double(json, values[(int64) j * stride]);
	}
	appendStringInfoChar(json, ']');
}

/* Appends a key whose value is an array of numbers, unless there are none. */
static void
append_numbers(StringInfo json, const char *key, const double *values, int count)
{
	if (values == NULL)
		return;
	appendStringInfo(json, ",\"%s\":", key);
	append_doubles(json, values, count, 1);
}

/* Appends a key whose value is an array of texts, of which some may be NULL. */
static void
append_texts(StringInfo json, const char *key, char *const *texts, int count)
{
	if (texts == NULL)
		return;
	appendStringInfo(json, ",\"%s\":[", key);
	for (int j = 0; j < count; j++)
	{
		CHECK_FOR_INTERRUPTS();
		appendStringInfoString(json, j > 0 ? "," : "");
		if (texts[j] == NULL)
			appendStringInfoString(json, "null");
		else
			escape_json(json, texts[j]);
	}
	appendStringInfoChar(json, ']');
}

/* Appends a key whose value is an array of integers, unless there are none. */
static void
append_integers(StringInfo json, const char *key, const int32 *values, int count)
{
	if (values == NULL)
		return;
	appendStringInfo(json, ",\"%s\":[", key);
	for (int j = 0; j < count; j++)
		appendStringInfo(json, "%s%d", j > 0 ? "," : "", values[j]);
	appendStringInfoChar(json, ']');
}

/* Appends the centroids as rows are compared with them, in the order of ties. */
static void
append_points(StringInfo json, const GkModel *model)
{
	int64		d = model->dimension;

	appendStringInfoString(json, ",\"points\":[");
	for (int i = 0; i < model->k; i++)
	{
		CHECK_FOR_INTERRUPTS();
		appendStringInfoString(json, i > 0 ? "," : "");
		append_doubles(json, model->packed + i / GK_GROUP * GK_GROUP * d + i % GK_GROUP,
					   model->dimension, GK_GROUP);
	}
	appendStringInfoChar(json, ']');
}

/* What a version says of the rows that it was fitted on, and how long lists of it are. */
typedef enum Kind
{
	FEATURES,					/* a number for each feature */
	FEATURE_MEASURES,			/* such a number that is not negative */
	CLUSTERS,					/* a number for each cluster, which may be unknown or infinite */
	CLUSTER_FEATURES,			/* such a number for each feature of each cluster */
	COUNTS,						/* a number of rows for each cluster */
	QUANTILES,
	NUMBER,
	COUNT,
	INTEGER,
	TRUTH,
	TEXT,
	DOCUMENT,
	PLACES,						/* a place for each cluster */
	SAMPLE						/* three numbers for each of some rows */
} Kind;

static const struct
{
	GkModelAttribute number;
	Kind		kind;
	const char *key;
}			carried[] = {
	{GK_MODEL_OUTCOME, TEXT, "outcome"},
	{GK_MODEL_NOTE, TEXT, "note"},
	{GK_MODEL_FEATURE_MEAN, FEATURES, "feature_mean"},
	{GK_MODEL_FEATURE_DEVIATION, FEATURE_MEASURES, "feature_deviation"},
	{GK_MODEL_FEATURE_LEAST, FEATURES, "feature_least"},
	{GK_MODEL_FEATURE_GREATEST, FEATURES, "feature_greatest"},
	{GK_MODEL_SIZES, COUNTS, "sizes"},
	{GK_MODEL_WEIGHTS, CLUSTERS, "weights"},
	{GK_MODEL_INERTIAS, CLUSTERS, "inertias"},
	{GK_MODEL_AVG_DISTANCES, CLUSTERS, "avg_distances"},
	{GK_MODEL_RADII, CLUSTERS, "radii"},
	{GK_MODEL_DEVIATIONS, CLUSTER_FEATURES, "deviations"},
	{GK_MODEL_ROWS_READ, COUNT, "rows_read"},
	{GK_MODEL_ROWS_USED, COUNT, "rows_used"},
	{GK_MODEL_INERTIA, NUMBER, "inertia"},
	{GK_MODEL_BETWEEN_SS, NUMBER, "between_ss"},
	{GK_MODEL_TOTAL_SS, NUMBER, "total_ss"},
	{GK_MODEL_ITERATIONS, INTEGER, "iterations"},
	{GK_MODEL_CONVERGED, TRUTH, "converged"},
	{GK_MODEL_MOVED, COUNT, "moved"},
	{GK_MODEL_SCORE_QUANTILES, QUANTILES, "score_quantiles"},
	{GK_MODEL_SILHOUETTE, NUMBER, "silhouette"},
	{GK_MODEL_SIMPLIFIED_SILHOUETTE, NUMBER, "simplified_silhouette"},
	{GK_MODEL_DAVIES_BOULDIN, NUMBER, "davies_bouldin"},
	{GK_MODEL_CALINSKI_HARABASZ, NUMBER, "calinski_harabasz"},
	{GK_MODEL_HISTORY, DOCUMENT, "history"},
	{GK_MODEL_K_SELECTION, DOCUMENT, "k_selection"},
	{GK_MODEL_DRIFT, DOCUMENT, "drift"},
	{GK_MODEL_MAP_X, PLACES, "map_x"},
	{GK_MODEL_MAP_Y, PLACES, "map_y"},
	{GK_MODEL_SAMPLE_POINTS, SAMPLE, "sample_points"},
	{GK_MODEL_REPORT, DOCUMENT, "report"}
};

/* Appends an array of numbers that may be unknown or infinite. */
static void
append_array(StringInfo json, const double *values, int count)
{
	appendStringInfoChar(json, '[');
	for (int i = 0; i < count; i++)
	{
		appendStringInfoString(json, i > 0 ? "," : "");
		if (isnan(values[i]))
			appendStringInfoString(json, "null");
		else if (isinf(values[i]))
			appendStringInfoString(json, INFINITE);
		else
			append_double(json, values[i]);
	}
	appendStringInfoChar(json, ']');
}

/* Appends a key whose value is an array of such numbers. */
static void
append_measures(StringInfo json, const char *key, const double *values, int count)
{
	if (values == NULL)
		return;
	appendStringInfo(json, ",\"%s\":", key);
	append_array(json, values, count);
}

/* Appends a key whose value is an array of arrays of such numbers. */
static void
append_measure_matrix(StringInfo json, const char *key, const double *values, int rows,
					  int columns)
{
	if (values == NULL)
		return;
	appendStringInfo(json, ",\"%s\":[", key);
	for (int64 i = 0; i < rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		appendStringInfoString(json, i > 0 ? "," : "");
		append_array(json, values + i * columns, columns);
	}
	appendStringInfoChar(json, ']');
}

/* Appends a key whose value is an array of numbers of rows. */
static void
append_counts(StringInfo json, const char *key, const int64 *values, int count)
{
	if (values == NULL)
		return;
	appendStringInfo(json, ",\"%s\":[", key);
	for (int i = 0; i < count; i++)
		appendStringInfo(json, "%s" INT64_FORMAT, i > 0 ? "," : "", values[i]);
	appendStringInfoChar(json, ']');
}

/* Appends a key whose value is no array, unless it is NULL. */
static void
append_single(StringInfo json, const GkModelRow *row, GkModelAttribute number, Kind kind,
			  const char *key)
{
	bool		is_null;
	Datum		value = slot_getattr(row->slot, number, &is_null);

	if (is_null || (kind == NUMBER && !isfinite(DatumGetFloat8(value))))
		return;
	appendStringInfo(json, ",\"%s\":", key);
	if (kind == NUMBER)
		append_double(json, DatumGetFloat8(value));
	else if (kind == COUNT)
		appendStringInfo(json, INT64_FORMAT, DatumGetInt64(value));
	else if (kind == INTEGER)
		appendStringInfo(json, "%d", DatumGetInt32(value));
	else if (kind == TRUTH)
		appendStringInfoString(json, DatumGetBool(value) ? "true" : "false");
	else if (kind == TEXT)
		escape_json(json, TextDatumGetCString(value));
	else
		(void) JsonbToCString(json, &DatumGetJsonbP(value)->root, -1);
}

/* Appends a key whose value is an array of three numbers for each of some rows. */
static void
append_sample(StringInfo json, const char *key, const GkModelRow *row, GkModelAttribute number)
{
	int			count;
	const float *points = gk_row_reals(row, number, 3, &count);

	if (points == NULL)
		return;
	appendStringInfo(json, ",\"%s\":[", key);
	for (int64 i = 0; i < count; i++)
	{
		const double point[] = {points[3 * i], points[3 * i + 1], points[3 * i + 2]};

		appendStringInfoString(json, i > 0 ? "," : "");
		append_doubles(json, point, 3, 1);
	}
	appendStringInfoChar(json, ']');
}

/* Appends what the row of a version says besides. */
static void
append_carried(StringInfo json, const GkModelRow *row, int k, int dimension)
{
	for (int i = 0; i < lengthof(carried); i++)
	{
		GkModelAttribute number = carried[i].number;
		const char *key = carried[i].key;

		switch (carried[i].kind)
		{
			case FEATURES:
				append_numbers(json, key, gk_row_doubles(row, number, dimension), dimension);
				break;
			case FEATURE_MEASURES:
				append_measures(json, key, gk_row_measures(row, number, dimension), dimension);
				break;
			case CLUSTERS:
				append_measures(json, key, gk_row_measures(row, number, k), k);
				break;
			case CLUSTER_FEATURES:
				append_measure_matrix(json, key,
									  gk_row_measure_matrix(row, number, k, dimension), k,
									  dimension);
				break;
			case COUNTS:
				append_counts(json, key, gk_row_counts(row, number, k), k);
				break;
			case QUANTILES:
				append_measures(json, key, gk_row_measures(row, number, GK_QUANTILES),
								GK_QUANTILES);
				break;
			case PLACES:
				append_numbers(json, key, gk_row_doubles(row, number, k), k);
				break;
			case SAMPLE:
				append_sample(json, key, row, number);
				break;
			default:
				append_single(json, row, number, carried[i].kind, key);
				break;
		}
	}
}

/* Appends the centroids in the units of the features, by cluster, where they are not the points. */
static void
append_centroids(StringInfo json, const GkModelRow *row, int k, int dimension)
{
	const double *centroids;

	if (slot_attisnull(row->slot, GK_MODEL_POINTS))
		return;
	centroids = gk_row_matrix(row, GK_MODEL_CENTROIDS, k, dimension);
	appendStringInfoString(json, ",\"centroids\":[");
	for (int64 c = 0; c < k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		appendStringInfoString(json, c > 0 ? "," : "");
		append_doubles(json, centroids + c * dimension, dimension, 1);
	}
	appendStringInfoChar(json, ']');
}

/* A version of a model as JSON. */
char *
gk_export_model(const GkModel *model, const GkModelRow *row)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfo(&json, "{\"gkmeans\":%d,\"metric\":\"%s\",\"k\":%d,\"dimension\":%d", FORMAT,
					 model->metric == GK_COSINE ? "cosine" : "euclidean", model->k,
					 model->dimension);
	append_texts(&json, "features", model->features, model->dimension);
	append_texts(&json, "array_column", model->array_column != NULL ? &model->array_column : NULL,
				 1);
	append_numbers(&json, "shift", model->shift, model->dimension);
	append_numbers(&json, "scale_offset", model->offset, model->dimension);
	append_numbers(&json, "scale_factor", model->factor, model->dimension);
	append_points(&json, model);
	append_integers(&json, "ties", model->ties, model->k);
	append_integers(&json, "cluster_ids", model->cluster_ids, model->k);
	append_texts(&json, "names", model->names, model->k);
	if (row != NULL)
	{
		append_centroids(&json, row, model->k, model->dimension);
		append_carried(&json, row, model->k, model->dimension);
		append_single(&json, row, GK_MODEL_DEFINITION, DOCUMENT, "definition");
	}
	appendStringInfoChar(&json, '}');
	return json.data;
}

/* The value of a key; NULL if there is none. */
static JsonbValue *
value_of(Jsonb *exported, const char *key)
{
	return getKeyJsonValueFromContainer(&exported->root, key, strlen(key), NULL);
}

/* A number. */
static double
number_of(const JsonbValue *value, const char *key)
{
	double		number;

	if (value == NULL || value->type != jbvNumeric)
		refuse(key);
	number = gk_numeric_value(NumericGetDatum(value->val.numeric));
	if (!isfinite(number))
		refuse(key);
	return number;
}

/* An integer within bounds. */
static int
integer_of(Jsonb *exported, const char *key, int least, int greatest)
{
	double		number = number_of(value_of(exported, key), key);

	if (number != rint(number) || number < least || number > greatest)
		refuse(key);
	return (int) number;
}

/* A number that is not negative, null (NaN) or "Infinity". */
static double
measure_of(const JsonbValue *value, const char *key)
{
	double		number;

	if (value->type == jbvNull)
		return NAN;
	if (value->type == jbvString && value->val.string.len == strlen(INFINITE) - 2 &&
		memcmp(value->val.string.val, &INFINITE[1], value->val.string.len) == 0)
		return HUGE_VAL;
	number = number_of(value, key);
	if (number < 0.0)
		refuse(key);
	return number;
}

/*
 * All elements of an array, or of an array of arrays, as a function reads them; NULL if there is no
 * such key.
 */
static double *
elements_of(Jsonb *exported, const char *key, int64 count,
			double (*read) (const JsonbValue *value, const char *key))
{
	JsonbValue *array = value_of(exported, key);
	double	   *numbers;
	int64		found = 0;
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	value;

	if (array == NULL)
		return NULL;
	if (array->type != jbvBinary || !JsonContainerIsArray(array->val.binary.data))
		refuse(key);
	numbers = gk_allocate(count, sizeof(double));
	iterator = JsonbIteratorInit(array->val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (token == WJB_KEY || (token == WJB_ELEM && found == count))
			refuse(key);
		if (token == WJB_ELEM)
			numbers[found++] = read(&value, key);
	}
	if (found != count)
		refuse(key);
	return numbers;
}

/* All numbers of an array, or of an array of arrays; NULL if there is no such key. */
static double *
numbers_of(Jsonb *exported, const char *key, int64 count)
{
	return elements_of(exported, key, count, number_of);
}

/* The same with numbers that are not negative, null (NaN) or "Infinity". */
static double *
measures_of(Jsonb *exported, const char *key, int64 count)
{
	return elements_of(exported, key, count, measure_of);
}

/* All texts of an array, of which some may be null; NULL if there is no such key. */
static char **
texts_of(Jsonb *exported, const char *key, int count, bool allow_nulls)
{
	JsonbValue *array = value_of(exported, key);
	char	  **texts;

	if (array == NULL)
		return NULL;
	if (array->type != jbvBinary || !JsonContainerIsArray(array->val.binary.data) ||
		JsonContainerSize(array->val.binary.data) != count)
		refuse(key);
	texts = gk_allocate_zero(count, sizeof(char *));
	for (int i = 0; i < count; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(array->val.binary.data, i);

		if (value->type == jbvString && value->val.string.len <= GK_MAX_NAME_BYTES)
			texts[i] = pnstrdup(value->val.string.val, value->val.string.len);
		else if (value->type != jbvNull || !allow_nulls)
			refuse(key);
	}
	return texts;
}

/* Integers of an array, each within bounds and none twice; NULL if there is no such key. */
static int32 *
places_of(Jsonb *exported, const char *key, int count, int limit)
{
	double	   *numbers = numbers_of(exported, key, count);
	int32	   *places;
	bool	   *seen;

	if (numbers == NULL)
		return NULL;
	places = gk_allocate(count, sizeof(int32));
	seen = gk_allocate_zero(limit, sizeof(bool));
	for (int i = 0; i < count; i++)
	{
		if (numbers[i] != rint(numbers[i]) || numbers[i] < 0 || numbers[i] >= limit ||
			seen[(int) numbers[i]])
			refuse(key);
		places[i] = (int32) numbers[i];
		seen[places[i]] = true;
	}
	pfree(numbers);
	pfree(seen);
	return places;
}

/* How rows are compared. */
static void
unpack_comparison(Jsonb *exported, GkModel *model)
{
	JsonbValue *metric = value_of(exported, "metric");
	char	  **array_column = texts_of(exported, "array_column", 1, false);

	if (metric == NULL || metric->type != jbvString)
		refuse("metric");
	if (metric->val.string.len == 6 && memcmp(metric->val.string.val, "cosine", 6) == 0)
		model->metric = GK_COSINE;
	else if (metric->val.string.len != 9 || memcmp(metric->val.string.val, "euclidean", 9) != 0)
		refuse("metric");
	model->array_column = array_column != NULL ? array_column[0] : NULL;
	model->features = texts_of(exported, "features", model->dimension, false);
	if ((model->features == NULL) == (model->array_column == NULL))
		refuse("features");
	model->shift = numbers_of(exported, "shift", model->dimension);
	model->offset = numbers_of(exported, "scale_offset", model->dimension);
	model->factor = numbers_of(exported, "scale_factor", model->dimension);
	if ((model->offset == NULL) != (model->factor == NULL))
		refuse("scale_factor");
	for (int j = 0; model->factor != NULL && j < model->dimension; j++)
		if (!gk_is_factor(model->factor[j]))
			refuse("scale_factor");
}

/* The centroids. */
static void
unpack_points(Jsonb *exported, GkModel *model)
{
	int64		d = model->dimension;
	double	   *points = numbers_of(exported, "points", model->k * d);

	if (points == NULL)
		refuse("points");
	for (int64 i = 0; i < model->k * d; i++)
		if (!gk_is_real(points[i]))
			refuse("points");
	gk_pack_points(model, points, NULL);
	pfree(points);
}

/* Unpacks an exported model. */
GkModel *
gk_unpack_exported(Jsonb *exported)
{
	GkModel    *model = palloc0(sizeof(GkModel));

	if (!JB_ROOT_IS_OBJECT(exported))
		refuse("gkmeans");
	(void) integer_of(exported, "gkmeans", FORMAT, FORMAT);
	model->k = integer_of(exported, "k", 1, GK_MAX_CLUSTERS);
	model->dimension = integer_of(exported, "dimension", 1, GK_MAX_DIMENSION);
	if ((int64) model->k * model->dimension > GK_MAX_MODEL_NUMBERS)
		refuse("k");
	unpack_comparison(exported, model);
	unpack_points(exported, model);
	model->ties = places_of(exported, "ties", model->k, model->k);
	model->cluster_ids = places_of(exported, "cluster_ids", model->k, GK_MAX_CLUSTERS);
	model->names = texts_of(exported, "names", model->k, true);
	return model;
}

/* A number of rows. */
static int64
count_of(const JsonbValue *value, const char *key)
{
	double		number = number_of(value, key);

	if (number != rint(number) || !(number >= 0.0 && number < 0x1p62))
		refuse(key);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8,
											 NumericGetDatum(value->val.numeric)));
}

/* Sets numbers of rows. */
static void
draft_counts(GkDraft *draft, GkModelAttribute number, Jsonb *exported, const char *key, int count)
{
	JsonbValue *array = value_of(exported, key);
	Datum	   *elements = gk_allocate(count, sizeof(Datum));
	int64		sum = 0;

	if (array->type != jbvBinary || !JsonContainerIsArray(array->val.binary.data) ||
		JsonContainerSize(array->val.binary.data) != count)
		refuse(key);
	for (int i = 0; i < count; i++)
	{
		int64		rows = count_of(getIthJsonbValueFromContainer(array->val.binary.data, i), key);

		if (rows > GK_MOST_COUNTED - sum)
			refuse(key);
		sum += rows;
		elements[i] = Int64GetDatum(rows);
	}
	gk_draft_set(draft, number,
				 PointerGetDatum(construct_array(elements, count, INT8OID, sizeof(int64),
												 FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)));
}

/* Sets the quantiles of the anomaly score, which ascend. */
static void
draft_quantiles(GkDraft *draft, Jsonb *exported, const char *key)
{
	double	   *quantiles = measures_of(exported, key, GK_QUANTILES);

	for (int i = 0; i < GK_QUANTILES; i++)
		if (isnan(quantiles[i]) || (i > 0 && quantiles[i] < quantiles[i - 1]))
			refuse(key);
	gk_draft_doubles(draft, GK_MODEL_SCORE_QUANTILES, quantiles, GK_QUANTILES);
}

/* Sets three numbers for each of some rows. */
static void
draft_sample(GkDraft *draft, GkModelAttribute number, Jsonb *exported, const char *key)
{
	JsonbValue *array = value_of(exported, key);
	int			rows = array->type != jbvBinary || !JsonContainerIsArray(array->val.binary.data) ?
		0 : JsonContainerSize(array->val.binary.data);
	double	   *numbers = numbers_of(exported, key, 3 * (int64) rows);
	float	   *points = gk_allocate(3 * (int64) rows, sizeof(float));

	for (int64 i = 0; i < 3 * (int64) rows; i++)
	{
		if (!gk_is_real(numbers[i]))
			refuse(key);
		points[i] = (float) numbers[i];
	}
	/* an array without rows loses its columns in a dump */
	if (rows > 0)
		gk_draft_reals(draft, number, points, rows, 3);
}

/* Sets what is no array. */
static void
draft_single(GkDraft *draft, GkModelAttribute number, Kind kind, Jsonb *exported, const char *key)
{
	JsonbValue *value = value_of(exported, key);

	if (kind == NUMBER)
		gk_draft_set(draft, number, Float8GetDatum(number_of(value, key)));
	else if (kind == COUNT)
		gk_draft_set(draft, number, Int64GetDatum(count_of(value, key)));
	else if (kind == INTEGER)
		gk_draft_set(draft, number, Int32GetDatum(integer_of(exported, key, 0, PG_INT32_MAX)));
	else if (kind == TRUTH && value->type == jbvBool)
		gk_draft_set(draft, number, BoolGetDatum(value->val.boolean));
	else if (kind == TEXT && value->type == jbvString)
		gk_draft_text(draft, number, pnstrdup(value->val.string.val, value->val.string.len));
	else if (kind == DOCUMENT && value->type == jbvBinary)
		gk_draft_set(draft, number, JsonbPGetDatum(JsonbValueToJsonb(value)));
	else
		refuse(key);
}

/* Sets what the JSON says of the rows that the model was fitted on. */
static void
draft_carried(GkDraft *draft, Jsonb *exported, int k, int dimension)
{
	for (int i = 0; i < lengthof(carried); i++)
	{
		GkModelAttribute number = carried[i].number;
		const char *key = carried[i].key;

		if (value_of(exported, key) == NULL)
			continue;
		switch (carried[i].kind)
		{
			case FEATURES:
				gk_draft_doubles(draft, number, numbers_of(exported, key, dimension), dimension);
				break;
			case FEATURE_MEASURES:
				gk_draft_measures(draft, number, measures_of(exported, key, dimension), dimension);
				break;
			case CLUSTERS:
				gk_draft_measures(draft, number, measures_of(exported, key, k), k);
				break;
			case CLUSTER_FEATURES:
				gk_draft_measure_matrix(draft, number,
										measures_of(exported, key, (int64) k * dimension), k,
										dimension);
				break;
			case COUNTS:
				draft_counts(draft, number, exported, key, k);
				break;
			case QUANTILES:
				draft_quantiles(draft, exported, key);
				break;
			case PLACES:
				gk_draft_doubles(draft, number, numbers_of(exported, key, k), k);
				break;
			case SAMPLE:
				draft_sample(draft, number, exported, key);
				break;
			default:
				draft_single(draft, number, carried[i].kind, exported, key);
				break;
		}
	}
}

/* Points, by cluster, in the units of the features. */
static double *
points_in_units(const GkModel *model, const double *points)
{
	int			d = model->dimension;
	double	   *centroids = gk_allocate(model->k * (int64) d, sizeof(double));

	for (int64 i = 0; i < model->k * (int64) d; i++)
	{
		centroids[i] = gk_in_units(model, (int) (i % d), points[i]);
		if (!isfinite(centroids[i]))
			refuse("points");
	}
	return centroids;
}

/* Sets the centroids, by cluster, and their order in ties. */
static void
draft_points(GkDraft *draft, const GkModel *model, Jsonb *exported)
{
	int64		d = model->dimension;
	double	   *points = gk_allocate(model->k * d, sizeof(double));
	double	   *centroids = numbers_of(exported, "centroids", model->k * d);

	for (int i = 0; i < model->k; i++)
		gk_unpack_centroid(model->packed, model->dimension, i,
						   points + (model->ties != NULL ? model->ties[i] : i) * d);
	if (centroids == NULL && model->metric == GK_EUCLIDEAN &&
		(model->shift != NULL || model->factor != NULL))
		centroids = points_in_units(model, points);
	gk_draft_matrix(draft, GK_MODEL_CENTROIDS, centroids != NULL ? centroids : points, model->k,
					model->dimension);
	if (centroids != NULL && memcmp(centroids, points, model->k * d * sizeof(double)) != 0)
		gk_draft_matrix(draft, GK_MODEL_POINTS, points, model->k, model->dimension);
	if (value_of(exported, "map_x") == NULL || value_of(exported, "map_y") == NULL)
		gk_draft_centroid_map(draft, points, model->k, model->dimension);
	if (model->ties != NULL)
		gk_draft_integers(draft, GK_MODEL_TIES, model->ties, model->k);
}

/* Sets how rows are compared, and the clusters' ids and names. */
static void
draft_comparison(GkDraft *draft, const GkModel *model)
{
	int			d = model->dimension;

	gk_draft_set(draft, GK_MODEL_K, Int32GetDatum(model->k));
	gk_draft_set(draft, GK_MODEL_DIMENSION, Int32GetDatum(d));
	gk_draft_text(draft, GK_MODEL_METRIC, model->metric == GK_COSINE ? "cosine" : "euclidean");
	gk_draft_text(draft, GK_MODEL_ARRAY_COLUMN, model->array_column);
	if (model->features != NULL)
		gk_draft_texts(draft, GK_MODEL_FEATURES, (const char *const *) model->features, d);
	if (model->shift != NULL)
		gk_draft_doubles(draft, GK_MODEL_SHIFT, model->shift, d);
	if (model->offset != NULL)
	{
		gk_draft_doubles(draft, GK_MODEL_SCALE_OFFSET, model->offset, d);
		gk_draft_doubles(draft, GK_MODEL_SCALE_FACTOR, model->factor, d);
	}
	for (int i = 1; model->cluster_ids != NULL && i < model->k; i++)
		if (model->cluster_ids[i] < model->cluster_ids[i - 1])
			refuse("cluster_ids");
	if (model->cluster_ids != NULL)
		gk_draft_integers(draft, GK_MODEL_CLUSTER_IDS, model->cluster_ids, model->k);
	if (model->names != NULL)
	{
		gk_draft_texts(draft, GK_MODEL_NAMES, (const char *const *) model->names, model->k);
		gk_check_names(DatumGetArrayTypeP(draft->values[GK_MODEL_NAMES - 1]));
	}
}

/* The attributes of a version that is imported. */
int
gk_draft_exported(GkDraft *draft, Jsonb *exported)
{
	const GkModel *model = gk_unpack_exported(exported);

	draft_comparison(draft, model);
	draft_points(draft, model, exported);
	draft_carried(draft, exported, model->k, model->dimension);
	return model->k;
}

/* A definition with the number of clusters, the features and the metric of an exported model. */
char *
gk_define_exported(const char *definition, Jsonb *exported)
{
	const GkModel *model = gk_unpack_exported(exported);
	StringInfoData json;
	Datum		both;

	initStringInfo(&json);
	appendStringInfo(&json, "{\"k\":%d,\"metric\":\"%s\"", model->k,
					 model->metric == GK_COSINE ? "cosine" : "euclidean");
	append_texts(&json, "features", model->features != NULL ? model->features
				 : (char *const *) &model->array_column,
				 model->features != NULL ? model->dimension : 1);
	appendStringInfoChar(&json, '}');
	both = DirectFunctionCall2(jsonb_concat,
							   DirectFunctionCall1(jsonb_in, CStringGetDatum(definition)),
							   DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
	return JsonbToCString(NULL, &DatumGetJsonbP(both)->root, -1);
}
