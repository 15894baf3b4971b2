/*
 * Queries over a source: analysed, planned and run as the caller.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "jit/jit.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "acting.h"
#include "citus.h"
#include "settings.h"
#include "source_aggregates.h"
#include "source_changes.h"
#include "source_functions.h"
#include "source_names.h"
#include "source_query.h"

/* How the server's internal errors about objects that are gone begin, in any language. */
static const char *const gone[] = {
	"cache lookup failed for ",
	"could not open relation with OID ",
	/* of Citus, where it was split */
	"could not find valid entry for shard ",
	/* operators without their classes */
	"operator ",
	"could not find hash function for hash operator ",
	"missing operator ",
	"missing support function ",
};

/* The context of an error: a query around the text of a source. */
typedef struct Surroundings
{
	const GkSourceText *source;
	const char *text;
} Surroundings;

/*
 * True if the current error is about a name without a schema, and has no HINT.  That of another
 * server, which looked elsewhere, comes as a text, without a format of its own.
 */
static bool
lacks_schema(void)
{
	MemoryContext before = MemoryContextSwitchTo(TopTransactionContext);
	ErrorData  *error = CopyErrorData();
	bool		is_text = error->message_id != NULL && strcmp(error->message_id, "%s") == 0;
	bool		lacks = error->hint == NULL && error->message != NULL && !is_text &&
		strchr(error->message, '.') == NULL;

	FreeErrorData(error);
	MemoryContextSwitchTo(before);
	return lacks;
}

/* True if an error is one about an object that is gone: an internal one, or by its OID. */
static bool
is_about_gone(const ErrorData *error)
{
	if (error->sqlerrcode == ERRCODE_UNDEFINED_OBJECT && error->message_id != NULL &&
		strcmp(error->message_id, "type with OID %u does not exist") == 0)
		return true;
	if (error->sqlerrcode != ERRCODE_INTERNAL_ERROR || error->message == NULL)
		return false;
	for (int i = 0; i < lengthof(gone); i++)
		if (strncmp(error->message, gone[i], strlen(gone[i])) == 0)
			return true;
	return false;
}

/* Raises an error again, as one of a source that has changed. */
static void
raise_change(ErrorData *error)
{
	FlushErrorState();
	error->sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	error->detail = psprintf(_("Something that it uses was dropped or altered: %s."),
							 error->message);
	error->message = pstrdup(_("source changed while it was being read"));
	error->hint = pstrdup(_("Try again."));
	ReThrowError(error);
}

/*
 * Raises the current error again, but an internal one about an object that is gone as one of the
 * source.  Nothing keeps the types, collations, functions and operators of a plan, nor, from
 * functions of the source itself, sequences, and indexes and partitions that are not yet read.
 */
void
gk_rethrow_as_change(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (is_about_gone(error))
		raise_change(error);
	PG_RE_THROW();
}

/*
 * The same while a query is planned, by code that does not expect that functions which it calls
 * alter a table: any internal error is about what they did.
 */
static void
rethrow_of_planner(MemoryContext context, CommandId begun)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (is_about_gone(error) || (error->sqlerrcode == ERRCODE_INTERNAL_ERROR &&
								 GetCurrentCommandId(false) != begun))
		raise_change(error);
	PG_RE_THROW();
}

/* Maps a position in the query (in characters, from 1) to one in the source; 0 if outside. */
static int
place_in_source(const Surroundings *around, int place)
{
	const char *from = strstr(around->text, around->source->from);
	const char *source = around->source->source;
	int			length = pg_mbstrlen(source);

	if (around->source->is_name)
		return 1;
	place -= pg_mbstrlen_with_len(around->text, from - around->text) + GK_FROM_PREFIX;
	place += pg_mbstrlen_with_len(source, around->source->location);
	return place >= 1 && place <= length ? place : 0;
}

/* Turns an error of the query into one of the source. */
static void
explain_error(void *arg)
{
	const Surroundings *around = arg;
	int			place = geterrposition();

	if (place > 0)
	{
		place = place_in_source(around, place);
		errposition(0);
	}
	if (place > 0)
	{
		internalerrposition(place);
		internalerrquery(around->source->source);
	}
	else
		errcontext("source \"%s\"", around->source->source);
	if (geterrcode() == ERRCODE_UNDEFINED_PARAMETER)
		errhint("A source has no parameters: put the values into its text, with format() and %%L.");
	if (geterrcode() == ERRCODE_UNDEFINED_TABLE && lacks_schema())
		errhint("PostgreSQL looked for it in the search_path, which is %s here. If it is in "
				"another schema, or if the search_path may differ, as in a view, a function or a "
				"job, write its schema as well.",
				namespace_search_path[0] != '\0' ? namespace_search_path : "empty");
}

/*
 * Parses a query that contains a source, which is one statement by the settings of that.  A long
 * one is parsed and analysed several times before it runs, and PostgreSQL looks for no cancel then.
 */
static RawStmt *
parse(const GkSourceText *source, const char *text)
{
	CHECK_FOR_INTERRUPTS();
	/* after a commit PL/pgSQL may check a domain before there is one */
	EnsurePortalSnapshotExists();
	return linitial_node(RawStmt, raw_parser(text, RAW_PARSE_DEFAULT));
}

/* Refuses temporary tables and views of a caller that is another role, anywhere in a query. */
static bool
check_temporary(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		const RangeTblEntry *entry = (const RangeTblEntry *) node;

		if (entry->rtekind == RTE_RELATION)
			gk_check_temporary(entry->relid);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, check_temporary, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, check_temporary, context);
}

/* Refuses such types, before the analysis converts constants to them. */
static bool
check_temporary_types(Node *node, void *context)
{
	if (node == NULL)
		return false;
	/* what the walker leaves out */
	if (IsA(node, RangeTableFuncCol))
		(void) check_temporary_types((Node *) ((RangeTableFuncCol *) node)->typeName, context);
	if (IsA(node, CommonTableExpr))
		(void) check_temporary_types((Node *) ((CommonTableExpr *) node)->cycle_clause, context);
	if (IsA(node, CTECycleClause))
	{
		const CTECycleClause *clause = (const CTECycleClause *) node;

		return check_temporary_types(clause->cycle_mark_value, context) ||
			check_temporary_types(clause->cycle_mark_default, context);
	}
	if (IsA(node, TypeName))
	{
		gk_check_temporary_type(LookupTypeNameOid(NULL, (const TypeName *) node, true));
		return false;
	}
	return raw_expression_tree_walker(node, check_temporary_types, context);
}

/* Analyses a query, and checks what its names mean. */
static Query *
analyze(const GkSourceText *source, const char *text, Oid parameter)
{
	MemoryContext before = CurrentMemoryContext;
	RawStmt    *statement = parse(source, text);
	Query	   *volatile query = NULL;

	CHECK_FOR_INTERRUPTS();
	PG_TRY();
	{
		(void) check_temporary_types(statement->stmt, NULL);
		query = parse_analyze_fixedparams(statement, text, &parameter,
										  OidIsValid(parameter) ? 1 : 0, NULL);
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
	CHECK_FOR_INTERRUPTS();
	(void) check_temporary((Node *) query, NULL);
	return query;
}

/* Settings of before, and how many of them. */
typedef struct Before
{
	GkTextSettings settings;
	int			count;
	int			nest_level;
} Before;

/*
 * Has the text of a source, or its names alone, mean what it did when it was given, whatever its
 * functions have set, until end_text().
 */
static Before
begin_text(const GkSourceText *source, bool names_alone)
{
	Before		before = {.settings = gk_text_settings(),
		.count = names_alone ? 1 : GK_TEXT_SETTINGS};

	before.nest_level = NewGUCNestLevel();
	gk_set_text_settings(&source->settings, before.count);
	/* PostgreSQL keeps where a path led, though the user has left a role, until it is set again */
	if (source->is_compared)
		gk_set_locally("search_path", source->settings.values[0]);
	return before;
}

/*
 * Sets these back: those that are called to analyse or plan a query may have set others, also for
 * the session, by which other names and texts would be read.
 */
static void
end_text(const Before *before)
{
	AtEOXact_GUC(true, before->nest_level);
	gk_restore_text_settings(&before->settings, before->count);
}

/* Analyses a query, which has no parameter. */
Query *
gk_query_analyze(const GkSourceText *source, const char *text)
{
	Surroundings around = {source, text};
	ErrorContextCallback callback = {.callback = explain_error,.arg = &around};
	Before		before = begin_text(source, false);
	Query	   *query;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	query = analyze(source, text, InvalidOid);
	error_context_stack = callback.previous;
	end_text(&before);
	return query;
}

/* Analyses and rewrites a query, which has no parameter. */
Query *
gk_query_rewrite(const GkSourceText *source, const char *text)
{
	Surroundings around = {source, text};
	ErrorContextCallback callback = {.callback = explain_error,.arg = &around};
	Before		before = begin_text(source, false);
	Query	   *query;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	query = linitial_node(Query, pg_rewrite_query(analyze(source, text, InvalidOid)));
	error_context_stack = callback.previous;
	end_text(&before);
	return query;
}

/* What a query selects as a column. */
const Node *
gk_query_column(const Query *query, const TargetEntry *entry)
{
#if PG_VERSION_NUM >= 180000
	return flatten_group_exprs(NULL, (Query *) query, (Node *) entry->expr);
#else
	return (const Node *) entry->expr;
#endif
}

/*
 * What a source means in a query over it, before that is rewritten: the table of its name, or its
 * query.  Another query around it chooses other columns.
 */
static Node *
meaning_of(const GkSourceText *source, const Query *query)
{
	const RangeTblEntry *entry = linitial_node(RangeTblEntry, query->rtable);

	while (strcmp(entry->eref->aliasname, GK_SOURCE_ALIAS) != 0)
		entry = linitial_node(RangeTblEntry, entry->subquery->rtable);
	if (source->is_name)
		return (Node *) list_make1_oid(entry->relid);
	return (Node *) copyObject(entry->subquery);
}

/* What is seen now, serialized; NULL in parallel mode, where nothing can be changed. */
static char *
keep_moment(void)
{
	Snapshot	snapshot;
	char	   *kept;

	if (IsInParallelMode())
		return NULL;
	snapshot = GetLatestSnapshot();
	kept = palloc(EstimateSnapshotSpace(snapshot));
	SerializeSnapshot(snapshot, kept);
	return kept;
}

/* The tables and views that a plan reads. */
static List *
tables_of(const PlannedStmt *plan)
{
	List	   *tables = NIL;
	ListCell   *cell;

	foreach(cell, plan->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		/* since PostgreSQL 16, a view is a subquery */
		if (entry->rtekind == RTE_RELATION ||
			(entry->rtekind == RTE_SUBQUERY && OidIsValid(entry->relid)))
			tables = lappend_oid(tables, entry->relid);
	}
	return tables;
}

/*
 * Other relations that its constants name, as for nextval(): what a name meant may have changed as
 * well.  The plan lists all constants of type oid, of which most are no relations.
 */
static List *
named_by(const PlannedStmt *plan, const List *tables)
{
	List	   *all;
	List	   *read;
	List	   *named = NIL;
	ListCell   *cell;
	int			next = 0;

	if (list_length(plan->relationOids) == list_length(tables))
		return NIL;
	all = list_copy(plan->relationOids);
	read = list_copy(tables);
	list_sort(all, list_oid_cmp);
	list_sort(read, list_oid_cmp);
	foreach(cell, all)
	{
		Oid			id = lfirst_oid(cell);

		CHECK_FOR_INTERRUPTS();
		while (next < list_length(read) && list_nth_oid(read, next) < id)
			next++;
		if ((next == list_length(read) || list_nth_oid(read, next) != id) &&
			get_rel_relkind(id) != '\0')
			named = lappend_oid(named, id);
	}
	return named;
}

/* Analyses, rewrites, checks and plans a query, but for errors about what is gone. */
static GkSourceQuery *
plan_query(const GkSourceText *source, const char *text, Oid parameter, GkCheckQuery check,
		   const void *context)
{
	Surroundings around = {source, text};
	ErrorContextCallback callback = {.callback = explain_error,.arg = &around};
	GkSourceQuery *query = palloc(sizeof(GkSourceQuery));
	Before		before = begin_text(source, false);
	Query	   *analyzed;
	Query	   *rewritten;
	List	   *functions;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	query->source = source;
	query->text = text;
	query->changes = gk_name_changes();
	query->command = GetCurrentCommandId(false);
	query->moment = keep_moment();
	analyzed = analyze(source, text, parameter);
	query->meaning = source->is_compared ? meaning_of(source, analyzed) : NULL;
	rewritten = linitial_node(Query, pg_rewrite_query(analyzed));
	end_text(&before);
	CHECK_FOR_INTERRUPTS();
	/* the check may set something for the planner alone */
	before = begin_text(source, false);
	if (check != NULL)
		check(rewritten, context);
	query->is_of_citus = gk_is_citus_query(rewritten);
	/* planning changes the query */
	query->rewritten = source->is_compared ? copyObject(rewritten) : NULL;
	functions = gk_functions_of(rewritten);
	query->plan = pg_plan_query(rewritten, text, CURSOR_OPT_PARALLEL_OK, NULL);
	query->tables = tables_of(query->plan);
	query->named = named_by(query->plan, query->tables);
	query->functions = gk_with_inlined(functions, query->plan);
	/* it does not pay off, and can take a second that nothing interrupts */
	query->plan->jitFlags = PGJIT_NONE;
	error_context_stack = callback.previous;
	end_text(&before);
	return query;
}

/* Analyses, rewrites, checks and plans a query. */
GkSourceQuery *
gk_query_plan(const GkSourceText *source, const char *text, Oid parameter, GkCheckQuery check,
			  const void *context)
{
	MemoryContext before = CurrentMemoryContext;
	CommandId	begun = GetCurrentCommandId(false);
	GkSourceQuery *volatile query = NULL;

	PG_TRY();
	{
		query = plan_query(source, text, parameter, check, context);
	}
	PG_CATCH();
	{
		rethrow_of_planner(before, begun);
	}
	PG_END_TRY();
	return query;
}

/* What was seen when a query was analysed; NULL in parallel mode. */
static Snapshot
seen_at_analysis(const GkSourceQuery *query)
{
	return query->moment == NULL ? NULL : RegisterSnapshot(RestoreSnapshot(query->moment));
}

/* The same, or NULL if the own transaction has run no command since. */
static Snapshot
moment_of(const GkSourceQuery *query)
{
	return query->command == GetCurrentCommandId(false) ? NULL : seen_at_analysis(query);
}

/* True if the own transaction has changed what a query names since it was analysed. */
bool
gk_query_is_old(const GkSourceQuery *query)
{
	Snapshot	moment = moment_of(query);
	bool		is_old = moment != NULL &&
		(gk_has_changed(query->tables, query->functions, moment) ||
		 gk_has_changed(query->named, NIL, moment));

	UnregisterSnapshot(moment);
	return is_old;
}

/*
 * Pushes a snapshot of the transaction.  Where functions that the analysis and the planner called
 * have written a table anew, with the effects of their commands: it does not see its rows without.
 */
static void
push_of_transaction(const GkSourceQuery *query, Snapshot snapshot)
{
	if (IsInParallelMode() || !gk_has_altered(query->tables, snapshot))
	{
		PushActiveSnapshot(snapshot);
		return;
	}
	PushCopiedSnapshot(snapshot);
	UpdateActiveSnapshotCommandId();
}

/*
 * Pushes the snapshot for a query.  Its tables were locked after the statement took its own, so
 * what it names may have been changed in between, with rows that the old snapshot does not see.
 */
bool
gk_query_push_snapshot(const GkSourceQuery *query, bool *is_changed)
{
	Snapshot	snapshot = GetActiveSnapshot();
	Before		before;
	bool		is_newer;

	*is_changed = false;
	if (IsolationUsesXactSnapshot() && !query->source->of_node && !query->is_of_citus)
	{
		push_of_transaction(query, snapshot);
		return false;
	}
	before = begin_text(query->source, true);
	*is_changed = !IsInParallelMode() &&
		(gk_is_changed(query->tables, query->functions, snapshot) ||
		 gk_is_renamed(query->named, snapshot));
	end_text(&before);
	/* Citus has the workers read what is there now, and the plan does not show the shards here */
	is_newer = *is_changed || (query->is_of_citus && !IsInParallelMode());
	PushActiveSnapshot(is_newer ? GetLatestSnapshot() : snapshot);
	return is_newer;
}

/* True if a table that the plan reads is a foreign one. */
bool
gk_query_has_foreign_table(const GkSourceQuery *query)
{
	ListCell   *cell;

	foreach(cell, query->tables)
		if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_FOREIGN_TABLE)
			return true;
	return false;
}

/* True if the active snapshot may miss rows of what the query names. */
bool
gk_query_is_replaced(const GkSourceQuery *query)
{
	Snapshot	snapshot = GetActiveSnapshot();
	Before		before = begin_text(query->source, true);
	bool		is_replaced = gk_is_replaced(query->tables, query->functions, snapshot) ||
		gk_is_renamed(query->named, snapshot) ||
		(!IsInParallelMode() && gk_has_altered(query->tables, snapshot));

	end_text(&before);
	return is_replaced;
}

/* The schemas of the search_path of a query's source. */
List *
gk_query_schemas(const GkSourceQuery *query)
{
	Before		before = begin_text(query->source, true);
	List	   *schemas = gk_usable_schemas();

	end_text(&before);
	return schemas;
}

/* True if it leads to others. */
bool
gk_query_has_other_schemas(const GkSourceQuery *query, const List *first, const List *last,
						   Snapshot snapshot, CommandId command)
{
	Before		before = begin_text(query->source, true);
	bool		are_others = gk_are_other_schemas(first, last, snapshot, command);

	end_text(&before);
	return are_others;
}

/* True if a name may not have meant, when the query was analysed, what it means now. */
bool
gk_query_is_named_anew(const GkSourceQuery *query)
{
	Snapshot	moment = seen_at_analysis(query);
	Before		before = begin_text(query->source, true);
	bool		is_named_anew = moment != NULL &&
		(query->changes != gk_name_changes() ||
		 gk_is_named_anew(query->tables, query->functions, moment) ||
		 gk_is_named_anew(query->named, NIL, moment));

	end_text(&before);
	UnregisterSnapshot(moment);
	return is_named_anew;
}

/* True if two plans name the same. */
bool
gk_query_are_alike(const GkSourceQuery *one, const GkSourceQuery *other)
{
	return equal(one->tables, other->tables) && equal(one->named, other->named) &&
		equal(one->functions, other->functions);
}

/* Reports that there is no plan of the source as it is. */
void
gk_query_refuse_plan(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("source changed while it was being planned"),
			 errdetail("It was planned %d times, and what it names changed each time.",
					   GK_MOST_PLANS + 1),
			 errhint("Try again.")));
}

/* Plans a query again while its names change. */
GkSourceQuery *
gk_query_plan_by_names(const GkSourceText *source, const char *text, GkCheckQuery check)
{
	GkSourceQuery *query = gk_query_plan(source, text, InvalidOid, check, NULL);
	bool		is_alike = true;

	for (int i = 0; i < GK_MOST_PLANS && gk_query_is_named_anew(query); i++)
	{
		const GkSourceQuery *before = query;

		query = gk_query_plan(source, text, InvalidOid, check, NULL);
		is_alike &= gk_query_are_alike(before, query);
	}
	/* privileges and the like, which others may change all the time, do no harm */
	if (!is_alike && gk_query_is_named_anew(query))
		gk_query_refuse_plan();
	return query;
}

/* True if what the query names has been replaced since it was analysed. */
bool
gk_query_is_overtaken(const GkSourceQuery *query)
{
	Snapshot	moment = seen_at_analysis(query);
	Before		before = begin_text(query->source, true);
	bool		is_replaced = moment != NULL &&
		(gk_is_replaced(query->tables, query->functions, moment) ||
		 gk_is_renamed(query->named, moment));

	end_text(&before);
	UnregisterSnapshot(moment);
	return is_replaced;
}

/*
 * Raises an error if a function was dropped that a query calls: unlike its tables, nothing keeps it
 * while the query waits, or runs for the second time.
 */
static void
check_functions(const List *functions)
{
	ListCell   *cell;

	foreach(cell, functions)
		if (!SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(lfirst_oid(cell))))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("a function of the source was dropped while it was being read")));
}

/*
 * Raises an error if the own transaction has made other tables of those of a plan: the executor
 * takes their columns and partitions from the plan.
 */
static void
check_tables(const GkSourceQuery *query)
{
	Snapshot	moment = moment_of(query);
	bool		is_altered = moment != NULL && gk_has_altered(query->tables, moment);

	UnregisterSnapshot(moment);
	if (is_altered)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("source changed while it was being read"),
				 errdetail("A table that it reads was altered or replaced."),
				 errhint("Try again.")));
}

/*
 * Begins to run a plan.  That calls functions of the query to leave out partitions: tables that are
 * open meanwhile can be neither detached nor altered by the own transaction.
 */
static void
start_query(QueryDesc *running, const List *tables, int flags)
{
	List	   *opened = NIL;
	ListCell   *cell;

	foreach(cell, tables)
		opened = lappend(opened, relation_open(lfirst_oid(cell), AccessShareLock));
	ExecutorStart(running, flags);
	foreach(cell, opened)
		relation_close(lfirst(cell), NoLock);
	list_free(opened);
}

/* Runs a query, or begins and ends it alone, but for errors about what is gone. */
static void
run_query(const GkSourceQuery *query, ParamListInfo parameters, DestReceiver *receiver, int flags)
{
	Surroundings around = {query->source, query->text};
	ErrorContextCallback callback = {.callback = explain_error,.arg = &around};
	QueryDesc  *running;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	check_functions(query->functions);
	gk_check_aggregates(query->plan);
	check_tables(query);
	running = CreateQueryDesc(query->plan, query->text, GetActiveSnapshot(), InvalidSnapshot,
							  receiver, parameters, NULL, 0);
	start_query(running, query->tables, flags);
	/* nothing keeps those functions from replacing an aggregate */
	gk_check_aggregates(query->plan);
	if ((flags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
	{
#if PG_VERSION_NUM >= 180000
		ExecutorRun(running, ForwardScanDirection, 0);
#else
		ExecutorRun(running, ForwardScanDirection, 0, true);
#endif
		ExecutorFinish(running);
	}
	ExecutorEnd(running);
	FreeQueryDesc(running);
	error_context_stack = callback.previous;
}

/* The same. */
static void
execute(const GkSourceQuery *query, ParamListInfo parameters, DestReceiver *receiver, int flags)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		run_query(query, parameters, receiver, flags);
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
}

/* Runs a query. */
void
gk_query_run(const GkSourceQuery *query, ParamListInfo parameters, DestReceiver *receiver)
{
	execute(query, parameters, receiver, 0);
}

/* Raises the errors of a query that the user may not run, without running it. */
void
gk_query_check(const GkSourceQuery *query)
{
	execute(query, NULL, None_Receiver, EXEC_FLAG_EXPLAIN_ONLY);
}
