/*
 * The references of the gap statistic.
 *
 * Distances do not change when the axes are turned, so the random rows stay in the coordinates of
 * the box.  They are fitted by an engine of their own, in a job of their own: the engine of the
 * call keeps its rows.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "axes.h"
#include "choose_engine.h"
#include "draw.h"
#include "engine_error.h"
#include "fit.h"
#include "gap.h"
#include "pilot.h"
#include "random.h"

/* Rows of a reference that are made at once. */
#define BATCH_ROWS 4096

/* Beyond the numbers of the starts, which are the third word of the other counters. */
#define BOX_START UINT32_MAX

/* The box that the random rows lie in. */
typedef struct Box
{
	int			dimension;
	int			rows;			/* of a reference */
	double	   *least;			/* dimension: along the axes */
	double	   *greatest;
} Box;

/* The order of rows by their bits, so that sums over them do not follow the order of the source. */
static int
compare_rows(const void *a, const void *b, void *dimension)
{
	return memcmp(a, b, *(const int *) dimension * sizeof(float));
}

/* Draws numbers of rows, those of equal rows as often as their share asks for; how many. */
static int
draw_rows(const GkCall *call, const GkPrepared *prepared, int sample, int64 *numbers)
{
	const GkFitSpec *spec = &call->arguments.fit;
	GkDrawer	drawer = {.job = call->job,.rows = spec->rows,.seed = (uint64) spec->seed,
	.start = BOX_START};
	int64	   *drawn = gk_allocate(sample, sizeof(int64));
	int64	   *times = gk_allocate(sample, sizeof(int64));
	int64		found = spec->weighted
		? gk_draw_rows(&drawer, GK_MASS_WEIGHT, prepared->greatest_weight, sample, drawn, times)
		: gk_draw_evenly(&drawer, sample, drawn, times);
	int			count = 0;

	for (int64 i = 0; i < found; i++)
		for (; times[i] > 0; times[i]--)
			numbers[count++] = drawn[i];
	pfree(times);
	pfree(drawn);
	return count;
}

/* Numbers of the rows to be looked at: all, or some that are drawn; how many. */
static int
choose_rows(const GkCall *call, const GkPrepared *prepared, int sample, int64 *numbers)
{
	const GkFitSpec *spec = &call->arguments.fit;

	if (spec->rows > sample)
		return draw_rows(call, prepared, sample, numbers);
	for (int64 i = 0; i < spec->rows; i++)
		numbers[i] = i;
	return (int) spec->rows;
}

/* Fetches those rows, in an order of their own. */
static float *
fetch_rows(const GkCall *call, const GkPrepared *prepared, int sample, int *count)
{
	int			d = call->arguments.fit.dimension;
	GkCommand	command = {.operation = GK_ROWS};
	int64	   *numbers = gk_allocate(sample, sizeof(int64));

	*count = choose_rows(call, prepared, sample, numbers);
	command.rows.rows = numbers;
	command.rows.count = *count;
	command.rows.features = gk_allocate((int64) *count * d, sizeof(float));
	gk_run(call->job, &command);
	qsort_interruptible(command.rows.features, *count, d * sizeof(float), compare_rows, &d);
	pfree(numbers);
	return command.rows.features;
}

/* The mean of the rows. */
static double *
find_mean(const float *rows, int count, int d)
{
	double	   *mean = gk_allocate_zero(d, sizeof(double));

	for (int64 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			mean[j] += rows[i * d + j];
	}
	for (int j = 0; j < d; j++)
		mean[j] /= count;
	return mean;
}

/* The covariances of the rows, times their number. */
static double *
find_covariances(const float *rows, int count, int d, const double *mean)
{
	double	   *covariances = gk_allocate_zero((int64) d * d, sizeof(double));
	double	   *centred = gk_allocate(d, sizeof(double));

	for (int64 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			centred[j] = rows[i * d + j] - mean[j];
		for (int64 a = 0; a < d; a++)
			for (int64 b = a; b < d; b++)
				covariances[a * d + b] += centred[a] * centred[b];
	}
	for (int64 a = 0; a < d; a++)
		for (int64 b = 0; b < a; b++)
			covariances[a * d + b] = covariances[b * d + a];
	pfree(centred);
	return covariances;
}

/* The range of the rows along the axes: from the mean, or from zero where directions count. */
static void
find_range(Box *box, const float *rows, int count, const double *origin, const double *axes)
{
	int			d = box->dimension;

	for (int a = 0; a < d; a++)
	{
		box->least[a] = HUGE_VAL;
		box->greatest[a] = -HUGE_VAL;
		for (int64 i = 0; i < count; i++)
		{
			double		place = 0.0;

			CHECK_FOR_INTERRUPTS();
			for (int j = 0; j < d; j++)
				place += axes[(int64) a * d + j] * (rows[i * d + j] - origin[j]);
			box->least[a] = Min(box->least[a], place);
			box->greatest[a] = Max(box->greatest[a], place);
		}
		if (!(Max(fabs(box->least[a]), fabs(box->greatest[a])) <= FLT_MAX))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("the values of the features are too large for criterion \"gap\""),
					 errhint("Add scale => 'standard', or choose another criterion.")));
	}
}

/* The box of the principal axes of the rows. */
static void
find_box(const GkCall *call, const GkPrepared *prepared, int sample, Box *box)
{
	int			d = call->arguments.fit.dimension;
	int			count;
	float	   *rows = fetch_rows(call, prepared, sample, &count);
	double	   *mean = find_mean(rows, count, d);
	double	   *origin = gk_allocate_zero(d, sizeof(double));
	double	   *covariances = find_covariances(rows, count, d, mean);
	double	   *axes = gk_allocate((int64) d * d, sizeof(double));

	if (call->arguments.fit.metric == GK_EUCLIDEAN)
		memcpy(origin, mean, d * sizeof(double));
	gk_find_axes(covariances, d, axes);
	box->dimension = d;
	box->rows = (int) Min(sample, call->arguments.fit.rows);
	box->least = gk_allocate(d, sizeof(double));
	box->greatest = gk_allocate(d, sizeof(double));
	find_range(box, rows, count, origin, axes);
	pfree(axes);
	pfree(covariances);
	pfree(origin);
	pfree(mean);
	pfree(rows);
}

/* Makes rows of a reference, from number `first` on. */
static void
make_rows(const Box *box, uint64 seed, int number, int64 first, int64 count, float *rows)
{
	int			d = box->dimension;

	for (int64 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
		{
			uint64		bits = gk_random_bits(seed, BOX_START, (uint32) number,
											  (uint64) (first + i) * d + j);
			double		place = (bits >> 11) * 0x1p-53;

			/* an engine takes no negative zero */
			rows[i * d + j] = (float) (box->least[j] +
									   place * (box->greatest[j] - box->least[j])) + 0.0f;
		}
	}
}

/* Brings the rows of a reference into an engine of its own. */
static void
load_reference(GkJob *job, const GkFitSpec *spec, const Box *box, int number)
{
	GkWork		work = {.rows = box->rows,.dimension = box->dimension,.k = spec->k,
	.starts = spec->n_init,.iterations = spec->max_iter};
	const char *reason;
	GkEngine   *engine = gk_open_engine(job, &work, &reason);
	float	   *rows = gk_allocate((int64) BATCH_ROWS * box->dimension, sizeof(float));

	gk_check(engine->class_of->set_dimension(engine, box->dimension));
	for (int64 first = 0; first < box->rows; first += BATCH_ROWS)
	{
		int64		count = Min(BATCH_ROWS, box->rows - first);

		make_rows(box, (uint64) spec->seed, number, first, count, rows);
		gk_append_rows(engine, rows, count, box->dimension);
	}
}

/* ln of the mean square of a fit; NaN if there is nothing left of it. */
static double
log_square(const GkFit *fit, int64 rows)
{
	return fit->inertia > 0.0 && rows > fit->k ? log(fit->inertia / (rows - fit->k)) : NAN;
}

/* Fits each k to one reference; the logarithms go to every `stride`th place. */
static void
fit_reference(const GkCall *call, const Box *box, int number, const GkReference *references,
			  int ks, double *logarithms, int stride)
{
	const GkFitSpec *spec = &call->arguments.fit;
	GkJob	   *job = gk_job_begin_part(call->job);
	MemoryContext before = MemoryContextSwitchTo(gk_job_context(job));
	GkFitSpec	own = *spec;
	GkPrepared	prepared;
	MemoryContext clusters = AllocSetContextCreate(CurrentMemoryContext, "gkmeans reference",
												   ALLOCSET_DEFAULT_SIZES);

	own.rows = box->rows;
	/* as good as the fit that they are compared with, which may have more rows */
	own.judged_rows = spec->rows;
	own.weighted = false;
	own.names = NULL;
	own.shift = gk_allocate_zero(box->dimension, sizeof(double));
	own.scale = GK_SCALE_NONE;
	own.for_model = false;
	own.is_inner = true;
	load_reference(job, &own, box, number);
	gk_prepare(job, &own, &prepared);
	MemoryContextSwitchTo(clusters);
	for (int i = 0; i < ks; i++)
	{
		GkFit		fit;

		own.k = references[i].k;
		gk_fit_prepared(job, &own, &prepared, &fit);
		logarithms[(int64) i * stride] = log_square(&fit, box->rows);
		MemoryContextReset(clusters);
	}
	MemoryContextSwitchTo(before);
	gk_job_end(job);
}

/* Mean and error of some logarithms. */
static void
summarise(const double *logarithms, int count, GkReference *reference)
{
	double		sum = 0.0;
	double		squares = 0.0;

	for (int i = 0; i < count; i++)
		sum += logarithms[i];
	reference->expected = sum / count;
	for (int i = 0; i < count; i++)
		squares += (logarithms[i] - reference->expected) * (logarithms[i] - reference->expected);
	reference->error = sqrt(squares / count) * sqrt(1.0 + 1.0 / count);
}

/* Fits each k to random data sets. */
void
gk_find_references(const GkCall *call, const GkPrepared *prepared, int sample, int count,
				   GkReference *references, int ks)
{
	int			d = call->arguments.fit.dimension;
	double	   *logarithms;
	Box			box;

	if (d > GK_MAX_GAP_DIMENSION)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("criterion \"gap\" is limited to %d features, the rows have %d",
						GK_MAX_GAP_DIMENSION, d),
				 errhint("Choose another criterion, and leave out gap_references.")));
	find_box(call, prepared, sample, &box);
	logarithms = gk_allocate((int64) ks * count, sizeof(double));
	for (int number = 0; number < count; number++)
		fit_reference(call, &box, number, references, ks, logarithms + number, count);
	for (int i = 0; i < ks; i++)
		summarise(logarithms + (int64) i * count, count, &references[i]);
	pfree(logarithms);
}
