/*
 * The labels table: id, cluster_id and distance of every row of the source.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type.h"
#include "commands/tablespace.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/queryenvironment.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "labels_table.h"
#include "table_name.h"

#define COLUMNS 3

#if PG_VERSION_NUM < 160000
#define object_aclcheck(class, object, user, mode) \
	((class) == TypeRelationId ? pg_type_aclcheck(object, user, mode) \
	 : pg_tablespace_aclcheck(object, user, mode))
#endif

static const char *const column_names[COLUMNS] = {"id", "cluster_id", "distance"};

struct GkLabelsTable
{
	RangeVar   *variable;		/* qualified */
	char	   *name;			/* the same, quoted */
	char	   *id_column;		/* of the source */
	char	   *asked_id_name;	/* NULL = chosen by name_id_column() */
	const char *id_name;		/* of the id column of the table */
	Oid			id_type;
	GkIfExists	if_exists;
	bool		exists;
};

/* The row type of the labels. */
TupleDesc
gk_labels_descriptor(Oid id_type)
{
	Oid			types[COLUMNS] = {id_type, INT4OID, FLOAT8OID};
	TupleDesc	descriptor = CreateTemplateTupleDesc(COLUMNS);

	for (int i = 0; i < COLUMNS; i++)
		TupleDescInitEntry(descriptor, i + 1, column_names[i], types[i], -1, 0);
	return descriptor;
}

/* True if a name is that of another column of the labels. */
static bool
is_taken(const char *name)
{
	return strcmp(name, column_names[1]) == 0 || strcmp(name, column_names[2]) == 0;
}

/* Names the id column: as requested, or as in the source if the table has that, or else "id". */
static void
name_id_column(GkLabelsTable *table, Oid relation_id)
{
	table->id_name = column_names[0];
	if (table->asked_id_name != NULL)
		table->id_name = table->asked_id_name;
	else if (!is_taken(table->id_column) && OidIsValid(relation_id) &&
			 get_attnum(relation_id, table->id_column) > 0)
		table->id_name = table->id_column;
}

/* The name of a column of the table. */
static const char *
column_name(const GkLabelsTable *table, int column)
{
	return column == 0 ? table->id_name : column_names[column];
}

/* Reports a missing column. */
static void
raise_no_column(const GkLabelsTable *table, Oid relation_id, const char *column)
{
	bool		replace = table->if_exists == GK_EXISTS_REPLACE;
	const char *also = "";

	if (table->asked_id_name == NULL && !is_taken(table->id_column) &&
		strcmp(table->id_column, table->id_name) != 0)
		also = psprintf(" (or %s)", quote_identifier(table->id_column));
	ereport(ERROR,
			(errcode(replace ? ERRCODE_DATATYPE_MISMATCH : ERRCODE_UNDEFINED_COLUMN),
			 errmsg("table \"%s\" has no column \"%s\"", get_rel_name(relation_id), column),
			 errhint("A labels table has the columns %s%s, cluster_id and distance.",
					 quote_identifier(table->id_name), also)));
}

/* Raises an error unless the relation has the columns of the labels. */
static void
check_columns(GkLabelsTable *table, Oid relation_id)
{
	Oid			types[COLUMNS] = {table->id_type, INT4OID, FLOAT8OID};

	name_id_column(table, relation_id);
	for (int i = 0; i < COLUMNS; i++)
	{
		const char *name = column_name(table, i);
		AttrNumber	number = get_attnum(relation_id, name);

		if (number <= 0)
			raise_no_column(table, relation_id, name);
		if (get_atttype(relation_id, number) != types[i])
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of table \"%s\" has another type than the labels",
							name, get_rel_name(relation_id)),
					 errdetail("It is %s, expected %s.",
							   format_type_be(get_atttype(relation_id, number)),
							   format_type_be(types[i]))));
	}
}

/* Raises an error if a column of the labels is generated. */
static void
check_generated(const GkLabelsTable *table, Oid relation_id)
{
	for (int i = 0; i < COLUMNS; i++)
	{
		const char *name = column_name(table, i);
		AttrNumber	number = get_attnum(relation_id, name);
		HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(relation_id),
											Int16GetDatum(number));
		Form_pg_attribute column;
		bool		always;

		if (!HeapTupleIsValid(tuple))
			continue;
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
}

/* Raises the error that INSERT would, for lack of the privilege on the table or its columns. */
static void
check_insert(const GkLabelsTable *table, Oid relation_id)
{
	Oid			user = GetUserId();
	bool		allowed = true;

	if (pg_class_aclcheck(relation_id, user, ACL_INSERT) == ACLCHECK_OK)
		return;
	for (int i = 0; i < COLUMNS; i++)
		allowed = allowed &&
			pg_attribute_aclcheck(relation_id, get_attnum(relation_id, column_name(table, i)), user,
								  ACL_INSERT) == ACLCHECK_OK;
	if (!allowed)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relation_id)),
					   get_rel_name(relation_id));
}

/* Adds a hint if the table cannot be emptied. */
static void
explain_truncate(void *arg)
{
	const GkLabelsTable *table = arg;

	switch (geterrcode())
	{
		case ERRCODE_T_R_DEADLOCK_DETECTED:
			errhint("Another transaction has read the table and waits for this one. Begin both with "
					"\"LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE\".", table->name);
			break;
		case ERRCODE_LOCK_NOT_AVAILABLE:
			errhint("A transaction that has read the table is still open; new readers wait behind "
					"this fit. pg_stat_activity shows it, with state \"idle in transaction\".");
			break;
		case ERRCODE_FEATURE_NOT_SUPPORTED:
			errhint("Write if_exists => 'merge' or 'delete' instead.");
			break;
		case ERRCODE_OBJECT_IN_USE:
			errhint("The statement that calls the fit uses the table as well: call the fit in a "
					"statement of its own.");
			break;
	}
}

/* Raises the error that TRUNCATE would, for lack of the privilege or because of foreign keys. */
static void
check_truncate(GkLabelsTable *table, Oid relation_id)
{
	ErrorContextCallback callback = {.callback = explain_truncate,.arg = table};
	AclResult	result = pg_class_aclcheck(relation_id, GetUserId(), ACL_TRUNCATE);
	Relation	relation;

	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relation_id)),
					   get_rel_name(relation_id));
	/* TRUNCATE will wait for current lock holders */
	if (!ConditionalLockRelationOid(relation_id, AccessShareLock))
		return;
	relation = try_relation_open(relation_id, NoLock);
	if (relation == NULL)
	{
		UnlockRelationOid(relation_id, AccessShareLock);
		return;
	}
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	/* foreign keys to partitions or children count only if these are truncated as well */
	if (relation->rd_rel->relkind == RELKIND_RELATION && !relation->rd_rel->relhassubclass)
		heap_truncate_check_FKs(list_make1(relation), false);
	error_context_stack = callback.previous;
	relation_close(relation, AccessShareLock);
}

/* Checks an existing table. */
static void
check_existing(GkLabelsTable *table, Oid relation_id)
{
	char		kind = get_rel_relkind(relation_id);

	if (table->if_exists == GK_EXISTS_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", table->variable->relname),
				 errhint("Write if_exists => 'merge' to write only the rows that differ, 'replace' "
						 "(with TRUNCATE) or 'delete' (with DELETE) to replace all rows, or "
						 "'append' to add to them.")));
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE
		&& kind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", table->variable->relname)));
	check_columns(table, relation_id);
	check_generated(table, relation_id);
	check_insert(table, relation_id);
	if (table->if_exists == GK_EXISTS_REPLACE)
		check_truncate(table, relation_id);
	if (table->if_exists == GK_EXISTS_MERGE)
		gk_check_unique_ids(relation_id, table->id_name);
}

/* Raises the error that CREATE TABLE would, for lack of privileges or because of the id's type. */
static void
check_creation(const GkLabelsTable *table)
{
	RangeVar   *variable = copyObject(table->variable);
	Oid			tablespace;
	AclResult	result;

	(void) RangeVarGetAndCheckCreationNamespace(variable, NoLock, NULL);
	if (SystemAttributeByName(table->id_name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_COLUMN),
				 errmsg("column name \"%s\" conflicts with a system column name",
						table->id_name)));
	CheckAttributeType(table->id_name, table->id_type, get_typcollation(table->id_type), NIL, 0);
	result = object_aclcheck(TypeRelationId, table->id_type, GetUserId(), ACL_USAGE);
	if (result != ACLCHECK_OK)
		aclcheck_error_type(result, table->id_type);

	tablespace = GetDefaultTablespace(variable->relpersistence, false);
	if (!OidIsValid(tablespace) || tablespace == MyDatabaseTableSpace)
		return;
	result = object_aclcheck(TableSpaceRelationId, tablespace, GetUserId(), ACL_CREATE);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLESPACE, get_tablespace_name(tablespace));
}

/*
 * Looks up and checks the table.  The lock is released at once: fits that kept it until they
 * write would block each other.
 */
static void
look_up(GkLabelsTable *table)
{
	Oid			relation_id = RangeVarGetRelid(table->variable, AccessShareLock, true);

	table->exists = OidIsValid(relation_id);
	if (table->exists)
	{
		check_existing(table, relation_id);
		UnlockRelationOid(relation_id, AccessShareLock);
	}
	else
	{
		name_id_column(table, InvalidOid);
		check_creation(table);
	}
}

/* Checks that the table can be created, replaced or appended to. */
GkLabelsTable *
gk_labels_table_check(const char *name, GkIfExists if_exists, const char *id_column,
					  const char *id_name, Oid id_type)
{
	GkLabelsTable *table = palloc0(sizeof(GkLabelsTable));

	PreventCommandIfReadOnly("gkmeans with labels_table");
	table->variable = gk_table_name("labels_table", name);
	table->name = gk_quoted_name(table->variable);
	/* the arguments are freed before the labels are written */
	table->id_column = pstrdup(id_column);
	if (id_name != NULL)
		table->asked_id_name = pstrdup(id_name);
	table->id_type = id_type;
	table->if_exists = if_exists;
	look_up(table);
	return table;
}

/* Runs a command that writes. */
static void
execute(const char *command)
{
	int			code = SPI_execute(command, false, 0);

	if (code < 0)
		elog(ERROR, "could not run \"%s\": %s", command, SPI_result_code_string(code));
}

/* Empties the table. */
static void
truncate_table(GkLabelsTable *table)
{
	ErrorContextCallback callback = {.callback = explain_truncate,.arg = table};

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	execute(psprintf("TRUNCATE %s", table->name));
	error_context_stack = callback.previous;
}

/* Looks again for a table that did not exist before, and keeps other fits from creating it. */
static void
look_up_again(GkLabelsTable *table)
{
	gk_lock_table_name(table->variable);
	look_up(table);
}

/* Creates the table. */
static void
make_table(GkLabelsTable *table)
{
	/* "character" and "bit" without a length would be of length 1 */
	execute(psprintf("CREATE TABLE %s (%s %s%s, cluster_id integer, distance double precision)",
					 table->name, quote_identifier(table->id_name),
					 format_type_extended(table->id_type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
										  FORMAT_TYPE_FORCE_QUALIFY),
					 table->if_exists == GK_EXISTS_MERGE ? " PRIMARY KEY" : ""));
}

/* Prepares an existing table; counts the rows that it deletes. */
static int64
prepare_table(GkLabelsTable *table)
{
	if (table->if_exists == GK_EXISTS_REPLACE)
		truncate_table(table);
	if (table->if_exists != GK_EXISTS_MERGE && table->if_exists != GK_EXISTS_DELETE)
		return 0;
	/* writers follow one another; readers go on */
	execute(psprintf("LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE", table->name));
	if (table->if_exists == GK_EXISTS_MERGE)
		return 0;
	execute(psprintf("DELETE FROM %s", table->name));
	return (int64) SPI_processed;
}

/* Writes the registered labels. */
static void
write_labels(GkLabelsTable *table, GkLabelsWritten *written)
{
	if (table->if_exists == GK_EXISTS_MERGE && table->exists)
	{
		gk_merge_labels(table->name, table->id_name, table->id_type, written);
		return;
	}
	if (table->if_exists == GK_EXISTS_MERGE)
		gk_check_label_ids(table->id_name);
	execute(psprintf("INSERT INTO %s (%s, cluster_id, distance)"
					 " SELECT id, cluster_id, distance FROM gkmeans_labels",
					 table->name, quote_identifier(table->id_name)));
	written->inserted = (int64) SPI_processed;
}

/* Creates the table if it does not exist, and writes the labels. */
void
gk_labels_table_write(GkLabelsTable *table, Tuplestorestate *labels, GkLabelsWritten *written)
{
	EphemeralNamedRelationData relation = {0};

	memset(written, 0, sizeof(*written));

	if (!table->exists)
		look_up_again(table);
	if (table->exists)
		written->deleted = prepare_table(table);
	else
		make_table(table);
	relation.md.name = pstrdup("gkmeans_labels");
	relation.md.reliddesc = InvalidOid;
	relation.md.tupdesc = gk_labels_descriptor(table->id_type);
	relation.md.enrtype = ENR_NAMED_TUPLESTORE;
	relation.md.enrtuples = (double) tuplestore_tuple_count(labels);
	relation.reldata = labels;
	if (SPI_register_relation(&relation) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register the labels with SPI");
	write_labels(table, written);
	SPI_unregister_relation(relation.md.name);

	/* the scan had a read pointer of its own; the labels may be a function's result */
	tuplestore_select_read_pointer(labels, 0);
	tuplestore_rescan(labels);
}
