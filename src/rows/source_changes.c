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
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
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

/* A catalog, and the index that finds its rows by an OID in a column. */
typedef struct Facts
{
	Oid			catalog;
	Oid			index;
	AttrNumber	column;
} Facts;

static const Facts of_table = {RelationRelationId, ClassOidIndexId, Anum_pg_class_oid};
static const Facts of_columns = {AttributeRelationId, AttributeRelidNumIndexId,
Anum_pg_attribute_attrelid};
static const Facts of_children = {InheritsRelationId, InheritsParentIndexId,
Anum_pg_inherits_inhparent};
static const Facts of_rules = {RewriteRelationId, RewriteRelRulenameIndexId,
Anum_pg_rewrite_ev_class};
static const Facts of_policies = {PolicyRelationId, PolicyPolrelidPolnameIndexId,
Anum_pg_policy_polrelid};
static const Facts of_schema = {NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid};
static const Facts of_function = {ProcedureRelationId, ProcedureOidIndexId, Anum_pg_proc_oid};

/* Begins a scan of the rows of a catalog about an object; those of now without a snapshot. */
static SysScanDesc
begin_scan(const Facts *facts, Relation catalog, Oid id, Snapshot snapshot)
{
	ScanKeyData key;

	ScanKeyInit(&key, facts->column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(id));
	return systable_beginscan(catalog, facts->index, true, snapshot, 1, &key);
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
		HeapTuple	row = systable_getnext(now);

		seen = systable_getnext(then);
		same = HeapTupleIsValid(seen) ? HeapTupleIsValid(row) &&
			ItemPointerEquals(&seen->t_self, &row->t_self) : !HeapTupleIsValid(row);
	} while (same && HeapTupleIsValid(seen));
	systable_endscan(now);
	systable_endscan(then);
	table_close(catalog, AccessShareLock);
	return !same;
}

/* True if a table or view is not what a snapshot sees. */
static bool
is_table_changed(Oid id, Snapshot snapshot)
{
	HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(id));
	FormData_pg_class table;

	if (!HeapTupleIsValid(row))
		return true;
	table = *(Form_pg_class) GETSTRUCT(row);
	ReleaseSysCache(row);
	return differ(&of_table, id, snapshot) ||
		differ(&of_columns, id, snapshot) ||
		differ(&of_schema, table.relnamespace, snapshot) ||
		(table.relhassubclass && differ(&of_children, id, snapshot)) ||
		(table.relkind == RELKIND_VIEW && differ(&of_rules, id, snapshot)) ||
		(table.relrowsecurity && differ(&of_policies, id, snapshot));
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

/* True if tables, views or functions were changed. */
bool
gk_is_changed(const List *tables, const List *functions, Snapshot snapshot)
{
	ListCell   *cell;

	if (is_latest(snapshot))
		return false;
	foreach(cell, tables)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_table_changed(lfirst_oid(cell), snapshot))
			return true;
	}
	foreach(cell, functions)
	{
		CHECK_FOR_INTERRUPTS();
		if (differ(&of_function, lfirst_oid(cell), snapshot))
			return true;
	}
	return false;
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
