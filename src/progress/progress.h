/*
 * The progress of the server's fits.
 *
 * A fit writes its progress into a small dynamic shared memory segment of its own, and holds a
 * lock whose tag names the segment, so that others find it.  Both belong to the resource owner
 * that is current when the fit begins, and are released with it, however it ends.  Each call
 * below concerns the innermost fit of this backend, and does nothing outside a fit.
 */
#ifndef GK_PROGRESS_H
#define GK_PROGRESS_H

#include <stdatomic.h>

#include "postgres.h"

typedef enum GkPhase
{
	GK_PHASE_QUEUED,			/* waits for a GPU */
	GK_PHASE_READING,
	GK_PHASE_SEEDING,
	GK_PHASE_ITERATING,
	GK_PHASE_LABELLING,
	GK_PHASE_MEASURING,
	GK_PHASE_WRITING
} GkPhase;

/* The name of a phase. */
extern const char *gk_phase_name(GkPhase phase);

typedef struct GkProgress GkProgress;

/*
 * 54001 if so many fits of this backend are under way, one in the source of another, or in a
 * trigger on what that one writes, and so on: each has shared memory, of which the server has only
 * some for each session.
 */
extern void gk_check_nesting(int fits);

/*
 * Begins publishing a fit's progress; without free shared memory, it stays invisible.  54001 if
 * fits are nested too deeply.
 */
extern GkProgress *gk_progress_begin(void);

/* Ends it; the resource owner ends those that were not ended. */
extern void gk_progress_end(GkProgress *progress);

/* A phase begins: sets it in the segment, the process title and the wait event. */
extern void gk_progress_phase(GkPhase phase);

/* The wait event while an engine works. */
extern uint32 gk_progress_wait_event(void);

/* The name of the model that the fit is for; truncated if it is long. */
extern void gk_progress_model(const char *name);

/* The engine, its devices (0 = none) and the bytes that it holds of them. */
extern void gk_progress_engine(const char *name, int devices, uint64 device_bytes);

/* The number of nodes that the fit runs on. */
extern void gk_progress_nodes(int nodes);

/* The number of rows expected; <= 0 if unknown. */
extern void gk_progress_expect(double rows);

/* A number for the innermost fit; 0 = there is none. */
extern uint64_t gk_progress_number(void);

/*
 * The rows that were read for a fit, by its number; nothing if it has ended.  From any thread: what
 * reads them may end after the fit that it counts for.
 */
extern void gk_progress_count(uint64_t number, int64_t rows);

/* A start begins, from 1; of how many, and its limit of iterations. */
extern void gk_progress_start(int start, int starts, int max_iterations);

/* An iteration of it ended: its number, from 1, and how many rows changed their cluster. */
extern void gk_progress_iteration(int iteration, int64 moved);

/* The least inertia of the starts so far. */
extern void gk_progress_inertia(double inertia);

#endif							/* GK_PROGRESS_H */
