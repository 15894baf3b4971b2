/*
 * The functions that a query calls.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

#include "source_functions.h"

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

/* The hash values of functions, in order. */
typedef struct Hashes
{
	uint32	   *values;
	int			count;
} Hashes;

/* The order of hash values. */
static int
compare_hashes(const void *left, const void *right)
{
	uint32		one = *(const uint32 *) left;
	uint32		other = *(const uint32 *) right;

	return (one > other) - (one < other);
}

/* The same for a sort that can be cancelled. */
static int
compare_for_sort(const void *left, const void *right, void *arg)
{
	return compare_hashes(left, right);
}

/* Puts hash values in order. */
static void
sort_hashes(Hashes *hashes)
{
	qsort_interruptible(hashes->values, hashes->count, sizeof(uint32), compare_for_sort, NULL);
}

/* True if a hash value is among these. */
static bool
has_hash(const Hashes *hashes, uint32 hash)
{
	return bsearch(&hash, hashes->values, hashes->count, sizeof(uint32), compare_hashes) != NULL;
}

/* The hash values of a list of functions. */
static Hashes
hashes_of(const List *functions)
{
	Hashes		hashes = {.values = palloc(Max(list_length(functions), 1) * sizeof(uint32))};
	ListCell   *cell;

	foreach(cell, functions)
		hashes.values[hashes.count++] = GetSysCacheHashValue1(PROCOID, lfirst_oid(cell));
	sort_hashes(&hashes);
	return hashes;
}

/* Those of functions that a plan depends on, other than those of a list. */
static Hashes
find_inlined(const PlannedStmt *plan, const List *functions)
{
	Hashes		known = hashes_of(functions);
	Hashes		hashes = {.values = palloc(Max(list_length(plan->invalItems), 1) * sizeof(uint32))};
	ListCell   *cell;

	foreach(cell, plan->invalItems)
	{
		const PlanInvalItem *item = lfirst(cell);

		if (item->cacheId == PROCOID && !has_hash(&known, item->hashValue))
			hashes.values[hashes.count++] = item->hashValue;
	}
	sort_hashes(&hashes);
	pfree(known.values);
	return hashes;
}

/* Adds the functions that those of a list call, where they were inlined, to the list. */
List *
gk_with_inlined(List *functions, const PlannedStmt *plan)
{
	Hashes		hashes = find_inlined(plan, functions);
	Relation	catalog;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;

	if (hashes.count == 0)
		return functions;
	catalog = table_open(ProcedureRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_proc_oid, BTGreaterEqualStrategyNumber, F_OIDGE,
				ObjectIdGetDatum(FirstNormalObjectId));
	scan = systable_beginscan(catalog, ProcedureOidIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(row = systable_getnext(scan)))
	{
		Oid			id = ((Form_pg_proc) GETSTRUCT(row))->oid;

		CHECK_FOR_INTERRUPTS();
		if (has_hash(&hashes, GetSysCacheHashValue1(PROCOID, id)))
			functions = lappend_oid(functions, id);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return functions;
}

/* The rows of functions, each as three numbers. */
List *
gk_rows_of_functions(const List *functions)
{
	List	   *rows = NIL;
	ListCell   *cell;

	foreach(cell, functions)
	{
		HeapTuple	row = SearchSysCache1(PROCOID, ObjectIdGetDatum(lfirst_oid(cell)));

		CHECK_FOR_INTERRUPTS();
		if (!HeapTupleIsValid(row))
		{
			rows = lappend_oid(rows, InvalidOid);
			continue;
		}
		rows = lappend_oid(rows, HeapTupleHeaderGetRawXmin(row->t_data));
		rows = lappend_oid(rows, ItemPointerGetBlockNumber(&row->t_self));
		rows = lappend_oid(rows, ItemPointerGetOffsetNumber(&row->t_self));
		ReleaseSysCache(row);
	}
	return rows;
}

/* True if a function is a text, whose names are looked up when it is called or put into a plan. */
static bool
is_text(Oid function)
{
	HeapTuple	row = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		has_text;
	Oid			language;

	/* one that is gone can have been anything */
	if (!HeapTupleIsValid(row))
		return true;
	language = ((Form_pg_proc) GETSTRUCT(row))->prolang;
	has_text = language != INTERNALlanguageId && language != ClanguageId &&
		heap_attisnull(row, Anum_pg_proc_prosqlbody, NULL);
	ReleaseSysCache(row);
	return has_text;
}

/* True if there is such a function in a list. */
bool
gk_have_texts(const List *functions)
{
	ListCell   *cell;

	foreach(cell, functions)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_text(lfirst_oid(cell)))
			return true;
	}
	return false;
}
