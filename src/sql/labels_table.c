/*
 * The table of labels: an id, cluster_id and what else is asked for, one row for every row of the
 * source.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/proclang.h"
#include "commands/vacuum.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "changes_table.h"
#include "citus.h"
#include "id_parts.h"
#include "labelled_tables.h"
#include "labels_relation.h"
#include "labels_table.h"
#include "output_table.h"
#include "settings.h"
#include "snapshot_rows.h"
#include "source_changes.h"
#include "source_tables.h"
#include "table_name.h"

/* What a table must have, and what one that is made has. */
#define REQUIRED (GK_LABEL_SET(GK_LABEL_ID) | GK_LABEL_SET(GK_LABEL_CLUSTER))
#define MADE (REQUIRED | GK_LABEL_SET(GK_LABEL_DISTANCE))

/* Citus locks and empties the shards of a table only if this is on, as it is by default. */
#define CITUS_COMMANDS "citus.enable_ddl_propagation"

/* Citus truncates the shards of a table one after the other, or in several sessions at once. */
#define CITUS_MODE "citus.multi_shard_modify_mode"

/* The columns that only a model can fill. */
#define OF_MODEL (GK_LABEL_SET(GK_LABEL_NAME) | GK_LABEL_SET(GK_LABEL_VERSION))

#if PG_VERSION_NUM >= 170000
#define MAY_ANALYZE(id) (pg_class_aclcheck((id), GetUserId(), ACL_MAINTAIN) == ACLCHECK_OK)
#elif PG_VERSION_NUM >= 160000
#define MAY_ANALYZE(id) object_ownercheck(RelationRelationId, (id), GetUserId())
#else
#define MAY_ANALYZE(id) pg_class_ownercheck((id), GetUserId())
#endif

struct GkLabelsTable
{
	GkOutputTable output;
	char	   *id_column;		/* of the source */
	char	   *asked_id_name;	/* NULL = chosen by name_id_column() */
	const char *id_name;		/* of the id column of the table */
	Oid			id_type;
	List	   *id_parts;		/* see gk_id_parts() */
	Oid			id_collation;	/* of the index that makes ids unique */
	GkIfExists	if_exists;
	bool		of_model;
	bool		made;			/* by this call, and is empty */
	bool		note_is_lost;	/* perhaps: before the rows are read */
	GkLabelColumns columns;		/* that will be filled */
	GkChangesTable *changes;	/* NULL = none */
	List	   *read;			/* OIDs of tables of the source, if the table is to be made */
};

/* True if a table has a column of that name. */
static bool
has_column(Oid relation_id, const char *name)
{
	return OidIsValid(relation_id) && get_attnum(relation_id, name) > 0;
}

/* True if a name is never taken for that of the ids: every table may have such a column. */
static bool
is_taken(const char *name)
{
	return strcmp(name, gk_label_column_name(GK_LABEL_CLUSTER, NULL)) == 0 ||
		strcmp(name, gk_label_column_name(GK_LABEL_DISTANCE, NULL)) == 0;
}

/*
 * Names the id column: as asked for, or as in the source if the table has that, or else "id".  A
 * table that has an "id" may have the other for something else: the name of the cluster.
 */
static void
name_id_column(GkLabelsTable *table, Oid relation_id)
{
	const char *by_default = "id";

	table->id_name = by_default;
	if (table->asked_id_name != NULL)
		table->id_name = table->asked_id_name;
	else if (!is_taken(table->id_column) && has_column(relation_id, table->id_column) &&
			 !(gk_is_label_column(table->id_column) && has_column(relation_id, by_default)))
		table->id_name = table->id_column;
}

/* Raises the error that a column is missing. */
static void
raise_no_column(const GkLabelsTable *table, const char *column)
{
	bool		replace = table->if_exists == GK_EXISTS_REPLACE;
	const char *also = "";

	if (table->asked_id_name == NULL && !is_taken(table->id_column) &&
		strcmp(table->id_column, table->id_name) != 0)
		also = psprintf(" (or %s)", quote_identifier(table->id_column));
	ereport(ERROR,
			(errcode(replace ? ERRCODE_DATATYPE_MISMATCH : ERRCODE_UNDEFINED_COLUMN),
			 errmsg("table \"%s\" has no column \"%s\"", table->output.variable->relname, column),
			 errhint("A table of labels has the columns %s%s and cluster_id, and may have "
					 "distance and others.", quote_identifier(table->id_name), also)));
}

/* Finds the columns that will be filled. */
static GkLabelColumns
find_columns(GkLabelsTable *table, Oid relation_id)
{
	GkLabelColumns columns = 0;

	name_id_column(table, relation_id);
	for (int i = 0; i < GK_LABEL_COLUMNS; i++)
	{
		const char *name = gk_label_column_name(i, table->id_name);

		/* a column of ids may have the name of another */
		if (has_column(relation_id, name) &&
			(i == GK_LABEL_ID || strcmp(name, table->id_name) != 0))
			columns |= GK_LABEL_SET(i);
		else if (REQUIRED & GK_LABEL_SET(i))
			raise_no_column(table, name);
	}
	return table->of_model ? columns : columns & ~OF_MODEL;
}

/* Lists some columns; how many there are. */
static int
list_columns(const GkLabelsTable *table, GkLabelColumns set, GkOutputColumn *columns)
{
	int			count = 0;

	for (int i = 0; i < GK_LABEL_COLUMNS; i++)
		if (set & GK_LABEL_SET(i))
			columns[count++] = (GkOutputColumn)
			{
				gk_label_column_name(i, table->id_name),
				gk_label_column_type(i, table->id_type)
			};
	return count;
}

/* Raises the errors that the commands that write those columns would raise. */
static void
check_columns(const GkLabelsTable *table, Oid relation_id)
{
	bool		merge = table->if_exists == GK_EXISTS_MERGE;
	GkOutputColumn columns[GK_LABEL_COLUMNS];
	int			count = list_columns(table, table->columns, columns);

	gk_check_insert(relation_id, columns, count);
	if (merge || table->if_exists == GK_EXISTS_DELETE)
		gk_check_privilege(relation_id, ACL_DELETE, NULL, 0);
	if (!merge)
		return;
	count = list_columns(table, table->columns & ~GK_LABEL_SET(GK_LABEL_ID), columns);
	gk_check_privilege(relation_id, ACL_UPDATE, columns, count);
	/* the time of a label is written, but not compared */
	count = list_columns(table, table->columns & ~GK_LABEL_SET(GK_LABEL_TIME), columns);
	gk_check_privilege(relation_id, ACL_SELECT, columns, count);
}

/* The argument that says what to do with an existing table: functions of models have another. */
static const char *
mode_argument(const GkLabelsTable *table)
{
	return table->of_model ? "labels_mode" : "if_exists";
}

/* Adds a hint if the table cannot be emptied. */
static void
explain_truncate(void *arg)
{
	const GkLabelsTable *table = arg;

	switch (geterrcode())
	{
		case ERRCODE_T_R_DEADLOCK_DETECTED:
			errhint("Another transaction has read the table and waits for this one. Begin both "
					"with \"LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE\".", table->output.name);
			break;
		case ERRCODE_LOCK_NOT_AVAILABLE:
			errhint("A transaction that has read the table is still open; new readers wait behind "
					"this fit. pg_stat_activity shows it, with state \"idle in transaction\".");
			break;
		case ERRCODE_FEATURE_NOT_SUPPORTED:
			errhint("Write %s => 'merge' instead, or 'delete' if no foreign key references the "
					"table.", mode_argument(table));
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
	relation = relation_open(relation_id, NoLock);
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	/* foreign keys to partitions or children count only if these are truncated as well */
	if (relation->rd_rel->relkind == RELKIND_RELATION && !relation->rd_rel->relhassubclass)
		heap_truncate_check_FKs(list_make1(relation), false);
	error_context_stack = callback.previous;
	relation_close(relation, NoLock);
}

/* Checks an existing table, which is locked. */
static void
check_existing(GkLabelsTable *table)
{
	Oid			relation_id = table->output.relation_id;

	if (table->if_exists == GK_EXISTS_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", table->output.variable->relname),
				 errhint("Write %s => 'merge' to write only the rows that differ, 'replace' "
						 "(with TRUNCATE) or 'delete' (with DELETE) to replace all rows, or "
						 "'append' to add to them.", mode_argument(table))));
	gk_check_is_table(&table->output, relation_id);
	/* what a table made in the meantime has besides was not computed */
	table->columns &= find_columns(table, relation_id);
	check_columns(table, relation_id);
	gk_check_distribution(relation_id, table->id_name);
	if (table->if_exists == GK_EXISTS_MERGE || table->if_exists == GK_EXISTS_DELETE)
	{
		gk_check_changeable(relation_id, mode_argument(table));
		gk_check_published(relation_id, CMD_DELETE);
		gk_check_foreign(relation_id, CMD_DELETE);
	}
	if (table->if_exists == GK_EXISTS_REPLACE)
		check_truncate(table, relation_id);
	if (table->if_exists == GK_EXISTS_MERGE)
	{
		gk_check_published(relation_id, CMD_UPDATE);
		table->id_collation = gk_unique_ids(relation_id, table->id_name, table->id_type,
											mode_argument(table));
		gk_check_comparison(table->id_type, table->id_collation);
	}
}

/* True if an index can order values of a type, with those that arrays and rows of it hold. */
static bool
has_order(Oid type)
{
	return OidIsValid(GetDefaultOpClass(type, BTREE_AM_OID)) &&
		OidIsValid(lookup_type_cache(getBaseType(type), TYPECACHE_CMP_PROC)->cmp_proc);
}

/* Raises an error if a table that is made cannot have its ids as a primary key. */
static void
check_key(const GkLabelsTable *table)
{
	if (table->if_exists != GK_EXISTS_MERGE || has_order(table->id_type))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("ids of type %s cannot be merged", format_type_be(table->id_type)),
			 errdetail("No index can make them unique."),
			 errhint("Cast them in the source, for example %s::text.",
					 quote_identifier(table->id_column))));
}

/*
 * Raises an error if the type of the ids was dropped while the call waited for the table, or
 * altered by what it called before there was a column of the type.
 */
static void
check_type(const GkLabelsTable *table)
{
	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(table->id_type)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the type of column \"%s\" was dropped meanwhile", table->id_column)));
	gk_check_id_parts(table->id_type, table->id_parts, table->id_column);
}

/*
 * Looks up and checks the table.  The lock is released at once: fits that kept it until they
 * write would block each other.
 */
static void
look_up(GkLabelsTable *table)
{
	table->output.relation_id = RangeVarGetRelid(table->output.variable, AccessShareLock, true);
	check_type(table);
	if (OidIsValid(table->output.relation_id))
	{
		check_existing(table);
		UnlockRelationOid(table->output.relation_id, AccessShareLock);
	}
	else
	{
		name_id_column(table, InvalidOid);
		table->columns &= MADE;
		check_key(table);
		gk_check_creation(&table->output, table->id_name, table->id_type);
	}
}

/*
 * True if a column, perhaps of a child, has values that neither labels nor other columns give.
 * One that is called like those of labels has if a feature or the weight is made of it, or if the
 * source reads nothing else: features must come from somewhere.
 */
static bool
has_own_values(const GkLabelsTable *table, Oid relation_id, const GkSource *source,
			   const char *column, bool has_others)
{
	AttrNumber	number = get_attnum(relation_id, column);

	if (strcmp(column, table->id_name) == 0 ||
		strcmp(column, gk_label_column_name(GK_LABEL_CLUSTER, NULL)) == 0)
		return false;
	if (gk_is_label_column(column))
		return !has_others || gk_source_is_made_of(source, relation_id, column);
	return number <= 0 || get_attgenerated(relation_id, number) == '\0';
}

/*
 * Refuses a table that the source reads more of than labels, as that of the customers themselves:
 * whoever asks for a label of each row does not expect rows to be deleted.
 */
static void
check_source(const GkLabelsTable *table, GkSource *source)
{
	Oid			relation_id = table->output.relation_id;
	bool		has_others;
	List	   *family;
	ListCell   *cell;

	if (table->if_exists == GK_EXISTS_APPEND)
		return;
	family = gk_family_of(relation_id);
	if (!gk_have_common(gk_source_tables(source), family))
		gk_source_forbid(source, family);
	foreach(cell, gk_source_columns_of(source, relation_id, &has_others))
		if (has_own_values(table, relation_id, source, lfirst(cell), has_others))
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("table \"%s\" holds data of the source, and cannot be a table of "
							"labels", table->output.variable->relname),
					 errdetail("Writing labels deletes rows of the table, with their column "
							   "\"%s\", which the source reads.", (char *) lfirst(cell)),
					 errhint("Name another table, and join it by its column \"%s\".",
							 table->id_name)));
}

/* Checks the table of changes, if there is to be one. */
static void
check_changes(GkLabelsTable *table, const char *name)
{
	if (name == NULL)
		return;
	if (table->if_exists != GK_EXISTS_MERGE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("changes_table needs labels_mode => 'merge'"),
				 errhint("Changes are the differences that 'merge' finds.")));
	if (gk_citus_has_whole_table(table->output.relation_id))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("changes of the labels in table \"%s\" cannot be found",
						table->output.variable->relname),
				 errdetail("It is a reference table, or a local table in Citus' metadata."),
				 errhint("Distribute that table by column \"%s\", or leave it a local table.",
						 table->id_name)));
	table->changes = gk_changes_table_check(name, &table->output, table->id_name, table->id_type);
}

/* Checks that the table can be made, replaced or appended to. */
GkLabelsTable *
gk_labels_table_check(const GkLabelsSpec *spec)
{
	GkLabelsTable *table = palloc0(sizeof(GkLabelsTable));

	PreventCommandIfReadOnly("gkmeans with labels_table");
	gk_output_table(&table->output, "labels_table", spec->table);
	table->output.expected_new = spec->expected_new;
	/* the arguments are gone when the labels are written */
	table->id_column = pstrdup(spec->id_column);
	if (spec->id_name != NULL)
		table->asked_id_name = pstrdup(spec->id_name);
	table->id_type = spec->id_type;
	table->id_parts = gk_id_parts(spec->id_type);
	table->if_exists = spec->if_exists;
	table->of_model = spec->of_model;
	table->columns = ~(GkLabelColumns) 0;
	look_up(table);
	gk_check_maker(&table->output);
	if (OidIsValid(table->output.relation_id))
	{
		check_source(table, spec->source);
		table->note_is_lost = gk_may_have_lost_note(gk_family_of(table->output.relation_id));
	}
	else
		table->read = gk_source_tables(spec->source);
	check_changes(table, spec->changes_table);
	return table;
}

/* The columns that will be filled. */
GkLabelColumns
gk_labels_table_columns(const GkLabelsTable *table)
{
	return table->columns;
}

/* Adds a hint if the table cannot be locked. */
static void
explain_lock(void *arg)
{
	const GkLabelsTable *table = arg;

	if (geterrcode() == ERRCODE_T_R_DEADLOCK_DETECTED)
		errhint("Another session has locked the table and waits for this transaction: it replaces "
				"labels, changes the model after it has written labels, or runs REINDEX "
				"CONCURRENTLY or CREATE INDEX CONCURRENTLY. Begin transactions that read or insert "
				"labels before they write them with \"LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE "
				"MODE\", and run those commands while nothing writes labels.",
				table->output.name);
}

/*
 * Raises an error if the name means another table than the one that was checked: nobody looked
 * whether the source reads that one.
 */
static void
check_replaced(const GkLabelsTable *table)
{
	if (gk_table_of_name(&table->output) != table->output.relation_id)
		gk_raise_replaced(&table->output, "Another table has taken its name meanwhile.");
}

/* True if the rows of the table are not here: those of foreign tables, and of Citus. */
static bool
is_elsewhere(const GkLabelsTable *table)
{
	Oid			relation_id = table->output.relation_id;

	return get_rel_relkind(relation_id) == RELKIND_FOREIGN_TABLE || gk_is_citus_table(relation_id);
}

/*
 * Locks the table as TRUNCATE does, with a hint if that cannot be: nobody adds a row.  The tables
 * that are locked, and by how many parents each of them was found, and so locked.
 */
static List *
lock_to_truncate(const GkLabelsTable *table, List **parents)
{
	ErrorContextCallback callback = {.callback = explain_truncate,.arg = (void *) table};
	List	   *locked;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	LockRelationOid(table->output.relation_id, AccessExclusiveLock);
	locked = find_all_inheritors(table->output.relation_id, AccessExclusiveLock, parents);
	error_context_stack = callback.previous;
	return locked;
}

/* Gives back those locks. */
static void
unlock(const List *locked, const List *parents)
{
	ListCell   *cell;
	ListCell   *count;

	forboth(cell, locked, count, parents)
		/* the table itself has none of them */
		for (int i = 0; i < Max(lfirst_int(count), 1); i++)
			UnlockRelationOid(lfirst_oid(cell), AccessExclusiveLock);
}

/* Adds a hint if those who write the table cannot be waited for. */
static void
explain_writers(void *arg)
{
	const GkLabelsTable *table = arg;

	switch (geterrcode())
	{
		case ERRCODE_T_R_DEADLOCK_DETECTED:
			errhint("Another transaction has written the table and waits for this one. Begin both "
					"with \"LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE\".", table->output.name);
			break;
		case ERRCODE_LOCK_NOT_AVAILABLE:
			errhint("A transaction that has written the table is still open. pg_stat_activity "
					"shows it, with state \"idle in transaction\", or pg_prepared_xacts.");
			break;
		default:
			break;
	}
}

/* Waits for those who are writing the table; others can read it meanwhile. */
static void
wait_for_writers(const GkLabelsTable *table)
{
	ErrorContextCallback callback = {.callback = explain_writers,.arg = (void *) table};
	ListCell   *cell;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	foreach(cell, gk_family_of(table->output.relation_id))
	{
		LockRelationOid(lfirst_oid(cell), ShareLock);
		UnlockRelationOid(lfirst_oid(cell), ShareLock);
	}
	error_context_stack = callback.previous;
}

/* Begins a nest level of the settings in which Citus takes commands to the shards of its table. */
static int
begin_commands(const GkLabelsTable *table)
{
	int			nest_level;

	if (!gk_is_citus_table(table->output.relation_id))
		return 0;
	nest_level = NewGUCNestLevel();
	gk_set_locally(CITUS_COMMANDS, "on");
	return nest_level;
}

/* Ends that level, as after an error: Citus sets the same for the transaction, which would stay. */
static void
end_commands(int nest_level)
{
	if (nest_level > 0)
		AtEOXact_GUC(false, nest_level);
}

/* True if the table, or a partition of it, has a foreign key. */
static bool
has_foreign_key(const GkLabelsTable *table)
{
	bool		has = false;
	ListCell   *cell;

	foreach(cell, gk_family_of(table->output.relation_id))
	{
		Relation	relation = try_relation_open(lfirst_oid(cell), AccessShareLock);

		if (relation == NULL)
			continue;
		has = has || RelationGetFKeyList(relation) != NIL;
		relation_close(relation, NoLock);
	}
	return has;
}

/* Empties the table, with a hint if that cannot be; says whether it had rows. */
static void
truncate_table(const GkLabelsTable *table, bool *had_rows)
{
	ErrorContextCallback callback = {.callback = explain_truncate,.arg = (void *) table};
	int			nest_level;

	*had_rows = is_elsewhere(table) || gk_have_rows(gk_family_of(table->output.relation_id));
	nest_level = begin_commands(table);
	/* in several sessions it would not go with reading the reference table of such a key */
	if (nest_level > 0 && has_foreign_key(table))
		gk_set_locally(CITUS_MODE, "sequential");
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	gk_truncate(&table->output);
	error_context_stack = callback.previous;
	end_commands(nest_level);
}

/* Looks again for a table that did not exist before, and keeps other fits from creating it. */
static void
look_up_again(GkLabelsTable *table)
{
	gk_lock_table_name(table->output.variable);
	look_up(table);
	if (!OidIsValid(table->output.relation_id))
		return;
	gk_check_own(&table->output);
	if (table->if_exists != GK_EXISTS_APPEND &&
		gk_have_common(gk_family_of(table->output.relation_id), table->read))
		gk_raise_replaced(&table->output, "A table that the source reads has taken its name "
						  "meanwhile.");
}

/* Says what the table and its columns are. */
static void
comment(const GkLabelsTable *table)
{
	gk_execute(psprintf("COMMENT ON TABLE %s IS 'clusters of rows, written by gkmeans'",
						table->output.name));
	for (int i = 0; i < GK_LABEL_COLUMNS; i++)
		if (table->columns & GK_LABEL_SET(i))
			gk_execute(psprintf("COMMENT ON COLUMN %s.%s IS %s", table->output.name,
								quote_identifier(gk_label_column_name(i, table->id_name)),
								quote_literal_cstr(gk_label_column_comment(i))));
}

/* Makes the table. */
static void
make_table(GkLabelsTable *table)
{
	GkOutputColumn ids = {table->id_name, table->id_type};
	bool		is_kept = table->if_exists == GK_EXISTS_APPEND ||
		table->if_exists == GK_EXISTS_REPLACE;

	gk_make_table(&table->output, &ids,
				  psprintf("%s, cluster_id integer, distance double precision",
						   table->if_exists == GK_EXISTS_MERGE ? " PRIMARY KEY" : ""),
				  is_kept ? NULL : "heap");
	comment(table);
	table->made = true;
}

/* Locks what has the name of the table, unless it is a foreign table: LOCK TABLE refuses these. */
static void
lock_by_name(const GkLabelsTable *table)
{
	Oid			relation_id = RangeVarGetRelid(table->output.variable, NoLock, true);
	int			nest_level;

	if (OidIsValid(relation_id) && get_rel_relkind(relation_id) == RELKIND_FOREIGN_TABLE)
		return;
	nest_level = begin_commands(table);
	gk_execute(psprintf("LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE", table->output.name));
	end_commands(nest_level);
}

/* Lets writers of the table follow one another; readers go on. */
static void
lock_table(const GkLabelsTable *table)
{
	ErrorContextCallback callback = {.callback = explain_lock,.arg = (void *) table};

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	LockRelationOid(table->output.relation_id, ShareUpdateExclusiveLock);
	/* from now on it can only lose its name with its schema, for which the caller looks */
	check_replaced(table);
	lock_by_name(table);
	(void) find_all_inheritors(table->output.relation_id, ShareUpdateExclusiveLock, NULL);
	error_context_stack = callback.previous;
}

/* True if others have labelled, written or altered the table, which is locked, since a snapshot. */
static bool
is_written_since(const GkLabelsTable *table, Snapshot snapshot)
{
	List	   *family = gk_family_of(table->output.relation_id);
	SnapshotData with_own = *snapshot;

	with_own.curcid = GetCurrentCommandId(false);
	return table->note_is_lost || gk_is_replaced(family, NIL, &with_own) ||
		gk_have_other_rows(family, &with_own) || gk_are_labelled_since(family, &with_own);
}

/* Raises the error of a table that others have changed since the transaction began. */
static void
refuse_snapshot(const GkLabelsTable *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("Table %s was labelled, written, altered or moved after this transaction "
					   "began.", table->output.name),
			 errhint("The transaction might succeed if retried.")));
}

/* True if a shard of the table was moved or split since the transaction began, and that matters. */
static bool
has_moved(const GkLabelsTable *table)
{
	return IsolationUsesXactSnapshot() && table->if_exists != GK_EXISTS_APPEND &&
		gk_citus_has_moved(list_make1_oid(table->output.relation_id));
}

/*
 * Raises an error if one was: the first command that writes waits for who moves a shard, but does
 * not see what came there.
 */
static void
check_unmoved(const GkLabelsTable *table)
{
	if (has_moved(table))
		refuse_snapshot(table);
}

/*
 * Raises an error if the table is not the one that the transaction sees: rows that were committed
 * since, or written anew by ALTER TABLE, may be newer than the labels, or would stay beside them,
 * as would those that Citus' sessions on the workers do not see where a shard was moved to.
 */
static void
check_snapshot(const GkLabelsTable *table)
{
	if (IsolationUsesXactSnapshot() &&
		(is_written_since(table, GetTransactionSnapshot()) || has_moved(table)))
		refuse_snapshot(table);
}

/* Appends to another table that has the name now, if it is the caller's: nothing is lost there. */
static void
take_replacement(GkLabelsTable *table)
{
	Oid			checked = table->output.relation_id;
	Oid			named = gk_table_of_name(&table->output);

	do
	{
		CHECK_FOR_INTERRUPTS();
		table->output.relation_id = named;
		if (named != checked)
			gk_check_own(&table->output);
		checked = named;
		/* as the INSERT does; the name may be another's after the wait */
		LockRelationOid(named, RowExclusiveLock);
		named = gk_table_of_name(&table->output);
	} while (named != checked);
}

/* Checks a table that is locked; false if others have written it since a snapshot, if any. */
static bool
check_locked(GkLabelsTable *table, Snapshot read_by)
{
	check_replaced(table);
	check_type(table);
	/* its columns and indexes may have changed while the rows were read */
	check_existing(table);
	check_snapshot(table);
	return read_by == NULL || IsolationUsesXactSnapshot() || !is_written_since(table, read_by);
}

/*
 * Locks as TRUNCATE does, unless others turn out to have inserted labels: readers can go on while
 * rows are read again, but for the last time.  So it waits for those who insert before: standbys
 * keep a lock for TRUNCATE until the transaction ends.  A lock that only keeps out who inserts
 * could not be raised: it would deadlock with who has read the table, and inserts now.
 */
static bool
lock_to_replace(GkLabelsTable *table, Snapshot read_by, bool keep)
{
	List	   *locked;
	List	   *parents;

	wait_for_writers(table);
	if (!check_locked(table, read_by) && !keep)
		return false;
	locked = lock_to_truncate(table, &parents);
	if (check_locked(table, read_by))
		return true;
	if (!keep)
		unlock(locked, parents);
	return false;
}

/*
 * Locks the table if it is there.  Who comes after others replaces what they wrote, perhaps by
 * newer rows: these must be read.  Readers can go on meanwhile, so the lock for TRUNCATE comes
 * last.
 */
bool
gk_labels_table_lock(GkLabelsTable *table, Snapshot read_by, bool keep)
{
	bool		is_current;

	if (!OidIsValid(table->output.relation_id))
		look_up_again(table);
	if (!OidIsValid(table->output.relation_id))
		return true;
	if (table->if_exists == GK_EXISTS_APPEND)
	{
		take_replacement(table);
		check_type(table);
		return true;
	}
	lock_table(table);
	is_current = check_locked(table, read_by);
	if (table->if_exists != GK_EXISTS_REPLACE || !(is_current || keep))
		return is_current;
	return lock_to_replace(table, read_by, keep);
}

/* Empties the table if asked to; counts the rows that it deletes, or says whether it did. */
static int64
empty_table(const GkLabelsTable *table, bool *had_rows)
{
	if (table->if_exists == GK_EXISTS_REPLACE)
		truncate_table(table, had_rows);
	if (table->if_exists == GK_EXISTS_DELETE)
		return gk_execute_on(&table->output, psprintf("DELETE FROM %s", table->output.name),
							 NULL, 0, NULL, NULL, NULL);
	return 0;
}

/* True if triggers or rules of a table itself, not of its partitions, may leave out rows. */
static bool
has_triggers_or_rules(Oid relation_id)
{
	Relation	relation = try_relation_open(relation_id, AccessShareLock);
	bool		has;

	if (relation == NULL)
		return true;
	has = relation->rd_rules != NULL ||
		(relation->trigdesc != NULL && relation->trigdesc->trig_insert_before_row);
	relation_close(relation, AccessShareLock);
	return has;
}

/* True if triggers or rules of a table, or of one of its partitions, may leave out rows. */
static bool
may_leave_out_rows(Oid relation_id)
{
	ListCell   *cell;

	foreach(cell, gk_family_of(relation_id))
		if (has_triggers_or_rules(lfirst_oid(cell)))
			return true;
	return false;
}

/*
 * The command with which Citus' workers would insert labels; NULL if they cannot, or if what they
 * insert says nothing about what they found.
 */
char *
gk_labels_table_insert(const GkLabelsTable *table, const char *relation)
{
	const GkLabelColumns known = MADE | GK_LABEL_SET(GK_LABEL_VERSION) |
		GK_LABEL_SET(GK_LABEL_TIME);
	Oid			relation_id = RangeVarGetRelid(table->output.variable, NoLock, true);

	if (!OidIsValid(relation_id) || !gk_citus_has_one_copy(relation_id) ||
		(table->columns & ~known) != 0 || table->if_exists == GK_EXISTS_MERGE ||
		may_leave_out_rows(relation_id))
		return NULL;
	return psprintf("INSERT INTO %s (%s) SELECT %s FROM %s", table->output.name,
					gk_label_names(table->columns & MADE, table->id_name),
					gk_label_values(table->columns & MADE), relation);
}

/* What is written. */
typedef struct Writing
{
	const GkLabelsTable *table;
	const GkLabelStamp *stamp;
	GkLabelsWritten *written;
} Writing;

/* Inserts the labels of a relation; returns how many. */
static int64
insert_labels(const GkLabelsTable *table, const char *relation, const GkLabelStamp *stamp)
{
	return gk_execute_stamped(&table->output,
							  psprintf("INSERT INTO %s (%s) SELECT %s FROM %s",
									   table->output.name,
									   gk_label_names(table->columns, table->id_name),
									   gk_label_values(table->columns), relation),
							  NULL, stamp);
}

/* Writes the labels. */
static void
write_labels(const GkLabelsRelation *labels, void *context)
{
	const Writing *writing = context;
	const GkLabelsTable *table = writing->table;
	GkLabelsWritten *written = writing->written;
	GkLabelsMerge merge = {.labels = labels,.table = &table->output,.made = table->made,
		.id_name = table->id_name,.id_type = table->id_type,.collation = table->id_collation,
		.columns = table->columns,.stamp = writing->stamp,.changes = table->changes};

	/* that looks at all partitions, and only a function asks for it */
	merge.is_plain = labels->is_function &&
		!may_leave_out_rows(RangeVarGetRelid(table->output.variable, NoLock, false));

	if (table->if_exists == GK_EXISTS_MERGE)
		gk_begin_merge(&merge, written);
	if (table->if_exists == GK_EXISTS_MERGE && !table->made)
		gk_merge_labels(&merge, written);
	else
		written->inserted += insert_labels(table, labels->from, writing->stamp);
}

/* True if Citus plans commands that merge labels into the table. */
static bool
merges_by_citus(const GkLabelsTable *table)
{
	const char *name = table->output.name;
	const char *id = quote_identifier(table->id_name);

	return table->if_exists == GK_EXISTS_MERGE &&
		(gk_is_citus_command(psprintf("UPDATE %s SET cluster_id = NULL WHERE %s IS NULL",
									  name, id)) ||
		 gk_is_citus_command(psprintf("DELETE FROM %s WHERE %s IS NULL", name, id)));
}

/* True if Citus plans the commands that write. */
static bool
is_of_citus(const GkLabelsTable *table)
{
	return gk_has_citus() &&
		(gk_is_citus_command(psprintf("INSERT INTO %s DEFAULT VALUES", table->output.name)) ||
		 merges_by_citus(table) ||
		 (table->changes != NULL && gk_changes_table_is_of_citus(table->changes)));
}

/*
 * Renews what the planner knows of the table, where something was written and the caller may.
 * Those that append do not wait for one another.  The shards of Citus are left to autovacuum: Citus
 * refuses ANALYZE after other work of a transaction.
 */
static void
analyze_table(const GkLabelsTable *table, const GkLabelsWritten *written)
{
	Oid			relation_id = RangeVarGetRelid(table->output.variable, NoLock, true);
	char		kind = OidIsValid(relation_id) ? get_rel_relkind(relation_id) : '\0';

	if (written->inserted + written->updated + written->deleted > 0 &&
		(kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE) &&
		MAY_ANALYZE(relation_id) &&
		ConditionalLockRelationOid(relation_id, ShareUpdateExclusiveLock) &&
		!gk_is_citus_table(relation_id))
		gk_execute(psprintf("ANALYZE %s", table->output.name));
}

/* Notes that the table was labelled, unless nobody can have labels of older rows for it. */
static void
note_labelled(const GkLabelsTable *table)
{
	Oid			relation_id = table->output.relation_id;

	if (table->if_exists != GK_EXISTS_APPEND && !table->made && !is_elsewhere(table) &&
		get_rel_persistence(relation_id) != RELPERSISTENCE_TEMP)
		gk_note_labelled(gk_family_of(relation_id));
}

/* Makes the table if it is not there, and writes the labels; it is locked. */
void
gk_labels_table_write(GkLabelsTable *table, const GkLabelsInput *labels, int version,
					  GkLabelsWritten *written)
{
	Tuplestorestate *rows = labels->rows;
	GkLabelStamp stamp = {.version = version};
	Writing		writing = {table, &stamp, written};
	int			nest_level;
	bool		citus;

	memset(written, 0, sizeof(*written));
	if (OidIsValid(table->output.relation_id))
		written->deleted = empty_table(table, &written->emptied);
	else
		make_table(table);
	/* also before a unique index finds rows that were not deleted */
	check_unmoved(table);
	citus = is_of_citus(table);
	nest_level = NewGUCNestLevel();
	if (citus)
	{
		gk_citus_set_search_path();
		gk_citus_set_styles();
		/* Citus cannot plan commands whose parameters have no values yet */
		gk_set_locally("plan_cache_mode", "force_custom_plan");
	}
	/* now that no other labels are written: changes follow one another by their time */
	stamp.time = GetCurrentTimestamp();
	if (labels->relation != NULL)
	{
		written->inserted = insert_labels(table, labels->relation, &stamp);
		rows = labels->take_rest(labels->context, written->inserted);
	}
	if (rows != NULL)
		gk_use_labels(rows, table->id_type, citus, write_labels, &writing);
	if (rows != NULL && rows != labels->rows)
		tuplestore_end(rows);
	check_unmoved(table);
	note_labelled(table);
	analyze_table(table, written);
	AtEOXact_GUC(true, nest_level);
}
