/*
 * The row source: runs the user's query through the executor and brings its
 * rows, as float32, into an engine.
 *
 * source.c parses and describes the source, and reading.c runs
 *     SELECT _gkmeans_feed(…, id, weight, features …) FROM (source) AS source
 * The aggregate (feed_aggregate.c) runs in the parallel workers where the planner
 * allows them; it decodes rows (decode.c) into batches of a ring in dynamic
 * shared memory (ring.c), and one thread of the backend (drain.c) moves ready batches
 * into the engine.  Ids travel beside the rows in a shared tuplestore (row_ids.c).
 */
#ifndef GK_SOURCE_H
#define GK_SOURCE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "nodes/pg_list.h"

/* What the user asked for. */
typedef struct GkSourceSpec
{
	const char *source;			/* a relation name or one SELECT, VALUES, TABLE or WITH */
	List	   *features;		/* of char *; NIL = every number that is no key, or the one array */
	const char *id_column;		/* NULL = none */
	const char *weight_column;	/* NULL = none */
	Oid			id_type;		/* cast the ids to this type; InvalidOid = as they come */
	int			dimension;		/* 0 = as the rows have it; else rows of a model … */
	const double *shift;		/* … dimension: what is taken off; NULL = nothing */
	bool		nulls_are_errors;	/* NULL, NaN, infinite: an error instead of a skipped row */
} GkSourceSpec;

/* A described source: parsed and checked, not yet run. */
typedef struct GkSource GkSource;

/* Parses the source, finds its columns and checks their names and types. */
extern GkSource *gk_source_describe(const GkSourceSpec *spec);

/* The type of the id column, InvalidOid if there is none. */
extern Oid	gk_source_id_type(const GkSource *source);

/* The names of the feature columns; an array is one of them, alone. */
extern const char *const *gk_source_features(const GkSource *source, int *count, bool *is_array);

/*
 * Says that rows are compared by their direction from zero: they are not shifted then, and
 * an all-zero row is unusable.
 */
extern void gk_source_by_direction(GkSource *source);

#endif							/* GK_SOURCE_H */
