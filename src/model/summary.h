/*
 * A version's clusters as people look at them: in views, pictures and reports.
 */
#ifndef GK_SUMMARY_H
#define GK_SUMMARY_H

#include "postgres.h"

#include "model.h"

/* The clusters of a version, as far as they are known: NULL is what is not. */
typedef struct GkSummary
{
	int			version;
	bool		deployed;
	int			k;
	int			dimension;
	char	  **features;		/* NULL where they are elements of array_column */
	char	   *array_column;
	double	   *centroids;		/* k × dimension, in the units of the features */
	int32	   *ids;			/* k; NULL = 0 … k - 1 */
	char	  **names;			/* k, NULL = unnamed */
	int64	   *sizes;
	double	   *weights;
	double	   *inertias;
	double	   *avg_distances;	/* NaN = not known */
	double	   *radii;
	double	   *mean;			/* dimension: of the rows */
	double	   *deviation;
	double	   *deviations;		/* k × dimension: within the clusters, NaN = not known; only read if
								 * asked for */
	double	   *map_x;			/* k: places in the plane */
	double	   *map_y;
} GkSummary;

/* A feature and how far it stands out. */
typedef struct GkRank
{
	int			feature;
	double		z;				/* without its sign, -1 if it is not known */
} GkRank;

/* Reads a version that has centroids: XX001 if it is damaged. */
extern void gk_read_summary(const GkModelRow *row, bool with_deviations, GkSummary *summary);

/* The same; false instead of that error, with a WARNING or without. */
extern bool gk_try_summary(const GkModelRow *row, bool with_deviations, bool warns,
						   GkSummary *summary);

/*
 * In PG_CATCH: ends XX001, with a WARNING or without, and raises every other error again.  Right
 * only where nothing but memory was taken since PG_TRY.
 */
extern void gk_end_damage(MemoryContext context, bool warns);

/* The number of a cluster, and its name; "cluster 3" without one. */
extern int	gk_summary_id(const GkSummary *summary, int c);
extern const char *gk_summary_name(const GkSummary *summary, int c);

/* Bytes of a name where it is shown again and again: GK_MAX_REPEATED_NAME, or fewer. */
extern int	gk_repeated_length(const char *name);

/* The name of a feature. */
extern const char *gk_summary_feature(const GkSummary *summary, int j);

/* How many deviations a centroid is from the mean of the rows; NaN if that is not known. */
extern double gk_z_score(const GkSummary *summary, int c, int j);

/* For qsort: the order of features, those that stand out most first. */
extern int	gk_compare_ranks(const void *a, const void *b, void *argument);

/* The features of a cluster, those that stand out most first: `dimension` of them. */
extern void gk_rank_features(const GkSummary *summary, int c, GkRank *order);

/*
 * Which features stand out, and by how much; NULL if the rows are not known.  If it is sent as
 * it is, it has no sign that the client's encoding may lack.
 */
extern const char *gk_describe_profile(const GkSummary *summary, int c, GkRank *order,
									   bool is_sent);

/* All rows of the clusters; 0 if that is not known. */
extern double gk_total_size(const GkSummary *summary);

#endif							/* GK_SUMMARY_H */
