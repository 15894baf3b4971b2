/*
 * Finds the columns of a table that a query reads.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "rewrite/rowsecurity.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "source_levels.h"
#include "source_tables.h"

/* A search for the columns of a table. */
typedef struct Search
{
	List	   *family;			/* it, its partitions and its children */
	List	   *views;			/* that were looked through */
	List	   *names;			/* found so far */
	bool		has_others;		/* whether anything else is read */
	bool		of_all;			/* all tables are listed instead of columns … */
	List	   *tables;			/* … here */
	bool		of_policies;	/* their policies are searched instead; they are listed, too */
} Search;

static bool search_node(Node *node, void *context);

/* The columns that a query reads of a relation in its FROM. */
static Bitmapset *
columns_of(const Query *query, RangeTblEntry *table)
{
#if PG_VERSION_NUM >= 160000
	return getRTEPermissionInfo(query->rteperminfos, table)->selectedCols;
#else
	return table->selectedCols;
#endif
}

/* True if a set has a column, or the number 0, which stands for all of them. */
static bool
has_column(const Bitmapset *columns, AttrNumber column)
{
	return bms_is_member(column - FirstLowInvalidHeapAttributeNumber, columns) ||
		bms_is_member(-FirstLowInvalidHeapAttributeNumber, columns);
}

/* Those columns, and what the generated ones among them are made of. */
static Bitmapset *
with_origins(TupleDesc row, const Bitmapset *columns)
{
	Bitmapset  *all = bms_copy(columns);

	for (int i = 0; row->constr != NULL && i < row->constr->num_defval; i++)
	{
		const AttrDefault *value = &row->constr->defval[i];

		CHECK_FOR_INTERRUPTS();
		if (TupleDescAttr(row, value->adnum - 1)->attgenerated != '\0' &&
			has_column(columns, value->adnum))
			pull_varattnos(stringToNode(value->adbin), 1, &all);
	}
	return all;
}

/* The columns of a child that has those of its parent; itself, if it is the same table. */
static Bitmapset *
columns_of_child(TupleDesc parent, const Bitmapset *columns, Oid child_id)
{
	Bitmapset  *found = NULL;

	for (int i = 0; i < parent->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(parent, i);
		AttrNumber	number;

		if (column->attisdropped || !has_column(columns, column->attnum))
			continue;
		number = get_attnum(child_id, NameStr(column->attname));
		if (number > 0)
			found = bms_add_member(found, number - FirstLowInvalidHeapAttributeNumber);
	}
	return found;
}

/* Adds a name, once: partitions have the same ones. */
static void
add_name(Search *search, const char *name)
{
	ListCell   *cell;

	foreach(cell, search->names)
		if (strcmp(lfirst(cell), name) == 0)
			return;
	search->names = lappend(search->names, pstrdup(name));
}

/* Adds the names of columns in a relation, which are given as those of its parent. */
static void
add_names(Search *search, TupleDesc parent, const Bitmapset *columns, Oid relation_id)
{
	Relation	relation = try_relation_open(relation_id, AccessShareLock);
	TupleDesc	row;
	Bitmapset  *all;

	CHECK_FOR_INTERRUPTS();
	if (relation == NULL)
		return;
	row = RelationGetDescr(relation);
	all = with_origins(row, columns_of_child(parent, columns, relation_id));
	for (int i = 0; i < row->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(row, i);

		if (has_column(all, column->attnum))
			add_name(search, NameStr(column->attname));
	}
	relation_close(relation, NoLock);
}

/*
 * The partitions or children of a table that commands reach, not temporary ones of other sessions;
 * none if it is gone.  PostgreSQL raises an internal error then, and nothing keeps others from
 * dropping it; but what it knows of the table stays the same from one line to the next.
 */
static List *
children_of(Oid relation_id)
{
	List	   *children = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation_id))
		? find_inheritance_children(relation_id, NoLock) : NIL;
	ListCell   *cell;

	foreach(cell, children)
		if (isOtherTempNamespace(get_rel_namespace(lfirst_oid(cell))))
			children = foreach_delete_current(children, cell);
	return children;
}

/* Puts a list of OIDs in order, each once. */
static void
put_in_order(List *list)
{
	list_sort(list, list_oid_cmp);
	list_deduplicate_oid(list);
}

/* Adds a table to a family that does not have it: a child can have several parents. */
static List *
add_table(List *family, HTAB *known, Oid relation_id)
{
	bool		is_known;

	(void) hash_search(known, &relation_id, HASH_ENTER, &is_known);
	return is_known ? family : lappend_oid(family, relation_id);
}

/* A table with its partitions or children. */
List *
gk_family_of(Oid relation_id)
{
	HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid),
		.hcxt = CurrentMemoryContext};
	HTAB	   *known = hash_create("family of a table", 32, &control,
									HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	List	   *family = add_table(NIL, known, relation_id);

	/* it grows meanwhile */
	for (int i = 0; i < list_length(family); i++)
	{
		List	   *children;
		ListCell   *cell;

		CHECK_FOR_INTERRUPTS();
		children = children_of(list_nth_oid(family, i));
		foreach(cell, children)
			family = add_table(family, known, lfirst_oid(cell));
		list_free(children);
	}
	hash_destroy(known);
	put_in_order(family);
	return family;
}

/* The order of OIDs in lists. */
static int
compare_oids(const void *a, const void *b)
{
	return list_oid_cmp(a, b);
}

/* True if a table is of a family. */
static bool
is_of(const List *family, Oid relation_id)
{
	ListCell	wanted = {.oid_value = relation_id};

	return bsearch(&wanted, family->elements, list_length(family), sizeof(ListCell),
				   compare_oids) != NULL;
}

/* A table and, if they are read as well, its children, as far as they are of the family. */
static List *
read_of_family(const Search *search, const RangeTblEntry *table)
{
	List	   *found = NIL;
	ListCell   *cell;

	if (!table->inh)
		return is_of(search->family, table->relid) ? list_make1_oid(table->relid) : NIL;
	foreach(cell, gk_family_of(table->relid))
		if (is_of(search->family, lfirst_oid(cell)))
			found = lappend_oid(found, lfirst_oid(cell));
	return found;
}

/* Adds the names of columns of a table in each of those: a child may generate them otherwise. */
static void
add_family(Search *search, const RangeTblEntry *table, const Bitmapset *columns)
{
	List	   *tables = read_of_family(search, table);
	Relation	relation;
	Bitmapset  *all;
	ListCell   *cell;

	search->has_others |= tables == NIL;
	if (tables == NIL)
		return;
	relation = relation_open(table->relid, AccessShareLock);
	all = with_origins(RelationGetDescr(relation), columns);
	foreach(cell, tables)
		add_names(search, RelationGetDescr(relation), all, lfirst_oid(cell));
	relation_close(relation, NoLock);
}

/* Searches the query of a view, materialised or not, whose FROM may list the view itself. */
static void
search_view(Search *search, Oid relation_id)
{
	Relation	view;

	if (list_member_oid(search->views, relation_id))
		return;
	search->views = lappend_oid(search->views, relation_id);
	view = relation_open(relation_id, AccessShareLock);
	(void) search_node((Node *) gk_view_query(view), search);
	relation_close(view, NoLock);
}

/* Searches the policies of a table, which may read the table itself. */
static void
search_policies(Search *search, Oid relation_id)
{
	Relation	relation;
	ListCell   *cell;

	if (list_member_oid(search->tables, relation_id))
		return;
	search->tables = lappend_oid(search->tables, relation_id);
	relation = relation_open(relation_id, AccessShareLock);
	if (relation->rd_rsdesc != NULL)
		foreach(cell, relation->rd_rsdesc->policies)
			(void) search_node((Node *) ((RowSecurityPolicy *) lfirst(cell))->qual, search);
	relation_close(relation, NoLock);
}

/* Searches a relation in the FROM of a query. */
static void
search_relation(Search *search, const Query *query, RangeTblEntry *table)
{
	char		kind = get_rel_relkind(table->relid);

	if (kind == RELKIND_VIEW || kind == RELKIND_MATVIEW)
		search_view(search, table->relid);
	else if (search->of_policies)
		search_policies(search, table->relid);
	else if (search->of_all)
		search->tables = lappend_oid(search->tables, table->relid);
	else
		add_family(search, table, columns_of(query, table));
}

/* Searches a query, and all queries within it. */
static bool
search_node(Node *node, void *context)
{
	Query	   *query = (Query *) node;
	ListCell   *cell;

	check_stack_depth();
	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, search_node, context);
	foreach(cell, query->rtable)
	{
		RTEKind		kind = lfirst_node(RangeTblEntry, cell)->rtekind;

		if (kind == RTE_RELATION)
			search_relation(context, query, lfirst(cell));
		((Search *) context)->has_others |= kind == RTE_FUNCTION || kind == RTE_TABLEFUNC;
	}
	return query_tree_walker(query, search_node, context, 0);
}

/* The names of the columns of a table that an analysed query reads. */
List *
gk_columns_read(Query *query, Oid relation_id, bool *has_others)
{
	Search		search = {.family = gk_family_of(relation_id)};

	(void) search_node((Node *) query, &search);
	*has_others = search.has_others;
	return search.names;
}

/* True if two lists of OIDs in order have one in common. */
bool
gk_have_common(const List *a, const List *b)
{
	int			i = 0;
	int			j = 0;

	while (i < list_length(a) && j < list_length(b))
	{
		int			order = list_oid_cmp(list_nth_cell(a, i), list_nth_cell(b, j));

		if (order == 0)
			return true;
		i += order < 0;
		j += order > 0;
	}
	return false;
}

/* The tables that an analysed query reads. */
List *
gk_tables_read(Query *query)
{
	Search		search = {.of_all = true};
	List	   *all = NIL;
	ListCell   *cell;

	(void) search_node((Node *) query, &search);
	put_in_order(search.tables);
	foreach(cell, search.tables)
		all = list_concat(all, gk_family_of(lfirst_oid(cell)));
	put_in_order(all);
	return all;
}

/* True if an analysed query reads a view. */
bool
gk_reads_view(Query *query, Oid relation_id)
{
	Search		search = {.of_policies = true};

	(void) search_node((Node *) query, &search);
	return list_member_oid(search.views, relation_id);
}

/* The names of what a column of a relation in FROM is made of, in a family of tables. */
List *
gk_columns_of_family(const RangeTblEntry *table, AttrNumber column, List *family)
{
	Search		search = {.family = family};

	CHECK_FOR_INTERRUPTS();
	add_family(&search, table, bms_make_singleton(column - FirstLowInvalidHeapAttributeNumber));
	return search.names;
}
