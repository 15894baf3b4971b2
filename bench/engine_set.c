/*
 * Times an engine alone on one data set of bench/real_sets.py: reading the rows in, at most 20
 * iterations from the given centroids, final labels, squares of the rows to their centroids; and
 * checks labels against the definition on a sample.  Built by `make -C test/unit bench`.
 * Usage: engine_set_bench FILE [threads or devices [LIBRARY [LABELS]]]
 * The CPU engine runs on so many threads; with a LIBRARY, the CUDA engine on so many devices.
 * LABELS is a file for the labels, int32.  Prints one JSON object.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_drive.h"
#include "engine_library.h"
#include "engine_rows.h"
#include "exact.h"
#include "fixed_point.h"
#include "state.h"

#define ITERATIONS 20
#define SAMPLE 2000
#define BATCH_BYTES ((int64_t) 1 << 20)
#define SLOTS 8

/* A data set: after three numbers, the rows and the initial centroids. */
typedef struct Set
{
	int64_t		n;
	int64_t		d;
	int64_t		k;
	float	   *x;				/* n × d */
	float	   *initial;		/* k × d */
} Set;

/* What was measured, in seconds. */
typedef struct Times
{
	double		append;
	double		prepare;
	double		steps[ITERATIONS];
	double		labels;
	double		squares;
	double		used;			/* processor time of all threads, without the checks */
	int			iterations;
} Times;

/* Reads so many floats; ends the program if they are not there. */
static float *
read_floats(FILE *file, int64_t count)
{
	float	   *floats = malloc(count * sizeof(float));

	if (floats == NULL || fread(floats, sizeof(float), count, file) != (size_t) count)
	{
		fprintf(stderr, "the file is too short\n");
		exit(1);
	}
	return floats;
}

/* Reads a data set. */
static Set
read_set(const char *name)
{
	FILE	   *file = fopen(name, "rb");
	Set			set;

	if (file == NULL || fread(&set, sizeof(int64_t), 3, file) != 3)
	{
		perror(name);
		exit(1);
	}
	set.x = read_floats(file, set.n * set.d);
	set.initial = read_floats(file, set.k * set.d);
	fclose(file);
	return set;
}

/* The mean of each feature, and the exponents of the grid. */
static void
prepare(GkEngine *engine, const Set *set, double *mean, int *exponents)
{
	int			d = (int) set->d;
	int			bits = gk_value_bits(set->n);
	float	   *range = malloc(2 * d * sizeof(float));
	int		   *moment_exponents = malloc(2 * d * sizeof(int));
	GkSum	   *sums = malloc(2 * d * sizeof(GkSum));
	int64_t    *counts = malloc(2 * (d + 1) * sizeof(int64_t));
	double	   *pivot = calloc(d, sizeof(double));
	GkCommand	c = {.operation = GK_RANGE};

	c.range.least = range;
	c.range.greatest = range + d;
	run(engine, &c);
	for (int j = 0; j < d; j++)
	{
		double		greatest = fmax(fabs(range[j]), fabs(range[d + j]));

		exponents[j] = moment_exponents[j] = gk_grid_exponent(greatest, bits);
		moment_exponents[d + j] = gk_grid_exponent(greatest * greatest, bits);
	}
	exponents[d] = 0;
	c = (GkCommand) {.operation = GK_MOMENTS};
	c.moments.pivot = pivot;
	c.moments.first_exponents = moment_exponents;
	c.moments.second_exponents = moment_exponents + d;
	c.moments.rest_bits = bits;
	c.moments.first = sums;
	c.moments.second = sums + d;
	c.moments.exponent_sum = counts;
	c.moments.nonzero = counts + d + 1;
	run(engine, &c);
	for (int j = 0; j < d; j++)
		mean[j] = ldexp(gk_sum_value(sums[j].high, sums[j].low, bits), -exponents[j] - bits) /
			(double) set->n;
	free(range);
	free(moment_exponents);
	free(sums);
	free(counts);
	free(pivot);
}

/* Sets the grid, and the initial centroids. */
static void
begin(GkEngine *engine, const Set *set, Times *times)
{
	int64_t		numbers = set->k * set->d;
	double	   *mean = malloc(set->d * sizeof(double));
	int		   *exponents = malloc((set->d + 1) * sizeof(int));
	double	   *centroids = malloc(numbers * sizeof(double));

	times->prepare = -now();
	prepare(engine, set, mean, exponents);
	set_grid(engine, false, exponents, mean);
	for (int64_t i = 0; i < numbers; i++)
		centroids[i] = set->initial[i];
	set_centroids(engine, centroids, set->k, false);
	times->prepare += now();
	free(mean);
	free(exponents);
	free(centroids);
}

/* One iteration or, after the second, all that the engine makes at once; true if labels changed. */
static bool
iterate_at_once(GkEngine *engine, const Set *set, Times *times)
{
	uint8_t    *is_empty = malloc(set->k);
	GkEntry    *entries = malloc(set->k * sizeof(GkEntry));
	GkIterated	iterated[ITERATIONS];
	GkCommand	c = {.operation = GK_STEP};
	double		numbers[2];
	double		seconds = -now();

	c.step.is_empty = is_empty;
	c.step.more = times->iterations < 2 ? 0 : ITERATIONS - 1 - times->iterations;
	c.step.iterated = iterated;
	run(engine, &c);
	if (c.step.empty > 0)
		relocate_farthest(engine, is_empty, c.step.empty, entries, numbers);
	seconds += now();
	for (int64_t i = 0; i <= c.step.earlier; i++)
		times->steps[times->iterations++] = seconds / (double) (c.step.earlier + 1);
	free(is_empty);
	free(entries);
	return c.step.changed > 0;
}

/* Iterates until no label changes, or often enough; then the labels. */
static void
iterate(GkEngine *engine, const Set *set, Times *times)
{
	GkCommand	c;

	while (times->iterations < ITERATIONS && iterate_at_once(engine, set, times))
		;
	c = (GkCommand) {.operation = GK_ASSIGN};
	times->labels = -now();
	run(engine, &c);
	times->labels += now();
}

/* The squares of the rows to their centroids, on a grid that suits the data of the sets. */
static void
add_squares(GkEngine *engine, const Set *set, Times *times)
{
	int		   *exponents = calloc(set->d + 1, sizeof(int));
	int64_t    *sums = calloc(2 * set->k * (set->d + 1), sizeof(int64_t));
	GkCommand	c = {.operation = GK_SQUARES};

	c.squares.exponents = exponents;
	c.squares.rest_bits = gk_value_bits(set->n);
	c.squares.sums = sums;
	times->squares = -now();
	run(engine, &c);
	times->squares += now();
	free(exponents);
	free(sums);
}

/* The sum of d² over the rows; the labels go to a file. */
static double
results(GkEngine *engine, const Set *set, const char *labels_file)
{
	int32_t    *labels = malloc(set->n * sizeof(int32_t));
	double	   *distance2 = malloc(set->n * sizeof(double));
	FILE	   *file = labels_file == NULL ? NULL : fopen(labels_file, "wb");
	double		inertia = 0.0;

	check_status(engine->class_of->fetch(engine, 0, set->n, labels, distance2));
	for (int64_t i = 0; i < set->n; i++)
		inertia += distance2[i];
	if (file != NULL && (fwrite(labels, sizeof(int32_t), set->n, file) != (size_t) set->n ||
						 fclose(file) != 0))
		perror(labels_file);
	free(labels);
	free(distance2);
	return inertia;
}

/* Prints what was measured. */
static void
print(GkEngine *engine, const Set *set, const Times *times, const char *labels_file)
{
	Rows		rows = {.n = set->n,.d = (int) set->d,.x = set->x};
	int64_t		sample = set->k * set->d > 1000000 ? SAMPLE / 10 : SAMPLE;
	GkUsage		usage;
	double		inertia = results(engine, set, labels_file);

	engine->class_of->usage(engine, &usage);
	printf("{\"append\": %g, \"prepare\": %g, \"steps\": [", times->append, times->prepare);
	for (int i = 0; i < times->iterations; i++)
		printf("%s%g", i > 0 ? ", " : "", times->steps[i]);
	printf("], \"labels\": %g, \"squares\": %g, \"used\": %g, \"inertia\": %.17g, ", times->labels,
		   times->squares, times->used, inertia);
	printf("\"bytes\": %llu, \"wrong\": %lld}\n",
		   (unsigned long long) (usage.devices > 0 ? usage.device_peak : usage.host_peak),
		   (long long) wrong_in_sample(engine, &rows, set->k, sample));
}

/* Times the engine on the set of the file. */
int
main(int argc, char **argv)
{
	GkEngineConfig config = {0};
	const char *library = argc > 3 ? argv[3] : NULL;
	const GkEngineClass *class_of;
	Times		times = {0};
	GkEngine   *engine;
	Set			set;
	Rows		rows;

	if (argc < 2)
	{
		fprintf(stderr, "usage: engine_set_bench FILE [threads or devices [LIBRARY [LABELS]]]\n");
		return 1;
	}
	if (argc > 2)
		config.threads = config.device_count = atoi(argv[2]);
	for (int i = 0; i < config.device_count && i < GK_MAX_DEVICES; i++)
		config.devices[i] = i;
	class_of = class_of_engine(library);
	set = read_set(argv[1]);
	rows = (Rows) {.n = set.n,.d = (int) set.d,.x = set.x};
	check_status(class_of->open(&config, &engine));
	times.used = -worked();
	times.append = append_rows(engine, &rows, BATCH_BYTES / (int64_t) sizeof(float) / set.d + 1,
							   library == NULL ? 0 : SLOTS);
	begin(engine, &set, &times);
	iterate(engine, &set, &times);
	times.used += worked();
	add_squares(engine, &set, &times);
	print(engine, &set, &times, argc > 4 ? argv[4] : NULL);
	class_of->close(engine);
	free(set.x);
	free(set.initial);
	return 0;
}
