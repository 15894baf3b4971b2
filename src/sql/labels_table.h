/*
 * The labels table: id, cluster_id and distance of every row of the source.
 */
#ifndef GK_LABELS_TABLE_H
#define GK_LABELS_TABLE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "utils/tuplestore.h"

#include "merge_labels.h"

/* What to do if the table exists. */
typedef enum GkIfExists
{
	GK_EXISTS_ERROR,
	GK_EXISTS_REPLACE,
	GK_EXISTS_APPEND,
	GK_EXISTS_MERGE,
	GK_EXISTS_DELETE
} GkIfExists;

/* A table that was checked; lies in the memory context current at the check. */
typedef struct GkLabelsTable GkLabelsTable;

/*
 * Checks that the table can be created, replaced or appended to: 42P07 if it exists and must
 * not, 42804 if its columns differ.  Its id column is called id_name or, if that is NULL,
 * id_column if the table has such a column, else "id".
 */
extern GkLabelsTable *gk_labels_table_check(const char *name, GkIfExists if_exists,
											const char *id_column, const char *id_name,
											Oid id_type);

/* The row type of the labels. */
extern TupleDesc gk_labels_descriptor(Oid id_type);

/*
 * Creates the table if it does not exist, and writes the labels.  SPI must be connected.  If it
 * cannot be truncated, the error has a HINT.
 */
extern void gk_labels_table_write(GkLabelsTable *table, Tuplestorestate *labels,
								  GkLabelsWritten *written);

#endif							/* GK_LABELS_TABLE_H */
