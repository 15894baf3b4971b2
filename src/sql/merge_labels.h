/*
 * Labels merged into a table: only rows that differ are written.
 */
#ifndef GK_MERGE_LABELS_H
#define GK_MERGE_LABELS_H

#include "postgres.h"

#include "changes_table.h"
#include "label_columns.h"
#include "labels_relation.h"

/* What the writing of labels did to the table. */
typedef struct GkLabelsWritten
{
	int64		inserted;
	int64		updated;
	int64		deleted;
	int64		changes;		/* rows that the table of changes got */
	bool		emptied;		/* rows that were not counted are gone */
} GkLabelsWritten;

/* What is merged, and into what. */
typedef struct GkLabelsMerge
{
	const GkLabelsRelation *labels;
	const GkOutputTable *table;
	bool		made;			/* it was made now, and is empty */
	const char *id_name;
	Oid			id_type;
	Oid			collation;		/* by which ids are compared; InvalidOid = that of their type */
	GkLabelColumns columns;		/* that are filled */
	bool		is_plain;		/* no trigger makes other labels of those that are inserted */
	const GkLabelStamp *stamp;
	GkChangesTable *changes;	/* NULL = none */
} GkLabelsMerge;

/*
 * Raises 42P10 unless ids are unique in a table, by an index on that column alone.  Returns the
 * index's collation, InvalidOid if it is the type's: by another one, a label might have several
 * rows, or a row several labels.  The hint names the argument that asks for the merge.
 */
extern Oid	gk_unique_ids(Oid relation_id, const char *id_name, Oid id_type, const char *argument);

/*
 * Raises 42501 if the current user lacks USAGE on the schema of the operator that compares ids, of
 * the types that it takes, or of the collation, if that is not the type's.
 */
extern void gk_check_comparison(Oid id_type, Oid collation);

/*
 * The table is locked against other writers of labels.  Raises 21000 if an id of theirs is NULL or
 * there twice.  Writes the changes.
 */
extern void gk_begin_merge(const GkLabelsMerge *merge, GkLabelsWritten *written);

/* Makes the rows of the table those of the labels. */
extern void gk_merge_labels(const GkLabelsMerge *merge, GkLabelsWritten *written);

#endif							/* GK_MERGE_LABELS_H */
