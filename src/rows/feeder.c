/*
 * A process's share of the rows: from the arguments of the feed to a batch of the ring.
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

#include "engine_error.h"
#include "feeder.h"
#include "lanes.h"
#include "unusable.h"

/* How long to wait for a slot before checking for interrupts, in milliseconds. */
#define WAIT_MILLISECONDS 10
/* Rows are held as doubles until this many bytes of them show their range. */
#define HELD_BYTES (512 * 1024)
/* Once the shift is known, so many bytes of them are rounded at a time: they stay in the cache. */
#define ROUNDED_BYTES (16 * 1024)

/* Makes room to hold so many bytes of rows. */
static void
hold_rows(GkFeeder *feeder, Size bytes)
{
	int			dimension = feeder->dimension;
	int64		limit = Max(1, bytes / (dimension * sizeof(double)));

	if (feeder->held != NULL)
		pfree(feeder->held);
	feeder->held_limit = Min(limit, feeder->capacity);
	feeder->held = MemoryContextAlloc(feeder->context, (feeder->held_limit * dimension + GK_LANES) *
									  sizeof(double));
}

/*
 * Determines the shift: the first process to do so guesses it from the rows that it holds.  If
 * it is alone and at the end, these are all the rows, and no guess is needed.
 */
static void
settle_shift(GkFeeder *feeder, int64 count, bool at_end)
{
	int			dimension = feeder->dimension;
	int			lanes = gk_lanes(dimension);
	bool		exact = at_end && !IsInParallelMode();
	double	   *copy = MemoryContextAlloc(feeder->context, 2 * lanes * sizeof(double));
	GkRanges	seen = {feeder->least, feeder->greatest};
	GkRanges	quarter = {copy, copy + lanes};
	const double *shift;

	gk_widen_ranges(feeder->least, feeder->greatest, feeder->held, count / 4, dimension);
	memcpy(copy, feeder->least, lanes * sizeof(double));
	memcpy(copy + lanes, feeder->greatest, lanes * sizeof(double));
	gk_widen_ranges(feeder->least, feeder->greatest, feeder->held + count / 4 * dimension,
					count - count / 4, dimension);
	shift = gk_shift_settle(gk_feed_shift(feeder->feed), dimension, &seen,
							exact ? NULL : &quarter);
	memcpy(feeder->shift, shift, dimension * sizeof(double));
	feeder->shift_known = true;
	pfree(copy);
}

/* Rounds the held rows. */
static void
round_held(GkFeeder *feeder, bool at_end)
{
	int			dimension = feeder->dimension;
	int64		count = feeder->rows - feeder->rounded;
	bool		was_known = feeder->shift_known;

	if (feeder->held == NULL || count == 0)
		return;
	if (!was_known)
		settle_shift(feeder, count, at_end);
	else if (feeder->shifting)
		gk_widen_ranges(feeder->least, feeder->greatest, feeder->held, count, dimension);
	gk_round_rows(feeder->held, feeder->shift, count, dimension,
				  feeder->features + feeder->rounded * dimension);
	feeder->rounded = feeder->rows;
	if (!was_known)
		hold_rows(feeder, ROUNDED_BYTES);
}

/* How many rows of the next batch are handed over together. */
static int64
choose_limit(const GkFeeder *feeder)
{
	const GkDrain *drain = feeder->feed->drain;
	Size		bytes = drain != NULL ? gk_drain_at_once(drain) : 0;

	/* the more rows, the better the guess of the shift */
	if (bytes == 0 || (feeder->held != NULL && !feeder->shift_known))
		return feeder->capacity;
	return Min(feeder->capacity, Max(1, bytes / (feeder->dimension * sizeof(float))));
}

/* Claims a slot for the next batch. */
static void
claim_batch(GkFeeder *feeder)
{
	GkRing	   *ring = &feeder->feed->ring;
	GkDrain    *drain = feeder->feed->drain;

	pgstat_report_wait_start(PG_WAIT_EXTENSION);
	do
	{
		if (atomic_load(&ring->failed))
			gk_check(ring->failure);
		CHECK_FOR_INTERRUPTS();
		feeder->slot = gk_ring_claim(ring, drain != NULL && gk_drain_at_once(drain) > 0 ? 1 :
									 WAIT_MILLISECONDS, &feeder->sequence);
		/* if no thread does, slots that the engine has read are returned here */
		if (feeder->slot < 0 && drain != NULL)
			gk_drain_move(drain);
	} while (feeder->slot < 0);
	pgstat_report_wait_end();

	feeder->rows = 0;
	feeder->rounded = 0;
	feeder->limit = choose_limit(feeder);
	feeder->features = gk_ring_features(ring, feeder->slot);
	if (feeder->weighted)
		feeder->weights = gk_ring_weights(ring, feeder->slot, feeder->dimension);
}

/* Hands the batch over. */
void
gk_feeder_publish(GkFeeder *feeder, bool at_end)
{
	round_held(feeder, at_end);
	gk_ring_publish(&feeder->feed->ring, feeder->slot, feeder->rows);
	feeder->slot = -1;
	if (feeder->feed->drain != NULL)
		gk_drain_move(feeder->feed->drain);
}

/* Allocates what depends on the dimension. */
void
gk_feeder_set_dimension(GkFeeder *feeder, int dimension)
{
	const double *shift = feeder->shifting ? gk_shift_values(gk_feed_shift(feeder->feed)) : NULL;
	int			lanes = gk_lanes(dimension);

	feeder->dimension = dimension;
	feeder->capacity = gk_ring_capacity(&feeder->feed->ring, dimension);
	/* their bits can go straight into the batch */
	if (!feeder->shifting && (feeder->scalars == NULL || feeder->reals))
		return;
	feeder->shift = MemoryContextAllocZero(feeder->context, 3 * lanes * sizeof(double));
	feeder->least = feeder->shift + lanes;
	feeder->greatest = feeder->least + lanes;
	for (int i = 0; i < dimension; i++)
	{
		feeder->least[i] = HUGE_VAL;
		feeder->greatest[i] = -HUGE_VAL;
	}
	if (shift != NULL)
		memcpy(feeder->shift, shift, dimension * sizeof(double));
	feeder->shift_known = shift != NULL || !feeder->shifting;
	hold_rows(feeder, feeder->shift_known ? ROUNDED_BYTES : HELD_BYTES);
}

/* The first array that any process sees sets the length of all. */
static void
learn_dimension(GkFeeder *feeder, int dimension)
{
	gk_feed_learn_dimension(feeder->feed, dimension);
	gk_feeder_set_dimension(feeder, atomic_load(&feeder->feed->ring.dimension));
}

/* Refuses all but one-dimensional arrays of the right length. */
static void
check_elements(const GkFeeder *feeder, FunctionCallInfo fcinfo, const GkElements *elements,
			   int expected)
{
	if (elements->dimensions > 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("array of features must have one dimension"),
				 errdetail("%s has an array of %d dimensions.",
						   gk_row_name(feeder, fcinfo), elements->dimensions)));
	if (elements->count == 0 && expected == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("array of features must not be empty"),
				 errdetail("%s has an empty array.", gk_row_name(feeder, fcinfo))));
	if (elements->count > GK_MAX_DIMENSION && expected == 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("array of features is too long"),
				 errdetail("%s has %lld elements, the limit is %d.",
						   gk_row_name(feeder, fcinfo), (long long) elements->count,
						   GK_MAX_DIMENSION)));
	if (expected > 0 && elements->count != expected)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("arrays of features differ in length"),
				 errdetail_plural("%s has %lld element, expected %d.",
								  "%s has %lld elements, expected %d.", elements->count,
								  gk_row_name(feeder, fcinfo), (long long) elements->count,
								  expected),
				 errhint("Leave such rows out of the source: WHERE %s(%s) = %d.",
						 feeder->columns[0].shape == GK_VECTOR ? "vector_dims" : "cardinality",
						 quote_identifier(NameStr(gk_feed_names(feeder->feed)[0])), expected)));
}

/* Makes sure that there is a slot with room for a row. */
static inline void
reserve_row(GkFeeder *feeder)
{
	if (feeder->slot >= 0 && feeder->rows < feeder->limit)
		return;
	if (feeder->slot >= 0)
		gk_feeder_publish(feeder, false);
	claim_batch(feeder);
}

/* Where the next row is held. */
static inline double *
held_row(const GkFeeder *feeder)
{
	return feeder->held + (feeder->rows - feeder->rounded) * feeder->dimension;
}

/* Four features at a time. */
typedef float Floats __attribute__((vector_size(16)));
typedef uint32 Bits __attribute__((vector_size(16)));

/* The top bit is set if the float of these bits is NaN or infinite. */
#define NOT_FINITE(bits) (((bits) & 0x7fffffff) + 0x00800000)

/* Decodes a row of reals into the batch, without a branch per feature; adding 0 turns -0 into 0. */
static GkDecoded
decode_reals(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	const NullableDatum *argument = &fcinfo->args[GK_FIRST_FEATURE];
	const NullableDatum *end = argument + feeder->count;
	bool		null = false;
	Bits		checks = {0};
	uint32		check;
	float	   *row = feeder->features + feeder->rows * feeder->dimension;

	for (; argument + 4 <= end; argument += 4, row += 4)
	{
		Bits		bits = {(uint32) argument[0].value, (uint32) argument[1].value,
			(uint32) argument[2].value, (uint32) argument[3].value};
		Floats		values = (Floats) bits + 0.0f;

		null |= argument[0].isnull | argument[1].isnull | argument[2].isnull | argument[3].isnull;
		checks |= NOT_FINITE(bits);
		memcpy(row, &values, sizeof(values));
	}
	check = checks[0] | checks[1] | checks[2] | checks[3];
	for (; argument < end; argument++, row++)
	{
		null |= argument->isnull;
		check |= NOT_FINITE((uint32) argument->value);
		*row = DatumGetFloat4(argument->value) + 0.0f;
	}
	if (null)
		return GK_DECODED_NULL;
	return check >> 31 ? GK_DECODED_INFINITE : GK_DECODED;
}

/* Fetches an array into the cache. */
static inline void
prefetch_array(const char *data, Size bytes)
{
	for (Size i = 0; i < bytes; i += 64)
		__builtin_prefetch(data + i);
}

/*
 * Consecutive rows of a page lie at descending addresses: prefetches the next row but one, if
 * the distance is the same as before, and on a new page the next one as well.  A wrong guess
 * does no harm.
 */
static inline void
prefetch_rows(GkFeeder *feeder, const char *data)
{
	int64		distance = data - feeder->last_data;
	Size		bytes = feeder->dimension * sizeof(float);

	feeder->last_data = data;
	if (distance > -BLCKSZ / 2 && distance < BLCKSZ / 2)
		feeder->distance = distance;
	else
		prefetch_array(data + feeder->distance, bytes);
	prefetch_array(data + 2 * feeder->distance, bytes);
}

/* Decodes one array of a row: all of it, or a piece that begins at `offset`. */
static GkDecoded
decode_array(GkFeeder *feeder, FunctionCallInfo fcinfo, int column, int offset, int expected)
{
	const GkColumn *description = &feeder->columns[column];
	GkElements	elements;

	gk_open_elements(description, PG_GETARG_DATUM(GK_FIRST_FEATURE + column), expected, &elements);
	if (elements.dimensions != 1 || elements.count != expected)
		check_elements(feeder, fcinfo, &elements, expected);
	if (feeder->dimension == 0)
	{
		learn_dimension(feeder, elements.count);
		check_elements(feeder, fcinfo, &elements, feeder->dimension);
	}
	if (elements.data == NULL)
		elog(ERROR, "array of features has no data");
	prefetch_rows(feeder, elements.data);
	reserve_row(feeder);
	if (feeder->held != NULL)
		return gk_decode_doubles(description, &elements, held_row(feeder) + offset);
	return gk_decode_floats(description, &elements,
							feeder->features + feeder->rows * feeder->dimension + offset);
}

/* Decodes a row of arrays: a single array, or the pieces of many scalars. */
static GkDecoded
decode_arrays(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	GkDecoded	decoded = GK_DECODED;

	if (feeder->feed->width == 0)
		return PG_ARGISNULL(GK_FIRST_FEATURE) ? GK_DECODED_NULL :
			decode_array(feeder, fcinfo, 0, 0, feeder->dimension);
	for (int i = 0; i < feeder->count && decoded == GK_DECODED; i++)
	{
		int			offset = i * GK_PIECE;

		if (PG_ARGISNULL(GK_FIRST_FEATURE + i))
			return GK_DECODED_NULL;
		decoded = decode_array(feeder, fcinfo, i, offset,
							   Min(GK_PIECE, feeder->dimension - offset));
	}
	return decoded;
}

/* Decodes the weight of a row; an invalid one is always an error. */
static GkDecoded
decode_weight(GkFeeder *feeder, FunctionCallInfo fcinfo, double *weight)
{
	if (PG_ARGISNULL(GK_WEIGHT))
		return GK_DECODED_NULL;
	*weight = gk_decode_scalar(feeder->weight_element, PG_GETARG_DATUM(GK_WEIGHT)) + 0.0;
	if (!isfinite(*weight) || *weight < 0.0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("weight must be a finite number and not negative"),
				 errdetail("%s has the weight %g in column \"%s\".",
						   gk_row_name(feeder, fcinfo), *weight,
						   NameStr(gk_feed_names(feeder->feed)[feeder->feed->columns]))));
	return GK_DECODED;
}

/* True if the row is all zero as float32. */
static bool
is_zero_row(const GkFeeder *feeder)
{
	const float *row = feeder->features + feeder->rows * feeder->dimension;

	for (int i = 0; i < feeder->dimension; i++)
		if (feeder->held != NULL ? (float) held_row(feeder)[i] != 0.0f : row[i] != 0.0f)
			return false;
	return true;
}

/* Skips an all-zero row, or reports it, if unusable rows are errors. */
static bool
skip_zero(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	if (feeder->feed->nulls_are_errors)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot cluster a row of zeros by direction"),
				 errdetail("%s has no direction.", gk_row_name(feeder, fcinfo)),
				 errhint("Leave such rows out of the source, or skip them with nulls => 'skip'.")));
	feeder->zeros++;
	return false;
}

/* Skips a row that could not be decoded, or reports it. */
static bool
skip_unusable(GkFeeder *feeder, FunctionCallInfo fcinfo, GkDecoded features)
{
	if (feeder->feed->nulls_are_errors)
		gk_raise_unusable(feeder, fcinfo);
	gk_note_unusable(feeder, fcinfo, features);
	return false;
}

/* Decodes the features of a row: to where rows are held, or straight into the batch. */
static inline GkDecoded
decode_features(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	if (feeder->scalars == NULL)
		return decode_arrays(feeder, fcinfo);
	reserve_row(feeder);
	if (feeder->held == NULL)
		return decode_reals(feeder, fcinfo);
	return gk_decode_row(feeder->scalars, &fcinfo->args[GK_FIRST_FEATURE], held_row(feeder));
}

/* Adds a row to the batch; false if it is unusable. */
bool
gk_feeder_take_row(GkFeeder *feeder, FunctionCallInfo fcinfo)
{
	GkDecoded	features = decode_features(feeder, fcinfo);
	double		weight = 1.0;

	if (features != GK_DECODED ||
		(feeder->weighted && decode_weight(feeder, fcinfo, &weight) != GK_DECODED))
		return skip_unusable(feeder, fcinfo, features);
	if (feeder->feed->zero_is_unusable && is_zero_row(feeder))
		return skip_zero(feeder, fcinfo);
	if (feeder->weighted)
		feeder->weights[feeder->rows] = weight;
	feeder->rows++;
	if (feeder->held != NULL && feeder->rows - feeder->rounded == feeder->held_limit)
		round_held(feeder, false);
	return true;
}
