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
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "alloc.h"
#include "source_names.h"

/* What the name of a schema means. */
typedef struct Meaning
{
	const char *name;
	Oid			first;			/* InvalidOid = nothing that the user could use */
	Oid			last;
} Meaning;

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

/*
 * What the name of a schema means to a snapshot, without one now, and where its row is; InvalidOid
 * if there is none, or, where it is looked up for the user, none that he may use.
 */
static Oid
look_up_schema(const char *name, Snapshot snapshot, bool is_for_user, ItemPointer place)
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
	if (HeapTupleIsValid(row) && (!is_for_user || may_use(row, RelationGetDescr(catalog))))
	{
		schema = ((Form_pg_namespace) GETSTRUCT(row))->oid;
		*place = row->t_self;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return schema;
}

/* The same of a schema that the user may use. */
static Oid
find_schema(const char *name, Snapshot snapshot, ItemPointer place)
{
	return look_up_schema(name, snapshot, true, place);
}

/* The schemas in which names are looked up now. */
List *
gk_usable_schemas(void)
{
	int			count = fetch_search_path_array(NULL, 0);
	Oid		   *found = gk_allocate(count, sizeof(Oid));
	List	   *schemas = NIL;

	count = Min(count, fetch_search_path_array(found, count));
	for (int i = 0; i < count; i++)
	{
		char	   *name = get_namespace_name(found[i]);

		if (name != NULL)
			schemas = lappend(schemas, makeString(name));
	}
	pfree(found);
	return schemas;
}

/* True if the first of two lists has a schema that the other lacks, and a snapshot sees it. */
static bool
has_other_schema(const List *schemas, const List *others, Snapshot snapshot)
{
	ListCell   *cell;

	foreach(cell, schemas)
	{
		ItemPointerData place;

		/* a path can have thousands of schemas */
		CHECK_FOR_INTERRUPTS();
		if (!list_member(others, lfirst(cell)) &&
			OidIsValid(look_up_schema(strVal(lfirst(cell)), snapshot, false, &place)))
			return true;
	}
	return false;
}

/* True if others have replaced a schema that a snapshot sees by another one of its name. */
static bool
is_replaced(const char *name, Snapshot snapshot)
{
	ItemPointerData place;
	Oid			then = look_up_schema(name, snapshot, false, &place);
	HeapTuple	row = SearchSysCache1(NAMESPACENAME, CStringGetDatum(name));
	bool		is_other;

	if (!HeapTupleIsValid(row))
		return false;
	is_other = OidIsValid(then) && ((Form_pg_namespace) GETSTRUCT(row))->oid != then &&
		!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data));
	ReleaseSysCache(row);
	return is_other;
}

/* True if a schema that a snapshot sees is in one of two lists alone, or was replaced by others. */
bool
gk_are_other_schemas(const List *first, const List *last, Snapshot snapshot)
{
	ListCell   *cell;

	if (!equal(first, last) && (has_other_schema(first, last, snapshot) ||
								has_other_schema(last, first, snapshot)))
		return true;
	foreach(cell, last)
	{
		CHECK_FOR_INTERRUPTS();
		if (is_replaced(strVal(lfirst(cell)), snapshot))
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

/* The schemas of the search_path, which can be as long as the owner of a model likes. */
GkSearchPath
gk_search_path(Snapshot first, Snapshot last, bool by_row)
{
	GkSearchPath path = {.first = first,.last = last,.by_row = by_row};
	List	   *names;
	ListCell   *cell;

	/* what the setting holds is valid */
	(void) SplitIdentifierString(pstrdup(namespace_search_path), ',', &names);
	foreach(cell, names)
	{
		const char *name = lfirst(cell);
		Meaning    *schema;
		ItemPointerData then;
		ItemPointerData now;

		CHECK_FOR_INTERRUPTS();
		if (strcmp(name, "$user") == 0)
			name = GetUserNameFromId(GetUserId(), true);
		/* the role was dropped */
		if (name == NULL || has_name(&path, name))
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
