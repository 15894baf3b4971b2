/*
 * The labels of the rows before a fit, to count those that it changes.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/buffile.h"

#include "alloc.h"
#include "engine_error.h"
#include "labels_before.h"

#define WINDOW_ROWS 16384

struct GkLabelsBefore
{
	BufFile    *file;
	int64		rows;
	int32	   *labels;			/* WINDOW_ROWS */
	int32	   *ids;			/* WINDOW_ROWS: as they were */
};

/* The labels of a window as cluster ids; returns the number of its rows. */
static int
fetch_ids(GkLabelsBefore *before, GkEngine *engine, int64 from, const int32 *ids)
{
	int			count = (int) Min(WINDOW_ROWS, before->rows - from);

	CHECK_FOR_INTERRUPTS();
	gk_check(engine->class_of->fetch(engine, from, count, before->labels, NULL));
	for (int i = 0; i < count; i++)
		before->labels[i] = ids[before->labels[i]];
	return count;
}

/* Keeps the labels. */
GkLabelsBefore *
gk_keep_labels(GkEngine *engine, int64 rows, const int32 *ids)
{
	GkLabelsBefore *before = palloc(sizeof(GkLabelsBefore));

	before->file = BufFileCreateTemp(false);
	before->rows = rows;
	before->labels = gk_allocate(WINDOW_ROWS, sizeof(int32));
	before->ids = gk_allocate(WINDOW_ROWS, sizeof(int32));
	for (int64 from = 0; from < rows; from += WINDOW_ROWS)
	{
		int			count = fetch_ids(before, engine, from, ids);

		BufFileWrite(before->file, before->labels, count * sizeof(int32));
	}
	return before;
}

/* Counts the rows that now have another id. */
int64
gk_count_moved(GkLabelsBefore *before, GkEngine *engine, const int32 *ids)
{
	int64		moved = 0;

	if (BufFileSeek(before->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file: %m")));
	for (int64 from = 0; from < before->rows; from += WINDOW_ROWS)
	{
		int			count = fetch_ids(before, engine, from, ids);

		if (BufFileRead(before->file, before->ids, count * sizeof(int32)) !=
			count * sizeof(int32))
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read a temporary file: %m")));
		for (int i = 0; i < count; i++)
			moved += before->labels[i] != before->ids[i];
	}
	BufFileClose(before->file);
	return moved;
}
