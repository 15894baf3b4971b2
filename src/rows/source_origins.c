/*
 * Finds out whether an output column of a query is made of a column of a table.
 *
 * Expressions are followed through subqueries, common table expressions, set operations, groups,
 * windows, views and generated columns.  A condition that only chooses rows makes nothing, and what
 * functions read by themselves is not seen.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "source_keys.h"
#include "source_origins.h"
#include "source_tables.h"

/* A query, and those around it, to which its references may lead. */
typedef struct Level
{
	const Query *query;
	const struct Level *outer;
} Level;

/*
 * A column of a query or of an entry of FROM that was followed already: recursive queries come back
 * to it, and expressions may name it often.
 */
typedef struct Visit
{
	const void *place;
	int64		column;
} Visit;

/* A search for a column of a table. */
typedef struct Search
{
	List	   *family;			/* of the table, gk_family_of() */
	const char *column;
	const Level *level;			/* of the expression */
	HTAB	   *visits;
	List	  **views;			/* of Relation, open so that their queries stay in place */
	List	  **strangers;		/* OIDs of tables that are neither of the family nor its parents */
} Search;

static bool depends(Node *node, void *context);
static bool output_depends(const Search *search, const Level *level, int column);

/* The same search in an expression of another query. */
static bool
depends_at(const Search *search, const Level *level, const void *node)
{
	Search		inner = *search;

	inner.level = level;
	return depends(unconstify(void *, node), &inner);
}

/* True if a column was not followed before; 0 is all that a place computes. */
static bool
is_new(const Search *search, const void *place, int column)
{
	Visit		visit = {.place = place,.column = column};
	bool		found;

	hash_search(search->visits, &visit, HASH_ENTER, &found);
	return !found;
}

/* Follows an output column through all sides of a UNION, INTERSECT or EXCEPT. */
static bool
branch_depends(const Search *search, const Level *level, const Node *branch, int column)
{
	const SetOperationStmt *operation = (const SetOperationStmt *) branch;
	Level		inner = {.outer = level};

	check_stack_depth();
	if (IsA(branch, SetOperationStmt))
		return branch_depends(search, level, operation->larg, column) ||
			branch_depends(search, level, operation->rarg, column);
	inner.query = rt_fetch(((const RangeTblRef *) branch)->rtindex, level->query->rtable)->subquery;
	return output_depends(search, &inner, column);
}

/* Follows an output column of a query, all of them for number 0. */
static bool
output_depends(const Search *search, const Level *level, int column)
{
	const Query *query = level->query;
	const TargetEntry *entry;

	check_stack_depth();
	for (int i = 1; column == 0 && i <= list_length(query->targetList); i++)
		if (output_depends(search, level, i))
			return true;
	if (column == 0 || !is_new(search, query, column))
		return false;
	if (query->setOperations != NULL)
		return branch_depends(search, level, query->setOperations, column);
	entry = get_tle_by_resno(query->targetList, column);
	return entry != NULL && depends_at(search, level, entry->expr);
}

/* Opens a view until the search ends. */
static Relation
open_view(const Search *search, Oid view_id)
{
	Relation	view;
	ListCell   *cell;

	foreach(cell, *search->views)
		if (RelationGetRelid((Relation) lfirst(cell)) == view_id)
			return lfirst(cell);
	view = relation_open(view_id, AccessShareLock);
	*search->views = lappend(*search->views, view);
	return view;
}

/* Follows a column of a view, materialised or not; all of them for number 0. */
static bool
view_depends(const Search *search, Oid view_id, AttrNumber column)
{
	Level		level = {.query = gk_view_query(open_view(search, view_id))};

	return column >= 0 && level.query != NULL && output_depends(search, &level, column);
}

/* True if a column of a relation in FROM is the one, or is generated from it. */
static bool
table_depends(const Search *search, const RangeTblEntry *table, AttrNumber column)
{
	char		kind = get_rel_relkind(table->relid);
	List	   *names;
	ListCell   *cell;

	if (kind == RELKIND_VIEW || kind == RELKIND_MATVIEW)
		return view_depends(search, table->relid, column);
	/* features and partitions may be many */
	if (table->inh && list_member_oid(*search->strangers, table->relid))
		return false;
	names = gk_columns_of_family(table, column, search->family);
	if (names == NIL && column > 0 && table->inh)
		*search->strangers = lappend_oid(*search->strangers, table->relid);
	foreach(cell, names)
		if (strcmp(lfirst(cell), search->column) == 0)
			return true;
	return false;
}

/* Follows a column of a common table expression. */
static bool
with_depends(const Search *search, const Level *level, const RangeTblEntry *table, int column)
{
	ListCell   *cell;

	for (Index i = 0; i < table->ctelevelsup; i++)
		level = level->outer;
	foreach(cell, level->query->cteList)
	{
		const CommonTableExpr *expression = lfirst_node(CommonTableExpr, cell);
		Level		inner = {.query = (const Query *) expression->ctequery,.outer = level};

		if (strcmp(expression->ctename, table->ctename) != 0)
			continue;
		/* SEARCH and CYCLE make columns of others */
		if (column > list_length(inner.query->targetList))
			column = 0;
		return output_depends(search, &inner, column);
	}
	return false;
}

/* Follows a column of a list of rows, all of them for number 0. */
static bool
values_depend(const Search *search, const Level *level, List *rows, int column)
{
	ListCell   *cell;

	foreach(cell, rows)
		if (depends_at(search, level, column == 0 ? lfirst(cell)
					   : list_nth(lfirst_node(List, cell), column - 1)))
			return true;
	return false;
}

/* Follows a column of what FROM lists beside tables and queries; all of them for number 0. */
static bool
entry_depends(const Search *search, const Level *level, const RangeTblEntry *table, int column)
{
	switch (table->rtekind)
	{
		case RTE_JOIN:
			return depends_at(search, level, column == 0 ? (void *) table->joinaliasvars
							  : list_nth(table->joinaliasvars, column - 1));
#if PG_VERSION_NUM >= 180000
		case RTE_GROUP:
			return depends_at(search, level, list_nth(table->groupexprs, column - 1));
#endif
		case RTE_FUNCTION:
			return depends_at(search, level, table->functions);
		case RTE_TABLEFUNC:
			return depends_at(search, level, table->tablefunc);
		case RTE_VALUES:
			return values_depend(search, level, table->values_lists, column);
		default:
			return false;
	}
}

/* Follows a reference to what FROM lists. */
static bool
reference_depends(const Search *search, const Level *level, const Var *reference)
{
	const RangeTblEntry *table = rt_fetch(reference->varno, level->query->rtable);
	int			column = reference->varattno;
	Level		inner = {.query = table->subquery,.outer = level};

	check_stack_depth();
	switch (table->rtekind)
	{
		case RTE_RELATION:
			return is_new(search, table, column) && table_depends(search, table, column);
		case RTE_SUBQUERY:
			return output_depends(search, &inner, column);
		case RTE_CTE:
			return with_depends(search, level, table, column);
		default:
			return is_new(search, table, column) && entry_depends(search, level, table, column);
	}
}

/* Follows what rows are sorted or grouped by. */
static bool
clauses_depend(const Search *search, const Level *level, List *clauses)
{
	ListCell   *cell;

	foreach(cell, clauses)
		if (depends_at(search, level,
					   get_sortgroupclause_expr(lfirst(cell), level->query->targetList)))
			return true;
	return false;
}

/* Follows the window of a function. */
static bool
window_depends(const Search *search, const WindowFunc *function)
{
	const Level *level = search->level;
	ListCell   *cell;

	foreach(cell, level->query->windowClause)
	{
		const WindowClause *window = lfirst_node(WindowClause, cell);

		if (window->winref == function->winref)
			return is_new(search, window, 0) &&
				(clauses_depend(search, level, window->partitionClause) ||
				 clauses_depend(search, level, window->orderClause) ||
				 depends_at(search, level, window->startOffset) ||
				 depends_at(search, level, window->endOffset));
	}
	return false;
}

/* Follows the groups of an aggregate. */
static bool
groups_depend(const Search *search, const Aggref *aggregate)
{
	const Level *level = search->level;

	for (Index i = 0; i < aggregate->agglevelsup; i++)
		level = level->outer;
	return level->query->groupClause != NIL && is_new(search, level->query->groupClause, 0) &&
		clauses_depend(search, level, level->query->groupClause);
}

/* True if an expression is made of the column; of a subquery in it, all that it computes. */
static bool
depends(Node *node, void *context)
{
	const Search *search = context;
	const Level *level = search->level;
	Level		inner = {.query = (const Query *) node,.outer = level};
	Search		within = *search;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		for (Index i = 0; i < ((Var *) node)->varlevelsup; i++)
			level = level->outer;
		return reference_depends(search, level, (const Var *) node);
	}
	if ((IsA(node, WindowFunc) && window_depends(search, (const WindowFunc *) node)) ||
		(IsA(node, Aggref) && groups_depend(search, (const Aggref *) node)))
		return true;
	if (!IsA(node, Query))
		return expression_tree_walker(node, depends, context);
	within.level = &inner;
	return is_new(search, node, 0) &&
		query_tree_walker((Query *) node, depends, &within, QTW_IGNORE_JOINALIASES);
}

/* True if one of some output columns of a query is made of a column of a table. */
bool
gk_are_made_of(const Query *query, const int *outputs, int count, Oid relation_id,
			   const char *column)
{
	Level		level = {.query = query};
	HASHCTL		visit = {.keysize = sizeof(Visit),.entrysize = sizeof(Visit)};
	List	   *views = NIL;
	List	   *strangers = NIL;
	Search		search = {.column = column,.level = &level,.views = &views,.strangers = &strangers};
	bool		found = false;
	ListCell   *cell;

	visit.hcxt = CurrentMemoryContext;
	search.visits = hash_create("columns", 64, &visit, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	search.family = gk_family_of(relation_id);
	for (int i = 0; i < count && !found; i++)
		found = output_depends(&search, &level, outputs[i]);
	foreach(cell, views)
		relation_close(lfirst(cell), NoLock);
	hash_destroy(search.visits);
	list_free(views);
	list_free(strangers);
	list_free(search.family);
	return found;
}
