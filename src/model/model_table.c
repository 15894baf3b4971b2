/*
 * A model as a table: checks, privileges, and its head rows.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "alloc.h"
#include "citus.h"
#include "definition.h"
#include "model.h"
#include "model_type.h"
#include "table_name.h"
#include "table_texts.h"

/* The most versions in a HINT. */
#define MOST_LISTED 20

/*
 * The most bytes that all but the definition of a model in the views may have in the catalogs.
 * gkmeans writes none of it, PostgreSQL parses some of it whenever a session opens the model, and
 * an expression of that length is not nested so deeply that this overflows the stack.
 */
#define MOST_OTHERS ((Size) 64 << 10)

/* The most that a session keeps of one. */
#define MOST_KEPT ((Size) 64 << 10)

struct GkHeads
{
	TableScanDesc scan;
	TupleTableSlot *slot;
	TupleTableSlot *found;		/* by gk_find_head() */
};

/* An attribute of a model. */
typedef struct Attribute
{
	const char *name;
	Oid			type;
} Attribute;

/* The attributes as the code that reads them expects them; see sql/models.sql. */
static const Attribute attributes[GK_MODEL_ATTRIBUTES] = {
	{"version", INT4OID}, {"group_no", INT4OID}, {"part", INT4OID}, {"status", TEXTOID},
	{"deployed", BOOLOID}, {"deployed_at", TIMESTAMPTZOID}, {"deployed_by", TEXTOID},
	{"started_at", TIMESTAMPTZOID}, {"finished_at", TIMESTAMPTZOID}, {"started_by", TEXTOID},
	{"outcome", TEXTOID}, {"error_code", TEXTOID}, {"error_message", TEXTOID}, {"note", TEXTOID},
	{"definition", JSONBOID}, {"metric", TEXTOID}, {"k", INT4OID}, {"dimension", INT4OID},
	{"features", TEXTARRAYOID}, {"array_column", TEXTOID}, {"shift", FLOAT8ARRAYOID},
	{"scale_offset", FLOAT8ARRAYOID}, {"scale_factor", FLOAT8ARRAYOID},
	{"feature_mean", FLOAT8ARRAYOID}, {"feature_deviation", FLOAT8ARRAYOID},
	{"feature_least", FLOAT8ARRAYOID}, {"feature_greatest", FLOAT8ARRAYOID},
	{"centroids", FLOAT8ARRAYOID}, {"points", FLOAT8ARRAYOID}, {"ties", INT4ARRAYOID},
	{"cluster_ids", INT4ARRAYOID}, {"names", TEXTARRAYOID}, {"sizes", INT8ARRAYOID},
	{"weights", FLOAT8ARRAYOID}, {"inertias", FLOAT8ARRAYOID}, {"avg_distances", FLOAT8ARRAYOID},
	{"radii", FLOAT8ARRAYOID}, {"deviations", FLOAT8ARRAYOID}, {"rows_read", INT8OID},
	{"rows_used", INT8OID}, {"inertia", FLOAT8OID}, {"between_ss", FLOAT8OID},
	{"total_ss", FLOAT8OID}, {"iterations", INT4OID}, {"converged", BOOLOID}, {"moved", INT8OID},
	{"score_quantiles", FLOAT8ARRAYOID}, {"silhouette", FLOAT8OID},
	{"simplified_silhouette", FLOAT8OID}, {"davies_bouldin", FLOAT8OID},
	{"calinski_harabasz", FLOAT8OID}, {"history", JSONBOID}, {"k_selection", JSONBOID},
	{"drift", JSONBOID}, {"map_x", FLOAT8ARRAYOID}, {"map_y", FLOAT8ARRAYOID},
	{"sample_points", FLOAT4ARRAYOID}, {"report", JSONBOID}
};

/* The extension's type. */
Oid
gk_model_type(void)
{
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("gkmeans_model"),
						   ObjectIdGetDatum(gk_extension_schema()));
}

/* True if a type is the extension's, which does not change while the extension exists. */
static bool
is_model_type(Oid type)
{
	static Oid	known = InvalidOid;

	if (OidIsValid(type) && type != known && type == gk_model_type())
		known = type;
	return OidIsValid(type) && type == known;
}

/* The name of a relation for messages. */
const char *
gk_model_name(Relation relation)
{
	return RelationGetRelationName(relation);
}

/*
 * True if the attributes of a table have the same numbers, names and types as in its type, and
 * those that are expected: a superuser can alter the attributes of both.  ALTER TABLE OF skips
 * dropped columns, so those after them would be mistaken for others.  CREATE TABLE OF looks the
 * type up twice: whoever renames one of his own in between gets its columns.
 */
static bool
has_columns_of_type(Relation relation)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	TupleDesc	type = lookup_rowtype_tupdesc_noerror(relation->rd_rel->reloftype, -1, true);
	bool		same = type != NULL && Min(descriptor->natts, type->natts) >= GK_MODEL_ATTRIBUTES;

	for (int i = 0; same && i < GK_MODEL_ATTRIBUTES; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);
		Form_pg_attribute wanted = TupleDescAttr(type, i);

		same = !column->attisdropped && column->atttypid == wanted->atttypid &&
			column->atttypid == attributes[i].type && column->atttypmod == wanted->atttypmod &&
			strcmp(NameStr(column->attname), NameStr(wanted->attname)) == 0 &&
			strcmp(NameStr(column->attname), attributes[i].name) == 0;
	}
	if (type != NULL)
		ReleaseTupleDesc(type);
	return same;
}

/* True if a relation is a model. */
static bool
is_model(Relation relation)
{
	return relation->rd_rel->relkind == RELKIND_RELATION &&
		is_model_type(relation->rd_rel->reloftype) && has_columns_of_type(relation);
}

/* Raises an error unless a relation is a model that can be read here. */
void
gk_check_model(Relation relation)
{
	const char *name = gk_model_name(relation);

	if (!is_model(relation))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a gkmeans model", name),
				 errhint("Models are made by gkmeans_create_model().")));
	if (gk_is_citus_table(RelationGetRelid(relation)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("model \"%s\" is kept by Citus", name),
				 errdetail("The table itself has none of its rows, or old ones."),
				 errhint("Leave a model a local table. For queries that Citus sends to its "
						 "workers, import it into each of them with gkmeans_import_model(), or "
						 "call gkmeans_predict_with().")));
	if (relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("model \"%s\" is a temporary table", name),
				 errdetail("Parallel workers could not read it.")));
	if (relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT && RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read unlogged model \"%s\" during recovery", name)));
}

/* True if the current user may read all of a model. */
static bool
may_read(Relation relation)
{
	return pg_class_aclcheck(RelationGetRelid(relation), GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

/* True if row-level security applies to the current user. */
static bool
is_restricted(Relation relation)
{
	return relation->rd_rel->relrowsecurity &&
		check_enable_rls(RelationGetRelid(relation), InvalidOid, true) == RLS_ENABLED;
}

/* Opens the table of a model to read it, with the snapshot that it will be read by. */
Relation
gk_open_model_table(Oid relation_id)
{
	Relation	relation = try_relation_open(relation_id, AccessShareLock);

	EnsurePortalSnapshotExists();
	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("model with OID %u does not exist", relation_id)));
	return relation;
}

/* Raises an error unless the current user may read a model. */
void
gk_check_model_reader(Relation relation)
{
	if (!may_read(relation))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, gk_model_name(relation));
	if (is_restricted(relation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("model \"%s\" is under row-level security", gk_model_name(relation)),
				 errhint("Disable it: the privileges on a model are those on its table.")));
}

/* Opens a model to read it. */
Relation
gk_open_model(Oid relation_id)
{
	Relation	relation = gk_open_model_table(relation_id);

	gk_check_model(relation);
	gk_check_model_reader(relation);
	return relation;
}

/*
 * Opens a model to change it.  Whoever waits for the lock holds no other: its holder may need a
 * stronger one in the end, and would wait for those who wait.
 */
Relation
gk_open_model_to_change(Oid relation_id)
{
	relation_close(gk_open_model(relation_id), AccessShareLock);
	LockRelationOid(relation_id, ShareUpdateExclusiveLock);
	return gk_open_model(relation_id);
}

/* Opens a model whose lock is taken already; NULL and no lock instead of an error. */
static Relation
open_locked(Oid relation_id)
{
	Relation	relation = try_relation_open(relation_id, NoLock);

	if (relation == NULL)
	{
		UnlockRelationOid(relation_id, AccessShareLock);
		return NULL;
	}
	if (is_model(relation) && may_read(relation) && !is_restricted(relation) &&
		relation->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		(relation->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT || !RecoveryInProgress()))
		return relation;
	relation_close(relation, AccessShareLock);
	return NULL;
}

/* True if the current user may use a schema and read a table; no lock is taken. */
static bool
is_visible(Oid relation_id)
{
	bool		is_missing = false;
	Oid			schema = get_rel_namespace(relation_id);

	if (!OidIsValid(schema) || isAnyTempNamespace(schema))
		return false;
#if PG_VERSION_NUM >= 160000
	if (object_aclcheck(NamespaceRelationId, schema, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		return false;
#else
	if (pg_namespace_aclcheck(schema, GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		return false;
#endif
	return pg_class_aclcheck_ext(relation_id, GetUserId(), ACL_SELECT, &is_missing) ==
		ACLCHECK_OK && !is_missing;
}

/* True if a table may be a model that the current user can see in the views. */
bool
gk_is_listed_model(Form_pg_class table)
{
	return table->relkind == RELKIND_RELATION && is_model_type(table->reloftype) &&
		is_visible(table->oid);
}

/* Says that a model, which is not open, is left out of the views. */
static void
tell_left_out(Oid relation_id, int code, const char *why)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation_id));
	Form_pg_class table;

	if (!HeapTupleIsValid(tuple))
		return;
	table = (Form_pg_class) GETSTRUCT(tuple);
	if (is_model_type(table->reloftype))
		ereport(WARNING,
				(errcode(code),
				 errmsg("model \"%s\" is left out: %s", NameStr(table->relname), why)));
	ReleaseSysCache(tuple);
}

/* Says so of a model that is locked. */
static void
tell_of_lock(Oid relation_id)
{
	tell_left_out(relation_id, ERRCODE_LOCK_NOT_AVAILABLE, "another transaction has locked it");
}

/* The indexes of the table that keeps a model's long values, which is locked. */
static List *
toast_indexes(Oid toast_id)
{
	Relation	toast = relation_open(toast_id, NoLock);
	List	   *indexes = RelationGetIndexList(toast);

	relation_close(toast, NoLock);
	return indexes;
}

/* True if this session has the lock of a reader. */
static bool
is_locked_here(Oid relation_id)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation_id);
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, AccessShareLock, false);
#else
	return LockHeldByMe(&tag, AccessShareLock);
#endif
}

/* Unlocks that table, if there is one, and those of its indexes that were there at the time. */
static void
unlock_toast(Oid toast_id)
{
	ListCell   *cell;

	if (!OidIsValid(toast_id))
		return;
	foreach(cell, toast_indexes(toast_id))
		if (is_locked_here(lfirst_oid(cell)))
			UnlockRelationOid(lfirst_oid(cell), AccessShareLock);
	UnlockRelationOid(toast_id, AccessShareLock);
}

/*
 * Locks that table and its indexes, which PostgreSQL locks whenever it fetches a value; REINDEX
 * keeps readers from an index, not from the model.  False instead of waiting.
 */
static bool
try_lock_toast(Oid toast_id)
{
	bool		is_free = true;
	ListCell   *cell;

	if (!OidIsValid(toast_id))
		return true;
	if (!ConditionalLockRelationOid(toast_id, AccessShareLock))
		return false;
	foreach(cell, toast_indexes(toast_id))
		is_free = is_free && ConditionalLockRelationOid(lfirst_oid(cell), AccessShareLock);
	if (!is_free)
		unlock_toast(toast_id);
	return is_free;
}

/* True if what PostgreSQL reads when it opens a model is short enough for the views. */
static bool
has_short_texts(Oid relation_id)
{
	Size		definition = gk_default_text(relation_id, GK_MODEL_DEFINITION);

	return definition <= GK_MOST_DEFINITION &&
		gk_table_texts(relation_id) - definition <= MOST_OTHERS;
}

/* Locks and opens a model that is visible; NULL and a WARNING if that is left out. */
static Relation
try_open(Oid relation_id)
{
	if (!ConditionalLockRelationOid(relation_id, AccessShareLock))
	{
		tell_of_lock(relation_id);
		return NULL;
	}
	if (!has_short_texts(relation_id))
	{
		tell_left_out(relation_id, ERRCODE_PROGRAM_LIMIT_EXCEEDED,
					  "its defaults, checks, rules, policies and triggers are too long");
		UnlockRelationOid(relation_id, AccessShareLock);
		return NULL;
	}
	return open_locked(relation_id);
}

/* Opens a model if the current user may see it in the views. */
Relation
gk_open_visible_model(Oid relation_id)
{
	Relation	relation;

	EnsurePortalSnapshotExists();
	relation = is_visible(relation_id) ? try_open(relation_id) : NULL;
	if (relation == NULL || try_lock_toast(relation->rd_rel->reltoastrelid))
		return relation;
	tell_of_lock(relation_id);
	relation_close(relation, AccessShareLock);
	return NULL;
}

/* Closes such a model.  What PostgreSQL read of it goes if it is much: there may be many. */
void
gk_close_visible_model(Relation relation)
{
	Oid			relation_id = RelationGetRelid(relation);
	bool		keeps = gk_table_texts(relation_id) <= MOST_KEPT;

	unlock_toast(relation->rd_rel->reltoastrelid);
	relation_close(relation, NoLock);
	if (!keeps)
		RelationCacheInvalidateEntry(relation_id);
	UnlockRelationOid(relation_id, AccessShareLock);
}

/* Begins a scan of the head rows. */
GkHeads *
gk_begin_heads(Relation relation)
{
	GkHeads    *heads = palloc(sizeof(GkHeads));

	heads->slot = table_slot_create(relation, NULL);
	heads->found = table_slot_create(relation, NULL);
	heads->scan = table_beginscan_strat(relation, GetActiveSnapshot(), 0, NULL, true, false);
	return heads;
}

/* An integer attribute; -1 for NULL. */
static int
integer_of(TupleTableSlot *slot, GkModelAttribute number)
{
	bool		is_null;
	Datum		value = slot_getattr(slot, number, &is_null);

	return is_null ? -1 : DatumGetInt32(value);
}

/* Moves to the next head row; false at the end. */
bool
gk_next_head(GkHeads *heads)
{
	while (table_scan_getnextslot(heads->scan, ForwardScanDirection, heads->slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (integer_of(heads->slot, GK_MODEL_GROUP_NO) == 0 &&
			integer_of(heads->slot, GK_MODEL_PART) == 0)
			return true;
	}
	return false;
}

/* The head row. */
TupleTableSlot *
gk_head(const GkHeads *heads)
{
	return heads->slot;
}

/* Ends the scan. */
void
gk_end_heads(GkHeads *heads)
{
	ExecDropSingleTupleTableSlot(heads->slot);
	ExecDropSingleTupleTableSlot(heads->found);
	table_endscan(heads->scan);
	pfree(heads);
}

/* True if the head is that of a version, of a deployed one if it is 0. */
static bool
is_head_of(const GkHeads *heads, int version)
{
	bool		is_null;
	Datum		deployed = slot_getattr(heads->slot, GK_MODEL_DEPLOYED, &is_null);

	return version == 0 ? !is_null && DatumGetBool(deployed)
		: integer_of(heads->slot, GK_MODEL_VERSION) == version;
}

/*
 * Raises the error that a version is there twice, or two are deployed: the indexes that keep it
 * from happening can be dropped.  To choose one would be to guess.
 */
static void
raise_ambiguous(const GkHeads *heads)
{
	const char *name = gk_model_name(heads->scan->rs_rd);
	int			one = integer_of(heads->found, GK_MODEL_VERSION);
	int			other = integer_of(heads->slot, GK_MODEL_VERSION);

	if (one == other)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("model \"%s\" has version %d more than once", name, one),
				 errhint("Delete the surplus rows and re-create the primary key.")));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("model \"%s\" has several deployed versions", name),
			 errdetail("Versions %d and %d are deployed.", Min(one, other), Max(one, other)),
			 errhint("Deploy one of them with gkmeans_deploy(), and re-create the unique index "
					 "on ((true)) WHERE deployed.")));
}

/* The version that an argument names; 0, the deployed one, for NULL. */
int
gk_version_argument(FunctionCallInfo fcinfo, int number)
{
	if (PG_ARGISNULL(number))
		return 0;
	return PG_GETARG_INT32(number) == 0 ? GK_VERSION_ZERO : PG_GETARG_INT32(number);
}

/* Positions the heads at a version. */
bool
gk_find_head(GkHeads *heads, int version)
{
	while (gk_next_head(heads))
	{
		if (!is_head_of(heads, version))
			continue;
		if (!TTS_EMPTY(heads->found))
			raise_ambiguous(heads);
		ExecCopySlot(heads->found, heads->slot);
	}
	if (TTS_EMPTY(heads->found))
		return false;
	ExecCopySlot(heads->slot, heads->found);
	return true;
}

/* Locks a head row, as UPDATE does; false if others have changed it. */
static bool
lock_head(Relation relation, TupleTableSlot *head, TupleTableSlot *locked)
{
	TM_FailureData failure;
	TM_Result	result = table_tuple_lock(relation, &head->tts_tid, GetActiveSnapshot(), locked,
										  GetCurrentCommandId(true), LockTupleNoKeyExclusive,
										  LockWaitBlock, TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS,
										  &failure);

	return result != TM_Updated && result != TM_Deleted;
}

/* Locks the rows of deployed versions, or of all, and counts them; false likewise. */
static bool
lock_heads(Relation relation, bool all, int *count)
{
	TupleTableSlot *locked = table_slot_create(relation, NULL);
	bool		are_same = true;
	GkHeads    *heads;

	*count = 0;
	PushActiveSnapshot(GetLatestSnapshot());
	heads = gk_begin_heads(relation);
	while (are_same && gk_next_head(heads))
	{
		if (!all && !is_head_of(heads, 0))
			continue;
		are_same = lock_head(relation, gk_head(heads), locked);
		(*count)++;
	}
	gk_end_heads(heads);
	PopActiveSnapshot();
	ExecDropSingleTupleTableSlot(locked);
	return are_same;
}

/* Keeps others from changing any version until the transaction ends. */
void
gk_lock_versions(Relation relation)
{
	int			count;

	/* the calling statement may have changed some */
	CommandCounterIncrement();
	while (!lock_heads(relation, true, &count))
		CHECK_FOR_INTERRUPTS();
}

/*
 * The same for the deployed version: of several, where an index was dropped, all.  If there is
 * none, any row may be about to become it.
 */
void
gk_lock_deployed(Relation relation)
{
	int			count;

	CommandCounterIncrement();
	while (!lock_heads(relation, false, &count))
		CHECK_FOR_INTERRUPTS();
	if (count == 0)
		gk_lock_versions(relation);
}

/* The version that is deployed by now; -1 if the model is gone. */
int
gk_deployed_version(Oid relation_id)
{
	Relation	relation;
	GkHeads    *heads;
	int			version;

	LockRelationOid(relation_id, AccessShareLock);
	relation = open_locked(relation_id);
	if (relation == NULL)
		return -1;
	PushActiveSnapshot(GetLatestSnapshot());
	heads = gk_begin_heads(relation);
	version = gk_find_head(heads, 0) ? integer_of(gk_head(heads), GK_MODEL_VERSION) : 0;
	gk_end_heads(heads);
	PopActiveSnapshot();
	relation_close(relation, AccessShareLock);
	return version;
}

/*
 * True if the calling statement has not withdrawn a version that it sees deployed.  One that others
 * have withdrawn can be seen beside one that the statement has deployed, so only it is looked for.
 */
bool
gk_leaves_deployed(Oid relation_id, int version)
{
	Relation	relation;
	GkHeads    *heads;
	bool		found = false;

	LockRelationOid(relation_id, AccessShareLock);
	relation = open_locked(relation_id);
	if (relation == NULL)
		return false;
	PushCopiedSnapshot(GetActiveSnapshot());
	UpdateActiveSnapshotCommandId();
	heads = gk_begin_heads(relation);
	while (!found && gk_next_head(heads))
		found = is_head_of(heads, 0) &&
			integer_of(gk_head(heads), GK_MODEL_VERSION) == version;
	gk_end_heads(heads);
	PopActiveSnapshot();
	relation_close(relation, AccessShareLock);
	return found;
}

/* Lists the versions. */
int *
gk_model_versions(Relation relation, int *count)
{
	GkHeads    *heads = gk_begin_heads(relation);
	int			room = 16;
	int		   *numbers = palloc(room * sizeof(int));

	*count = 0;
	while (gk_next_head(heads))
	{
		if (*count == room)
			numbers = repalloc_huge(numbers, (room *= 2) * sizeof(int));
		numbers[(*count)++] = integer_of(heads->slot, GK_MODEL_VERSION);
	}
	gk_end_heads(heads);
	gk_sort_integers(numbers, *count);
	return numbers;
}

/* The newest versions, for a HINT. */
static const char *
list_versions(Relation relation)
{
	int			count;
	int		   *numbers = gk_model_versions(relation, &count);
	StringInfoData list;

	initStringInfo(&list);
	for (int i = Max(count - MOST_LISTED, 0); i < count; i++)
		appendStringInfo(&list, "%s%d", list.len > 0 ? ", " : count > MOST_LISTED ? "..., " : "",
						 numbers[i]);
	return list.data;
}

/* True if one of the versions could be deployed. */
static bool
can_deploy(Relation relation)
{
	GkHeads    *heads = gk_begin_heads(relation);
	bool		found = false;

	while (!found && gk_next_head(heads))
		found = !slot_attisnull(gk_head(heads), GK_MODEL_CENTROIDS);
	gk_end_heads(heads);
	return found;
}

/* True if a snapshot sees a version. */
static bool
sees_version(Relation relation, int version, Snapshot snapshot)
{
	GkHeads    *heads;
	bool		found;

	PushActiveSnapshot(snapshot);
	heads = gk_begin_heads(relation);
	found = gk_find_head(heads, version);
	gk_end_heads(heads);
	PopActiveSnapshot();
	return found;
}

/* Raises the error that a transaction does not see the version that is there. */
static void
raise_not_seen(Relation relation)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("A version of model \"%s\" was made, deployed or changed after this "
					   "transaction began.", gk_model_name(relation))));
}

/* Raises 40001 if a version is there, but newer than what the transaction sees. */
void
gk_check_is_seen(Relation relation, int version)
{
	if (!IsolationUsesXactSnapshot() ||
		sees_version(relation, version, GetTransactionSnapshot()))
		return;
	/* the latest one, also in parallel mode, where GetLatestSnapshot() cannot be called */
	if (sees_version(relation, version,
					 GetNonHistoricCatalogSnapshot(RelationGetRelid(relation))))
		raise_not_seen(relation);
}

/* Finds the row of the deployed version in a snapshot; false if there is none. */
static bool
find_place(Relation relation, Snapshot snapshot, ItemPointer place)
{
	GkHeads    *heads;
	bool		found = false;

	PushActiveSnapshot(snapshot);
	heads = gk_begin_heads(relation);
	while (!found && gk_next_head(heads))
	{
		found = is_head_of(heads, 0);
		*place = gk_head(heads)->tts_tid;
	}
	gk_end_heads(heads);
	PopActiveSnapshot();
	return found;
}

/* Raises 40001 unless the transaction sees the deployed version, if any, as it is by now. */
void
gk_check_deployed_is_seen(Relation relation)
{
	ItemPointerData then;
	ItemPointerData now;
	bool		was_deployed;

	if (!IsolationUsesXactSnapshot())
		return;
	was_deployed = find_place(relation, GetTransactionSnapshot(), &then);
	if (find_place(relation, GetLatestSnapshot(), &now) != was_deployed ||
		(was_deployed && !ItemPointerEquals(&then, &now)))
		raise_not_seen(relation);
}

/* Reports a missing version; 0 is the deployed one. */
void
gk_model_has_no_version(Relation relation, int version)
{
	const char *versions;

	gk_check_is_seen(relation, version);
	if (version == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("model \"%s\" has no deployed version", gk_model_name(relation)),
				 can_deploy(relation) ? errhint("Deploy one with gkmeans_deploy().")
				 : errhint("It has none that could be deployed. Make one with "
						   "gkmeans_create_model() and if_exists => 'replace'.")));
	versions = list_versions(relation);
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("model \"%s\" has no version %d", gk_model_name(relation),
					version == GK_VERSION_ZERO ? 0 : version),
			 *versions != '\0' ? errhint("Its versions are: %s.", versions)
			 : errhint("It has none. Make one with gkmeans_create_model() and "
					   "if_exists => 'replace'.")));
}

/* Raises the error of a version that cannot score. */
void
gk_version_has_no_centroids(Relation relation, int version)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("version %d of model \"%s\" has no centroids", version,
					gk_model_name(relation))));
}

/* Positions the heads at a version, or raises an error. */
void
gk_find_head_or_fail(GkHeads *heads, Relation relation, int version)
{
	if (!gk_find_head(heads, version))
		gk_model_has_no_version(relation, version);
	/* the deployed one must have them, or it is damaged */
	if (version != 0 && slot_attisnull(gk_head(heads), GK_MODEL_CENTROIDS))
		gk_version_has_no_centroids(relation, version);
}
