/*
 * The labels of the rows before a fit, to count those that it changes.
 */
#ifndef GK_LABELS_BEFORE_H
#define GK_LABELS_BEFORE_H

#include "postgres.h"

#include "engine.h"

/* Four bytes a row, in a temporary file; lies in the memory context current when kept. */
typedef struct GkLabelsBefore GkLabelsBefore;

/* Keeps the engine's current labels, as the ids of their clusters. */
extern GkLabelsBefore *gk_keep_labels(GkEngine *engine, int64 rows, const int32 *ids);

/* Counts the rows that now have another id, and frees the kept labels. */
extern int64 gk_count_moved(GkLabelsBefore *before, GkEngine *engine, const int32 *ids);

#endif							/* GK_LABELS_BEFORE_H */
