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
	char	   *address;		/* of the worker, as a connection string */
} GkCitusTask;

/* The tasks of a source. */
typedef struct GkCitusTasks
{
	GkCitusTask *all;
	int			count;
} GkCitusTasks;

/* True if a plan, of any command, is that of tasks and nothing else. */
extern bool gk_citus_plan_is_of_tasks(const PlannedStmt *plan);

/*
 * Reads the tasks of a plan, which sends nothing to the workers; why they are not all that is to be
 * done, or NULL.
 */
extern const char *gk_citus_plan_tasks(const PlannedStmt *plan, GkCitusTasks *tasks);

#endif							/* GK_CITUS_PLAN_H */
