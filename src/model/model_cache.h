/*
 * The models that a session keeps unpacked between statements.
 */
#ifndef GK_MODEL_CACHE_H
#define GK_MODEL_CACHE_H

#include "postgres.h"

#include "model.h"

/*
 * Reads a version of a model (0 = the deployed one) that the active snapshot sees, with the checks
 * of gk_open_model().  It stays valid until the memory context is reset or deleted.
 */
extern const GkModel *gk_read_model(Oid relation_id, int version, MemoryContext context);

#endif							/* GK_MODEL_CACHE_H */
