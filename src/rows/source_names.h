/*
 * Tells if names without a schema may have meant something else when a snapshot was taken.
 */
#ifndef GK_SOURCE_NAMES_H
#define GK_SOURCE_NAMES_H

#include "postgres.h"

#include "utils/snapshot.h"

/* The schemas of the search_path: as the snapshot sees them, and now. */
typedef struct GkSearchPath
{
	Snapshot	snapshot;
	List	   *schemas;
} GkSearchPath;

/* Looks them up. */
extern GkSearchPath gk_search_path(Snapshot snapshot);

/*
 * True if the snapshot sees another table (or view) of the same name before a table in the path,
 * which is not there any more: it was dropped, renamed or moved, or the user lost its schema.
 */
extern bool gk_meant_other_table(Oid table, const GkSearchPath *path);

/* The same of a function, and of those in its own schema. */
extern bool gk_meant_other_function(Oid function, const GkSearchPath *path);

/* True if the name of a schema meant another one, or none that the user could use. */
extern bool gk_is_schema_changed(Oid schema, Snapshot snapshot);

#endif							/* GK_SOURCE_NAMES_H */
