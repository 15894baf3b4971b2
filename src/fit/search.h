/*
 * The search for centroids that are better than those in which Lloyd's iteration ends.
 *
 * In the manner of breathing k-means (Fritzke 2020, arXiv 2006.15666) and of swap-based local
 * search (Lattanzi and Sohler 2019): a round adds some rows as centroids, iterates, takes as many
 * away, and iterates again.  Rows are drawn by weight × d², as k-means++ does; the
 * centroids whose union adds least to the inertia are merged, two at a time (Ward 1963).  Several
 * searches are combined in the same way: the centroids of one are added to those of another
 * (Fränti 2000).
 */
#ifndef GK_SEARCH_H
#define GK_SEARCH_H

#include "postgres.h"

#include "fitter.h"

/* The work of a pass over the rows: about how many multiplications it makes. */
extern double gk_pass_work(const GkFitSpec *spec, int64 k);

/*
 * Steps of all starts and searches after which `auto` begins no further one: they take about a
 * second on two cores at most.
 */
extern double gk_auto_steps(const GkFitSpec *spec, int64 k);

/*
 * Improves a start whose labels and d² are in the engine; at the end they are the outcome's.  If
 * the start has not converged, spares passes over the rows.
 */
extern void gk_search(GkFitter *fitter, GkStart *start);

/*
 * Unites the centroids of two starts and merges as many as there are too many: the outcome has the
 * better part of each.  If that beats both, the first one becomes it.  The labels in the engine are
 * anyone's afterwards.  Does nothing where passes over the rows are spared.
 */
extern void gk_combine(GkFitter *fitter, GkStart *start, const GkStart *other);

#endif							/* GK_SEARCH_H */
