/*
 * How much text PostgreSQL reads from the catalogs, and parses, when it opens a table.
 *
 * The owner of a table may give its defaults, checks, rules, policies and triggers a gigabyte, and
 * the views would have each of their readers take it.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "table_texts.h"

/* The texts of a table in a catalog. */
typedef struct Catalog
{
	Oid			id;
	Oid			index;			/* its first column is the table */
	AttrNumber	table;
	AttrNumber	column;			/* the second is that of the table; 0 = another */
	AttrNumber	texts[2];		/* 0 = none */
} Catalog;

static const Catalog defaults = {
	AttrDefaultRelationId, AttrDefaultIndexId, Anum_pg_attrdef_adrelid,
	Anum_pg_attrdef_adnum, {Anum_pg_attrdef_adbin, 0}
};
static const Catalog columns = {
	AttributeRelationId, AttributeRelidNumIndexId, Anum_pg_attribute_attrelid,
	Anum_pg_attribute_attnum, {Anum_pg_attribute_attmissingval, 0}
};
static const Catalog checks = {
	ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid,
	0, {Anum_pg_constraint_conbin, 0}
};
static const Catalog rules = {
	RewriteRelationId, RewriteRelRulenameIndexId, Anum_pg_rewrite_ev_class,
	0, {Anum_pg_rewrite_ev_qual, Anum_pg_rewrite_ev_action}
};
static const Catalog policies = {
	PolicyRelationId, PolicyPolrelidPolnameIndexId, Anum_pg_policy_polrelid,
	0, {Anum_pg_policy_polqual, Anum_pg_policy_polwithcheck}
};
static const Catalog triggers = {
	TriggerRelationId, TriggerRelidNameIndexId, Anum_pg_trigger_tgrelid,
	0, {Anum_pg_trigger_tgqual, Anum_pg_trigger_tgargs}
};

/* Bytes of the texts of a table, or of one of its columns, in a catalog; none of them is read. */
static Size
bytes_in(const Catalog *catalog, Oid relation_id, AttrNumber column)
{
	Relation	relation = table_open(catalog->id, AccessShareLock);
	Size		bytes = 0;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], catalog->table, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relation_id));
	ScanKeyInit(&keys[1], catalog->column, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(column));
	scan = systable_beginscan(relation, catalog->index, true, NULL, column != 0 ? 2 : 1, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < lengthof(catalog->texts) && catalog->texts[i] != 0; i++)
		{
			bool		is_null;
			Datum		text = heap_getattr(tuple, catalog->texts[i], RelationGetDescr(relation),
											&is_null);

			if (!is_null)
				bytes += toast_raw_datum_size(text);
		}
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return bytes;
}

/* Bytes of the default of a column. */
Size
gk_default_text(Oid relation_id, AttrNumber column)
{
	return bytes_in(&defaults, relation_id, column);
}

/* Bytes of the texts of a table. */
Size
gk_table_texts(Oid relation_id)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation_id));
	FormData_pg_class table;
	Size		bytes;

	if (!HeapTupleIsValid(tuple))
		return 0;
	memcpy(&table, GETSTRUCT(tuple), CLASS_TUPLE_SIZE);
	ReleaseSysCache(tuple);
	bytes = bytes_in(&columns, relation_id, 0) + bytes_in(&defaults, relation_id, 0);
	if (table.relchecks > 0)
		bytes += bytes_in(&checks, relation_id, 0);
	if (table.relhasrules)
		bytes += bytes_in(&rules, relation_id, 0);
	if (table.relrowsecurity)
		bytes += bytes_in(&policies, relation_id, 0);
	if (table.relhastriggers)
		bytes += bytes_in(&triggers, relation_id, 0);
	return bytes;
}
