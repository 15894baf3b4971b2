/*
 * What the values of a type consist of.
 *
 * Ids are kept as they are from the reading to the writing of labels, and labels that are compared
 * for some rows.  Before there is a column of a composite type, PostgreSQL would let it be altered,
 * and take the bytes of the old one for the new one; and it would let any type be dropped.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "id_parts.h"

/* What was found so far. */
typedef struct Parts
{
	List	   *found;
	List	   *types;			/* whose parts are among them */
} Parts;

static void add_type(Oid type, Parts *parts);

/* Adds the columns of a composite type, and locks them. */
static void
add_columns(Oid relation_id, Parts *parts)
{
	Relation	relation = try_relation_open(relation_id, AccessShareLock);

	for (int i = 0; relation != NULL && i < RelationGetDescr(relation)->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(relation), i);

		CHECK_FOR_INTERRUPTS();
		parts->found = lappend_oid(parts->found, (Oid) column->atttypmod);
		add_type(column->attisdropped ? InvalidOid : column->atttypid, parts);
	}
	if (relation != NULL)
		relation_close(relation, NoLock);
}

/* Adds a type, and what it consists of, and locks them. */
static void
add_type(Oid type, Parts *parts)
{
	HeapTuple	tuple;
	FormData_pg_type form;

	check_stack_depth();
	if (type >= FirstNormalObjectId)
		LockDatabaseObject(TypeRelationId, type, 0, AccessShareLock);
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	parts->found = lappend_oid(parts->found, HeapTupleIsValid(tuple) ? type : InvalidOid);
	if (!HeapTupleIsValid(tuple))
		return;
	form = *(Form_pg_type) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	/* once: columns of columns can be as many as the power of a depth */
	if (list_member_oid(parts->types, type))
		return;
	parts->types = lappend_oid(parts->types, type);
	if (OidIsValid(form.typrelid))
		add_columns(form.typrelid, parts);
	else if (OidIsValid(form.typbasetype))
		add_type(form.typbasetype, parts);
	else if (OidIsValid(form.typelem))
		add_type(form.typelem, parts);
	else if (form.typtype == TYPTYPE_RANGE)
		add_type(get_range_subtype(type), parts);
	else if (form.typtype == TYPTYPE_MULTIRANGE)
		add_type(get_multirange_range(type), parts);
}

/* The types that values of a type consist of. */
List *
gk_id_parts(Oid type)
{
	Parts		parts = {0};

	add_type(type, &parts);
	list_free(parts.types);
	return parts.found;
}

/* Raises an error if a type, that of a column, no longer consists of what it did. */
void
gk_check_id_parts(Oid type, const List *parts, const char *column)
{
	List	   *now = gk_id_parts(type);

	if (equal(now, parts))
		return;
	if (!OidIsValid(linitial_oid(now)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the type of column \"%s\" was dropped while the source was being read",
						column)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the type of column \"%s\" was altered while the source was being read",
					column)));
}
