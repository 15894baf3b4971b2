/*
 * Labels merged into a table: only rows that differ are written.
 *
 * Readers see the old labels until the transaction commits, and never an empty table, not even
 * with an older snapshot, as they would after TRUNCATE.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/pg_index.h"
#include "catalog/pg_operator.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "merge_labels.h"
#include "output_table.h"

/* True if an index makes the values of a column unique. */
static bool
is_unique_on(Oid index_id, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index_id));
	Form_pg_index index;
	bool		is_unique;

	if (!HeapTupleIsValid(tuple))
		return false;
	index = (Form_pg_index) GETSTRUCT(tuple);
	is_unique = index->indisunique && index->indimmediate && index->indisvalid &&
		index->indnkeyatts == 1 && index->indkey.values[0] == column &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
		heap_attisnull(tuple, Anum_pg_index_indexprs, NULL);
	ReleaseSysCache(tuple);
	return is_unique;
}

/* Raises an error unless ids are unique in a table. */
void
gk_check_unique_ids(Oid relation_id, const char *id_name)
{
	Relation	relation = relation_open(relation_id, AccessShareLock);
	AttrNumber	column = get_attnum(relation_id, id_name);
	List	   *indexes = RelationGetIndexList(relation);
	bool		found = false;
	ListCell   *cell;

	foreach(cell, indexes)
		found = found || is_unique_on(lfirst_oid(cell), column);
	relation_close(relation, NoLock);
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("table \"%s\" has no unique index on \"%s\" alone",
						get_rel_name(relation_id), id_name),
				 errdetail("Labels are merged by their id."),
				 errhint("Make one, or write if_exists => 'delete' to replace all rows.")));
}

/* Raises an error if an id of the labels is NULL or there twice. */
static void
check_ids(const GkLabelsMerge *merge)
{
	char	   *id;

	if (gk_execute(psprintf("SELECT l.id FROM %s GROUP BY l.id"
							" HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 OR l.id IS NULL"
							" LIMIT 1", merge->labels->from)) == 0)
		return;
	id = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 id == NULL ? errmsg("an id of the source is NULL")
			 : errmsg("id %s occurs more than once in the source", id),
			 errdetail("Labels are merged by column \"%s\", which must be unique.",
					   merge->id_name)));
}

/* The operator that compares two ids. */
static char *
equality_of(Oid type)
{
	Oid			operator = lookup_type_cache(getBaseType(type), TYPECACHE_EQ_OPR)->eq_opr;
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator));
	Form_pg_operator form;
	char	   *text;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("ids of type %s cannot be compared", format_type_be(type))));
	form = (Form_pg_operator) GETSTRUCT(tuple);
	text = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(form->oprnamespace)),
					NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return text;
}

/* Checks the ids, and writes the changes. */
void
gk_begin_merge(const GkLabelsMerge *merge, GkLabelsWritten *written)
{
	check_ids(merge);
	if (merge->changes != NULL)
		written->changes = gk_changes_table_append(merge->changes, merge->labels,
												   merge->table, equality_of(merge->id_type),
												   merge->stamp);
}

/* What an UPDATE sets, or what tells whether a row differs: the time alone is no difference. */
static char *
list_columns(GkLabelColumns columns, const char *between, const char *format)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = GK_LABEL_CLUSTER; i < GK_LABEL_COLUMNS; i++)
	{
		const char *name = gk_label_column_name(i, NULL);

		if (columns & GK_LABEL_SET(i))
		{
			appendStringInfoString(&list, list.len > 0 ? between : "");
			appendStringInfo(&list, format, quote_identifier(name), gk_label_value(i));
		}
	}
	return list.data;
}

/* The command that inserts labels, whichever these are. */
static char *
insert_command(const GkLabelsMerge *merge)
{
	return psprintf("INSERT INTO %s (%s) SELECT %s FROM %s", merge->table,
					gk_label_names(merge->columns, merge->id_name),
					gk_label_values(merge->columns), merge->labels->from);
}

/*
 * Inserts the labels of rows that the table does not have, where the labels come from a function:
 * Citus may send it elsewhere with a table that it is compared with, and counts rows in conflict.
 */
static int64
insert_from_function(const GkLabelsMerge *merge)
{
	bool		is_null;

	gk_execute_stamped(psprintf("WITH i AS (%s ON CONFLICT (%s) DO NOTHING RETURNING 1)"
								" SELECT pg_catalog.count(*) FROM i", insert_command(merge),
								quote_identifier(merge->id_name)), merge->stamp);
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
}

/* Makes the rows of the table those of the labels. */
void
gk_merge_labels(const GkLabelsMerge *merge, GkLabelsWritten *written)
{
	const char *table = merge->table;
	const char *with = merge->labels->with;
	const char *labels = merge->labels->compared;
	const char *id = quote_identifier(merge->id_name);
	char	   *equal = equality_of(merge->id_type);
	GkLabelColumns compared = merge->columns & ~GK_LABEL_SET(GK_LABEL_TIME);

	written->updated =
		gk_execute_stamped(psprintf("%sUPDATE %s AS t SET %s FROM %s WHERE t.%s %s l.id AND (%s)",
									with, table, list_columns(merge->columns, ", ", "%s = %s"),
									labels, id, equal,
									list_columns(compared, " OR ", "t.%s IS DISTINCT FROM %s")),
						   merge->stamp);
	written->deleted =
		gk_execute(psprintf("%sDELETE FROM %s AS t WHERE NOT EXISTS"
							" (SELECT 1 FROM %s WHERE t.%s %s l.id)",
							with, table, labels, id, equal));
	if (merge->labels->is_function)
		written->inserted = insert_from_function(merge);
	else
		written->inserted =
			gk_execute_stamped(psprintf("%s WHERE NOT EXISTS"
										" (SELECT 1 FROM %s AS t WHERE t.%s %s l.id)",
										insert_command(merge), table, id, equal), merge->stamp);
}
