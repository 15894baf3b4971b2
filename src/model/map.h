/*
 * The plane in which the centroids of a model lie farthest apart, and the places in it.
 */
#ifndef GK_MAP_H
#define GK_MAP_H

#include "postgres.h"

#include "draft.h"
#include "fit_call.h"

/* Puts the map of a fit into a draft, while the engine has the rows. */
extern void gk_draft_map(GkDraft *draft, const GkCall *call);

/* Puts the map of centroids without rows into a draft. */
extern void gk_draft_centroid_map(GkDraft *draft, const double *points, int k, int dimension);

#endif							/* GK_MAP_H */
