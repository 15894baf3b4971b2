/*
 * The reading of a source: runs the feed over its rows and brings them into an engine.
 */
#ifndef GK_READING_H
#define GK_READING_H

#include "postgres.h"

#include "job.h"
#include "row_ids.h"
#include "source.h"

/* The planner's estimate of the source: how many rows, and how many features per row. */
extern void gk_source_estimate(const GkSource *source, double *rows, double *dimension);

/* The result of a reading. */
typedef struct GkRows
{
	int64		read;			/* rows of the source */
	int64		skipped;		/* unusable ones, not in the engine */
	int			dimension;		/* 0 if no row was usable */
	double	   *shift;			/* dimension: stored float32 = value - shift */
	GkRowIds   *ids;			/* NULL without an id column */
	int			workers;		/* parallel workers that fed rows */
	Size		ring_bytes;		/* size of the ring */
	bool		read_twice;		/* the first guess of the shift was wrong */
	int64	   *unusable;		/* by column of features: how many rows it made unusable */
	const char *trouble;		/* why no row was usable, column by column; NULL if a row was */
} GkRows;

/*
 * Runs the source and appends its rows to the engine (lend_buffer, set_dimension, append;
 * not sealed).  The job owns ring, thread and ids; the first two end with the call.
 * SPI must be connected.
 */
extern void gk_source_read(GkSource *source, GkJob *job, GkEngine *engine, GkRows *rows);

/* Frees the ids before the end of the job. */
extern void gk_rows_release(GkRows *rows);

#endif							/* GK_READING_H */
