/*
 * Functions that SQL calls: all that the module exports besides _PG_init.
 */
#ifndef GK_SQL_FUNCTION_H
#define GK_SQL_FUNCTION_H

#include "postgres.h"

#include "fmgr.h"

/* Before PostgreSQL 16 PG_FUNCTION_INFO_V1() leaves a function hidden. */
#define GK_SQL_FUNCTION(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)

#endif							/* GK_SQL_FUNCTION_H */
