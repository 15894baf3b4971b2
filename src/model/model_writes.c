/*
 * Commands that change a model.
 */
#include "postgres.h"

#include "catalog/pg_attrdef.h"
#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "parser/parsetree.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"

#include "checked_command.h"
#include "definition.h"
#include "model_writes.h"

/* The name of a model. */
char *
gk_quoted_model_name(Oid relation_id)
{
	char	   *schema;
	char	   *name;

	/* the caches may be older than a wait for a row */
	AcceptInvalidationMessages();
	schema = get_namespace_name(get_rel_namespace(relation_id));
	name = get_rel_name(relation_id);
	if (schema == NULL || name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the model does not exist any more")));
	return quote_qualified_identifier(schema, name);
}

/* Raises the error of a command that a rule replaced. */
static void
fail_as_rewritten(Oid relation_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not write to model %s", gk_quoted_model_name(relation_id)),
			 errdetail("A rule of the table does something else instead.")));
}

/* Raises the error of a command whose name meant another table. */
static void
fail_as_renamed(Oid relation_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not write to model %s", gk_quoted_model_name(relation_id)),
			 errdetail("Its schema was renamed meanwhile."),
			 errhint("Try again.")));
}

/* The table that a prepared command changes after all rules. */
static Oid
target_of(SPIPlanPtr plan)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));
	ListCell   *cell;

	foreach(cell, source->query_list)
	{
		Query	   *query = lfirst_node(Query, cell);

		if (query->canSetTag && query->resultRelation > 0)
			return rt_fetch(query->resultRelation, query->rtable)->relid;
	}
	return InvalidOid;
}

/* Raises an error if a rule did something else instead of a command. */
static void
check_written(Oid relation_id, int code, int expected)
{
	if (code == SPI_OK_REWRITTEN)
		fail_as_rewritten(relation_id);
	if (code != expected)
		elog(ERROR, "could not write to model %s: %s", gk_quoted_model_name(relation_id),
			 SPI_result_code_string(code));
}

/* Raises an error if a command names another table. */
static void
check_query(const Query *query, const void *context)
{
	Oid			relation_id = *(const Oid *) context;

	if (query->resultRelation == 0 ||
		rt_fetch(query->resultRelation, query->rtable)->relid != relation_id)
		fail_as_renamed(relation_id);
}

/* Changes rows of a model. */
void
gk_change_model(Oid relation_id, const char *command, int expected, int count, Oid *types,
				Datum *values)
{
	GkCheckedCommand checked = {.text = command,.check_query = check_query,
		.context = &relation_id};
	int			code;

	/* a plan for these values would have a copy of them */
	SPIPlanPtr	plan = gk_execute_checked(&checked, CURSOR_OPT_GENERIC_PLAN, count, types, values,
										  NULL, &code);

	check_written(relation_id, code, expected);
	/* a rule may have written to another table by a command of the same kind */
	if (target_of(plan) != relation_id)
		fail_as_rewritten(relation_id);
	SPI_freeplan(plan);
}

/* Makes a definition that of a model. */
void
gk_set_model_definition(Oid relation_id, const char *definition)
{
	GkCheckedCommand command = {0};
	AttrNumber	column;
	Oid			before;
	int			code;

	gk_check_definition(definition);
	LockRelationOid(relation_id, AccessExclusiveLock);
	column = get_attnum(relation_id, "definition");
	before = GetAttrDefaultOid(relation_id, column);
	command.text = psprintf("ALTER TABLE ONLY %s ALTER definition"
							" SET DEFAULT %s::pg_catalog.jsonb",
							gk_quoted_model_name(relation_id), quote_literal_cstr(definition));
	SPI_freeplan(gk_execute_checked(&command, 0, 0, NULL, NULL, NULL, &code));
	if (code != SPI_OK_UTILITY)
		elog(ERROR, "could not alter model %s: %s", gk_quoted_model_name(relation_id),
			 SPI_result_code_string(code));
	/* a default that is set is a new row of the catalog */
	if (GetAttrDefaultOid(relation_id, column) == before)
		fail_as_renamed(relation_id);
}
