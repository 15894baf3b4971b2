/*
 * The changes table: which rows changed their cluster, were added or removed.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "changes_table.h"
#include "citus.h"
#include "source_tables.h"
#include "table_name.h"

#define COLUMNS 5

struct GkChangesTable
{
	GkOutputTable output;
	GkOutputColumn columns[COLUMNS];	/* the ids first */
};

/* What the columns are besides the ids. */
static const GkOutputColumn columns_of_changes[COLUMNS] = {
	{NULL, InvalidOid},
	{"from_cluster_id", INT4OID},
	{"to_cluster_id", INT4OID},
	{"version", INT4OID},
	{"changed_at", TIMESTAMPTZOID}
};

static const char *const comments[COLUMNS] = {
	"id of a row of the source",
	"cluster that the row was in; NULL if it was in none",
	"cluster that the row is in now; NULL if it is in none",
	"version of the model that says so",
	"when the labels were written"
};

/* Refuses an id column with the name of another column. */
static void
check_id_name(const char *id_name)
{
	for (int i = 1; i < COLUMNS; i++)
		if (strcmp(columns_of_changes[i].name, id_name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("id column has the name of a column of the changes table: \"%s\"",
							id_name),
					 errhint("Give the id column of the labels table another name.")));
}

/* Checks an existing table. */
static void
check_existing(const GkChangesTable *table, Oid relation_id)
{
	gk_check_is_table(&table->output, relation_id);
	for (int i = 0; i < COLUMNS; i++)
		if (get_attnum(relation_id, table->columns[i].name) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("table \"%s\" has no column \"%s\"", table->output.variable->relname,
							table->columns[i].name),
					 errhint("A changes table has the columns %s, from_cluster_id, "
							 "to_cluster_id, version and changed_at.",
							 quote_identifier(table->columns[0].name))));
	gk_check_insert(relation_id, table->columns, COLUMNS);
	gk_check_distribution(relation_id, table->columns[0].name);
}

/* Looks up and checks the table. */
static void
look_up(GkChangesTable *table)
{
	Oid			relation_id = RangeVarGetRelid(table->output.variable, AccessShareLock, true);

	table->output.relation_id = relation_id;
	if (OidIsValid(relation_id))
	{
		check_existing(table, relation_id);
		UnlockRelationOid(relation_id, AccessShareLock);
	}
	else
		gk_check_creation(&table->output, table->columns[0].name, table->columns[0].type);
}

/* Refuses tables that share rows, as a child or partition: changes would be taken for labels. */
static void
check_apart(Oid changes, Oid labels)
{
	if (OidIsValid(changes) && OidIsValid(labels) &&
		gk_have_common(gk_family_of(changes), gk_family_of(labels)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("changes_table and labels_table share rows"),
				 errdetail("One is a child or partition of the other, or both have one.")));
}

/* Checks that the table can be made or appended to. */
GkChangesTable *
gk_changes_table_check(const char *name, const GkOutputTable *labels, const char *id_name,
					   Oid id_type)
{
	GkChangesTable *table = palloc0(sizeof(GkChangesTable));

	gk_output_table(&table->output, "changes_table", name);
	table->output.expected_new = labels->expected_new;
	if (strcmp(table->output.name, labels->name) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("changes_table and labels_table are the same table")));
	check_id_name(id_name);
	memcpy(table->columns, columns_of_changes, sizeof(columns_of_changes));
	table->columns[0] = (GkOutputColumn) {pstrdup(id_name), id_type};
	look_up(table);
	check_apart(table->output.relation_id, labels->relation_id);
	gk_check_maker(&table->output);
	return table;
}

/* Creates the table. */
static void
make_table(GkChangesTable *table)
{
	gk_make_table(&table->output, &table->columns[0], ", from_cluster_id integer, to_cluster_id"
				  " integer, version integer, changed_at timestamp with time zone", NULL);
	gk_execute(psprintf("COMMENT ON TABLE %s IS 'rows that changed their cluster, written by"
						" gkmeans'", table->output.name));
	for (int i = 0; i < COLUMNS; i++)
		gk_execute(psprintf("COMMENT ON COLUMN %s.%s IS %s", table->output.name,
							quote_identifier(table->columns[i].name),
							quote_literal_cstr(comments[i])));
}

/* True if Citus plans what appends to the table. */
bool
gk_changes_table_is_of_citus(const GkChangesTable *table)
{
	return OidIsValid(RangeVarGetRelid(table->output.variable, NoLock, true)) &&
		gk_is_citus_command(psprintf("INSERT INTO %s DEFAULT VALUES", table->output.name));
}

/* The command that appends the differences. */
static char *
append_command(const GkChangesTable *table, const GkLabelsRelation *labels,
			   const GkLabelsBefore *before)
{
	const char *insert = psprintf("INSERT INTO %s (%s, from_cluster_id, to_cluster_id, version,"
								  " changed_at)", table->output.name,
								  quote_identifier(table->columns[0].name));

	if (before->table == NULL)
		return psprintf("%s SELECT l.id, NULL::pg_catalog.int4, l.cluster_id, $1, $2 FROM %s"
						" WHERE l.cluster_id IS NOT NULL", insert, labels->from);
	return psprintf("%s%s SELECT COALESCE(l.id, t.%s), t.cluster_id, l.cluster_id, $1, $2"
					" FROM %s AS t FULL JOIN %s ON %s"
					" WHERE (t.cluster_id OPERATOR(pg_catalog.=) l.cluster_id) IS NOT TRUE"
					" AND (t.cluster_id IS NOT NULL OR l.cluster_id IS NOT NULL)",
					labels->with, insert, quote_identifier(before->id_name), before->table,
					labels->compared, before->same);
}

/* Appends the differences. */
int64
gk_changes_table_append(GkChangesTable *table, const GkLabelsRelation *labels,
						const GkLabelsBefore *before, const GkLabelStamp *stamp)
{
	if (!OidIsValid(table->output.relation_id))
	{
		gk_lock_table_name(table->output.variable);
		look_up(table);
		if (OidIsValid(table->output.relation_id))
			gk_check_own(&table->output);
		else
			make_table(table);
	}
	table->output.read_id = before->relation_id;
	/* as the INSERT does; neither is attached to the other from here on */
	LockRelationOid(table->output.relation_id, RowExclusiveLock);
	(void) gk_table_of_name(&table->output);
	check_apart(table->output.relation_id, before->relation_id);
	return gk_execute_stamped(&table->output, append_command(table, labels, before),
							  &before->comparison, stamp);
}
