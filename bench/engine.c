/*
 * Times the CPU engine alone: reading rows in, iterations, final labels; and
 * checks labels against the definition on a sample.  Built by `make -C test/unit bench`.
 * Usage: engine_bench [threads [instruction set]]
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine_cases.h"
#include "engine_drive.h"
#include "engine_rows.h"
#include "state.h"

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
			int64_t		row = (int64_t) (random_unit() * (double) s.n);

			for (int j = 0; j < s.d; j++)
				candidates[i * s.d + j] = x[row * s.d + j];
		}
		c.candidates.candidates = candidates;
		c.candidates.count = s.k;
		c.candidates.first_label = round * s.k;
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

	c.range.least = range;
	c.range.greatest = range + d;
	seconds[0] = -now();
	run(engine, &c);
	seconds[0] += now();
	for (int j = 0; j < d; j++)
		exponents[j] = 20;
	c = (GkCommand) {.operation = GK_MOMENTS};
	c.moments.pivot = pivot;
	c.moments.first_exponents = c.moments.second_exponents = exponents;
	c.moments.rest_bits = 20;
	c.moments.first = sums;
	c.moments.second = sums + d;
	c.moments.exponent_sum = counts;
	c.moments.nonzero = counts + d + 1;
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

	c.statistics.inertia_exponent = c.statistics.distance_exponent = 20;
	c.statistics.rest_bits = 20;
	c.statistics.sizes = sizes;
	c.statistics.weights = sums;
	c.statistics.inertia = sums + k;
	c.statistics.distance = sums + 2 * k;
	c.statistics.radius2 = radius2;
	run(engine, &c);
	seconds += now();
	free(sums);
	free(sizes);
	free(radius2);
	return seconds;
}

/* Moves the farthest rows to the empty clusters. */
static void
relocate(GkEngine *engine, const uint8_t *is_empty, int64_t empty)
{
	GkEntry    *entries = malloc(empty * sizeof(GkEntry));
	double		numbers[2];

	relocate_farthest(engine, is_empty, empty, entries, numbers);
	free(entries);
}

/* What was measured of a shape, in seconds. */
typedef struct Times
{
	double		append;
	double		prepare[2];
	double		seed;
	double		first;
	double		last;
	double		total;			/* of all iterations */
	double		used;			/* by all threads, in the iterations */
	double		labels;
	double		describe;
} Times;

/* Iterates, then labels the rows. */
static void
iterate(GkEngine *engine, int64_t k, Times *times)
{
	uint8_t    *is_empty = malloc(k);
	GkCommand	c;

	times->total = times->used = 0.0;
	for (int i = 0; i < ITERATIONS; i++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		c.step.is_empty = is_empty;
		times->last = -now();
		times->used -= worked();
		run(engine, &c);
		times->last += now();
		times->used += worked();
		times->total += times->last;
		if (i == 0)
			times->first = times->last;
		if (getenv("GK_BENCH_STEPS") != NULL)
			printf("  step %d: %.2f ms, %lld changed, shift %g\n", i, times->last * 1e3,
				   (long long) c.step.changed, c.step.shift2);
		if (c.step.empty > 0)
			relocate(engine, is_empty, c.step.empty);
	}
	c = (GkCommand) {.operation = GK_ASSIGN};
	times->labels = -now();
	run(engine, &c);
	times->labels += now();
	free(is_empty);
}

/* Prints a line of the table. */
static void
print(Shape s, bool blobs, const Times *times, uint64_t host_peak, int64_t wrong)
{
	double		bytes = (double) s.n * s.d * sizeof(float);
	double		operations = 2.0 * s.n * s.d * s.k * ITERATIONS;

	printf("%8lld x %3d k %3lld %-6s | append %5.2f GB/s | range %5.2f ms, moments %6.2f ms | "
		   "seed %7.2f ms | first %7.2f ms | mean %7.2f ms %6.1f GFLOP/s (%6.1f a busy thread) | "
		   "last %7.2f ms | labels %7.2f ms, statistics %6.2f ms | memory %.3f | "
		   "wrong %lld of %d\n",
		   (long long) s.n, s.d, (long long) s.k, blobs ? "blobs" : "normal",
		   bytes / times->append / 1e9, times->prepare[0] * 1e3, times->prepare[1] * 1e3,
		   times->seed * 1e3, times->first * 1e3, times->total / ITERATIONS * 1e3,
		   operations / times->total / 1e9, operations / times->used / 1e9, times->last * 1e3,
		   times->labels * 1e3, times->describe * 1e3, (double) host_peak / bytes,
		   (long long) wrong, SAMPLE);
	fflush(stdout);
}

/* Times one shape. */
static void
bench(Shape s, bool blobs, int threads)
{
	GkEngineConfig config = {.threads = threads};
	float	   *x = make_rows(s.n, s.d, blobs ? s.k : 0);
	Rows		rows = {.n = s.n,.d = s.d,.x = x};
	GkEngine   *engine;
	GkUsage		usage;
	Times		times;

	check_status(gk_cpu_engine()->open(&config, &engine));
	times.append = append_rows(engine, &rows, BATCH_BYTES / (int64_t) sizeof(float) / s.d, 0);
	profile(engine, s.d, times.prepare);
	times.seed = seed_rounds(engine, s, x);
	begin_with_rows(engine, &rows, s.k);
	iterate(engine, s.k, &times);
	times.describe = describe(engine, s.k);
	engine->class_of->usage(engine, &usage);
	print(s, blobs, &times, usage.host_peak, wrong_in_sample(engine, &rows, s.k, SAMPLE));
	engine->class_of->close(engine);
	free(x);
}

/* Times a few shapes, normal and in blobs. */
int
main(int argc, char **argv)
{
	static const Shape shapes[] = {
		{200000, 128, 256}, {1000000, 32, 100}, {2000000, 8, 16}, {500000, 2, 50}
	};
	int			threads = argc > 1 ? atoi(argv[1]) : 0;
	const char *only = getenv("GK_BENCH_SHAPE");

	if (argc > 2)
		gk_cpu_engine_use(gk_cpu_kernels_find(argv[2]), false);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		for (int blobs = 0; blobs < 2 && (only == NULL || atoi(only) == (int) i); blobs++)
			bench(shapes[i], blobs, threads);
	return 0;
}
