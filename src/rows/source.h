/*
 * The row source: runs the user's query through the executor and brings its
 * rows, as float32, into an engine.
 *
 * source.c parses and describes the source, and reading.c runs
 *     SELECT _gkmeans_feed(…, id, weight, features …) FROM (source) AS source
 * The aggregate (feed_aggregate.c) runs in parallel workers if the planner allows them.  It
 * decodes rows (decode.c) into batches of a ring in dynamic shared memory (ring.c); one thread
 * of the backend (drain.c) moves ready batches into the engine.  Ids take a separate path,
 * through a shared tuplestore (row_ids.c).
 */
#ifndef GK_SOURCE_H
#define GK_SOURCE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "nodes/plannodes.h"
#include "utils/snapshot.h"

#include "source_text.h"

/*
 * What the first of two readings keeps for the second, which must be of the same; zero before the
 * first.  The caller unregisters the snapshot.
 */
typedef struct GkFirstReading
{
	MemoryContext context;		/* of the tree and the lists; outlives the reading */
	Snapshot	snapshot;		/* NULL over nodes */
	CommandId	command;		/* the own transaction's, before its plan */
	Node	   *meaning;		/* of the source to the plan: its query, analysed, or its table */
	List	   *schemas;		/* of the search_path, gk_usable_schemas() */
	List	   *functions;		/* that it calls … */
	List	   *function_rows;	/* … and gk_rows_of_functions() of them */
	Query	   *rewritten;		/* the query, expanded … */
	PlannedStmt *plan;			/* … and its plan */
	bool		is_doubtful;	/* names may have changed each time that it was planned */
} GkFirstReading;

/* The arguments of the user. */
typedef struct GkSourceSpec
{
	const char *source;			/* a relation name or one SELECT, VALUES, TABLE or WITH */
	List	   *features;		/* of char *; NIL = all numbers but keys, or the only array */
	const char *id_column;		/* NULL = none */
	const char *id_argument;	/* that names it; NULL = id_column */
	const char *weight_column;	/* NULL = none */
	Oid			id_type;		/* cast the ids to this type; InvalidOid = as they are */
	int			dimension;		/* 0 = unknown; else rows of a model … */
	const double *shift;		/* … with this shift, `dimension` numbers; NULL = none */
	bool		nulls_are_errors;	/* NULL, NaN, infinity: an error, or skipped rows */
	GkFirstReading *first;		/* of two; NULL = there is one */
	bool		of_node;		/* read in a transaction that gkmeans began for it */
	const GkTextSettings *settings;	/* by which it is read; NULL = those of now */
} GkSourceSpec;

/* A described source: parsed and checked, not yet run. */
typedef struct GkSource GkSource;

/* Parses the source, finds its columns and checks their names and types. */
extern GkSource *gk_source_describe(const GkSourceSpec *spec);

/* Raises 42703 if there is no column that an argument names, 42702 if there are two. */
extern void gk_source_require(const GkSourceText *text, const char *name, const char *argument);

/* The type of the id column, InvalidOid if there is none. */
extern Oid	gk_source_id_type(const GkSource *source);

/* The query of all its columns, analysed by what its names mean now. */
extern Query *gk_source_analyze(const GkSource *source);

/* Raises 55000 if the columns of the source, by what its names mean now, are others. */
extern void gk_source_check_columns(const GkSource *source);

/*
 * Declares that rows are shifted as those of a model: `dimension` numbers, NULL = not at all.  If
 * that is 0, a shift is found.
 */
extern void gk_source_shift(GkSource *source, int dimension, const double *shift);

/*
 * Raises an error if the type of the id column is no longer what it was: 42704 if it was dropped,
 * 55000 if it was altered.
 */
extern void gk_source_check_ids(const GkSource *source);

/* The names of the feature columns; an array is one of them, alone. */
extern const char *const *gk_source_features(const GkSource *source, int *count, bool *is_array);

/*
 * The names of the columns of a table that the source reads; NIL if it does not read the table.
 * Also tells if it reads anything else.
 */
extern List *gk_source_columns_of(const GkSource *source, Oid relation_id, bool *has_others);

/*
 * Declares that the source must not read tables, which will be written to: a list of OIDs in order.
 * It does not, as far as is known, but its names may mean other tables by the time it is planned:
 * 55000 then.
 */
extern void gk_source_forbid(GkSource *source, List *tables);

/*
 * Declares that labels or a version are written by the rows, which then must be there: 40001 if the
 * snapshot of a transaction misses rows, because others have replaced them.
 */
extern void gk_source_write(GkSource *source);

/* The tables that the source reads, with their partitions and children, in the order of OIDs. */
extern List *gk_source_tables(const GkSource *source);

/* The same by what its names mean now. */
extern List *gk_source_tables_now(const GkSource *source);

/* True if a feature or the weight is computed from that column of a table or of a relative. */
extern bool gk_source_is_made_of(const GkSource *source, Oid relation_id, const char *column);

/*
 * Declares that rows are compared by direction: they are not shifted, and an all-zero row is
 * unusable.
 */
extern void gk_source_by_direction(GkSource *source);

#endif							/* GK_SOURCE_H */
