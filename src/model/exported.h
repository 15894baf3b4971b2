/*
 * Models as JSON, for predictions without the table, such as in a generated column.
 */
#ifndef GK_EXPORTED_H
#define GK_EXPORTED_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "model.h"

/* The JSON of a model: everything that its labels depend on, and its names. */
extern Jsonb *gk_export_model(const GkModel *model);

/* Unpacks such a JSON value in the current memory context; 22023 if it is not valid. */
extern GkModel *gk_unpack_exported(Jsonb *exported);

#endif							/* GK_EXPORTED_H */
