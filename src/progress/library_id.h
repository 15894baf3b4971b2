/*
 * A number for shared memory, which says which library made it: parallel workers and new sessions
 * load that of an upgrade, while older sessions go on with the one that they have.
 */
#ifndef GK_LIBRARY_ID_H
#define GK_LIBRARY_ID_H

#include "postgres.h"

#include "common/hashfn.h"

/* Identifies this library, by its version and by the size of what is shared. */
static inline uint64
gk_library_id(Size size)
{
	const char *version = GK_EXTENSION_VERSION;

	return hash_bytes_extended((const unsigned char *) version, strlen(version), size);
}

#endif							/* GK_LIBRARY_ID_H */
