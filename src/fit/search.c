/*
 * The search for centroids that are better than those in which Lloyd's iteration ends.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "merge.h"
#include "random.h"
#include "search.h"

/* The cost of a row and a cluster beside the features, in features. */
#define WORK_OVERHEAD 8

/*
 * The work of so many steps of `auto` is enough, or twice as much where these are fewer than so
 * many: threads share long steps better.  A step costs as much as so many multiplications more for
 * each row, and for each of its features; what else a round does, for each feature and pair of
 * centroids.
 */
#define AUTO_WORK 5e10
#define FEW_STEPS 500
#define ROW_WORK 450
#define VALUE_WORK 64
#define PAIR_WORK 32

/* Searches with more work than this spare passes over the rows. */
#define LARGE_WORK 1e9

/*
 * Centroids that the first round adds: k, or this share of k after a start that was cut short, or
 * this one with large work; at least so many.
 */
#define CUT_DEPTH_SHARE 2
#define LARGE_DEPTH_SHARE 8
#define LEAST_DEPTH 5

/* Steps of Lloyd's iteration before centroids are merged. */
#define STEPS_BEFORE_MERGE 3

/* The same where they are those of two starts. */
#define STEPS_TO_COMBINE 1

/* A round that takes off less than this share of the inertia has failed; one cut short may less. */
#define LEAST_IMPROVEMENT 1e-4
#define LEAST_IMPROVEMENT_CUT 3e-5

/* Rounds that may fail before fewer centroids are added, where these are few. */
#define FAILURES 2

/* The most Lloyd steps of a search: this many, or this multiple of its start's. */
#define LEAST_STEPS 150
#define STEPS_FACTOR 14

/*
 * With large work, all passes over the rows count: labelling them takes as long as so many steps,
 * drawing some as long as so many.  The rounds make at most the first multiple of their start's
 * steps, the iteration that follows and converges at most the second.
 */
#define LABEL_PASSES 2
#define DRAW_PASSES 4
#define PASSES_FACTOR 11
#define LAST_FACTOR 3

/* Where steps are spared, the most after a merge: this many, or this share of the start's. */
#define LEAST_TRIAL 4
#define TRIAL_SHARE 16

/* Every other row that is added comes so near to its centroid, as a share of its distance. */
#define NEARNESS 0.3

/* Rows drawn at a time, over the centroids that a round adds. */
#define POOL_FACTOR 4

/* The draws of a search are told from those of its start's seeding by this. */
#define SEARCH_START UINT32_C(0x40000000)

/* The draws that shuffle the rows drawn are told from those that draw them by this. */
#define SHUFFLE_ROUND UINT32_C(0x80000000)

typedef struct Search
{
	GkFitter   *fitter;
	GkStart    *best;
	bool		is_labelled;	/* labels and d² in the engine are those of the best */
	GkStart		trial;			/* room for the centroids that a round adds as well */
	double	   *weights;		/* of the clusters before a merge */
	GkSum	   *sums;
	GkDrawer	drawer;
	float	   *pool;			/* rows drawn with the best centroids, or earlier ones */
	int64		pool_count;
	int64		depth;			/* centroids that a round adds */
	int			failures;
	double		least_improvement;
	bool		is_sparing;		/* spares passes over the rows */
	bool		counts_all;		/* all passes over the rows, not only Lloyd's steps */
	int			passes;			/* so far */
	int			pass_limit;
	int			trial_limit;	/* steps after a merge */
	bool		is_cut;			/* the best might still converge */
} Search;

/* Rows by which a search is chosen and limited. */
static double
judged_rows(const GkFitSpec *spec)
{
	return spec->judged_rows > 0 ? spec->judged_rows : spec->rows;
}

/* The work of a pass over the rows. */
double
gk_pass_work(const GkFitSpec *spec, int64 k)
{
	return judged_rows(spec) * k * (spec->dimension + WORK_OVERHEAD);
}

/* Steps that are enough for `auto`. */
double
gk_auto_steps(const GkFitSpec *spec, int64 k)
{
	double		d = spec->dimension;
	double		steps = AUTO_WORK / (gk_pass_work(spec, k) +
									 judged_rows(spec) * (ROW_WORK + VALUE_WORK * d) +
									 PAIR_WORK * d * k * k);

	return Max(steps, Min(2 * steps, FEW_STEPS));
}

/* Centroids that a round adds at first. */
static int64
first_depth(const Search *search)
{
	int64		k = search->best->count;
	int64		depth = k;

	if (search->is_sparing)
		depth = Max(LEAST_DEPTH, k / (search->is_cut ? CUT_DEPTH_SHARE : LARGE_DEPTH_SHARE));
	depth = Min(Min(depth, k), search->fitter->spec->rows - k);
	return k < 2 ? 0 : Max(Min(depth, GK_MAX_CLUSTERS - k), 0);
}

/* Counts passes that are no steps. */
static void
count_passes(Search *search, int passes)
{
	if (!search->counts_all)
		return;
	search->passes += passes;
	search->fitter->iterations += passes;
}

/* Brings the labels and d² of the best centroids back into the engine. */
static void
label_best(Search *search)
{
	GkStart    *best = search->best;

	if (search->is_labelled)
		return;
	gk_fitter_set_centroids(search->fitter, best->centroids, best->count);
	best->inertia = gk_fitter_label_rows(search->fitter, best->count);
	search->is_labelled = true;
}

/* Puts rows into a random order. */
static void
shuffle(const GkDrawer *drawer, int64 *rows, int64 count)
{
	for (int64 i = count - 1; i > 0; i--)
	{
		int64		other = (int64) gk_random_below((uint64) i + 1, drawer->seed, drawer->start,
													drawer->round | SHUFFLE_ROUND, (uint64) i);
		int64		row = rows[i];

		rows[i] = rows[other];
		rows[other] = row;
	}
}

/*
 * Moves a row towards its centroid.  Rows of many features are as far from each other as from any
 * centroid: one of them alone would not have others join it, but what lies between does.
 */
static void
approach(const Search *search, float *row, int32 label)
{
	const GkFitSpec *spec = search->fitter->spec;
	const double *centroid = search->best->centroids + label * (int64) spec->dimension;
	double		norm2 = 0.0;

	if (label < 0 || label >= search->best->count)
		elog(ERROR, "gkmeans engine gives a row the label of no cluster");
	for (int j = 0; j < spec->dimension; j++)
	{
		row[j] = (float) (centroid[j] + NEARNESS * (row[j] - centroid[j]));
		norm2 += (double) row[j] * row[j];
	}
	for (int j = 0; spec->metric == GK_COSINE && norm2 > 0.0 && j < spec->dimension; j++)
		row[j] = (float) (row[j] / sqrt(norm2));
}

/* Draws rows by weight × d² to the best centroids; false if too few are away from them. */
static bool
fill_pool(Search *search)
{
	GkFitter   *fitter = search->fitter;
	int64		wanted = Min(POOL_FACTOR * search->depth, fitter->spec->rows);
	int64	   *rows = gk_allocate(wanted, sizeof(int64));
	GkCommand	fetch = {.operation = GK_ROWS};

	label_best(search);
	count_passes(search, DRAW_PASSES);
	search->pool_count = 0;
	if (fitter->statistics.greatest > 0.0)
		search->pool_count = gk_draw_rows(&search->drawer, GK_MASS_DISTANCE,
										  fitter->statistics.greatest, wanted, rows, NULL);
	shuffle(&search->drawer, rows, search->pool_count);
	fetch.rows.rows = rows;
	fetch.rows.count = search->pool_count;
	fetch.rows.features = search->pool;
	fetch.rows.labels = gk_allocate(wanted, sizeof(int32));
	if (search->pool_count > 0)
		gk_run(fitter->job, &fetch);
	for (int64 i = 0; i < search->pool_count; i += 2)
		approach(search, search->pool + i * fitter->spec->dimension, fetch.rows.labels[i]);
	pfree(fetch.rows.labels);
	pfree(rows);
	search->depth = Min(search->depth, search->pool_count);
	return search->depth > 0;
}

/* The best centroids, and behind them rows of the pool. */
static void
add_centroids(Search *search)
{
	GkStart    *trial = &search->trial;
	int64		d = search->fitter->spec->dimension;
	const float *rows;

	search->pool_count -= search->depth;
	rows = search->pool + search->pool_count * d;
	memcpy(trial->centroids, search->best->centroids, search->best->count * d * sizeof(double));
	for (int64 i = 0; i < search->depth * d; i++)
		trial->centroids[search->best->count * d + i] = rows[i];
	trial->count = search->best->count + search->depth;
}

/* Merges as many centroids as were added. */
static void
merge_centroids(Search *search)
{
	GkFitter   *fitter = search->fitter;
	GkStart    *trial = &search->trial;
	GkCommand	command = {.operation = GK_LABEL_WEIGHTS};

	command.label_weights.count = trial->count;
	command.label_weights.weights = search->sums;
	gk_run(fitter->job, &command);
	for (int64 c = 0; c < trial->count; c++)
		search->weights[c] = gk_sum_value(search->sums[c].high, search->sums[c].low,
										  fitter->prepared->rest_bits);
	trial->count = gk_merge_closest(fitter->job, trial->centroids, search->weights, trial->count,
									fitter->spec->dimension, trial->count - search->depth,
									fitter->spec->metric == GK_COSINE);
}

/* Lloyd's iteration of the trial; counts its steps. */
static void
iterate_trial(Search *search, int limit, bool wants_labels)
{
	if (search->fitter->spec->quality == GK_QUALITY_AUTO)
		limit = Min(limit, Max(search->pass_limit - search->passes, LEAST_TRIAL));
	gk_fitter_iterate(search->fitter, &search->trial, limit, wants_labels);
	search->passes += search->trial.iterations;
}

/* Makes the trial the best. */
static void
keep_trial(Search *search)
{
	GkStart    *best = search->best;
	int64		values = best->count * search->fitter->spec->dimension;

	memcpy(best->centroids, search->trial.centroids, values * sizeof(double));
	best->inertia = search->trial.inertia;
	best->iterations = search->trial.iterations;
	best->converged = search->trial.converged;
	search->is_cut = !best->converged && best->iterations < search->fitter->spec->max_iter;
}

/* One round; whether it made the inertia much less. */
static bool
run_round(Search *search)
{
	GkStart    *trial = &search->trial;
	double		before = search->best->inertia;

	search->is_labelled = false;
	add_centroids(search);
	iterate_trial(search, Min(STEPS_BEFORE_MERGE, search->fitter->spec->max_iter), true);
	merge_centroids(search);
	iterate_trial(search, search->trial_limit, false);
	count_passes(search, LABEL_PASSES);
	trial->inertia = gk_fitter_label_rows(search->fitter, trial->count);
	search->best->rounds++;
	if (trial->inertia < before)
	{
		keep_trial(search);
		search->is_labelled = true;
	}
	return trial->inertia < before * (1.0 - search->least_improvement);
}

/* Adds fewer centroids after rounds that failed; false at the end. */
static bool
go_on(Search *search, bool failed)
{
	search->failures = failed ? search->failures + 1 : 0;
	if (search->failures >= (search->depth > LEAST_DEPTH ? 1 : FAILURES))
	{
		search->depth = search->depth > LEAST_DEPTH ? Max(search->depth * 2 / 3, LEAST_DEPTH)
			: search->depth - 1;
		search->failures = 0;
	}
	return search->depth > 0 && search->passes < search->pass_limit;
}

/* Says how many centroids a search adds, and how long it may take. */
static void
set_limits(Search *search)
{
	const GkFitSpec *spec = search->fitter->spec;
	int			steps = search->best->iterations;
	int64		k = search->best->count;
	double		left;

	search->is_sparing = search->is_cut || gk_pass_work(spec, k) > LARGE_WORK;
	search->counts_all = search->is_sparing || spec->is_pilot ||
		(spec->quality == GK_QUALITY_AUTO && gk_auto_steps(spec, k) <= FEW_STEPS);
	search->depth = first_depth(search);
	search->least_improvement = LEAST_IMPROVEMENT;
	search->trial_limit = spec->max_iter;
	search->pass_limit = Max(LEAST_STEPS, STEPS_FACTOR * steps);
	if (search->is_sparing)
	{
		search->least_improvement = LEAST_IMPROVEMENT_CUT;
		search->trial_limit = Min(Max(LEAST_TRIAL, steps / TRIAL_SHARE), spec->max_iter);
		search->pass_limit = PASSES_FACTOR * steps - STEPS_BEFORE_MERGE - LABEL_PASSES;
	}
	if (spec->quality != GK_QUALITY_AUTO)
		return;
	left = gk_auto_steps(spec, k) - search->fitter->iterations;
	search->pass_limit = (int) Min(search->pass_limit, Max(left, 0.0));
}

/* Lets the iteration converge that a search has cut short. */
static void
finish_best(Search *search, int limit)
{
	GkStart    *best = search->best;

	if (!search->is_cut)
		return;
	gk_fitter_iterate(search->fitter, best, limit, false);
	best->inertia = gk_fitter_label_rows(search->fitter, best->count);
	search->is_labelled = true;
}

/* Room for the centroids of a start, and as many more as are added. */
static void
begin_trial(Search *search)
{
	int64		most = search->best->count + search->depth;

	search->trial.centroids = gk_allocate(most * search->fitter->spec->dimension, sizeof(double));
	search->weights = gk_allocate(most, sizeof(double));
	search->sums = gk_allocate(most, sizeof(GkSum));
}

/* Frees it. */
static void
end_trial(Search *search)
{
	pfree(search->sums);
	pfree(search->weights);
	pfree(search->trial.centroids);
}

/* Rounds until the search ends. */
static void
run_rounds(Search *search)
{
	const GkFitSpec *spec = search->fitter->spec;
	bool		improved = true;

	begin_trial(search);
	search->pool = gk_allocate(POOL_FACTOR * search->depth * spec->dimension, sizeof(float));
	search->drawer = (GkDrawer) {
		.job = search->fitter->job,.rows = spec->rows,.seed = (uint64) spec->seed,
		.start = SEARCH_START | (uint32) search->best->number
	};
	do
	{
		if ((improved || search->pool_count < search->depth) && !fill_pool(search))
			break;
		improved = run_round(search);
	} while (go_on(search, !improved));
	pfree(search->pool);
	end_trial(search);
}

/* Improves a start whose labels and d² are in the engine. */
void
gk_search(GkFitter *fitter, GkStart *start)
{
	const GkFitSpec *spec = fitter->spec;
	Search		search = {.fitter = fitter,.best = start,.is_labelled = true};
	int			last_limit;

	search.is_cut = !start->converged && start->iterations < spec->max_iter;
	last_limit = search.is_cut ? spec->max_iter : LAST_FACTOR * start->iterations;
	set_limits(&search);
	if (search.depth > 0 && search.pass_limit > 0)
		run_rounds(&search);
	finish_best(&search, Min(last_limit, spec->max_iter));
	label_best(&search);
}

/* True if a centroid is among these. */
static bool
is_among(const double *centroid, const double *centroids, int64 count, int dimension)
{
	for (int64 c = 0; c < count; c++)
		if (memcmp(centroids + c * dimension, centroid, dimension * sizeof(double)) == 0)
			return true;
	return false;
}

/* The centroids of a start, and those of another one that it has not. */
static void
unite_centroids(Search *search, const GkStart *other)
{
	const GkStart *start = search->best;
	GkStart    *trial = &search->trial;
	int			d = search->fitter->spec->dimension;
	int64		most = start->count + search->depth;

	memcpy(trial->centroids, start->centroids, start->count * d * sizeof(double));
	trial->count = start->count;
	for (int64 c = 0; c < other->count && trial->count < most; c++)
	{
		const double *centroid = other->centroids + c * d;

		CHECK_FOR_INTERRUPTS();
		if (is_among(centroid, start->centroids, start->count, d))
			continue;
		memcpy(trial->centroids + trial->count++ * d, centroid, d * sizeof(double));
	}
	search->depth = trial->count - start->count;
}

/* Tries what two starts have found together; it becomes the first one's if it beats both. */
void
gk_combine(GkFitter *fitter, GkStart *start, const GkStart *other)
{
	const GkFitSpec *spec = fitter->spec;
	Search		search = {.fitter = fitter,.best = start};
	GkStart    *trial = &search.trial;

	set_limits(&search);
	if (search.is_sparing || search.depth == 0 || search.pass_limit == 0)
		return;
	begin_trial(&search);
	unite_centroids(&search, other);
	if (search.depth > 0)
	{
		iterate_trial(&search, STEPS_TO_COMBINE, true);
		merge_centroids(&search);
		iterate_trial(&search, search.trial_limit, false);
		trial->inertia = gk_fitter_label_rows(fitter, trial->count);
		start->rounds++;
		if (trial->inertia < Min(start->inertia, other->inertia))
			keep_trial(&search);
		finish_best(&search, spec->max_iter);
	}
	end_trial(&search);
}
