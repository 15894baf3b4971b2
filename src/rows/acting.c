/*
 * Roles that could act as the current user, and temporary objects of those that could not.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/syscache.h"

#include "acting.h"

#if PG_VERSION_NUM < 160000
#define member_can_set_role(member, role) is_member_of_role(member, role)
#endif

/* True if a role could become the current user. */
bool
gk_could_act(Oid role)
{
	return member_can_set_role(role, GetUserId());
}

/* True if something in a schema is a temporary one of a caller who could not act as the user. */
static bool
is_of_caller(Oid schema, Oid owner)
{
	/* who is not acted for chose the names and the role himself */
	return GetUserId() != GetOuterUserId() && isAnyTempNamespace(schema) && !gk_could_act(owner);
}

/* Raises an error for a relation or a type. */
static void
refuse(const char *kind, const char *name)
{
	const char *user = GetUserNameFromId(GetUserId(), false);

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("role \"%s\" cannot use temporary %s \"%s\" of another role", user, kind,
					name),
			 errdetail("Its name has no other meaning, or that comes later in the search_path. "
					   "What the %s calls would run as role \"%s\".", kind, user),
			 errhint("Write the schema of the %s that is meant, or drop the temporary %s.",
					 kind[0] == 'r' ? "table" : kind, kind)));
}

/* Raises an error if a relation is a temporary one of such a caller. */
void
gk_check_temporary(Oid relation_id)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation_id));
	Form_pg_class relation;

	if (!HeapTupleIsValid(tuple))
		return;
	relation = (Form_pg_class) GETSTRUCT(tuple);
	if (is_of_caller(relation->relnamespace, relation->relowner))
		refuse("relation", NameStr(relation->relname));
	ReleaseSysCache(tuple);
}

/* Raises an error if a type, or that of its elements, is a temporary one of such a caller. */
void
gk_check_temporary_type(Oid type_id)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type_id));
	Form_pg_type type;

	if (!HeapTupleIsValid(tuple))
		return;
	type = (Form_pg_type) GETSTRUCT(tuple);
	if (is_of_caller(type->typnamespace, type->typowner))
		refuse("type", NameStr(type->typname));
	ReleaseSysCache(tuple);
}
