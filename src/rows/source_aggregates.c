/*
 * Makes sure that the aggregates of a plan are those that it was made for.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_agg.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "source_aggregates.h"

static void check_plans(const List *plans);

/* True if an aggregate has the functions for what a plan does with its states. */
static bool
has_functions(const FormData_pg_aggregate *now, const Aggref *call)
{
	if (DO_AGGSPLIT_COMBINE(call->aggsplit) && !OidIsValid(now->aggcombinefn))
		return false;
	if (call->aggtranstype != INTERNALOID)
		return true;
	return (!DO_AGGSPLIT_SERIALIZE(call->aggsplit) || OidIsValid(now->aggserialfn)) &&
		(!DO_AGGSPLIT_DESERIALIZE(call->aggsplit) || OidIsValid(now->aggdeserialfn));
}

/* True if the aggregate that a plan calls is there, and its state is as the plan has it. */
static bool
is_as_planned(Aggref *call)
{
	HeapTuple	row = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(call->aggfnoid));
	const FormData_pg_aggregate *now;
	Oid			types[FUNC_MAX_ARGS];
	int			count;
	bool		same;

	if (!HeapTupleIsValid(row))
		return false;
	now = (Form_pg_aggregate) GETSTRUCT(row);
	count = get_aggregate_argtypes(call, types);
	same = has_functions(now, call) &&
		resolve_aggregate_transtype(call->aggfnoid, now->aggtranstype, types,
									count) == call->aggtranstype;
	ReleaseSysCache(row);
	return same;
}

/* Checks the aggregates of an expression. */
static bool
check_expression(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!IsA(node, Aggref))
		return expression_tree_walker(node, check_expression, context);
	if (!is_as_planned((Aggref *) node))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("source changed while it was being read"),
				 errdetail("An aggregate that it calls was replaced: %s.",
						   format_procedure(((Aggref *) node)->aggfnoid)),
				 errhint("Try again.")));
	return false;
}

/* Checks the aggregates of a plan and of those below. */
static void
check_plan(const Plan *plan)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	if (IsA(plan, Agg))
	{
		(void) check_expression((Node *) plan->targetlist, NULL);
		(void) check_expression((Node *) plan->qual, NULL);
	}
	else if (IsA(plan, Append))
		check_plans(((const Append *) plan)->appendplans);
	else if (IsA(plan, MergeAppend))
		check_plans(((const MergeAppend *) plan)->mergeplans);
	else if (IsA(plan, SubqueryScan))
		check_plan(((const SubqueryScan *) plan)->subplan);
	else if (IsA(plan, CustomScan))
		check_plans(((const CustomScan *) plan)->custom_plans);
	check_plan(plan->lefttree);
	check_plan(plan->righttree);
}

/* Checks those of several plans. */
static void
check_plans(const List *plans)
{
	ListCell   *cell;

	foreach(cell, plans)
		check_plan(lfirst(cell));
}

/* Checks those of a statement. */
void
gk_check_aggregates(const PlannedStmt *plan)
{
	check_plan(plan->planTree);
	check_plans(plan->subplans);
}
