/*
 * Very many rows, generated and checked by several threads.
 */
#ifndef ENGINE_ROWS_H
#define ENGINE_ROWS_H

#include "engine_drive.h"

/* Does parts of 0 .. count - 1 on all cores. */
extern void in_parallel(int64_t count, void (*part) (void *argument, int64_t from, int64_t to),
						void *argument);

/* Nearly normal rows, or this many blobs that lie 20 σ apart in each feature. */
extern float *make_rows(int64_t n, int d, int64_t blobs);

/*
 * Counts the rows whose label in the engine is not the nearest centroid or, if asked for, whose
 * d² is not the distance.  Checks the last row and every `every`-th.
 */
extern int64_t wrong_labels(GkEngine *engine, const Rows *rows, const double *centroids, int64_t k,
							bool distances, int64_t every);

/* The same of about so many rows, with the centroids that the engine has. */
extern int64_t wrong_in_sample(GkEngine *engine, const Rows *rows, int64_t k, int64_t sample);

/* Sets a grid, and rows as the centroids: k of them, evenly spread over all. */
extern void begin_with_rows(GkEngine *engine, const Rows *rows, int64_t k);

#endif							/* ENGINE_ROWS_H */
