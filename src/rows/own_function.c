/*
 * Functions of the extension that its queries call.
 *
 * Others who may create functions in the schema of the extension can make one that fits better.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "own_function.h"

/* True if a function has a name. */
static bool
has_name(Oid function, const char *name)
{
	char	   *found = get_func_name(function);
	bool		same = found != NULL && strcmp(found, name) == 0;

	if (found != NULL)
		pfree(found);
	return same;
}

/* True if a function of a name is the extension's own. */
static bool
is_own(Oid function, const char *name)
{
	return OidIsValid(function) && has_name(function, name) &&
		getExtensionOfObject(ProcedureRelationId, function) == get_extension_oid("gkmeans", false);
}

/* Finds a function among those of the extension; others may have made many of that name. */
static Oid
find_own(const char *name)
{
	Oid			extension = get_extension_oid("gkmeans", false);
	Relation	dependencies = table_open(DependRelationId, AccessShareLock);
	Oid			found = InvalidOid;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ExtensionRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(dependencies, DependReferenceIndexId, true, NULL, 2, keys);
	while (!OidIsValid(found) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend member = (Form_pg_depend) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (member->deptype == DEPENDENCY_EXTENSION && member->classid == ProcedureRelationId &&
			has_name(member->objid, name))
			found = member->objid;
	}
	systable_endscan(scan);
	table_close(dependencies, AccessShareLock);
	return found;
}

/* The extension's own function of a name. */
Oid
gk_own_function(const char *name)
{
	static Oid	last = InvalidOid;

	if (!is_own(last, name))
		last = find_own(name);
	if (!OidIsValid(last))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("extension \"gkmeans\" has no function \"%s\"", name),
				 errhint("Run ALTER EXTENSION gkmeans UPDATE.")));
	return last;
}

/* The name of such a function, qualified and quoted. */
char *
gk_own_function_name(Oid function)
{
	const char *name = get_func_name(function);
	const char *schema = get_namespace_name(get_func_namespace(function));

	if (name == NULL || schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", function)));
	return quote_qualified_identifier(schema, name);
}

/* Raises an error unless a call is one of the extension's own function. */
void
gk_check_own_function(Oid called, const char *name)
{
	if (is_own(called, name))
		return;
	/* others may drop the extension and create it again */
	if (OidIsValid(called) && get_func_name(called) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function \"%s\" of extension \"gkmeans\" was dropped", name),
				 errhint("Try again.")));
	ereport(ERROR,
			(errcode(ERRCODE_AMBIGUOUS_FUNCTION),
			 errmsg("function \"%s\" resolves to one outside extension \"gkmeans\"", name),
			 errhint("Drop or rename the other function of that name.")));
}
