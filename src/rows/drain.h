/*
 * The drain: one thread of the backend that moves ready batches from the ring
 * into the engine while the backend runs the query.
 *
 * Nothing of PostgreSQL here; the thread blocks all signals.
 */
#ifndef GK_DRAIN_H
#define GK_DRAIN_H

#include "engine.h"
#include "ring.h"

typedef struct GkDrain GkDrain;

/*
 * Starts the thread; it writes how many rows went into the engine so far to `progress`.  It calls
 * `complete` with an error before the feeders see it, to add what only this process knows.
 */
extern GkStatus gk_drain_start(GkRing *ring, GkEngine *engine, atomic_llong *progress,
							   void (*complete) (GkStatus *status), GkDrain **drain);

/* Waits for the thread to empty a closed ring, or to fail; false if it is still running. */
extern bool gk_drain_wait(GkDrain *drain, int milliseconds);

/* The thread's status; once gk_drain_wait() has returned true. */
extern GkStatus gk_drain_status(const GkDrain *drain);

/* How many rows went into the engine. */
extern int64_t gk_drain_rows(const GkDrain *drain);

/*
 * The engine's number of the first row of each batch, by sequence number; `count` batches.
 * The caller frees it.
 */
extern int64_t *gk_drain_first_rows(GkDrain *drain, int64_t *count);

/* Stops and joins the thread, in whatever state, and frees the drain. */
extern void gk_drain_stop(GkDrain *drain);

#endif							/* GK_DRAIN_H */
