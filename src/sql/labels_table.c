/*
 * The table of labels: (id, cluster_id, distance), one row for every row of the source.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/queryenvironment.h"
#include "utils/rel.h"

#include "labels_table.h"
#include "table_name.h"

#define COLUMNS 3

static const char *const column_names[COLUMNS] = {"id", "cluster_id", "distance"};

struct GkLabelsTable
{
	RangeVar   *variable;		/* qualified */
	char	   *name;			/* the same, quoted */
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

/* Raises an error unless the relation has the columns of the labels. */
static void
check_columns(Oid relation_id, Oid id_type, bool replace)
{
	Oid			types[COLUMNS] = {id_type, INT4OID, FLOAT8OID};

	for (int i = 0; i < COLUMNS; i++)
	{
		AttrNumber	number = get_attnum(relation_id, column_names[i]);

		if (number == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(replace ? ERRCODE_DATATYPE_MISMATCH : ERRCODE_UNDEFINED_COLUMN),
					 errmsg("table \"%s\" has no column \"%s\"",
							get_rel_name(relation_id), column_names[i]),
					 errhint("A table of labels has the columns id, cluster_id and distance.")));
		if (get_atttype(relation_id, number) != types[i])
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of table \"%s\" has another type than the labels",
							column_names[i], get_rel_name(relation_id)),
					 errdetail("It is %s, expected %s.",
							   format_type_be(get_atttype(relation_id, number)),
							   format_type_be(types[i]))));
	}
}

/* Checks a table that is there already. */
static void
check_existing(const GkLabelsTable *table, Oid relation_id)
{
	char		kind = get_rel_relkind(relation_id);

	if (table->if_exists == GK_EXISTS_ERROR)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", table->variable->relname),
				 errhint("Set if_exists to \"replace\" or \"append\".")));
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE
		&& kind != RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is not a table", table->name)));
	check_columns(relation_id, table->id_type, table->if_exists == GK_EXISTS_REPLACE);
}

/* Looks whether the table is there, and as it has to be. */
static void
look_up(GkLabelsTable *table)
{
	Oid			relation_id = RangeVarGetRelid(table->variable, NoLock, true);

	table->exists = OidIsValid(relation_id);
	if (table->exists)
		check_existing(table, relation_id);
}

/* Checks that the table can be made, replaced or appended to. */
GkLabelsTable *
gk_labels_table_check(const char *name, GkIfExists if_exists, Oid id_type)
{
	GkLabelsTable *table = palloc0(sizeof(GkLabelsTable));

	PreventCommandIfReadOnly("gkmeans with labels_table");
	table->variable = gk_table_name(name);
	table->name = gk_quoted_name(table->variable);
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

/* Looks again for a table that was not there before the fit, and keeps other fits from making it. */
static void
look_up_again(GkLabelsTable *table)
{
	gk_lock_table_name(table->variable);
	look_up(table);
}

/* Makes or empties the table and inserts the labels. */
void
gk_labels_table_write(GkLabelsTable *table, Tuplestorestate *labels)
{
	EphemeralNamedRelationData relation = {0};

	if (!table->exists)
		look_up_again(table);
	/* "character" and "bit" without a length would be of length 1 */
	if (!table->exists)
		execute(psprintf("CREATE TABLE %s (id %s, cluster_id integer, distance double precision)",
						 table->name,
						 format_type_extended(table->id_type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY)));
	else if (table->if_exists == GK_EXISTS_REPLACE)
		execute(psprintf("TRUNCATE %s", table->name));

	relation.md.name = pstrdup("gkmeans_labels");
	relation.md.reliddesc = InvalidOid;
	relation.md.tupdesc = gk_labels_descriptor(table->id_type);
	relation.md.enrtype = ENR_NAMED_TUPLESTORE;
	relation.md.enrtuples = (double) tuplestore_tuple_count(labels);
	relation.reldata = labels;
	if (SPI_register_relation(&relation) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register the labels with SPI");
	execute(psprintf("INSERT INTO %s (id, cluster_id, distance)"
					 " SELECT id, cluster_id, distance FROM gkmeans_labels", table->name));
	SPI_unregister_relation(relation.md.name);

	/* the scan had a read pointer of its own; the labels may be a function's result */
	tuplestore_select_read_pointer(labels, 0);
	tuplestore_rescan(labels);
}
