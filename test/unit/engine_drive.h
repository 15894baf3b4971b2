/*
 * Driving an engine without a server: commands run to their end, rows appended in batches, and what
 * the definition of a label says.  For tests and benchmarks; an error ends the program.
 */
#ifndef ENGINE_DRIVE_H
#define ENGINE_DRIVE_H

#include "engine.h"

/* Bits of the second limb of the sums. */
#define REST_BITS 30

/* Rows of float32, row-major. */
typedef struct Rows
{
	int64_t		n;
	int			d;
	const float *x;				/* n × d */
	const double *w;			/* n, or NULL if not weighted */
} Rows;

/* Seconds on a monotonic clock. */
extern double now(void);

/* Seconds that the threads of this process have worked, whatever else the machine does. */
extern double worked(void);

/* Sets the text to print if the program ends early; it remains the caller's.  NULL = none. */
extern void set_context(const char *text);

/* Ends the program unless the status is GK_OK. */
extern void check_status(GkStatus status);

/* Runs a command to its end; sorts the rows of GK_ENTRIES. */
extern void run(GkEngine *engine, GkCommand *command);

/*
 * Sets the dimension, appends all rows, this many at a time, and seals; gives the seconds.
 * With a slot_count they pass through a buffer of this many batches that is lent to the engine,
 * as in the row path; with 0 they are passed in place.
 */
extern double append_rows(GkEngine *engine, const Rows *rows, int64_t batch_rows, int slot_count);

/* Sets the grid of the sums. */
extern void set_grid(GkEngine *engine, bool wide, const int *exponents, const double *center);

/* Sets the centroids. */
extern void set_centroids(GkEngine *engine, const double *centroids, int64_t k, bool spherical);

/*
 * Moves the farthest rows to the empty clusters of a step, as the fit layer does it; `entries` has
 * room for as many rows as clusters are empty.  Gives shift2 and between.
 */
extern void relocate_farthest(GkEngine *engine, const uint8_t *is_empty, int64_t empty,
							  GkEntry *entries, double numbers[2]);

/* The label of a row by the definition, and its d². */
extern int32_t nearest_centroid(const float *row, int d, const double *centroids, int64_t k,
								double *distance2);

#endif							/* ENGINE_DRIVE_H */
