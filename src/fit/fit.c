/*
 * The algorithm: k-means on an engine that holds the rows.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "exact.h"
#include "fit.h"
#include "fitter.h"
#include "fixed_point.h"
#include "pilot.h"
#include "prepare.h"
#include "progress.h"
#include "search.h"
#include "seconds.h"
#include "seed.h"

/* The least number of starts for the best quality, and how many `auto` makes at most. */
#define BEST_STARTS 8
#define AUTO_STARTS 32

/* The work up to which `auto` searches. */
#define AUTO_WORK 2e9

/*
 * `auto` makes no further start after so many that ended like the best, to this share of it: fewer
 * suffice once this share of its steps is made.
 */
#define CHEAP_AGREEMENT 10
#define AGREEMENT 3
#define ALIKE 1e-7
#define CHEAP_SHARE (1.0 / 16)

/* The most that the first start takes of the steps of `auto`, but for so many steps. */
#define FIRST_SHARE (1.0 / 4)
#define LEAST_FIRST 10

/*
 * Where all rows get fewer steps, `auto` first fits as many of them as would get this number, if
 * that is at most a quarter, and so many for each cluster.
 */
#define PILOT_STEPS 2000
#define PILOT_ROWS 200

/* Turns a row's d² into its distance. */
double
gk_distance(GkMetric metric, double distance2)
{
	return metric == GK_COSINE ? distance2 / 2 : sqrt(distance2);
}

/* The first centroids of a start. */
static void
choose_centroids(GkFitter *fitter, GkStart *start)
{
	const GkFitSpec *spec = fitter->spec;
	GkSeedSpec	seed = {.job = fitter->job};

	if (start->number == GK_EARLIER_START)
	{
		memcpy(start->centroids, spec->earlier,
			   (Size) spec->k * spec->dimension * sizeof(double));
		start->count = spec->k;
		return;
	}
	if (spec->init == GK_INIT_GIVEN)
	{
		gk_to_stored(spec, fitter->prepared, spec->initial, spec->k, start->centroids);
		start->count = spec->k;
		return;
	}
	seed.init = spec->init;
	seed.k = Min(fitter->k, spec->rows);
	seed.rows = spec->rows;
	seed.dimension = spec->dimension;
	seed.spherical = spec->metric == GK_COSINE;
	seed.variance = fitter->prepared->mean_variance * spec->dimension;
	seed.greatest_weight = fitter->prepared->greatest_weight;
	seed.rest_bits = fitter->prepared->rest_bits;
	seed.seed = (uint64) spec->seed;
	seed.start = (uint32) start->number;
	seed.oversampling = spec->oversampling;
	seed.rounds = spec->rounds;
	start->count = gk_seed(&seed, start->centroids);
}

/* The quality of a fit; `auto` goes by sizes alone, so that the machine makes no difference. */
static GkFitQuality
choose_quality(const GkFitSpec *spec, int64 k)
{
	if (spec->init == GK_INIT_GIVEN)
		return GK_QUALITY_FAST;
	if (spec->quality != GK_QUALITY_AUTO)
		return spec->quality;
	/* one cluster has one optimum */
	return k > 1 && gk_pass_work(spec, k) <= AUTO_WORK ? GK_QUALITY_BEST : GK_QUALITY_FAST;
}

/* How many starts there are at most; `auto` may make fewer than it was not asked for. */
static int
number_of_starts(const GkFitter *fitter)
{
	const GkFitSpec *spec = fitter->spec;

	if (spec->init == GK_INIT_GIVEN)
		return 1;
	if (fitter->fit->quality != GK_QUALITY_BEST || spec->n_init == 0)
		return spec->n_init;
	return Max(spec->n_init, spec->quality == GK_QUALITY_AUTO ? AUTO_STARTS : BEST_STARTS);
}

/* Shows others which start begins; that from earlier centroids is the first. */
static void
show_start(const GkFitter *fitter, const GkStart *start)
{
	int			earlier = fitter->spec->earlier != NULL ? 1 : 0;

	gk_progress_start(start->number + 1 + earlier, number_of_starts(fitter) + earlier,
					  fitter->spec->max_iter);
}

/* Shows others the inertia of the best start. */
static void
show_inertia(const GkFitter *fitter, const GkStart *best)
{
	if (!fitter->spec->is_inner)
		gk_progress_inertia(best->inertia);
}

/* True if there is a search from a start of its own, and not from the best of all starts alone. */
static bool
searches_each(const GkFitter *fitter, const GkStart *start)
{
	if (start->number == GK_EARLIER_START)
		return false;
	return fitter->fit->quality == GK_QUALITY_BEST ||
		(fitter->fit->quality == GK_QUALITY_GOOD && fitter->spec->earlier != NULL);
}

/* The most steps of a start; `auto` leaves some for the search, which goes on where they end. */
static int
start_limit(const GkFitter *fitter, const GkStart *start)
{
	const GkFitSpec *spec = fitter->spec;
	double		limit = FIRST_SHARE * gk_auto_steps(spec, fitter->k);

	if (spec->quality != GK_QUALITY_AUTO || start->number != 0 || !searches_each(fitter, start))
		return spec->max_iter;
	return (int) Min(spec->max_iter, Max(limit, LEAST_FIRST));
}

/* How many rows are fitted before all of them; 0 if that is not worth it. */
static int64
pilot_rows(const GkFitter *fitter, const GkStart *start)
{
	const GkFitSpec *spec = fitter->spec;
	double		rows = spec->rows * (gk_auto_steps(spec, fitter->k) / PILOT_STEPS);

	if (spec->quality != GK_QUALITY_AUTO || start->number != 0 || !searches_each(fitter, start) ||
		spec->weighted || spec->is_inner)
		return 0;
	return rows <= spec->rows / 4 && rows >= (double) PILOT_ROWS * fitter->k ? (int64) rows : 0;
}

/* The specification of a fit of some rows, as they are compared. */
static GkFitSpec
pilot_spec(const GkFitter *fitter, int64 rows)
{
	GkFitSpec	pilot = *fitter->spec;

	pilot.k = fitter->k;
	pilot.rows = rows;
	pilot.shift = gk_allocate_zero(pilot.dimension, sizeof(double));
	pilot.names = NULL;
	pilot.scale = GK_SCALE_NONE;
	pilot.n_init = 1;
	pilot.for_model = false;
	pilot.is_inner = true;
	pilot.is_pilot = true;
	pilot.earlier = NULL;
	return pilot;
}

/* The centroids of a fit of a sample become the first of a start; false if some are missing. */
static bool
begin_with_pilot(GkFitter *fitter, GkStart *start, int64 count)
{
	GkJob	   *job = gk_job_begin_part(fitter->job);
	int64		rows = gk_open_pilot(fitter->job, fitter->spec, fitter->prepared->greatest_weight,
									 count, job);
	MemoryContext before = MemoryContextSwitchTo(gk_job_context(job));
	GkFitSpec	spec = pilot_spec(fitter, rows);
	GkPrepared	prepared;
	GkFit		fit;

	gk_prepare(job, &spec, &prepared);
	gk_fit_prepared(job, &spec, &prepared, &fit);
	start->count = fit.k;
	memcpy(start->centroids, fit.centroids, (Size) fit.k * spec.dimension * sizeof(double));
	MemoryContextSwitchTo(before);
	gk_job_end(job);
	return start->count == fitter->k;
}

/* The first centroids of a start. */
static void
begin_start(GkFitter *fitter, GkStart *start)
{
	int64		rows = pilot_rows(fitter, start);
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	gk_progress_phase(GK_PHASE_SEEDING);
	if (rows == 0 || !begin_with_pilot(fitter, start, rows))
		choose_centroids(fitter, start);
	show_start(fitter, start);
	fitter->fit->seed_seconds += gk_seconds_since(begin);
}

/* One start, from its first centroids to its labels. */
static void
run_start(GkFitter *fitter, GkStart *start)
{
	instr_time	begin;

	show_start(fitter, start);
	begin_start(fitter, start);
	gk_progress_phase(GK_PHASE_ITERATING);
	INSTR_TIME_SET_CURRENT(begin);
	gk_fitter_iterate(fitter, start, start_limit(fitter, start), false);
	fitter->fit->iterate_seconds += gk_seconds_since(begin);
	gk_progress_phase(GK_PHASE_LABELLING);
	INSTR_TIME_SET_CURRENT(begin);
	start->inertia = gk_fitter_label_rows(fitter, start->count);
	start->first_iterations = start->iterations;
	start->first_inertia = start->inertia;
	start->rounds = 0;
	fitter->fit->label_seconds += gk_seconds_since(begin);
}

/* Writes down what a search came to; its rounds count on where the iterations ended. */
static void
note_search(GkFitter *fitter, const GkStart *start)
{
	GkIteration iteration = {.start = start->number + 1};

	iteration.iteration = start->first_iterations + start->rounds;
	iteration.inertia = start->inertia;
	iteration.shift = NAN;
	iteration.moved = -1;
	iteration.is_last = true;
	gk_history_add(&fitter->fit->model.history, &iteration);
}

/* Searches from a start, and then for what is better than it and the best one before it. */
static void
search_from(GkFitter *fitter, GkStart *start, const GkStart *best)
{
	instr_time	begin;

	gk_progress_phase(GK_PHASE_ITERATING);
	INSTR_TIME_SET_CURRENT(begin);
	fitter->is_searching = true;
	gk_search(fitter, start);
	if (best != NULL && fitter->fit->quality == GK_QUALITY_BEST)
		gk_combine(fitter, start, best);
	fitter->is_searching = false;
	if (fitter->spec->for_model && start->rounds > 0)
		note_search(fitter, start);
	fitter->fit->iterate_seconds += gk_seconds_since(begin);
	gk_progress_phase(GK_PHASE_LABELLING);
}

/*
 * True if another start is more than was asked for, and several have ended alike or the iterations
 * so far took long.
 */
static bool
has_done_enough(const GkFitter *fitter, int starts_done)
{
	const GkFitSpec *spec = fitter->spec;
	double		steps = gk_auto_steps(spec, fitter->k);
	bool		is_cheap = fitter->iterations < CHEAP_SHARE * steps;

	return spec->quality == GK_QUALITY_AUTO && starts_done >= spec->n_init &&
		(fitter->iterations >= steps ||
		 fitter->agreed >= (is_cheap ? CHEAP_AGREEMENT : AGREEMENT));
}

/* Counts the starts that end like the best one. */
static void
count_agreed(GkFitter *fitter, const GkStart *best, const GkStart *fresh)
{
	if (fabs(fresh->inertia - best->inertia) <= ALIKE * best->inertia)
		fitter->agreed++;
	else if (fresh->inertia < best->inertia)
		fitter->agreed = 0;
}

/* Runs the starts after the first, and keeps the best; returns the number of the last one. */
static int
run_more_starts(GkFitter *fitter, int starts, GkStart *best)
{
	GkStart		fresh = {0};
	int			number;

	fresh.centroids = gk_allocate(fitter->k * fitter->spec->dimension, sizeof(double));
	for (number = best->number + 1; number < starts && !has_done_enough(fitter, number); number++)
	{
		fresh.number = number;
		run_start(fitter, &fresh);
		if (searches_each(fitter, &fresh))
			search_from(fitter, &fresh, best);
		count_agreed(fitter, best, &fresh);
		if (fresh.inertia < best->inertia)
		{
			GkStart		spare = *best;

			*best = fresh;
			fresh = spare;
			show_inertia(fitter, best);
		}
	}
	pfree(fresh.centroids);
	return number - 1;
}

/* All starts and searches; at the end the engine holds the labels of the best. */
static void
run_starts(GkFitter *fitter, GkStart *best)
{
	int			starts = number_of_starts(fitter);

	best->number = fitter->spec->earlier != NULL ? GK_EARLIER_START : 0;
	best->centroids = gk_allocate(fitter->k * fitter->spec->dimension, sizeof(double));
	run_start(fitter, best);
	if (searches_each(fitter, best))
		search_from(fitter, best, NULL);
	show_inertia(fitter, best);
	if (best->number + 1 < starts && (run_more_starts(fitter, starts, best) != best->number ||
									  fitter->fit->quality == GK_QUALITY_BEST))
	{
		gk_fitter_set_centroids(fitter, best->centroids, best->count);
		best->inertia = gk_fitter_label_rows(fitter, best->count);
	}
	if (fitter->fit->quality == GK_QUALITY_GOOD && fitter->spec->earlier == NULL)
		search_from(fitter, best, NULL);
}

/* The order of the clusters: rows descending, then centroids ascending. */
static int
compare_labels(const void *a, const void *b, void *arg)
{
	int64		left = *(const int32 *) a;
	int64		right = *(const int32 *) b;
	const GkFitter *fitter = arg;
	const int64 *sizes = fitter->statistics.sizes;
	const double *centroids = fitter->fit->centroids;
	int			d = fitter->spec->dimension;

	if (sizes[left] != sizes[right])
		return sizes[left] > sizes[right] ? -1 : 1;
	for (int j = 0; j < d; j++)
		if (centroids[left * d + j] != centroids[right * d + j])
			return centroids[left * d + j] < centroids[right * d + j] ? -1 : 1;
	return (left > right) - (left < right);
}

/* One cluster as users see it. */
static void
describe_cluster(const GkFitter *fitter, int64 label, GkCluster *cluster)
{
	const GkStatistics *statistics = &fitter->statistics;
	GkMetric	metric = fitter->spec->metric;

	cluster->size = statistics->sizes[label];
	cluster->weight = gk_fitter_value(fitter, statistics->weights[label],
									  fitter->prepared->weight_exponent);
	cluster->inertia = gk_fitter_value(fitter, statistics->inertia[label],
									   statistics->inertia_exponent);
	cluster->avg_distance = metric == GK_COSINE ? cluster->inertia / 2
		: gk_fitter_value(fitter, statistics->distance[label], statistics->distance_exponent);
	/* NaN if a cluster's weights are so small that the sums lose them */
	cluster->avg_distance /= cluster->weight > 0.0 ? cluster->weight : NAN;
	cluster->radius = gk_distance(metric, statistics->radius2[label]);
}

/* The DETAIL of fewer clusters: there are no more rows that differ. */
static int
detail_of_rows(const GkFitSpec *spec, int64 count)
{
	const char *which = spec->weighted ? " with a weight above zero" : "";

	if (spec->metric == GK_COSINE)
		return errdetail_plural("The rows%s have only %lld direction.",
								"The rows%s have only %lld directions.",
								count, which, (long long) count);
	return errdetail_plural("Rounded to real, there is only %lld distinct row%s.",
							"Rounded to real, there are only %lld distinct rows%s.",
							count, (long long) count, which);
}

/* Warns that there are fewer clusters than requested, and why. */
static void
warn_of_fewer(const GkFitter *fitter, const GkStart *best)
{
	int64		k = fitter->spec->k;

	if (fitter->fit->k == k || fitter->spec->is_inner)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg_plural("found %lld cluster instead of %lld",
						   "found %lld clusters instead of %lld", fitter->fit->k,
						   (long long) fitter->fit->k, (long long) k),
			 best->count < k ? detail_of_rows(fitter->spec, best->count)
			 : errdetail("The others are empty, and their numbers are left out.")));
}

/* Keeps what a model needs: the centroids as rows are compared with them, in cluster order. */
static void
keep_for_model(GkFitter *fitter, const GkStart *best, const int32 *labels)
{
	GkFit	   *fit = fitter->fit;
	GkFitModel *model = &fit->model;
	int			d = fitter->spec->dimension;

	model->offset = fitter->prepared->offset;
	model->factor = fitter->prepared->factor;
	model->mean = fitter->prepared->mean;
	model->variance = fitter->prepared->variance;
	model->least = fitter->prepared->least;
	model->greatest = fitter->prepared->greatest;
	model->greatest_weight = fitter->prepared->greatest_weight;
	model->points = gk_allocate(fit->k * d, sizeof(double));
	for (int64 c = 0; c < fit->k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		memcpy(model->points + c * d, best->centroids + labels[c] * (int64) d, d * sizeof(double));
	}
}

/* Keeps where the clusters of the labels are. */
static void
keep_places(GkFit *fit, int64 label_count, const int32 *labels)
{
	GkFitModel *model = &fit->model;

	model->ties = gk_allocate(fit->k, sizeof(int32));
	model->place_of_label = gk_allocate(label_count, sizeof(int32));
	for (int64 label = 0; label < label_count; label++)
		model->place_of_label[label] = -1;
	for (int64 c = 0; c < fit->k; c++)
		model->place_of_label[labels[c]] = (int32) c;
	for (int64 label = 0, next = 0; label < label_count; label++)
		if (model->place_of_label[label] >= 0)
			model->ties[next++] = model->place_of_label[label];
}

/* Makes 0 of the -0 of initial centroids and rows, which no distance sees, and JSON cannot hold. */
static void
drop_negative_zeros(const GkStart *best, int dimension)
{
	for (int64 c = 0; c < best->count; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < dimension; j++)
			best->centroids[c * dimension + j] += 0.0;
	}
}

/*
 * Puts the clusters in order, leaving out the empty ones.  Initial centroids from the user, and
 * those of an earlier fit, keep their numbers, so that a fit can continue an earlier one: if one
 * ends empty, its number is not used.
 */
static void
order_clusters(GkFitter *fitter, const GkStart *best)
{
	GkFit	   *fit = fitter->fit;
	int			d = fitter->spec->dimension;
	bool		is_given = fitter->spec->init == GK_INIT_GIVEN || best->number == GK_EARLIER_START;
	int32	   *labels = gk_allocate(best->count, sizeof(int32));
	double	   *ordered;

	fit->centroids = fitter->spec->for_model ? gk_allocate(best->count * d, sizeof(double))
		: best->centroids;
	drop_negative_zeros(best, d);
	gk_to_user(fitter->spec, fitter->prepared, best->centroids, best->count, fit->centroids);
	for (int64 c = 0; c < best->count; c++)
		if (fitter->statistics.sizes[c] > 0)
			labels[fit->k++] = (int32) c;
	if (!is_given)
		qsort_interruptible(labels, fit->k, sizeof(int32), compare_labels, fitter);
	fit->clusters = gk_allocate(fit->k, sizeof(GkCluster));
	ordered = gk_allocate(fit->k * d, sizeof(double));
	for (int64 c = 0; c < fit->k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		describe_cluster(fitter, labels[c], &fit->clusters[c]);
		memcpy(ordered + c * d, fit->centroids + labels[c] * (int64) d, d * sizeof(double));
		fit->clusters[c].id = is_given ? labels[c] : (int32) c;
	}
	keep_places(fit, best->count, labels);
	if (fitter->spec->for_model)
	{
		keep_for_model(fitter, best, labels);
		pfree(fit->centroids);
	}
	fit->centroids = ordered;
	pfree(best->centroids);
	pfree(labels);
}

/* What a centroid of length 1 adds to the inertia of a single cluster around its mean. */
static double
cost_of_length(const GkFitter *fitter, const double *mean)
{
	double		weight = gk_fitter_value(fitter, fitter->statistics.weights[0],
										 fitter->prepared->weight_exponent);
	double		norm2 = 0.0;

	for (int j = 0; j < fitter->spec->dimension; j++)
		norm2 += mean[j] * mean[j];
	return weight * (1.0 - sqrt(norm2)) * (1.0 - sqrt(norm2));
}

/* The inertia of a single cluster; runs before the fit, whose labels it would overwrite. */
static void
find_total(GkFitter *fitter)
{
	GkCommand	step = {.operation = GK_STEP};
	GkCommand	mean = {.operation = GK_CENTROIDS};
	GkCommand	get = {.operation = GK_GET_CENTROIDS};

	mean.centroids.centroids = fitter->prepared->mean;
	mean.centroids.k = 1;
	gk_run(fitter->job, &mean);
	gk_run(fitter->job, &step);
	fitter->prepared->total = gk_fitter_label_rows(fitter, 1);
	fitter->prepared->total_to_origin = fitter->prepared->total + step.step.between;
	fitter->prepared->single = fitter->prepared->total;
	if (fitter->spec->metric != GK_COSINE)
		return;
	get.get_centroids.centroids = gk_allocate(fitter->spec->dimension, sizeof(double));
	gk_run(fitter->job, &get);
	fitter->prepared->single += cost_of_length(fitter, get.get_centroids.centroids);
	pfree(get.get_centroids.centroids);
}

/* Allocates the statistics of this many clusters. */
static void
begin_statistics(GkStatistics *statistics, int64 clusters)
{
	statistics->sizes = gk_allocate(clusters, sizeof(int64));
	statistics->weights = gk_allocate(clusters, sizeof(GkSum));
	statistics->inertia = gk_allocate(clusters, sizeof(GkSum));
	statistics->distance = gk_allocate(clusters, sizeof(GkSum));
	statistics->radius2 = gk_allocate(clusters, sizeof(double));
}

/* Room for what the engine says of the clusters. */
static void
begin_fitter(GkFitter *fitter)
{
	const GkFitSpec *spec = fitter->spec;

	fitter->k = spec->init == GK_INIT_GIVEN || spec->earlier != NULL ? spec->k
		: Min(spec->k, spec->rows);
	fitter->fit->quality = choose_quality(spec, fitter->k);
	fitter->is_empty = gk_allocate_zero(2 * fitter->k, sizeof(uint8));
	begin_statistics(&fitter->statistics, fitter->k);
	if (spec->earlier != NULL)
		fitter->is_moved = gk_allocate_zero(fitter->k, sizeof(bool));
}

/* Fits prepared rows; labels and d² of the result stay in the engine. */
void
gk_fit_prepared(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared, GkFit *fit)
{
	GkFitter		fitter = {.job = job,.spec = spec,.prepared = prepared,.fit = fit};
	GkStart		best = {0};

	memset(fit, 0, sizeof(*fit));
	fit->prepare_seconds = prepared->seconds;
	begin_fitter(&fitter);
	if (spec->for_model)
	{
		if (isnan(prepared->total))
			find_total(&fitter);
		fit->model.total = prepared->total;
		fit->model.single = prepared->single;
		gk_history_begin(&fit->model.history);
	}
	run_starts(&fitter, &best);
	order_clusters(&fitter, &best);
	fit->labels = best.count;
	fit->inertia = best.inertia;
	fit->iterations = best.first_iterations;
	fit->converged = best.converged;
	fit->best_start = best.number;
	fit->is_moved = fitter.is_moved;
	fit->search_rounds = best.rounds;
	fit->search_improvement = best.rounds > 0 && best.first_inertia > 0.0
		? 1.0 - best.inertia / best.first_inertia : 0.0;
	warn_of_fewer(&fitter, &best);
}

/* Labels prepared rows with centroids as they are. */
double
gk_fit_label(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared, const double *points,
			 int64 count, GkCluster *clusters)
{
	GkFitter		fitter = {.job = job,.spec = spec,.prepared = prepared};
	double		inertia;

	begin_statistics(&fitter.statistics, count);
	gk_fitter_set_centroids(&fitter, points, count);
	inertia = gk_fitter_label_rows(&fitter, count);
	for (int64 c = 0; c < count; c++)
	{
		describe_cluster(&fitter, c, &clusters[c]);
		clusters[c].id = (int32) c;
	}
	return inertia;
}

/* The order of places by the ids that clusters are to have. */
static int
compare_ids(const void *a, const void *b, void *ids)
{
	int32		left = ((const int32 *) ids)[*(const int32 *) a];
	int32		right = ((const int32 *) ids)[*(const int32 *) b];

	return (left > right) - (left < right);
}

/* Rows of numbers in another order. */
static double *
reorder(double *rows, const int32 *order, int64 count, int dimension)
{
	double	   *ordered = gk_allocate(count * dimension, sizeof(double));

	for (int64 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		memcpy(ordered + i * dimension, rows + order[i] * (int64) dimension,
			   dimension * sizeof(double));
	}
	pfree(rows);
	return ordered;
}

/* Gives the clusters other ids and puts them in that order. */
void
gk_fit_renumber(GkFit *fit, int dimension, const int32 *ids)
{
	GkFitModel *model = &fit->model;
	GkCluster  *clusters = gk_allocate(fit->k, sizeof(GkCluster));
	int32	   *order = gk_allocate(fit->k, sizeof(int32));
	int32	   *place_of = gk_allocate(fit->k, sizeof(int32));

	for (int32 c = 0; c < fit->k; c++)
		order[c] = c;
	qsort_interruptible(order, fit->k, sizeof(int32), compare_ids, (void *) ids);
	for (int32 c = 0; c < fit->k; c++)
	{
		place_of[order[c]] = c;
		clusters[c] = fit->clusters[order[c]];
		clusters[c].id = ids[order[c]];
	}
	for (int64 label = 0; label < fit->labels; label++)
		if (model->place_of_label[label] >= 0)
			model->place_of_label[label] = place_of[model->place_of_label[label]];
	for (int64 i = 0; i < fit->k; i++)
		model->ties[i] = place_of[model->ties[i]];
	fit->centroids = reorder(fit->centroids, order, fit->k, dimension);
	model->points = reorder(model->points, order, fit->k, dimension);
	pfree(fit->clusters);
	fit->clusters = clusters;
	pfree(order);
	pfree(place_of);
}

/* Prepares the rows and fits. */
void
gk_fit(GkJob *job, const GkFitSpec *spec, GkFit *fit)
{
	GkPrepared	prepared;

	gk_progress_phase(GK_PHASE_SEEDING);
	gk_prepare(job, spec, &prepared);
	gk_fit_prepared(job, spec, &prepared, fit);
}

/* Labels the rows with these centroids. */
static void
label_with(GkJob *job, const double *points, int64 k)
{
	GkCommand	centroids = {.operation = GK_CENTROIDS};
	GkCommand	assign = {.operation = GK_ASSIGN};

	centroids.centroids.centroids = points;
	centroids.centroids.k = k;
	gk_run(job, &centroids);
	gk_run(job, &assign);
}

/* Brings labels and d² of an earlier fit back, numbered in the order in which ties are decided. */
void
gk_fit_restore(GkJob *job, const GkFitSpec *spec, GkFit *fit)
{
	GkFitModel *model = &fit->model;
	int			d = spec->dimension;
	double	   *points = gk_allocate(fit->k * d, sizeof(double));

	for (int64 label = 0; label < fit->k; label++)
	{
		int64		place = model->ties[label];

		CHECK_FOR_INTERRUPTS();
		memcpy(points + label * d, model->points + place * d, d * sizeof(double));
		model->place_of_label[label] = (int32) place;
	}
	fit->labels = fit->k;
	label_with(job, points, fit->k);
	pfree(points);
}

/* Labels the rows with spec->points. */
void
gk_label(GkJob *job, const GkFitSpec *spec)
{
	GkPrepared	prepared = {0};

	gk_progress_phase(GK_PHASE_LABELLING);
	gk_prepare(job, spec, &prepared);
	label_with(job, spec->points, spec->k);
}
