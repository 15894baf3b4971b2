/*
 * Ways through an analysed query: the queries around each part of it, and what was seen already.
 */
#include "postgres.h"

#include "access/relation.h"
#include "rewrite/prs2lock.h"
#include "utils/rel.h"

#include "source_levels.h"

/* A column of a query or of an entry of FROM. */
typedef struct Visit
{
	const void *place;
	int64		column;
} Visit;

/* The level that is some levels further out. */
const GkLevel *
gk_outer_level(const GkLevel *level, Index levels)
{
	for (Index i = 0; i < levels; i++)
		level = level->outer;
	return level;
}

/* The query of a common table expression. */
GkLevel
gk_level_of_with(const GkLevel *level, const RangeTblEntry *table)
{
	GkLevel		with = {.outer = gk_outer_level(level, table->ctelevelsup)};
	ListCell   *cell;

	foreach(cell, with.outer->query->cteList)
	{
		const CommonTableExpr *expression = lfirst_node(CommonTableExpr, cell);

		if (strcmp(expression->ctename, table->ctename) == 0)
			with.query = castNode(Query, expression->ctequery);
	}
	Assert(with.query != NULL);
	return with;
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

/* Begins a search. */
void
gk_begin_trail(GkTrail *trail)
{
	HASHCTL		visit = {.keysize = sizeof(Visit),.entrysize = sizeof(Visit)};

	visit.hcxt = CurrentMemoryContext;
	trail->visits = hash_create("columns", 64, &visit, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	trail->views = NIL;
}

/* Ends a search. */
void
gk_end_trail(GkTrail *trail)
{
	ListCell   *cell;

	foreach(cell, trail->views)
		relation_close(lfirst(cell), NoLock);
	hash_destroy(trail->visits);
	list_free(trail->views);
}

/* True if a column was not seen before. */
bool
gk_is_new(GkTrail *trail, const void *place, int column)
{
	Visit		visit = {.place = place,.column = column};
	bool		found;

	hash_search(trail->visits, &visit, HASH_ENTER, &found);
	return !found;
}

/* The query of a view that stays open. */
Query *
gk_open_view(GkTrail *trail, Oid view_id)
{
	Relation	view;
	ListCell   *cell;

	foreach(cell, trail->views)
		if (RelationGetRelid((Relation) lfirst(cell)) == view_id)
			return gk_view_query(lfirst(cell));
	view = relation_open(view_id, AccessShareLock);
	trail->views = lappend(trail->views, view);
	return gk_view_query(view);
}
