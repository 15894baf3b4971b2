/*
 * The ids of the rows: a shared tuplestore beside the ring.
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
	int64		row;			/* in the batch, -1 = skipped */
} Place;

struct GkRowIds
{
	GkRelease  *release;
	dsm_segment *segment;
	MemoryContext context;
	TupleTableSlot *slot;
	SharedTuplestoreAccessor *reader;	/* NULL until the first id is asked for */
	bool		at_end;
	int64	   *first_rows;		/* malloc'ed */
	int64		batches;
};

struct GkRowIdsWriter
{
	TupleDesc	descriptor;
	bool		is_varlena;
	int16		value_bytes;	/* of a type that is passed by value, else 0 */
	MinimalTuple value_tuple;	/* with the last such id, NULL before the first */
	MemoryContext context;
	SharedTuplestoreAccessor *store;
};

/* The tuplestore in a segment. */
static SharedTuplestore *
store_of(SharedIds *shared)
{
	return (SharedTuplestore *) ((char *) shared + MAXALIGN(sizeof(SharedIds)));
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

/* The same for an id that is passed by value: later ones change the tuple of the first. */
static MinimalTuple
value_tuple(GkRowIdsWriter *writer, Datum id)
{
	MinimalTuple tuple = writer->value_tuple;

	if (tuple == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(writer->context);

		tuple = writer->value_tuple = form_tuple(writer, id, false);
		MemoryContextSwitchTo(before);
	}
	else
		store_att_byval((char *) tuple + tuple->t_hoff - MINIMAL_TUPLE_OFFSET, id,
						writer->value_bytes);
	return tuple;
}

/* Stores an id. */
void
gk_row_ids_put(GkRowIdsWriter *writer, Datum id, bool is_null, int64 sequence, int64 row)
{
	Place		place = {sequence, row};
	MinimalTuple tuple;
	MemoryContext before;

	if (writer->is_varlena && !is_null)
		id = PointerGetDatum(PG_DETOAST_DATUM_PACKED(id));
	tuple = writer->value_bytes > 0 && !is_null ? value_tuple(writer, id)
		: form_tuple(writer, id, is_null);

	/* the store's buffers outlive the row */
	before = MemoryContextSwitchTo(writer->context);
	sts_puttuple(writer->store, &place, tuple);
	MemoryContextSwitchTo(before);
}

/* Ends the writing of this process. */
void
gk_row_ids_flush(GkRowIdsWriter *writer)
{
	sts_end_write(writer->store);
}

/* Returns the ids in turn, one for every row of the source. */
bool
gk_row_ids_next(GkRowIds *ids, Datum *id, bool *is_null, int64 *row)
{
	MemoryContext before = MemoryContextSwitchTo(ids->context);
	MinimalTuple tuple = NULL;
	Place		place;

	if (ids->reader == NULL)
	{
		SharedIds  *shared = dsm_segment_address(ids->segment);

		ids->reader = sts_attach(store_of(shared), 0, &shared->files);
		sts_begin_parallel_scan(ids->reader);
	}
	if (!ids->at_end)
		tuple = sts_parallel_scan_next(ids->reader, &place);
	if (tuple == NULL && !ids->at_end)
	{
		sts_end_parallel_scan(ids->reader);
		ids->at_end = true;
	}
	MemoryContextSwitchTo(before);
	if (tuple == NULL)
		return false;

	ExecStoreMinimalTuple(tuple, ids->slot, false);
	*id = slot_getattr(ids->slot, 1, is_null);
	if (place.row >= 0 && place.sequence >= ids->batches)
		elog(ERROR, "id of a row that is in no batch");
	*row = place.row < 0 ? -1 : ids->first_rows[place.sequence] + place.row;
	return true;
}
