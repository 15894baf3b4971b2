/*
 * Labels merged into a table: only rows that differ are written.
 */
#ifndef GK_MERGE_LABELS_H
#define GK_MERGE_LABELS_H

#include "postgres.h"

/* Counts of the rows inserted, updated and deleted. */
typedef struct GkLabelsWritten
{
	int64		inserted;
	int64		updated;
	int64		deleted;
} GkLabelsWritten;

/* Raises 42P10 unless ids are unique in a table, by an index on that column alone. */
extern void gk_check_unique_ids(Oid relation_id, const char *id_name);

/* Raises 21000 if an id of the labels, registered as gkmeans_labels, is NULL or a duplicate. */
extern void gk_check_label_ids(const char *id_name);

/*
 * Updates, deletes and inserts so that the rows of a table become those of the labels, which
 * are registered as gkmeans_labels.  SPI must be connected, and the table locked against other
 * fits.
 */
extern void gk_merge_labels(const char *table, const char *id_name, Oid id_type,
							GkLabelsWritten *written);

#endif							/* GK_MERGE_LABELS_H */
