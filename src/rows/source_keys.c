/*
 * Finds the columns of a query that only identify rows: primary keys and identity columns.
 *
 * The parser records the table that an output column comes from, even through subqueries and
 * common table expressions.  This file also looks through views and set operations.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "source_keys.h"
#include "source_levels.h"
#include "source_query.h"

/* A search for keys. */
typedef struct Search
{
	GkTrail    *trail;
	const char *kind;			/* of the last key that was found */
} Search;

static bool is_key(Search *search, const GkLevel *level, int column);

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

/* Looks at a column of a relation, and through a view, materialised or not. */
static bool
is_key_of_relation(Search *search, Oid relation_id, AttrNumber column)
{
	char		kind = get_rel_relkind(relation_id);
	Oid			constraint;

	if (kind == RELKIND_VIEW || kind == RELKIND_MATVIEW)
	{
		GkLevel		level = {.query = gk_open_view(search->trail, relation_id)};

		return column > 0 && level.query != NULL && is_key(search, &level, column);
	}
	if (bms_is_member(column - FirstLowInvalidHeapAttributeNumber,
					  get_primary_key_attnos(relation_id, true, &constraint)))
		search->kind = "primary key";
	else if (is_identity(relation_id, column))
		search->kind = "identity";
	else
		return false;
	return true;
}

/* Looks at all sides of a UNION, INTERSECT or EXCEPT. */
static bool
is_key_of_branches(Search *search, const GkLevel *level, const Node *branch, int column)
{
	const SetOperationStmt *operation = (const SetOperationStmt *) branch;
	GkLevel		inner = {.outer = level};

	check_stack_depth();
	if (IsA(branch, SetOperationStmt))
		return is_key_of_branches(search, level, operation->larg, column) &&
			is_key_of_branches(search, level, operation->rarg, column);
	inner.query = rt_fetch(((const RangeTblRef *) branch)->rtindex, level->query->rtable)->subquery;
	return is_key(search, &inner, column);
}

/* Looks at a column of a subquery or a common table expression in FROM. */
static bool
is_key_of_table(Search *search, const GkLevel *level, const Var *reference)
{
	const RangeTblEntry *table = rt_fetch(reference->varno, level->query->rtable);
	GkLevel		inner = {.query = table->subquery,.outer = level};

	if (table->rtekind == RTE_CTE)
		inner = gk_level_of_with(level, table);
	else if (table->rtekind != RTE_SUBQUERY)
		return false;
	return is_key(search, &inner, reference->varattno);
}

/*
 * True if an output column of a query is a key wherever it comes from.  What was seen before is
 * either no key, then all has ended, or adds nothing.
 */
static bool
is_key(Search *search, const GkLevel *level, int column)
{
	const Query *query = level->query;
	TargetEntry *entry = get_tle_by_resno(query->targetList, column);
	const Var  *reference;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	/* SEARCH and CYCLE add columns to a WITH query that its target list does not have */
	if (entry == NULL)
		return false;
	if (!gk_is_new(search->trail, query, column))
		return true;
	if (OidIsValid(entry->resorigtbl))
		return is_key_of_relation(search, entry->resorigtbl, entry->resorigcol);
	if (query->setOperations != NULL)
		return is_key_of_branches(search, level, query->setOperations, column);
	reference = (const Var *) gk_query_column(query, entry);
	if (!IsA(reference, Var) || reference->varattno <= 0)
		return false;
	return is_key_of_table(search, gk_outer_level(level, reference->varlevelsup), reference);
}

/* The kind of key that an output column of a query is. */
const char *
gk_key_of_column(const Query *query, int column)
{
	GkLevel		level = {.query = query};
	GkTrail		trail;
	Search		search = {.trail = &trail};
	bool		found;

	gk_begin_trail(&trail);
	found = is_key(&search, &level, column);
	gk_end_trail(&trail);
	return found ? search.kind : NULL;
}
