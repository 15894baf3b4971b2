/*
 * Names of tables that a function creates, and of what the extension has.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "common/hashfn.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "acting.h"
#include "source_names.h"
#include "source_text.h"
#include "table_name.h"

/* The schema that the table is in, or will be created in; others may drop both at any moment. */
static char *
schema_of(const RangeVar *name)
{
	Oid			relation_id = RangeVarGetRelid(name, NoLock, true);
	Oid			schema = OidIsValid(relation_id) ? get_rel_namespace(relation_id) : InvalidOid;
	char	   *found;

	if (OidIsValid(schema))
		gk_check_temporary(relation_id);
	else
		schema = RangeVarGetCreationNamespace(name);
	found = get_namespace_name(schema);
	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema of relation \"%s\" was dropped", name->relname)));
	return found;
}

/* Reads the name of a table, quoted and qualified as in FROM. */
static RangeVar *
parse_name(const char *argument, const char *name)
{
	List	   *parts;

	if (strlen(name) > GK_LONGEST_NAME)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("%s is not a name: it is too long", argument),
				 errdetail("It has %zu bytes, more than %d.", strlen(name), GK_LONGEST_NAME)));
	if (!SplitIdentifierString(pstrdup(name), '.', &parts) || parts == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("%s is not a name: \"%s\"", argument, name),
				 errhint("Write the name of one table as in FROM, in double quotes where it needs "
						 "them: '\"My Table\"'.")));
	return makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(name)));
}

/* The relation that a name means, its schema filled in. */
RangeVar *
gk_table_name(const char *argument, const char *name)
{
	RangeVar   *variable = parse_name(argument, name);

	variable->schemaname = schema_of(variable);
	return variable;
}

/* The same, quoted. */
char *
gk_quoted_name(const RangeVar *name)
{
	return quote_qualified_identifier(name->schemaname, name->relname);
}

/* Where a table of a name is, or would be created; false if that is not known. */
static bool
find_place(const char *name, Oid *schema, const char **table)
{
	List	   *parts;
	Oid			relation_id;

	if (strlen(name) > GK_LONGEST_NAME || !SplitIdentifierString(pstrdup(name), '.', &parts) ||
		parts == NIL)
		return false;
	*table = llast(parts);
	if (list_length(parts) > 1)
		*schema = LookupNamespaceNoError(list_nth(parts, list_length(parts) - 2));
	else
	{
		relation_id = RelnameGetRelid(*table);
		*schema = OidIsValid(relation_id) ? get_rel_namespace(relation_id)
			: gk_creation_schema();
	}
	return OidIsValid(*schema);
}

/* True if two names mean the same table. */
bool
gk_is_same_table(const char *one, const char *other)
{
	Oid			schemas[2];
	const char *tables[2];

	return find_place(one, &schemas[0], &tables[0]) && find_place(other, &schemas[1], &tables[1]) &&
		schemas[0] == schemas[1] && strcmp(tables[0], tables[1]) == 0;
}

/* Keeps others from creating a relation of that name. */
void
gk_lock_table_name(const RangeVar *name)
{
	uint32		hash = DatumGetUInt32(hash_any((const unsigned char *) name->relname,
											   strlen(name->relname)));

	LockDatabaseObject(NamespaceRelationId, get_namespace_oid(name->schemaname, false),
					   1 + hash % PG_UINT16_MAX, ExclusiveLock);
}

/* True if this transaction wrote a row, by that command or a later one. */
static bool
is_written(HeapTupleHeader row, CommandId before)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(row)) &&
		HeapTupleHeaderGetCmin(row) >= before;
}

/* Raises the error that a relation did not get all that commands were to make by its name. */
void
gk_raise_not_made(const RangeVar *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not create %s", gk_quoted_name(name)),
			 errdetail("Its schema was renamed meanwhile."),
			 errhint("Try again.")));
}

/* The relation that a command has made. */
Oid
gk_made_relation(const RangeVar *name, int cache, Datum second_key, CommandId before)
{
	Oid			relation_id = RangeVarGetRelid(name, NoLock, true);
	HeapTuple	row = SearchSysCache(cache, ObjectIdGetDatum(relation_id), second_key, 0, 0);

	if (!HeapTupleIsValid(row) || !is_written(row->t_data, before))
		gk_raise_not_made(name);
	ReleaseSysCache(row);
	return relation_id;
}

/* The schema of the extension; InvalidOid if it is not there. */
Oid
gk_extension_schema(void)
{
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	Oid			schema = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("gkmeans"));
	scan = systable_beginscan(extensions, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return schema;
}

/* The name of that schema, quoted. */
const char *
gk_extension_schema_name(void)
{
	Oid			schema = gk_extension_schema();
	const char *name = OidIsValid(schema) ? get_namespace_name(schema) : NULL;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"gkmeans\" does not exist")));
	return quote_identifier(name);
}
