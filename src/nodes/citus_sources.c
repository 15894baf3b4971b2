/*
 * Citus' workers as nodes.
 *
 * A plan of Citus has the queries that it would send to its workers, the tasks, and where it would
 * send them.  Where nothing is left for this server to do, the source of a node is the union of
 * its tasks.  Citus sends a shard's task to one placement alone, so each row is read once.
 *
 * EXPLAIN shows the tasks as well, but asks the workers: Citus then uses the session that it asked
 * for all of their shards until the transaction ends, and the labels of each worker would be
 * written one shard after the other.  So it is asked only if the plan does not tell.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/varlena.h"

#include "alloc.h"
#include "citus.h"
#include "citus_plan.h"
#include "citus_sources.h"
#include "conninfo.h"
#include "source_query.h"
#include "source_text.h"

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
	char	   *address;		/* as EXPLAIN writes it */
} Worker;

/* Finds a member of a JSON object. */
static bool
find_member(JsonbContainer *object, const char *key, JsonbValue *value)
{
	return object != NULL && JsonContainerIsObject(object) &&
		getKeyJsonValueFromContainer(object, key, strlen(key), value) != NULL;
}

/* The object or array of that name; NULL if there is none. */
static JsonbContainer *
find_container(JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return find_member(object, key, &value) && value.type == jbvBinary ? value.val.binary.data
		: NULL;
}

/* An object or array in an array; NULL if there is none. */
static JsonbContainer *
find_element(JsonbContainer *array, uint32 place)
{
	JsonbValue *value = array != NULL && JsonContainerIsArray(array)
		? getIthJsonbValueFromContainer(array, place) : NULL;

	return value != NULL && value->type == jbvBinary ? value->val.binary.data : NULL;
}

/* The text of that name; NULL if there is none. */
static char *
find_text(JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return find_member(object, key, &value) && value.type == jbvString
		? pnstrdup(value.val.string.val, value.val.string.len) : NULL;
}

/* Sets a parameter of Citus until the nest level ends. */
static void
set_locally(const char *name, const char *value)
{
	if (GetConfigOption(name, true, false) != NULL)
		(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
}

/*
 * What EXPLAIN says of the top node of a query, with its tasks or without; NULL if it says nothing
 * that is known.
 */
static JsonbContainer *
explain(const char *query, bool tasks)
{
	int			nest_level = NewGUCNestLevel();
	char	   *text = NULL;
	Jsonb	   *plan;

	set_locally("citus.explain_all_tasks", "on");
	set_locally("citus.explain_distributed_queries", tasks ? "on" : "off");
	if (SPI_execute(psprintf("EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) %s", query), false, 1) >= 0
		&& SPI_processed == 1)
		text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	AtEOXact_GUC(true, nest_level);
	if (text == NULL)
		return NULL;
	plan = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
	return find_container(find_element(&plan->root, 0), "Plan");
}

/* The top node of a command, if its plan is that of tasks of Citus and nothing else; or NULL. */
static JsonbContainer *
explain_tasks_of(const char *command)
{
	JsonbContainer *top = explain(command, false);
	char	   *provider = find_text(top, "Custom Plan Provider");
	JsonbValue	value;

	return provider != NULL && strcmp(provider, "Citus Adaptive") == 0 &&
		!find_member(top, "Plans", &value) ? top : NULL;
}

/*
 * True if Citus would have each worker insert its own rows.  What cannot be planned is run in
 * another way, so errors are no errors here.
 */
bool
gk_citus_inserts_on_workers(const char *insert)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;
	volatile bool result = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		result = explain_tasks_of(insert) != NULL;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	/* the locks on the table, too, must not last as long as the fit */
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL && (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
						  error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN))
		ReThrowError(error);
	return result;
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

/*
 * True if this server would pass on the columns of the tasks as they are: each is one of theirs,
 * and none is there twice.
 */
static bool
passes_columns(JsonbContainer *top, int columns)
{
	JsonbContainer *output = find_container(top, "Output");
	char	  **names = gk_allocate(columns, sizeof(char *));

	if (output == NULL || !JsonContainerIsArray(output) || JsonContainerSize(output) != columns)
		return false;
	for (int i = 0; i < columns; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(output, i);
		List	   *parts;

		if (value->type != jbvString)
			return false;
		names[i] = pnstrdup(value->val.string.val, value->val.string.len);
		parts = NIL;
		if (!SplitIdentifierString(pstrdup(names[i]), '.', &parts) || list_length(parts) != 2 ||
			strcmp(linitial(parts), "remote_scan") != 0)
			return false;
		for (int j = 0; j < i; j++)
			if (strcmp(names[j], names[i]) == 0)
				return false;
	}
	return true;
}

/* Reads a task. */
static bool
read_task(JsonbContainer *object, GkCitusTask *task)
{
	task->query = find_text(object, "Query");
	task->address = find_text(object, "Node");
	return task->query != NULL && task->address != NULL;
}

/* Reads the tasks of a job; false if they are not all there. */
static bool
read_all(JsonbContainer *job, GkCitusTasks *tasks)
{
	JsonbContainer *list = find_container(job, "Tasks");
	char	   *shown = find_text(job, "Tasks Shown");
	JsonbValue	count;

	if (shown == NULL || strcmp(shown, "All") != 0 || list == NULL ||
		!JsonContainerIsArray(list) || !find_member(job, "Task Count", &count) ||
		count.type != jbvNumeric)
		return false;
	tasks->count = JsonContainerSize(list);
	if (DatumGetInt32(DirectFunctionCall1(numeric_int4, NumericGetDatum(count.val.numeric))) !=
		tasks->count)
		return false;
	tasks->all = gk_allocate(tasks->count, sizeof(GkCitusTask));
	for (int i = 0; i < tasks->count; i++)
		if (!read_task(find_element(list, i), &tasks->all[i]))
			return false;
	return true;
}

/* Asks for the tasks of a source; returns why they are not all there is to do, or NULL. */
static const char *
ask_for_tasks(const char *query, GkCitusTasks *tasks)
{
	JsonbContainer *distributed = find_container(explain(query, true), "Distributed Query");
	JsonbContainer *job = find_container(distributed, "Job");
	JsonbValue	value;

	if (find_member(distributed, "Subplans", &value) || find_member(job, "Depended Jobs", &value) ||
		find_member(job, "Dependent Jobs", &value))
		return "Citus reads the source in several steps";
	if (!read_all(job, tasks))
		return "Citus does not show all tasks of the source";
	return tasks->count == 0 ? "no shard has rows of the source" : NULL;
}

/* Finds the tasks of a source; returns why they are not all there is to do, or NULL. */
static const char *
find_tasks(const GkSourceText *text, const char *query, int columns, GkCitusTasks *tasks)
{
	JsonbContainer *top = explain_tasks_of(query);
	const char *reason = NULL;

	if (top == NULL || !passes_columns(top, columns))
		return "Citus leaves part of the source to this server";
	if (!gk_citus_plan_tasks(gk_query_plan(text, query, InvalidOid, NULL, NULL)->plan, tasks))
		reason = ask_for_tasks(query, tasks);
	for (int i = 0; reason == NULL && i < tasks->count; i++)
		if (!is_select(tasks->all[i].query, columns))
			reason = "Citus does not show all tasks of the source";
	return reason;
}

/* The columns of a source, quoted. */
static char *
column_names(const Query *query, int *count)
{
	StringInfoData names;
	ListCell   *cell;

	*count = 0;
	initStringInfo(&names);
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resjunk)
			continue;
		appendStringInfo(&names, "%s%s", *count > 0 ? ", " : "", quote_identifier(entry->resname));
		(*count)++;
	}
	return names.data;
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

/*
 * The search path for tasks.  Citus writes them with the names of pg_catalog unqualified, which may
 * come late in the path of this session.
 */
static const char *
task_path(void)
{
	const char *path = GetConfigOption("search_path", false, false);

	return strspn(path, " ") == strlen(path) ? "pg_catalog" : psprintf("pg_catalog, %s", path);
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
	node->search_path = task_path();
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
gk_citus_node_sources(const char *source, const char **reason)
{
	const GkSourceText *text = gk_source_text(source);
	char	   *query = psprintf("SELECT * FROM %s AS source", text->from);
	Query	   *rewritten;
	char	   *columns;
	int			count;
	GkCitusTasks tasks = {0};

	*reason = NULL;
	if (!gk_has_citus())
		return NULL;
	rewritten = gk_query_rewrite(text, query);
	if (!gk_is_citus_query(rewritten))
		return NULL;
	columns = column_names(rewritten, &count);
	*reason = has_sent() ? "this transaction has used the workers of Citus before"
		: find_tasks(text, query, count, &tasks);
	return *reason != NULL ? NULL : make_nodes(&tasks, columns, reason);
}
