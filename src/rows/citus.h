/*
 * What is different where Citus keeps the rows.
 *
 * Citus replaces the planner.  Without it, nothing here does anything.
 */
#ifndef GK_CITUS_H
#define GK_CITUS_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "utils/snapshot.h"

/* True if this database has Citus. */
extern bool gk_has_citus(void);

/* True if Citus keeps the rows of a table: distributed, reference, or local but in its metadata. */
extern bool gk_is_citus_table(Oid relation_id);

/* The column by which Citus distributes the rows of a table; NULL if it does not. */
extern const char *gk_citus_column(Oid relation_id);

/* True if Citus keeps one copy of each of its rows, which it distributes by a column. */
extern bool gk_citus_has_one_copy(Oid relation_id);

/* True if all its rows are on each server of Citus, or on this one: a reference or local table. */
extern bool gk_citus_has_whole_table(Oid relation_id);

/*
 * True if shards of tables, of which Citus keeps some, were moved, copied or split since the
 * transaction, which keeps its snapshots, began: Citus' sessions copy the rows.
 */
extern bool gk_citus_has_moved(const List *tables);

/*
 * The search path of the session, with pg_catalog first if it comes later there: Citus writes tasks
 * and the rest of queries that it divides with the names of pg_catalog unqualified.
 */
extern const char *gk_citus_search_path(void);

/*
 * Sets that search path until the nest level of settings ends: for queries that Citus divides on
 * this server, and commands, whose names were looked up before, or have their schema.
 */
extern void gk_citus_set_search_path(void);

/*
 * Sets, until that level ends, the styles in which every server reads a value as it is: Citus sends
 * constants and parameters, and rows with values of composite types, to its workers as text.
 */
extern void gk_citus_set_styles(void);

/* True if Citus plans a rewritten query, because it reads such a table. */
extern bool gk_is_citus_query(const Query *query);

/*
 * True if Citus plans a command, because it names such a table, or rules and policies do.  Locks
 * the tables as the command would.  SPI must be connected.
 */
extern bool gk_is_citus_command(const char *command);

#endif							/* GK_CITUS_H */
