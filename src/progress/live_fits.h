/*
 * The fits that are running on the server, if they have a progress segment.
 */
#ifndef GK_LIVE_FITS_H
#define GK_LIVE_FITS_H

#include "postgres.h"

#include "progress.h"

/* A snapshot of a fit. */
typedef struct GkLiveFit
{
	int			pid;
	Oid			database;
	Oid			role;
	int64		started;		/* TimestampTz */
	char	   *model;			/* NULL = none */
	char	   *engine;			/* NULL = not known yet */
	GkPhase		phase;
	int64		phase_started;	/* TimestampTz */
	int			start;			/* 0 = none has begun */
	int			starts;
	int			iteration;
	int			max_iterations;
	int64		moved;			/* -1 = not known */
	int64		rows;
	int64		expected;		/* 0 = not known */
	double		inertia;		/* NaN = not known */
	int			devices;
	uint64		device_bytes;
	int			nodes;
} GkLiveFit;

/* All of them, palloc'd; `count` of them. */
extern GkLiveFit *gk_live_fits(int *count);

#endif							/* GK_LIVE_FITS_H */
