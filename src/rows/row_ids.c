/*
 * The ids of the rows: a shared tuplestore beside the ring.
 *
 * An id is a tuple, but ids that are passed by value are stored many at a time: for each of them, a
 * tuple costs more than the rest of its way.
 */
#include "postgres.h"

#include <stdlib.h>

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "access/tupmacs.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "storage/sharedfileset.h"
#include "utils/lsyscache.h"
#include "utils/sharedtuplestore.h"

#include "row_ids.h"

/* The shared memory of a store. */
typedef struct SharedIds
{
	SharedFileSet files;
	Oid			type;
	int			participants;
	/* the tuplestore follows, aligned to MAXALIGN */
} SharedIds;

/* The position of an id's row. */
typedef struct Place
{
	int64		sequence;
	int64		row;			/* in the batch, -1 = skipped; not set if there are several */
} Place;

/* One of several ids of a batch. */
typedef struct Value
{
	Datum		id;
	int64		row;			/* twice the row, and 1 more if the id is NULL */
} Value;

/* The longest id. */
#define MAX_BYTES (256 * 1024 * 1024)

/* Where they begin in a tuple, and how many it has at most. */
#define VALUES_OFFSET MAXALIGN(SizeofMinimalTupleHeader)
#define MAX_VALUES 250

struct GkRowIds
{
	GkRelease  *release;
	dsm_segment *segment;
	MemoryContext context;
	bool		by_value;
	TupleTableSlot *slot;
	SharedTuplestoreAccessor *reader;	/* NULL until the first id is asked for */
	bool		at_end;
	const Value *values;		/* the next of a tuple, and how many are left of it */
	int			left;
	int64		sequence;		/* of their batch */
	int64	   *first_rows;		/* malloc'ed */
	int64		batches;
};

struct GkRowIdsWriter
{
	TupleDesc	descriptor;
	bool		is_varlena;
	int16		value_bytes;	/* of a type that is passed by value, else 0 */
	MinimalTuple values;		/* NULL before the first */
	int			count;			/* of them */
	int64		sequence;		/* of their batch */
	MemoryContext context;
	SharedTuplestoreAccessor *store;
};

/* The tuplestore in a segment. */
static SharedTuplestore *
store_of(SharedIds *shared)
{
	return (SharedTuplestore *) ((char *) shared + MAXALIGN(sizeof(SharedIds)));
}

/* The ids in a tuple that has several. */
static Value *
values_of(MinimalTuple tuple)
{
	return (Value *) ((char *) tuple + VALUES_OFFSET);
}

/* The release function; the files are deleted with the segment. */
static void
release_ids(void *resource)
{
	GkRowIds   *ids = resource;

	if (ids->segment != NULL)
		dsm_detach(ids->segment);
	free(ids->first_rows);
}

/* A descriptor of tuples that consist of an id. */
static TupleDesc
id_descriptor(Oid type)
{
	TupleDesc	descriptor = CreateTemplateTupleDesc(1);

	TupleDescInitEntry(descriptor, 1, "id", type, -1, 0);
	return descriptor;
}

/* Creates an empty store that the job owns. */
GkRowIds *
gk_row_ids_create(GkJob *job, Oid type, int participants)
{
	MemoryContext before = MemoryContextSwitchTo(gk_job_context(job));
	GkRowIds   *ids = palloc0(sizeof(GkRowIds));
	SharedIds  *shared;

	ids->context = gk_job_context(job);
	ids->by_value = get_typbyval(type);
	ids->slot = MakeSingleTupleTableSlot(id_descriptor(type), &TTSOpsMinimalTuple);
	ids->release = gk_job_reserve(job, release_ids);
	ids->release->resource = ids;

	ids->segment = dsm_create(MAXALIGN(sizeof(SharedIds)) + sts_estimate(participants), 0);
	dsm_pin_mapping(ids->segment);
	shared = dsm_segment_address(ids->segment);
	SharedFileSetInit(&shared->files, ids->segment);
	shared->type = type;
	shared->participants = participants;
	sts_initialize(store_of(shared), participants, 0, sizeof(Place), 0, &shared->files, "ids");
	MemoryContextSwitchTo(before);
	return ids;
}

/* The handle by which other processes attach. */
dsm_handle
gk_row_ids_handle(const GkRowIds *ids)
{
	return dsm_segment_handle(ids->segment);
}

/* Ends the writing. */
void
gk_row_ids_finish(GkRowIds *ids, int64 *first_rows, int64 batches)
{
	ids->first_rows = first_rows;
	ids->batches = batches;
}

/* Begins again with the first id. */
void
gk_row_ids_rewind(GkRowIds *ids)
{
	MemoryContext before = MemoryContextSwitchTo(ids->context);

	Assert(ids->at_end);
	sts_reinitialize(ids->reader);
	sts_begin_parallel_scan(ids->reader);
	ids->at_end = false;
	MemoryContextSwitchTo(before);
}

/* Frees the store. */
void
gk_row_ids_release(GkRowIds *ids)
{
	if (ids->reader != NULL && !ids->at_end)
		sts_end_parallel_scan(ids->reader);
	ids->reader = NULL;
	gk_job_release(ids->release);
}

/* Joins as one of the participants. */
GkRowIdsWriter *
gk_row_ids_attach(dsm_handle handle, Oid type, int participant)
{
	GkRowIdsWriter *writer = palloc0(sizeof(GkRowIdsWriter));
	dsm_segment *segment = dsm_find_mapping(handle);
	SharedIds  *shared;
	int16		length;
	bool		by_value;

	/* a worker may keep it mapped: it ends with the query */
	if (segment == NULL)
	{
		segment = dsm_attach(handle);
		if (segment == NULL)
			elog(ERROR, "could not attach the ids of a source");
		dsm_pin_mapping(segment);
		shared = dsm_segment_address(segment);
		SharedFileSetAttach(&shared->files, segment);
	}
	shared = dsm_segment_address(segment);
	Assert(shared->type == type && participant < shared->participants);
	writer->descriptor = id_descriptor(type);
	get_typlenbyval(type, &length, &by_value);
	writer->is_varlena = length == -1;
	writer->value_bytes = by_value ? length : 0;
	writer->context = CurrentMemoryContext;
	writer->store = sts_attach(store_of(shared), participant, &shared->files);
	return writer;
}

/* A tuple that consists of an id. */
static MinimalTuple
form_tuple(const GkRowIdsWriter *writer, Datum id, bool is_null)
{
#if PG_VERSION_NUM >= 180000
	return heap_form_minimal_tuple(writer->descriptor, &id, &is_null, 0);
#else
	return heap_form_minimal_tuple(writer->descriptor, &id, &is_null);
#endif
}

/* Stores a tuple of ids; the store's buffers outlive the row. */
static void
put_tuple(const GkRowIdsWriter *writer, const Place *place, MinimalTuple tuple)
{
	MemoryContext before = MemoryContextSwitchTo(writer->context);

	sts_puttuple(writer->store, unconstify(Place *, place), tuple);
	MemoryContextSwitchTo(before);
}

/* Stores the ids that have come together. */
static void
put_values(GkRowIdsWriter *writer)
{
	Place		place = {writer->sequence, 0};

	if (writer->count == 0)
		return;
	writer->values->t_len = VALUES_OFFSET + writer->count * sizeof(Value);
	put_tuple(writer, &place, writer->values);
	writer->count = 0;
}

/* An id as it is read from a table: nothing besides its bytes is set. */
static Datum
clean_value(const GkRowIdsWriter *writer, Datum id)
{
	Datum		stored;

	store_att_byval(&stored, id, writer->value_bytes);
	id = fetch_att(&stored, true, writer->value_bytes);
	return id;
}

/* Lets an id that is passed by value wait for others of its batch. */
static void
put_value(GkRowIdsWriter *writer, Datum id, bool is_null, int64 sequence, int64 row)
{
	Value	   *value;

	if (writer->count == MAX_VALUES || writer->sequence != sequence)
		put_values(writer);
	if (writer->values == NULL)
		writer->values = MemoryContextAllocZero(writer->context, VALUES_OFFSET +
												MAX_VALUES * sizeof(Value));
	writer->sequence = sequence;
	value = &values_of(writer->values)[writer->count++];
	value->id = is_null ? (Datum) 0 : clean_value(writer, id);
	value->row = 2 * row + is_null;
}

/* An id that lies somewhere else, as it is stored: a shared tuplestore reads no longer one. */
static Datum
stored_value(Datum id)
{
	struct varlena *value = PG_DETOAST_DATUM_PACKED(id);

	if (VARSIZE_ANY(value) > MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("an id or a label has more than %d bytes", MAX_BYTES)));
	return PointerGetDatum(value);
}

/* Stores an id. */
void
gk_row_ids_put(GkRowIdsWriter *writer, Datum id, bool is_null, int64 sequence, int64 row)
{
	Place		place = {sequence, row};

	if (writer->value_bytes > 0)
	{
		put_value(writer, id, is_null, sequence, row);
		return;
	}
	if (writer->is_varlena && !is_null)
		id = stored_value(id);
	put_tuple(writer, &place, form_tuple(writer, id, is_null));
}

/* Ends the writing of this process. */
void
gk_row_ids_flush(GkRowIdsWriter *writer)
{
	put_values(writer);
	sts_end_write(writer->store);
}

/* The next tuple of ids; NULL at the end. */
static MinimalTuple
next_tuple(GkRowIds *ids, Place *place)
{
	MemoryContext before = MemoryContextSwitchTo(ids->context);
	MinimalTuple tuple = NULL;

	if (ids->reader == NULL)
	{
		SharedIds  *shared = dsm_segment_address(ids->segment);

		ids->reader = sts_attach(store_of(shared), 0, &shared->files);
		sts_begin_parallel_scan(ids->reader);
	}
	if (!ids->at_end)
		tuple = sts_parallel_scan_next(ids->reader, place);
	if (tuple == NULL && !ids->at_end)
	{
		sts_end_parallel_scan(ids->reader);
		ids->at_end = true;
	}
	MemoryContextSwitchTo(before);
	return tuple;
}

/* The engine's number of a row; -1 if it was skipped. */
static inline int64
number_of(const GkRowIds *ids, int64 sequence, int64 row)
{
	if (row < 0)
		return -1;
	if (sequence >= ids->batches)
		elog(ERROR, "id of a row that is in no batch");
	return ids->first_rows[sequence] + row;
}

/* Returns the next id that is passed by value. */
static bool
next_value(GkRowIds *ids, Datum *id, bool *is_null, int64 *row)
{
	const Value *value;
	MinimalTuple tuple;
	Place		place;

	if (ids->left == 0)
	{
		tuple = next_tuple(ids, &place);
		if (tuple == NULL)
			return false;
		ids->values = values_of(tuple);
		ids->left = (tuple->t_len - VALUES_OFFSET) / sizeof(Value);
		ids->sequence = place.sequence;
	}
	ids->left--;
	value = ids->values++;
	*id = value->id;
	*is_null = (value->row & 1) != 0;
	*row = number_of(ids, ids->sequence, (value->row - *is_null) / 2);
	return true;
}

/* Returns the ids in turn, one for every row of the source. */
bool
gk_row_ids_next(GkRowIds *ids, Datum *id, bool *is_null, int64 *row)
{
	MinimalTuple tuple;
	Place		place;

	if (ids->by_value)
		return next_value(ids, id, is_null, row);
	tuple = next_tuple(ids, &place);
	if (tuple == NULL)
		return false;
	ExecStoreMinimalTuple(tuple, ids->slot, false);
	*id = slot_getattr(ids->slot, 1, is_null);
	*row = number_of(ids, place.sequence, place.row);
	return true;
}
