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
	GkFitSpec	fit;			/* dimension, rows, weighted and shift are not known yet */
	int			initial_dimension;	/* of fit.initial */
	const char *labels_table;	/* NULL = none */
	GkIfExists	if_exists;
	const char *id_name;		/* of the labels table's id column; NULL = it is left open */
} GkArguments;

/*
 * Reads and checks the arguments from number `first` (the source) on; a NULL
 * stands for the default.  What they point to lies in the current memory context.
 */
extern void gk_read_arguments(FunctionCallInfo fcinfo, int first, GkArguments *arguments);

/* The word for a quality. */
extern const char *gk_quality_name(GkFitQuality quality);

/* The words and lists of arguments that other functions have as well. */
extern GkMetric gk_metric_word(const char *word);
extern GkScale gk_scale_word(const char *word);
extern bool gk_nulls_word(const char *word);	/* whether they are errors */
extern List *gk_features_argument(FunctionCallInfo fcinfo, int number);

/* What a word of an argument says to do where a labels table exists. */
extern GkIfExists gk_if_exists(const char *argument, const char *word);

#endif							/* GK_ARGUMENTS_H */
