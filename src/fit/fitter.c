/*
 * Lloyd's iteration and the statistics of the clusters, for starts and searches.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "exact.h"
#include "fitter.h"
#include "fixed_point.h"
#include "progress.h"

/* The most iterations that the engine makes in one command. */
#define MOST_AT_ONCE 64

/* The most values that are looked at to find distant rows, unless more clusters are empty. */
#define MOST_VALUES (1 << 18)

/* The sum of so many equal reals, or fewer, is a double. */
#define EXACT_ROWS (INT64CONST(1) << 29)

/* The clusters that an iteration left empty, and what becomes of them. */
typedef struct Emptied
{
	int64		count;
	bool		can_wait;		/* the centroids are no means yet, but in the next iteration */
	bool		waits;			/* some wait for it */
	int64		moves;			/* so many have moved to rows */
} Emptied;

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

/* The length of a row. */
static double
length_of(const float *row, int dimension)
{
	double		sum = 0.0;

	for (int j = 0; j < dimension; j++)
		sum += (double) row[j] * row[j];
	return sqrt(sum);
}

/*
 * How far rounding may take the mean of rows equal to this one from it, in a feature.  Of each row,
 * a sum loses what its grid does not hold.  With weights, that may be half a step, and of the
 * weight as much; the cluster weighs at least what the row does.  Without, a mean of values that
 * are on the grid is not rounded again, to double.
 */
static double
lost_in_mean(const GkFitter *fitter, int j, double value, double weight)
{
	const GkPrepared *prepared = fitter->prepared;
	int64		rows = fitter->spec->rows;
	int			bits = prepared->exponents[j] + prepared->rest_bits;
	int			weight_bits = prepared->weight_exponent + prepared->rest_bits;
	double		size = Max(fabs(value), FLT_MIN);
	double		scaled;
	double		lost;

	if (fitter->spec->weighted)
		return ldexp(rows, -bits) / weight +
			(ldexp(rows, -weight_bits) / weight + 4 * DBL_EPSILON) * size;
	scaled = ldexp(value, bits);
	lost = fabs(scaled - rint(scaled));
	return lost == 0.0 && rows <= EXACT_ROWS ? 0.0 : ldexp(lost, -bits) + 2 * DBL_EPSILON * size;
}

/*
 * How far a centroid from elsewhere may be from the rows whose mean it was, in a feature: these and
 * the row were rounded to real, and the centroid where its values are, far from their origin.
 */
static double
lost_elsewhere(const GkFitter *fitter, int j, double value)
{
	const GkPrepared *prepared = fitter->prepared;

	return 2 * FLT_EPSILON * fabs(value) + DBL_EPSILON * prepared->factor[j] *
		(fabs(fitter->spec->shift[j]) / 2 + 2 * fabs(prepared->offset[j]));
}

/*
 * True if a row may be no farther from its centroid than from one of its own, so that it is no use
 * to move it.  Where all rows of a cluster are equal, none is farther.  With cosine, centroids have
 * the length 1, and rows that of what they were rounded to, or none at all.
 */
static bool
is_at_centroid(const GkFitter *fitter, const float *row, double weight, const double *centroid,
			   bool is_mean)
{
	int			d = fitter->spec->dimension;
	double		norm = 1.0;
	double		turned = 0.0;
	double		distance2 = 0.0;
	double		lost2 = 0.0;

	if (fitter->spec->metric == GK_COSINE)
	{
		norm = length_of(row, d);
		turned = (d + 4) * DBL_EPSILON;
	}
	for (int j = 0; j < d; j++)
	{
		double		away = row[j] - centroid[j] * norm;
		double		lost = lost_in_mean(fitter, j, row[j], weight) + turned * fabs(row[j]);

		if (!is_mean)
			lost += lost_elsewhere(fitter, j, row[j]);
		distance2 += away * away;
		lost2 += lost * lost;
	}
	return distance2 <= lost2;
}

/* Leaves out the rows that lie at their centroids. */
static int64
keep_distant(GkFitter *fitter, const GkStart *start, int64 *rows, int64 found, bool are_means)
{
	int			d = fitter->spec->dimension;
	float	   *features = gk_allocate(found * d, sizeof(float));
	double	   *weights = gk_allocate(found, sizeof(double));
	int32	   *labels = gk_allocate(found, sizeof(int32));
	GkCommand	fetch = {.operation = GK_ROWS};
	int64		kept = 0;

	fetch.rows.rows = rows;
	fetch.rows.count = found;
	fetch.rows.features = features;
	fetch.rows.weights = weights;
	fetch.rows.labels = labels;
	gk_run(fitter->job, &fetch);
	for (int64 i = 0; i < found; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (labels[i] < 0 || labels[i] >= start->count)
			elog(ERROR, "gkmeans engine gives a row the label of no cluster");
		if (!is_at_centroid(fitter, features + i * d, weights[i],
							start->centroids + labels[i] * (int64) d, are_means))
			rows[kept++] = rows[i];
	}
	pfree(labels);
	pfree(weights);
	pfree(features);
	return kept;
}

/* Lists the rows farthest from their centroids, but for those at no distance; how many. */
static int64
list_farthest(GkFitter *fitter, int64 count, int64 *rows)
{
	GkCommand	farthest = {.operation = GK_FARTHEST};
	GkEntry    *entries = gk_allocate(count, sizeof(GkEntry));
	int64		found = 0;

	farthest.farthest.count = count;
	farthest.farthest.entries = entries;
	gk_run(fitter->job, &farthest);
	while (found < farthest.farthest.found && entries[found].distance2 > 0.0)
	{
		rows[found] = entries[found].row;
		found++;
	}
	pfree(entries);
	return found;
}

/*
 * Finds the rows farthest from their centroids, one for each empty cluster or fewer, and sets
 * *rows to them.  If some of the farthest lie at their centroids, the next ones are looked at; but
 * if the iteration after this one tells more of them, their clusters wait for it.
 */
static int64
find_distant(GkFitter *fitter, GkStart *start, Emptied *emptied, int64 **rows)
{
	GkCommand	get = {.operation = GK_GET_CENTROIDS};
	GkCommand	distances = {.operation = GK_DISTANCES};
	int64		most = Max(emptied->count, MOST_VALUES / fitter->spec->dimension);
	int64		count = emptied->count;
	int64		found;
	int64		kept;

	get.get_centroids.centroids = start->centroids;
	gk_run(fitter->job, &get);
	gk_run(fitter->job, &distances);
	for (;;)
	{
		*rows = gk_allocate(count, sizeof(int64));
		found = list_farthest(fitter, count, *rows);
		kept = found == 0 ? 0 : keep_distant(fitter, start, *rows, found, !emptied->can_wait);
		emptied->waits = emptied->can_wait && kept < found;
		if (kept >= emptied->count || emptied->waits || found < count || count == most)
			return Min(kept, emptied->count);
		pfree(*rows);
		count = Min(4 * count, most);
	}
}

/* Ends a step with empty clusters: moves them to the rows farthest from their centroids. */
static void
relocate_empty(GkFitter *fitter, GkStart *start, GkCommand *step, Emptied *emptied)
{
	GkCommand	relocate = {.operation = GK_RELOCATE};
	int64	   *rows;
	int64	   *clusters = gk_allocate(emptied->count, sizeof(int64));
	int64		found = find_distant(fitter, start, emptied, &rows);

	for (int64 c = 0; c < start->count && emptied->moves < found; c++)
	{
		if (!fitter->is_empty[c])
			continue;
		clusters[emptied->moves++] = c;
		if (start->number == GK_EARLIER_START)
			fitter->is_moved[c] = true;
	}
	relocate.relocate.rows = rows;
	relocate.relocate.clusters = clusters;
	relocate.relocate.count = emptied->moves;
	gk_run(fitter->job, &relocate);
	pfree(clusters);
	pfree(rows);
	step->step.shift2 = relocate.relocate.shift2;
	step->step.between = relocate.relocate.between;
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
 * centroids are not those by which no label changed, unless they are where they were.
 */
static void
end_iteration(GkFitter *fitter, GkStart *start, const GkIterated *iterated,
			  const Emptied *emptied, double tolerance)
{
	start->iterations++;
	fitter->iterations++;
	start->converged = !emptied->waits &&
		((iterated->changed == 0 && (emptied->moves == 0 || iterated->shift2 == 0.0)) ||
		 (tolerance > 0.0 && iterated->shift2 <= tolerance));
	if (fitter->spec->for_model && !fitter->is_searching)
		note_iteration(fitter, start, iterated);
}

/* As many iterations as the engine makes at once, at most `most`; iterated has MOST_AT_ONCE. */
static void
iterate_at_once(GkFitter *fitter, GkStart *start, int most, double tolerance,
				GkIterated *iterated)
{
	GkCommand	step = {.operation = GK_STEP};
	Emptied		none = {0};
	Emptied		emptied = {0};

	step.step.is_empty = fitter->is_empty;
	step.step.more = Min(most, MOST_AT_ONCE) - 1;
	step.step.tolerance = tolerance;
	step.step.iterated = iterated;
	gk_run(fitter->job, &step);
	if (step.step.empty > 0)
	{
		emptied.count = step.step.empty;
		emptied.can_wait = start->iterations + step.step.earlier == 0 && most > 1;
		relocate_empty(fitter, start, &step, &emptied);
	}
	for (int64 i = 0; i < step.step.earlier; i++)
		end_iteration(fitter, start, &iterated[i], &none, tolerance);
	iterated[0].changed = step.step.changed;
	iterated[0].shift2 = step.step.shift2;
	iterated[0].between = step.step.between;
	end_iteration(fitter, start, &iterated[0], &emptied, tolerance);
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
