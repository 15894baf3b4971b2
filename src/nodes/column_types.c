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
	if (type != BPCHAROID)
		modifier = -1;
	base = getBaseTypeAndTypmod(type, &modifier);
	if (base == INT2OID || base == INT4OID || base == INT8OID)
		return "integer";
	return base == TEXTOID || base == VARCHAROID ? "text" : type_name(base, modifier);
}

static List *united_types(const Query *query, int column, List *types);

/* Adds the types of a column on all sides of a UNION, INTERSECT or EXCEPT. */
static List *
branch_types(const Query *query, const Node *branch, int column, List *types)
{
	const SetOperationStmt *operation = (const SetOperationStmt *) branch;

	check_stack_depth();
	if (!IsA(branch, SetOperationStmt))
		return united_types(rt_fetch(((const RangeTblRef *) branch)->rtindex,
									 query->rtable)->subquery, column, types);
	types = branch_types(query, operation->larg, column, types);
	return branch_types(query, operation->rarg, column, types);
}

/*
 * Adds the types that a column has in the queries whose rows are united, before they are; of one
 * that is computed from them, only its own.
 */
static List *
united_types(const Query *query, int column, List *types)
{
	const TargetEntry *entry = list_nth_node(TargetEntry, query->targetList, column - 1);
	const Var  *reference = (const Var *) entry->expr;
	const RangeTblEntry *table;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (query->setOperations != NULL)
		return branch_types(query, query->setOperations, column, types);
	if (IsA(reference, Var) && reference->varlevelsup == 0 && reference->varattno > 0)
	{
		table = rt_fetch(reference->varno, query->rtable);
		if (table->rtekind == RTE_SUBQUERY)
			return united_types(table->subquery, reference->varattno, types);
	}
	return list_append_unique_oid(types, exprType((const Node *) entry->expr));
}

/* Appends the type of a column, and those that a UNION makes it of. */
static void
append_type(StringInfo text, const GkSource *source, int column,
			const char *(*name_of) (Oid type, int32 modifier))
{
	int32		modifier = TupleDescAttr(source->columns, column - 1)->atttypmod;
	const char *name = name_of(gk_column_type(source, column), modifier);
	ListCell   *cell;

	appendStringInfoString(text, name);
	foreach(cell, united_types(source->query, column, NIL))
	{
		const char *united = name_of(lfirst_oid(cell), -1);

		if (lfirst_oid(cell) != gk_column_type(source, column) && strcmp(united, name) != 0)
			appendStringInfo(text, " made of %s", united);
	}
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
	const char *volatile types = NULL;

	PG_TRY();
	{
		types = describe_columns(source);
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
	return types;
}

/* True if the ids get another type than their column has. */
bool
gk_converts_ids(const GkSource *source)
{
	Oid			type = gk_source_id_type(source);

	return source->id > 0 && get_typtype(type) != TYPTYPE_PSEUDO &&
		strcmp(id_type_name(type, -1),
			   id_type_name(gk_column_type(source, source->id), -1)) != 0;
}
