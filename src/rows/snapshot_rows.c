/*
 * What snapshots see of the rows of tables.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "snapshot_rows.h"

/*
 * True if nothing was committed or done since a snapshot was taken.  The number of transactions in
 * progress is not enough: one that is being prepared is listed twice for a while.
 */
bool
gk_is_latest(Snapshot snapshot)
{
	Snapshot	latest = GetLatestSnapshot();

	return !latest->takenDuringRecovery && !snapshot->takenDuringRecovery &&
		latest->xmin == snapshot->xmin && latest->xmax == snapshot->xmax &&
		latest->xcnt == snapshot->xcnt && latest->curcid == snapshot->curcid &&
		(latest->xcnt == 0 ||
		 memcmp(latest->xip, snapshot->xip, latest->xcnt * sizeof(TransactionId)) == 0);
}

/* Pushes the snapshot of a call that writes. */
void
gk_push_writer_snapshot(void)
{
	CommandCounterIncrement();
	PushActiveSnapshot(IsolationUsesXactSnapshot() ? GetTransactionSnapshot()
					   : GetLatestSnapshot());
}

/* True if a snapshot sees rows in a table. */
bool
gk_sees_rows(Oid id, Snapshot snapshot)
{
	Relation	relation = table_open(id, AccessShareLock);
	TableScanDesc scan = table_beginscan(relation, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	bool		sees = table_scan_getnextslot(scan, ForwardScanDirection, slot);

	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	return sees;
}

/* True if a snapshot sees a row of a table that another one does not see. */
static bool
sees_more(Relation relation, Snapshot snapshot, Snapshot other)
{
	TableScanDesc scan = table_beginscan(relation, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	bool		more = false;

	while (!more && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		more = !table_tuple_satisfies_snapshot(relation, slot, other);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	return more;
}

/* True if a snapshot sees a row of a table that is gone, or does not see one that is new. */
bool
gk_sees_otherwise(Oid id, Snapshot snapshot, bool gone)
{
	Relation	relation = table_open(id, AccessShareLock);
	Snapshot	latest = RegisterSnapshot(GetLatestSnapshot());
	bool		sees = gone ? sees_more(relation, snapshot, latest)
		: sees_more(relation, latest, snapshot);

	UnregisterSnapshot(latest);
	table_close(relation, AccessShareLock);
	return sees;
}

/* True if a table has other rows now than a snapshot sees. */
static bool
has_other_rows(Oid id, Snapshot snapshot)
{
	Relation	relation = try_table_open(id, AccessShareLock);
	Snapshot	latest;
	bool		differ = false;

	if (relation == NULL)
		return true;
	if (relation->rd_rel->relkind == RELKIND_RELATION)
	{
		latest = RegisterSnapshot(GetLatestSnapshot());
		differ = sees_more(relation, latest, snapshot) || sees_more(relation, snapshot, latest);
		UnregisterSnapshot(latest);
	}
	table_close(relation, AccessShareLock);
	return differ;
}

/* True if tables have other rows now. */
bool
gk_have_other_rows(const List *tables, Snapshot snapshot)
{
	ListCell   *cell;

	if (gk_is_latest(snapshot))
		return false;
	foreach(cell, tables)
		if (has_other_rows(lfirst_oid(cell), snapshot))
			return true;
	return false;
}

/* True if one of the tables has rows now, or may have. */
bool
gk_have_rows(const List *tables)
{
	Snapshot	latest = RegisterSnapshot(GetLatestSnapshot());
	bool		have = false;
	ListCell   *cell;

	foreach(cell, tables)
	{
		Oid			id = lfirst_oid(cell);
		char		kind = get_rel_relkind(id);

		have = have || kind == RELKIND_FOREIGN_TABLE ||
			(kind == RELKIND_RELATION && gk_sees_rows(id, latest));
	}
	UnregisterSnapshot(latest);
	return have;
}
