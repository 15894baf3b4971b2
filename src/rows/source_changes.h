/*
 * Tells if what a query names, or rows of a table, were changed since a snapshot was taken.
 */
#ifndef GK_SOURCE_CHANGES_H
#define GK_SOURCE_CHANGES_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "utils/snapshot.h"

/* The functions that a query calls, but for those of PostgreSQL: a list of OIDs. */
extern List *gk_functions_of(const Query *query);

/* The list, and those that a plan has in their place, because their bodies were put into it. */
extern List *gk_with_inlined(List *functions, const PlannedStmt *plan);

/*
 * True if one of the tables, views and functions is not what the snapshot sees: its rows may be as
 * new, and not be seen either.
 */
extern bool gk_is_changed(const List *tables, const List *functions, Snapshot snapshot);

/*
 * The same for a snapshot that must not be left for a newer one.  Rows that it sees may be missing;
 * they are not after changes of a table's privileges, triggers, settings or indexes that are not
 * unique, and after VACUUM FULL and CLUSTER.
 */
extern bool gk_is_replaced(const List *tables, const List *functions, Snapshot snapshot);

/* True if one of the tables has rows now; foreign tables count as if they had. */
extern bool gk_have_rows(const List *tables);

/*
 * True if one of the tables has other rows now than the snapshot sees: rows that were committed
 * since, or that are gone.  Those of foreign tables are not looked at.
 */
extern bool gk_have_other_rows(const List *tables, Snapshot snapshot);

/*
 * True if rows of a table or composite type that were made since the snapshot was taken can be read
 * by its columns of now, and those of these numbers still have their names.  Columns that it does
 * not see were added since, or all of the type.
 */
extern bool gk_sees_columns(Oid id, TupleDesc columns, const int *numbers, int count,
							Snapshot snapshot);

#endif							/* GK_SOURCE_CHANGES_H */
