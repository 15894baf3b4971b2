/*
 * Rows of a JSON array from untrusted input.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "utils/numeric.h"

#include "alloc.h"
#include "json_rows.h"
#include "numeric_value.h"

/* The most objects that are read. */
#define MOST_ROWS 100000

/* The value at a key of an object; NULL if there is none. */
static JsonbValue *
find(JsonbContainer *object, const char *key, JsonbValue *value)
{
	if (!JsonContainerIsObject(object))
		return NULL;
	return getKeyJsonValueFromContainer(object, key, (int) strlen(key), value);
}

/* The objects of an array. */
GkJsonRows
gk_json_rows(JsonbContainer *container, const char *key)
{
	GkJsonRows	result = {0};
	JsonbValue	value;
	int			count;

	if (key != NULL)
	{
		if (find(container, key, &value) == NULL || value.type != jbvBinary)
			return result;
		container = value.val.binary.data;
	}
	if (!JsonContainerIsArray(container) || JsonContainerIsScalar(container))
		return result;
	count = Min((int) JsonContainerSize(container), MOST_ROWS);
	result.rows = gk_allocate(Max(count, 1), sizeof(JsonbContainer *));
	for (int i = 0; i < count; i++)
	{
		JsonbValue *element = getIthJsonbValueFromContainer(container, i);

		if (element != NULL && element->type == jbvBinary &&
			JsonContainerIsObject(element->val.binary.data))
			result.rows[result.count++] = element->val.binary.data;
	}
	return result;
}

/* A number of an object. */
double
gk_read_number(JsonbContainer *object, const char *key)
{
	JsonbValue	value;
	double		number;

	/* rows are many */
	CHECK_FOR_INTERRUPTS();
	if (find(object, key, &value) == NULL || value.type != jbvNumeric)
		return NAN;
	number = gk_numeric_value(NumericGetDatum(value.val.numeric));
	return isfinite(number) ? number : NAN;
}

/* True if a key of an object is true. */
bool
gk_json_true(JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	return find(object, key, &value) != NULL && value.type == jbvBool && value.val.boolean;
}

/* A text of an object. */
const char *
gk_json_text(JsonbContainer *object, const char *key)
{
	JsonbValue	value;

	if (find(object, key, &value) == NULL || value.type != jbvString)
		return NULL;
	return pnstrdup(value.val.string.val, value.val.string.len);
}
