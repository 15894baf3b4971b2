/*
 * Names of tables that a function makes.
 */
#ifndef GK_TABLE_NAME_H
#define GK_TABLE_NAME_H

#include "postgres.h"

#include "nodes/primnodes.h"

/*
 * The relation that a name means, or would mean if it were made now; its schema is filled
 * in, so that neither the search path nor another name can come between.  42602 if the argument
 * of that name is none.
 */
extern RangeVar *gk_table_name(const char *argument, const char *name);

/* The same, quoted. */
extern char *gk_quoted_name(const RangeVar *name);

/* Keeps others who call this from making a relation of that name until the transaction ends. */
extern void gk_lock_table_name(const RangeVar *name);

#endif							/* GK_TABLE_NAME_H */
