/*
 * The ids of the rows: a shared tuplestore that every process writes beside the
 * ring, and the leader reads at the end.
 *
 * An id is stored with the position of its row: the sequence number of the batch and the row's
 * number in it, -1 if the row was skipped.
 */
#ifndef GK_ROW_IDS_H
#define GK_ROW_IDS_H

#include "postgres.h"

#include "storage/dsm.h"

#include "job.h"

/* The ids of a reading. */
typedef struct GkRowIds GkRowIds;

/* Creates an empty store that the job owns, for this many processes. */
extern GkRowIds *gk_row_ids_create(GkJob *job, Oid type, int participants);

/* The handle by which other processes attach. */
extern dsm_handle gk_row_ids_handle(const GkRowIds *ids);

/*
 * Ends the writing: first_rows is the engine's number of the first row of each batch;
 * it was malloc'ed, and the ids own it from now on.
 */
extern void gk_row_ids_finish(GkRowIds *ids, int64 *first_rows, int64 batches);

/*
 * Returns the ids in turn, one for every row of the source, in no particular order.
 * *row is the engine's number of the row, -1 if it was skipped.  False at the end.
 * The id is valid until the next call.
 */
extern bool gk_row_ids_next(GkRowIds *ids, Datum *id, bool *is_null, int64 *row);

/* Begins again with the first id; the end must have been reached. */
extern void gk_row_ids_rewind(GkRowIds *ids);

/* Frees the store. */
extern void gk_row_ids_release(GkRowIds *ids);

/* A process's writer. */
typedef struct GkRowIdsWriter GkRowIdsWriter;

/* Joins as one of the participants, counted from 0; in the current memory context. */
extern GkRowIdsWriter *gk_row_ids_attach(dsm_handle handle, Oid type, int participant);

/* Stores an id; row is -1 if it was skipped. */
extern void gk_row_ids_put(GkRowIdsWriter *writer, Datum id, bool is_null,
						   int64 sequence, int64 row);

/* Ends the writing of this process. */
extern void gk_row_ids_flush(GkRowIdsWriter *writer);

#endif							/* GK_ROW_IDS_H */
