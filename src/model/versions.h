/*
 * Changes of the versions of a model.
 */
#ifndef GK_VERSIONS_H
#define GK_VERSIONS_H

#include "postgres.h"

/*
 * Deletes all but the newest `keep` versions, the deployed one and that before it, as the current
 * user, who needs DELETE; returns how many it deleted.
 */
extern int	gk_prune(Oid relation_id, int keep);

#endif							/* GK_VERSIONS_H */
