/*
 * Models as JSON, for predictions without the table, such as in a generated column.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "common/shortest_dec.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "alloc.h"
#include "exported.h"
#include "nearest.h"

/* The version of the format. */
#define FORMAT 1

/* Refuses a JSON value that is not an exported model. */
static void
refuse(const char *key)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("JSON is not an exported model"),
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

/* The JSON of a model. */
Jsonb *
gk_export_model(const GkModel *model)
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
	appendStringInfoChar(&json, '}');
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data)));
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
	number = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
												NumericGetDatum(value->val.numeric)));
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

/* All numbers of an array, or of an array of arrays; NULL if there is no such key. */
static double *
numbers_of(Jsonb *exported, const char *key, int64 count)
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
			numbers[found++] = number_of(&value, key);
	}
	if (found != count)
		refuse(key);
	return numbers;
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

		if (value->type == jbvString)
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
		if (model->factor[j] < 0.0)
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
		if (!(fabs(points[i]) <= FLT_MAX))
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
