/*
 * The state of a scoring function: a model, and how arguments become the numbers that are
 * compared with its centroids.
 */
#ifndef GK_SCORER_H
#define GK_SCORER_H

#include "postgres.h"

#include "fmgr.h"

#include "decode.h"
#include "model.h"
#include "moment.h"

/* The form in which the features are passed. */
typedef enum GkForm
{
	GK_FORM_COLUMNS,			/* each feature an argument */
	GK_FORM_ARRAY,				/* one array or vector */
	GK_FORM_LITERAL,			/* one literal of an array */
	GK_FORM_ROW					/* one row, its columns by name */
} GkForm;

/* How to find the fields of a row type. */
typedef struct GkFields
{
	MemoryContext context;		/* of all below, and of the scorer's columns; NULL = none yet */
	Oid			type;
	int32		typmod;
	TupleDesc	descriptor;		/* NULL = not yet known */
	const struct TypeCacheEntry *cached;	/* NULL = not described by what a type is now */
	uint64		identifier;		/* of the columns of a type that has a name */
	int		   *numbers;		/* of the fields of the features, or of the array */
	Datum	   *values;
	bool	   *nulls;
} GkFields;

typedef struct GkScorer
{
	MemoryContext context;		/* of all below; reset when the model is read again */
	const GkModel *model;
	int			version;		/* requested; 0 = the deployed one */
	GkMoment   *moment;			/* NULL = the model is not a table's */
	int			first;			/* number of the first argument with features */
	GkForm		form;
	GkColumn   *columns;		/* how to decode the features, or the array */
	GkFields	fields;
	double	   *values;			/* dimension: room for the elements of an array */
	float	   *stored;			/* dimension: after the shift */
	double	   *row;			/* dimension: as compared */
	float	   *scratch;		/* of the model's filter, if it has one */
	double	   *distances2;		/* all d², in whole groups; NULL until needed */
} GkScorer;

/*
 * For tests: a module may leave a pointer to the name of the vectors that compare rows with
 * centroids (nearest.h) in the rendezvous variable of this name.
 */
#define GK_VECTORS "gkmeans_vectors"

/* The scorer of a call whose argument 0 is the model; `first` is the first with features. */
extern GkScorer *gk_scorer(FunctionCallInfo fcinfo, int first);

/* The same with a version of it; 0 = the deployed one. */
extern GkScorer *gk_version_scorer(FunctionCallInfo fcinfo, int version, int first);

/* The same for a model that is not a table's: `model` lives in scorer->context. */
extern GkScorer *gk_new_scorer(FunctionCallInfo fcinfo);
extern void gk_prepare_scorer(GkScorer *scorer, const GkModel *model, FunctionCallInfo fcinfo,
							  int first);

/* Puts the features of a call into ->row; false if they cannot be compared. */
extern bool gk_take_features(GkScorer *scorer, FunctionCallInfo fcinfo);

/* The position of the nearest cluster, and its d². */
extern int	gk_nearest_cluster(const GkScorer *scorer, double *distance2);

/* d² to all centroids in ->distances2, in the order of ties. */
extern void gk_all_distances2(GkScorer *scorer);

/* The position of the cluster that is number `i` in that order. */
extern int	gk_cluster_at(const GkModel *model, int i);

/* The id of the cluster at a position. */
extern int	gk_cluster_id(const GkModel *model, int place);

/* A coordinate as compared, in the units of the feature. */
extern double gk_in_units(const GkModel *model, int feature, double value);

/* The name of a feature; "embedding[1]" for an element of an array. */
extern char *gk_feature_name(const GkModel *model, int feature);

/* The name of the cluster at a position; "cluster 3" if it has none. */
extern char *gk_cluster_name(const GkModel *model, int place);

#endif							/* GK_SCORER_H */
