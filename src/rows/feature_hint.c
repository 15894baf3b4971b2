/*
 * Advice for columns that hold no numbers: an expression that turns them into numbers.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "feature_hint.h"

/* Expressions by type; %s is the column. */
static const struct
{
	Oid			type;
	const char *expression;
}			by_type[] =
{
	{MONEYOID, "%s::numeric"},
	{OIDOID, "%s::bigint"},
	{JSONBOID, "(%s ->> 'key')::float8"},
	{JSONOID, "(%s ->> 'key')::float8"},
	{XMLOID, "(xpath('/path/text()', %s))[1]::text::float8"},
	{BYTEAOID, "length(%s)"},
	{TSVECTOROID, "(%s @@ 'word')::int"},
	{BOXOID, "(point(%s))[0]"},
	{CIRCLEOID, "radius(%s)"},
	{POLYGONOID, "area(box(%s))"},
	{LSEGOID, "length(%s)"},
	{PATHOID, "length(%s)"},
	{PG_LSNOID, "%s - '0/0'::pg_lsn"}
};

/* Expressions by type name, for types of other extensions. */
static const struct
{
	const char *type;
	const char *expression;
}			by_name[] =
{
	{"sparsevec", "%s::vector"},
	{"geometry", "ST_X(%s)"},
	{"geography", "ST_X(%s::geometry)"},
	{"hstore", "(%s -> 'key')::float8"}
};

/* The first label of an enum. */
static char *
first_label(Oid type)
{
	Relation	labels = table_open(EnumRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *label = "label";

	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan(labels, EnumTypIdSortOrderIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		label = pstrdup(NameStr(((Form_pg_enum) GETSTRUCT(tuple))->enumlabel));
	systable_endscan(scan);
	table_close(labels, AccessShareLock);
	return label;
}

/* The expression for a range: the numbers of its lower bound. */
static const char *
range_expression(Oid type)
{
	Oid			bound = get_range_subtype(OidIsValid(get_multirange_range(type)) ?
										  get_multirange_range(type) : type);
	char		category;
	bool		preferred;

	get_type_category_preferred(bound, &category, &preferred);
	return category == TYPCATEGORY_DATETIME || category == TYPCATEGORY_TIMESPAN
		? "extract(epoch FROM lower(%s))" : "lower(%s)";
}

/* The expression for a type that is in neither table, NULL if there is none. */
static const char *
expression_by_category(Oid type)
{
	char		category;
	bool		preferred;

	get_type_category_preferred(type, &category, &preferred);
	switch (category)
	{
		case TYPCATEGORY_DATETIME:
		case TYPCATEGORY_TIMESPAN:
			return "extract(epoch FROM %s)";
		case TYPCATEGORY_STRING:
			return "(%s = 'value')::int";
		case TYPCATEGORY_ENUM:
			return psprintf("(%%s = %s)::int", quote_literal_cstr(first_label(type)));
		case TYPCATEGORY_RANGE:
			return range_expression(type);
		case TYPCATEGORY_NETWORK:
			return "(%s <<= '10.0.0.0/8')::int";
		case TYPCATEGORY_BITSTRING:
			return "get_bit(%s, 0)";
		case TYPCATEGORY_COMPOSITE:
			return "(%s).field";
		case TYPCATEGORY_GEOMETRIC:
			return "%s[0]";
		default:
			return type == CHAROID ? "(%s = 'v')::int" : NULL;
	}
}

/* The expression that turns a value into a number, NULL if there is none. */
static const char *
expression_of(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	const char *expression = NULL;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	for (int i = 0; i < lengthof(by_type); i++)
		if (by_type[i].type == type)
			expression = by_type[i].expression;
	for (int i = 0; i < lengthof(by_name); i++)
		if (strcmp(by_name[i].type, NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname)) == 0)
			expression = by_name[i].expression;
	ReleaseSysCache(tuple);
	return expression != NULL ? expression : expression_by_category(type);
}

/* Replaces %s by a column. */
static char *
fill_in(const char *expression, const char *column)
{
	const char *place = strstr(expression, "%s");

	return psprintf("%.*s%s%s", (int) (place - expression), expression, column, place + 2);
}

/* True if the values of a type are names. */
static bool
is_category(Oid type)
{
	char		category;
	bool		preferred;

	get_type_category_preferred(type, &category, &preferred);
	return category == TYPCATEGORY_STRING || category == TYPCATEGORY_ENUM;
}

/* The type of the elements of an array, which may be of a domain; InvalidOid for another type. */
static Oid
element_of(Oid type)
{
	Oid			element = get_base_element_type(type);

	return OidIsValid(element) ? getBaseType(element) : InvalidOid;
}

/* The expression for a column and its type, NULL if there is none. */
static const char *
column_expression(Oid type, const char *column)
{
	Oid			element = element_of(type);
	const char *expression = expression_of(OidIsValid(element) ? element : type);

	if (expression == NULL)
		return NULL;
	if (OidIsValid(element) && element != get_base_element_type(type))
		column = psprintf("%s::%s[]", column, format_type_be(element));
	if (OidIsValid(element) && is_category(element))
		return psprintf("(%s = ANY (%s))::int",
						quote_literal_cstr(type_is_enum(element) ? first_label(element) : "value"),
						column);
	if (OidIsValid(element))
		return psprintf("CASE WHEN %s IS NOT NULL THEN"
						" ARRAY(SELECT %s FROM unnest(%s) AS element) END",
						column, fill_in(expression, "element"), column);
	if (type == POINTOID || type == BOXOID)
		return psprintf("%s and %s", fill_in(expression, column),
						fill_in(type == BOXOID ? "(point(%s))[1]" : "%s[1]", column));
	return fill_in(expression, column);
}

/* Further advice for a type. */
static const char *
more_advice(Oid type, const char *column)
{
	Oid			element = element_of(type);
	char		category;
	bool		preferred;

	get_type_category_preferred(OidIsValid(element) ? element : type, &category, &preferred);
	if (category == TYPCATEGORY_STRING && OidIsValid(element))
		return psprintf(", or %s::real[] if it holds numbers", column);
	if (category == TYPCATEGORY_STRING)
		return psprintf(", %s::float8 if it holds numbers, or translate(%s, '[]', '{}')::real[] "
						"if it holds lists of them", column, column);
	if (type == JSONBOID || type == JSONOID)
		return psprintf(", or CASE WHEN %s IS NOT NULL THEN"
						" ARRAY(SELECT %s_array_elements_text(%s)::real) END if it holds arrays",
						column, type == JSONBOID ? "jsonb" : "json", column);
	if (OidIsValid(element))
		return "";
	return category == TYPCATEGORY_ENUM ? ", and so on for its other labels" : "";
}

/* A HINT for a column. */
const char *
gk_feature_hint(Oid type, const char *column)
{
	const char *quoted = quote_identifier(column);
	const char *expression;
	Oid			base;

	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
		return "Its type was dropped meanwhile.";
	base = getBaseType(type);
	if (base != type && type_is_enum(base))
		quoted = psprintf("%s::%s", quoted, format_type_be(base));
	expression = column_expression(base, quoted);
	if (base == UUIDOID)
		return psprintf("A uuid is not a measure: leave it out, or name it as id_column => %s.",
						quote_literal_cstr(column));
	if (expression != NULL)
		return psprintf("Give a query as the source, with %s in place of the column%s. "
						"Name each expression with AS.",
						expression, more_advice(base, quoted));
	return "A feature is a number, a boolean, an array of these, or a vector.";
}
