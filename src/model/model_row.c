/*
 * The rows of a model are untrusted input: every attribute is checked before use.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "alloc.h"
#include "definition.h"
#include "exact.h"
#include "model.h"

/* What is read of a drift for psi: its keys, which come first, and the values of the shortest. */
#define HEAD_BYTES 2048

/* Bytes of an array that say of how many elements in one dimension it is. */
#define ARRAY_HEAD (ARR_OVERHEAD_NONULLS(1) - VARHDRSZ)

/* The name of the function that says so, as its errors have it. */
#define RAISER "gk_model_is_damaged"

/* Raises XX001. */
void
gk_model_is_damaged(Relation relation, int version, const char *attribute)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("version %d of model \"%s\" is damaged", version, gk_model_name(relation)),
			 errdetail("Attribute \"%s\" is not as gkmeans writes it.", attribute)));
}

/*
 * True if an error is that one: before it nothing but memory is taken, so it can be caught without
 * a subtransaction.  PostgreSQL's own XX001 leaves pages behind that nobody can read any more.
 */
bool
gk_is_damage(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_DATA_CORRUPTED && error->funcname != NULL &&
		strcmp(error->funcname, RAISER) == 0;
}

/* Raises XX001 for an attribute of a row. */
static void
damaged(const GkModelRow *row, GkModelAttribute number)
{
	TupleDesc	descriptor = RelationGetDescr(row->relation);

	gk_model_is_damaged(row->relation, row->version,
						NameStr(TupleDescAttr(descriptor, number - 1)->attname));
}

/* An attribute, unchecked. */
static Datum
attribute(const GkModelRow *row, GkModelAttribute number, bool *is_null)
{
	return slot_getattr(row->slot, number, is_null);
}

/* Begins reading a row. */
void
gk_open_row(GkModelRow *row, Relation relation, TupleTableSlot *slot)
{
	bool		is_null;

	row->relation = relation;
	row->slot = slot;
	row->version = DatumGetInt32(slot_getattr(slot, GK_MODEL_VERSION, &is_null));
	if (is_null)
		row->version = 0;
}

/* An integer within bounds. */
int
gk_row_integer(const GkModelRow *row, GkModelAttribute number, int least, int greatest)
{
	bool		is_null;
	int			value = DatumGetInt32(attribute(row, number, &is_null));

	if (is_null || value < least || value > greatest)
		damaged(row, number);
	return value;
}

/* A text of at most GK_MAX_NAME_BYTES. */
char *
gk_row_short_text(const GkModelRow *row, GkModelAttribute number)
{
	bool		is_null;
	Datum		value = attribute(row, number, &is_null);

	if (!is_null && toast_raw_datum_size(value) > GK_MAX_NAME_BYTES)
		damaged(row, number);
	return is_null ? NULL : TextDatumGetCString(value);
}

/* True if the version has this status. */
bool
gk_row_has_status(const GkModelRow *row, const char *status)
{
	bool		is_null;
	Datum		value = attribute(row, GK_MODEL_STATUS, &is_null);

	return !is_null && toast_raw_datum_size(value) == VARHDRSZ + strlen(status) &&
		strcmp(TextDatumGetCString(value), status) == 0;
}

/* A jsonb of a usual length. */
Jsonb *
gk_row_json(const GkModelRow *row, GkModelAttribute number)
{
	bool		is_null;
	Datum		value = attribute(row, number, &is_null);

	return is_null || toast_raw_datum_size(value) > GK_MAX_JSON_BYTES ? NULL
		: DatumGetJsonbPCopy(value);
}

/* True if an object, of which only the bytes before an end are there, has a number at a key. */
static bool
has_number(JsonbContainer *object, const char *end, const char *key)
{
	int			count = JsonContainerSize(object);
	const char *data = (const char *) (object->children + 2 * (Size) count);
	JsonbValue	value;
	const char *number;

	if (!JsonContainerIsObject(object) || data > end ||
		(ptrdiff_t) getJsonbOffset(object, count) > end - data ||
		!gk_json_find(object, key, &value) || value.type != jbvNumeric)
		return false;
	number = (const char *) value.val.numeric;
	return end - number > VARHDRSZ && (ptrdiff_t) VARSIZE(number) <= end - number;
}

/*
 * The stability index.  There may be many versions, and what is compressed a hundredfold takes long
 * to read, so only the beginning of it is.
 */
double
gk_row_psi(const GkModelRow *row)
{
	bool		is_null;
	Datum		value = attribute(row, GK_MODEL_DRIFT, &is_null);
	double		psi = NAN;
	Jsonb	   *head;

	if (is_null || toast_raw_datum_size(value) > GK_MAX_JSON_BYTES)
		return NAN;
	head = (Jsonb *) PG_DETOAST_DATUM_SLICE(value, 0, HEAD_BYTES);
	if (has_number(&head->root, (char *) head + VARSIZE(head), "psi"))
		psi = gk_json_number(&head->root, "psi");
	pfree(head);
	return psi;
}

/* True unless an attribute, an array or NULL, has more elements than a version has features. */
bool
gk_row_has_few(const GkModelRow *row, GkModelAttribute number)
{
	bool		is_null;
	Datum		value = attribute(row, number, &is_null);
	ArrayType  *head;
	bool		has_few;

	if (is_null)
		return true;
	head = (ArrayType *) PG_DETOAST_DATUM_SLICE(value, 0, ARRAY_HEAD);
	has_few = ARR_NDIM(head) == 1 && ARR_DIMS(head)[0] <= GK_MAX_DIMENSION;
	pfree(head);
	return has_few;
}

/* The most bytes of an array of names, or of values of a fixed length. */
static Size
most_bytes(Oid type, int dimensions, int64 count)
{
	int			length = get_typlen(type);

	return ARR_OVERHEAD_WITHNULLS(dimensions, count) +
		count * (length > 0 ? length : INTALIGN(VARHDRSZ + GK_MAX_NAME_BYTES));
}

/* A value as an array of that many elements, or rows × columns; NULL if it is none. */
static ArrayType *
fitting_array(Datum value, Oid type, int rows, int columns)
{
	int			dimensions = columns > 0 ? 2 : 1;
	ArrayType  *array;

	if (toast_raw_datum_size(value) > most_bytes(type, dimensions, (int64) rows * Max(columns, 1)))
		return NULL;
	array = DatumGetArrayTypePCopy(value);
	return ARR_ELEMTYPE(array) == type && ARR_NDIM(array) == dimensions &&
		ARR_DIMS(array)[0] == rows && (columns == 0 || ARR_DIMS(array)[1] == columns) ? array :
		NULL;
}

/* An attribute as such an array; NULL for NULL. */
static ArrayType *
array_of(const GkModelRow *row, GkModelAttribute number, Oid type, int rows, int columns)
{
	bool		is_null;
	Datum		value = attribute(row, number, &is_null);
	ArrayType  *array;

	if (is_null)
		return NULL;
	array = fitting_array(value, type, rows, columns);
	if (array == NULL)
		damaged(row, number);
	return array;
}

/* The elements of an array of doubles without NULLs that are finite; NULL for NULL. */
static double *
finite_elements(const GkModelRow *row, GkModelAttribute number, ArrayType *array, int64 count)
{
	double	   *values;

	if (array == NULL)
		return NULL;
	if (array_contains_nulls(array))
		damaged(row, number);
	values = (double *) ARR_DATA_PTR(array);
	for (int64 i = 0; i < count; i++)
		if (!isfinite(values[i]))
			damaged(row, number);
	return values;
}

/* An array of finite numbers. */
double *
gk_row_doubles(const GkModelRow *row, GkModelAttribute number, int count)
{
	return finite_elements(row, number, array_of(row, number, FLOAT8OID, count, 0), count);
}

/* An array of arrays of numbers. */
double *
gk_row_matrix(const GkModelRow *row, GkModelAttribute number, int rows, int columns)
{
	return finite_elements(row, number, array_of(row, number, FLOAT8OID, rows, columns),
						   (int64) rows * columns);
}

/* An array of arrays of single-precision numbers; NULL for NULL and for an empty array. */
float *
gk_row_reals(const GkModelRow *row, GkModelAttribute number, int columns, int *rows)
{
	bool		is_null;
	Datum		value = attribute(row, number, &is_null);
	ArrayType  *array;
	float	   *values;

	*rows = 0;
	if (is_null)
		return NULL;
	if (toast_raw_datum_size(value) > most_bytes(FLOAT4OID, 2, GK_MAX_MODEL_NUMBERS))
		damaged(row, number);
	array = DatumGetArrayTypePCopy(value);
	if (ARR_ELEMTYPE(array) == FLOAT4OID && ARR_NDIM(array) == 0)
		return NULL;
	if (ARR_ELEMTYPE(array) != FLOAT4OID || ARR_NDIM(array) != 2 ||
		ARR_DIMS(array)[1] != columns || array_contains_nulls(array))
		damaged(row, number);
	values = (float *) ARR_DATA_PTR(array);
	for (int64 i = 0; i < (int64) ARR_DIMS(array)[0] * columns; i++)
		if (!isfinite(values[i]))
			damaged(row, number);
	*rows = ARR_DIMS(array)[0];
	return values;
}

/* The elements of an array of doubles that are not negative, or unknown; NULL for NULL. */
static double *
measured_elements(const GkModelRow *row, GkModelAttribute number, ArrayType *array)
{
	int			count;
	Datum	   *elements;
	bool	   *nulls;
	double	   *values;

	if (array == NULL)
		return NULL;
	deconstruct_array(array, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &elements, &nulls, &count);
	values = gk_allocate(count, sizeof(double));
	for (int i = 0; i < count; i++)
	{
		values[i] = nulls[i] ? NAN : DatumGetFloat8(elements[i]);
		if (!nulls[i] && !(values[i] >= 0.0))
			damaged(row, number);
	}
	pfree(elements);
	pfree(nulls);
	return values;
}

/* Numbers that are not negative, and may be unknown or infinite. */
double *
gk_row_measures(const GkModelRow *row, GkModelAttribute number, int count)
{
	return measured_elements(row, number, array_of(row, number, FLOAT8OID, count, 0));
}

/* Arrays of such numbers. */
double *
gk_row_measure_matrix(const GkModelRow *row, GkModelAttribute number, int rows, int columns)
{
	return measured_elements(row, number, array_of(row, number, FLOAT8OID, rows, columns));
}

/* The texts of an array; NULL for one that is NULL or too long. */
static char **
short_texts(ArrayType *array)
{
	Datum	   *elements;
	bool	   *nulls;
	int			count;
	char	  **texts;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	texts = gk_allocate_zero(count, sizeof(char *));
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!nulls[i] && VARSIZE_ANY_EXHDR(DatumGetPointer(elements[i])) <= GK_MAX_NAME_BYTES)
			texts[i] = TextDatumGetCString(elements[i]);
	}
	return texts;
}

/* An array of names of features. */
char **
gk_row_texts(const GkModelRow *row, GkModelAttribute number, int count)
{
	ArrayType  *array = array_of(row, number, TEXTOID, count, 0);
	char	  **texts = array != NULL ? short_texts(array) : NULL;

	for (int i = 0; texts != NULL && i < count; i++)
		if (texts[i] == NULL)
			damaged(row, number);
	return texts;
}

/*
 * The names of the clusters.  A role that may write nothing else of a model may write these, and
 * does not damage it by names that do not fit.
 */
char **
gk_row_names(const GkModelRow *row, int k)
{
	bool		is_null;
	Datum		value = attribute(row, GK_MODEL_NAMES, &is_null);
	bool		has_names = !is_null && toast_raw_datum_size(value) <= GK_MOST_NAME_BYTES;
	ArrayType  *array = has_names ? fitting_array(value, TEXTOID, k, 0) : NULL;

	return array != NULL ? short_texts(array) : NULL;
}

/* An array of numbers of rows. */
int64 *
gk_row_counts(const GkModelRow *row, GkModelAttribute number, int count)
{
	ArrayType  *array = array_of(row, number, INT8OID, count, 0);
	int64	   *values;
	int64		sum = 0;

	if (array == NULL)
		return NULL;
	if (array_contains_nulls(array))
		damaged(row, number);
	values = (int64 *) ARR_DATA_PTR(array);
	for (int i = 0; i < count; i++)
	{
		if (values[i] < 0 || values[i] > GK_MOST_COUNTED - sum)
			damaged(row, number);
		sum += values[i];
	}
	return values;
}

/* An array that has each of 0 … count - 1 once. */
static int32 *
read_permutation(const GkModelRow *row, GkModelAttribute number, int count)
{
	ArrayType  *array = array_of(row, number, INT4OID, count, 0);
	int32	   *values;
	bool	   *seen;

	if (array == NULL)
		return NULL;
	if (array_contains_nulls(array))
		damaged(row, number);
	values = (int32 *) ARR_DATA_PTR(array);
	seen = gk_allocate_zero(count, sizeof(bool));
	for (int i = 0; i < count; i++)
	{
		if (values[i] < 0 || values[i] >= count || seen[values[i]])
			damaged(row, number);
		seen[values[i]] = true;
	}
	pfree(seen);
	return values;
}

/* An array of ids of clusters, which ascend. */
int32 *
gk_row_ids(const GkModelRow *row, GkModelAttribute number, int count)
{
	ArrayType  *array = array_of(row, number, INT4OID, count, 0);
	int32	   *values;

	if (array == NULL)
		return NULL;
	if (array_contains_nulls(array))
		damaged(row, number);
	values = (int32 *) ARR_DATA_PTR(array);
	for (int i = 0; i < count; i++)
		if (values[i] < 0 || values[i] >= GK_MAX_CLUSTERS ||
			(i > 0 && values[i] <= values[i - 1]))
			damaged(row, number);
	return values;
}

/* True if the row is a version that can score. */
bool
gk_row_has_centroids(const GkModelRow *row)
{
	return !slot_attisnull(row->slot, GK_MODEL_CENTROIDS);
}

/* The shape of a version. */
void
gk_row_shape(const GkModelRow *row, int *k, int *dimension, GkMetric *metric)
{
	char	   *word = gk_row_short_text(row, GK_MODEL_METRIC);

	*k = gk_row_integer(row, GK_MODEL_K, 1, GK_MAX_CLUSTERS);
	*dimension = gk_row_integer(row, GK_MODEL_DIMENSION, 1, GK_MAX_DIMENSION);
	if ((int64) *k * *dimension > GK_MAX_MODEL_NUMBERS)
		damaged(row, GK_MODEL_K);
	if (word == NULL || (strcmp(word, "euclidean") != 0 && strcmp(word, "cosine") != 0))
		damaged(row, GK_MODEL_METRIC);
	*metric = strcmp(word, "cosine") == 0 ? GK_COSINE : GK_EUCLIDEAN;
	pfree(word);
}

/* True if a number can be a factor of a scale. */
bool
gk_is_factor(double number)
{
	return number == 0.0 || number >= DBL_MIN;
}

/* Shift and scale. */
static void
unpack_scale(const GkModelRow *row, GkModel *model)
{
	int			d = model->dimension;

	model->shift = gk_row_doubles(row, GK_MODEL_SHIFT, d);
	model->offset = gk_row_doubles(row, GK_MODEL_SCALE_OFFSET, d);
	model->factor = gk_row_doubles(row, GK_MODEL_SCALE_FACTOR, d);
	if ((model->offset == NULL) != (model->factor == NULL))
		damaged(row, GK_MODEL_SCALE_FACTOR);
	for (int j = 0; model->factor != NULL && j < d; j++)
		if (!gk_is_factor(model->factor[j]))
			damaged(row, GK_MODEL_SCALE_FACTOR);
}

/* The filter of the packed centroids, where they are many. */
static void
make_sieve(GkModel *model)
{
	GkSieve    *sieve;
	float	   *memory;

	if (!gk_sieve_pays(model->dimension, model->k))
		return;
	sieve = palloc(sizeof(GkSieve));
	memory = gk_allocate(gk_sieve_floats(model->dimension, model->k), sizeof(float));
	if (gk_make_sieve(sieve, memory, model->packed, model->dimension, model->k))
		model->sieve = sieve;
}

/* Packs the centroids of a model. */
void
gk_pack_points(GkModel *model, const double *points, const int32 *order)
{
	int64		d = model->dimension;

	model->packed = gk_allocate(GK_GROUPS((int64) model->k) * GK_GROUP * d, sizeof(double));
	for (int i = 0; i < model->k; i++)
	{
		CHECK_FOR_INTERRUPTS();
		gk_pack_centroid(model->packed, model->dimension, i,
						 points + (order != NULL ? order[i] : i) * d);
	}
	gk_pack_rest(model->packed, model->dimension, model->k);
	make_sieve(model);
}

/* The centroids as they are compared, packed in the order of ties. */
static void
unpack_points(const GkModelRow *row, GkModel *model)
{
	GkModelAttribute number = slot_attisnull(row->slot, GK_MODEL_POINTS) ? GK_MODEL_CENTROIDS :
		GK_MODEL_POINTS;
	MemoryContext temporary = AllocSetContextCreate(model->context, "gkmeans points",
													ALLOCSET_DEFAULT_SIZES);
	MemoryContext before = MemoryContextSwitchTo(temporary);
	int			d = model->dimension;
	double	   *points = gk_row_matrix(row, number, model->k, d);

	/* points are no use without them */
	if (!gk_row_has_centroids(row))
		damaged(row, GK_MODEL_CENTROIDS);
	for (int64 i = 0; i < (int64) model->k * d; i++)
		if (!gk_is_real(points[i]))
			damaged(row, number);
	MemoryContextSwitchTo(before);
	model->ties = read_permutation(row, GK_MODEL_TIES, model->k);
	gk_pack_points(model, points, model->ties);
	MemoryContextDelete(temporary);
}

/* The quantiles of the anomaly score, which ascend. */
static void
unpack_quantiles(const GkModelRow *row, GkModel *model)
{
	double	   *quantiles = gk_row_measures(row, GK_MODEL_SCORE_QUANTILES, GK_QUANTILES);

	for (int i = 0; quantiles != NULL && i < GK_QUANTILES; i++)
		if (isnan(quantiles[i]) || (i > 0 && quantiles[i] < quantiles[i - 1]))
			damaged(row, GK_MODEL_SCORE_QUANTILES);
	model->score_quantiles = quantiles;
}

/* Unpacks a head row. */
GkModel *
gk_unpack_model(Relation relation, TupleTableSlot *slot, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "gkmeans model",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	GkModel    *model = palloc0(sizeof(GkModel));
	GkModelRow	row;

	gk_open_row(&row, relation, slot);
	model->context = context;
	model->relation = RelationGetRelid(relation);
	model->version = row.version;
	gk_row_shape(&row, &model->k, &model->dimension, &model->metric);
	model->array_column = gk_row_short_text(&row, GK_MODEL_ARRAY_COLUMN);
	model->features = gk_row_texts(&row, GK_MODEL_FEATURES, model->dimension);
	if ((model->features == NULL) != (model->array_column != NULL))
		damaged(&row, GK_MODEL_FEATURES);
	unpack_scale(&row, model);
	unpack_points(&row, model);
	model->cluster_ids = gk_row_ids(&row, GK_MODEL_CLUSTER_IDS, model->k);
	model->names = gk_row_names(&row, model->k);
	model->avg_distances = gk_row_measures(&row, GK_MODEL_AVG_DISTANCES, model->k);
	unpack_quantiles(&row, model);
	MemoryContextSwitchTo(before);
	return model;
}
