/*
 * Drift: how current rows differ from those that a version was fitted to.
 */
#ifndef GK_DRIFT_H
#define GK_DRIFT_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "fit.h"
#include "model.h"
#include "reading.h"

/* What a version records about the rows that it was fitted to; NULL if it does not. */
typedef struct GkThen
{
	int64	   *sizes;			/* k, by place */
	double	   *avg_distances;	/* k, NaN = not known */
	double	   *means;			/* dimension, in the units of the centroids */
	double	   *deviations;		/* dimension */
	double	   *centroids;		/* k × dimension */
	char	   *scale;			/* the word by which it was scaled; NULL = not said */
	double		k_asked;		/* clusters asked for; NaN = not said */
} GkThen;

/* The drift of a cluster.  Unknown or undefined numbers are NaN. */
typedef struct GkClusterDrift
{
	int			cluster_id;
	const char *name;
	int64		rows_then;		/* -1 = not known */
	int64		rows_now;
	double		share_then;
	double		share_now;
	double		psi;
	double		avg_distance_then;
	double		avg_distance_now;
} GkClusterDrift;

/* The drift of a feature. */
typedef struct GkFeatureDrift
{
	const char *feature;
	double		mean_then;
	double		mean_now;
	double		shift;			/* in deviations of then */
	double		deviation_then;
	double		deviation_now;
	double		deviation_ratio;
	double		unusable_now;	/* share of the rows that the feature made unusable */
} GkFeatureDrift;

typedef struct GkDrift
{
	TimestampTz checked_at;
	int			version;		/* that the rows are compared with */
	double		psi;			/* of all clusters */
	int			k;
	GkClusterDrift *clusters;
	int			dimension;
	GkFeatureDrift *features;
} GkDrift;

/* Reads what the head row of a version records about its rows. */
extern void gk_read_then(const GkModelRow *row, GkThen *then);

/*
 * Compares the current rows, prepared as the model compares them and labelled by it: `now` are
 * its clusters in the order in which ties are decided.  The result lies in the current memory
 * context.
 */
extern void gk_find_drift(const GkModel *model, const GkThen *then, const GkCluster *now,
						  const GkFitSpec *spec, const GkPrepared *prepared, const GkRows *rows,
						  GkDrift *drift);

/* Now over then: 1 if both are 0, NaN if only then is, or one is not known. */
extern double gk_drift_ratio(double now, double then);

/* The drift as JSON: at most 1000 clusters and features, those that drifted most. */
extern char *gk_drift_json(const GkDrift *drift);

#endif							/* GK_DRIFT_H */
