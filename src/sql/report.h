/*
 * Reports about the fits of a session.
 */
#ifndef GK_REPORT_H
#define GK_REPORT_H

#include "postgres.h"

#include "utils/array.h"

#include "cluster.h"
#include "engine.h"

/* The report of a fit. */
typedef struct GkReport
{
	int64		rows_read;
	int64		rows_skipped;
	ArrayType  *features;		/* names, as text[] */
	int			dimension;
	int64		k;				/* asked for */
	int64		k_effective;
	int			iterations;
	bool		converged;
	double		inertia;
	int			best_start;
	const char *quality;
	int			search_rounds;
	double		search_improvement;
	char		engine[32];
	char		engine_reason[256];
	int			workers;
	bool		read_twice;
	double		open_seconds;
	double		read_seconds;
	double		prepare_seconds;
	double		seed_seconds;
	double		iterate_seconds;
	double		label_seconds;
	double		measure_seconds;
	double		total_seconds;
	GkUsage		usage;
	Size		ring_bytes;
	int			node_count;		/* 0 = this server alone */
	GkNodeLine *nodes;			/* node_count */
	double		exchange_seconds;
} GkReport;

/* Remembers a fit that ended well. */
extern void gk_remember_fit(const GkReport *report);

#endif							/* GK_REPORT_H */
