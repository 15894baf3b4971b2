/*
 * Tells if names without a schema may have meant something else when a snapshot was taken.
 *
 * When a table or function that came first in the search_path is dropped, renamed or moved, its
 * name means the next one, which need not have changed itself.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "source_names.h"

#if PG_VERSION_NUM < 160000
#define object_aclcheck(class, object, user, mode) pg_namespace_aclcheck(object, user, mode)
#endif

/* What the name of a schema means. */
typedef struct Meaning
{
	const char *name;
	Oid			first;			/* InvalidOid = nothing that the user could use */
	Oid			last;
} Meaning;

/* How often something was changed by which names mean what they do. */
static uint64 changes;

/* The owner of this database, not of another one, has the privileges of pg_database_owner. */
static uint32 hash_of_database;

/* Counts such a change; a hash of 0 stands for all objects. */
static void
count_change(Datum unused, int cache, uint32 hash)
{
	if (cache != DATABASEOID || hash == hash_of_database || hash == 0)
		changes++;
}

/* Has such changes counted from now on. */
static void
begin_counting(void)
{
	static const int caches[] = {PROCOID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM, DATABASEOID};

	hash_of_database = GetSysCacheHashValue1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	for (int i = 0; i < lengthof(caches); i++)
		CacheRegisterSyscacheCallback(caches[i], count_change, (Datum) 0);
}

/* How often there was one, as far as the session knows. */
uint64
gk_name_changes(void)
{
	static bool is_counting;

	if (!is_counting)
		begin_counting();
	is_counting = true;
	AcceptInvalidationMessages();
	return changes;
}

/* True if the user may use a schema by what a row of pg_namespace says, and by the roles of now. */
static bool
may_use(HeapTuple row, TupleDesc description)
{
	Oid			owner = ((Form_pg_namespace) GETSTRUCT(row))->nspowner;
	Oid			user = GetUserId();
	bool		is_null;
	Datum		value = heap_getattr(row, Anum_pg_namespace_nspacl, description, &is_null);
	const Acl  *privileges = is_null ? acldefault(OBJECT_SCHEMA, owner) : DatumGetAclP(value);

	return superuser() || has_privs_of_role(user, ROLE_PG_READ_ALL_DATA) ||
		has_privs_of_role(user, ROLE_PG_WRITE_ALL_DATA) ||
		aclmask(privileges, user, owner, ACL_USAGE, ACLMASK_ANY) != 0;
}

/* What the name of a schema means to a snapshot, without one now, and where its row is; or none. */
static Oid
find_schema(const char *name, Snapshot snapshot, ItemPointer place)
{
	Relation	catalog = table_open(NamespaceRelationId, AccessShareLock);
	Oid			schema = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;

	ScanKeyInit(&key, Anum_pg_namespace_nspname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(name));
	scan = systable_beginscan(catalog, NamespaceNameIndexId, true, snapshot, 1, &key);
	row = systable_getnext(scan);
	if (HeapTupleIsValid(row) && may_use(row, RelationGetDescr(catalog)))
	{
		schema = ((Form_pg_namespace) GETSTRUCT(row))->oid;
		*place = row->t_self;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return schema;
}

/* The names in the search_path, which can be as long as the owner of a model likes. */
static List *
names_in_path(void)
{
	/* NULL if the role was dropped */
	char	   *user = GetUserNameFromId(GetUserId(), true);
	List	   *parts;
	List	   *names = NIL;
	ListCell   *cell;

	/* what the setting holds is valid */
	(void) SplitIdentifierString(pstrdup(namespace_search_path), ',', &parts);
	foreach(cell, parts)
	{
		char	   *name = strcmp(lfirst(cell), "$user") == 0 ? user : lfirst(cell);

		CHECK_FOR_INTERRUPTS();
		if (name != NULL)
			names = lappend(names, name);
	}
	list_free(parts);
	return names;
}

/* True if the user may use a schema now. */
static bool
can_use(Oid schema)
{
	return object_aclcheck(NamespaceRelationId, schema, GetUserId(), ACL_USAGE) == ACLCHECK_OK;
}

/*
 * The schemas to which the names lead now, as the analysis finds them: what is committed is seen by
 * snapshots before the caches of the session know of it.
 */
List *
gk_usable_schemas(void)
{
	List	   *names = names_in_path();
	List	   *schemas = NIL;
	ListCell   *cell;

	foreach(cell, names)
	{
		Oid			schema = get_namespace_oid(lfirst(cell), true);

		CHECK_FOR_INTERRUPTS();
		if (OidIsValid(schema) && !can_use(schema))
			schema = InvalidOid;
		schemas = lappend_oid(schemas, schema);
	}
	return schemas;
}

/* The schema where a table is created whose name has none. */
Oid
gk_creation_schema(void)
{
	List	   *names = names_in_path();
	ListCell   *cell;

	foreach(cell, names)
	{
		Oid			schema = get_namespace_oid(lfirst(cell), true);

		CHECK_FOR_INTERRUPTS();
		if (strcmp(lfirst(cell), "pg_temp") == 0)
			return LookupNamespaceNoError("pg_temp");
		if (OidIsValid(schema) && can_use(schema))
			return schema;
	}
	return InvalidOid;
}

/* True if a snapshot sees a schema. */
static bool
sees_schema(Oid schema, Snapshot snapshot)
{
	Relation	catalog = table_open(NamespaceRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	bool		is_seen;

	ScanKeyInit(&key, Anum_pg_namespace_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(schema));
	scan = systable_beginscan(catalog, NamespaceOidIndexId, true, snapshot, 1, &key);
	is_seen = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return is_seen;
}

/*
 * True if a name leads elsewhere than to a schema, or nowhere, because of what the own transaction
 * has done since a command, and of nothing else.
 */
static bool
is_led_by_own(const char *name, Oid schema, CommandId command)
{
	Snapshot	latest = RegisterSnapshot(GetLatestSnapshot());
	SnapshotData before = *latest;
	ItemPointerData place;
	bool		is_own;

	before.curcid = command;
	is_own = find_schema(name, &before, &place) == schema &&
		find_schema(name, latest, &place) != schema;
	UnregisterSnapshot(latest);
	return is_own;
}

/* True if names in the search_path have come to lead to other schemas. */
bool
gk_are_other_schemas(const List *first, const List *last, Snapshot snapshot, CommandId command)
{
	List	   *names = names_in_path();
	ListCell   *name;
	ListCell   *then;
	ListCell   *now;

	if (list_length(first) != list_length(last) || list_length(names) != list_length(last))
		return true;
	forthree(name, names, then, first, now, last)
	{
		CHECK_FOR_INTERRUPTS();
		if (lfirst_oid(then) != lfirst_oid(now) &&
			(OidIsValid(lfirst_oid(then)) || sees_schema(lfirst_oid(now), snapshot)) &&
			!is_led_by_own(lfirst(name), lfirst_oid(then), command))
			return true;
	}
	return false;
}

/* True if the name of a schema meant another one, or none that the user could use. */
bool
gk_is_schema_changed(Oid schema, Snapshot first, Snapshot last)
{
	const char *name = get_namespace_name(schema);
	ItemPointerData place;

	return name == NULL || find_schema(name, first, &place) != find_schema(name, last, &place);
}

/* True if a path has a name of a schema already. */
static bool
has_name(const GkSearchPath *path, const char *name)
{
	ListCell   *cell;

	foreach(cell, path->schemas)
		if (strcmp(((const Meaning *) lfirst(cell))->name, name) == 0)
			return true;
	return false;
}

/* The schemas of the search_path. */
GkSearchPath
gk_search_path(Snapshot first, Snapshot last, bool by_row)
{
	GkSearchPath path = {.first = first,.last = last,.by_row = by_row};
	List	   *names = names_in_path();
	ListCell   *cell;

	foreach(cell, names)
	{
		const char *name = lfirst(cell);
		Meaning    *schema;
		ItemPointerData then;
		ItemPointerData now;

		CHECK_FOR_INTERRUPTS();
		if (has_name(&path, name))
			continue;
		schema = palloc(sizeof(Meaning));
		schema->name = name;
		schema->first = find_schema(name, first, &then);
		schema->last = find_schema(name, last, &now);
		if (!OidIsValid(schema->first))
			continue;
		if (by_row && schema->first == schema->last && !ItemPointerEquals(&then, &now))
			schema->last = InvalidOid;
		path.schemas = lappend(path.schemas, schema);
	}
	return path;
}

/* The table of a name in a schema that a snapshot sees, as above; InvalidOid if there is none. */
static Oid
find_table_named(const char *name, Oid schema, Snapshot snapshot, ItemPointer place)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	Oid			table = InvalidOid;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	row;

	ScanKeyInit(&keys[0], Anum_pg_class_relname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(name));
	ScanKeyInit(&keys[1], Anum_pg_class_relnamespace, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(schema));
	scan = systable_beginscan(catalog, ClassNameNspIndexId, true, snapshot, 2, keys);
	row = systable_getnext(scan);
	if (HeapTupleIsValid(row))
	{
		table = ((Form_pg_class) GETSTRUCT(row))->oid;
		*place = row->t_self;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return table;
}

/* True if the name of a table may have meant another one. */
bool
gk_meant_other_table(Oid table, const GkSearchPath *path)
{
	const char *name = get_rel_name(table);
	ListCell   *cell;

	if (name == NULL)
		return true;
	foreach(cell, path->schemas)
	{
		const Meaning *schema = lfirst(cell);
		ItemPointerData then;
		ItemPointerData now;
		Oid			first = find_table_named(name, schema->first, path->first, &then);

		if (first == table)
			return false;
		if (OidIsValid(first) &&
			(find_table_named(name, schema->last, path->last, &now) != first ||
			 (path->by_row && !ItemPointerEquals(&then, &now))))
			return true;
	}
	return false;
}

/* True if the last snapshot does not see a function by its name in a schema. */
static bool
is_gone(Relation catalog, HeapTuple first, Oid schema, const GkSearchPath *path)
{
	const FormData_pg_proc *function = (Form_pg_proc) GETSTRUCT(first);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;
	bool		is_there = false;

	ScanKeyInit(&key, Anum_pg_proc_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(function->oid));
	scan = systable_beginscan(catalog, ProcedureOidIndexId, true, path->last, 1, &key);
	row = systable_getnext(scan);
	if (HeapTupleIsValid(row))
	{
		const FormData_pg_proc *seen = (Form_pg_proc) GETSTRUCT(row);

		is_there = seen->pronamespace == schema &&
			strcmp(NameStr(seen->proname), NameStr(function->proname)) == 0 &&
			(!path->by_row || ItemPointerEquals(&first->t_self, &row->t_self));
	}
	systable_endscan(scan);
	return !is_there;
}

/* True if the last snapshot does not see one of the functions of a name in a schema any more. */
static bool
has_lost_function(const char *name, Meaning schema, const GkSearchPath *path)
{
	Relation	catalog = table_open(ProcedureRelationId, AccessShareLock);
	bool		has_lost = false;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	row;

	ScanKeyInit(&keys[0], Anum_pg_proc_proname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(name));
	ScanKeyInit(&keys[1], Anum_pg_proc_pronamespace, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(schema.first));
	scan = systable_beginscan(catalog, ProcedureNameArgsNspIndexId, true, path->first, 2, keys);
	while (!has_lost && HeapTupleIsValid(row = systable_getnext(scan)))
		has_lost = is_gone(catalog, row, schema.last, path);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return has_lost;
}

/* True if the name of a function may have meant another one, such as one of other arguments. */
bool
gk_meant_other_function(Oid function, const GkSearchPath *path)
{
	Oid			schema = get_func_namespace(function);
	const char *name = get_func_name(function);
	ListCell   *cell;

	if (name == NULL || gk_is_schema_changed(schema, path->first, path->last) ||
		has_lost_function(name, (Meaning) {.first = schema,.last = schema}, path))
		return true;
	foreach(cell, path->schemas)
		if (has_lost_function(name, *(const Meaning *) lfirst(cell), path))
			return true;
	return false;
}
