/*
 * Compares plans of a source.
 */
#ifndef GK_SOURCE_PLAN_H
#define GK_SOURCE_PLAN_H

#include "postgres.h"

#include "nodes/plannodes.h"

/*
 * True if two plans of a text are the same, but for how much the planner expects: by one snapshot
 * they read the same rows, whatever names meant while they were made.  False for plans of Citus,
 * which numbers them, and where what a node has besides expressions takes a megabyte.
 */
extern bool gk_are_same_plans(const PlannedStmt *one, const PlannedStmt *other);

#endif							/* GK_SOURCE_PLAN_H */
