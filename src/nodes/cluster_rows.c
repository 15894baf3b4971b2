/*
 * What the nodes have read, taken from their answers and merged.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "postmaster/bgworker_internals.h"
#include "utils/array.h"

#include "alloc.h"
#include "cluster_rows.h"
#include "source_columns.h"

/* Longer than any reading. */
#define MOST_SECONDS 1e9

/* The columns of the answer to gkmeans_node_load(). */
enum
{
	ROWS_READ,
	ROWS_SKIPPED,
	DIMENSION,
	SHIFT,
	LEAST,
	GREATEST,
	NULLS,
	NOT_FINITE,
	ZEROS,
	WORKERS,
	READ_TWICE,
	SECONDS,
	HAS_FOREIGN_TABLE
};

/* A value that cannot be NULL. */
static Datum
take_value(const GkServerCluster *cluster, const GkPart *part, int column, Oid type)
{
	bool		is_null;
	Datum		value = gk_answer_value(cluster->connections, part->connection, column, type,
										&is_null);

	if (is_null)
		gk_refuse_answer(part->connection);
	return value;
}

/* A number of rows. */
static int64
take_count(const GkServerCluster *cluster, const GkPart *part, int column, int64 most)
{
	int64		count = DatumGetInt64(take_value(cluster, part, column, INT8OID));

	if (count < 0 || count > most)
		gk_refuse_answer(part->connection);
	return count;
}

/* An array of this length. */
static ArrayType *
take_array(const GkServerCluster *cluster, const GkPart *part, int column, Oid type, int length)
{
	ArrayType  *array = DatumGetArrayTypeP(take_value(cluster, part, column, type == FLOAT8OID ?
													  FLOAT8ARRAYOID : INT8ARRAYOID));

	if (ARR_HASNULL(array) || ARR_ELEMTYPE(array) != type ||
		ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) != length)
		gk_refuse_answer(part->connection);
	return array;
}

/* Finite numbers, one for each feature. */
static double *
take_numbers(const GkServerCluster *cluster, const GkPart *part, int column, int dimension)
{
	ArrayType  *array = take_array(cluster, part, column, FLOAT8OID, dimension);
	double	   *numbers = gk_allocate(dimension, sizeof(double));

	memcpy(numbers, ARR_DATA_PTR(array), dimension * sizeof(double));
	for (int i = 0; i < dimension; i++)
		if (!isfinite(numbers[i]))
			gk_refuse_answer(part->connection);
	return numbers;
}

/* Numbers of rows, one for each column. */
static int64 *
take_counts(const GkServerCluster *cluster, const GkPart *part, int column, int columns, int64 most)
{
	ArrayType  *array = take_array(cluster, part, column, INT8OID, columns);
	int64	   *counts = gk_allocate(columns, sizeof(int64));

	memcpy(counts, ARR_DATA_PTR(array), columns * sizeof(int64));
	for (int i = 0; i < columns; i++)
		if (counts[i] < 0 || counts[i] > most)
			gk_refuse_answer(part->connection);
	return counts;
}

/* The ranges of the features, if they are shifted. */
static void
take_ranges(const GkServerCluster *cluster, const GkPart *part, GkRows *rows)
{
	bool		unshifted;

	(void) gk_answer_value(cluster->connections, part->connection, LEAST, FLOAT8ARRAYOID,
						   &unshifted);
	if (unshifted)
		return;
	rows->least = take_numbers(cluster, part, LEAST, rows->dimension);
	rows->greatest = take_numbers(cluster, part, GREATEST, rows->dimension);
	for (int i = 0; i < rows->dimension; i++)
		if (rows->least[i] > rows->greatest[i])
			gk_refuse_answer(part->connection);
}

/* How many workers a node had. */
static int
take_workers(const GkServerCluster *cluster, const GkPart *part)
{
	int			workers = DatumGetInt32(take_value(cluster, part, WORKERS, INT4OID));

	if (workers < 0 || workers > MAX_PARALLEL_WORKER_LIMIT)
		gk_refuse_answer(part->connection);
	return workers;
}

/* How long a node read. */
static double
take_seconds(const GkServerCluster *cluster, const GkPart *part)
{
	double		seconds = DatumGetFloat8(take_value(cluster, part, SECONDS, FLOAT8OID));

	if (!(seconds >= 0.0 && seconds <= MOST_SECONDS))
		gk_refuse_answer(part->connection);
	return seconds;
}

/* Takes the answer of a node to gkmeans_node_load(). */
void
gk_take_rows(const GkServerCluster *cluster, GkPart *part, const GkSource *source)
{
	bool		is_array = source->described[0].shape != GK_SCALAR;
	GkRows	   *rows = &part->rows;

	memset(rows, 0, sizeof(*rows));
	rows->read = take_count(cluster, part, ROWS_READ, GK_MAX_ROWS);
	rows->skipped = take_count(cluster, part, ROWS_SKIPPED, rows->read);
	rows->dimension = DatumGetInt32(take_value(cluster, part, DIMENSION, INT4OID));
	if (rows->dimension < 0 || rows->dimension > GK_MAX_DIMENSION ||
		(rows->dimension > 0) != (rows->read > rows->skipped) ||
		(rows->dimension > 0 && !is_array && rows->dimension != source->count))
		gk_refuse_answer(part->connection);
	rows->shift = take_numbers(cluster, part, SHIFT, rows->dimension);
	if (rows->dimension > 0)
		take_ranges(cluster, part, rows);
	rows->counts.columns = source->count + 1;
	rows->counts.nulls = take_counts(cluster, part, NULLS, rows->counts.columns, rows->skipped);
	rows->counts.not_finite = take_counts(cluster, part, NOT_FINITE, rows->counts.columns,
										  rows->skipped);
	rows->counts.zeros = take_count(cluster, part, ZEROS, rows->skipped);
	rows->workers = take_workers(cluster, part);
	rows->read_twice = DatumGetBool(take_value(cluster, part, READ_TWICE, BOOLOID));
	rows->has_foreign_table = DatumGetBool(take_value(cluster, part, HAS_FOREIGN_TABLE, BOOLOID));
	part->read_seconds += take_seconds(cluster, part);
}

/* Raises an error unless the rows of two nodes have as many features. */
static void
check_dimensions(const GkPart *part, const GkPart *other)
{
	if (part->rows.dimension == other->rows.dimension)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("arrays of features differ in length"),
			 errdetail("Those of node \"%s\" have %d elements, those of node \"%s\" have %d.",
					   other->connection->node->name, other->rows.dimension,
					   part->connection->node->name, part->rows.dimension)));
}

/* Adds the counts of a node to those of all. */
static void
add_counts(GkRows *rows, const GkRows *part)
{
	rows->read += part->read;
	rows->skipped += part->skipped;
	rows->workers += part->workers;
	rows->read_twice = rows->read_twice || part->read_twice;
	for (int i = 0; i < rows->counts.columns; i++)
	{
		rows->counts.nulls[i] += part->counts.nulls[i];
		rows->counts.not_finite[i] += part->counts.not_finite[i];
	}
	rows->counts.zeros += part->counts.zeros;
}

/* Widens the ranges by those of a node. */
static void
widen_ranges(GkRows *rows, const GkPart *part, bool first)
{
	if ((rows->least == NULL) != (part->rows.least == NULL) && !first)
		gk_refuse_answer(part->connection);
	if (part->rows.least == NULL)
		return;
	if (first)
	{
		rows->least = gk_allocate(rows->dimension, sizeof(double));
		rows->greatest = gk_allocate(rows->dimension, sizeof(double));
		memcpy(rows->least, part->rows.least, rows->dimension * sizeof(double));
		memcpy(rows->greatest, part->rows.greatest, rows->dimension * sizeof(double));
	}
	for (int i = 0; i < rows->dimension; i++)
	{
		rows->least[i] = Min(rows->least[i], part->rows.least[i]);
		rows->greatest[i] = Max(rows->greatest[i], part->rows.greatest[i]);
	}
}

/* The shift of the rows of all nodes: what was found before, that of a model, or by the ranges. */
static void
find_shift(const GkSource *source, const double *found, GkRows *rows)
{
	rows->shift = gk_allocate_zero(rows->dimension, sizeof(double));
	for (int i = 0; i < rows->dimension; i++)
	{
		if (found != NULL)
			rows->shift[i] = found[i];
		else if (source->spec.dimension > 0 && source->spec.shift != NULL)
			rows->shift[i] = i < source->spec.dimension ? source->spec.shift[i] : 0.0;
		else if (source->spec.dimension == 0 && rows->least != NULL)
			rows->shift[i] = gk_shift_of_range(rows->least[i], rows->greatest[i],
											   gk_feature_class(source, i));
	}
}

/* Finds the nodes whose features were shifted otherwise; true if there are none. */
static bool
compare_shifts(const GkServerCluster *cluster, const GkRows *rows, bool *wrong)
{
	bool		all_good = true;

	for (int part = 0; part < cluster->count; part++)
	{
		const GkRows *own = &cluster->parts[part].rows;

		wrong[part] = false;
		for (int i = 0; i < own->dimension; i++)
			wrong[part] = wrong[part] || own->shift[i] != rows->shift[i];
		all_good = all_good && !wrong[part];
	}
	return all_good;
}

/* Merges what the nodes have read. */
bool
gk_merge_parts(const GkServerCluster *cluster, const GkSource *source, const double *found,
			   GkRows *rows, bool *wrong)
{
	const GkPart *first = NULL;

	memset(rows, 0, sizeof(*rows));
	rows->id_type = gk_source_id_type(source);
	rows->counts.columns = source->count + 1;
	rows->counts.nulls = gk_allocate_zero(rows->counts.columns, sizeof(int64));
	rows->counts.not_finite = gk_allocate_zero(rows->counts.columns, sizeof(int64));
	for (int i = 0; i < cluster->count; i++)
	{
		const GkPart *part = &cluster->parts[i];

		add_counts(rows, &part->rows);
		if (part->rows.read == 0 && part->rows.has_foreign_table)
			rows->empty_node = pstrdup(part->connection->node->name);
		if (part->rows.dimension == 0)
			continue;
		rows->dimension = part->rows.dimension;
		check_dimensions(part, first == NULL ? part : first);
		widen_ranges(rows, part, first == NULL);
		if (first == NULL)
			first = part;
	}
	if (rows->read - rows->skipped > GK_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the source has more than %lld rows", (long long) GK_MAX_ROWS)));
	find_shift(source, found, rows);
	gk_describe_unusable(source, cluster->job, rows);
	return compare_shifts(cluster, rows, wrong);
}
