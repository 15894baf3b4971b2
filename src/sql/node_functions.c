/*
 * The steps of a node of another server's fit: the SQL functions gkmeans_node_…
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parser/parse_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "acting.h"
#include "alloc.h"
#include "arguments.h"
#include "fit.h"
#include "node_job.h"
#include "sql_function.h"
#include "sql_values.h"

/* The most bytes of an answer in one result. */
#define PART_BYTES ((Size) 2048 * 1024)

GK_SQL_FUNCTION(gkmeans_node_open);
GK_SQL_FUNCTION(gkmeans_node_load);
GK_SQL_FUNCTION(gkmeans_node_ids);
GK_SQL_FUNCTION(gkmeans_node_publish);
GK_SQL_FUNCTION(gkmeans_node_rest);
GK_SQL_FUNCTION(gkmeans_node_put);
GK_SQL_FUNCTION(gkmeans_node_run);
GK_SQL_FUNCTION(gkmeans_node_take);
GK_SQL_FUNCTION(gkmeans_node_close);

/* The arguments of gkmeans_node_open. */
enum
{
	PROTOCOL,
	SOURCE,
	FEATURES,
	ID_COLUMN,
	ID_TYPE,
	WEIGHT_COLUMN,
	NULLS_ARE_ERRORS,
	BY_DIRECTION,
	K,
	STARTS,
	ITERATIONS
};

/* An argument as a number, which must be at least 1. */
static double
positive(Datum number, bool is_null, const char *argument)
{
	if (is_null || DatumGetInt64(number) < 1)
		gk_out_of_range(argument, "at least 1");
	return (double) DatumGetInt64(number);
}

/* The type that an argument names. */
static Oid
type_argument(const char *name)
{
	Oid			type;
	int32		modifier;

#if PG_VERSION_NUM >= 160000
	(void) parseTypeString(name, &type, &modifier, NULL);
#else
	parseTypeString(name, &type, &modifier, false);
#endif
	gk_check_temporary_type(type);
	return type;
}

/* Reads the arguments of gkmeans_node_open. */
static void
read_task(FunctionCallInfo fcinfo, GkNodeTask *task)
{
	memset(task, 0, sizeof(*task));
	if (PG_ARGISNULL(PROTOCOL) || PG_GETARG_INT32(PROTOCOL) != GK_NODE_PROTOCOL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the two servers have different versions of gkmeans"),
				 errhint("Install the same version on both.")));
	task->source.source = gk_required_text(fcinfo, SOURCE, "source");
	gk_require_argument(fcinfo, FEATURES, "features");
	task->source.features = gk_features_argument(fcinfo, FEATURES);
	task->source.id_column = gk_text_or(fcinfo, ID_COLUMN, NULL);
	if (!PG_ARGISNULL(ID_TYPE))
		task->source.id_type = type_argument(gk_required_text(fcinfo, ID_TYPE, "id_type"));
	task->source.weight_column = gk_text_or(fcinfo, WEIGHT_COLUMN, NULL);
	task->source.nulls_are_errors = !PG_ARGISNULL(NULLS_ARE_ERRORS) &&
		PG_GETARG_BOOL(NULLS_ARE_ERRORS);
	task->by_direction = !PG_ARGISNULL(BY_DIRECTION) && PG_GETARG_BOOL(BY_DIRECTION);
	task->work.weighted = task->source.weight_column != NULL;
	task->work.k = positive(fcinfo->args[K].value, PG_ARGISNULL(K), "k");
	task->work.starts = positive(fcinfo->args[STARTS].value, PG_ARGISNULL(STARTS), "n_init");
	task->work.iterations = positive(fcinfo->args[ITERATIONS].value, PG_ARGISNULL(ITERATIONS),
									 "max_iter");
}

/* SQL: makes this session a node of a fit. */
Datum
gkmeans_node_open(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, 3);
	GkNodeTask	task;
	GkNodeEngine opened;
	Datum		values[3];
	bool		nulls[3] = {0};

	read_task(fcinfo, &task);
	gk_node_job_begin(&task, &opened);
	values[0] = CStringGetTextDatum(opened.name);
	values[1] = CStringGetTextDatum(opened.reason);
	values[2] = CStringGetTextDatum(opened.columns);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}

/* The shift of an argument, and its dimension; NULL if there is none. */
static const double *
shift_argument(FunctionCallInfo fcinfo, int number, int dimension)
{
	ArrayType  *array;
	const double *values;

	if (PG_ARGISNULL(number))
		return NULL;
	array = PG_GETARG_ARRAYTYPE_P(number);
	if (ARR_NDIM(array) != 1 || ARR_HASNULL(array) || ARR_DIMS(array)[0] != dimension)
		gk_out_of_range("shift", "one number for each dimension");
	values = (const double *) ARR_DATA_PTR(array);
	for (int i = 0; i < dimension; i++)
		if (!isfinite(values[i]))
			gk_out_of_range("shift", "finite numbers");
	return values;
}

/* An array of doubles; NULL of NULL. */
static Datum
double_array(const double *numbers, int count, bool *is_null)
{
	Datum	   *elements = gk_allocate(count, sizeof(Datum));

	*is_null = numbers == NULL;
	for (int i = 0; numbers != NULL && i < count; i++)
		elements[i] = Float8GetDatum(numbers[i]);
	return numbers == NULL ? (Datum) 0
		: PointerGetDatum(construct_array(elements, count, FLOAT8OID, sizeof(float8),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* An array of integers. */
static Datum
integer_array(const int64 *numbers, int count)
{
	Datum	   *elements = gk_allocate(count, sizeof(Datum));

	for (int i = 0; i < count; i++)
		elements[i] = Int64GetDatum(numbers[i]);
	return PointerGetDatum(construct_array(elements, count, INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* SQL: reads the rows of this node into its engine. */
Datum
gkmeans_node_load(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, 13);
	int			dimension = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT32(0);
	const GkRows *rows;
	double		seconds;
	Datum		values[13];
	bool		nulls[13] = {0};

	if (dimension < 0 || dimension > GK_MAX_DIMENSION)
		gk_out_of_range("dimension", psprintf("0 to %d", GK_MAX_DIMENSION));
	rows = gk_node_job_read(dimension, shift_argument(fcinfo, 1, dimension), &seconds);
	values[0] = Int64GetDatum(rows->read);
	values[1] = Int64GetDatum(rows->skipped);
	values[2] = Int32GetDatum(rows->dimension);
	values[3] = double_array(rows->shift, rows->dimension, &nulls[3]);
	values[4] = double_array(rows->least, rows->dimension, &nulls[4]);
	values[5] = double_array(rows->greatest, rows->dimension, &nulls[5]);
	values[6] = integer_array(rows->counts.nulls, rows->counts.columns);
	values[7] = integer_array(rows->counts.not_finite, rows->counts.columns);
	values[8] = Int64GetDatum(rows->counts.zeros);
	values[9] = Int32GetDatum(rows->workers);
	values[10] = BoolGetDatum(rows->read_twice);
	values[11] = Float8GetDatum(seconds);
	values[12] = BoolGetDatum(rows->has_foreign_table);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}

/* SQL: the ids of the rows of this node. */
Datum
gkmeans_node_ids(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != 2)
		gk_refuse_version();
	gk_node_job_put_ids(result->setResult, result->setDesc);
	return (Datum) 0;
}

/* Distances by the metrics. */
static double
euclidean_distance(double distance2)
{
	return gk_distance(GK_EUCLIDEAN, distance2);
}

static double
cosine_distance(double distance2)
{
	return gk_distance(GK_COSINE, distance2);
}

/* SQL: leaves the labels of this node for the sessions that write them. */
Datum
gkmeans_node_publish(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor = gk_result_row(fcinfo, 2);
	ArrayType  *clusters = PG_GETARG_ARRAYTYPE_P(1);
	GkNodeLabelling labelling = {.clusters = (const int32 *) ARR_DATA_PTR(clusters),
	.distance = PG_GETARG_BOOL(2) ? cosine_distance : euclidean_distance};
	int64		rows;
	Datum		values[2];
	bool		nulls[2] = {0};

	if (ARR_NDIM(clusters) > 1 || ARR_HASNULL(clusters))
		gk_out_of_range("clusters", "one number for each label");
	labelling.count = ArrayGetNItems(ARR_NDIM(clusters), ARR_DIMS(clusters));
	values[0] = Int64GetDatum((int64) gk_node_job_publish(PG_GETARG_UUID_P(0), &labelling, &rows));
	values[1] = Int64GetDatum(rows);
	return HeapTupleGetDatum(heap_form_tuple(descriptor, values, nulls));
}

/* SQL: the labels of this node that no session has taken. */
Datum
gkmeans_node_rest(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != 3)
		gk_refuse_version();
	gk_node_job_put_rest(PG_GETARG_UUID_P(0), result->setResult, result->setDesc);
	return (Datum) 0;
}

/* SQL: takes a piece of a message. */
Datum
gkmeans_node_put(PG_FUNCTION_ARGS)
{
	bytea	   *piece = PG_GETARG_BYTEA_PP(0);

	gk_node_job_add_piece(VARDATA_ANY(piece), VARSIZE_ANY_EXHDR(piece));
	PG_RETURN_VOID();
}

/* The next part of the answer. */
static bytea *
next_part(void)
{
	Size		bytes;
	const void *part = gk_node_job_next_part(PART_BYTES, &bytes);
	bytea	   *result = palloc(bytes + VARHDRSZ);

	SET_VARSIZE(result, bytes + VARHDRSZ);
	memcpy(VARDATA(result), part, bytes);
	return result;
}

/* SQL: takes the last piece of a message and carries it out: the begin of the answer. */
Datum
gkmeans_node_run(PG_FUNCTION_ARGS)
{
	bytea	   *piece = PG_GETARG_BYTEA_PP(0);

	gk_node_job_add_piece(VARDATA_ANY(piece), VARSIZE_ANY_EXHDR(piece));
	gk_node_job_carry_out();
	PG_RETURN_BYTEA_P(next_part());
}

/* SQL: the next part of the answer; empty at its end. */
Datum
gkmeans_node_take(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(next_part());
}

/* SQL: ends what this session does as a node. */
Datum
gkmeans_node_close(PG_FUNCTION_ARGS)
{
	gk_node_job_end();
	PG_RETURN_VOID();
}
