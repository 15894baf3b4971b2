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

#endif							/* GK_SOURCE_FUNCTIONS_H */
