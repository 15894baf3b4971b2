/*
 * A scoring function's state: a model, and how its arguments become the numbers that are
 * compared with the centroids.
 */
#ifndef GK_SCORER_H
#define GK_SCORER_H

#include "postgres.h"

#include "fmgr.h"

#include "decode.h"
#include "model.h"
#include "moment.h"

/* What stands for the features. */
typedef enum GkForm
{
	GK_FORM_COLUMNS,			/* a number an argument */
	GK_FORM_ARRAY,				/* one array or vector */
	GK_FORM_LITERAL,			/* one literal of an array */
	GK_FORM_ROW					/* one row, its columns by name */
} GkForm;

/* How the fields of a row type are found. */
typedef struct GkFields
{
	Oid			type;
	int32		typmod;
	TupleDesc	descriptor;		/* NULL = not known yet */
	const struct TypeCacheEntry *cached;	/* of a type that has a name; NULL = none */
	uint64		identifier;		/* of its columns when they were looked at */
	int		   *numbers;		/* a feature's, or the array column's */
	Datum	   *values;
	bool	   *nulls;
} GkFields;

typedef struct GkScorer
{
	MemoryContext context;		/* of all below, reset when the model is read anew */
	const GkModel *model;
	GkMoment   *moment;			/* NULL = the model is no table's */
	int			first;			/* argument that stands for features */
	GkForm		form;
	GkColumn   *columns;		/* how features, or the array, are decoded */
	GkFields	fields;
	double	   *values;			/* dimension: room for the elements of an array */
	float	   *stored;			/* dimension: the shift taken off */
	double	   *row;			/* dimension: as compared */
	float	   *scratch;		/* of the model's filter, if it has one */
	double	   *distances2;		/* all d², in whole groups; NULL until they are asked for */
} GkScorer;

/*
 * For tests: a module may leave a pointer to the name of the vectors that compare rows with centroids
 * (nearest.h) in the rendezvous variable of this name.
 */
#define GK_VECTORS "gkmeans_vectors"

/* The scorer of a call whose argument 0 is the model; `first` is the first of the features'. */
extern GkScorer *gk_scorer(FunctionCallInfo fcinfo, int first);

/* The same for a model that is no table's: `model` lives in scorer->context. */
extern GkScorer *gk_new_scorer(FunctionCallInfo fcinfo);
extern void gk_prepare_scorer(GkScorer *scorer, const GkModel *model, FunctionCallInfo fcinfo,
							  int first);

/* Brings the features of a call into ->row; false if they cannot be compared. */
extern bool gk_take_features(GkScorer *scorer, FunctionCallInfo fcinfo);

/* The place of the nearest cluster, and its d². */
extern int	gk_nearest_cluster(const GkScorer *scorer, double *distance2);

/* d² to all centroids in ->distances2, in the order of ties. */
extern void gk_all_distances2(GkScorer *scorer);

/* The place of the cluster that is number `i` in that order. */
extern int	gk_cluster_at(const GkModel *model, int i);

/* The id of the cluster at a place. */
extern int	gk_cluster_id(const GkModel *model, int place);

/* A coordinate as compared, in the units of the feature. */
extern double gk_in_units(const GkModel *model, int feature, double value);

/* The name of a feature; "embedding[1]" for an element of an array. */
extern char *gk_feature_name(const GkModel *model, int feature);

/* The name of the cluster at a place; "cluster 3" without one. */
extern char *gk_cluster_name(const GkModel *model, int place);

#endif							/* GK_SCORER_H */
