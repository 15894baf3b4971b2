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

/* The tables that an analysed query reads, likewise, with their partitions and children. */
extern List *gk_tables_read(Query *query);

/*
 * True if an analysed query reads a view, itself or through views, materialised ones too, and
 * policies of tables, for whomever they are.  What functions read is not seen.
 */
extern bool gk_reads_view(Query *query, Oid relation_id);

/* True if two lists of OIDs in order have one in common. */
extern bool gk_have_common(const List *a, const List *b);

/* A family of tables: a table with its partitions or children, in the order of OIDs. */
extern List *gk_family_of(Oid relation_id);

/*
 * The names of the columns of a family of tables that a column of a table in FROM is, or is
 * generated from; number 0 is all of them.  NIL if that table is neither one of the family nor a
 * parent.
 */
extern List *gk_columns_of_family(const RangeTblEntry *table, AttrNumber column, List *family);

#endif							/* GK_SOURCE_TABLES_H */
