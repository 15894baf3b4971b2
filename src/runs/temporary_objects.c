/*
 * Objects that code of another role makes in the temporary schema of the session.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "temporary_objects.h"

/* True if the own transaction wrote a row of a catalog since a command. */
static bool
is_written_since(HeapTuple row, CommandId since)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row->t_data)) &&
		HeapTupleHeaderGetCmin(row->t_data) >= since;
}

/* Finds an object in a schema that was made since; false if there is none. */
static bool
find_made_since(Oid schema, CommandId since, ObjectAddress *made)
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	row;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(NamespaceRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(schema));
	/* also those of the last command */
	scan = systable_beginscan(catalog, DependReferenceIndexId, true, SnapshotSelf, 2, keys);
	while (!found && HeapTupleIsValid(row = systable_getnext(scan)))
	{
		const FormData_pg_depend *depend = (Form_pg_depend) GETSTRUCT(row);

		CHECK_FOR_INTERRUPTS();
		found = is_written_since(row, since);
		ObjectAddressSubSet(*made, depend->classid, depend->objid, depend->objsubid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* Raises an error if there is such an object. */
void
gk_check_temporary_objects(CommandId since, Oid caller)
{
	Oid			schema = LookupNamespaceNoError("pg_temp");
	ObjectAddress made;

	if (!OidIsValid(schema) || !find_made_since(schema, since, &made))
		return;
	/* its description looks it up */
	CommandCounterIncrement();
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("cannot create temporary objects as the owner of a model"),
			 errdetail("Code of role \"%s\" created %s in the session of role \"%s\".",
					   GetUserNameFromId(GetUserId(), true),
					   getObjectDescription(&made, true),
					   GetUserNameFromId(caller, true)),
			 errhint("Create them in a schema of the owner, or let the owner make the call.")));
}
