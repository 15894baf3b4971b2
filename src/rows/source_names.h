/*
 * Tells if names without a schema may have meant something else when a snapshot was taken.
 */
#ifndef GK_SOURCE_NAMES_H
#define GK_SOURCE_NAMES_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/* The schemas of the search_path, as two snapshots see them; NULL = what there is now. */
typedef struct GkSearchPath
{
	Snapshot	first;
	Snapshot	last;
	bool		by_row;			/* what was written in between counts as another */
	List	   *schemas;
} GkSearchPath;

/*
 * How often, as far as the session knows, anyone has changed a function, a schema, a role, its
 * members or the owner of the database: names may mean other functions and lead to other schemas,
 * which nothing locks, and may do so no more.
 */
extern uint64 gk_name_changes(void);

/* What the names in the search_path mean now: schemas that the user may use, or InvalidOid. */
extern List *gk_usable_schemas(void);

/*
 * The schema where a table is created whose name has none; InvalidOid if there is none, as that of
 * temporary tables before the first of them.
 */
extern Oid	gk_creation_schema(void);

/*
 * True if a name led to another schema or none, or leads to one where it did not that the snapshot
 * sees: that was not made since.  What the own transaction has done since a command, of which the
 * first list is, does not count.  Not in parallel mode.
 */
extern bool gk_are_other_schemas(const List *first, const List *last, Snapshot snapshot,
								 CommandId command);

/* Looks them up. */
extern GkSearchPath gk_search_path(Snapshot first, Snapshot last, bool by_row);

/*
 * True if the first snapshot sees another table (or view) of the same name before a table in the
 * path, which the last does not: it was dropped, renamed or moved, or the user lost its schema.
 */
extern bool gk_meant_other_table(Oid table, const GkSearchPath *path);

/* The same of a function, and of those in its own schema. */
extern bool gk_meant_other_function(Oid function, const GkSearchPath *path);

/*
 * True if the name of a schema means another one to one of the snapshots, or none that the user can
 * use; NULL = what there is now.
 */
extern bool gk_is_schema_changed(Oid schema, Snapshot first, Snapshot last);

#endif							/* GK_SOURCE_NAMES_H */
