/*
 * What the values of a type consist of.
 */
#ifndef GK_ID_PARTS_H
#define GK_ID_PARTS_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * The types that values of a type consist of, in domains, arrays, ranges and columns, with the
 * modifiers of columns: a list of OIDs.  Whoever else would alter or drop them waits for the
 * transaction.  It begins with InvalidOid if the type does not exist.
 */
extern List *gk_id_parts(Oid type);

/* Raises 42704 if the type of a column was dropped since, 55000 if it was altered. */
extern void gk_check_id_parts(Oid type, const List *parts, const char *column);

#endif							/* GK_ID_PARTS_H */
