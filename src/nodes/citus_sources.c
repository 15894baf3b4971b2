/*
 * Citus' workers as nodes.
 *
 * A plan of Citus has the queries that it would send to its workers, the tasks, and where it would
 * send them.  Where nothing is left for this server to do, the source of a node is the union of
 * its tasks.  Citus sends a shard's task to one placement alone, so each row is read once.
 *
 * EXPLAIN shows the tasks as well, but asks the workers, and waits there for locks without looking
 * for a cancel.  Until the transaction ends, Citus then reads this server's own shards by a session
 * that does not see what the transaction has done, and writes labels one shard after the other.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"

#include "alloc.h"
#include "citus.h"
#include "citus_plan.h"
#include "citus_sources.h"
#include "conninfo.h"
#include "source_columns.h"
#include "source_query.h"
#include "source_text.h"
#include "subtransaction.h"
#include "used_columns.h"

/* The most parameters of a connection, and of them those that the settings of Citus may have. */
#define PARAMETERS 40
#define FROM_SETTINGS 32

/* A worker, as pg_dist_node has it. */
typedef struct Worker
{
	int			id;
	char	   *host;
	int			port;
	bool		is_here;		/* it is this server */
	char	   *address;		/* as a GkCitusTask has it */
} Worker;

/* An INSERT, and whether Citus would have each worker insert its own rows. */
typedef struct Insert
{
	const char *command;
	bool		is_on_workers;
} Insert;

/* An attempt: has Citus plan an INSERT. */
static void
plan_insert(void *argument)
{
	Insert	   *insert = argument;
	SPIPlanPtr	prepared = SPI_prepare(insert->command, 0, NULL);
	CachedPlan *planned = prepared == NULL ? NULL : SPI_plan_get_cached_plan(prepared);

	if (planned == NULL)
		return;
	/* rules can make it none, several, or other commands */
	insert->is_on_workers = list_length(planned->stmt_list) == 1 &&
		linitial_node(PlannedStmt, planned->stmt_list)->commandType == CMD_INSERT &&
		gk_citus_plan_is_of_tasks(linitial_node(PlannedStmt, planned->stmt_list));
	ReleaseCachedPlan(planned, NULL);
	SPI_freeplan(prepared);
}

/*
 * True if Citus would have each worker insert its own rows.  What cannot be planned is run in
 * another way, so errors are no errors here.
 */
bool
gk_citus_inserts_on_workers(const char *insert)
{
	Insert		asked = {.command = insert};

	/* the locks on the table, too, must not last as long as the fit */
	gk_try_without_need(plan_insert, &asked, false);
	return asked.is_on_workers;
}

/* True if a query is one SELECT with that many columns. */
static bool
is_select(const char *query, int columns)
{
	List	   *statements = raw_parser(query, RAW_PARSE_DEFAULT);
	SelectStmt *select;

	if (list_length(statements) != 1 ||
		!IsA(linitial_node(RawStmt, statements)->stmt, SelectStmt))
		return false;
	select = (SelectStmt *) linitial_node(RawStmt, statements)->stmt;
	while (select->op != SETOP_NONE)
		select = select->larg;
	return select->intoClause == NULL && list_length(select->targetList) == columns;
}

/* Lets Citus write the constants of a query, which is analysed, so that no node reads others. */
static void
set_styles(const Query *query, const void *context)
{
	gk_citus_set_styles();
}

/* Finds the tasks of a source; returns why they are not all there is to do, or NULL. */
static const char *
find_tasks(const GkSourceText *text, const char *query, int columns, GkCitusTasks *tasks)
{
	const PlannedStmt *plan = gk_query_plan_by_names(text, query, set_styles)->plan;
	int			nest_level = NewGUCNestLevel();
	const char *reason;

	gk_citus_set_styles();
	reason = gk_citus_plan_tasks(plan, tasks);
	AtEOXact_GUC(true, nest_level);
	for (int i = 0; reason == NULL && i < tasks->count; i++)
		if (!is_select(tasks->all[i].query, columns))
			reason = "Citus does not show all tasks of the source";
	return reason;
}

/* The source of a worker: the union of its tasks; NULL if it has none. */
static const char *
unite_tasks(const GkCitusTasks *tasks, const char *address, const char *columns)
{
	StringInfoData source;
	int			count = 0;

	initStringInfo(&source);
	appendStringInfoString(&source, "SELECT * FROM (");
	for (int i = 0; i < tasks->count; i++)
		if (strcmp(tasks->all[i].address, address) == 0)
			appendStringInfo(&source, "%s(%s)", count++ > 0 ? "\nUNION ALL\n" : "",
							 tasks->all[i].query);
	appendStringInfo(&source, ") AS source (%s)", columns);
	return count > 0 ? source.data : NULL;
}

/* The primary nodes of this cluster. */
static const char *const list_workers =
	"SELECT nodeid, nodename, nodeport, groupid OPERATOR(pg_catalog.=)"
	" (SELECT l.groupid FROM pg_catalog.pg_dist_local_group AS l)"
	" FROM pg_catalog.pg_dist_node WHERE isactive"
	" AND noderole OPERATOR(pg_catalog.=) 'primary'::pg_catalog.noderole"
	" AND nodecluster OPERATOR(pg_catalog.=) pg_catalog.current_setting('citus.cluster_name')";

/* Reads a worker. */
static void
read_worker(int row, Worker *worker)
{
	HeapTuple	tuple = SPI_tuptable->vals[row];
	TupleDesc	columns = SPI_tuptable->tupdesc;
	bool		is_null;

	worker->id = DatumGetInt32(SPI_getbinval(tuple, columns, 1, &is_null));
	worker->host = SPI_getvalue(tuple, columns, 2);
	worker->port = DatumGetInt32(SPI_getbinval(tuple, columns, 3, &is_null));
	worker->is_here = DatumGetBool(SPI_getbinval(tuple, columns, 4, &is_null)) && !is_null;
	worker->address = psprintf("host=%s port=%d dbname=%s", worker->host, worker->port,
							   get_database_name(MyDatabaseId));
}

/* Reads the workers; returns how many. */
static int
read_workers(Worker **workers)
{
	int			count;

	if (SPI_execute(list_workers, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the nodes of Citus");
	count = (int) SPI_processed;
	*workers = gk_allocate(Max(count, 1), sizeof(Worker));
	for (int i = 0; i < count; i++)
		read_worker(i, &(*workers)[i]);
	SPI_freetuptable(SPI_tuptable);
	return count;
}

/* The connection parameters that Citus has for a role: of the worker, or of all workers. */
static char *
find_authinfo(const char *role, int node_id)
{
	Oid			list_id = get_relname_relid("pg_dist_authinfo", PG_CATALOG_NAMESPACE);
	char	   *found = "";
	Relation	list;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	if (!OidIsValid(list_id))
		return found;
	list = table_open(list_id, AccessShareLock);
	ScanKeyInit(&key, get_attnum(list_id, "rolename"), BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(role));
	scan = systable_beginscan(list, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		is_null;
		int			id = DatumGetInt32(heap_getattr(tuple, get_attnum(list_id, "nodeid"),
													RelationGetDescr(list), &is_null));

		if (id == node_id || (id == 0 && found[0] == '\0'))
			found = TextDatumGetCString(heap_getattr(tuple, get_attnum(list_id, "authinfo"),
													 RelationGetDescr(list), &is_null));
	}
	systable_endscan(scan);
	table_close(list, AccessShareLock);
	return found;
}

/* Fills in a node: it is connected to as Citus would, as the current user. */
static void
describe_node(const Worker *worker, const char *source, GkNodeSource *node)
{
	const char *role = GetUserNameFromId(GetUserId(), false);
	const char *common = GetConfigOption("citus.node_conninfo", true, false);
	const char **keywords = palloc0(PARAMETERS * sizeof(char *));
	const char **values = palloc0(PARAMETERS * sizeof(char *));
	int			count = 0;

	count = gk_read_conninfo(common != NULL ? common : "", keywords, values, count, FROM_SETTINGS);
	count = gk_read_conninfo(find_authinfo(role, worker->id), keywords, values, count,
							 FROM_SETTINGS);
	keywords[count] = "host";
	values[count++] = worker->host;
	keywords[count] = "port";
	values[count++] = psprintf("%d", worker->port);
	keywords[count] = "dbname";
	values[count++] = get_database_name(MyDatabaseId);
	keywords[count] = "user";
	values[count++] = role;
	node->name = psprintf("%s:%d", worker->host, worker->port);
	node->keywords = keywords;
	node->values = values;
	node->source = source;
	node->search_path = gk_citus_search_path();
}

/* Makes nodes of the workers with tasks; NULL if a task is on none of them, or all are here. */
static const GkNodeSources *
make_nodes(const GkCitusTasks *tasks, const char *columns, const char **reason)
{
	Worker	   *workers;
	int			count = read_workers(&workers);
	GkNodeSources *list = palloc0(sizeof(GkNodeSources));
	bool		all_here = true;
	int			placed = 0;

	list->nodes = palloc0(Max(count, 1) * sizeof(GkNodeSource));
	for (int i = 0; i < count; i++)
	{
		const char *source = unite_tasks(tasks, workers[i].address, columns);

		for (int j = 0; j < tasks->count; j++)
			placed += strcmp(tasks->all[j].address, workers[i].address) == 0;
		if (source == NULL)
			continue;
		all_here = all_here && workers[i].is_here;
		describe_node(&workers[i], source, &list->nodes[list->count++]);
	}
	if (placed != tasks->count)
		*reason = "Citus names a node that is not in pg_dist_node";
	else if (all_here)
		*reason = "the rows of the source are on this server";
	gk_sort_nodes(list);
	list->of_citus = true;
	return *reason == NULL ? list : NULL;
}

/* True if this transaction has sent something to the workers that other sessions may not see. */
static bool
has_sent(void)
{
	bool		is_null;
	int64		number;

	if (SPI_execute("SELECT transaction_number FROM pg_catalog.get_current_transaction_id()", true,
					1) != SPI_OK_SELECT || SPI_processed != 1)
		return true;
	number = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
										 &is_null));
	SPI_freetuptable(SPI_tuptable);
	return is_null || number != 0;
}

/* The workers of Citus that have the rows of a source. */
const GkNodeSources *
gk_citus_node_sources(const GkSource *source, const char **reason)
{
	const GkSourceText *text = gk_source_text(source->spec.source);
	char	   *query = gk_used_columns_query(source, text);
	Query	   *rewritten;
	GkCitusTasks tasks = {0};

	*reason = NULL;
	if (!gk_has_citus())
		return NULL;
	rewritten = gk_query_rewrite(text, query);
	if (!gk_is_citus_query(rewritten))
		return NULL;
	*reason = has_sent() ? "this transaction has used the workers of Citus before"
		: find_tasks(text, query, list_length(rewritten->targetList), &tasks);
	return *reason != NULL ? NULL : make_nodes(&tasks, gk_used_columns(source), reason);
}
