/*
 * The drain: moves ready batches from the ring into the engine while the backend runs the query.
 *
 * One thread of the backend does so.  Where only the backend itself feeds, few rows are not worth a
 * thread: the first batches are moved by whoever calls gk_drain_move().
 *
 * Nothing of PostgreSQL here; the thread blocks all signals.
 */
#ifndef GK_DRAIN_H
#define GK_DRAIN_H

#include "engine.h"
#include "ring.h"

typedef struct GkDrain GkDrain;

/* Where to count rows: set(fit, rows), from any thread, even after that fit has ended. */
typedef struct GkRowCount
{
	void		(*set) (uint64_t fit, int64_t rows);
	uint64_t	fit;
} GkRowCount;

/* A thread and its waits cost as much as moving so many bytes of rows. */
#define GK_THREAD_BYTES ((size_t) 2 << 20)

/*
 * Begins with an empty ring, with a thread unless it is `on_demand`; counts how many rows
 * went into the engine so far.  Calls `complete` with an error before the feeders see it, to
 * add what only this process knows.
 */
extern GkStatus gk_drain_start(GkRing *ring, GkEngine *engine, GkRowCount count,
							   void (*complete) (GkStatus *status), bool on_demand,
							   GkDrain **drain);

/* How many bytes of rows a batch should have at most for gk_drain_move(); 0 if it has a thread. */
extern size_t gk_drain_at_once(const GkDrain *drain);

/*
 * Moves the batches that are ready, and returns slots that the engine has read, or lets a thread go
 * on if there were many; does nothing if there is one.  An error is the ring's.
 */
extern void gk_drain_move(GkDrain *drain);

/* Waits until a closed ring is empty, or moving fails; false if the thread is still running. */
extern bool gk_drain_wait(GkDrain *drain, int milliseconds);

/* How the moving ended; once gk_drain_wait() has returned true. */
extern GkStatus gk_drain_status(const GkDrain *drain);

/* How many rows went into the engine. */
extern int64_t gk_drain_rows(const GkDrain *drain);

/*
 * The engine's number of the first row of each batch, by sequence number; `count` batches.
 * The caller frees it.
 */
extern int64_t *gk_drain_first_rows(GkDrain *drain, int64_t *count);

/* Stops and joins the thread, in whatever state, if there is one, and frees the drain. */
extern void gk_drain_stop(GkDrain *drain);

#endif							/* GK_DRAIN_H */
