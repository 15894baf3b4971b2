/*
 * The table of labels: an id, cluster_id and what else is asked for, one row for every row of the
 * source.
 */
#ifndef GK_LABELS_TABLE_H
#define GK_LABELS_TABLE_H

#include "postgres.h"

#include "utils/snapshot.h"
#include "utils/tuplestore.h"

#include "label_columns.h"
#include "merge_labels.h"
#include "source.h"

/* What to do if the table exists. */
typedef enum GkIfExists
{
	GK_EXISTS_ERROR,
	GK_EXISTS_REPLACE,
	GK_EXISTS_APPEND,
	GK_EXISTS_MERGE,
	GK_EXISTS_DELETE
} GkIfExists;

/* What is asked for. */
typedef struct GkLabelsSpec
{
	const char *table;			/* its name */
	GkIfExists	if_exists;
	const char *changes_table;	/* its name; NULL = none; with GK_EXISTS_MERGE alone */
	bool		of_model;		/* the labels have a version and names: the columns are filled */
	bool		expected_new;	/* both tables must be new, or of a role that the user trusts */
	const char *id_name;		/* of the column of ids; NULL leaves it open: "id", or … */
	const char *id_column;		/* … that of the source, where the table has such a column */
	Oid			id_type;
	GkSource   *source;			/* of the rows */
} GkLabelsSpec;

/* A table that may be written to; in the memory context current at the check. */
typedef struct GkLabelsTable GkLabelsTable;

/*
 * Checks that the table can be made, replaced or appended to: 42P07 if it exists and must not,
 * 42703 or 42804 if its columns differ, 42501 for a lack of privileges, 42809 if it holds data of
 * the source that would be lost.  The same for the table of changes, but for the last.
 */
extern GkLabelsTable *gk_labels_table_check(const GkLabelsSpec *spec);

/* The columns that will be filled. */
extern GkLabelColumns gk_labels_table_columns(const GkLabelsTable *table);

/*
 * The command with which Citus' workers would insert labels from a relation l of id, cluster_id and
 * distance; NULL unless that is a way to write this table.
 */
extern char *gk_labels_table_insert(const GkLabelsTable *table, const char *relation);

/* Labels to write. */
typedef struct GkLabelsInput
{
	Tuplestorestate *rows;		/* of gk_labels_descriptor(); NULL = the workers of Citus … */
	const char *relation;		/* … select them from this one, l, … */

	/* … and this returns those that they lack, after so many were selected; NULL for none. */
	Tuplestorestate *(*take_rest) (void *context, int64 selected);
	void	   *context;
} GkLabelsInput;

/*
 * Locks the table, if it is there, until the transaction ends, and checks it again.  False if
 * others have written it since the snapshot by which the rows were read: the labels may be older
 * than those in it, and must not be written.  A table to be replaced is then locked as TRUNCATE
 * does, if that is to be kept: nobody inserts labels before the next call.  Without a snapshot,
 * true: the lock was taken before the rows were read.  SPI must be connected.
 */
extern bool gk_labels_table_lock(GkLabelsTable *table, Snapshot read_by, bool keep);

/*
 * After that, makes the table if it is not there, and writes the labels.  `version` is the model's,
 * 0 for none.  Where the table cannot be truncated, the error's HINT says what to do instead.
 */
extern void gk_labels_table_write(GkLabelsTable *table, const GkLabelsInput *labels, int version,
								  GkLabelsWritten *written);

#endif							/* GK_LABELS_TABLE_H */
