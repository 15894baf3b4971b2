/*
 * What is different where Citus keeps the rows.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/snapmgr.h"

#include "citus.h"
#include "settings.h"

/*
 * The list of the tables that Citus keeps; InvalidOid without Citus.  Only a superuser can make a
 * table there; its name is in a cache, for every statement that scores asks for it.
 */
static Oid
list_of_tables(void)
{
	return get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE);
}

/* True if this database has Citus. */
bool
gk_has_citus(void)
{
	return OidIsValid(list_of_tables());
}

/* A column of an entry of Citus' list; NULL if there is none. */
static Datum
read_column(Relation list, HeapTuple entry, const char *name, bool *is_null)
{
	AttrNumber	column = get_attnum(RelationGetRelid(list), name);

	*is_null = true;
	return column > 0 ? heap_getattr(entry, column, RelationGetDescr(list), is_null) : (Datum) 0;
}

/*
 * Begins a scan of the entries of one of Citus' lists with a value in a column; without a snapshot,
 * of those of now.
 */
static SysScanDesc
begin_scan(Relation list, const char *index, const char *column, RegProcedure equals, Datum value,
		   Snapshot snapshot)
{
	Oid			index_id = get_relname_relid(index, PG_CATALOG_NAMESPACE);
	ScanKeyData key;

	ScanKeyInit(&key, get_attnum(RelationGetRelid(list), column), BTEqualStrategyNumber, equals,
				value);
	return systable_beginscan(list, index_id, OidIsValid(index_id), snapshot, 1, &key);
}

/* What Citus' list says of a table. */
typedef struct Entry
{
	const char *key;			/* the text of a Var; NULL = it is not distributed by a column */
	char		copies;			/* 't': as many of each row as servers, 's': one */
	bool		is_placed;		/* not a local table that Citus knows */
} Entry;

/* Reads the entry of a table; false if there is none. */
static bool
read_entry(Oid relation_id, Entry *entry)
{
	Oid			list_id = list_of_tables();
	Relation	list;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		is_listed;
	bool		is_null;
	Datum		value;

	if (!OidIsValid(list_id))
		return false;
	list = table_open(list_id, AccessShareLock);
	scan = begin_scan(list, "pg_dist_partition_logical_relid_index", "logicalrelid", F_OIDEQ,
					  ObjectIdGetDatum(relation_id), NULL);
	tuple = systable_getnext(scan);
	is_listed = HeapTupleIsValid(tuple);
	if (is_listed)
	{
		value = read_column(list, tuple, "partkey", &is_null);
		entry->key = is_null ? NULL : TextDatumGetCString(value);
		value = read_column(list, tuple, "repmodel", &is_null);
		entry->copies = is_null ? '\0' : DatumGetChar(value);
		value = read_column(list, tuple, "colocationid", &is_null);
		entry->is_placed = !is_null && DatumGetInt32(value) != 0;
	}
	systable_endscan(scan);
	table_close(list, AccessShareLock);
	return is_listed;
}

/* True if Citus keeps the rows of a table. */
bool
gk_is_citus_table(Oid relation_id)
{
	Entry		entry;

	return read_entry(relation_id, &entry);
}

/* The column by which Citus distributes the rows of a table. */
const char *
gk_citus_column(Oid relation_id)
{
	Entry		entry;
	Var		   *column;

	if (!read_entry(relation_id, &entry) || entry.key == NULL)
		return NULL;
	column = stringToNode(entry.key);
	return IsA(column, Var) ? get_attname(relation_id, column->varattno, true) : NULL;
}

/* True if Citus keeps one copy of each of its rows, by a column. */
bool
gk_citus_has_one_copy(Oid relation_id)
{
	Entry		entry;

	/* what other copies there may be are PostgreSQL's standbys */
	return read_entry(relation_id, &entry) && entry.key != NULL && entry.copies == 's';
}

/* True if the whole table is on each server of Citus, or on this one. */
bool
gk_citus_has_whole_table(Oid relation_id)
{
	Entry		entry;

	return read_entry(relation_id, &entry) && entry.key == NULL &&
		(entry.copies != 's' || !entry.is_placed);
}

/* Appends a shard and the servers that have it, as a snapshot sees them. */
static void
append_shard(StringInfo places, int64 shard, Snapshot snapshot)
{
	Relation	list = table_open(get_relname_relid("pg_dist_placement", PG_CATALOG_NAMESPACE),
								  AccessShareLock);
	SysScanDesc scan = begin_scan(list, "pg_dist_placement_shardid_index", "shardid", F_INT8EQ,
								  Int64GetDatum(shard), snapshot);
	HeapTuple	entry;
	bool		is_null;

	appendStringInfo(places, " " INT64_FORMAT ":", shard);
	while (HeapTupleIsValid(entry = systable_getnext(scan)))
		appendStringInfo(places, " %d",
						 DatumGetInt32(read_column(list, entry, "groupid", &is_null)));
	systable_endscan(scan);
	table_close(list, AccessShareLock);
}

/* Where the shards of a table are, as a snapshot sees it; without one, where they are now. */
static char *
places_of(Oid relation_id, Snapshot snapshot)
{
	Relation	list = table_open(get_relname_relid("pg_dist_shard", PG_CATALOG_NAMESPACE),
								  AccessShareLock);
	SysScanDesc scan = begin_scan(list, "pg_dist_shard_logical_relid_index", "logicalrelid",
								  F_OIDEQ, ObjectIdGetDatum(relation_id), snapshot);
	HeapTuple	entry;
	bool		is_null;
	StringInfoData places;

	initStringInfo(&places);
	while (HeapTupleIsValid(entry = systable_getnext(scan)))
		append_shard(&places, DatumGetInt64(read_column(list, entry, "shardid", &is_null)),
					 snapshot);
	systable_endscan(scan);
	table_close(list, AccessShareLock);
	return places.data;
}

/*
 * True if shards of a table were moved or split since the transaction began, by others or, as
 * `begun` does not see, by itself.  One that it distributed itself is as it left it.
 */
static bool
has_moved(Oid relation_id, Snapshot begun)
{
	const char *now = places_of(relation_id, NULL);
	const char *then = places_of(relation_id, begun);

	return strcmp(places_of(relation_id, GetTransactionSnapshot()), now) != 0 ||
		(*then != '\0' && strcmp(then, now) != 0);
}

/* True if shards of tables were moved or split since the transaction began. */
bool
gk_citus_has_moved(const List *tables)
{
	SnapshotData snapshot;
	Snapshot	begun;
	bool		moved = false;
	ListCell   *cell;

	if (!gk_has_citus())
		return false;
	snapshot = *GetTransactionSnapshot();
	snapshot.curcid = FirstCommandId;
	snapshot.copied = false;
	begun = RegisterSnapshot(&snapshot);
	foreach(cell, tables)
	{
		CHECK_FOR_INTERRUPTS();
		moved = moved ||
			(gk_is_citus_table(lfirst_oid(cell)) && has_moved(lfirst_oid(cell), begun));
	}
	UnregisterSnapshot(begun);
	return moved;
}

/* The search path in which queries that Citus has written mean what they say. */
const char *
gk_citus_search_path(void)
{
	const char *path = GetConfigOption("search_path", false, false);
	Oid			first;

	/* it does so unless the path names it */
	if (fetch_search_path_array(&first, 1) > 0 && first == PG_CATALOG_NAMESPACE)
		return path;
	return psprintf("pg_catalog, %s", path);
}

/* Sets that search path until the nest level of settings ends. */
void
gk_citus_set_search_path(void)
{
	gk_set_locally("search_path", gk_citus_search_path());
}

/* Sets how values are written, for servers with other settings, until that level ends. */
void
gk_citus_set_styles(void)
{
	gk_set_locally("DateStyle", "ISO");
	gk_set_locally("IntervalStyle", "postgres");
	gk_set_locally("extra_float_digits", "3");
}

/* Looks for a table of Citus' list, in queries within queries as well. */
static bool
reads_listed_table(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION &&
			gk_is_citus_table(((RangeTblEntry *) node)->relid);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_listed_table, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_listed_table, context);
}

/* True if Citus plans a query. */
bool
gk_is_citus_query(const Query *query)
{
	return gk_has_citus() && reads_listed_table((Node *) unconstify(Query *, query), NULL);
}

/* True if Citus plans a command. */
bool
gk_is_citus_command(const char *command)
{
	SPIPlanPtr	prepared = SPI_prepare(command, 0, NULL);
	const CachedPlanSource *source;
	bool		is = false;
	ListCell   *cell;

	if (prepared == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", command, SPI_result_code_string(SPI_result));
	source = linitial(SPI_plan_get_plan_sources(prepared));
	foreach(cell, source->query_list)
		if (gk_is_citus_query(lfirst_node(Query, cell)))
			is = true;
	SPI_freeplan(prepared);
	return is;
}
