/*
 * What snapshots see of the rows of tables.
 */
#ifndef GK_SNAPSHOT_ROWS_H
#define GK_SNAPSHOT_ROWS_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/*
 * True if nothing was committed or done since a snapshot was taken.  It may be false although
 * nothing was: where a transaction is being prepared, and during recovery.
 */
extern bool gk_is_latest(Snapshot snapshot);

/*
 * Pushes the snapshot of a call that writes.  It sees what the calling statement has written
 * before, and in READ COMMITTED what others have committed, also while the call waited for them.
 */
extern void gk_push_writer_snapshot(void);

/* True if a snapshot sees rows in a table. */
extern bool gk_sees_rows(Oid id, Snapshot snapshot);

/* True if a snapshot sees a row of a table that is gone, or does not see one that is new. */
extern bool gk_sees_otherwise(Oid id, Snapshot snapshot, bool gone);

/* True if one of the tables has rows now; foreign tables count as if they had. */
extern bool gk_have_rows(const List *tables);

/*
 * True if one of the tables has other rows now than the snapshot sees: rows that were committed
 * since, or that are gone.  Those of foreign tables are not looked at.
 */
extern bool gk_have_other_rows(const List *tables, Snapshot snapshot);

#endif							/* GK_SNAPSHOT_ROWS_H */
