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
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "merge_labels.h"

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

/* Runs a command; returns how many rows it affected. */
static int64
run(const char *command)
{
	int			code = SPI_execute(command, false, 0);

	if (code < 0)
		elog(ERROR, "could not run \"%s\": %s", command, SPI_result_code_string(code));
	return (int64) SPI_processed;
}

/* Raises an error if an id of the labels is NULL or a duplicate. */
void
gk_check_label_ids(const char *id_name)
{
	char	   *id;

	if (run("SELECT id FROM gkmeans_labels GROUP BY id"
			" HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 OR id IS NULL LIMIT 1") == 0)
		return;
	id = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 id == NULL ? errmsg("an id of the source is NULL")
			 : errmsg("id %s is there more than once in the source", id),
			 errdetail("Labels are merged by column \"%s\", which must be unique.", id_name)));
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

/* Updates, deletes and inserts so that the rows of a table become those of the labels. */
void
gk_merge_labels(const char *table, const char *id_name, Oid id_type, GkLabelsWritten *written)
{
	const char *id = quote_identifier(id_name);
	char	   *equal = equality_of(id_type);

	gk_check_label_ids(id_name);
	written->updated =
		run(psprintf("UPDATE %s AS t SET cluster_id = l.cluster_id, distance = l.distance"
					 " FROM gkmeans_labels AS l WHERE t.%s %s l.id"
					 " AND (t.cluster_id IS DISTINCT FROM l.cluster_id"
					 " OR t.distance IS DISTINCT FROM l.distance)", table, id, equal));
	written->deleted =
		run(psprintf("DELETE FROM %s AS t WHERE NOT EXISTS"
					 " (SELECT 1 FROM gkmeans_labels AS l WHERE t.%s %s l.id)", table, id, equal));
	written->inserted =
		run(psprintf("INSERT INTO %s (%s, cluster_id, distance)"
					 " SELECT l.id, l.cluster_id, l.distance FROM gkmeans_labels AS l"
					 " WHERE NOT EXISTS (SELECT 1 FROM %s AS t WHERE t.%s %s l.id)",
					 table, id, table, id, equal));
}
