/*
 * Makes sure that the aggregates of a plan are those that it was made for.
 */
#ifndef GK_SOURCE_AGGREGATES_H
#define GK_SOURCE_AGGREGATES_H

#include "postgres.h"

#include "nodes/plannodes.h"

/*
 * Raises 55000 if an aggregate that a plan calls was replaced by one with a state of another type.
 * The executor takes that type from the plan, but the functions of the state from the catalog as it
 * is when the plan is started.
 */
extern void gk_check_aggregates(const PlannedStmt *plan);

#endif							/* GK_SOURCE_AGGREGATES_H */
