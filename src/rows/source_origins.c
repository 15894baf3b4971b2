/*
 * Finds out whether an output column of a query is made of a column of a table.
 *
 * Expressions are followed through subqueries, common table expressions, set operations, groups,
 * windows, views and generated columns.  A condition that only chooses rows makes nothing, and what
 * functions read by themselves is not seen.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "source_levels.h"
#include "source_origins.h"
#include "source_tables.h"

/* A search for a column of a table. */
typedef struct Search
{
	List	   *family;			/* of the table, gk_family_of() */
	const char *column;
	const GkLevel *level;		/* of the expression */
	GkTrail    *trail;
	List	  **strangers;		/* OIDs of tables that are neither of the family nor its parents */
} Search;

static bool depends(Node *node, void *context);
static bool output_depends(const Search *search, const GkLevel *level, int column);

/* The same search in an expression of another query. */
static bool
depends_at(const Search *search, const GkLevel *level, const void *node)
{
	Search		inner = *search;

	inner.level = level;
	return depends(unconstify(void *, node), &inner);
}

/* Follows an output column through all sides of a UNION, INTERSECT or EXCEPT. */
static bool
branch_depends(const Search *search, const GkLevel *level, const Node *branch, int column)
{
	const SetOperationStmt *operation = (const SetOperationStmt *) branch;
	GkLevel		inner = {.outer = level};

	check_stack_depth();
	if (IsA(branch, SetOperationStmt))
		return branch_depends(search, level, operation->larg, column) ||
			branch_depends(search, level, operation->rarg, column);
	inner.query = rt_fetch(((const RangeTblRef *) branch)->rtindex, level->query->rtable)->subquery;
	return output_depends(search, &inner, column);
}

/* Follows an output column of a query, all of them for number 0. */
static bool
output_depends(const Search *search, const GkLevel *level, int column)
{
	const Query *query = level->query;
	const TargetEntry *entry;

	check_stack_depth();
	for (int i = 1; column == 0 && i <= list_length(query->targetList); i++)
		if (output_depends(search, level, i))
			return true;
	if (column == 0 || !gk_is_new(search->trail, query, column))
		return false;
	if (query->setOperations != NULL)
		return branch_depends(search, level, query->setOperations, column);
	entry = get_tle_by_resno(query->targetList, column);
	return entry != NULL && depends_at(search, level, entry->expr);
}

/* Follows a column of a view, materialised or not; all of them for number 0. */
static bool
view_depends(const Search *search, Oid view_id, AttrNumber column)
{
	GkLevel		level = {.query = gk_open_view(search->trail, view_id)};

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
with_depends(const Search *search, const GkLevel *level, const RangeTblEntry *table, int column)
{
	GkLevel		with = gk_level_of_with(level, table);

	/* SEARCH and CYCLE make columns of others */
	if (column > list_length(with.query->targetList))
		column = 0;
	return output_depends(search, &with, column);
}

/* Follows a column of a list of rows, all of them for number 0. */
static bool
values_depend(const Search *search, const GkLevel *level, List *rows, int column)
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
entry_depends(const Search *search, const GkLevel *level, const RangeTblEntry *table, int column)
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
reference_depends(const Search *search, const GkLevel *level, const Var *reference)
{
	const RangeTblEntry *table = rt_fetch(reference->varno, level->query->rtable);
	int			column = reference->varattno;
	GkLevel		inner = {.query = table->subquery,.outer = level};

	check_stack_depth();
	switch (table->rtekind)
	{
		case RTE_RELATION:
			return gk_is_new(search->trail, table, column) && table_depends(search, table, column);
		case RTE_SUBQUERY:
			return output_depends(search, &inner, column);
		case RTE_CTE:
			return with_depends(search, level, table, column);
		default:
			return gk_is_new(search->trail, table, column) &&
				entry_depends(search, level, table, column);
	}
}

/* Follows what rows are sorted or grouped by. */
static bool
clauses_depend(const Search *search, const GkLevel *level, List *clauses)
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
	const GkLevel *level = search->level;
	ListCell   *cell;

	foreach(cell, level->query->windowClause)
	{
		const WindowClause *window = lfirst_node(WindowClause, cell);

		if (window->winref == function->winref)
			return gk_is_new(search->trail, window, 0) &&
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
	const GkLevel *level = gk_outer_level(search->level, aggregate->agglevelsup);

	return level->query->groupClause != NIL &&
		gk_is_new(search->trail, level->query->groupClause, 0) &&
		clauses_depend(search, level, level->query->groupClause);
}

/* True if an expression is made of the column; of a subquery in it, all that it computes. */
static bool
depends(Node *node, void *context)
{
	const Search *search = context;
	const GkLevel *level = search->level;
	GkLevel		inner = {.query = (const Query *) node,.outer = level};
	Search		within = *search;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return reference_depends(search, gk_outer_level(level, ((Var *) node)->varlevelsup),
								 (const Var *) node);
	if ((IsA(node, WindowFunc) && window_depends(search, (const WindowFunc *) node)) ||
		(IsA(node, Aggref) && groups_depend(search, (const Aggref *) node)))
		return true;
	if (!IsA(node, Query))
		return expression_tree_walker(node, depends, context);
	within.level = &inner;
	return gk_is_new(search->trail, node, 0) &&
		query_tree_walker((Query *) node, depends, &within, QTW_IGNORE_JOINALIASES);
}

/* True if one of some output columns of a query is made of a column of a table. */
bool
gk_are_made_of(const Query *query, const int *outputs, int count, Oid relation_id,
			   const char *column)
{
	GkLevel		level = {.query = query};
	GkTrail		trail;
	List	   *strangers = NIL;
	Search		search = {.column = column,.level = &level,.trail = &trail,.strangers = &strangers};
	bool		found = false;

	gk_begin_trail(&trail);
	search.family = gk_family_of(relation_id);
	for (int i = 0; i < count && !found; i++)
		found = output_depends(&search, &level, outputs[i]);
	gk_end_trail(&trail);
	list_free(strangers);
	list_free(search.family);
	return found;
}
