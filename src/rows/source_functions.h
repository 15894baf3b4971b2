/*
 * The functions that a query calls.
 */
#ifndef GK_SOURCE_FUNCTIONS_H
#define GK_SOURCE_FUNCTIONS_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* The functions that a query calls, but for those of PostgreSQL: a list of OIDs. */
extern List *gk_functions_of(const Query *query);

/* The list, and those that a plan has in their place, because their bodies were put into it. */
extern List *gk_with_inlined(List *functions, const PlannedStmt *plan);

/*
 * Which rows of the catalog functions have, as far as the caches of the session know, by which they
 * were analysed and planned: equal lists if none was altered or replaced.
 */
extern List *gk_rows_of_functions(const List *functions);

/*
 * True if one of them is a text, in SQL or another language, not a parsed body: its names are
 * looked up whenever a query is planned that it is put into, or for which it is called.
 */
extern bool gk_have_texts(const List *functions);

#endif							/* GK_SOURCE_FUNCTIONS_H */
