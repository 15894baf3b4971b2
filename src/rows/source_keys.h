/*
 * Which columns of a query only tell rows apart: those of primary keys, and identity columns.
 */
#ifndef GK_SOURCE_KEYS_H
#define GK_SOURCE_KEYS_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * "primary key" or "identity" if an output column of the query, counted from 1, is such a column of
 * a table, unchanged; NULL if not.  Views, subqueries and both sides of a UNION are looked through.
 */
extern const char *gk_key_of_column(const Query *query, int column);

#endif							/* GK_SOURCE_KEYS_H */
