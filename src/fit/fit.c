/*
 * The algorithm: k-means on an engine that holds the rows.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "exact.h"
#include "fit.h"
#include "fixed_point.h"
#include "prepare.h"
#include "progress.h"
#include "seconds.h"
#include "seed.h"

/* The statistics of the clusters, as the engine returns them, by label. */
typedef struct Statistics
{
	int			inertia_exponent;
	int			distance_exponent;
	int64	   *sizes;
	GkSum	   *weights;
	GkSum	   *inertia;
	GkSum	   *distance;
	double	   *radius2;
} Statistics;

/* The state of a fit. */
typedef struct Fitter
{
	GkJob	   *job;
	const GkFitSpec *spec;
	GkPrepared *prepared;
	int64		k;				/* clusters requested, at most the number of rows */
	uint8	   *is_empty;		/* k */
	Statistics	statistics;
	GkFit	   *fit;
} Fitter;

/* The result of one start. */
typedef struct Start
{
	int			number;
	int64		count;			/* centroids */
	double	   *centroids;		/* k × dimension, in the engine's units */
	double		inertia;
	int			iterations;
	bool		converged;
} Start;

/* Turns a row's d² into its distance. */
double
gk_distance(GkMetric metric, double distance2)
{
	return metric == GK_COSINE ? distance2 / 2 : sqrt(distance2);
}

/* The value of a two-limb sum of the statistics. */
static double
value_of(const Fitter *fitter, GkSum sum, int exponent)
{
	return gk_grid_value(sum.high, sum.low, exponent, fitter->prepared->value_bits);
}

/* Sets centroids. */
static void
set_centroids(Fitter *fitter, const double *centroids, int64 count)
{
	GkCommand	command = {.operation = GK_CENTROIDS};

	command.centroids.centroids = centroids;
	command.centroids.k = count;
	command.centroids.spherical = fitter->spec->metric == GK_COSINE;
	gk_run(fitter->job, &command);
}

/* The first centroids of a start. */
static void
choose_centroids(Fitter *fitter, Start *start)
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
	seed.greatest_weight = fitter->prepared->greatest_weight;
	seed.rest_bits = fitter->prepared->rest_bits;
	seed.seed = (uint64) spec->seed;
	seed.start = (uint32) start->number;
	seed.oversampling = spec->oversampling;
	seed.rounds = spec->rounds;
	start->count = gk_seed(&seed, start->centroids);
}

/* Moves empty clusters to the rows farthest from their centroids; returns the shift. */
static double
relocate_empty(Fitter *fitter, int64 count, int64 empty)
{
	GkCommand	distances = {.operation = GK_DISTANCES};
	GkCommand	farthest = {.operation = GK_FARTHEST};
	GkCommand	relocate = {.operation = GK_RELOCATE};
	GkEntry    *entries = gk_allocate(empty, sizeof(GkEntry));
	int64	   *rows = gk_allocate(empty, sizeof(int64));
	int64	   *clusters = gk_allocate(empty, sizeof(int64));
	int64		moves = 0;

	gk_run(fitter->job, &distances);
	farthest.farthest.count = empty;
	farthest.farthest.entries = entries;
	gk_run(fitter->job, &farthest);
	for (int64 c = 0; c < count && moves < farthest.farthest.found; c++)
	{
		if (!fitter->is_empty[c])
			continue;
		if (!(entries[moves].distance2 > 0.0))
			break;
		rows[moves] = entries[moves].row;
		clusters[moves++] = c;
	}
	relocate.relocate.rows = rows;
	relocate.relocate.clusters = clusters;
	relocate.relocate.count = moves;
	gk_run(fitter->job, &relocate);
	pfree(clusters);
	pfree(rows);
	pfree(entries);
	return relocate.relocate.shift2;
}

/* Lloyd's iteration until no label changes, the centroids hardly move, or max_iter is reached. */
static void
iterate(Fitter *fitter, Start *start)
{
	double		tolerance = fitter->spec->tol * fitter->prepared->mean_variance;
	GkCommand	get = {.operation = GK_GET_CENTROIDS};

	set_centroids(fitter, start->centroids, start->count);
	start->converged = false;
	start->iterations = 0;
	while (start->iterations < fitter->spec->max_iter && !start->converged)
	{
		GkCommand	step = {.operation = GK_STEP};
		double		shift2;

		step.step.is_empty = fitter->is_empty;
		gk_run(fitter->job, &step);
		shift2 = step.step.shift2;
		if (step.step.empty > 0)
			shift2 = relocate_empty(fitter, start->count, step.step.empty);
		start->iterations++;
		gk_progress_iteration(start->iterations, step.step.changed);
		start->converged = step.step.changed == 0
			|| (tolerance > 0.0 && shift2 <= tolerance);
	}
	get.get_centroids.centroids = start->centroids;
	gk_run(fitter->job, &get);
}

/* Labels the rows with `count` final centroids, computes the statistics, returns the inertia. */
static double
label_rows(Fitter *fitter, int64 count)
{
	Statistics *statistics = &fitter->statistics;
	int			bits = fitter->prepared->value_bits;
	GkCommand	assign = {.operation = GK_ASSIGN};
	GkCommand	command = {.operation = GK_STATISTICS};
	GkSum		total = {0, 0};

	gk_run(fitter->job, &assign);
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
	return value_of(fitter, total, statistics->inertia_exponent);
}

/* How many starts there are. */
static int
number_of_starts(const GkFitSpec *spec)
{
	return spec->init == GK_INIT_GIVEN ? 1 : spec->n_init;
}

/* Shows others which start begins; that from earlier centroids is the first. */
static void
show_start(const Fitter *fitter, const Start *start)
{
	int			earlier = fitter->spec->earlier != NULL ? 1 : 0;

	gk_progress_start(start->number + 1 + earlier, number_of_starts(fitter->spec) + earlier,
					  fitter->spec->max_iter);
}

/* One start, from its first centroids to its labels. */
static void
run_start(Fitter *fitter, Start *start)
{
	instr_time	begin;

	show_start(fitter, start);
	gk_progress_phase(GK_PHASE_SEEDING);
	INSTR_TIME_SET_CURRENT(begin);
	choose_centroids(fitter, start);
	fitter->fit->seed_seconds += gk_seconds_since(begin);
	gk_progress_phase(GK_PHASE_ITERATING);
	INSTR_TIME_SET_CURRENT(begin);
	iterate(fitter, start);
	fitter->fit->iterate_seconds += gk_seconds_since(begin);
	gk_progress_phase(GK_PHASE_LABELLING);
	INSTR_TIME_SET_CURRENT(begin);
	start->inertia = label_rows(fitter, start->count);
	fitter->fit->label_seconds += gk_seconds_since(begin);
}

/* All starts; at the end the engine holds the labels of the best. */
static void
run_starts(Fitter *fitter, Start *best)
{
	int			starts = number_of_starts(fitter->spec);
	int64		values = fitter->k * fitter->spec->dimension;
	Start		fresh = {0};

	best->number = fitter->spec->earlier != NULL ? GK_EARLIER_START : 0;
	best->centroids = gk_allocate(values, sizeof(double));
	run_start(fitter, best);
	gk_progress_inertia(best->inertia);
	if (best->number + 1 >= starts)
		return;
	fresh.centroids = gk_allocate(values, sizeof(double));
	for (fresh.number = best->number + 1; fresh.number < starts; fresh.number++)
	{
		run_start(fitter, &fresh);
		if (fresh.inertia < best->inertia)
		{
			double	   *spare = best->centroids;

			*best = fresh;
			fresh.centroids = spare;
			gk_progress_inertia(best->inertia);
		}
	}
	if (best->number != starts - 1)
	{
		set_centroids(fitter, best->centroids, best->count);
		best->inertia = label_rows(fitter, best->count);
	}
	pfree(fresh.centroids);
}

/* The order of the clusters: rows descending, then centroids ascending. */
static int
compare_labels(const void *a, const void *b, void *arg)
{
	int64		left = *(const int32 *) a;
	int64		right = *(const int32 *) b;
	const Fitter *fitter = arg;
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
describe_cluster(const Fitter *fitter, int64 label, GkCluster *cluster)
{
	const Statistics *statistics = &fitter->statistics;
	GkMetric	metric = fitter->spec->metric;

	cluster->size = statistics->sizes[label];
	cluster->weight = value_of(fitter, statistics->weights[label],
							   fitter->prepared->weight_exponent);
	cluster->inertia = value_of(fitter, statistics->inertia[label],
								statistics->inertia_exponent);
	cluster->avg_distance = metric == GK_COSINE ? cluster->inertia / 2
		: value_of(fitter, statistics->distance[label], statistics->distance_exponent);
	/* NaN if a cluster's weights are so small that the sums lose them */
	cluster->avg_distance /= cluster->weight > 0.0 ? cluster->weight : NAN;
	cluster->radius = gk_distance(metric, statistics->radius2[label]);
}

/* Warns that there are fewer clusters than requested, and why. */
static void
warn_of_fewer(const Fitter *fitter, const Start *best)
{
	int64		k = fitter->spec->k;

	if (fitter->fit->k == k)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg_plural("found %lld cluster instead of %lld",
						   "found %lld clusters instead of %lld", fitter->fit->k,
						   (long long) fitter->fit->k, (long long) k),
			 best->count < k
			 ? errdetail_plural("There is only %lld distinct row with a weight above zero.",
								"There are only %lld distinct rows with a weight above zero.",
								best->count, (long long) best->count)
			 : errdetail("The others are empty, and their numbers are left out.")));
}

/* Keeps what a model needs: the centroids as rows are compared with them, in cluster order. */
static void
keep_for_model(Fitter *fitter, const Start *best, const int32 *labels)
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
		memcpy(model->points + c * d, best->centroids + labels[c] * (int64) d, d * sizeof(double));
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

/*
 * Puts the clusters in order, leaving out the empty ones.  Initial centroids from the user, and
 * those of an earlier fit, keep their numbers, so that a fit can continue an earlier one: if one
 * ends empty, its number is not used.
 */
static void
order_clusters(Fitter *fitter, const Start *best)
{
	GkFit	   *fit = fitter->fit;
	int			d = fitter->spec->dimension;
	bool		is_given = fitter->spec->init == GK_INIT_GIVEN || best->number == GK_EARLIER_START;
	int32	   *labels = gk_allocate(best->count, sizeof(int32));
	double	   *ordered;

	fit->centroids = fitter->spec->for_model ? gk_allocate(best->count * d, sizeof(double))
		: best->centroids;
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

/* The inertia of a single cluster; runs before the fit, whose labels it would overwrite. */
static void
find_total(Fitter *fitter)
{
	GkCommand	step = {.operation = GK_STEP};
	GkCommand	mean = {.operation = GK_CENTROIDS};

	mean.centroids.centroids = fitter->prepared->mean;
	mean.centroids.k = 1;
	gk_run(fitter->job, &mean);
	gk_run(fitter->job, &step);
	fitter->prepared->total = label_rows(fitter, 1);
}

/* Room for the statistics of so many clusters. */
static void
begin_statistics(Statistics *statistics, int64 clusters)
{
	statistics->sizes = gk_allocate(clusters, sizeof(int64));
	statistics->weights = gk_allocate(clusters, sizeof(GkSum));
	statistics->inertia = gk_allocate(clusters, sizeof(GkSum));
	statistics->distance = gk_allocate(clusters, sizeof(GkSum));
	statistics->radius2 = gk_allocate(clusters, sizeof(double));
}

/* Room for what the engine says of the clusters. */
static void
begin_fitter(Fitter *fitter)
{
	const GkFitSpec *spec = fitter->spec;

	fitter->k = spec->init == GK_INIT_GIVEN || spec->earlier != NULL ? spec->k
		: Min(spec->k, spec->rows);
	fitter->is_empty = gk_allocate_zero(fitter->k, sizeof(uint8));
	begin_statistics(&fitter->statistics, fitter->k);
}

/* Fits prepared rows; labels and d² of the result stay in the engine. */
void
gk_fit_prepared(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared, GkFit *fit)
{
	Fitter		fitter = {.job = job,.spec = spec,.prepared = prepared,.fit = fit};
	Start		best = {0};

	memset(fit, 0, sizeof(*fit));
	begin_fitter(&fitter);
	if (spec->for_model)
	{
		if (isnan(prepared->total))
			find_total(&fitter);
		fit->model.total = prepared->total;
	}
	run_starts(&fitter, &best);
	order_clusters(&fitter, &best);
	fit->labels = best.count;
	fit->inertia = best.inertia;
	fit->iterations = best.iterations;
	fit->converged = best.converged;
	fit->best_start = best.number;
	warn_of_fewer(&fitter, &best);
}

/* Labels prepared rows with centroids as they are. */
double
gk_fit_label(GkJob *job, const GkFitSpec *spec, GkPrepared *prepared, const double *points,
			 int64 count, GkCluster *clusters)
{
	Fitter		fitter = {.job = job,.spec = spec,.prepared = prepared};
	double		inertia;

	begin_statistics(&fitter.statistics, count);
	set_centroids(&fitter, points, count);
	inertia = label_rows(&fitter, count);
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
		memcpy(ordered + i * dimension, rows + order[i] * (int64) dimension,
			   dimension * sizeof(double));
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
	instr_time	begin;
	double		seconds;

	gk_progress_phase(GK_PHASE_SEEDING);
	INSTR_TIME_SET_CURRENT(begin);
	gk_prepare(job, spec, &prepared);
	seconds = gk_seconds_since(begin);
	gk_fit_prepared(job, spec, &prepared, fit);
	fit->seed_seconds += seconds;
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

/* Labels the rows with spec->points. */
void
gk_label(GkJob *job, const GkFitSpec *spec)
{
	GkPrepared	prepared = {0};

	gk_progress_phase(GK_PHASE_LABELLING);
	gk_prepare(job, spec, &prepared);
	label_with(job, spec->points, spec->k);
}
