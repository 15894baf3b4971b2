/*
 * The type of models.
 */
#ifndef GK_MODEL_TYPE_H
#define GK_MODEL_TYPE_H

#include "postgres.h"

/* The extension's type gkmeans_model; InvalidOid if the extension is not there. */
extern Oid	gk_model_type(void);

#endif							/* GK_MODEL_TYPE_H */
