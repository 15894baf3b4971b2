/*
 * The plane in which the centroids of a model lie farthest apart, and the places in it.
 */
#ifndef GK_MAP_H
#define GK_MAP_H

#include "postgres.h"

#include "draft.h"
#include "fit_call.h"

/* Rows of which a map is made. */
typedef struct GkMapRows
{
	int			count;
	const float *features;		/* count × dimension, as compared */
	const int32 *clusters;		/* count: numbers of their clusters */
} GkMapRows;

/* The places; in the memory context current at the call. */
typedef struct GkMap
{
	double	   *x;				/* k */
	double	   *y;				/* k */
	float	   *sample;			/* count × 3: x, y, number of the cluster; in order of these */
} GkMap;

/*
 * Finds the plane: its axes are the main ones of the centroids, weighted, or of the rows where the
 * centroids have none left, as two centroids lie on a line.  `weights` may be NULL: all the same.
 */
extern void gk_find_map(const double *points, const double *weights, int k, int dimension,
						const GkMapRows *rows, GkMap *map);

/* Puts the map of a fit into a draft, while the engine has the rows. */
extern void gk_draft_map(GkDraft *draft, const GkCall *call);

/* Puts the map of centroids without rows into a draft. */
extern void gk_draft_centroid_map(GkDraft *draft, const double *points, int k, int dimension);

#endif							/* GK_MAP_H */
