/*
 * Tells if what a query names, or rows of a table, were changed since a snapshot was taken.
 *
 * Queries follow the catalogs as they are now, but see the rows of their snapshot.  Whoever swaps
 * tables, partitions or columns fills them in the same transaction, so both must be of one time.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_auth_members.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "source_changes.h"
#include "source_names.h"

/* A catalog, and the index that finds its rows by an OID in a column. */
typedef struct Facts
{
	Oid			catalog;
	Oid			index;
	AttrNumber	column;
	bool		(*is_left_out) (HeapTuple row, Snapshot snapshot);	/* NULL = none is */
} Facts;

static bool is_of_other_session(HeapTuple row, Snapshot snapshot);
static bool is_trigger(HeapTuple row, Snapshot snapshot);

static const Facts of_table = {RelationRelationId, ClassOidIndexId, Anum_pg_class_oid};
static const Facts of_columns = {AttributeRelationId, AttributeRelidNumIndexId,
Anum_pg_attribute_attrelid};
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

/* True if a snapshot sees other rows of a catalog about an object than there are now. */
static bool
differ(const Facts *facts, Oid id, Snapshot snapshot)
{
	Relation	catalog = table_open(facts->catalog, AccessShareLock);
	SysScanDesc then = begin_scan(facts, catalog, id, snapshot);
	SysScanDesc now = begin_scan(facts, catalog, id, NULL);
	HeapTuple	seen;
	bool		same;

	do
	{
		HeapTuple	row = next_row(facts, now, NULL);

		seen = next_row(facts, then, snapshot);
		same = HeapTupleIsValid(seen) ? HeapTupleIsValid(row) &&
			ItemPointerEquals(&seen->t_self, &row->t_self) : !HeapTupleIsValid(row);
	} while (same && HeapTupleIsValid(seen));
	systable_endscan(now);
	systable_endscan(then);
	table_close(catalog, AccessShareLock);
	return !same;
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
	return differ(&of_columns, table->oid, snapshot) ||
		gk_is_schema_changed(table->relnamespace, snapshot) ||
		differ(&of_children, table->oid, snapshot) ||
		is_proven_otherwise(table->oid, snapshot) ||
		(table->relkind == RELKIND_VIEW && differ(&of_rules, table->oid, snapshot)) ||
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
		is_otherwise_changed(&table, snapshot);
}

/* True if a snapshot sees rows in a table. */
static bool
sees_rows(Oid id, Snapshot snapshot)
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
static bool
sees_otherwise(Oid id, Snapshot snapshot, bool gone)
{
	Relation	relation = table_open(id, AccessShareLock);
	Snapshot	latest = RegisterSnapshot(GetLatestSnapshot());
	bool		sees = gone ? sees_more(relation, snapshot, latest)
		: sees_more(relation, latest, snapshot);

	UnregisterSnapshot(latest);
	table_close(relation, AccessShareLock);
	return sees;
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
	return sees_otherwise(last->oid, snapshot, false) || !sees_rows(last->oid, &without_own);
}

/* True if others have made another table of it, or wrote it anew, or changed who sees its rows. */
static bool
is_replaced_by_others(Oid id, Snapshot snapshot)
{
	FormData_pg_class first;
	FormData_pg_class last;

	/* nobody else alters what the own transaction created */
	if (!find_committed(id, GetLatestSnapshot(), &last))
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
		is_proven_otherwise(now->oid, &without_own) && sees_otherwise(now->oid, snapshot, true);
}

/* True if a snapshot may miss rows of a table or view. */
static bool
is_table_replaced(Oid id, Snapshot snapshot)
{
	FormData_pg_class then;
	FormData_pg_class now;

	return !find_table(id, NULL, &now) || !find_table(id, snapshot, &then) ||
		(now.relkind == RELKIND_VIEW && differ(&of_table, id, snapshot)) ||
		is_otherwise_changed(&now, snapshot) || is_replaced_by_others(id, snapshot) ||
		is_proven_by_own(&now, snapshot);
}

/*
 * True if nothing was committed or done since a snapshot was taken.  The number of transactions in
 * progress is not enough: one that is being prepared is listed twice for a while.
 */
static bool
is_latest(Snapshot snapshot)
{
	Snapshot	latest = GetLatestSnapshot();

	return !latest->takenDuringRecovery && !snapshot->takenDuringRecovery &&
		latest->xmin == snapshot->xmin && latest->xmax == snapshot->xmax &&
		latest->xcnt == snapshot->xcnt && latest->curcid == snapshot->curcid &&
		(latest->xcnt == 0 ||
		 memcmp(latest->xip, snapshot->xip, latest->xcnt * sizeof(TransactionId)) == 0);
}

/* True if tables or views were changed in some way, or functions in any, or what names mean. */
static bool
is_any_changed(const List *tables, const List *functions, Snapshot snapshot,
			   bool (*is_changed) (Oid table, Snapshot snapshot))
{
	GkSearchPath path;
	ListCell   *cell;

	if (is_latest(snapshot))
		return false;
	path = gk_search_path(snapshot);
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

	if (is_latest(snapshot))
		return false;
	foreach(cell, tables)
		if (has_other_rows(lfirst_oid(cell), snapshot))
			return true;
	return false;
}

/* Adds a function to a list; goes on. */
static bool
add_function(Oid function, void *context)
{
	List	  **functions = context;

	if (function >= FirstNormalObjectId)
		*functions = lappend_oid(*functions, function);
	return false;
}

/* Adds those of an expression. */
static bool
add_functions(Node *node, void *context)
{
	CHECK_FOR_INTERRUPTS();
	if (node == NULL)
		return false;
	(void) check_functions_in_node(node, add_function, context);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, add_functions, context, 0);
	return expression_tree_walker(node, add_functions, context);
}

/* The functions of a query. */
List *
gk_functions_of(const Query *query)
{
	List	   *functions = NIL;

	(void) add_functions((Node *) query, &functions);
	list_sort(functions, list_oid_cmp);
	list_deduplicate_oid(functions);
	return functions;
}

/* The hash values of functions that a plan depends on, other than those of a list. */
static List *
find_inlined(const PlannedStmt *plan, const List *functions)
{
	List	   *hashes = NIL;
	ListCell   *cell;

	foreach(cell, plan->invalItems)
	{
		const PlanInvalItem *item = lfirst(cell);

		if (item->cacheId == PROCOID)
			hashes = list_append_unique_int(hashes, (int) item->hashValue);
	}
	foreach(cell, functions)
		hashes = list_delete_int(hashes, (int) GetSysCacheHashValue1(PROCOID,
																	 lfirst_oid(cell)));
	return hashes;
}

/* Adds the functions that those of a list call, where they were inlined, to the list. */
List *
gk_with_inlined(List *functions, const PlannedStmt *plan)
{
	List	   *hashes = find_inlined(plan, functions);
	Relation	catalog;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;

	if (hashes == NIL)
		return functions;
	catalog = table_open(ProcedureRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_proc_oid, BTGreaterEqualStrategyNumber, F_OIDGE,
				ObjectIdGetDatum(FirstNormalObjectId));
	scan = systable_beginscan(catalog, ProcedureOidIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(row = systable_getnext(scan)))
	{
		Oid			id = ((Form_pg_proc) GETSTRUCT(row))->oid;

		CHECK_FOR_INTERRUPTS();
		if (list_member_int(hashes, (int) GetSysCacheHashValue1(PROCOID, id)))
			functions = lappend_oid(functions, id);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return functions;
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
			(kind == RELKIND_RELATION && sees_rows(id, latest));
	}
	UnregisterSnapshot(latest);
	return have;
}
