/*
 * Ways through an analysed query: the queries around each part of it, and what was seen already.
 */
#ifndef GK_SOURCE_LEVELS_H
#define GK_SOURCE_LEVELS_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "utils/hsearch.h"
#include "utils/relcache.h"

/* A query, and those around it, to which its references may lead. */
typedef struct GkLevel
{
	const Query *query;
	const struct GkLevel *outer;
} GkLevel;

/*
 * What a search has seen: recursive queries come back to it, and expressions and queries may name
 * it often.  Views stay open, so that their queries stay in place.
 */
typedef struct GkTrail
{
	HTAB	   *visits;
	List	   *views;			/* of Relation */
} GkTrail;

/* The level that is some levels further out. */
extern const GkLevel *gk_outer_level(const GkLevel *level, Index levels);

/* The query of a common table expression that FROM names at a level. */
extern GkLevel gk_level_of_with(const GkLevel *level, const RangeTblEntry *table);

/* The query of a view, materialised or not; NULL of anything else. */
extern Query *gk_view_query(Relation view);

/* Begins a search. */
extern void gk_begin_trail(GkTrail *trail);

/* Ends a search, and closes its views. */
extern void gk_end_trail(GkTrail *trail);

/* True if a column of a query or of an entry of FROM was not seen before. */
extern bool gk_is_new(GkTrail *trail, const void *place, int column);

/* As gk_view_query(), of a view that is opened until the search ends. */
extern Query *gk_open_view(GkTrail *trail, Oid view_id);

#endif							/* GK_SOURCE_LEVELS_H */
