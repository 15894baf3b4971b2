/*
 * The labels of the rows before a fit: which clusters go on in it, and how many rows it moves.
 */
#ifndef GK_LABELS_BEFORE_H
#define GK_LABELS_BEFORE_H

#include "postgres.h"

#include "engine.h"

/* Four bytes a row, in a temporary file; lies in the memory context current when kept. */
typedef struct GkLabelsBefore GkLabelsBefore;

/*
 * Keeps the engine's current labels as places of clusters, -1 = of none; `places` is by label.
 */
extern GkLabelsBefore *gk_keep_labels(GkEngine *engine, int64 rows, const int32 *places);

/*
 * match[label] := the place of the cluster that shares most of its rows with the engine's current
 * label, and most of the label's: more than half of either; -1 = none.  No place is there twice.
 */
extern void gk_match_majorities(GkLabelsBefore *before, GkEngine *engine, int64 labels,
								int64 places, int32 *match);

/*
 * Counts the rows that now have another id than before, and frees the kept labels; the ids are by
 * place, and by label.
 */
extern int64 gk_count_moved(GkLabelsBefore *before, GkEngine *engine, const int32 *ids_then,
							const int32 *ids_now);

#endif							/* GK_LABELS_BEFORE_H */
