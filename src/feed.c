/*
 * The feed: the aggregate that every process runs over its share of the rows.
 *
 * Its transition function decodes a row straight into a slot of the ring.  What it
 * needs to know is looked up once, with the first row.  All results go
 * through shared memory, so the state that is serialized and combined is only a token.
 */
#include "postgres.h"

#include <math.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#if PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#endif

#include "decode.h"
#include "feed.h"
#include "job.h"
#include "row_ids.h"

/* Arguments of the transition function. */
enum
{
	STATE,
	HANDLE,
	KEY,
	ID,
	WEIGHT,
	FIRST_FEATURE
};

/* How long a wait for a slot is before we look around, in milliseconds. */
#define WAIT_MILLISECONDS 10
/* Rows are held as doubles until so many bytes give an idea of their range. */
#define HELD_BYTES (512 * 1024)

/* One process's share: the transition state. */
typedef struct Feeder
{
	GkFeed	   *feed;			/* NULL: a token, all is in shared memory */
	MemoryContext context;
	int64		read;
	int64		skipped;
	int			dimension;
	bool		scalars;		/* the columns are scalars, one a feature */
	bool		weighted;
	GkElement	weight_element;
	GkRowIdsWriter *ids;		/* NULL = no ids */
	Oid			id_type;

	/* the batch that is being filled */
	int			slot;			/* -1 = none */
	int64		sequence;
	int64		rows;
	int64		capacity;
	float	   *features;
	double	   *weights;

	/* while shifting */
	bool		shifting;
	const double *shift;		/* NULL = not known yet: rows are held */
	double	   *values;			/* the row, and its range so far */
	double	   *least;
	double	   *greatest;
	double	   *held;			/* rows of the batch, not yet shifted */
	int64		held_limit;

	const char *last_data;		/* where the array of the row before lay */
	int64		distance;		/* from one row of a page to the next */
	int			count;
	GkColumn	columns[FLEXIBLE_ARRAY_MEMBER];
} Feeder;

PG_FUNCTION_INFO_V1(gk_feed_accumulate);
PG_FUNCTION_INFO_V1(gk_feed_combine);
PG_FUNCTION_INFO_V1(gk_feed_serialize);
PG_FUNCTION_INFO_V1(gk_feed_deserialize);
PG_FUNCTION_INFO_V1(gk_feed_final);

/* The process that reads the source: this one, or the leader of this worker. */
static int
leader_pid(void)
{
	PGPROC	   *leader = MyProc->lockGroupLeader;

	return leader != NULL ? leader->pid : MyProcPid;
}

/* Finds the feed that a handle names, and makes sure that it is ours. */
static GkFeed *
attach_feed(int64 handle, int64 key)
{
	dsm_segment *segment = NULL;
	bool		attached = false;
	GkFeed	   *feed;

	if (handle > 0 && handle <= PG_UINT32_MAX)
		segment = dsm_find_mapping((dsm_handle) handle);
	if (segment == NULL && handle > 0 && handle <= PG_UINT32_MAX)
	{
		segment = dsm_attach((dsm_handle) handle);
		attached = true;
	}
	feed = segment != NULL ? dsm_segment_address(segment) : NULL;
	if (feed == NULL || dsm_segment_map_length(segment) < sizeof(GkFeed) ||
		!gk_feed_is_ours(feed, (uint64) key, leader_pid()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("gkmeans_feed can only be called by the functions of gkmeans")));

	/* a worker may keep it: it ends with the query */
	if (attached)
		dsm_pin_mapping(segment);
	return feed;
}

/* Names the row at hand for a DETAIL: by its id, else by its number where that means something. */
static const char *
row_name(const Feeder *feeder, FunctionCallInfo fcinfo)
{
	Oid			output;
	bool		is_varlena;

	if (feeder->ids != NULL && PG_ARGISNULL(ID))
		return "The row with id NULL";
	if (feeder->ids != NULL)
	{
		getTypeOutputInfo(feeder->id_type, &output, &is_varlena);
		return psprintf("The row with id %s", OidOutputFunctionCall(output, PG_GETARG_DATUM(ID)));
	}
	if (IsInParallelMode())
		return "A row";
	return psprintf("Row " INT64_FORMAT, feeder->read);
}

/* Claims a slot for the next batch. */
static void
claim_batch(Feeder *feeder)
{
	GkRing	   *ring = &feeder->feed->ring;

	pgstat_report_wait_start(PG_WAIT_EXTENSION);
	do
	{
		if (atomic_load(&ring->failed))
			gk_check(ring->failure);
		CHECK_FOR_INTERRUPTS();
		feeder->slot = gk_ring_claim(ring, WAIT_MILLISECONDS, &feeder->sequence);
	} while (feeder->slot < 0);
	pgstat_report_wait_end();

	feeder->rows = 0;
	feeder->features = gk_ring_features(ring, feeder->slot);
	if (feeder->weighted)
		feeder->weights = gk_ring_weights(ring, feeder->slot, feeder->dimension);
}

/* Hands the batch over. */
static void
publish_batch(Feeder *feeder)
{
	gk_ring_publish(&feeder->feed->ring, feeder->slot, feeder->rows);
	feeder->slot = -1;
}

/* Waits for another process that is just setting something. */
static void
wait_until_set(atomic_int *state)
{
	while (atomic_load(state) != GK_SET)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10);
	}
}

/* Makes room for what depends on the dimension. */
static void
set_dimension(Feeder *feeder, int dimension)
{
	GkFeed	   *feed = feeder->feed;

	feeder->dimension = dimension;
	feeder->capacity = gk_ring_capacity(&feed->ring, dimension);
	if (!feeder->shifting)
		return;
	if (atomic_load(&feed->shift_state) == GK_SET)
		feeder->shift = gk_feed_shifts(feed);
	feeder->values = MemoryContextAlloc(feeder->context, 3 * dimension * sizeof(double));
	feeder->least = feeder->values + dimension;
	feeder->greatest = feeder->least + dimension;
	for (int i = 0; i < dimension; i++)
	{
		feeder->least[i] = HUGE_VAL;
		feeder->greatest[i] = -HUGE_VAL;
	}
	feeder->held_limit = Max(1, HELD_BYTES / (dimension * sizeof(double)));
	feeder->held_limit = Min(feeder->held_limit, feeder->capacity);
	if (feeder->shift == NULL)
		feeder->held = MemoryContextAlloc(feeder->context, feeder->held_limit * dimension *
										  sizeof(double));
}

/* The first array that any process sees says how long all are. */
static void
learn_dimension(Feeder *feeder, int dimension)
{
	GkFeed	   *feed = feeder->feed;
	int			unset = GK_UNSET;

	if (atomic_compare_exchange_strong(&feed->dimension_state, &unset, GK_SETTING))
	{
		gk_feed_set_dimension(feed, dimension);
		atomic_store(&feed->dimension_state, GK_SET);
	}
	wait_until_set(&feed->dimension_state);
	set_dimension(feeder, atomic_load(&feed->ring.dimension));
}

/* Refuses what is not a one-dimensional array of the right length. */
static void
check_elements(const Feeder *feeder, FunctionCallInfo fcinfo, const GkElements *elements,
			   int expected)
{
	if (elements->dimensions > 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("array of features must have one dimension"),
				 errdetail("%s has an array of %d dimensions.",
						   row_name(feeder, fcinfo), elements->dimensions)));
	if (elements->count == 0 && expected == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("array of features must not be empty"),
				 errdetail("%s has an empty array.", row_name(feeder, fcinfo))));
	if (elements->count > GK_MAX_DIMENSION && expected == 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("array of features is too long"),
				 errdetail("%s has %lld elements, the limit is %d.",
						   row_name(feeder, fcinfo), (long long) elements->count,
						   GK_MAX_DIMENSION)));
	if (expected > 0 && elements->count != expected)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("arrays of features differ in length"),
				 errdetail("%s has %lld elements, expected %d.", row_name(feeder, fcinfo),
						   (long long) elements->count, expected)));
}

/* Makes sure that there is a slot with room for a row. */
static inline void
reserve_row(Feeder *feeder)
{
	if (feeder->slot >= 0 && feeder->rows < feeder->capacity)
		return;
	if (feeder->slot >= 0)
		publish_batch(feeder);
	claim_batch(feeder);
}

/* Decodes a row of scalars into the batch, or into ->values. */
static GkDecoded
decode_scalars(Feeder *feeder, FunctionCallInfo fcinfo)
{
	const NullableDatum *arguments = &fcinfo->args[FIRST_FEATURE];
	float	   *row;
	bool		finite = true;

	for (int i = 0; i < feeder->count; i++)
		if (arguments[i].isnull)
			return GK_DECODED_NULL;
	reserve_row(feeder);
	row = feeder->features + feeder->rows * feeder->dimension;
	for (int i = 0; i < feeder->count; i++)
	{
		double		value = gk_decode_scalar(feeder->columns[i].element, arguments[i].value);

		finite &= isfinite((float) value) != 0;
		if (feeder->shifting)
			feeder->values[i] = value + 0.0;
		else
			row[i] = (float) value + 0.0f;
	}
	return finite ? GK_DECODED : GK_DECODED_INFINITE;
}

/* Fetches an array into the cache. */
static inline void
prefetch_array(const char *data, Size bytes)
{
	for (Size i = 0; i < bytes; i += 64)
		__builtin_prefetch(data + i);
}

/*
 * Rows lie in a page one before the other: fetches the next but one, if the distance is what it
 * was, and on a new page the next one as well.  A wrong guess does no harm.
 */
static inline void
prefetch_rows(Feeder *feeder, const char *data)
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
decode_array(Feeder *feeder, FunctionCallInfo fcinfo, int column, int offset, int expected)
{
	const GkColumn *description = &feeder->columns[column];
	GkElements	elements;

	gk_open_elements(description, PG_GETARG_DATUM(FIRST_FEATURE + column), expected, &elements);
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
	if (feeder->shifting)
		return gk_decode_doubles(description, &elements, feeder->values + offset);
	return gk_decode_floats(description, &elements,
							feeder->features + feeder->rows * feeder->dimension + offset);
}

/* Decodes a row of arrays: one, or the pieces that many scalars come in. */
static GkDecoded
decode_arrays(Feeder *feeder, FunctionCallInfo fcinfo)
{
	GkDecoded	decoded = GK_DECODED;

	if (feeder->feed->width == 0)
		return PG_ARGISNULL(FIRST_FEATURE) ? GK_DECODED_NULL :
			decode_array(feeder, fcinfo, 0, 0, feeder->dimension);
	for (int i = 0; i < feeder->count && decoded == GK_DECODED; i++)
	{
		int			offset = i * GK_PIECE;

		if (PG_ARGISNULL(FIRST_FEATURE + i))
			return GK_DECODED_NULL;
		decoded = decode_array(feeder, fcinfo, i, offset,
							   Min(GK_PIECE, feeder->dimension - offset));
	}
	return decoded;
}

/* Decodes the weight of a row; one that makes no sense is an error always. */
static GkDecoded
decode_weight(Feeder *feeder, FunctionCallInfo fcinfo, double *weight)
{
	if (PG_ARGISNULL(WEIGHT))
		return GK_DECODED_NULL;
	*weight = gk_decode_scalar(feeder->weight_element, PG_GETARG_DATUM(WEIGHT)) + 0.0;
	if (!isfinite(*weight) || *weight < 0.0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("weight must be a finite number and not negative"),
				 errdetail("%s has a weight that is negative, NaN or infinite.", row_name(feeder, fcinfo))));
	return GK_DECODED;
}

/* Raises the error that an unusable row is, if nulls are errors. */
static void
raise_unusable(const Feeder *feeder, FunctionCallInfo fcinfo, GkDecoded decoded)
{
	if (decoded == GK_DECODED_NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("row to be clustered contains a NULL"),
				 errdetail("%s has a NULL among its features, or as its weight.",
						   row_name(feeder, fcinfo)),
				 errhint("Leave such rows out of the source, or let them be skipped.")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("row to be clustered contains a number that is not finite"),
			 errdetail("%s has NaN, an infinity, or a number too large for real.",
					   row_name(feeder, fcinfo)),
			 errhint("Leave such rows out of the source, or let them be skipped.")));
}

/* Takes the shift from a row, which becomes float32. */
static void
shift_row(const Feeder *feeder, const double *values, float *row)
{
	const double *shift = feeder->shift;

	for (int i = 0; i < feeder->dimension; i++)
		row[i] = (float) (values[i] - shift[i]) + 0.0f;
}

/*
 * Settles the shift: the first process to do so guesses it from the rows that it holds.  They are
 * all rows there are if this process is alone and at the end: then it needs no guess.
 */
static void
settle_shift(Feeder *feeder, bool at_end)
{
	GkFeed	   *feed = feeder->feed;
	const uint8 *classes = gk_feed_classes(feed);
	double	   *shifts = gk_feed_shifts(feed);
	bool		exact = at_end && !IsInParallelMode();
	int			unset = GK_UNSET;

	if (atomic_compare_exchange_strong(&feed->shift_state, &unset, GK_SETTING))
	{
		for (int i = 0; i < feeder->dimension; i++)
			shifts[i] = (exact ? gk_shift_of_range : gk_guess_shift)
				(feeder->least[i], feeder->greatest[i], classes[i]);
		atomic_store(&feed->shift_state, GK_SET);
	}
	wait_until_set(&feed->shift_state);
	feeder->shift = shifts;
	for (int64 row = 0; row < feeder->rows; row++)
		shift_row(feeder, feeder->held + row * feeder->dimension,
				  feeder->features + row * feeder->dimension);
	pfree(feeder->held);
	feeder->held = NULL;
}

/* Stores the row of ->values: shifted, or held until the shift is known. */
static void
store_values(Feeder *feeder)
{
	const double *values = feeder->values;
	int			dimension = feeder->dimension;

	for (int i = 0; i < dimension; i++)
	{
		feeder->least[i] = Min(feeder->least[i], values[i]);
		feeder->greatest[i] = Max(feeder->greatest[i], values[i]);
	}
	if (feeder->shift != NULL)
		shift_row(feeder, values, feeder->features + feeder->rows * dimension);
	else
		memcpy(feeder->held + feeder->rows * dimension, values, dimension * sizeof(double));
}

/* Whether the row in the batch is all zero. */
static bool
is_zero_row(const Feeder *feeder)
{
	const float *row = feeder->features + feeder->rows * feeder->dimension;

	for (int i = 0; i < feeder->dimension; i++)
		if (row[i] != 0.0f)
			return false;
	return true;
}

/* Raises the error that an all-zero row is, if nulls are errors. */
static void
raise_zero(const Feeder *feeder, FunctionCallInfo fcinfo)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("row to be clustered by direction is all zero"),
			 errdetail("%s has no direction.", row_name(feeder, fcinfo)),
			 errhint("Leave such rows out of the source, or let them be skipped.")));
}

/* Brings a row into the batch; false if it is unusable. */
static bool
feed_row(Feeder *feeder, FunctionCallInfo fcinfo)
{
	GkDecoded	decoded;
	double		weight = 1.0;

	decoded = feeder->scalars ? decode_scalars(feeder, fcinfo) : decode_arrays(feeder, fcinfo);
	if (feeder->weighted && decoded == GK_DECODED)
		decoded = decode_weight(feeder, fcinfo, &weight);
	if (decoded != GK_DECODED)
	{
		if (feeder->feed->nulls_are_errors)
			raise_unusable(feeder, fcinfo, decoded);
		return false;
	}
	if (feeder->feed->zero_is_unusable && is_zero_row(feeder))
	{
		if (feeder->feed->nulls_are_errors)
			raise_zero(feeder, fcinfo);
		return false;
	}
	if (feeder->weighted)
		feeder->weights[feeder->rows] = weight;
	if (feeder->shifting)
		store_values(feeder);
	feeder->rows++;
	if (feeder->held != NULL && feeder->rows == feeder->held_limit)
		settle_shift(feeder, false);
	return true;
}

/* Looks up how to decode the columns, and checks them against the feed. */
static void
describe_columns(Feeder *feeder, FunctionCallInfo fcinfo)
{
	int			width = feeder->feed->width;
	bool		fits = true;

	for (int i = 0; i < feeder->count; i++)
	{
		Oid			type = get_fn_expr_argtype(fcinfo->flinfo, FIRST_FEATURE + i);

		fits = fits && gk_describe_column(type, &feeder->columns[i]);
		fits = fits && (feeder->columns[i].shape == GK_SCALAR) ==
			(feeder->columns[0].shape == GK_SCALAR);
	}
	feeder->scalars = feeder->columns[0].shape == GK_SCALAR;
	if (width == 0)
		fits = fits && feeder->count == 1 && !feeder->scalars;
	else if (feeder->scalars)
		fits = fits && feeder->count == width;
	else
		fits = fits && feeder->count == (width + GK_PIECE - 1) / GK_PIECE;
	if (!fits)
		elog(ERROR, "columns of a source do not fit its feed");
}

/* Makes the state of this process, with its first row. */
static Feeder *
begin_feeder(FunctionCallInfo fcinfo, MemoryContext context)
{
	int			count = PG_NARGS() - FIRST_FEATURE;
	MemoryContext before = MemoryContextSwitchTo(context);
	Feeder	   *feeder = palloc0(offsetof(Feeder, columns) + count * sizeof(GkColumn));
	GkColumn	weight;
	int			participant;

	if (PG_ARGISNULL(HANDLE) || PG_ARGISNULL(KEY))
		attach_feed(0, 0);
	feeder->feed = attach_feed(PG_GETARG_INT64(HANDLE), PG_GETARG_INT64(KEY));
	feeder->context = context;
	feeder->slot = -1;
	feeder->count = count;
	feeder->weighted = feeder->feed->ring.weighted;
	feeder->shifting = feeder->feed->shifting;
	describe_columns(feeder, fcinfo);
	if (feeder->weighted)
	{
		if (!gk_describe_column(get_fn_expr_argtype(fcinfo->flinfo, WEIGHT), &weight) ||
			weight.shape != GK_SCALAR)
			elog(ERROR, "weight of a source does not fit its feed");
		feeder->weight_element = weight.element;
	}

	participant = atomic_fetch_add(&feeder->feed->participants, 1);
	if (participant >= feeder->feed->max_participants)
		elog(ERROR, "too many processes feed a source");
	if (IsParallelWorker())
		atomic_fetch_add(&feeder->feed->workers, 1);
	if (OidIsValid(feeder->feed->id_type))
	{
		feeder->id_type = get_fn_expr_argtype(fcinfo->flinfo, ID);
		feeder->ids = gk_row_ids_attach(feeder->feed->ids, feeder->id_type, participant);
	}
	if (feeder->feed->width > 0)
		set_dimension(feeder, feeder->feed->width);
	MemoryContextSwitchTo(before);
	return feeder;
}

/* Ends the share of this process: all of it goes to shared memory. */
static void
finish_feeder(Feeder *feeder)
{
	GkFeed	   *feed = feeder->feed;

	if (feed == NULL)
		return;
	if (feeder->held != NULL && feeder->rows > 0)
		settle_shift(feeder, true);
	if (feeder->slot >= 0)
		publish_batch(feeder);
	if (feeder->shifting && feeder->dimension > 0)
		for (int i = 0; i < feeder->dimension; i++)
			gk_range_merge(&gk_feed_ranges(feed)[i], feeder->least[i], feeder->greatest[i]);
	if (feeder->ids != NULL)
		gk_row_ids_flush(feeder->ids);
	atomic_fetch_add(&feed->read, feeder->read);
	atomic_fetch_add(&feed->skipped, feeder->skipped);
	feeder->feed = NULL;
}

/* The context of an aggregate's state; nothing but an aggregate may call us. */
static MemoryContext
aggregate_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (AggCheckCallContext(fcinfo, &context) != AGG_CONTEXT_AGGREGATE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("gkmeans_feed can only be called as a plain aggregate")));
	return context;
}

/* Transition function: one row. */
Datum
gk_feed_accumulate(PG_FUNCTION_ARGS)
{
	Feeder	   *feeder;
	bool		usable;

	if (PG_ARGISNULL(STATE))
		feeder = begin_feeder(fcinfo, aggregate_context(fcinfo));
	else
		feeder = (Feeder *) PG_GETARG_POINTER(STATE);

	feeder->read++;
	usable = feed_row(feeder, fcinfo);
	if (!usable)
		feeder->skipped++;
	if (feeder->ids != NULL)
		gk_row_ids_put(feeder->ids, PG_GETARG_DATUM(ID), PG_ARGISNULL(ID),
					   usable ? feeder->sequence : 0, usable ? feeder->rows - 1 : -1);
	PG_RETURN_POINTER(feeder);
}

/* Ends a share, and stands for it where states are sent. */
Datum
gk_feed_serialize(PG_FUNCTION_ARGS)
{
	aggregate_context(fcinfo);
	finish_feeder((Feeder *) PG_GETARG_POINTER(0));
	PG_RETURN_BYTEA_P(cstring_to_text(""));
}

/* A token for a share that is ended. */
Datum
gk_feed_deserialize(PG_FUNCTION_ARGS)
{
	aggregate_context(fcinfo);
	PG_RETURN_POINTER(palloc0(sizeof(Feeder)));
}

/* Two shares are as good as one when they are ended. */
Datum
gk_feed_combine(PG_FUNCTION_ARGS)
{
	MemoryContext context = aggregate_context(fcinfo);

	for (int i = 0; i < 2; i++)
		if (!PG_ARGISNULL(i))
			finish_feeder((Feeder *) PG_GETARG_POINTER(i));
	if (!PG_ARGISNULL(0))
		PG_RETURN_POINTER(PG_GETARG_POINTER(0));
	PG_RETURN_POINTER(MemoryContextAllocZero(context, sizeof(Feeder)));
}

/* Ends the share of a plan without workers. */
Datum
gk_feed_final(PG_FUNCTION_ARGS)
{
	aggregate_context(fcinfo);
	if (!PG_ARGISNULL(0))
		finish_feeder((Feeder *) PG_GETARG_POINTER(0));
	PG_RETURN_NULL();
}
