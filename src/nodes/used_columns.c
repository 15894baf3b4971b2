/*
 * The columns that a source is read for: nodes are asked for no others.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "source_columns.h"
#include "used_columns.h"

/* True if the source is read for a column. */
static bool
is_used(const GkSource *source, int column)
{
	for (int i = 0; i < source->count; i++)
		if (source->features[i] == column)
			return true;
	return column == source->id || column == source->weight;
}

/* Their names. */
char *
gk_used_columns(const GkSource *source)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 1; i <= source->columns->natts; i++)
		if (is_used(source, i))
			appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "",
							 quote_identifier(gk_column_name(source, i)));
	return names.data;
}

/* A query of them, by their names: the source may have lost others since it was described. */
char *
gk_used_columns_query(const GkSource *source, const GkSourceText *text)
{
	StringInfoData query;

	initStringInfo(&query);
	for (int i = 1; i <= source->columns->natts; i++)
		if (is_used(source, i))
			appendStringInfo(&query, "%s source.%s", query.len > 0 ? "," : "SELECT",
							 quote_identifier(gk_column_name(source, i)));
	appendStringInfo(&query, " FROM %s AS source", text->from);
	return query.data;
}
