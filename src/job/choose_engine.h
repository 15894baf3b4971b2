/*
 * Which engine a fit gets: the CPU engine, or the CUDA engine on some of the GPUs.
 */
#ifndef GK_CHOOSE_ENGINE_H
#define GK_CHOOSE_ENGINE_H

#include "postgres.h"

#include "engine.h"
#include "job.h"

/* The work of a fit as far as known before its rows are read. */
typedef struct GkWork
{
	bool		weighted;
	double		rows;			/* the planner's estimate */
	double		dimension;		/* an estimate for arrays */
	double		k;
	double		starts;
	double		iterations;		/* at most */
} GkWork;

/* True if the choice of the engine depends on the work. */
extern bool gk_engine_depends_on_work(void);

/*
 * Opens the engine that the settings and the work call for, owned by the job; *reason says in
 * one line why that one.  Error 58000 if it is unavailable; a part of a job takes any engine, waits
 * for none, and shares the host memory of the whole.
 */
extern GkEngine *gk_open_engine(GkJob *job, const GkWork *work, const char **reason);

/*
 * For tests: a module may set the rendezvous variable of this name to a function that replaces
 * an engine class before it is opened.
 */
#define GK_WRAP_ENGINE "gkmeans_wrap_engine"
typedef const GkEngineClass *(*GkWrapEngine) (const GkEngineClass *engine_class);

#endif							/* GK_CHOOSE_ENGINE_H */
