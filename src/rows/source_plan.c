/*
 * Compares plans of a source.
 *
 * PostgreSQL compares expressions, but no plans: these it only writes as text, which nothing ends
 * and constants make long.  So each node of a plan is compared by itself, expressions apart.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/nodes.h"
#include "utils/memutils.h"

#include "source_plan.h"

/* A node that takes more memory has long constants, and is not written: they take longer. */
#define MOST_BYTES (1024 * 1024)

/* What grows with a table, as the text has it; it writes a space in a name as "\ ". */
static const char *const estimates[] = {
	" :startup_cost ",
	" :total_cost ",
	" :plan_rows ",
	" :plan_width ",
	" :per_call_cost ",
	" :numGroups ",
	" :rows_total ",
	" :est_entries ",
};

/* How many characters an estimate takes with its name; 0 if there is none. */
static size_t
length_of_estimate(const char *text)
{
	for (int i = 0; i < lengthof(estimates); i++)
	{
		size_t		length = strlen(estimates[i]);

		if (strncmp(text, estimates[i], length) == 0)
			return length + strcspn(text + length, " })");
	}
	return 0;
}

/* True if two texts differ in estimates alone. */
static bool
are_same_texts(const char *one, const char *other)
{
	while (*one == *other && *one != '\0')
	{
		size_t		length = *one == ' ' ? length_of_estimate(one) : 0;

		other += length > 0 ? length_of_estimate(other) : 1;
		one += length > 0 ? length : 1;
	}
	return *one == *other;
}

/*
 * The text of a node, without what hangs from it; NULL if it is long.  It is that of a copy, in
 * which an array without elements is always NULL.
 */
static const char *
text_of(const void *node)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans node",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	void	   *copy = copyObjectImpl(node);
	const char *text = NULL;

	MemoryContextSwitchTo(before);
	if (MemoryContextMemAllocated(context, true) <= MOST_BYTES)
		text = nodeToString(copy);
	MemoryContextDelete(context);
	return text;
}

/* True if the texts of two nodes are the same, but for estimates. */
static bool
are_same_nodes(const void *one, const void *other)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans texts",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	const char *text = text_of(one);
	const char *other_text = text == NULL ? NULL : text_of(other);
	bool		are_same = other_text != NULL && are_same_texts(text, other_text);

	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
	return are_same;
}

/* Cuts a list, or another node, off. */
static List *
cut(List **list)
{
	List	   *before = *list;

	*list = NIL;
	return before;
}

/* Cuts the plans off that hang from a node of a plan: a list of Plan *, some of them NULL. */
static List *
cut_children(Plan *plan)
{
	List	   *children = list_make2(plan->lefttree, plan->righttree);

	plan->lefttree = plan->righttree = NULL;
	switch (nodeTag(plan))
	{
		case T_Append:
			return list_concat(children, cut(&((Append *) plan)->appendplans));
		case T_MergeAppend:
			return list_concat(children, cut(&((MergeAppend *) plan)->mergeplans));
		case T_BitmapAnd:
			return list_concat(children, cut(&((BitmapAnd *) plan)->bitmapplans));
		case T_BitmapOr:
			return list_concat(children, cut(&((BitmapOr *) plan)->bitmapplans));
		case T_SubqueryScan:
			children = lappend(children, ((SubqueryScan *) plan)->subplan);
			((SubqueryScan *) plan)->subplan = NULL;
			return children;
		default:
			return children;
	}
}

/* True if two expressions, or lists of them, that hang from nodes are equal; cuts them off. */
static bool
cut_equal(List **one, List **other)
{
	CHECK_FOR_INTERRUPTS();
	return equal(cut(one), cut(other));
}

/* Where nodes of plans have expressions, besides those that all have. */
static const struct
{
	NodeTag		tag;
	size_t		offset;			/* of a pointer to a list or another node */
}			expressions[] = {
	{T_Result, offsetof(Result, resconstantqual)},
	{T_ValuesScan, offsetof(ValuesScan, values_lists)},
	{T_FunctionScan, offsetof(FunctionScan, functions)},
	{T_TableFuncScan, offsetof(TableFuncScan, tablefunc)},
	{T_SampleScan, offsetof(SampleScan, tablesample)},
	{T_IndexScan, offsetof(IndexScan, indexqual)},
	{T_IndexScan, offsetof(IndexScan, indexqualorig)},
	{T_IndexScan, offsetof(IndexScan, indexorderby)},
	{T_IndexScan, offsetof(IndexScan, indexorderbyorig)},
	{T_IndexOnlyScan, offsetof(IndexOnlyScan, indexqual)},
	{T_IndexOnlyScan, offsetof(IndexOnlyScan, recheckqual)},
	{T_IndexOnlyScan, offsetof(IndexOnlyScan, indexorderby)},
	{T_BitmapIndexScan, offsetof(BitmapIndexScan, indexqual)},
	{T_BitmapIndexScan, offsetof(BitmapIndexScan, indexqualorig)},
	{T_BitmapHeapScan, offsetof(BitmapHeapScan, bitmapqualorig)},
	{T_TidScan, offsetof(TidScan, tidquals)},
	{T_TidRangeScan, offsetof(TidRangeScan, tidrangequals)},
	{T_NestLoop, offsetof(NestLoop, join.joinqual)},
	{T_MergeJoin, offsetof(MergeJoin, join.joinqual)},
	{T_MergeJoin, offsetof(MergeJoin, mergeclauses)},
	{T_HashJoin, offsetof(HashJoin, join.joinqual)},
	{T_HashJoin, offsetof(HashJoin, hashclauses)},
	{T_HashJoin, offsetof(HashJoin, hashkeys)},
	{T_Hash, offsetof(Hash, hashkeys)},
	{T_Memoize, offsetof(Memoize, param_exprs)},
	{T_WindowAgg, offsetof(WindowAgg, runCondition)},
	{T_WindowAgg, offsetof(WindowAgg, runConditionOrig)},
	{T_WindowAgg, offsetof(WindowAgg, startOffset)},
	{T_WindowAgg, offsetof(WindowAgg, endOffset)},
	{T_Limit, offsetof(Limit, limitOffset)},
	{T_Limit, offsetof(Limit, limitCount)},
};

/* True if the expressions of two nodes of a kind are equal; cuts them off. */
static bool
have_equal_expressions(Plan *one, Plan *other)
{
	if (!cut_equal(&one->targetlist, &other->targetlist) || !cut_equal(&one->qual, &other->qual))
		return false;
	for (int i = 0; i < lengthof(expressions); i++)
		if (nodeTag(one) == expressions[i].tag &&
			!cut_equal((List **) ((char *) one + expressions[i].offset),
					   (List **) ((char *) other + expressions[i].offset)))
			return false;
	return true;
}

static bool are_same_lists(List *one, List *other);

/* True if two plans are the same; takes them apart. */
static bool
are_same(Plan *one, Plan *other)
{
	List	   *children;
	List	   *other_children;

	if (one == NULL || other == NULL)
		return one == other;
	check_stack_depth();
	if (nodeTag(one) != nodeTag(other) || !have_equal_expressions(one, other))
		return false;
	children = cut_children(one);
	other_children = cut_children(other);
	return are_same_nodes(one, other) && are_same_lists(children, other_children);
}

/* True if the plans of two lists are the same. */
static bool
are_same_lists(List *one, List *other)
{
	ListCell   *cell;
	ListCell   *other_cell;

	if (list_length(one) != list_length(other))
		return false;
	forboth(cell, one, other_cell, other)
	{
		CHECK_FOR_INTERRUPTS();
		if (!are_same(lfirst(cell), lfirst(other_cell)))
			return false;
	}
	return true;
}

/* True if two statements are the same; takes them apart. */
static bool
are_same_statements(PlannedStmt *one, PlannedStmt *other)
{
	Plan	   *tree = one->planTree;
	Plan	   *other_tree = other->planTree;

	one->planTree = other->planTree = NULL;
	return cut_equal(&one->rtable, &other->rtable) &&
		cut_equal(&one->appendRelations, &other->appendRelations) && are_same(tree, other_tree) &&
		are_same_lists(cut(&one->subplans), cut(&other->subplans)) && are_same_nodes(one, other);
}

/* True if two plans are the same, but for estimates. */
bool
gk_are_same_plans(const PlannedStmt *one, const PlannedStmt *other)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans plans",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	bool		same = are_same_statements(copyObjectImpl(one), copyObjectImpl(other));

	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
	return same;
}
