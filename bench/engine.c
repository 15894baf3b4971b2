/*
 * Times the CPU engine alone: reading rows in, iterations, final labels; and
 * checks labels against the definition on a sample.  Usage: engine [threads [instruction set]]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu_kernels.h"
#include "engine.h"
#include "exact.h"

#define ITERATIONS 12
#define ROUNDS 5
#define SAMPLE 2000
#define BATCH_BYTES ((int64_t) 1 << 20)

typedef struct Shape
{
	int64_t		n;
	int			d;
	int64_t		k;
} Shape;

static uint64_t state = 1;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Seconds of all threads of this process: what counts when the machine is busy otherwise. */
static double
busy(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static double
uniform(void)
{
	state += UINT64_C(0x9e3779b97f4a7c15);
	return ((double) (gk_mix(state) >> 11) + 0.5) * 0x1p-53;
}

/* Nearly normal: the sum of four uniform values, with variance 1. */
static double
normal(void)
{
	return (uniform() + uniform() + uniform() + uniform() - 2.0) * 1.7320508075688772;
}

/* Rows: normal, or k blobs whose centers are 10 σ apart in each feature. */
static float *
make_rows(Shape s, bool blobs)
{
	float	   *x = malloc(s.n * s.d * sizeof(float));
	float	   *centers = malloc(s.k * s.d * sizeof(float));

	for (int64_t i = 0; i < s.k * s.d; i++)
		centers[i] = blobs ? (float) (20.0 * normal()) : 0.0f;
	for (int64_t i = 0; i < s.n; i++)
	{
		const float *center = centers + (int64_t) (uniform() * (double) s.k) * s.d;

		for (int j = 0; j < s.d; j++)
			x[i * s.d + j] = center[j] + (float) normal() + 0.0f;
	}
	free(centers);
	return x;
}

static void
check(GkStatus status)
{
	if (status.code == GK_OK)
		return;
	fprintf(stderr, "%s: %s\n", status.where, status.message);
	exit(1);
}

static void
run(GkEngine *engine, GkCommand *command)
{
	GkStatus	status;

	check(engine->class_of->submit(engine, command));
	while ((status = engine->class_of->wait(engine, 10)).code == GK_RUNNING)
		;
	check(status);
}

/* Appends the rows in batches as the ring does; gives the seconds. */
static double
append_rows(GkEngine *engine, Shape s, const float *x)
{
	int64_t		batch_rows = BATCH_BYTES / (int64_t) sizeof(float) / s.d;
	GkCommand	seal = {.operation = GK_SEAL};
	double		start = now();

	check(engine->class_of->set_dimension(engine, s.d));
	for (int64_t i = 0; i < s.n; i += batch_rows)
	{
		GkBatch		batch = {.rows = s.n - i < batch_rows ? s.n - i : batch_rows,.features = x + i * s.d};
		uint64_t	ticket;

		check(engine->class_of->append(engine, &batch, &ticket));
	}
	run(engine, &seal);
	return now() - start;
}

/* Rounds of k candidates each, drawn evenly, as k-means|| would make them; gives the seconds. */
static double
seed_rounds(GkEngine *engine, Shape s, const float *x)
{
	double	   *candidates = malloc(s.k * s.d * sizeof(double));
	double		seconds = 0.0;

	for (int round = 0; round < ROUNDS; round++)
	{
		GkCommand	c = {.operation = GK_CANDIDATES};

		for (int64_t i = 0; i < s.k; i++)
		{
			int64_t		row = (int64_t) (uniform() * (double) s.n);

			for (int j = 0; j < s.d; j++)
				candidates[i * s.d + j] = x[row * s.d + j];
		}
		c.u.candidates.candidates = candidates;
		c.u.candidates.count = s.k;
		c.u.candidates.first_label = round * s.k;
		seconds -= now();
		run(engine, &c);
		seconds += now();
	}
	free(candidates);
	return seconds;
}

/* Range and moments, as before every fit; gives the seconds of each. */
static void
profile(GkEngine *engine, int d, double seconds[2])
{
	float	   *range = malloc(2 * d * sizeof(float));
	double	   *pivot = calloc(d, sizeof(double));
	int		   *exponents = malloc(d * sizeof(int));
	GkSum	   *sums = malloc(2 * d * sizeof(GkSum));
	int64_t    *counts = malloc(2 * (d + 1) * sizeof(int64_t));
	GkCommand	c = {.operation = GK_RANGE};

	c.u.range.least = range;
	c.u.range.greatest = range + d;
	seconds[0] = -now();
	run(engine, &c);
	seconds[0] += now();
	for (int j = 0; j < d; j++)
		exponents[j] = 20;
	c = (GkCommand) {.operation = GK_MOMENTS};
	c.u.moments.pivot = pivot;
	c.u.moments.first_exponents = c.u.moments.second_exponents = exponents;
	c.u.moments.rest_bits = 20;
	c.u.moments.first = sums;
	c.u.moments.second = sums + d;
	c.u.moments.exponent_sum = counts;
	c.u.moments.nonzero = counts + d + 1;
	seconds[1] = -now();
	run(engine, &c);
	seconds[1] += now();
	free(range);
	free(pivot);
	free(exponents);
	free(sums);
	free(counts);
}

/* Statistics of the clusters; gives the seconds. */
static double
describe(GkEngine *engine, int64_t k)
{
	GkSum	   *sums = malloc(3 * k * sizeof(GkSum));
	int64_t    *sizes = malloc(k * sizeof(int64_t));
	double	   *radius2 = malloc(k * sizeof(double));
	GkCommand	c = {.operation = GK_STATISTICS};
	double		seconds = -now();

	c.u.statistics.inertia_exponent = c.u.statistics.distance_exponent = 20;
	c.u.statistics.rest_bits = 20;
	c.u.statistics.sizes = sizes;
	c.u.statistics.weights = sums;
	c.u.statistics.inertia = sums + k;
	c.u.statistics.distance = sums + 2 * k;
	c.u.statistics.radius2 = radius2;
	run(engine, &c);
	seconds += now();
	free(sums);
	free(sizes);
	free(radius2);
	return seconds;
}

/* Sets grid and centroids: k rows. */
static void
begin(GkEngine *engine, Shape s, const float *x)
{
	int		   *exponents = malloc((s.d + 1) * sizeof(int));
	double	   *center = calloc(s.d, sizeof(double));
	double	   *centroids = malloc(s.k * s.d * sizeof(double));
	GkCommand	c = {.operation = GK_GRID};

	for (int j = 0; j < s.d; j++)
		exponents[j] = 20;
	exponents[s.d] = 0;
	c.u.grid.exponents = exponents;
	c.u.grid.center = center;
	run(engine, &c);
	for (int64_t i = 0; i < s.k; i++)
		for (int j = 0; j < s.d; j++)
			centroids[i * s.d + j] = x[(i * (s.n / s.k)) * s.d + j];
	c = (GkCommand) {.operation = GK_CENTROIDS};
	c.u.centroids.centroids = centroids;
	c.u.centroids.k = s.k;
	run(engine, &c);
	free(exponents);
	free(center);
	free(centroids);
}

/* Rows of a sample whose label is not that of the definition. */
static int64_t
wrong_labels(GkEngine *engine, Shape s, const float *x)
{
	double	   *centroids = malloc(s.k * s.d * sizeof(double));
	GkCommand	c = {.operation = GK_GET_CENTROIDS};
	int64_t		wrong = 0;

	c.u.get_centroids.centroids = centroids;
	run(engine, &c);
	for (int64_t i = 0; i < SAMPLE; i++)
	{
		int64_t		row = (int64_t) (uniform() * (double) s.n);
		double		least = INFINITY;
		int32_t		best = -1;
		int32_t		label;

		for (int64_t j = 0; j < s.k; j++)
		{
			double		d2 = 0.0;

			for (int f = 0; f < s.d; f++)
				d2 = gk_add_square(d2, x[row * s.d + f], centroids[j * s.d + f]);
			if (d2 < least)
			{
				least = d2;
				best = (int32_t) j;
			}
		}
		check(engine->class_of->fetch(engine, row, 1, &label, NULL));
		wrong += label != best;
	}
	free(centroids);
	return wrong;
}

/* Moves the farthest rows to the empty clusters. */
static void
relocate(GkEngine *engine, int64_t k, const uint8_t *is_empty, int64_t empty)
{
	GkEntry    *entries = malloc(empty * sizeof(GkEntry));
	int64_t    *rows = malloc(empty * sizeof(int64_t));
	int64_t    *clusters = malloc(empty * sizeof(int64_t));
	int64_t		count = 0;
	GkCommand	c = {.operation = GK_DISTANCES};

	run(engine, &c);
	c = (GkCommand) {.operation = GK_FARTHEST};
	c.u.farthest.count = empty;
	c.u.farthest.entries = entries;
	run(engine, &c);
	for (int64_t i = 0; i < k && count < c.u.farthest.found; i++)
		if (is_empty[i])
		{
			rows[count] = entries[count].row;
			clusters[count++] = i;
		}
	c = (GkCommand) {.operation = GK_RELOCATE};
	c.u.relocate.rows = rows;
	c.u.relocate.clusters = clusters;
	c.u.relocate.count = count;
	run(engine, &c);
	free(entries);
	free(rows);
	free(clusters);
}

/* Times one shape. */
static void
bench(Shape s, bool blobs, int threads)
{
	GkEngineConfig config = {.threads = threads};
	float	   *x = make_rows(s, blobs);
	double		bytes = (double) s.n * s.d * sizeof(float);
	double		appended;
	double		seeded;
	double		prepared[2];
	double		described;
	double		first = 0.0;
	double		total = 0.0;
	double		last = 0.0;
	double		used = 0.0;
	double		start;
	GkEngine   *engine;
	GkUsage		usage;
	GkCommand	c;
	uint8_t    *is_empty = malloc(s.k);

	check(gk_cpu_engine()->open(&config, &engine));
	appended = append_rows(engine, s, x);
	profile(engine, s.d, prepared);
	seeded = seed_rounds(engine, s, x);
	begin(engine, s, x);
	for (int i = 0; i < ITERATIONS; i++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		c.u.step.is_empty = is_empty;
		start = now();
		used -= busy();
		run(engine, &c);
		last = now() - start;
		used += busy();
		total += last;
		if (i == 0)
			first = last;
		if (getenv("GK_BENCH_STEPS") != NULL)
			printf("  step %d: %.2f ms, %lld changed, shift %g\n", i, last * 1e3,
				   (long long) c.u.step.changed, c.u.step.shift2);
		if (c.u.step.empty > 0)
			relocate(engine, s.k, is_empty, c.u.step.empty);
	}
	c = (GkCommand) {.operation = GK_ASSIGN};
	start = now();
	run(engine, &c);
	start = now() - start;
	described = describe(engine, s.k);
	engine->class_of->usage(engine, &usage);
	printf("%8lld x %3d k %3lld %-6s | append %5.2f GB/s | range %5.2f ms, moments %6.2f ms | seed %7.2f ms | first %7.2f ms | mean %7.2f ms %6.1f GFLOP/s"
		   " (%6.1f a busy thread) | last %7.2f ms | labels %7.2f ms, statistics %6.2f ms | memory %.3f | wrong %lld of %d\n",
		   (long long) s.n, s.d, (long long) s.k, blobs ? "blobs" : "normal", bytes / appended / 1e9,
		   prepared[0] * 1e3, prepared[1] * 1e3, seeded * 1e3,
		   first * 1e3, total / ITERATIONS * 1e3,
		   2.0 * s.n * s.d * s.k * ITERATIONS / total / 1e9,
		   2.0 * s.n * s.d * s.k * ITERATIONS / used / 1e9, last * 1e3, start * 1e3,
		   described * 1e3,
		   (double) usage.host_peak / bytes, (long long) wrong_labels(engine, s, x), SAMPLE);
	fflush(stdout);
	engine->class_of->close(engine);
	free(is_empty);
	free(x);
}

int
main(int argc, char **argv)
{
	static const Shape shapes[] = {
		{200000, 128, 256}, {1000000, 32, 100}, {2000000, 8, 16}, {500000, 2, 50}
	};
	int			threads = argc > 1 ? atoi(argv[1]) : 0;
	const char *only = getenv("GK_BENCH_SHAPE");

	if (argc > 2)
		gk_cpu_engine_use(gk_kernels_find(argv[2]), false);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (int blobs = 0; blobs < 2 && (only == NULL || atoi(only) == (int) i); blobs++)
			bench(shapes[i], blobs, threads);
	return 0;
}
