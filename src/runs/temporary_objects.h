/*
 * Objects that code of another role makes in the temporary schema of the session.
 */
#ifndef GK_TEMPORARY_OBJECTS_H
#define GK_TEMPORARY_OBJECTS_H

#include "postgres.h"

/*
 * Raises 42501 if the own transaction made a function, type, operator or other object in the
 * temporary schema since a command: it would stay there, and run as whoever names it, or a thing of
 * its name, in this session.  `caller` is whose session it is, the current user whose code made it.
 */
extern void gk_check_temporary_objects(CommandId since, Oid caller);

#endif							/* GK_TEMPORARY_OBJECTS_H */
