/*
 * Which labels tables were labelled.
 *
 * A call that read older rows must not write its labels over those of a newer one, but the rows of
 * the table do not tell of labels that were right already, nor of those that came and went.  So
 * calls leave word in a table of the extension, gkmeans.labelled_tables.  It is unlogged: a crash
 * ends the calls that it is for, and whoever left word, unless that transaction was prepared.
 */
#ifndef GK_LABELLED_TABLES_H
#define GK_LABELLED_TABLES_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/* Notes that tables were labelled, which are locked against others who would.  SPI is connected. */
extern void gk_note_labelled(const List *tables);

/* True if one of the tables was labelled since a snapshot was taken. */
extern bool gk_are_labelled_since(const List *tables, Snapshot snapshot);

/*
 * True if a transaction that has lived through a start of the server, perhaps a crash, and has not
 * ended may have labelled one of the tables: its word may be lost.
 */
extern bool gk_may_have_lost_note(const List *tables);

#endif							/* GK_LABELLED_TABLES_H */
