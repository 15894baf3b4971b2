/*
 * The table to which a new version of a model is written.
 *
 * Everything is done by SQL commands as the current user, so privileges, triggers and event
 * triggers apply as usual.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "acting.h"
#include "definition.h"
#include "model_type.h"
#include "model_writes.h"
#include "output_table.h"
#include "table_name.h"
#include "sql_values.h"
#include "target.h"

#if PG_VERSION_NUM >= 160000
#define OWNS_RELATION(id) object_ownercheck(RelationRelationId, (id), GetUserId())
#else
#define OWNS_RELATION(id) pg_class_ownercheck((id), GetUserId())
#endif

/* The indexes that a model is made with. */
#define MADE_INDEXES 2

/* Parses if_exists. */
GkModelExists
gk_model_exists_word(const char *word)
{
	static const char *const words[] = {"error", "replace", "skip", NULL};

	return gk_find_word("if_exists", word, words);
}

/* Runs a command. */
static void
execute(const char *command)
{
	int			code = SPI_execute(command, false, 0);

	if (code < 0)
		elog(ERROR, "could not run \"%s\": %s", command, SPI_result_code_string(code));
}

/* Raises an error unless a table that was made is a model, with all its indexes. */
static void
check_made(Oid relation_id, const RangeVar *variable)
{
	/* the name of the type, too, may have meant another one */
	Relation	relation = gk_open_model(relation_id);

	/* the name of the table may have meant another one just while that got an index */
	if (list_length(RelationGetIndexList(relation)) < MADE_INDEXES)
		gk_raise_not_made(variable);
	relation_close(relation, NoLock);
}

/* Creates the table; by default, it could be one whose rows cannot be changed. */
static Oid
make_model(const RangeVar *variable, const char *name, const char *definition)
{
	CommandId	before = GetCurrentCommandId(false);
	Oid			made;

	gk_check_definition(definition);
	execute(psprintf("CREATE TABLE %s OF %s.gkmeans_model"
					 " (definition WITH OPTIONS DEFAULT %s::pg_catalog.jsonb,"
					 " PRIMARY KEY (version, group_no, part)) USING heap", name,
					 gk_extension_schema_name(), quote_literal_cstr(definition)));
	execute(psprintf("CREATE UNIQUE INDEX ON %s ((true)) WHERE deployed", name));
	execute(psprintf("ALTER TABLE %s ALTER centroids SET STORAGE EXTERNAL,"
					 " ALTER points SET STORAGE EXTERNAL,"
					 " ALTER deviations SET STORAGE EXTERNAL", name));
	made = gk_made_relation(variable, RELOID, 0, before);
	check_made(made, variable);
	return made;
}

/* Raises an error unless the current user may replace a model of that owner. */
static void
check_owner(Oid relation_id, Oid owner, const RangeVar *name)
{
	if (!OWNS_RELATION(relation_id))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name->relname);
	/* a superuser passes as the owner of whatever others have made */
	if (superuser() && !gk_could_act(owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("model \"%s\" exists and belongs to another role", name->relname),
				 errdetail("Its triggers would run as role \"%s\".",
						   GetUserNameFromId(GetUserId(), false)),
				 errhint("If it is meant, call the function in a session of role \"%s\", not after "
						 "SET ROLE. Otherwise drop the model, or name another one.",
						 GetUserNameFromId(owner, false))));
}

/* Raises an error unless the relation is a model that may get a new version. */
static void
check_existing(Oid relation_id, const RangeVar *name, GkModelExists if_exists)
{
	Relation	relation;
	Oid			owner;

	if (if_exists == GK_MODEL_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", name->relname),
				 errhint("Name another table, or, if it is a model, set if_exists to \"replace\" "
						 "or \"skip\".")));
	relation = gk_open_model(relation_id);
	owner = relation->rd_rel->relowner;
	/* see gk_open_model_to_change() */
	relation_close(relation, if_exists == GK_MODEL_REPLACE ? AccessShareLock : NoLock);
	if (if_exists != GK_MODEL_REPLACE)
		return;
	check_owner(relation_id, owner, name);
	gk_check_published(relation_id, CMD_UPDATE);
}

/* The highest number of the versions that a snapshot sees; 0 if there is none. */
static int
highest_version(Relation relation, Snapshot snapshot)
{
	int			highest = 0;
	GkHeads    *heads;

	PushActiveSnapshot(snapshot);
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		GkModelRow	row;

		gk_open_row(&row, relation, gk_head(heads));
		highest = Max(highest, row.version);
	}
	gk_end_heads(heads);
	PopActiveSnapshot();
	return highest;
}

/* The number of a new version. */
int
gk_next_version(Oid relation_id)
{
	Relation	relation = gk_open_model(relation_id);
	int			highest;

	/* count what others committed while this waited for the lock, and what the statement wrote */
	CommandCounterIncrement();
	highest = highest_version(relation, GetLatestSnapshot());
	/* and what others deleted since the transaction began, which sees it beside the new one */
	if (IsolationUsesXactSnapshot())
		highest = Max(highest, highest_version(relation, GetTransactionSnapshot()));
	if (highest == PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("model \"%s\" has the highest possible version",
						gk_model_name(relation))));
	relation_close(relation, NoLock);
	return highest + 1;
}

/* Now, or just after the last deployment, if the clock went back since. */
TimestampTz
gk_deployment_time(Oid relation_id)
{
	Relation	relation = gk_open_model(relation_id);
	TimestampTz time = GetCurrentTimestamp();
	GkHeads    *heads;

	PushActiveSnapshot(GetLatestSnapshot());
	heads = gk_begin_heads(relation);
	while (gk_next_head(heads))
	{
		bool		is_null;
		Datum		value = slot_getattr(gk_head(heads), GK_MODEL_DEPLOYED_AT, &is_null);
		TimestampTz other = is_null ? DT_NOBEGIN : DatumGetTimestampTz(value);

		/* what is above was changed by hand */
		if (other >= time && other < END_TIMESTAMP - 1)
			time = other + 1;
	}
	gk_end_heads(heads);
	PopActiveSnapshot();
	relation_close(relation, NoLock);
	return time;
}

/* Looks a model up and locks it; if there is none, it keeps others from creating one. */
static Oid
look_up(const RangeVar *name, LOCKMODE lock)
{
	Oid			relation_id = RangeVarGetRelid(name, lock, true);

	if (OidIsValid(relation_id))
		return relation_id;
	gk_lock_table_name(name);
	return RangeVarGetRelid(name, lock, true);
}

/* Looks the model up, and locks it if it is to be replaced; false if it lost its name meanwhile. */
static bool
find_target(GkTarget *target, const RangeVar *name, GkModelExists if_exists)
{
	target->relation_id = look_up(name, if_exists == GK_MODEL_ERROR ? NoLock : AccessShareLock);
	target->exists = OidIsValid(target->relation_id);
	if (target->exists)
		check_existing(target->relation_id, name, if_exists);
	if (!target->exists || if_exists != GK_MODEL_REPLACE)
		return true;
	/* see gk_open_model_to_change() */
	UnlockRelationOid(target->relation_id, AccessShareLock);
	LockRelationOid(target->relation_id, ShareUpdateExclusiveLock);
	if (RangeVarGetRelid(name, NoLock, true) != target->relation_id)
	{
		UnlockRelationOid(target->relation_id, ShareUpdateExclusiveLock);
		return false;
	}
	check_existing(target->relation_id, name, if_exists);
	return true;
}

/* Raises 40001 early if the version cannot be withdrawn, or others' definition would be lost. */
static void
check_seen(Oid relation_id)
{
	Relation	relation = gk_open_model(relation_id);

	gk_check_deployed_is_seen(relation);
	gk_check_definition_is_seen(relation);
	relation_close(relation, NoLock);
}

/* Creates the model, or locks an existing one. */
void
gk_open_target(GkTarget *target, const char *name, GkModelExists if_exists,
			   const char *definition)
{
	RangeVar   *variable = gk_table_name("model", name);

	target->name = gk_quoted_name(variable);
	target->definition = definition;
	target->version = 1;
	while (!find_target(target, variable, if_exists))
		CHECK_FOR_INTERRUPTS();
	if (target->exists && if_exists == GK_MODEL_REPLACE)
	{
		target->version = gk_next_version(target->relation_id);
		check_seen(target->relation_id);
	}
	if (target->exists)
		return;
	if (isTempOrTempToastNamespace(get_namespace_oid(variable->schemaname, false)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a model cannot be a temporary table"),
				 errdetail("Parallel workers could not read it.")));
	/* the error of CREATE TABLE would show the whole definition */
	gk_check_place(variable);
	target->relation_id = make_model(variable, target->name, definition);
}

/* Withdraws the deployed version of a model. */
void
gk_withdraw_deployed(Oid relation_id)
{
	Relation	relation = gk_open_model(relation_id);

	/* others may be deploying another by UPDATE, which this one would not see */
	gk_lock_deployed(relation);
	gk_change_model(relation_id, psprintf("UPDATE ONLY %s SET deployed = NULL WHERE deployed",
										  gk_quoted_model_name(relation_id)),
					SPI_OK_UPDATE, 0, NULL, NULL);
	/* a second deployed version would be an error of the unique index */
	if (SPI_processed == 0)
		gk_check_is_seen(relation, 0);
	relation_close(relation, NoLock);
}

/*
 * Makes a definition that of an existing model, unless it is: whoever changes one waits for all who
 * have read the model, and others for him.
 */
static void
redefine(Oid relation_id, const char *definition)
{
	Relation	relation = gk_open_model(relation_id);
	bool		is_same = gk_is_defined_as(relation, definition);

	relation_close(relation, NoLock);
	if (!is_same)
		gk_set_model_definition(relation_id, definition);
}

/* Writes the new version and deploys it. */
void
gk_write_target(const GkTarget *target, GkDraft *draft, const char *definition)
{
	/* before a row is written, which may have pending triggers */
	if (target->exists || definition != target->definition)
		redefine(target->relation_id, definition);
	if (target->exists)
		gk_withdraw_deployed(target->relation_id);
	gk_draft_set(draft, GK_MODEL_DEPLOYED_AT,
				 TimestampTzGetDatum(gk_deployment_time(target->relation_id)));
	gk_draft_set(draft, GK_MODEL_VERSION, Int32GetDatum(target->version));
	gk_insert_draft(draft, target->relation_id);
}
