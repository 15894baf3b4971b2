/*
 * Which labels tables were labelled.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "labelled_tables.h"

#if PG_VERSION_NUM < 160000
#define object_aclcheck(class, object, user, mode) pg_namespace_aclcheck(object, user, mode)
#endif

#if PG_VERSION_NUM >= 180000
#define PRIMARY_KEY_INDEX(relation) RelationGetPrimaryKeyIndex(relation, false)
#else
#define PRIMARY_KEY_INDEX(relation) RelationGetPrimaryKeyIndex(relation)
#endif

/* Opens the extension's table; NULL without it, as before ALTER EXTENSION UPDATE. */
static Relation
open_table(LOCKMODE mode)
{
	Oid			schema = get_namespace_oid("gkmeans", true);
	Oid			extension = get_extension_oid("gkmeans", true);
	Oid			id = OidIsValid(schema) ? get_relname_relid("labelled_tables", schema)
		: InvalidOid;

	if (!OidIsValid(id) || !OidIsValid(extension) ||
		getExtensionOfObject(RelationRelationId, id) != extension)
		return NULL;
	return try_table_open(id, mode);
}

/* True if the owner of a table may write to it by its name. */
static bool
is_writable(Relation relation)
{
	const AclMode needed = ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE;
	Oid			owner = relation->rd_rel->relowner;

	return object_aclcheck(NamespaceRelationId, RelationGetNamespace(relation), owner,
						   ACL_USAGE) == ACLCHECK_OK &&
		pg_class_aclmask(RelationGetRelid(relation), owner, needed, ACLMASK_ALL) == needed;
}

/*
 * True if writing to a table runs nothing of others as its owner: whoever has got the privilege can
 * make a trigger, or a foreign key that refers to it.
 */
static bool
is_plain(Relation relation)
{
	return relation->rd_rel->relkind == RELKIND_RELATION && relation->trigdesc == NULL &&
		relation->rd_rules == NULL && !relation->rd_rel->relrowsecurity;
}

/* True if a table has a row, which was written since a snapshot was taken unless that is NULL. */
static bool
has_row(Relation relation, Oid table, Snapshot since)
{
	Oid			index = PRIMARY_KEY_INDEX(relation);
	ScanKeyData key;
	SysScanDesc scan;
	bool		has = false;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(table));
	/* no snapshot of a serializable transaction: rows of other tables would conflict with it */
	scan = systable_beginscan(relation, index, OidIsValid(index), SnapshotSelf, 1, &key);
	while (!has && HeapTupleIsValid(systable_getnext(scan)))
		has = since == NULL || !table_tuple_satisfies_snapshot(relation, scan->slot, since);
	systable_endscan(scan);
	return has;
}

/* True if all of the tables have one. */
static bool
have_rows(Relation relation, const List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
		if (!has_row(relation, lfirst_oid(cell), NULL))
			return false;
	return true;
}

/* The OIDs of tables as an array. */
static Datum
array_of(const List *tables)
{
	Datum	   *elements = palloc(list_length(tables) * sizeof(Datum));
	int			count = 0;
	ListCell   *cell;

	foreach(cell, tables)
		elements[count++] = ObjectIdGetDatum(lfirst_oid(cell));
	return PointerGetDatum(construct_array(elements, count, OIDOID, sizeof(Oid), true,
										   TYPALIGN_INT));
}

/* Runs a command on the extension's table; an array of tables is its parameter. */
static void
run(const char *command, int expected, Datum tables)
{
	Oid			type = OIDARRAYOID;
	int			code = SPI_execute_with_args(command, 1, &type, &tables, NULL, false, 0);

	if (code != expected)
		elog(ERROR, "could not note labels: %s", SPI_result_code_string(code));
}

/*
 * Writes tables into the extension's table, as its owner.  Those that are gone are deleted when
 * others come: to look for them reads all rows, also the dead ones that a long transaction leaves.
 */
static void
write_down(Relation relation, const List *noted)
{
	Datum		tables = array_of(noted);
	bool		is_growing = !have_rows(relation, noted);
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(relation->rd_rel->relowner,
						   context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	run("INSERT INTO gkmeans.labelled_tables AS l SELECT t.id, pg_catalog.now()"
		" FROM pg_catalog.unnest($1) AS t (id) ORDER BY t.id"
		" ON CONFLICT (table_id) DO UPDATE SET labelled_at = excluded.labelled_at",
		SPI_OK_INSERT, tables);
	/* nobody waits for another who deletes them, but a transaction with one snapshot would fail */
	if (is_growing && !IsolationUsesXactSnapshot())
		run("DELETE FROM gkmeans.labelled_tables WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
			"SELECT l.ctid FROM gkmeans.labelled_tables AS l"
			" WHERE l.table_id OPERATOR(pg_catalog.<>) ALL ($1) AND NOT EXISTS (SELECT"
			" FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=) l.table_id)"
			" FOR UPDATE SKIP LOCKED))",
			SPI_OK_DELETE, tables);
	SetUserIdAndSecContext(user, context);
}

/* Notes that tables were labelled. */
void
gk_note_labelled(const List *tables)
{
	Relation	relation = open_table(RowExclusiveLock);

	if (relation == NULL)
		return;
	if (is_plain(relation) && is_writable(relation))
		write_down(relation, tables);
	table_close(relation, NoLock);
}

/* True if one of the tables was labelled since a snapshot was taken. */
bool
gk_are_labelled_since(const List *tables, Snapshot snapshot)
{
	Relation	relation = open_table(AccessShareLock);
	bool		are = false;
	ListCell   *cell;

	if (relation == NULL)
		return false;
	foreach(cell, tables)
	{
		CHECK_FOR_INTERRUPTS();
		are = are || has_row(relation, lfirst_oid(cell), snapshot);
	}
	table_close(relation, AccessShareLock);
	return are;
}

/* True if a transaction that was prepared before the server started has locked a table. */
static bool
is_locked_by_prepared(Oid table)
{
	LOCKTAG		tag;
	VirtualTransactionId *holders;
	int			count;
	bool		is = false;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
	holders = GetLockConflicts(&tag, ShareUpdateExclusiveLock, &count);
	for (int i = 0; i < count; i++)
		is = is || VirtualTransactionIdIsRecoveredPreparedXact(holders[i]);
	pfree(holders);
	return is;
}

/* True if word may be lost that one of the tables was labelled. */
bool
gk_may_have_lost_note(const List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
		if (is_locked_by_prepared(lfirst_oid(cell)))
			return true;
	return false;
}
