/*
 * Roles that could act as the current user, and temporary tables of those that could not.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
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

/* Raises an error for the row of a relation. */
static void
refuse(Form_pg_class relation)
{
	const char *user = GetUserNameFromId(GetUserId(), false);

	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("role \"%s\" cannot use temporary relation \"%s\" of another role", user,
					NameStr(relation->relname)),
			 errdetail("Its name has no other meaning, or that comes later in the search_path. "
					   "What the relation calls would run as role \"%s\".", user),
			 errhint("Write the schema of the table that is meant, or drop the temporary "
					 "relation.")));
}

/* Raises an error if a relation is a temporary one of such a caller. */
void
gk_check_temporary(Oid relation_id)
{
	HeapTuple	tuple;
	Form_pg_class relation;

	/* who is not acted for chose the names and the role himself */
	if (GetUserId() == GetOuterUserId())
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation_id));
	if (!HeapTupleIsValid(tuple))
		return;
	relation = (Form_pg_class) GETSTRUCT(tuple);
	if (isAnyTempNamespace(relation->relnamespace) && !gk_could_act(relation->relowner))
		refuse(relation);
	ReleaseSysCache(tuple);
}
