/*
 * A clustering that is to be measured: rows in an engine, and their labels.
 */
#ifndef GK_CLUSTERING_H
#define GK_CLUSTERING_H

#include "postgres.h"

#include "fit.h"
#include "job.h"

typedef struct GkClustering
{
	GkJob	   *job;
	GkEngine   *engine;			/* holds the rows as compared */
	GkMetric	metric;
	int64		rows;
	int			dimension;
	int			k;				/* labels are below */
	bool		weighted;		/* the engine knows of weights, which are ignored here */
	const int32 *labels;		/* rows; -1 = the row does not count; NULL = the nearest … */
	const double *packed;		/* … of these centroids, in the order of ties (nearest.h); given
								 * without labels, and only then */
	int			sample;			/* the most rows for the silhouette; 0 = what takes little time */
	int64		seed;
	bool		with_deviations;	/* only with centroids */
} GkClustering;

/* The labels of some rows of a clustering. */
extern void gk_read_labels(const GkClustering *clustering, int64 from, int64 count, int32 *labels);

#endif							/* GK_CLUSTERING_H */
