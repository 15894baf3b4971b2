/*
 * The labels that rows had before a fit, to count those that it changes.
 */
#ifndef GK_LABELS_BEFORE_H
#define GK_LABELS_BEFORE_H

#include "postgres.h"

#include "engine.h"

/* Four bytes a row, in a temporary file; in the memory context current at the keeping. */
typedef struct GkLabelsBefore GkLabelsBefore;

/* Keeps the labels that the engine has now, as the ids of their clusters. */
extern GkLabelsBefore *gk_keep_labels(GkEngine *engine, int64 rows, const int32 *ids);

/* How many rows have another id now; the kept labels are gone then. */
extern int64 gk_count_moved(GkLabelsBefore *before, GkEngine *engine, const int32 *ids);

#endif							/* GK_LABELS_BEFORE_H */
