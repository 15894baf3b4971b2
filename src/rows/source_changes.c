/*
 * Tells if what a query names was changed since a snapshot was taken.
 *
 * Queries follow the catalogs as they are now, but see the rows of their snapshot.  Whoever swaps
 * tables, partitions or columns fills them in the same transaction, so both must be of one time.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_auth_members.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "snapshot_rows.h"
#include "source_changes.h"
#include "source_names.h"

/* A catalog, the index that finds its rows by an OID in a column, and what of them counts. */
typedef struct Facts
{
	Oid			catalog;
	Oid			index;
	AttrNumber	column;
	bool		(*is_left_out) (HeapTuple row, Snapshot snapshot);	/* NULL = none is */
	const AttrNumber *counting; /* up to a 0; NULL = also that a row is written anew */
} Facts;

static bool is_of_other_session(HeapTuple row, Snapshot snapshot);
static bool is_trigger(HeapTuple row, Snapshot snapshot);
static bool is_for_inserts(HeapTuple row, Snapshot snapshot);

/* What decides which rows a plan reads: not privileges, statistics targets and the like. */
static const AttrNumber planned_of_column[] = {
	Anum_pg_attribute_attnum, Anum_pg_attribute_attname, Anum_pg_attribute_atttypid,
	Anum_pg_attribute_atttypmod, Anum_pg_attribute_attcollation, Anum_pg_attribute_attnotnull,
	Anum_pg_attribute_attgenerated, Anum_pg_attribute_attisdropped,
	Anum_pg_attribute_attfdwoptions, InvalidAttrNumber
};
static const AttrNumber planned_of_view[] = {
	Anum_pg_class_relowner, Anum_pg_class_reloptions, InvalidAttrNumber
};

static const Facts of_table = {RelationRelationId, ClassOidIndexId, Anum_pg_class_oid};
static const Facts of_columns = {AttributeRelationId, AttributeRelidNumIndexId,
Anum_pg_attribute_attrelid};
static const Facts of_planned_view = {RelationRelationId, ClassOidIndexId, Anum_pg_class_oid,
NULL, planned_of_view};
static const Facts of_planned_columns = {AttributeRelationId, AttributeRelidNumIndexId,
Anum_pg_attribute_attrelid, NULL, planned_of_column};
static const Facts of_generated = {AttrDefaultRelationId, AttrDefaultIndexId,
Anum_pg_attrdef_adrelid, is_for_inserts};
static const Facts of_foreign_table = {ForeignTableRelationId, ForeignTableRelidIndexId,
Anum_pg_foreign_table_ftrelid};
static const Facts of_children = {InheritsRelationId, InheritsParentIndexId,
Anum_pg_inherits_inhparent, is_of_other_session};
static const Facts of_rules = {RewriteRelationId, RewriteRelRulenameIndexId,
Anum_pg_rewrite_ev_class};
static const Facts of_policies = {PolicyRelationId, PolicyPolrelidPolnameIndexId,
Anum_pg_policy_polrelid};
static const Facts of_constraints = {ConstraintRelationId, ConstraintRelidTypidNameIndexId,
Anum_pg_constraint_conrelid, is_trigger};
static const Facts of_indexes = {IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid};
static const Facts of_roles = {AuthMemRelationId, AuthMemRoleMemIndexId,
Anum_pg_auth_members_roleid};
static const Facts of_function = {ProcedureRelationId, ProcedureOidIndexId, Anum_pg_proc_oid};
static const Facts of_schema = {NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid};

/*
 * Begins a scan of the rows of a catalog about an object, or of all if there is none; without a
 * snapshot, of those of now.
 */
static SysScanDesc
begin_scan(const Facts *facts, Relation catalog, Oid id, Snapshot snapshot)
{
	ScanKeyData key;

	ScanKeyInit(&key, facts->column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(id));
	return systable_beginscan(catalog, facts->index, true, snapshot, OidIsValid(id) ? 1 : 0,
							  &key);
}

/* True if values of a column, as it was, can be read as those of the column of now. */
static bool
has_same_values(const FormData_pg_attribute *then, const FormData_pg_attribute *now)
{
	return then->attlen == now->attlen && then->attalign == now->attalign &&
		(then->atttypid == now->atttypid || now->attisdropped);
}

/* True if rows that a snapshot knows can be read by the columns of now, some of them by name. */
bool
gk_sees_columns(Oid id, TupleDesc columns, const int *numbers, int count, Snapshot snapshot)
{
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	SysScanDesc scan = begin_scan(&of_columns, catalog, id, snapshot);
	bool		same = true;
	HeapTuple	row;

	while (same && HeapTupleIsValid(row = systable_getnext(scan)))
	{
		const FormData_pg_attribute *then = (Form_pg_attribute) GETSTRUCT(row);
		const FormData_pg_attribute *now;

		if (then->attnum < 1 || then->attnum > columns->natts)
			continue;
		now = TupleDescAttr(columns, then->attnum - 1);
		same = has_same_values(then, now);
		for (int i = 0; same && i < count; i++)
			same = numbers[i] != then->attnum ||
				strcmp(NameStr(then->attname), NameStr(now->attname)) == 0;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return same;
}

/* What is known of a table in pg_class: what a snapshot sees, without one what is there now. */
static bool
find_table(Oid id, Snapshot snapshot, FormData_pg_class *table)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = begin_scan(&of_table, catalog, id, snapshot);
	HeapTuple	row = systable_getnext(scan);
	bool		found = HeapTupleIsValid(row);

	if (found)
		*table = *(Form_pg_class) GETSTRUCT(row);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* True if a child is a temporary one of another session: its rows are not read. */
static bool
is_of_other_session(HeapTuple row, Snapshot snapshot)
{
	FormData_pg_class child;

	return find_table(((Form_pg_inherits) GETSTRUCT(row))->inhrelid, snapshot, &child) &&
		isOtherTempNamespace(child.relnamespace);
}

/* True if a constraint is a trigger, which proves nothing to the planner. */
static bool
is_trigger(HeapTuple row, Snapshot snapshot)
{
	return ((Form_pg_constraint) GETSTRUCT(row))->contype == CONSTRAINT_TRIGGER;
}

/* True if a default is of a column that is not generated: no query reads it. */
static bool
is_for_inserts(HeapTuple row, Snapshot snapshot)
{
	const FormData_pg_attrdef *value = (Form_pg_attrdef) GETSTRUCT(row);

	return get_attgenerated(value->adrelid, value->adnum) == '\0';
}

/* The next row of a scan that is not left out. */
static HeapTuple
next_row(const Facts *facts, SysScanDesc scan, Snapshot snapshot)
{
	HeapTuple	row;

	do
		row = systable_getnext(scan);
	while (HeapTupleIsValid(row) && facts->is_left_out != NULL &&
		   facts->is_left_out(row, snapshot));
	return row;
}

/* True if two rows of a catalog are the same in what counts. */
static bool
are_same(const Facts *facts, TupleDesc columns, HeapTuple then, HeapTuple now)
{
	bool		same = true;

	if (ItemPointerEquals(&then->t_self, &now->t_self))
		return true;
	if (facts->counting == NULL)
		return false;
	for (const AttrNumber *number = facts->counting; same && *number != InvalidAttrNumber; number++)
	{
		const FormData_pg_attribute *column = TupleDescAttr(columns, *number - 1);
		bool		was_null;
		bool		is_null;
		Datum		first = heap_getattr(then, *number, columns, &was_null);
		Datum		last = heap_getattr(now, *number, columns, &is_null);

		same = was_null == is_null &&
			(is_null || datum_image_eq(first, last, column->attbyval, column->attlen));
	}
	return same;
}

/* True if two snapshots see other rows of a catalog about an object; NULL = what there is now. */
static bool
differ_between(const Facts *facts, Oid id, Snapshot first, Snapshot last)
{
	Relation	catalog = table_open(facts->catalog, AccessShareLock);
	SysScanDesc then = begin_scan(facts, catalog, id, first);
	SysScanDesc now = begin_scan(facts, catalog, id, last);
	HeapTuple	seen;
	bool		same;

	do
	{
		HeapTuple	row = next_row(facts, now, last);

		seen = next_row(facts, then, first);
		same = HeapTupleIsValid(seen) ? HeapTupleIsValid(row) &&
			are_same(facts, RelationGetDescr(catalog), seen, row) : !HeapTupleIsValid(row);
	} while (same && HeapTupleIsValid(seen));
	systable_endscan(now);
	systable_endscan(then);
	table_close(catalog, AccessShareLock);
	return !same;
}

/* True if a snapshot sees other rows of a catalog about an object than there are now. */
static bool
differ(const Facts *facts, Oid id, Snapshot snapshot)
{
	return differ_between(facts, id, snapshot, NULL);
}

/*
 * The indexes that prove to the planner that rows of a table are unique: what a snapshot sees, as
 * above.  CLUSTER and others write their rows of the catalog anew.
 */
static List *
find_unique_indexes(Oid id, Snapshot snapshot)
{
	Relation	catalog = table_open(IndexRelationId, AccessShareLock);
	SysScanDesc scan = begin_scan(&of_indexes, catalog, id, snapshot);
	List	   *found = NIL;
	HeapTuple	row;

	while (HeapTupleIsValid(row = systable_getnext(scan)))
	{
		const FormData_pg_index *index = (Form_pg_index) GETSTRUCT(row);

		if (index->indisunique && index->indisvalid && index->indimmediate)
			found = lappend_oid(found, index->indexrelid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * True if a unique index is not one that a snapshot sees.  It does not mind rows that are deleted
 * already, but the snapshot sees them.
 */
static bool
has_new_unique_index(Oid id, Snapshot snapshot)
{
	return list_difference_oid(find_unique_indexes(id, NULL),
							   find_unique_indexes(id, snapshot)) != NIL;
}

/*
 * True if the planner proves other things of the rows of a table than by what a snapshot sees: it
 * leaves out tables whose rows cannot be wanted, and rows that a join cannot want.
 */
static bool
is_proven_otherwise(Oid id, Snapshot snapshot)
{
	return differ(&of_constraints, id, snapshot) || has_new_unique_index(id, snapshot);
}

/* True if what else the catalogs say of a table or view is not what a snapshot sees. */
static bool
is_otherwise_changed(const FormData_pg_class *table, Snapshot snapshot)
{
	return gk_is_schema_changed(table->relnamespace, snapshot, NULL) ||
		differ(&of_children, table->oid, snapshot) ||
		is_proven_otherwise(table->oid, snapshot) ||
		(table->relkind == RELKIND_VIEW && differ(&of_rules, table->oid, snapshot)) ||
		(table->relkind == RELKIND_FOREIGN_TABLE &&
		 differ(&of_foreign_table, table->oid, snapshot)) ||
		(table->relrowsecurity && (differ(&of_policies, table->oid, snapshot) ||
								   /* a policy may be for a role, whose members are others now */
								   differ(&of_roles, InvalidOid, snapshot)));
}

/* True if a table or view is not what a snapshot sees. */
static bool
is_table_changed(Oid id, Snapshot snapshot)
{
	FormData_pg_class table;

	return !find_table(id, NULL, &table) || differ(&of_table, id, snapshot) ||
		differ(&of_columns, id, snapshot) || is_otherwise_changed(&table, snapshot);
}

/* What others have committed of a table: what a snapshot sees of it without the own work. */
static bool
find_committed(Oid id, const SnapshotData *snapshot, FormData_pg_class *table)
{
	SnapshotData without_own = *snapshot;

	without_own.curcid = FirstCommandId;
	return find_table(id, &without_own, table);
}

/*
 * True if others wrote a table anew since a snapshot was taken, so that it may miss rows.  In a
 * file by VACUUM FULL or CLUSTER it sees all but those that were inserted later; with COPY FREEZE
 * it sees some of a new load.  The own transaction may have written rows of its own into that file,
 * or again a new one.
 */
static bool
is_rewritten(const FormData_pg_class *first, const FormData_pg_class *last, Snapshot snapshot)
{
	SnapshotData without_own = *snapshot;

	if (first->relfilenode == last->relfilenode)
		return false;
	if (last->relkind != RELKIND_RELATION)
		return last->relkind == RELKIND_MATVIEW;
	without_own.curcid = FirstCommandId;
	return gk_sees_otherwise(last->oid, snapshot, false) || !gk_sees_rows(last->oid, &without_own);
}

/* True if others have made another table of it, or wrote it anew, or changed who sees its rows. */
static bool
is_replaced_by_others(Oid id, Snapshot snapshot)
{
	Snapshot	latest = RegisterSnapshot(GetLatestSnapshot());
	FormData_pg_class first;
	FormData_pg_class last;
	bool		is_committed = find_committed(id, latest, &last);

	UnregisterSnapshot(latest);
	/* nobody else alters what the own transaction created */
	if (!is_committed)
		return false;
	return !find_committed(id, snapshot, &first) ||
		strcmp(NameStr(first.relname), NameStr(last.relname)) != 0 ||
		first.relnamespace != last.relnamespace ||
		/* policies count for some roles, in views for their owner or the user */
		first.relowner != last.relowner ||
		first.relrowsecurity != last.relrowsecurity ||
		first.relforcerowsecurity != last.relforcerowsecurity ||
		is_rewritten(&first, &last, snapshot);
}

/*
 * True if the own transaction has the planner prove something of a table that need not be true of
 * the rows that others have deleted: neither indexes nor constraints mind those.
 */
static bool
is_proven_by_own(const FormData_pg_class *now, Snapshot snapshot)
{
	SnapshotData without_own = *snapshot;
	FormData_pg_class first;

	without_own.curcid = FirstCommandId;
	return snapshot->curcid != FirstCommandId &&
		(now->relkind == RELKIND_RELATION || now->relkind == RELKIND_MATVIEW) &&
		find_table(now->oid, &without_own, &first) &&
		is_proven_otherwise(now->oid, &without_own) && gk_sees_otherwise(now->oid, snapshot, true);
}

/* True if a snapshot may miss rows of a table or view. */
static bool
is_table_replaced(Oid id, Snapshot snapshot)
{
	FormData_pg_class then;
	FormData_pg_class now;

	return !find_table(id, NULL, &now) || !find_table(id, snapshot, &then) ||
		(now.relkind == RELKIND_VIEW && differ(&of_planned_view, id, snapshot)) ||
		differ(&of_planned_columns, id, snapshot) || differ(&of_generated, id, snapshot) ||
		is_otherwise_changed(&now, snapshot) || is_replaced_by_others(id, snapshot) ||
		is_proven_by_own(&now, snapshot);
}

/* True if tables or views were changed in some way, or functions in any, or what names mean. */
static bool
is_any_changed(const List *tables, const List *functions, Snapshot snapshot,
			   bool (*is_changed) (Oid table, Snapshot snapshot))
{
	GkSearchPath path;
	ListCell   *cell;

	if (gk_is_latest(snapshot))
		return false;
	path = gk_search_path(snapshot, NULL, false);
	foreach(cell, tables)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_changed(lfirst_oid(cell), snapshot) || gk_meant_other_table(lfirst_oid(cell), &path))
			return true;
	}
	foreach(cell, functions)
	{
		CHECK_FOR_INTERRUPTS();
		if (differ(&of_function, lfirst_oid(cell), snapshot) ||
			gk_meant_other_function(lfirst_oid(cell), &path))
			return true;
	}
	return false;
}

/* True if tables, views or functions were changed. */
bool
gk_is_changed(const List *tables, const List *functions, Snapshot snapshot)
{
	return is_any_changed(tables, functions, snapshot, is_table_changed);
}

/* The same, unless the snapshot sees the rows nevertheless. */
bool
gk_is_replaced(const List *tables, const List *functions, Snapshot snapshot)
{
	return is_any_changed(tables, functions, snapshot, is_table_replaced);
}

/*
 * True if names of relations meant other ones.  Only catalogs are read: the relations are not
 * locked, and others may drop them at any time.
 */
bool
gk_is_renamed(const List *relations, Snapshot snapshot)
{
	GkSearchPath path;
	ListCell   *cell;

	if (relations == NIL || gk_is_latest(snapshot))
		return false;
	path = gk_search_path(snapshot, NULL, false);
	foreach(cell, relations)
	{
		FormData_pg_class then;
		FormData_pg_class now;

		CHECK_FOR_INTERRUPTS();
		if (!find_table(lfirst_oid(cell), NULL, &now) ||
			!find_table(lfirst_oid(cell), snapshot, &then) ||
			strcmp(NameStr(then.relname), NameStr(now.relname)) != 0 ||
			then.relnamespace != now.relnamespace ||
			gk_is_schema_changed(now.relnamespace, snapshot, NULL) ||
			gk_meant_other_table(lfirst_oid(cell), &path))
			return true;
	}
	return false;
}

/*
 * True if names have come to mean these relations or functions, or other ones, since a moment.
 * They may mean the same again: so each row of a catalog that was written counts.
 */
bool
gk_is_named_anew(const List *relations, const List *functions, Snapshot moment)
{
	/* what has come before them in the path, or was away */
	GkSearchPath path = gk_search_path(NULL, moment, true);
	ListCell   *cell;

	foreach(cell, relations)
	{
		FormData_pg_class now;

		CHECK_FOR_INTERRUPTS();
		if (!find_table(lfirst_oid(cell), NULL, &now) ||
			differ(&of_table, lfirst_oid(cell), moment) ||
			differ(&of_schema, now.relnamespace, moment) ||
			gk_meant_other_table(lfirst_oid(cell), &path))
			return true;
	}
	foreach(cell, functions)
	{
		CHECK_FOR_INTERRUPTS();
		if (differ(&of_function, lfirst_oid(cell), moment) ||
			differ(&of_schema, get_func_namespace(lfirst_oid(cell)), moment) ||
			gk_meant_other_function(lfirst_oid(cell), &path))
			return true;
	}
	return false;
}

/* True if the own transaction has altered a table since a moment, as far as a plan knows of it. */
static bool
is_altered_by_own(Oid id, Snapshot moment, Snapshot last)
{
	FormData_pg_class then;
	FormData_pg_class now;
	bool		was_there = find_table(id, moment, &then);

	if (!find_table(id, NULL, &now))
		return true;
	/* made by the own transaction, and perhaps altered; or by others */
	if (!was_there)
		return find_table(id, last, &now);
	return !find_table(id, last, &now) || then.relfilenode != now.relfilenode ||
		differ_between(&of_columns, id, moment, last) ||
		differ_between(&of_children, id, moment, last) ||
		differ_between(&of_constraints, id, moment, last) ||
		differ_between(&of_rules, id, moment, last) ||
		differ_between(&of_policies, id, moment, last) ||
		list_difference_oid(find_unique_indexes(id, last), find_unique_indexes(id, moment)) != NIL;
}

/* The same, or has changed what else pg_class says of it. */
static bool
is_changed_by_own(Oid id, Snapshot moment, Snapshot last)
{
	return is_altered_by_own(id, moment, last) || differ_between(&of_table, id, moment, last);
}

/* True if the own transaction has changed one of some tables since a moment, in some way. */
static bool
has_changed_any(const List *tables, Snapshot moment,
				bool (*is_changed) (Oid id, Snapshot moment, Snapshot last))
{
	SnapshotData last = *moment;
	ListCell   *cell;

	last.curcid = GetCurrentCommandId(false);
	if (last.curcid == moment->curcid)
		return false;
	foreach(cell, tables)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_changed(lfirst_oid(cell), moment, &last))
			return true;
	}
	return false;
}

/* True if the own transaction has altered tables. */
bool
gk_has_altered(const List *tables, Snapshot moment)
{
	return has_changed_any(tables, moment, is_altered_by_own);
}

/* True if it has changed tables or functions. */
bool
gk_has_changed(const List *tables, const List *functions, Snapshot moment)
{
	SnapshotData last = *moment;
	ListCell   *cell;

	last.curcid = GetCurrentCommandId(false);
	foreach(cell, functions)
		if (last.curcid != moment->curcid &&
			differ_between(&of_function, lfirst_oid(cell), moment, &last))
			return true;
	return has_changed_any(tables, moment, is_changed_by_own);
}
