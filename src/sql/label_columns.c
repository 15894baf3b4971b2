/*
 * The columns that a labels table can have.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "label_columns.h"

/* The kinds of columns. */
typedef struct Description
{
	const char *name;
	Oid			type;			/* InvalidOid = that of the ids */
	const char *value;			/* in a command */
	const char *comment;
} Description;

static const Description descriptions[GK_LABEL_COLUMNS] = {
	[GK_LABEL_ID] = {"id", InvalidOid, "l.id", "id of the row in the source"},
	[GK_LABEL_CLUSTER] = {"cluster_id", INT4OID, "l.cluster_id",
	"cluster of the row; NULL if the row could not be clustered"},
	[GK_LABEL_DISTANCE] = {"distance", FLOAT8OID, "l.distance",
	"distance to the centroid of that cluster"},
	[GK_LABEL_NAME] = {"name", TEXTOID, "l.name COLLATE pg_catalog.\"C\"", "name of that cluster"},
	[GK_LABEL_SECOND_CLUSTER] = {"second_cluster_id", INT4OID, "l.second_cluster_id",
	"the second nearest cluster"},
	[GK_LABEL_SECOND_DISTANCE] = {"second_distance", FLOAT8OID, "l.second_distance",
	"distance to the centroid of the second nearest cluster"},
	[GK_LABEL_ANOMALY_SCORE] = {"anomaly_score", FLOAT8OID, "l.anomaly_score",
	"distance divided by the average distance of the cluster"},
	[GK_LABEL_ANOMALY_PERCENTILE] = {"anomaly_percentile", FLOAT8OID, "l.anomaly_percentile",
	"share of the rows of the fit with a lower anomaly score"},
	[GK_LABEL_VERSION] = {"version", INT4OID, "$1", "version of the model"},
	[GK_LABEL_TIME] = {"labelled_at", TIMESTAMPTZOID, "$2", "when the row was last changed"}
};

/* A column's name. */
const char *
gk_label_column_name(GkLabelColumn column, const char *id_name)
{
	return column == GK_LABEL_ID ? id_name : descriptions[column].name;
}

/* A column's type. */
Oid
gk_label_column_type(GkLabelColumn column, Oid id_type)
{
	return column == GK_LABEL_ID ? id_type : descriptions[column].type;
}

/* Describes a column. */
const char *
gk_label_column_comment(GkLabelColumn column)
{
	return descriptions[column].comment;
}

/* True if a name is that of a column besides the id. */
bool
gk_is_label_column(const char *name)
{
	for (int i = GK_LABEL_CLUSTER; i < GK_LABEL_COLUMNS; i++)
		if (strcmp(name, gk_label_column_name(i, NULL)) == 0)
			return true;
	return false;
}

/* The row type of the labels. */
TupleDesc
gk_labels_descriptor(Oid id_type)
{
	TupleDesc	descriptor = CreateTemplateTupleDesc(GK_LABEL_VALUES);

	for (int i = 0; i < GK_LABEL_VALUES; i++)
		TupleDescInitEntry(descriptor, i + 1, descriptions[i].name,
						   gk_label_column_type(i, id_type), -1, 0);
	return descriptor;
}

/* A column's value in a command. */
const char *
gk_label_value(GkLabelColumn column)
{
	return descriptions[column].value;
}

/* A list of columns' names. */
char *
gk_label_names(GkLabelColumns columns, const char *id_name)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < GK_LABEL_COLUMNS; i++)
		if (columns & GK_LABEL_SET(i))
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "",
							 quote_identifier(gk_label_column_name(i, id_name)));
	return list.data;
}

/* A list of their values. */
char *
gk_label_values(GkLabelColumns columns)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < GK_LABEL_COLUMNS; i++)
		if (columns & GK_LABEL_SET(i))
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", gk_label_value(i));
	return list.data;
}

/* Runs a command that writes labels. */
int64
gk_execute_stamped(const GkOutputTable *table, const char *command,
				   const GkComparison *comparison, const GkLabelStamp *stamp)
{
	Oid			types[2] = {INT4OID, TIMESTAMPTZOID};
	Datum		values[2] = {Int32GetDatum(stamp->version), TimestampTzGetDatum(stamp->time)};
	char		nulls[3] = {stamp->version == 0 ? 'n' : ' ', ' ', '\0'};

	return gk_execute_on(table, command, comparison, 2, types, values, nulls);
}
