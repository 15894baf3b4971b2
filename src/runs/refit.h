/*
 * A refit: a new version of a model by its definition, from one reading of its source.
 */
#ifndef GK_REFIT_H
#define GK_REFIT_H

#include "postgres.h"

typedef enum GkDeploy
{
	GK_DEPLOY_BETTER,
	GK_DEPLOY_ALWAYS,
	GK_DEPLOY_NEVER
} GkDeploy;

/* The arguments; NULL, NaN and -1 if left out. */
typedef struct GkRefitSpec
{
	Oid			model;
	GkDeploy	deploy;
	double		min_improvement;
	double		only_if_drift;
	int			starts;
	bool		rescale;
	const char *labels_table;
	const char *labels_mode;
	const char *changes_table;
	int			keep;
	const char *note;
} GkRefitSpec;

/* The result; NaN and -1 for unknown numbers. */
typedef struct GkRefitResult
{
	int			version;
	const char *status;
	bool		deployed;
	int64		rows;
	double		inertia_before;
	double		inertia;
	double		improvement;
	double		psi;
	int64		moved;
	const char *outcome;
} GkRefitResult;

/*
 * Refits, as the owner.  Creates the row of the version or, if `version` is not 0, completes the
 * one that a run has begun.  The result lies in the current memory context.
 */
extern void gk_refit(const GkRefitSpec *spec, int version, GkRefitResult *result);

#endif							/* GK_REFIT_H */
