/*
 * Functions of the extension that its queries call.
 *
 * Others who may create functions in the schema of the extension can make one that fits better.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "own_function.h"

/* The extension's own function of a name. */
Oid
gk_own_function(const char *name)
{
	Oid			extension = get_extension_oid("gkmeans", false);
	CatCList   *candidates = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	Oid			found = InvalidOid;

	for (int i = 0; i < candidates->n_members; i++)
	{
		Form_pg_proc function = (Form_pg_proc) GETSTRUCT(&candidates->members[i]->tuple);

		if (getExtensionOfObject(ProcedureRelationId, function->oid) == extension)
			found = function->oid;
	}
	ReleaseSysCacheList(candidates);
	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("extension \"gkmeans\" has no function \"%s\"", name),
				 errhint("Run ALTER EXTENSION gkmeans UPDATE.")));
	return found;
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
	if (called != gk_own_function(name))
		ereport(ERROR,
				(errcode(ERRCODE_AMBIGUOUS_FUNCTION),
				 errmsg("function \"%s\" resolves to one outside extension \"gkmeans\"", name),
				 errhint("Drop or rename the other function of that name.")));
}
