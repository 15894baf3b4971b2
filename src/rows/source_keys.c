/*
 * Finds the columns of a query that only identify rows: primary keys and identity columns.
 *
 * The parser records the table that an output column comes from, even through subqueries and
 * common table expressions.  This file also looks through views and set operations.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/prs2lock.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "source_keys.h"
#include "source_query.h"

/* True if a column is GENERATED … AS IDENTITY. */
static bool
is_identity(Oid relation_id, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relation_id),
										Int16GetDatum(column));
	bool		found;

	if (!HeapTupleIsValid(tuple))
		return false;
	found = ((Form_pg_attribute) GETSTRUCT(tuple))->attidentity != '\0';
	ReleaseSysCache(tuple);
	return found;
}

/* The query of a view; get_view_query() does not take materialised views. */
Query *
gk_view_query(Relation view)
{
	RuleLock   *rules = view->rd_rules;

	for (int i = 0; rules != NULL && i < rules->numLocks; i++)
		if (rules->rules[i]->event == CMD_SELECT)
			return linitial_node(Query, rules->rules[i]->actions);
	return NULL;
}

/* Looks through a view, materialised or not. */
static const char *
key_of_view(Oid relation_id, AttrNumber column)
{
	Relation	view = relation_open(relation_id, AccessShareLock);
	Query	   *query = gk_view_query(view);
	const char *key = NULL;

	if (column > 0 && query != NULL)
		key = gk_key_of_column(query, column);
	relation_close(view, NoLock);
	return key;
}

/* The kind of key that a column of a relation is, NULL if none. */
static const char *
key_of_relation(Oid relation_id, AttrNumber column)
{
	char		kind = get_rel_relkind(relation_id);
	Oid			constraint;

	if (kind == RELKIND_VIEW || kind == RELKIND_MATVIEW)
		return key_of_view(relation_id, column);
	if (bms_is_member(column - FirstLowInvalidHeapAttributeNumber,
					  get_primary_key_attnos(relation_id, true, &constraint)))
		return "primary key";
	return is_identity(relation_id, column) ? "identity" : NULL;
}

/* The kind of key that a column is on all sides of a UNION, INTERSECT or EXCEPT. */
static const char *
key_of_branches(const Query *query, const Node *branch, int column)
{
	const SetOperationStmt *operation = (const SetOperationStmt *) branch;

	if (IsA(branch, RangeTblRef))
		return gk_key_of_column(rt_fetch(((const RangeTblRef *) branch)->rtindex,
										 query->rtable)->subquery, column);
	if (key_of_branches(query, operation->larg, column) == NULL)
		return NULL;
	return key_of_branches(query, operation->rarg, column);
}

/* The query of a subquery or a common table expression in FROM, NULL if it is neither. */
static const Query *
query_of_table(const Query *query, const RangeTblEntry *table)
{
	ListCell   *cell;

	if (table->rtekind == RTE_SUBQUERY)
		return table->subquery;
	if (table->rtekind != RTE_CTE || table->ctelevelsup > 0)
		return NULL;
	foreach(cell, query->cteList)
	{
		const CommonTableExpr *expression = lfirst_node(CommonTableExpr, cell);

		if (strcmp(expression->ctename, table->ctename) == 0)
			return castNode(Query, expression->ctequery);
	}
	return NULL;
}

/* The kind of key that an output column of a query is. */
const char *
gk_key_of_column(const Query *query, int column)
{
	TargetEntry *entry = get_tle_by_resno(query->targetList, column);
	const Var  *var;
	const Query *from;

	check_stack_depth();
	/* views of unions of views may be without end, for the planner as well */
	CHECK_FOR_INTERRUPTS();
	/* SEARCH and CYCLE add columns to a WITH query that its target list does not have */
	if (entry == NULL)
		return NULL;
	if (OidIsValid(entry->resorigtbl))
		return key_of_relation(entry->resorigtbl, entry->resorigcol);
	if (query->setOperations != NULL)
		return key_of_branches(query, query->setOperations, column);
	var = (const Var *) gk_query_column(query, entry);
	if (!IsA(var, Var) || var->varlevelsup > 0 || var->varattno <= 0)
		return NULL;
	from = query_of_table(query, rt_fetch(var->varno, query->rtable));
	return from != NULL ? gk_key_of_column(from, var->varattno) : NULL;
}
