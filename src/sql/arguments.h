/*
 * The arguments of gkmeans_fit and gkmeans_fit_predict.
 */
#ifndef GK_ARGUMENTS_H
#define GK_ARGUMENTS_H

#include "postgres.h"

#include "fmgr.h"

#include "fit.h"
#include "source.h"

typedef enum GkIfExists
{
	GK_EXISTS_ERROR,
	GK_EXISTS_REPLACE,
	GK_EXISTS_APPEND
} GkIfExists;

typedef struct GkArguments
{
	GkSourceSpec source;
	GkFitSpec	fit;			/* dimension, rows, weighted and shift are not known yet */
	int			initial_dimension;	/* of fit.initial */
	const char *labels_table;	/* NULL = none */
	GkIfExists	if_exists;
} GkArguments;

/*
 * Reads and checks the arguments from number `first` (the source) on; a NULL
 * stands for the default.  What they point to lies in the current memory context.
 */
extern void gk_read_arguments(FunctionCallInfo fcinfo, int first, GkArguments *arguments);

#endif							/* GK_ARGUMENTS_H */
