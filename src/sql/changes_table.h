/*
 * The changes table: which rows changed their cluster, were added or removed.
 *
 * It has the columns id (or the labels table's name for it), from_cluster_id, to_cluster_id,
 * version and changed_at.  Rows are only added.  Applied in order, the changes since a time turn
 * the labels of that time into the current ones.
 */
#ifndef GK_CHANGES_TABLE_H
#define GK_CHANGES_TABLE_H

#include "postgres.h"

#include "label_columns.h"
#include "labels_relation.h"
#include "output_table.h"

/* A table that was checked; lies in the memory context current at the check. */
typedef struct GkChangesTable GkChangesTable;

/*
 * Checks that the table can be made or appended to: 42703 or 42804 if its columns differ, 42501 for
 * a lack of privileges, 22023 if it is that of the labels.
 */
extern GkChangesTable *gk_changes_table_check(const char *name, const GkOutputTable *labels,
											  const char *id_name, Oid id_type);

/* The labels so far. */
typedef struct GkLabelsBefore
{
	const char *table;			/* quoted; NULL = there were none */
	Oid			relation_id;
	const char *id_name;		/* of its id column by now */
	const char *same;			/* the condition that a row t of it has the id of a label l … */
	GkComparison comparison;	/* … by this */
} GkLabelsBefore;

/*
 * Appends the differences between those labels and the new ones; how many.  Makes the table of
 * changes if it is not there.  SPI must be connected.
 */
extern int64 gk_changes_table_append(GkChangesTable *table, const GkLabelsRelation *labels,
									 const GkLabelsBefore *before, const GkLabelStamp *stamp);

/* True if Citus plans what appends to the table, which it locks then.  SPI must be connected. */
extern bool gk_changes_table_is_of_citus(const GkChangesTable *table);

#endif							/* GK_CHANGES_TABLE_H */
