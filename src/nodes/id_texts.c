/*
 * Ids of rows as texts, on their way from a node to the server that fits.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "id_texts.h"
#include "settings.h"

/* The settings with which a text stands for one value. */
static const char *const settings[][2] = {
	{"DateStyle", "ISO"},
	{"IntervalStyle", "postgres"},
	{"extra_float_digits", "3"},
	{"lc_monetary", "C"},
	{"array_nulls", "on"},
	{"xmloption", "content"}
};

/* What a type consists of: the type of an array's elements or of a range's bounds; else itself. */
static Oid
part_of(Oid type)
{
	Oid			element = get_base_element_type(type);

	if (OidIsValid(element))
		return element;
	type = getBaseType(type);
	if (get_typtype(type) == TYPTYPE_MULTIRANGE)
		type = get_multirange_range(type);
	return get_typtype(type) == TYPTYPE_RANGE ? get_range_subtype(type) : type;
}

/* True if ids of a type can be sent. */
bool
gk_can_send_ids(Oid type)
{
	Oid			part = part_of(type);

	while (part != type)
	{
		type = part;
		part = part_of(type);
	}
	return get_typtype(type) == TYPTYPE_BASE || get_typtype(type) == TYPTYPE_ENUM;
}

/* Sets what the texts of values depend on. */
int
gk_begin_id_texts(void)
{
	int			nest_level = NewGUCNestLevel();

	for (int i = 0; i < (int) lengthof(settings); i++)
		gk_set_locally(settings[i][0], settings[i][1]);
	return nest_level;
}

/* Ends that. */
void
gk_end_id_texts(int nest_level)
{
	AtEOXact_GUC(true, nest_level);
}
