/*
 * The choice of k: fits with several k on rows that were read once, and their figures.
 */
#ifndef GK_SELECTION_H
#define GK_SELECTION_H

#include "postgres.h"

#include "fmgr.h"

#include "fit_call.h"
#include "gap.h"

/* Candidates of k at most. */
#define GK_MAX_CANDIDATES 1000

/* Figures that are numbers, in the order of the columns of gkmeans_select_k(). */
typedef enum GkFigure
{
	GK_FIGURE_INERTIA,
	GK_FIGURE_EXPLAINED,
	GK_FIGURE_SILHOUETTE,
	GK_FIGURE_SIMPLIFIED_SILHOUETTE,
	GK_FIGURE_DAVIES_BOULDIN,
	GK_FIGURE_CALINSKI_HARABASZ,
	GK_FIGURE_BIC,
	GK_FIGURE_GAP,
	GK_FIGURE_GAP_ERROR,
	GK_FIGURE_ELBOW,
	GK_FIGURES
} GkFigure;

/* The candidates, and how to choose among them. */
typedef struct GkCandidateSpec
{
	int			count;
	int		   *candidates;		/* ascending, each once */
	GkFigure	criterion;
	int			sample;			/* rows of the silhouette and of a reference at most; 0 = as
								 * many as take little time */
	int			references;		/* random data sets of the gap; 0 = no gap */
} GkCandidateSpec;

/* One k. */
typedef struct GkCandidate
{
	int			k;
	MemoryContext context;		/* of the clusters of the fit; NULL: they are freed */
	GkFit		fit;
	double		within;			/* as in GkQuality */
	double		figures[GK_FIGURES];	/* NaN = not defined; infinite without any inertia */
	double		seconds;		/* of the fit */
} GkCandidate;

typedef struct GkSelection
{
	int			count;
	GkCandidate *candidates;
	int			chosen;			/* its place; -1 where the criterion is defined for none */
} GkSelection;

/*
 * Reads k and criterion, argument `first` and the next; false if the first is NULL, as there
 * is nothing to choose then.  The rest of the spec gets defaults.
 */
extern bool gk_read_candidates(FunctionCallInfo fcinfo, int first, const char *argument,
							   GkCandidateSpec *spec);

/*
 * Fits each candidate to the rows that the call has read, with its other arguments, as
 * gkmeans_fit() does; measures them all and chooses.  Only the chosen one keeps its clusters; the
 * labels of the last one stay in the engine.  call->arguments.fit.for_model must be set.
 */
extern void gk_select_k(GkCall *call, const GkCandidateSpec *spec, GkSelection *selection);

/* Makes the chosen candidate the fit of the call, and its labels those of the engine. */
extern void gk_take_chosen(GkCall *call, const GkCandidateSpec *spec,
						   const GkSelection *selection);

/* Puts one row for every candidate into a result. */
extern void gk_put_selection(const GkSelection *selection, ReturnSetInfo *result);

/* The same as JSON: an array of objects. */
extern char *gk_selection_json(const GkSelection *selection);

#endif							/* GK_SELECTION_H */
