/*
 * The job of one fit: owns the resources that outlive a function call, and waits for the
 * engine.
 *
 * A job belongs to the resource owner that is current when it begins.  What it owns is
 * released, last acquired first, by gk_job_end(), or at the moment of an error by the
 * owner's release callback.  A job that is still alive at commit is a leak: it is
 * released with a WARNING.
 */
#ifndef GK_JOB_H
#define GK_JOB_H

#include "postgres.h"

#include "engine.h"

typedef struct GkJob GkJob;

/* Releases one resource; must not throw, palloc or wait without a bound. */
typedef void (*GkReleaseFunction) (void *resource);

/* An entry of the job's list; `resource` is NULL until something is acquired. */
typedef struct GkRelease
{
	GkReleaseFunction function;
	void	   *resource;
	struct GkRelease *next;
} GkRelease;

/* Begins a job; its memory is context "gkmeans" below the transaction's. */
extern GkJob *gk_job_begin(void);

/*
 * Begins a job that lasts from statement to statement: it belongs to the transaction, which
 * releases it at its end, whatever that is, without a warning.
 */
extern GkJob *gk_job_begin_in_transaction(void);

/*
 * Begins a job that fits something for another one, in an engine of its own beside that of the
 * whole.
 */
extern GkJob *gk_job_begin_part(GkJob *whole);

/* True if a job is a part of another one. */
extern bool gk_job_is_part(const GkJob *job);

/* The host bytes that the engine of the whole holds; 0 if the job is no part. */
extern uint64 gk_job_whole_bytes(const GkJob *job);

/* The memory of the job's engine; the peaks are those with its parts. */
extern void gk_job_usage(const GkJob *job, GkUsage *usage);

/* Releases everything and the job itself. */
extern void gk_job_end(GkJob *job);

/* Where the job's palloc'd data lives. */
extern MemoryContext gk_job_context(GkJob *job);

/*
 * Register first, then acquire: adds an entry to the job's list (may throw).  Acquire the
 * resource after it and store it in ->resource, with no error possible in between.
 */
extern GkRelease *gk_job_reserve(GkJob *job, GkReleaseFunction function);

/* Releases one resource before the end of the job. */
extern void gk_job_release(GkRelease *release);

/* How many jobs are alive in this backend; 0 outside a fit. */
extern int	gk_live_jobs(void);

/* The palloc'd bytes of those jobs. */
extern Size gk_job_bytes(void);

/* The memory of their engines; the peaks are those of the session. */
extern void gk_engines_usage(GkUsage *usage);

/* The memory of their rings, and the most that this session's held at once. */
extern void gk_rings_usage(Size *bytes, Size *most);

/* Note that a ring was created, and that it was freed. */
extern void gk_note_ring(Size bytes);
extern void gk_forget_ring(Size bytes);

/* Opens the engine of a job, which has none yet. */
extern GkEngine *gk_job_open_engine(GkJob *job, const GkEngineClass *engine_class,
									const GkEngineConfig *config);

/* The same; NULL if unavailable, with the cause in *status. */
extern GkEngine *gk_job_try_open_engine(GkJob *job, const GkEngineClass *engine_class,
										const GkEngineConfig *config, GkStatus *status);

/* The engine of a job, NULL if none is open. */
extern GkEngine *gk_job_engine(GkJob *job);

/*
 * Runs a command on the job's engine to its end; cancel, timeout and termination act within 10 ms.
 * After an error the engine may still write into the command's arrays until it is closed: they
 * must lie in the job's context, never on the stack.
 */
extern void gk_run(GkJob *job, GkCommand *command);

/*
 * Calls `wait` with that argument and at most 10 ms until it returns something else than
 * GK_RUNNING, and raises an error unless that is GK_OK; interrupts are served in between.
 */
extern void gk_wait(GkStatus (*wait) (void *argument, int milliseconds), void *argument);

#endif							/* GK_JOB_H */
