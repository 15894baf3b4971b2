/*
 * The arguments of gkmeans_fit and gkmeans_fit_predict.
 */
#ifndef GK_ARGUMENTS_H
#define GK_ARGUMENTS_H

#include "postgres.h"

#include "fmgr.h"

#include "fit_spec.h"
#include "labels_table.h"
#include "source.h"

typedef struct GkArguments
{
	GkSourceSpec source;
	GkFitSpec	fit;			/* dimension, rows, weighted and shift are set later */
	int			initial_dimension;	/* of fit.initial */
	const char *labels_table;	/* NULL = none */
	GkIfExists	if_exists;
	const char *id_name;		/* of the labels table's id column; NULL = it is left open */

	/* those that functions of models set */
	const char *changes_table;	/* NULL = none */
	bool		of_model;		/* the labels have a version and names */
	bool		labels_are_new;	/* nothing was said of a labels table that is there already */

	int			readings;		/* before this one, which others overtook with labels */
	bool		labels_may_stay;	/* the labels are for the labels table and nothing else */
} GkArguments;

/*
 * Reads and checks the arguments from number `first` (the source) on; NULL means the default.
 * Results lie in the current memory context.
 */
extern void gk_read_arguments(FunctionCallInfo fcinfo, int first, GkArguments *arguments);

/* The word for a quality. */
extern const char *gk_quality_name(GkFitQuality quality);

/* Parses arguments that other functions share. */
extern GkMetric gk_metric_word(const char *word);
extern GkScale gk_scale_word(const char *word);
extern bool gk_nulls_word(const char *word);	/* true if they are errors */
extern List *gk_features_argument(FunctionCallInfo fcinfo, int number);

/* Parses what to do if a labels table exists. */
extern GkIfExists gk_if_exists(const char *argument, const char *word);

#endif							/* GK_ARGUMENTS_H */
