/*
 * The types of the columns of a source, which all nodes must have alike.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "column_types.h"
#include "source_columns.h"
#include "source_levels.h"
#include "source_query.h"

/* Domains over arrays of others, and so on, of which no more is told. */
#define MOST_LEVELS 10

/*
 * The name of a type without its schema, which the search_path of two servers may show or not, and
 * of a domain what it is over, with the precision to which values are rounded.
 */
static const char *
type_name(Oid type, int32 modifier)
{
	StringInfoData name;

	initStringInfo(&name);
	for (int level = 0; type >= FirstGenbkiObjectId && level < MOST_LEVELS; level++)
	{
		Oid			element = get_element_type(type);
		HeapTuple	tuple;

		modifier = -1;
		if (OidIsValid(element))
		{
			appendStringInfoString(&name, "array of ");
			type = element;
			continue;
		}
		tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
		if (!HeapTupleIsValid(tuple))
			gk_refuse_change();
		appendStringInfoString(&name, NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname));
		ReleaseSysCache(tuple);
		if (get_typtype(type) != TYPTYPE_DOMAIN)
			return name.data;
		appendStringInfoString(&name, " over ");
		type = getBaseTypeAndTypmod(type, &modifier);
	}
	if (type < FirstGenbkiObjectId)
		appendStringInfoString(&name, modifier < 0 ? format_type_be(type)
							   : format_type_with_typemod(type, modifier));
	return name.data;
}

/*
 * The same of ids, which come here as texts: types whose texts are the same are one, but for texts
 * that are padded.
 */
static const char *
id_type_name(Oid type, int32 modifier)
{
	Oid			base;

	gk_require_type(type);
	if (type != BPCHAROID && type != BPCHARARRAYOID)
		modifier = -1;
	base = getBaseTypeAndTypmod(type, &modifier);
	if (base == INT2OID || base == INT4OID || base == INT8OID)
		return "integer";
	return base == TEXTOID || base == VARCHAROID ? "text" : type_name(base, modifier);
}

static List *united_types(GkTrail *trail, const GkLevel *level, int column, List *types);

/* Adds the types of a column on all sides of a UNION, INTERSECT or EXCEPT. */
static List *
branch_types(GkTrail *trail, const GkLevel *level, const Node *branch, int column, List *types)
{
	const SetOperationStmt *operation = (const SetOperationStmt *) branch;
	GkLevel		inner = {.outer = level};

	check_stack_depth();
	if (IsA(branch, SetOperationStmt))
	{
		types = branch_types(trail, level, operation->larg, column, types);
		return branch_types(trail, level, operation->rarg, column, types);
	}
	inner.query = rt_fetch(((const RangeTblRef *) branch)->rtindex, level->query->rtable)->subquery;
	return united_types(trail, &inner, column, types);
}

/*
 * Adds the types that a column has in the queries whose rows are united, before they are; of one
 * that is computed from them, only its own.
 */
static List *
united_types(GkTrail *trail, const GkLevel *level, int column, List *types)
{
	const Query *query = level->query;
	const RangeTblEntry *table;
	TargetEntry *entry;
	const Var  *reference;
	GkLevel		inner;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	/* SEARCH and CYCLE add columns to a WITH query that its target list does not have */
	if (column > list_length(query->targetList) || !gk_is_new(trail, query, column))
		return types;
	if (query->setOperations != NULL)
		return branch_types(trail, level, query->setOperations, column, types);
	entry = list_nth_node(TargetEntry, query->targetList, column - 1);
	reference = (const Var *) gk_query_column(query, entry);
	if (!IsA(reference, Var) || reference->varattno <= 0)
		return lappend_oid(types, exprType((Node *) entry->expr));
	level = gk_outer_level(level, reference->varlevelsup);
	table = rt_fetch(reference->varno, level->query->rtable);
	if (table->rtekind == RTE_CTE)
		inner = gk_level_of_with(level, table);
	else if (table->rtekind == RTE_SUBQUERY)
		inner = (GkLevel) {.query = table->subquery,.outer = level};
	else
		return lappend_oid(types, exprType((Node *) entry->expr));
	return united_types(trail, &inner, reference->varattno, types);
}

/* Appends the type of a column; if a UNION makes it of others, those of all its queries. */
static void
append_type(StringInfo text, const GkSource *source, int column,
			const char *(*name_of) (Oid type, int32 modifier))
{
	int32		modifier = TupleDescAttr(source->columns, column - 1)->atttypmod;
	Oid			type = gk_column_type(source, column);
	const char *name = name_of(type, modifier);
	GkLevel		level = {.query = source->query};
	StringInfoData united;
	bool		differs = false;
	GkTrail		trail;
	List	   *types;
	ListCell   *cell;

	gk_begin_trail(&trail);
	types = united_types(&trail, &level, column, NIL);
	gk_end_trail(&trail);
	initStringInfo(&united);
	foreach(cell, types)
	{
		const char *other = lfirst_oid(cell) == type ? name : name_of(lfirst_oid(cell), -1);

		CHECK_FOR_INTERRUPTS();
		differs |= strcmp(other, name) != 0;
		appendStringInfo(&united, "%s%s", united.len > 0 ? ", " : " made of ", other);
	}
	appendStringInfo(text, "%s%s", name, differs ? united.data : "");
	pfree(united.data);
}

/* The name of the type of a column, however many digits it has. */
static const char *
feature_type_name(Oid type, int32 modifier)
{
	return type_name(type, -1);
}

/* Describes the columns of a source that matter. */
static const char *
describe_columns(const GkSource *source)
{
	StringInfoData types;

	initStringInfo(&types);
	for (int i = 0; i < source->count; i++)
	{
		appendStringInfo(&types, "%s%s ", i > 0 ? ", " : "", source->names[i]);
		append_type(&types, source, source->features[i], feature_type_name);
	}
	if (source->weight > 0)
	{
		appendStringInfo(&types, "; weight %s ", source->spec.weight_column);
		append_type(&types, source, source->weight, feature_type_name);
	}
	if (source->id > 0)
	{
		appendStringInfo(&types, "; id %s ", source->spec.id_column);
		append_type(&types, source, source->id, id_type_name);
	}
	return types.data;
}

/* The types of the columns of a source that matter; others may drop those below a UNION. */
const char *
gk_column_types(const GkSource *source)
{
	MemoryContext before = CurrentMemoryContext;
	bool		quotes = quote_all_identifiers;
	const char *volatile types = NULL;

	/* the text is compared with those of servers that may have another setting */
	quote_all_identifiers = false;
	PG_TRY();
	{
		types = describe_columns(source);
	}
	PG_CATCH();
	{
		quote_all_identifiers = quotes;
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
	quote_all_identifiers = quotes;
	return types;
}

/*
 * True if the ids get another type than their column has, or another length: on this server, types
 * of one's own are others whatever their names.
 */
bool
gk_converts_ids(const GkSource *source)
{
	Oid			type = gk_source_id_type(source);
	Oid			column = source->id > 0 ? gk_column_type(source, source->id) : InvalidOid;
	int32		modifier = -1;
	Oid			base;
	Oid			column_base;

	if (type == column || get_typtype(type) == TYPTYPE_PSEUDO)
		return false;
	gk_require_type(type);
	gk_require_type(column);
	base = getBaseTypeAndTypmod(type, &modifier);
	column_base = getBaseType(column);
	if (modifier >= 0)
		return true;
	return base != column_base &&
		(base >= FirstGenbkiObjectId || column_base >= FirstGenbkiObjectId ||
		 strcmp(id_type_name(base, -1), id_type_name(column_base, -1)) != 0);
}
