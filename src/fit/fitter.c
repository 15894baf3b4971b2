/*
 * Lloyd's iteration and the statistics of the clusters, for starts and searches.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "alloc.h"
#include "exact.h"
#include "fitter.h"
#include "fixed_point.h"
#include "progress.h"

/* The most iterations that the engine makes in one command. */
#define MOST_AT_ONCE 64

/* The value of a two-limb sum of the statistics. */
double
gk_fitter_value(const GkFitter *fitter, GkSum sum, int exponent)
{
	return gk_grid_value(sum.high, sum.low, exponent, fitter->prepared->value_bits);
}

/* Sets centroids. */
void
gk_fitter_set_centroids(GkFitter *fitter, const double *centroids, int64 count)
{
	GkCommand	command = {.operation = GK_CENTROIDS};

	command.centroids.centroids = centroids;
	command.centroids.k = count;
	command.centroids.spherical = fitter->spec->metric == GK_COSINE;
	gk_run(fitter->job, &command);
}

/*
 * True if rounding alone may make a row differ from its centroid:
 *
 * - each coordinate is rounded to real in the row and in those whose mean the centroid is, and so
 *   is the length of a direction: at most half of FLT_EPSILON each;
 * - of each row, a sum loses at most half a step of its grid, which is at most 2^-bits of the
 *   greatest value; with weights, the sum of these loses as much.  The cluster weighs at least what
 *   the row does;
 * - centroids that were given, far from the origin of the rows, were rounded there.
 */
static bool
is_at_centroid(const GkFitter *fitter, const float *row, double weight, const double *centroid)
{
	const GkFitSpec *spec = fitter->spec;
	const GkPrepared *prepared = fitter->prepared;
	double		rows = spec->weighted ? 2.0 * spec->rows * (prepared->greatest_weight / weight)
		: 1.0;
	double		lost = ldexp(rows, -prepared->value_bits - prepared->rest_bits);

	for (int j = 0; j < spec->dimension; j++)
	{
		double		greatest = Max(fabs(prepared->least[j]), fabs(prepared->greatest[j]));
		double		origin = (fabs(spec->shift[j]) + fabs(prepared->offset[j])) *
			prepared->factor[j];
		double		rounding = 2 * FLT_EPSILON * Max(fabs(row[j]), FLT_MIN) + lost * greatest +
			2 * DBL_EPSILON * origin;

		if (fabs(row[j] - centroid[j]) > rounding)
			return false;
	}
	return true;
}

/* Leaves out the rows that lie at their centroids; `centroids` is room for `count`. */
static int64
keep_distant(GkFitter *fitter, int64 *rows, int64 found, double *centroids, int64 count)
{
	int			d = fitter->spec->dimension;
	float	   *features = gk_allocate(found * d, sizeof(float));
	double	   *weights = gk_allocate(found, sizeof(double));
	int32	   *labels = gk_allocate(found, sizeof(int32));
	GkCommand	get = {.operation = GK_GET_CENTROIDS};
	GkCommand	fetch = {.operation = GK_ROWS};
	int64		kept = 0;

	get.get_centroids.centroids = centroids;
	gk_run(fitter->job, &get);
	fetch.rows.rows = rows;
	fetch.rows.count = found;
	fetch.rows.features = features;
	fetch.rows.weights = weights;
	fetch.rows.labels = labels;
	gk_run(fitter->job, &fetch);
	for (int64 i = 0; i < found; i++)
	{
		if (labels[i] < 0 || labels[i] >= count)
			elog(ERROR, "gkmeans engine gives a row the label of no cluster");
		if (!is_at_centroid(fitter, features + i * d, weights[i],
							centroids + labels[i] * (int64) d))
			rows[kept++] = rows[i];
	}
	pfree(labels);
	pfree(weights);
	pfree(features);
	return kept;
}

/* Finds the rows farthest from their centroids, one for each empty cluster or fewer. */
static int64
find_distant(GkFitter *fitter, GkStart *start, int64 empty, int64 *rows)
{
	GkCommand	distances = {.operation = GK_DISTANCES};
	GkCommand	farthest = {.operation = GK_FARTHEST};
	GkEntry    *entries = gk_allocate(empty, sizeof(GkEntry));
	int64		found = 0;

	gk_run(fitter->job, &distances);
	farthest.farthest.count = empty;
	farthest.farthest.entries = entries;
	gk_run(fitter->job, &farthest);
	while (found < farthest.farthest.found && entries[found].distance2 > 0.0)
	{
		rows[found] = entries[found].row;
		found++;
	}
	pfree(entries);
	return found == 0 ? 0 : keep_distant(fitter, rows, found, start->centroids, start->count);
}

/*
 * Ends a step with empty clusters: moves them to the rows farthest from their centroids; returns
 * how many it has moved.
 */
static int64
relocate_empty(GkFitter *fitter, GkStart *start, GkCommand *step)
{
	GkCommand	relocate = {.operation = GK_RELOCATE};
	int64	   *rows = gk_allocate(step->step.empty, sizeof(int64));
	int64	   *clusters = gk_allocate(step->step.empty, sizeof(int64));
	int64		found = find_distant(fitter, start, step->step.empty, rows);
	int64		moves = 0;

	for (int64 c = 0; c < start->count && moves < found; c++)
		if (fitter->is_empty[c])
			clusters[moves++] = c;
	relocate.relocate.rows = rows;
	relocate.relocate.clusters = clusters;
	relocate.relocate.count = moves;
	gk_run(fitter->job, &relocate);
	pfree(clusters);
	pfree(rows);
	step->step.shift2 = relocate.relocate.shift2;
	step->step.between = relocate.relocate.between;
	return moves;
}

/* Writes an iteration down. */
static void
note_iteration(GkFitter *fitter, const GkStart *start, const GkIterated *iterated)
{
	GkIteration iteration = {.start = start->number + 1,.iteration = start->iterations};

	iteration.inertia = Max(fitter->prepared->total_to_origin - iterated->between, 0.0);
	iteration.shift = sqrt(iterated->shift2);
	iteration.moved = iterated->changed;
	iteration.is_last = start->converged || start->iterations == fitter->spec->max_iter;
	gk_history_add(&fitter->fit->model.history, &iteration);
}

/*
 * Counts an iteration, and decides if it was the last one.  With rows moved to empty clusters, the
 * centroids are not those by which no label changed.
 */
static void
end_iteration(GkFitter *fitter, GkStart *start, const GkIterated *iterated, int64 moves,
			  double tolerance)
{
	start->iterations++;
	fitter->iterations++;
	start->converged = (iterated->changed == 0 && moves == 0)
		|| (tolerance > 0.0 && iterated->shift2 <= tolerance);
	if (fitter->spec->for_model && !fitter->is_searching)
		note_iteration(fitter, start, iterated);
}

/* As many iterations as the engine makes at once, at most `most`; iterated has MOST_AT_ONCE. */
static void
iterate_at_once(GkFitter *fitter, GkStart *start, int most, double tolerance,
				GkIterated *iterated)
{
	GkCommand	step = {.operation = GK_STEP};
	int64		moves = 0;

	step.step.is_empty = fitter->is_empty;
	step.step.more = Min(most, MOST_AT_ONCE) - 1;
	step.step.tolerance = tolerance;
	step.step.iterated = iterated;
	gk_run(fitter->job, &step);
	if (step.step.empty > 0)
		moves = relocate_empty(fitter, start, &step);
	for (int64 i = 0; i < step.step.earlier; i++)
		end_iteration(fitter, start, &iterated[i], 0, tolerance);
	iterated[0].changed = step.step.changed;
	iterated[0].shift2 = step.step.shift2;
	iterated[0].between = step.step.between;
	end_iteration(fitter, start, &iterated[0], moves, tolerance);
	gk_progress_iteration(start->iterations, step.step.changed);
}

/* Lloyd's iteration until no label changes, the centroids hardly move, or `limit` is reached. */
void
gk_fitter_iterate(GkFitter *fitter, GkStart *start, int limit, bool wants_labels)
{
	double		tolerance = fitter->spec->tol * fitter->prepared->mean_variance;
	GkCommand	get = {.operation = GK_GET_CENTROIDS};
	/* after an error, the engine may write to it until it is closed: not on the stack */
	GkIterated *iterated = gk_allocate(MOST_AT_ONCE, sizeof(GkIterated));

	gk_fitter_set_centroids(fitter, start->centroids, start->count);
	start->converged = false;
	start->iterations = 0;
	while (start->iterations < limit && !start->converged)
		iterate_at_once(fitter, start, wants_labels ? 1 : limit - start->iterations, tolerance,
						iterated);
	pfree(iterated);
	get.get_centroids.centroids = start->centroids;
	gk_run(fitter->job, &get);
}

/*
 * Refuses weight × d² that overflow, or their sum: centroids that do not come from the rows may be
 * far away from them.
 */
static void
check_greatest(const GkFitter *fitter, double greatest)
{
	if (isfinite(greatest * (double) fitter->spec->rows))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("the products of weights and squared distances are out of range"),
			 errhint("Divide the weights by a constant.")));
}

/* Labels the rows with `count` final centroids, computes the statistics, returns the inertia. */
double
gk_fitter_label_rows(GkFitter *fitter, int64 count)
{
	GkStatistics *statistics = &fitter->statistics;
	int			bits = fitter->prepared->value_bits;
	GkCommand	assign = {.operation = GK_ASSIGN};
	GkCommand	command = {.operation = GK_STATISTICS};
	GkSum		total = {0, 0};

	gk_run(fitter->job, &assign);
	statistics->greatest = assign.assign.greatest;
	check_greatest(fitter, assign.assign.greatest);
	statistics->inertia_exponent = gk_grid_exponent(assign.assign.greatest, bits);
	statistics->distance_exponent = gk_grid_exponent(assign.assign.greatest_distance, bits);
	command.statistics.inertia_exponent = statistics->inertia_exponent;
	command.statistics.distance_exponent = statistics->distance_exponent;
	command.statistics.rest_bits = bits;
	command.statistics.sizes = statistics->sizes;
	command.statistics.weights = statistics->weights;
	command.statistics.inertia = statistics->inertia;
	command.statistics.distance = statistics->distance;
	command.statistics.radius2 = statistics->radius2;
	gk_run(fitter->job, &command);
	for (int64 c = 0; c < count; c++)
	{
		total.high += statistics->inertia[c].high;
		total.low += statistics->inertia[c].low;
	}
	return gk_fitter_value(fitter, total, statistics->inertia_exponent);
}
