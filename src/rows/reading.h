/*
 * The reading of a source: runs the feed over its rows and brings them into an engine.
 */
#ifndef GK_READING_H
#define GK_READING_H

#include "postgres.h"

#include "job.h"
#include "row_ids.h"
#include "shift.h"
#include "trouble_counts.h"
#include "source.h"

/*
 * The planner's estimate of the source: how many rows, and how many features per row.  The plan is
 * that of gk_source_read(), in the same call, unless something has changed by then.
 */
extern void gk_source_estimate(GkSource *source, double *rows, double *dimension);

/* The result of a reading. */
typedef struct GkRows
{
	int64		read;			/* rows of the source */
	int64		skipped;		/* unusable ones, not in the engine */
	int			dimension;		/* 0 if no row was usable */
	double	   *shift;			/* dimension: stored float32 = value - shift */
	GkRowIds   *ids;			/* NULL without an id column */
	Oid			id_type;		/* of the ids */
	int			workers;		/* parallel workers that fed rows */
	Size		ring_bytes;		/* size of the ring */
	bool		read_twice;		/* the first guess of the shift was wrong */
	bool		is_newer;		/* seen by a newer snapshot than the active one */
	bool		has_foreign_table;	/* among those of the plan; never over nodes, but … */
	const char *empty_node;		/* … one that read no row from such a table; NULL = none */
	int64	   *unusable;		/* by column of features: how many rows it made unusable */
	const char *trouble;		/* why no row was usable, column by column; NULL if a row was */
	double	   *least;			/* dimension: the ranges of the values as they were; NULL if … */
	double	   *greatest;		/* … nothing is shifted, or no row was usable */
	GkTroubleCounts counts;
} GkRows;

/*
 * Runs the source and appends its rows to the engine (lend_buffer, set_dimension, append;
 * not sealed).  The job owns ring, thread and ids; the first two end with the call.
 * SPI must be connected.
 * A node may read its source again: the same rows, if its transaction keeps them.
 */
extern void gk_source_read(GkSource *source, GkJob *job, GkEngine *engine, GkRows *rows);

/*
 * Raises an error if a shift never served the rows that were read next, after so many times that
 * they were read again.
 */
extern void gk_check_readings(int again);

/* True if the source has a plan, of an estimate or a reading, and nothing has changed since. */
extern bool gk_source_is_current(const GkSource *source);

/* How a feature is shifted. */
extern GkFeatureClass gk_feature_class(const GkSource *source, int feature);

/* Fills in ->unusable and ->trouble from the counts of a source that was read. */
extern void gk_describe_unusable(const GkSource *source, GkJob *job, GkRows *rows);

/* Raises 22003 if the shift of a model makes rows infinite; a node does so before it uses them. */
extern void gk_check_shifted(const GkSource *source, const GkRows *rows);

/* Frees the ids before the end of the job. */
extern void gk_rows_release(GkRows *rows);

#endif							/* GK_READING_H */
