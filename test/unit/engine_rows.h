/*
 * Rows in great number, made and checked by several threads.
 */
#ifndef ENGINE_ROWS_H
#define ENGINE_ROWS_H

#include "engine_drive.h"

/* Does parts of 0 .. count - 1 on all cores. */
extern void in_parallel(int64_t count, void (*part) (void *argument, int64_t from, int64_t to),
						void *argument);

/* Nearly normal rows, or so many blobs that lie 20 σ apart in each feature. */
extern float *make_rows(int64_t n, int d, int64_t blobs);

/*
 * Of how many rows is the label in the engine not the nearest centroid, or, if asked for, d² not its
 * distance?  Looks at the last row and at every `every`-th.
 */
extern int64_t wrong_labels(GkEngine *engine, const Rows *rows, const double *centroids, int64_t k,
							bool distances, int64_t every);

#endif							/* ENGINE_ROWS_H */
