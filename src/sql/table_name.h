/*
 * Names of tables that a function creates, and of what the extension has.
 */
#ifndef GK_TABLE_NAME_H
#define GK_TABLE_NAME_H

#include "postgres.h"

#include "nodes/primnodes.h"

/*
 * The relation that a name refers to, or would if it were created now.  Its schema is filled in,
 * so that a change of the search path or of other relations does not matter. 42602 if the value
 * of the argument is not a name, 42501 if it is that of a temporary relation of a caller who could
 * not act as the current user.
 */
extern RangeVar *gk_table_name(const char *argument, const char *name);

/* The same, quoted. */
extern char *gk_quoted_name(const RangeVar *name);

/*
 * True if two names mean the same table, also if there is none yet.  Names that mean none, and
 * schemas that the user may not use, raise no error.
 */
extern bool gk_is_same_table(const char *one, const char *other);

/* Keeps others who call this from creating a relation of that name until the transaction ends. */
extern void gk_lock_table_name(const RangeVar *name);

/* Raises 55000: what was to be made has another name by now. */
__attribute__((noreturn))
extern void gk_raise_not_made(const RangeVar *name);

/*
 * The relation of a name, if a command of this transaction wrote the row of a system cache whose
 * first key is the relation; 55000 if the row was there `before`.  What a command has made is
 * looked up by its name, but a schema is renamed without waiting for anybody, and the name may mean
 * something else at once.
 */
extern Oid	gk_made_relation(const RangeVar *name, int cache, Datum second_key, CommandId before);

/* The schema of the extension; InvalidOid if it is not there. */
extern Oid	gk_extension_schema(void);

/* Its name, quoted; raises 42704 if the extension was dropped while it was used. */
extern const char *gk_extension_schema_name(void);

#endif							/* GK_TABLE_NAME_H */
