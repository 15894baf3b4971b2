/*
 * Finds the columns of a query that only identify rows: primary keys and identity columns.
 */
#ifndef GK_SOURCE_KEYS_H
#define GK_SOURCE_KEYS_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * "primary key" or "identity" if an output column of the query, counted from 1, is such a
 * column of a table, unchanged; NULL if not.  Looks through views, subqueries and all sides of a
 * UNION.
 */
extern const char *gk_key_of_column(const Query *query, int column);

#endif							/* GK_SOURCE_KEYS_H */
