/*
 * Changes of the versions of a model.
 */
#ifndef GK_VERSIONS_H
#define GK_VERSIONS_H

#include "postgres.h"

/*
 * Deletes all but the newest `keep` versions, the deployed one and that before it, as the current
 * user, who needs DELETE.  In REPEATABLE READ and SERIALIZABLE, versions made since the transaction
 * began count but stay, and those changed since are an error (40001).
 */
extern void gk_prune_seen(Oid relation_id, int keep);

#endif							/* GK_VERSIONS_H */
