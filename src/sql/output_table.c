/*
 * A table that a function creates or writes: the checks before its work begins.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "acting.h"
#include "checked_command.h"
#include "citus.h"
#include "output_table.h"
#include "source_tables.h"
#include "table_name.h"

#if PG_VERSION_NUM < 160000
#define object_aclcheck(class, object, user, mode) \
	((class) == TypeRelationId ? pg_type_aclcheck(object, user, mode) \
	 : pg_tablespace_aclcheck(object, user, mode))
#endif

/* The table that an argument names. */
void
gk_output_table(GkOutputTable *table, const char *argument, const char *name)
{
	table->variable = gk_table_name(argument, name);
	table->name = gk_quoted_name(table->variable);
}

/* Raises an error if a type has the name of a relation that is to be made, which has one, too. */
void
gk_check_type_name(const char *name, Oid schema)
{
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(name),
									   ObjectIdGetDatum(schema));

	/* shells are filled, types of arrays make way; a table made in the meantime is seen later */
	if (!OidIsValid(type) || !get_typisdefined(type) ||
		get_array_type(get_element_type(type)) == type || OidIsValid(get_typ_typrelid(type)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("type \"%s\" already exists", name),
			 errhint("Tables and views have types of their own names. Choose another name.")));
}

/* Raises an error if the current user may not name what is in a schema. */
void
gk_check_schema(Oid schema)
{
	char	   *name = OidIsValid(schema) ? get_namespace_name(schema) : NULL;

	if (name != NULL)
		(void) LookupExplicitNamespace(name, false);
}

/* The same of the schema of a type. */
void
gk_check_schema_of_type(Oid type)
{
	gk_check_schema(GetSysCacheOid1(TYPEOID, Anum_pg_type_typnamespace, ObjectIdGetDatum(type)));
}

/* Raises an error unless the current user may have tables in a tablespace. */
static void
check_tablespace(Oid tablespace)
{
	AclResult	result;

	if (!OidIsValid(tablespace) || tablespace == MyDatabaseTableSpace)
		return;
	result = object_aclcheck(TableSpaceRelationId, tablespace, GetUserId(), ACL_CREATE);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLESPACE, get_tablespace_name(tablespace));
	if (tablespace == GLOBALTABLESPACE_OID)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("only shared relations can be placed in pg_global tablespace")));
}

/* Raises the error that CREATE TABLE would because of the name or the place. */
void
gk_check_place(RangeVar *name)
{
	RangeVar   *variable = copyObject(name);
	Oid			schema = RangeVarGetAndCheckCreationNamespace(variable, NoLock, NULL);

	gk_check_type_name(variable->relname, schema);
	if (!allowSystemTableMods && (IsCatalogNamespace(schema) || IsToastNamespace(schema)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to create \"%s.%s\"",
						get_namespace_name(schema), variable->relname),
				 errdetail("System catalog modifications are currently disallowed.")));
	check_tablespace(GetDefaultTablespace(variable->relpersistence, false));
}

/* Raises the error that CREATE TABLE would. */
void
gk_check_creation(const GkOutputTable *table, const char *id_name, Oid id_type)
{
	AclResult	result;

	gk_check_place(table->variable);
	if (SystemAttributeByName(id_name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_COLUMN),
				 errmsg("column name \"%s\" conflicts with a system column name", id_name)));
	CheckAttributeType(id_name, id_type, get_typcollation(id_type), NIL, 0);
	gk_check_schema_of_type(id_type);
	result = object_aclcheck(TypeRelationId, id_type, GetUserId(), ACL_USAGE);
	if (result != ACLCHECK_OK)
		aclcheck_error_type(result, id_type);
}

/* Raises 42809 unless the relation is a table. */
void
gk_check_is_table(const GkOutputTable *table, Oid relation_id)
{
	char		kind = get_rel_relkind(relation_id);

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE
		&& kind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", table->variable->relname)));
}

/* The owner of a relation; InvalidOid if it is not there. */
static Oid
owner_of(Oid relation_id)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation_id));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* True if the current user may use a role; not for a superuser, whom its administrators may add. */
static bool
shares(Oid role)
{
	if (superuser())
		return false;
#if PG_VERSION_NUM >= 160000
	/* who created a role is a member of it, but perhaps only to grant it to others */
	return has_privs_of_role(GetUserId(), role) || member_can_set_role(GetUserId(), role);
#else
	return is_member_of_role(GetUserId(), role);
#endif
}

/* Raises an error if a table that was expected to be new is one that another role has made. */
void
gk_check_maker(const GkOutputTable *table)
{
	Oid			owner = owner_of(table->relation_id);

	if (!table->expected_new || !OidIsValid(owner) || gk_could_act(owner) || shares(owner))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("table \"%s\" exists and belongs to another role",
					table->variable->relname),
			 errdetail("Its triggers would run as role \"%s\".",
					   GetUserNameFromId(GetUserId(), false)),
			 errhint("If it is meant, say so with labels_mode => 'merge'. Otherwise name another "
					 "table.")));
}

/* Raises an error if a column has another type. */
static void
check_type(Oid relation_id, const GkOutputColumn *column)
{
	Oid			type = get_atttype(relation_id, get_attnum(relation_id, column->name));

	if (type != column->type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table \"%s\" has the wrong type",
						column->name, get_rel_name(relation_id)),
				 errdetail("It is %s, expected %s.", format_type_be(type),
						   format_type_be(column->type)),
				 errhint("Alter the type of the column or, for ids, cast them in the source.")));
}

/* Raises an error if a column is generated. */
static void
check_generated(Oid relation_id, const char *name)
{
	AttrNumber	number = get_attnum(relation_id, name);
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relation_id),
										Int16GetDatum(number));
	Form_pg_attribute column;
	bool		always;

	if (!HeapTupleIsValid(tuple))
		return;
	column = (Form_pg_attribute) GETSTRUCT(tuple);
	always = column->attidentity == ATTRIBUTE_IDENTITY_ALWAYS;
	if (always || column->attgenerated != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("cannot insert a non-DEFAULT value into column \"%s\"", name),
				 always ? errdetail("Column \"%s\" is an identity column defined as "
									"GENERATED ALWAYS.", name)
				 : errdetail("Column \"%s\" is a generated column.", name)));
	ReleaseSysCache(tuple);
}

/* Raises an error unless a role has a privilege on the whole table, or on these columns. */
void
gk_check_privilege(Oid relation_id, AclMode privilege, const GkOutputColumn *columns, int count)
{
	Oid			user = GetUserId();
	bool		allowed = count > 0;

	if (pg_class_aclcheck(relation_id, user, privilege) == ACLCHECK_OK)
		return;
	for (int i = 0; i < count; i++)
		allowed = allowed &&
			pg_attribute_aclcheck(relation_id, get_attnum(relation_id, columns[i].name), user,
								  privilege) == ACLCHECK_OK;
	if (!allowed)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relation_id)),
					   get_rel_name(relation_id));
}

/* Raises the error that INSERT or DELETE would if a foreign table does not take it. */
static void
check_foreign_table(Oid relation_id, CmdType command)
{
	bool		inserts = command == CMD_INSERT;
	Relation	relation = get_rel_relkind(relation_id) == RELKIND_FOREIGN_TABLE
		? try_relation_open(relation_id, AccessShareLock) : NULL;
	FdwRoutine *routine;

	if (relation == NULL)
		return;
	routine = GetFdwRoutineForRelation(relation, false);
	if (inserts ? routine->ExecForeignInsert == NULL : routine->ExecForeignDelete == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg(inserts ? "cannot insert into foreign table \"%s\""
						: "cannot delete from foreign table \"%s\"",
						RelationGetRelationName(relation))));
	if (routine->IsForeignRelUpdatable != NULL &&
		(routine->IsForeignRelUpdatable(relation) & (1 << command)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg(inserts ? "foreign table \"%s\" does not allow inserts"
						: "foreign table \"%s\" does not allow deletes",
						RelationGetRelationName(relation))));
	relation_close(relation, AccessShareLock);
}

/* The same for a table with its partitions or children, all of which DELETE reaches. */
void
gk_check_foreign(Oid relation_id, CmdType command)
{
	List	   *tables = command == CMD_DELETE ? gk_family_of(relation_id)
		: list_make1_oid(relation_id);
	ListCell   *cell;

	foreach(cell, tables)
	{
		CHECK_FOR_INTERRUPTS();
		check_foreign_table(lfirst_oid(cell), command);
	}
}

/* Raises the error that INSERT would. */
void
gk_check_insert(Oid relation_id, const GkOutputColumn *columns, int count)
{
	for (int i = 0; i < count; i++)
		check_type(relation_id, &columns[i]);
	for (int i = 0; i < count; i++)
		check_generated(relation_id, columns[i].name);
	gk_check_privilege(relation_id, ACL_INSERT, columns, count);
	gk_check_foreign(relation_id, CMD_INSERT);
}

/* Raises an error if Citus distributes the rows by another column. */
void
gk_check_distribution(Oid relation_id, const char *column)
{
	const char *by = gk_citus_column(relation_id);

	if (by != NULL && strcmp(by, column) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" is distributed by column \"%s\"",
						get_rel_name(relation_id), by),
				 errdetail("Only the id, column \"%s\", is known of every row.", column),
				 errhint("Call create_distributed_table with that column, or "
						 "create_reference_table.")));
}

/* The access method of a relation that has rows itself. */
static Oid
access_method(Oid relation_id)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation_id));
	Form_pg_class form;
	Oid			method;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	form = (Form_pg_class) GETSTRUCT(tuple);
	/* since 17, a partitioned table may have one for partitions that are still to be made */
	method = form->relkind == RELKIND_PARTITIONED_TABLE ? InvalidOid : form->relam;
	ReleaseSysCache(tuple);
	return method;
}

/* True if Citus keeps the rows of a table by columns. */
static bool
is_columnar(Oid relation_id)
{
	Oid			method = access_method(relation_id);
	const char *name = OidIsValid(method) ? get_am_name(method) : NULL;

	/* others may drop a child, which nothing locks, together with its access method */
	return name != NULL && strcmp(name, "columnar") == 0;
}

/* Raises an error if rows of the table, or of its partitions or children, cannot be changed. */
void
gk_check_changeable(Oid relation_id, const char *argument)
{
	ListCell   *cell;

	foreach(cell, gk_family_of(relation_id))
	{
		const char *name = get_rel_name(lfirst_oid(cell));

		CHECK_FOR_INTERRUPTS();
		if (name != NULL && is_columnar(lfirst_oid(cell)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" is columnar", name),
					 errdetail("Its rows can be neither updated nor deleted."),
					 errhint("Write %s => 'replace' or 'append' instead.", argument)));
	}
}

/*
 * Raises the error that a command would where publications need to know which rows it changes.
 * Citus runs it on shards, which other publications have, or none.
 */
void
gk_check_published(Oid relation_id, CmdType command)
{
	ListCell   *cell;

	foreach(cell, gk_family_of(relation_id))
	{
		Oid			id = lfirst_oid(cell);
		Relation	relation = gk_is_citus_table(id) ? NULL
			: try_relation_open(id, AccessShareLock);

		CHECK_FOR_INTERRUPTS();
		if (relation == NULL)
			continue;
		CheckCmdReplicaIdentity(relation, command);
		relation_close(relation, AccessShareLock);
	}
}

/* Raises the error that a name means another table. */
void
gk_raise_replaced(const GkOutputTable *table, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("could not write to table %s", table->name),
			 errdetail_internal("%s", detail),
			 errhint("Try again.")));
}

/* The table that has the name; 55000 if none has it any more. */
Oid
gk_table_of_name(const GkOutputTable *table)
{
	Oid			relation_id = RangeVarGetRelid(table->variable, NoLock, true);

	if (!OidIsValid(relation_id))
		gk_raise_replaced(table, "It was renamed, moved or dropped meanwhile.");
	return relation_id;
}

/* Makes a table. */
void
gk_make_table(GkOutputTable *table, const GkOutputColumn *ids, const char *rest,
			  const char *method)
{
	CommandId	before = GetCurrentCommandId(false);
	Oid			made;

	/* "character" and "bit" without a length would be of length 1 */
	gk_execute(psprintf("CREATE TABLE %s (%s %s%s)%s%s", table->name, quote_identifier(ids->name),
						format_type_extended(ids->type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
											 FORMAT_TYPE_FORCE_QUALIFY), rest,
						method != NULL ? " USING " : "", method != NULL ? method : ""));
	made = gk_made_relation(table->variable, RELOID, 0, before);
	if (get_atttype(made, get_attnum(made, ids->name)) != ids->type)
		gk_raise_replaced(table, "Another type has taken the name of that of the ids meanwhile.");
	table->relation_id = made;
}

/* Raises that error if a table is not one that the current role made. */
void
gk_check_own(const GkOutputTable *table)
{
	if (owner_of(table->relation_id) != GetUserId())
		gk_raise_replaced(table, "A table of another role has taken its name meanwhile.");
}

/* The table that a command changes, perhaps to select what it returns. */
static Oid
target_of(const Query *query)
{
	if (query->resultRelation == 0 && query->cteList != NIL)
		query = castNode(Query, linitial_node(CommonTableExpr, query->cteList)->ctequery);
	return query->resultRelation == 0 ? InvalidOid
		: rt_fetch(query->resultRelation, query->rtable)->relid;
}

/* What a command may do. */
typedef struct Allowed
{
	const GkOutputTable *table;
	const GkComparison *comparison;
} Allowed;

/* True if a command reads a table besides those that were checked, and the catalogs. */
static bool
reads_other(Node *node, void *context)
{
	const GkOutputTable *table = context;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		const RangeTblEntry *entry = (const RangeTblEntry *) node;

		return entry->rtekind == RTE_RELATION && entry->relid >= FirstNormalObjectId &&
			entry->relid != table->relation_id && entry->relid != table->read_id;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_other, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_other, context);
}

/* True if what an operator compares is a column, and no function is called for it. */
static bool
is_column(const Node *node)
{
	while (IsA(node, RelabelType) || IsA(node, CollateExpr))
		node = IsA(node, RelabelType) ? (const Node *) ((const RelabelType *) node)->arg
			: (const Node *) ((const CollateExpr *) node)->arg;
	return IsA(node, Var);
}

/* True if a command compares by another operator or collation. */
static bool
compares_otherwise(Node *node, void *context)
{
	const GkComparison *wanted = context;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, compares_otherwise, context, 0);
	if (IsA(node, CollateExpr))
	{
		Oid			collation = ((const CollateExpr *) node)->collOid;

		/* what is labelled has names, too */
		if (collation != wanted->collation && collation != C_COLLATION_OID)
			return true;
	}
	if (IsA(node, OpExpr))
	{
		const OpExpr *comparison = (const OpExpr *) node;

		if (comparison->opno >= FirstNormalObjectId &&
			(comparison->opno != wanted->operator || !is_column(linitial(comparison->args)) ||
			 !is_column(llast(comparison->args))))
			return true;
	}
	return expression_tree_walker(node, compares_otherwise, context);
}

/* Raises an error if names of a command mean something else than what was checked. */
static void
check_query(const Query *query, const void *context)
{
	const Allowed *allowed = context;
	bool		compares = allowed->comparison != NULL;

	if (target_of(query) != allowed->table->relation_id ||
		(compares && reads_other((Node *) query, (void *) allowed->table)))
		gk_raise_replaced(allowed->table, "Another table has taken its name meanwhile.");
	if (compares && compares_otherwise((Node *) query, (void *) allowed->comparison))
		gk_raise_replaced(allowed->table, "Another operator or collation has taken the name of "
						  "that which compares ids meanwhile.");
}

/* Runs a command on the table that was checked. */
int64
gk_execute_on(const GkOutputTable *table, const char *command, const GkComparison *comparison,
			  int count, Oid *types, Datum *values, const char *nulls)
{
	Allowed		allowed = {table, comparison};
	GkCheckedCommand checked = {.text = command,.check_query = check_query,.context = &allowed};
	int			code;
	SPIPlanPtr	plan = gk_execute_checked(&checked, CURSOR_OPT_CUSTOM_PLAN, count, types, values,
										  nulls, &code);

	if (code < 0)
		elog(ERROR, "could not run \"%s\": %s", command, SPI_result_code_string(code));
	SPI_freeplan(plan);
	return (int64) SPI_processed;
}

/* Raises an error if a table that is to be emptied took the name of the one that was checked. */
static void
check_truncated(Oid relation_id, const void *context)
{
	const GkOutputTable *table = context;
	char	   *schema;
	char	   *name;

	if (relation_id == table->relation_id)
		return;
	/* partitions and children have other names, and so do tables that triggers empty */
	schema = get_namespace_name(get_rel_namespace(relation_id));
	name = get_rel_name(relation_id);
	if (schema == NULL || name == NULL || (strcmp(name, table->variable->relname) == 0 &&
										   strcmp(schema, table->variable->schemaname) == 0))
		gk_raise_replaced(table, "Another table has taken its name meanwhile.");
}

/* Empties the table that was checked. */
void
gk_truncate(const GkOutputTable *table)
{
	GkCheckedCommand checked = {.text = psprintf("TRUNCATE %s", table->name),
		.check_truncated = check_truncated,.context = table};
	int			code;

	SPI_freeplan(gk_execute_checked(&checked, 0, 0, NULL, NULL, NULL, &code));
	if (code < 0)
		elog(ERROR, "could not run \"%s\": %s", checked.text, SPI_result_code_string(code));
}

/* Runs a command. */
int64
gk_execute(const char *command)
{
	int			code = SPI_execute(command, false, 0);

	if (code < 0)
		elog(ERROR, "could not run \"%s\": %s", command, SPI_result_code_string(code));
	return (int64) SPI_processed;
}
