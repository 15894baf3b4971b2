/*
 * The SQL functions that choose among the versions of a model.
 *
 * They use UPDATE and DELETE as the current user, who needs only the privileges for these.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "alloc.h"
#include "definition.h"
#include "draft.h"
#include "model.h"
#include "model_writes.h"
#include "sql_function.h"
#include "sql_values.h"
#include "target.h"
#include "versions.h"

GK_SQL_FUNCTION(gkmeans_deploy);
GK_SQL_FUNCTION(gkmeans_rollback);
GK_SQL_FUNCTION(gkmeans_prune);
GK_SQL_FUNCTION(gkmeans_name_clusters);

/* The facts about a version by which one is chosen. */
typedef struct Version
{
	int			number;
	bool		deployed;
	TimestampTz deployed_at;	/* 0 = never */
	bool		can_score;
	int			k;
} Version;

/* A model to be changed. */
typedef struct Change
{
	Relation	relation;
	int			count;
	Version    *versions;
	const Version *deployed;	/* NULL = none */
} Change;

/* Reads the facts of a head row. */
static void
read_version(Relation relation, TupleTableSlot *slot, Version *version)
{
	GkModelRow	row;
	bool		is_null;
	Datum		value;

	gk_open_row(&row, relation, slot);
	version->number = row.version;
	version->can_score = gk_row_has_centroids(&row);
	value = slot_getattr(slot, GK_MODEL_DEPLOYED, &is_null);
	version->deployed = !is_null && DatumGetBool(value);
	value = slot_getattr(slot, GK_MODEL_DEPLOYED_AT, &is_null);
	version->deployed_at = is_null ? 0 : DatumGetTimestampTz(value);
	value = slot_getattr(slot, GK_MODEL_K, &is_null);
	version->k = is_null ? 0 : DatumGetInt32(value);
}

/* The order of versions: the newest first. */
static int
compare_versions(const void *a, const void *b, void *argument)
{
	int			left = ((const Version *) a)->number;
	int			right = ((const Version *) b)->number;

	return (left < right) - (left > right);
}

/* Reads all versions that a snapshot sees, in that order. */
static void
read_versions(Change *change, Snapshot snapshot)
{
	int			room = 16;
	GkHeads    *heads;

	change->versions = palloc(room * sizeof(Version));
	PushActiveSnapshot(snapshot);
	heads = gk_begin_heads(change->relation);
	while (gk_next_head(heads))
	{
		if (change->count == room)
		{
			room *= 2;
			change->versions = repalloc_huge(change->versions, room * sizeof(Version));
		}
		read_version(change->relation, gk_head(heads), &change->versions[change->count++]);
	}
	gk_end_heads(heads);
	PopActiveSnapshot();
	qsort_interruptible(change->versions, change->count, sizeof(Version), compare_versions, NULL);
	/* of several, where the unique index was dropped, the newest */
	for (int i = 0; i < change->count && change->deployed == NULL; i++)
		if (change->versions[i].deployed)
			change->deployed = &change->versions[i];
}

/* Raises 40001 if the transaction sees other versions than there are, or another one deployed. */
static void
check_snapshot(const Change *change)
{
	Change		seen = {.relation = change->relation};
	bool		is_same;

	read_versions(&seen, GetTransactionSnapshot());
	is_same = seen.count == change->count;
	for (int i = 0; is_same && i < seen.count; i++)
		is_same = seen.versions[i].number == change->versions[i].number &&
			seen.versions[i].deployed == change->versions[i].deployed &&
			seen.versions[i].deployed_at == change->versions[i].deployed_at;
	if (!is_same)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("Versions of model \"%s\" were made, deployed or deleted after this "
						   "transaction began.", gk_model_name(change->relation))));
}

/* Raises XX001 if several versions are deployed, which the unique index keeps from happening. */
static void
check_one_is_deployed(const Change *change)
{
	(void) gk_deployed_version(RelationGetRelid(change->relation));
}

/* Raises 42501 unless the current user has a privilege on a model, or on some of its columns. */
static void
check_privilege(Oid relation_id, AclMode privilege)
{
	Relation	relation = gk_open_model(relation_id);
	Oid			user = GetUserId();

	if (pg_class_aclcheck(relation_id, user, privilege) != ACLCHECK_OK &&
		pg_attribute_aclcheck_all(relation_id, user, privilege, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, gk_model_name(relation));
	relation_close(relation, AccessShareLock);
}

/* Opens a model, locks it against other changes, and connects to SPI. */
static void
open_change(Change *change, Oid relation_id, AclMode privilege, const char *function)
{
	memset(change, 0, sizeof(*change));
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	check_privilege(relation_id, privilege);
	change->relation = gk_open_model_to_change(relation_id);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
}

/* Reads all versions that there are, which the transaction has to see. */
static void
read_now(Change *change)
{
	read_versions(change, GetLatestSnapshot());
	if (IsolationUsesXactSnapshot())
		check_snapshot(change);
}

/* Begins to change a version that the caller names, or the deployed one. */
static void
begin_change(Change *change, Oid relation_id, AclMode privilege, const char *function)
{
	open_change(change, relation_id, privilege, function);
	/* who deploys by UPDATE withdraws that version first */
	gk_lock_deployed(change->relation);
	read_now(change);
}

/* Begins to change some that are chosen by what all are. */
static void
begin_choice(Change *change, Oid relation_id, AclMode privilege, const char *function)
{
	open_change(change, relation_id, privilege, function);
	gk_lock_versions(change->relation);
	read_now(change);
}

/* Ends the change. */
static void
end_change(Change *change)
{
	SPI_finish();
	relation_close(change->relation, NoLock);
}

/* Raises the error that there is no such version, by what read_versions() has seen. */
__attribute__((noreturn))
static void
raise_no_version(const Change *change, int version)
{
	PushActiveSnapshot(GetLatestSnapshot());
	gk_model_has_no_version(change->relation, version);
}

/* The version with a number, or an error. */
static const Version *
find_version(const Change *change, int number)
{
	for (int i = 0; i < change->count; i++)
		if (change->versions[i].number == number)
			return &change->versions[i];

	raise_no_version(change, number == 0 ? GK_VERSION_ZERO : number);
}

/* Raises an error if others have deleted a version meanwhile, or one that is there is too new. */
static void
check_is_there(const Change *change, int number)
{
	Change		now = {.relation = change->relation};

	gk_check_is_seen(change->relation, number);
	read_versions(&now, GetLatestSnapshot());
	(void) find_version(&now, number);
}

/* Updates the head row of a version; $2 is a value of a type, if there is one. */
static void
update_version(const Change *change, int version, const char *set, Oid type, Datum value)
{
	Oid			types[2] = {INT4OID, type};
	Datum		values[2] = {Int32GetDatum(version), value};
	Oid			relation_id = RelationGetRelid(change->relation);
	uint64		changed;

	gk_change_model(relation_id,
					psprintf("UPDATE ONLY %s SET %s WHERE version OPERATOR(pg_catalog.=) $1"
							 " AND group_no OPERATOR(pg_catalog.=) 0"
							 " AND part OPERATOR(pg_catalog.=) 0",
							 gk_quoted_model_name(relation_id), set),
					SPI_OK_UPDATE, type == InvalidOid ? 1 : 2, types, values);
	changed = SPI_processed;
	if (changed == 0)
		check_is_there(change, version);
	if (changed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("version %d of model \"%s\" was not changed", version,
						gk_model_name(change->relation)),
				 errdetail("The UPDATE changed %llu rows instead of one.",
						   (unsigned long long) changed)));
}

/* The version that was deployed before the current one; NULL if there is none. */
static const Version *
find_previous(const Change *change)
{
	const Version *found = NULL;

	for (int i = 0; i < change->count; i++)
	{
		const Version *version = &change->versions[i];

		if (version->deployed || version->deployed_at == 0 || !version->can_score ||
			(change->deployed != NULL && version->deployed_at > change->deployed->deployed_at))
			continue;
		if (found == NULL || version->deployed_at > found->deployed_at)
			found = version;
	}
	return found;
}

/* Says that the labels stay those of another version than the one now deployed. */
static void
tell_of_labels(const Change *change, int version)
{
	const char *table = gk_defined_labels_table(change->relation);

	if (table == NULL)
		return;
	ereport(NOTICE,
			(errmsg("labels in table \"%s\" were not changed", table),
			 errhint("Call gkmeans_assign() to write those of version %d.", version)));
}

/* SQL: deploys a version; returns the one deployed before. */
Datum
gkmeans_deploy(PG_FUNCTION_ARGS)
{
	Change		change;
	const Version *version;
	int			before;

	begin_change(&change, PG_GETARG_OID(0), ACL_UPDATE, "gkmeans_deploy()");
	version = find_version(&change, PG_GETARG_INT32(1));
	if (!version->can_score)
		gk_version_has_no_centroids(change.relation, version->number);
	/* several are deployed where the unique index was dropped */
	for (int i = 0; i < change.count; i++)
		if (change.versions[i].deployed && &change.versions[i] != version)
			update_version(&change, change.versions[i].number, "deployed = NULL",
						   InvalidOid, 0);
	if (!version->deployed)
	{
		update_version(&change, version->number,
					   "deployed = true, deployed_by = current_user, deployed_at = $2",
					   TIMESTAMPTZOID,
					   TimestampTzGetDatum(gk_deployment_time(RelationGetRelid(change.relation))));
		tell_of_labels(&change, version->number);
	}
	before = change.deployed != NULL ? change.deployed->number : 0;
	end_change(&change);
	if (before == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32(before);
}

/* SQL: goes back to the version deployed before; returns it. */
Datum
gkmeans_rollback(PG_FUNCTION_ARGS)
{
	Change		change;
	const Version *version;
	int			number;

	begin_choice(&change, PG_GETARG_OID(0), ACL_UPDATE, "gkmeans_rollback()");
	check_one_is_deployed(&change);
	version = find_previous(&change);
	if (version == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("model \"%s\" has no version that was deployed before",
						gk_model_name(change.relation)),
				 errhint("Deploy one with gkmeans_deploy().")));
	if (change.deployed != NULL)
		update_version(&change, change.deployed->number,
					   "deployed = NULL, deployed_at = NULL, deployed_by = NULL",
					   InvalidOid, 0);
	number = version->number;
	update_version(&change, number, "deployed = true", InvalidOid, 0);
	tell_of_labels(&change, number);
	end_change(&change);
	PG_RETURN_INT32(number);
}

/* The numbers of the versions to be deleted, as an array. */
static ArrayType *
list_old(const Change *change, int keep)
{
	Datum	   *numbers = palloc((change->count + 1) * sizeof(Datum));
	int			count = 0;
	const Version *previous = find_previous(change);

	/* the newest stays in any case: its number counts on, so that no number comes again */
	for (int i = Max(keep, 1); i < change->count; i++)
		if (!change->versions[i].deployed && &change->versions[i] != previous)
			numbers[count++] = Int32GetDatum(change->versions[i].number);
	return construct_array(numbers, count, INT4OID, sizeof(int32), true, TYPALIGN_INT);
}

/* Deletes versions; returns how many: triggers may keep some. */
static int
delete_versions(const Change *change, ArrayType *numbers)
{
	Oid			type = INT4ARRAYOID;
	Datum		value = PointerGetDatum(numbers);
	Oid			relation_id = RelationGetRelid(change->relation);
	int			count = 0;
	bool		is_null;

	gk_change_model(relation_id,
					psprintf("DELETE FROM ONLY %s WHERE version OPERATOR(pg_catalog.=) ANY ($1)"
							 " RETURNING group_no OPERATOR(pg_catalog.=) 0"
							 " AND part OPERATOR(pg_catalog.=) 0",
							 gk_quoted_model_name(relation_id)),
					SPI_OK_DELETE_RETURNING, 1, &type, &value);
	for (uint64 i = 0; i < SPI_processed; i++)
		count += DatumGetBool(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1,
											&is_null)) && !is_null;
	return count;
}

/* Deletes all but the newest versions, the deployed one and the previous; returns how many. */
static int
prune(Change *change, int keep)
{
	int			deleted = delete_versions(change, list_old(change, keep));

	end_change(change);
	return deleted;
}

/* The same for a refit, which a version that others made meanwhile must not end. */
void
gk_prune_seen(Oid relation_id, int keep)
{
	Change		change;

	open_change(&change, relation_id, ACL_DELETE, "gkmeans_refit()");
	gk_lock_versions(change.relation);
	read_versions(&change, GetLatestSnapshot());
	(void) prune(&change, keep);
}

/* SQL: the same; returns how many. */
Datum
gkmeans_prune(PG_FUNCTION_ARGS)
{
	int			keep = PG_ARGISNULL(1) ? 10 : PG_GETARG_INT32(1);
	Change		change;

	gk_require_argument(fcinfo, 0, "model");
	if (keep < 0)
		gk_out_of_range("keep", "0 and above");
	begin_choice(&change, PG_GETARG_OID(0), ACL_DELETE, "gkmeans_prune()");
	PG_RETURN_INT32(prune(&change, keep));
}

/* Raises an error unless there is a name, or NULL, for each cluster of the deployed version. */
static void
check_names(const Change *change, ArrayType *names)
{
	int			count = ARR_NDIM(names) == 1 ? ARR_DIMS(names)[0] : -1;

	if (change->deployed == NULL)
		raise_no_version(change, 0);
	if (count != change->deployed->k)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("names does not fit the clusters of model \"%s\"",
						gk_model_name(change->relation)),
				 errdetail("It must have one dimension and %d elements, of which some may be NULL.",
						   change->deployed->k)));
	gk_check_names(names);
}

/* SQL: names the clusters of the deployed version, in the order of their ids. */
Datum
gkmeans_name_clusters(PG_FUNCTION_ARGS)
{
	Change		change;

	begin_change(&change, PG_GETARG_OID(0), ACL_UPDATE, "gkmeans_name_clusters()");
	check_one_is_deployed(&change);
	check_names(&change, PG_GETARG_ARRAYTYPE_P(1));
	update_version(&change, change.deployed->number, "names = $2", TEXTARRAYOID,
				   PG_GETARG_DATUM(1));
	end_change(&change);
	PG_RETURN_VOID();
}
