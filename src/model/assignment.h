/*
 * What gkmeans_assign() is asked for: its arguments, and where they are left out, the definition of
 * the model.
 */
#ifndef GK_ASSIGNMENT_H
#define GK_ASSIGNMENT_H

#include "postgres.h"

#include "fmgr.h"

#include "arguments.h"

/* Names of tables are qualified. */
typedef struct GkAssignRequest
{
	Oid			model;
	int			version;		/* 0 = the deployed one */
	GkArguments arguments;		/* source, id column, and where the labels go */
	int			nest_level;		/* of the settings: the search path may be the definition's */
} GkAssignRequest;

/*
 * Reads it, in the current memory context.  Only the owner of the model may leave it to the
 * definition, which is his text: 42501.  22004 for what neither says.  The search path is that of
 * the definition from now on if the source is.
 */
extern void gk_begin_assignment(FunctionCallInfo fcinfo, GkAssignRequest *assignment);

/* Sets the search path back. */
extern void gk_end_assignment(const GkAssignRequest *assignment);

#endif							/* GK_ASSIGNMENT_H */
