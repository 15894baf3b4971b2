/*
 * Labels merged into a table: only rows that differ are written.
 *
 * Readers see the old labels until the transaction commits, and never an empty table, not even
 * with an older snapshot, as they would after TRUNCATE.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/stratnum.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "merge_labels.h"
#include "output_table.h"

/* The operator that compares two ids; InvalidOid = there is none. */
static Oid
equality_of(Oid type)
{
	return lookup_type_cache(getBaseType(type), TYPECACHE_EQ_OPR)->eq_opr;
}

/* True if an index makes the values of a column unique, as an operator compares them. */
static bool
is_unique_on(Relation index, AttrNumber column, Oid operator)
{
	const FormData_pg_index *form = index->rd_index;

	return form->indisunique && form->indimmediate && form->indisvalid &&
		form->indnkeyatts == 1 && form->indkey.values[0] == column &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL) &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, NULL) &&
		get_opfamily_member(index->rd_opfamily[0], index->rd_opcintype[0],
							index->rd_opcintype[0], BTEqualStrategyNumber) == operator;
}

/* Raises the error that ids may be there twice. */
static void
raise_no_index(Oid relation_id, const char *id_name, const char *argument)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
			 errmsg("table \"%s\" has no unique index on \"%s\" alone",
					get_rel_name(relation_id), id_name),
			 errdetail("Labels are merged by their id. An index that is deferrable, partial or "
					   "invalid does not count."),
			 errhint("Make one, or write %s => 'delete' to replace all rows, without a "
					 "changes_table.", argument)));
}

/*
 * The collation by which an index makes ids unique: that of the column, if there are several.
 * InvalidOid = it goes without saying.
 */
Oid
gk_unique_ids(Oid relation_id, const char *id_name, Oid id_type, const char *argument)
{
	Relation	relation = relation_open(relation_id, AccessShareLock);
	AttrNumber	column = get_attnum(relation_id, id_name);
	Oid			wanted = TupleDescAttr(RelationGetDescr(relation), column - 1)->attcollation;
	List	   *indexes = RelationGetIndexList(relation);
	Oid			operator = equality_of(id_type);
	Oid			chosen = InvalidOid;
	bool		found = false;
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		if (is_unique_on(index, column, operator) &&
			(!found || index->rd_indcollation[0] == wanted))
		{
			chosen = index->rd_indcollation[0];
			found = true;
		}
		index_close(index, AccessShareLock);
	}
	relation_close(relation, AccessShareLock);
	if (!found)
		raise_no_index(relation_id, id_name, argument);
	return chosen == wanted && wanted == get_typcollation(id_type) ? InvalidOid : chosen;
}

/* The id of a label, to be compared as the ids of the table are. */
static char *
label_id(const GkLabelsMerge *merge)
{
	return OidIsValid(merge->collation)
		? psprintf("l.id COLLATE %s", generate_collation_name(merge->collation)) : "l.id";
}

/* Raises an error if an id of the labels is NULL or there twice. */
static void
check_ids(const GkLabelsMerge *merge)
{
	char	   *label = label_id(merge);
	int64		found = gk_execute(psprintf("SELECT %s FROM %s GROUP BY %s"
											" HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1"
											" OR %s IS NULL LIMIT 1",
											label, merge->labels->from, label, label));
	char	   *id;

	if (OidIsValid(merge->collation) &&
		TupleDescAttr(SPI_tuptable->tupdesc, 0)->attcollation != merge->collation)
		gk_raise_replaced(merge->table, "Another collation has taken the name of that which "
						  "compares ids meanwhile.");
	if (found == 0)
		return;
	id = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 id == NULL ? errmsg("an id of the source is NULL")
			 : errmsg("id %s occurs more than once in the source", id),
			 errdetail("Labels are merged by column \"%s\", which must be unique.",
					   merge->id_name)));
}

/*
 * The type that ids are cast to for an operand of an operator; InvalidOid = none.  Where others may
 * create operators, one that fits better must not be called; and no domain is an anyenum.
 */
static Oid
cast_type(Oid id_type, const FormData_pg_operator *operator, Oid operand)
{
	if (operand == ANYENUMOID && getBaseType(id_type) != id_type)
		return getBaseType(id_type);
	if (operator->oprnamespace == PG_CATALOG_NAMESPACE || operand == id_type ||
		get_typtype(operand) == TYPTYPE_PSEUDO)
		return InvalidOid;
	return operand;
}

/* That cast. */
static const char *
cast_to(Oid id_type, const FormData_pg_operator *operator, Oid operand)
{
	Oid			type = cast_type(id_type, operator, operand);

	return OidIsValid(type)
		? psprintf("::%s", format_type_extended(type, -1, FORMAT_TYPE_FORCE_QUALIFY)) : "";
}

/* The condition that a row t of the table has the id of a label l. */
static char *
same_id(const GkLabelsMerge *merge)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(equality_of(merge->id_type)));
	Form_pg_operator form = HeapTupleIsValid(tuple) ? (Form_pg_operator) GETSTRUCT(tuple) : NULL;
	char	   *schema = form != NULL ? get_namespace_name(form->oprnamespace) : NULL;
	char	   *text;

	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("ids of type %s cannot be compared", format_type_be(merge->id_type))));
	text = psprintf("t.%s%s OPERATOR(%s.%s) (%s)%s", quote_identifier(merge->id_name),
					cast_to(merge->id_type, form, form->oprleft), quote_identifier(schema),
					NameStr(form->oprname), label_id(merge),
					cast_to(merge->id_type, form, form->oprright));
	ReleaseSysCache(tuple);
	return text;
}

/* What compares the ids. */
static GkComparison
comparison_of(const GkLabelsMerge *merge)
{
	return (GkComparison) {equality_of(merge->id_type), merge->collation};
}

/* Raises an error if the current user may not name what same_id() does. */
void
gk_check_comparison(Oid id_type, Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(equality_of(id_type)));
	FormData_pg_operator form;

	gk_check_schema(GetSysCacheOid1(COLLOID, Anum_pg_collation_collnamespace,
									ObjectIdGetDatum(collation)));
	if (!HeapTupleIsValid(tuple))
		return;
	form = *(Form_pg_operator) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	gk_check_schema(form.oprnamespace);
	gk_check_schema_of_type(cast_type(id_type, &form, form.oprleft));
	gk_check_schema_of_type(cast_type(id_type, &form, form.oprright));
}

/* Checks the ids, and writes the changes. */
void
gk_begin_merge(const GkLabelsMerge *merge, GkLabelsWritten *written)
{
	GkLabelsBefore before = {.table = merge->made ? NULL : merge->table->name,
		.relation_id = merge->table->relation_id,.id_name = merge->id_name,.same = same_id(merge),
		.comparison = comparison_of(merge)};

	check_ids(merge);
	if (merge->changes != NULL)
		written->changes = gk_changes_table_append(merge->changes, merge->labels, &before,
												   merge->stamp);
}

/*
 * Whether a value of a row differs from that of its label.  IS DISTINCT FROM would look its
 * operator up in the caller's search path.
 */
#define DIFFERS(value) "((t.%1$s OPERATOR(pg_catalog.=) " value ") IS NOT TRUE" \
	" AND (t.%1$s IS NOT NULL OR " value " IS NOT NULL))"

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
	return psprintf("INSERT INTO %s AS t (%s) SELECT %s FROM %s", merge->table->name,
					gk_label_names(merge->columns, merge->id_name),
					gk_label_values(merge->columns), merge->labels->from);
}

/*
 * Inserts the labels of rows that the table does not have, where the labels come from a function:
 * Citus may send it elsewhere with a table that it is compared with, and counts rows in conflict.
 * Those differ only if others have inserted them meanwhile, or a policy has hidden them; but where
 * triggers change what is inserted, that cannot be told.
 */
static int64
insert_from_function(const GkLabelsMerge *merge)
{
	GkLabelColumns compared = merge->columns & ~GK_LABEL_SET(GK_LABEL_TIME);
	const char *in_conflict = "NOTHING";
	bool		is_null;

	if (merge->is_plain)
		in_conflict = psprintf("UPDATE SET %s WHERE %s",
							   list_columns(merge->columns, ", ", "%1$s = excluded.%1$s"),
							   list_columns(compared, " OR ", DIFFERS("excluded.%1$s")));
	gk_execute_stamped(merge->table,
					   psprintf("WITH i AS (%s ON CONFLICT (%s) DO %s RETURNING 1)"
								" SELECT pg_catalog.count(*) FROM i", insert_command(merge),
								quote_identifier(merge->id_name), in_conflict),
					   NULL, merge->stamp);
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
}

/* Makes the rows of the table those of the labels. */
void
gk_merge_labels(const GkLabelsMerge *merge, GkLabelsWritten *written)
{
	const char *table = merge->table->name;
	const char *with = merge->labels->with;
	const char *labels = merge->labels->compared;
	const char *same = same_id(merge);
	GkComparison comparison = comparison_of(merge);
	GkLabelColumns compared = merge->columns & ~GK_LABEL_SET(GK_LABEL_TIME);

	written->updated =
		gk_execute_stamped(merge->table,
						   psprintf("%sUPDATE %s AS t SET %s FROM %s WHERE %s AND (%s)",
									with, table, list_columns(merge->columns, ", ", "%s = %s"),
									labels, same,
									list_columns(compared, " OR ", DIFFERS("%2$s"))),
						   &comparison, merge->stamp);
	written->deleted =
		gk_execute_on(merge->table,
					  psprintf("%sDELETE FROM %s AS t WHERE NOT EXISTS"
							   " (SELECT 1 FROM %s WHERE %s)", with, table, labels, same),
					  &comparison, 0, NULL, NULL, NULL);
	if (merge->labels->is_function)
		written->inserted = insert_from_function(merge);
	else
		written->inserted =
			gk_execute_stamped(merge->table,
							   psprintf("%s WHERE NOT EXISTS (SELECT 1 FROM %s AS t WHERE %s)",
										insert_command(merge), table, same),
							   &comparison, merge->stamp);
}
