/*
 * Finds the columns of a table that a query reads.
 */
#ifndef GK_SOURCE_TABLES_H
#define GK_SOURCE_TABLES_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * The names of the columns of a table that an analysed query reads, itself or through views,
 * partitions and children; of a view, all that it reads.  NIL if the query does not read the table.
 * Also tells if it reads anything else.
 */
extern List *gk_columns_read(Query *query, Oid relation_id, bool *has_others);

/*
 * True if an output column of an analysed query is a column of a table, a partition, a child or a
 * parent of it, itself or through views.  An expression is taken for it if it is called so.
 */
extern bool gk_is_column_of(const TargetEntry *entry, Oid relation_id, const char *column);

#endif							/* GK_SOURCE_TABLES_H */
