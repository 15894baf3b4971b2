/*
 * Models as JSON, for predictions without the table, such as in a generated column.
 */
#ifndef GK_EXPORTED_H
#define GK_EXPORTED_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "draft.h"
#include "model.h"

/*
 * A version of a model as JSON: all that its labels depend on, and what else its row says of the
 * rows that it was fitted on, unless the row is NULL.
 */
extern char *gk_export_model(const GkModel *model, const GkModelRow *row);

/* Unpacks such a JSON value in the current memory context; 22023 if it is not valid. */
extern GkModel *gk_unpack_exported(Jsonb *exported);

/*
 * The attributes of a version that such a JSON holds; what it says of how the model was asked for
 * is left out, since a refit would run it.  22023 if it is none.  How many clusters it has.
 */
extern int	gk_draft_exported(GkDraft *draft, Jsonb *exported);

/* What a definition says of such a version: its number of clusters, features and metric. */
extern char *gk_define_exported(const char *definition, Jsonb *exported);

#endif							/* GK_EXPORTED_H */
