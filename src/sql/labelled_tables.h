/*
 * Which labels tables were labelled.
 *
 * A call that read older rows must not write its labels over those of a newer one, but the rows of
 * the table do not tell of labels that were right already, nor of those that came and went.  So
 * calls leave word in a table of the extension, gkmeans.labelled_tables, unlogged like the calls
 * that it is for.
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

#endif							/* GK_LABELLED_TABLES_H */
