/*
 * From the definition of a model to the arguments of the call that it was made by.
 *
 * The function's own list of arguments says what is to be what, so a new argument needs nothing
 * here.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "defined_call.h"
#include "engine.h"
#include "model.h"
#include "model_type.h"
#include "own_function.h"

/* The function whose call a definition is. */
#define DEFINED_FUNCTION "gkmeans_create_model"

/* Raises the error of a key whose value is of another kind than the argument. */
static void
refuse(Relation relation, const char *key, const char *kind)
{
	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid %s", key),
				 errhint("It must be %s.", kind)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the definition of model \"%s\" is not valid", gk_model_name(relation)),
			 errdetail("Key \"%s\" must be %s.", key, kind)));
}

/* The arguments of the extension's own function, even if another function has its name. */
static void
describe_arguments(GkDefinedCall *call)
{
	Oid			function = gk_own_function(DEFINED_FUNCTION);
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	char	   *modes;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	call->count = ((Form_pg_proc) GETSTRUCT(tuple))->pronargs;
	(void) get_func_arg_info(tuple, &call->types, &call->names, &modes);
	ReleaseSysCache(tuple);
}

/* Raises the error of a key whose value is beyond the range of its type. */
static void
check_range(Relation relation, const char *key, Datum number, int64 least, int64 most)
{
	if (DatumGetBool(DirectFunctionCall2(numeric_lt, number,
										 NumericGetDatum(int64_to_numeric(least)))) ||
		DatumGetBool(DirectFunctionCall2(numeric_gt, number,
										 NumericGetDatum(int64_to_numeric(most)))))
		refuse(relation, key, psprintf("a whole number from %lld to %lld",
									   (long long) least, (long long) most));
}

/* A number as an argument; one that is no whole number is not rounded to one. */
static Datum
number_value(Relation relation, const char *key, const JsonbValue *value, Oid type)
{
	Datum		number = NumericGetDatum(value->val.numeric);

	if (type == FLOAT8OID)
		return DirectFunctionCall1(numeric_float8_no_overflow, number);
	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, number,
										  DirectFunctionCall2(numeric_trunc, number,
															  Int32GetDatum(0)))))
		refuse(relation, key, "a whole number");
	check_range(relation, key, number, type == INT4OID ? PG_INT32_MIN : PG_INT64_MIN,
				type == INT4OID ? PG_INT32_MAX : PG_INT64_MAX);
	return DirectFunctionCall1(type == INT4OID ? numeric_int4 : numeric_int8, number);
}

/* An array of texts, or of numbers. */
static Datum
array_value(Relation relation, const char *key, const JsonbValue *value, Oid type)
{
	bool		texts = type == TEXTARRAYOID;
	ArrayBuildState *state = initArrayResult(texts ? TEXTOID : INT4OID, CurrentMemoryContext,
											 false);
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	element;

	if (value->type != jbvBinary || !JsonContainerIsArray(value->val.binary.data))
		refuse(relation, key, "an array");
	if (JsonContainerSize(value->val.binary.data) > GK_MAX_DIMENSION)
		refuse(relation, key, psprintf("an array of at most %d elements", GK_MAX_DIMENSION));
	iterator = JsonbIteratorInit(value->val.binary.data);
	while ((token = JsonbIteratorNext(&iterator, &element, true)) != WJB_DONE)
	{
		Datum		datum = (Datum) 0;

		CHECK_FOR_INTERRUPTS();
		if (token != WJB_ELEM)
			continue;
		if (element.type != (texts ? jbvString : jbvNumeric))
			refuse(relation, key, texts ? "an array of strings" : "an array of numbers");
		if (texts)
			datum = PointerGetDatum(cstring_to_text_with_len(element.val.string.val,
															 element.val.string.len));
		else
			datum = number_value(relation, key, &element, INT4OID);
		(void) accumArrayResult(state, datum, false, texts ? TEXTOID : INT4OID,
								CurrentMemoryContext);
	}
	return makeArrayResult(state, CurrentMemoryContext);
}

/* The value of a key as an argument. */
static Datum
argument_value(Relation relation, const char *key, JsonbValue *value, Oid type)
{
	switch (type)
	{
		case TEXTOID:
			if (value->type != jbvString)
				refuse(relation, key, "a string");
			return PointerGetDatum(cstring_to_text_with_len(value->val.string.val,
															value->val.string.len));
		case TEXTARRAYOID:
		case INT4ARRAYOID:
			return array_value(relation, key, value, type);
		case INT4OID:
		case INT8OID:
		case FLOAT8OID:
			if (value->type != jbvNumeric)
				refuse(relation, key, "a number");
			return number_value(relation, key, value, type);
		case BOOLOID:
			if (value->type != jbvBool)
				refuse(relation, key, "true or false");
			return BoolGetDatum(value->val.boolean);
		case JSONBOID:
			return JsonbPGetDatum(JsonbValueToJsonb(value));
		default:
			refuse(relation, key, "left out");
	}
	return (Datum) 0;
}

/* Fills in the arguments. */
void
gk_define_call(Relation relation, const Jsonb *definition, GkDefinedCall *call)
{
	describe_arguments(call);
	call->arguments = palloc0(SizeForFunctionCallInfo(call->count));
	InitFunctionCallInfoData(*call->arguments, NULL, call->count, InvalidOid, NULL, NULL);
	for (int i = 0; i < call->count; i++)
	{
		NullableDatum *argument = &call->arguments->args[i];
		JsonbValue	value;

		argument->isnull = definition == NULL ||
			getKeyJsonValueFromContainer((JsonbContainer *) &definition->root, call->names[i],
										 strlen(call->names[i]), &value) == NULL ||
			value.type == jbvNull;
		if (!argument->isnull)
			argument->value = argument_value(relation, call->names[i], &value, call->types[i]);
	}
}

/* The place of an argument. */
int
gk_defined_place(const GkDefinedCall *call, const char *name)
{
	for (int i = 0; i < call->count; i++)
		if (strcmp(call->names[i], name) == 0)
			return i;
	elog(ERROR, "function %s has no argument %s", DEFINED_FUNCTION, name);
}

/* The argument of a name. */
static NullableDatum *
find_argument(const GkDefinedCall *call, const char *name)
{
	return &call->arguments->args[gk_defined_place(call, name)];
}

/* Sets an argument. */
void
gk_set_defined(GkDefinedCall *call, const char *name, Datum value)
{
	*find_argument(call, name) = (NullableDatum) {value, false};
}

/* True if an argument is defined. */
bool
gk_is_defined(const GkDefinedCall *call, const char *name)
{
	return !find_argument(call, name)->isnull;
}
