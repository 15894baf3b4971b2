/*
 * The tables whose labels a call has found to be right, and so has not written.
 *
 * A call that read older rows must not write its labels over those, but no row tells.  So there is
 * a table of the extension, gkmeans.confirmed_labels, unlogged like the calls that it is for.
 */
#ifndef GK_CONFIRMED_LABELS_H
#define GK_CONFIRMED_LABELS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/* Records that for tables, which are locked against others who would.  SPI must be connected. */
extern void gk_confirm_labels(const List *tables);

/* True if that was recorded for one of the tables since a snapshot was taken. */
extern bool gk_are_confirmed_since(const List *tables, Snapshot snapshot);

#endif							/* GK_CONFIRMED_LABELS_H */
