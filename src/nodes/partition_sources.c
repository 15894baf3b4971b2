/*
 * The servers of foreign tables as nodes.
 *
 * postgres_fdw has written a query for each foreign table that is scanned.  Where this server would
 * only pass on their rows, the source of a node is the union of the queries for it.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "column_types.h"
#include "foreign_servers.h"
#include "partition_sources.h"
#include "source_columns.h"
#include "source_query.h"
#include "source_text.h"
#include "used_columns.h"

/* What postgres_fdw leaves in a scan: the query, and the numbers of the columns that it selects. */
#define SELECT_SQL 0
#define RETRIEVED_COLUMNS 1

/* The scans of a source, by server. */
typedef struct Scans
{
	const GkSource *source;
	const PlannedStmt *plan;
	List	   *servers;		/* of Oid, each once */
	List	   *sources;		/* of StringInfo, theirs */
	const char *reason;			/* why the source cannot be divided; NULL so far */
} Scans;

/* True if a plan reads a foreign table. */
static bool
reads_foreign_table(const PlannedStmt *plan)
{
	ListCell   *cell;

	foreach(cell, plan->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION && entry->relkind == RELKIND_FOREIGN_TABLE)
			return true;
	}
	return false;
}

/* True if the current user may use a server. */
static bool
may_use(Oid server)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ForeignServerRelationId, server, GetUserId(), ACL_USAGE) == ACLCHECK_OK;
#else
	return pg_foreign_server_aclcheck(server, GetUserId(), ACL_USAGE) == ACLCHECK_OK;
#endif
}

/* As whom a scan connects; InvalidOid = the current user. */
static Oid
scan_user(const PlannedStmt *plan, const ForeignScan *scan)
{
#if PG_VERSION_NUM >= 160000
	return scan->checkAsUser;
#else
	return rt_fetch(scan->scan.scanrelid, plan->rtable)->checkAsUser;
#endif
}

/* Why a scan is not simply a query of its server; NULL if it is. */
static const char *
check_scan(const PlannedStmt *plan, const ForeignScan *scan)
{
	ForeignServer *server = GetForeignServer(scan->fs_server);
	Oid			user;

	if (strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, "postgres_fdw") != 0)
		return psprintf("server \"%s\" is not one of postgres_fdw", server->servername);
	if (scan->scan.scanrelid == 0 || scan->operation != CMD_SELECT || scan->fdw_exprs != NIL ||
		scan->scan.plan.initPlan != NIL || list_length(scan->fdw_private) <= RETRIEVED_COLUMNS)
		return "the source is more than scans of foreign tables";
	if (scan->scan.plan.qual != NIL)
		return psprintf("server \"%s\" cannot check all conditions", server->servername);
	user = scan_user(plan, scan);
	if (OidIsValid(user) && user != GetUserId())
		return "a foreign table is read as the owner of a view";
	if (!may_use(scan->fs_server))
		return psprintf("you lack USAGE on server \"%s\"", server->servername);
	return NULL;
}

/* The source of a node so far, to which a scan of that server is added. */
static StringInfo
source_of(Scans *scans, Oid server)
{
	StringInfo	source;
	ListCell   *cell;
	ListCell   *found;

	forboth(cell, scans->servers, found, scans->sources)
		if (lfirst_oid(cell) == server)
		{
			appendStringInfoString(lfirst(found), "\nUNION ALL\n");
			return lfirst(found);
		}
	source = makeStringInfo();
	scans->servers = lappend_oid(scans->servers, server);
	scans->sources = lappend(scans->sources, source);
	return source;
}

/* The place of a column among those that a query of postgres_fdw selects; -1 = it is none. */
static int
place_of(const ForeignScan *scan, const TargetEntry *entry)
{
	const List *retrieved = list_nth(scan->fdw_private, RETRIEVED_COLUMNS);
	const Var  *column = (const Var *) entry->expr;
	int			place = 0;
	ListCell   *cell;

	if (!IsA(column, Var) || column->varno != scan->scan.scanrelid)
		return -1;
	foreach(cell, retrieved)
	{
		if (lfirst_int(cell) == column->varattno)
			return place;
		place++;
	}
	return -1;
}

/* Appends a list of names. */
static void
append_places(StringInfo text, int count)
{
	for (int i = 0; i < count; i++)
		appendStringInfo(text, "%sc%d", i > 0 ? ", " : "", i);
}

/*
 * True if no cast on a node does what this server does to a text: it takes one of another type by
 * its time zone, or pads it.
 */
static bool
is_converted_here(Oid type)
{
	return type == TIMESTAMPTZOID || type == TIMESTAMPTZARRAYOID || type == TIMETZOID ||
		type == TIMETZARRAYOID || type == BPCHAROID || type == BPCHARARRAYOID;
}

/*
 * Appends a column that the source is read for; false if it cannot.  How many decimals it has and
 * the like is up to the foreign table, as this server would round to those; the node's own table
 * may have others.
 */
static bool
append_column(StringInfo columns, int place, const Var *column)
{
	Oid			element = get_base_element_type(column->vartype);
	char		category;
	bool		preferred;

	get_type_category_preferred(OidIsValid(element) ? element : column->vartype, &category,
								&preferred);
	if (column->vartypmod >= 0 && is_converted_here(column->vartype))
		return false;
	/* a cast would cut a text that is too long, where this server reports an error */
	if (column->vartypmod < 0 || column->vartype >= FirstGenbkiObjectId ||
		category == TYPCATEGORY_STRING || category == TYPCATEGORY_BITSTRING)
		appendStringInfo(columns, "r.c%d", place);
	else
		/* a mere cast would hide that the node's column is of another type */
		appendStringInfo(columns, "CASE WHEN true THEN CAST(r.c%d AS %s) ELSE r.c%d END", place,
						 format_type_with_typemod(column->vartype, column->vartypmod), place);
	return true;
}

/* Adds a scan: some of its columns, taken from those of the query. */
static void
add_scan(Scans *scans, const ForeignScan *scan, const List *numbers)
{
	const List *retrieved;
	StringInfoData columns;
	StringInfo	source;
	ListCell   *cell;

	scans->reason = check_scan(scans->plan, scan);
	if (scans->reason != NULL)
		return;
	retrieved = list_nth(scan->fdw_private, RETRIEVED_COLUMNS);
	initStringInfo(&columns);
	foreach(cell, numbers)
	{
		const TargetEntry *entry = list_nth_node(TargetEntry, scan->scan.plan.targetlist,
												 lfirst_int(cell) - 1);
		int			place = place_of(scan, entry);

		if (place < 0)
		{
			scans->reason = "this server computes columns of the source";
			return;
		}
		appendStringInfoString(&columns, columns.len > 0 ? ", " : "");
		if (!append_column(&columns, place, (const Var *) entry->expr))
		{
			scans->reason = "this server rounds or pads a column of the source";
			return;
		}
	}
	source = source_of(scans, scan->fs_server);
	appendStringInfo(source, "(SELECT %s FROM (%s) AS r (", columns.data,
					 strVal(list_nth(scan->fdw_private, SELECT_SQL)));
	append_places(source, list_length(retrieved));
	appendStringInfoString(source, "))");
}

/* True if it is known before the execution which parts of an Append are read. */
static bool
reads_all_parts(const Append *append)
{
#if PG_VERSION_NUM >= 180000
	return append->part_prune_index < 0;
#else
	return append->part_prune_info == NULL;
#endif
}

/* The columns below a plan that some of its columns are; NIL if it computes one. */
static List *
columns_below(const Plan *plan, Index below, const List *numbers)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, numbers)
	{
		const TargetEntry *entry = list_nth_node(TargetEntry, plan->targetlist,
												 lfirst_int(cell) - 1);
		const Var  *column = (const Var *) entry->expr;

		if (!IsA(column, Var) || column->varno != below || column->varattno <= 0)
			return NIL;
		columns = lappend_int(columns, column->varattno);
	}
	return columns;
}

/*
 * The plan of which another one only passes on some columns: their numbers become those below.
 * NULL if it does more.
 */
static const Plan *
passed_on(const Plan *plan, const List **numbers)
{
	const SubqueryScan *scan = (const SubqueryScan *) plan;

	if (plan->qual != NIL || plan->initPlan != NIL)
		return NULL;
	if (IsA(plan, SubqueryScan))
	{
		*numbers = columns_below(plan, scan->scan.scanrelid, *numbers);
		return *numbers != NIL ? scan->subplan : NULL;
	}
	/* a subquery has NULL for columns that nobody reads */
	if (!IsA(plan, Result) || plan->lefttree == NULL ||
		((const Result *) plan)->resconstantqual != NULL)
		return NULL;
	*numbers = columns_below(plan, OUTER_VAR, *numbers);
	return *numbers != NIL ? plan->lefttree : NULL;
}

/* True if a plan computes a column, read or not: a function may be called for what it does. */
static bool
computes(const Plan *plan)
{
	ListCell   *cell;

	foreach(cell, plan->targetlist)
	{
		const Expr *expression = lfirst_node(TargetEntry, cell)->expr;

		if (!IsA(expression, Var) && !IsA(expression, Const))
			return true;
	}
	return false;
}

/* Adds the scans of a plan, for some of its columns. */
static void
add_scans(Scans *scans, const Plan *plan, const List *numbers)
{
	const Plan *below;
	ListCell   *cell;

	check_stack_depth();
	/* a plan may have thousands, of up to 1600 columns each */
	CHECK_FOR_INTERRUPTS();
	if (scans->reason != NULL)
		return;
	while (!computes(plan) && (below = passed_on(plan, &numbers)) != NULL)
		plan = below;
	if (computes(plan))
		scans->reason = "this server computes columns of the source";
	else if (IsA(plan, ForeignScan))
		add_scan(scans, (const ForeignScan *) plan, numbers);
	else if (IsA(plan, Append) && reads_all_parts((const Append *) plan))
		foreach(cell, ((const Append *) plan)->appendplans)
			add_scans(scans, lfirst(cell), numbers);
	else if (IsA(plan, SeqScan) || IsA(plan, IndexScan) || IsA(plan, BitmapHeapScan))
		scans->reason = "part of the source is on this server";
	else
		scans->reason = "the source is more than scans of foreign tables";
}

/* The numbers of all columns of a plan. */
static List *
all_columns(const Plan *plan)
{
	List	   *numbers = NIL;

	for (int i = 1; i <= list_length(plan->targetlist); i++)
		numbers = lappend_int(numbers, i);
	return numbers;
}

/* Makes nodes of the servers. */
static const GkNodeSources *
make_nodes(const Scans *scans)
{
	GkNodeSources *list = palloc0(sizeof(GkNodeSources));
	char	   *names = gk_used_columns(scans->source);
	ListCell   *server;
	ListCell   *source;

	list->nodes = palloc0(list_length(scans->servers) * sizeof(GkNodeSource));
	forboth(server, scans->servers, source, scans->sources)
	{
		GkNodeSource *node = &list->nodes[list->count++];

		gk_foreign_server_node(lfirst_oid(server),
							   psprintf("SELECT * FROM (%s) AS source (%s)",
										((StringInfo) lfirst(source))->data, names), node);
		node->of_postgres_fdw = true;
	}
	gk_sort_nodes(list);
	return list;
}

/* The servers of foreign tables that have the rows of a source. */
const GkNodeSources *
gk_partition_node_sources(const GkSource *source, const char **reason)
{
	const GkSourceText *text = gk_source_text(source->spec.source);
	GkSourceQuery *query = gk_query_plan_by_names(text, gk_used_columns_query(source, text),
												   NULL);
	Scans		scans = {.source = source,.plan = query->plan};

	*reason = NULL;
	if (!reads_foreign_table(query->plan))
		return NULL;
	gk_query_check(query);
	if (query->plan->rowMarks != NIL)
		scans.reason = "the source locks rows";
	else if (gk_converts_ids(source))
		scans.reason = "this server converts the ids to another type";
	else if (query->plan->subplans != NIL)
		scans.reason = "the source is more than scans of foreign tables";
	else
		add_scans(&scans, query->plan->planTree, all_columns(query->plan->planTree));
	*reason = scans.reason;
	return *reason == NULL ? make_nodes(&scans) : NULL;
}
