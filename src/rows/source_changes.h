/*
 * Tells if what a query names was changed since a snapshot was taken.
 */
#ifndef GK_SOURCE_CHANGES_H
#define GK_SOURCE_CHANGES_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/*
 * True if one of the tables, views and functions is not what the snapshot sees: its rows may be as
 * new, and not be seen either.
 */
extern bool gk_is_changed(const List *tables, const List *functions, Snapshot snapshot);

/*
 * The same for a snapshot that must not be left for a newer one.  Rows that it sees may be missing;
 * they are not after changes of a table's privileges, triggers, settings or indexes that are not
 * unique, of privileges, settings and defaults of columns and privileges of views, and after VACUUM
 * FULL and CLUSTER.
 */
extern bool gk_is_replaced(const List *tables, const List *functions, Snapshot snapshot);

/*
 * True if the names of relations meant other ones when a snapshot was taken, or meant nothing.
 * These need not be locked.
 */
extern bool gk_is_renamed(const List *relations, Snapshot snapshot);

/*
 * True if names have come to mean one of these relations and functions since a moment, or another
 * one, even if they mean what they meant then.  The relations need not be locked.
 */
extern bool gk_is_named_anew(const List *relations, const List *functions, Snapshot moment);

/*
 * True if the own transaction has altered one of the tables and views since a moment, so that a
 * plan of then does not fit it: its columns, children, constraints, rules, policies, unique indexes
 * or file.  What others do is not looked at.
 */
extern bool gk_has_altered(const List *tables, Snapshot moment);

/* The same, or has changed a table in any other way, or one of the functions. */
extern bool gk_has_changed(const List *tables, const List *functions, Snapshot moment);

/*
 * True if rows of a table or composite type that were made since the snapshot was taken can be read
 * by its columns of now, and those of these numbers still have their names.  Columns that it does
 * not see were added since, or all of the type.
 */
extern bool gk_sees_columns(Oid id, TupleDesc columns, const int *numbers, int count,
							Snapshot snapshot);

#endif							/* GK_SOURCE_CHANGES_H */
