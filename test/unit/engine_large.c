/*
 * A fit of very many rows, checked over all of them by the definition and by plain addition.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_drive.h"
#include "engine_large.h"
#include "engine_rows.h"
#include "exact.h"
#include "tap.h"

/* Values stay below 16; sums of 2^27 of them below 2^63. */
#define GRID_EXPONENT 30
#define STEPS 3

/* A running fit, and its expected state. */
typedef struct Large
{
	GkEngine   *engine;
	Rows		rows;
	int64_t		k;
	bool		wide;
	double	   *centroids;		/* k × d */
	int32_t    *labels;			/* n */
	pthread_mutex_t mutex;
	GkSum	   *sums;			/* k × d */
	int64_t    *sizes;			/* k */
} Large;

/* Adds some of the rows to the sums of their labels. */
static void
add_part(void *argument, int64_t from, int64_t to)
{
	Large	   *large = argument;
	int			d = large->rows.d;
	GkSum	   *sums = calloc(large->k * d, sizeof(GkSum));
	int64_t    *sizes = calloc(large->k, sizeof(int64_t));
	double		scale = gk_power_of_two(GRID_EXPONENT);
	double		rest_scale = gk_power_of_two(REST_BITS);

	for (int64_t i = from; i < to; i++)
	{
		int32_t		label = large->labels[i];

		sizes[label]++;
		for (int j = 0; j < d; j++)
		{
			double		x = large->rows.x[i * d + j];

			sums[label * d + j].high += gk_quantize(x, scale);
			if (large->wide)
				sums[label * d + j].low += gk_quantize_rest(x, scale, rest_scale);
		}
	}
	pthread_mutex_lock(&large->mutex);
	for (int64_t c = 0; c < large->k; c++)
		large->sizes[c] += sizes[c];
	for (int64_t i = 0; i < large->k * d; i++)
	{
		large->sums[i].high += sums[i].high;
		large->sums[i].low += sums[i].low;
	}
	pthread_mutex_unlock(&large->mutex);
	free(sums);
	free(sizes);
}

/* Fetches the labels, and adds up the rows by them. */
static void
add_rows(Large *large)
{
	int64_t		values = large->k * large->rows.d;

	check_status(large->engine->class_of->fetch(large->engine, 0, large->rows.n, large->labels,
												NULL));
	memset(large->sums, 0, values * sizeof(GkSum));
	memset(large->sizes, 0, large->k * sizeof(int64_t));
	for (int64_t i = 0; i < large->rows.n; i++)
		if (large->labels[i] < 0 || large->labels[i] >= large->k)
		{
			printf("Bail out! label %d of row %lld\n", large->labels[i], (long long) i);
			exit(1);
		}
	in_parallel(large->rows.n, add_part, large);
}

/* The centroids that the sums make; those of clusters without rows stay. */
static void
update_centroids(Large *large)
{
	int			d = large->rows.d;
	int			rest_bits = large->wide ? REST_BITS : 0;

	for (int64_t c = 0; c < large->k; c++)
		for (int j = 0; j < d && large->sizes[c] > 0; j++)
		{
			GkSum		sum = large->sums[c * d + j];

			large->centroids[c * d + j] =
				gk_centroid(gk_sum_value(sum.high, sum.low, rest_bits),
							gk_sum_value(large->sizes[c], 0, rest_bits), GRID_EXPONENT, 0);
		}
}

/* Checks the memory that the rows take, and the position of each. */
static void
test_rows(Large *large, int devices)
{
	int64_t		n = large->rows.n;
	int			d = large->rows.d;
	int64_t		edge = (INT64_C(1) << 31) / d;
	int64_t		numbers[6] = {0, n / 2, n - 1, edge, edge + 1, 2 * edge};
	float	   *features = malloc(6 * d * sizeof(float));
	GkCommand	c = {.operation = GK_ROWS};
	bool		good = true;
	GkUsage		usage;

	large->engine->class_of->usage(large->engine, &usage);
	printf("# %lld x %d: %.3f GB, %.3f GB on devices, %.3f GB pinned\n", (long long) n, d,
		   (double) n * d * 4e-9, (double) usage.device_bytes * 1e-9,
		   (double) usage.pinned_bytes * 1e-9);
	if (devices > 0 && usage.devices > 0)
		ok((double) usage.device_bytes >= (double) n * d * 4, "all rows are on the devices");
	for (int i = 3; i < 6; i++)
		if (numbers[i] >= n)
			numbers[i] = n - 1;
	c.rows.rows = numbers;
	c.rows.count = 6;
	c.rows.features = features;
	run(large->engine, &c);
	for (int i = 0; i < 6; i++)
		good &= memcmp(features + i * d, large->rows.x + numbers[i] * d, d * sizeof(float)) == 0;
	ok(good, "rows before and behind 2^31 values are what they were");
	free(features);
}

/* Labels and d² of candidates, and the mass of all rows. */
static void
test_candidates(Large *large)
{
	GkCommand	c = {.operation = GK_CANDIDATES};
	int64_t		mass = 0;
	int64_t		wrong;

	c.candidates.candidates = large->centroids;
	c.candidates.count = large->k;
	run(large->engine, &c);
	wrong = wrong_labels(large->engine, &large->rows, large->centroids, large->k, true, 1);
	ok(wrong == 0, "candidates: %lld wrong labels or d²", (long long) wrong);
	c = (GkCommand) {.operation = GK_MASSES};
	c.masses.mass = GK_MASS_WEIGHT;
	c.masses.buckets = &mass;
	run(large->engine, &c);
	ok(mass == large->rows.n, "the mass of all rows is their number");
}

/* One iteration: labels by the definition, centroids by plain addition. */
static void
test_step(Large *large, int number)
{
	int64_t		values = large->k * large->rows.d;
	double	   *centroids = malloc(values * sizeof(double));
	GkCommand	c = {.operation = GK_STEP};
	int64_t		wrong;

	run(large->engine, &c);
	wrong = wrong_labels(large->engine, &large->rows, large->centroids, large->k, false, 1);
	ok(wrong == 0, "step %d: %lld wrong labels, %lld changed", number, (long long) wrong,
	   (long long) c.step.changed);
	if (c.step.empty > 0)
	{
		c = (GkCommand) {.operation = GK_RELOCATE};
		run(large->engine, &c);
	}
	add_rows(large);
	update_centroids(large);
	c = (GkCommand) {.operation = GK_GET_CENTROIDS};
	c.get_centroids.centroids = centroids;
	run(large->engine, &c);
	ok(memcmp(centroids, large->centroids, values * sizeof(double)) == 0,
	   "step %d: centroids are those of plain addition", number);
	free(centroids);
}

/* The final labels and the sizes of the clusters. */
static void
test_assignment(Large *large)
{
	GkCommand	c = {.operation = GK_ASSIGN};
	int64_t    *sizes = calloc(large->k, sizeof(int64_t));
	GkSum	   *sums = calloc(3 * large->k, sizeof(GkSum));
	double	   *radius2 = calloc(large->k, sizeof(double));
	double		widest = 0.0;
	double		greatest;
	int64_t		wrong;

	run(large->engine, &c);
	wrong = wrong_labels(large->engine, &large->rows, large->centroids, large->k, true, 1);
	ok(wrong == 0, "final assignment: %lld wrong labels or d²", (long long) wrong);
	add_rows(large);
	greatest = c.assign.greatest;
	c = (GkCommand) {.operation = GK_STATISTICS};
	c.statistics.rest_bits = REST_BITS;
	c.statistics.sizes = sizes;
	c.statistics.weights = sums;
	c.statistics.inertia = sums + large->k;
	c.statistics.distance = sums + 2 * large->k;
	c.statistics.radius2 = radius2;
	run(large->engine, &c);
	ok(memcmp(sizes, large->sizes, large->k * sizeof(int64_t)) == 0, "sizes of the clusters");
	for (int64_t i = 0; i < large->k; i++)
		widest = fmax(widest, radius2[i]);
	ok(widest == greatest, "the greatest radius is that of the farthest row");
	free(sizes);
	free(sums);
	free(radius2);
}

/* d² of the labels of a step with an empty cluster, and the greatest of them. */
static void
test_distances(Large *large)
{
	int			d = large->rows.d;
	double	   *distance2 = malloc(large->rows.n * sizeof(double));
	double		greatest = 0.0;
	GkEntry		entry = {0};
	GkCommand	c = {.operation = GK_STEP};
	int64_t		wrong;

	memcpy(large->centroids + (large->k - 1) * d, large->centroids, d * sizeof(double));
	set_centroids(large->engine, large->centroids, large->k, false);
	run(large->engine, &c);
	ok(c.step.empty == 1, "a cluster without rows is empty");
	c = (GkCommand) {.operation = GK_DISTANCES};
	run(large->engine, &c);
	wrong = wrong_labels(large->engine, &large->rows, large->centroids, large->k, true, 1);
	ok(wrong == 0, "distances: %lld wrong labels or d²", (long long) wrong);
	check_status(large->engine->class_of->fetch(large->engine, 0, large->rows.n, NULL, distance2));
	for (int64_t i = 0; i < large->rows.n; i++)
		greatest = fmax(greatest, distance2[i]);
	c = (GkCommand) {.operation = GK_FARTHEST};
	c.farthest.count = 1;
	c.farthest.entries = &entry;
	run(large->engine, &c);
	ok(entry.distance2 == greatest && distance2[entry.row] == greatest,
	   "the farthest row is number %lld", (long long) entry.row);
	free(distance2);
}

/* The engine with the rows in it, and centroids that are rows, the last one too. */
static Large
begin_large(const GkEngineClass *class_of, int64_t n, int d, int64_t k, bool wide, Feeding feeding)
{
	Large		large = {
		.k = k,.wide = wide,.rows = {.n = n,.d = d,.x = make_rows(n, d, 0)},
		.mutex = PTHREAD_MUTEX_INITIALIZER
	};
	double		seconds;

	large.engine = open_engine(class_of, false, feeding);
	seconds = append_rows(large.engine, &large.rows, feeding.batch, feeding.slots);
	printf("# appended in %.2f s\n", seconds);
	large.centroids = malloc(k * d * sizeof(double));
	for (int64_t c = 0; c < k; c++)
		for (int j = 0; j < d; j++)
			large.centroids[c * d + j] = large.rows.x[(n - 1 - c * (n / k)) * d + j];
	large.labels = malloc(n * sizeof(int32_t));
	large.sums = malloc(k * d * sizeof(GkSum));
	large.sizes = malloc(k * sizeof(int64_t));
	return large;
}

/*
 * Fits n rows and tests every answer; true if all rows were on the devices.
 */
void
test_large(const GkEngineClass *class_of, int64_t n, int d, int64_t k, bool wide, Feeding feeding)
{
	Large		large = begin_large(class_of, n, d, k, wide, feeding);
	int		   *exponents = malloc((d + 1) * sizeof(int));
	double	   *center = calloc(d, sizeof(double));

	test_rows(&large, feeding.devices);
	test_candidates(&large);
	for (int j = 0; j < d; j++)
		exponents[j] = GRID_EXPONENT;
	exponents[d] = 0;
	set_grid(large.engine, wide, exponents, center);
	set_centroids(large.engine, large.centroids, k, false);
	for (int step = 1; step <= STEPS; step++)
		test_step(&large, step);
	test_assignment(&large);
	test_distances(&large);
	class_of->close(large.engine);
	free(exponents);
	free(center);
	free((float *) large.rows.x);
	free(large.centroids);
	free(large.labels);
	free(large.sums);
	free(large.sizes);
}
