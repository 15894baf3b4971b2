/*
 * The rows of a labels table, from the labels in the engine.
 */
#ifndef GK_LABEL_ROWS_H
#define GK_LABEL_ROWS_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "utils/tuplestore.h"

#include "fit.h"
#include "job.h"
#include "label_columns.h"
#include "reading.h"

/* What is known of the clusters, by position. */
typedef struct GkLabelling
{
	int			version;		/* of the model; 0 = of no model */
	int			k;
	int64		labels;			/* of the engine: more than k if clusters are empty */
	const int32 *place_of_label;	/* labels: engine label → place, -1 = empty; NULL = the same */
	const int32 *ties;			/* k: the places in the order of ties; NULL = ascending */
	const int32 *ids;			/* k; NULL = the place */
	char *const *names;			/* k, NULL = unnamed; NULL = none has a name */
	const double *avg_distances;	/* k, NaN = not known; NULL = none is known */
	const double *score_quantiles;	/* GK_QUANTILES; NULL = not known */
	const double *packed;		/* centroids as compared, in the order of ties (nearest.h); needed
								 * for the second nearest cluster alone */
} GkLabelling;

/* The source and the destination of labels. */
typedef struct GkLabelRows
{
	GkJob	   *job;
	GkEngine   *engine;			/* has the labels and d² */
	const GkFitSpec *spec;		/* metric, rows and dimension */
	GkRows	   *rows;			/* the ids; they can be gone through once */
	const GkLabelling *labelling;
	Tuplestorestate *result;	/* gets id, cluster and distance; NULL = nobody */
	TupleDesc	result_row;
	Tuplestorestate *labels;	/* gets rows of gk_labels_descriptor(); NULL = nobody */
	TupleDesc	labels_row;
	GkLabelColumns columns;		/* of these that are wanted; the others are NULL */
} GkLabelRows;

/* Puts a row for every row of the source. */
extern void gk_put_label_rows(const GkLabelRows *rows);

#endif							/* GK_LABEL_ROWS_H */
