/*
 * Which engine a fit gets: the CPU engine, or the CUDA engine on some of the GPUs.
 */
#ifndef GK_ENGINES_H
#define GK_ENGINES_H

#include "postgres.h"

#include "engine.h"
#include "job.h"

/* The work of a fit as far as it is known before its rows are read. */
typedef struct GkWork
{
	bool		weighted;
	double		rows;			/* the planner's estimate */
	double		dimension;		/* an estimate for arrays */
	double		k;
	double		starts;
	double		iterations;		/* at most */
} GkWork;

/* Whether the work makes a difference to the choice of the engine. */
extern bool gk_engine_depends_on_work(void);

/* The CUDA engine's class, loaded on demand; NULL, and in *reason why, if it is not to be had. */
extern const GkEngineClass *gk_cuda_class(const char **reason);

/*
 * Opens the engine that the settings and the work ask for, owned by the job; in *reason one
 * line why it is that one.  Error 58000 if it is not to be had.
 */
extern GkEngine *gk_open_engine(GkJob *job, const GkWork *work, const char **reason);

#endif							/* GK_ENGINES_H */
