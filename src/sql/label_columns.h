/*
 * The columns that a labels table can have.
 */
#ifndef GK_LABEL_COLUMNS_H
#define GK_LABEL_COLUMNS_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "datatype/timestamp.h"

#include "output_table.h"

/* The columns; the first of them are those of the rows of labels, in their order. */
typedef enum GkLabelColumn
{
	GK_LABEL_ID,
	GK_LABEL_CLUSTER,
	GK_LABEL_DISTANCE,
	GK_LABEL_NAME,
	GK_LABEL_SECOND_CLUSTER,
	GK_LABEL_SECOND_DISTANCE,
	GK_LABEL_ANOMALY_SCORE,
	GK_LABEL_ANOMALY_PERCENTILE,
	GK_LABEL_VALUES,			/* how many these are */

	/* the same in all rows */
	GK_LABEL_VERSION = GK_LABEL_VALUES,
	GK_LABEL_TIME,
	GK_LABEL_COLUMNS
} GkLabelColumn;

/* A set of columns. */
typedef uint32 GkLabelColumns;
#define GK_LABEL_SET(column) (UINT32_C(1) << (column))

/* What is the same in all rows. */
typedef struct GkLabelStamp
{
	int			version;		/* of the model; 0 = NULL */
	TimestampTz time;
} GkLabelStamp;

/* A column's name; that of the id is the table's. */
extern const char *gk_label_column_name(GkLabelColumn column, const char *id_name);

/* A column's type. */
extern Oid	gk_label_column_type(GkLabelColumn column, Oid id_type);

/* Describes a column, for its comment. */
extern const char *gk_label_column_comment(GkLabelColumn column);

/* True if a name is that of a column besides the id. */
extern bool gk_is_label_column(const char *name);

/* The row type of the labels. */
extern TupleDesc gk_labels_descriptor(Oid id_type);

/* A column's value in a command whose FROM calls the labels l. */
extern const char *gk_label_value(GkLabelColumn column);

/* A list of columns' names, or of their values, in one order. */
extern char *gk_label_names(GkLabelColumns columns, const char *id_name);
extern char *gk_label_values(GkLabelColumns columns);

/* gk_execute_on() for a command in which $1 is the version and $2 the time. */
extern int64 gk_execute_stamped(const GkOutputTable *table, const char *command,
								const GkComparison *comparison, const GkLabelStamp *stamp);

#endif							/* GK_LABEL_COLUMNS_H */
