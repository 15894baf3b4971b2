/*
 * The tasks of a plan of Citus.
 */
#ifndef GK_CITUS_PLAN_H
#define GK_CITUS_PLAN_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* A task: a query that Citus sends to one of its workers. */
typedef struct GkCitusTask
{
	char	   *query;
	char	   *address;		/* of the worker, as EXPLAIN writes it */
} GkCitusTask;

/* The tasks of a source. */
typedef struct GkCitusTasks
{
	GkCitusTask *all;
	int			count;
} GkCitusTasks;

/*
 * Reads the tasks of a plan, which sends nothing to the workers; false if they are not all there:
 * Citus finds them later, or in several steps, or writes its plans in another way.
 */
extern bool gk_citus_plan_tasks(const PlannedStmt *plan, GkCitusTasks *tasks);

#endif							/* GK_CITUS_PLAN_H */
