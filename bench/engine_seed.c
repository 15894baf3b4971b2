/*
 * Times k-means|| seeding beside the iterations that follow it, by an engine alone, without a
 * server: the seeding of src/fit runs here as it is.  Checks that the seeds are rows, and no two of
 * them equal, and labels against the definition on a sample.  Built by `make -C test/unit bench`,
 * which needs the headers of PostgreSQL's server.
 *
 * Usage: engine_seed_bench [threads or devices [LIBRARY [SET ...]]]
 * The CPU engine runs on so many threads; with a LIBRARY, the CUDA engine on so many devices.  A
 * SET is ROWS:FEATURES:K:CENTRES:SPREAD: normal rows around normal centres, whose deviation is
 * SPREAD; if CENTRES is 0, they are around 0.  Prints a table: milliseconds of the fastest of some
 * seedings, each by a new engine, and the mean of the iterations after it.
 */
#include "postgres.h"

#include <math.h>

#include "engine_error.h"
#include "job.h"
#include "seed.h"

#include "engine_drive.h"
#include "engine_library.h"
#include "engine_rows.h"
#include "exact.h"
#include "fixed_point.h"
#include "state.h"
#include "without_server.h"

#define ITERATIONS 20
#define SEEDINGS 4
#define SAMPLE 2000
#define BATCH_BYTES ((int64_t) 1 << 20)
#define SLOTS 8

/* Seeds that are looked for among the rows. */
#define SEEDS_SOUGHT 16

/* A data set. */
typedef struct Set
{
	Rows		rows;
	int64_t		k;
	long long	centres;
	float		spread;
	double		variance;		/* Σ of the variances of the features */
} Set;

/* What a seeding and the iterations after it took, in seconds. */
typedef struct Times
{
	double		seeding;
	double		commands[GK_OPERATIONS];	/* of it */
	double		iteration;
	bool		right;
} Times;

/* The job of the seeding: its engine, and where the time goes. */
struct GkJob
{
	GkEngine   *engine;
	Times	   *times;
};

/* The sets of docs/benchmarks.md. */
static const char *const usual_sets[] = {
	"1000000:128:1000:1500:1", "400000:32:5000:5000:2", "2000000:128:4096:8192:1",
	"10000000:128:1000:1500:1", "10000:16:8:8:4"
};

/* Runs a command of the seeding to its end. */
void
gk_run(GkJob *job, GkCommand *command)
{
	double		begun = now();
	GkStatus	status = job->engine->class_of->submit(job->engine, command);

	check_status(status);
	do
		status = job->engine->class_of->wait(job->engine, 10);
	while (status.code == GK_RUNNING);
	check_status(status);
	job->times->commands[command->operation] += now() - begun;
}

/* The engine of a job. */
GkEngine *
gk_job_engine(GkJob *job)
{
	return job->engine;
}

/* An engine has contradicted itself: ends the program. */
void
gk_contradict(const GkEngine *engine, const char *how)
{
	fprintf(stderr, "%s engine: %s\n", engine->class_of->name, how);
	exit(1);
}

/* Nearly normal: the sum of four uniform values of 16 bits, with variance 1. */
static float
nearly_normal(uint64_t number)
{
	uint64_t	bits = gk_mix(number * GK_HASH_KEY + 1);
	int			sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (int) (bits >> 16 * i & 0xffff);
	return (float) (sum - 131070) * (1.7320508f / 65536.0f);
}

/* Makes some of the rows. */
static void
make_part(void *argument, int64_t from, int64_t to)
{
	const Set  *set = argument;
	int			d = set->rows.d;

	for (int64_t i = from; i < to; i++)
	{
		float	   *row = (float *) set->rows.x + i * d;
		uint64_t	centre = set->centres > 0 ? gk_mix(i) % (uint64_t) set->centres : 0;

		for (int j = 0; j < d; j++)
			row[j] = nearly_normal((uint64_t) i * d + j) +
				(set->centres > 0 ? set->spread * nearly_normal(~(centre * d + j)) : 0.0f);
	}
}

/* Makes a set as its description says. */
static Set
make_set(const char *description)
{
	Set			set = {0};
	long long	n = 0;
	long long	k = 0;

	if (sscanf(description, "%lld:%d:%lld:%lld:%f", &n, &set.rows.d, &k, &set.centres,
			   &set.spread) != 5 || k < 1 || n < k || set.rows.d < 1)
	{
		fprintf(stderr, "%s is not ROWS:FEATURES:K:CENTRES:SPREAD\n", description);
		exit(1);
	}
	set.rows.n = n;
	set.k = k;
	set.rows.x = malloc(n * set.rows.d * sizeof(float));
	in_parallel(n, make_part, &set);
	return set;
}

/* The mean of each feature, the exponents of the grid, and the variance. */
static void
prepare(GkEngine *engine, Set *set, double *mean, int *exponents)
{
	int			d = set->rows.d;
	int			bits = gk_value_bits(set->rows.n);
	float	   *range = malloc(2 * d * sizeof(float));
	int		   *squares = malloc(d * sizeof(int));
	GkSum	   *sums = malloc(2 * d * sizeof(GkSum));
	int64_t    *counts = malloc(2 * (d + 1) * sizeof(int64_t));
	double	   *pivot = calloc(d, sizeof(double));
	double		n = (double) set->rows.n;
	GkCommand	c = {.operation = GK_RANGE};

	c.range.least = range;
	c.range.greatest = range + d;
	run(engine, &c);
	for (int j = 0; j < d; j++)
	{
		double		greatest = fmax(fabs(range[j]), fabs(range[d + j]));

		exponents[j] = gk_grid_exponent(greatest, bits);
		squares[j] = gk_grid_exponent(greatest * greatest, bits);
	}
	exponents[d] = 0;
	c = (GkCommand) {.operation = GK_MOMENTS};
	c.moments.pivot = pivot;
	c.moments.first_exponents = exponents;
	c.moments.second_exponents = squares;
	c.moments.rest_bits = bits;
	c.moments.first = sums;
	c.moments.second = sums + d;
	c.moments.exponent_sum = counts;
	c.moments.nonzero = counts + d + 1;
	run(engine, &c);
	set->variance = 0.0;
	for (int j = 0; j < d; j++)
	{
		GkSum		square = sums[d + j];

		mean[j] = gk_grid_value(sums[j].high, sums[j].low, exponents[j], bits) / n;
		set->variance += gk_grid_value(square.high, square.low, squares[j], bits) / n -
			mean[j] * mean[j];
	}
	free(range);
	free(squares);
	free(sums);
	free(counts);
	free(pivot);
}

/* A new engine with the rows, and the grid set. */
static GkEngine *
open_with_rows(const GkEngineClass *class_of, const GkEngineConfig *config, Set *set)
{
	double	   *mean = malloc(set->rows.d * sizeof(double));
	int		   *exponents = malloc((set->rows.d + 1) * sizeof(int));
	GkEngine   *engine;

	check_status(class_of->open(config, &engine));
	append_rows(engine, &set->rows, BATCH_BYTES / (int64_t) sizeof(float) / set->rows.d + 1,
				class_of == gk_cpu_engine() ? 0 : SLOTS);
	prepare(engine, set, mean, exponents);
	set_grid(engine, false, exponents, mean);
	free(mean);
	free(exponents);
	return engine;
}

/* True if a centroid is one of the rows. */
static bool
is_row(const Set *set, const double *centroid)
{
	for (int64_t i = 0; i < set->rows.n; i++)
	{
		const float *row = set->rows.x + i * set->rows.d;
		int			j = 0;

		while (j < set->rows.d && row[j] == centroid[j])
			j++;
		if (j == set->rows.d)
			return true;
	}
	return false;
}

/* True if the seeds are as many as they should be, all different, and rows. */
static bool
are_seeds(const Set *set, const double *centroids, int64_t count)
{
	int			d = set->rows.d;

	if (count != set->k)
		return false;
	for (int64_t a = 0; a < count; a++)
		for (int64_t b = 0; b < a; b++)
			if (memcmp(centroids + a * d, centroids + b * d, d * sizeof(double)) == 0)
				return false;
	for (int64_t i = 0; i < Min(count, SEEDS_SOUGHT); i++)
		if (!is_row(set, centroids + count * i / SEEDS_SOUGHT % count * d))
			return false;
	return true;
}

/* Iterates from some centroids. */
static void
iterate(GkEngine *engine, const Set *set, const double *centroids, Times *times)
{
	uint8_t    *is_empty = malloc(set->k);
	GkEntry    *entries = malloc(set->k * sizeof(GkEntry));
	double		numbers[2];
	int			done = 0;
	bool		changed = true;

	set_centroids(engine, centroids, set->k, false);
	times->iteration = -now();
	for (; changed && done < ITERATIONS; done++)
	{
		GkCommand	c = {.operation = GK_STEP};

		c.step.is_empty = is_empty;
		run(engine, &c);
		changed = c.step.changed > 0;
		if (c.step.empty > 0)
			relocate_farthest(engine, is_empty, c.step.empty, entries, numbers);
	}
	times->iteration = (times->iteration + now()) / done;
	free(is_empty);
	free(entries);
}

/* Seeds and iterates on a new engine. */
static Times
time_seeding(const GkEngineClass *class_of, const GkEngineConfig *config, Set *set)
{
	Times		times = {0};
	GkEngine   *engine = open_with_rows(class_of, config, set);
	struct GkJob job = {engine, &times};
	double	   *centroids = malloc(set->k * set->rows.d * sizeof(double));
	GkSeedSpec	spec = {
		.job = &job,.init = GK_INIT_PARALLEL,.k = set->k,.rows = set->rows.n,
		.dimension = set->rows.d,.variance = set->variance,.greatest_weight = 1.0,
		.oversampling = 1.0,.rounds = 5
	};
	GkCommand	label = {.operation = GK_ASSIGN};
	int64_t		found;

	times.seeding = -now();
	found = gk_seed(&spec, centroids);
	times.seeding += now();
	times.right = are_seeds(set, centroids, found);
	iterate(engine, set, centroids, &times);
	run(engine, &label);
	times.right &= wrong_in_sample(engine, &set->rows, set->k,
								   set->k * set->rows.d > 1000000 ? SAMPLE / 10 : SAMPLE) == 0;
	engine->class_of->close(engine);
	free(centroids);
	return times;
}

/* Prints what a seeding took. */
static void
print_times(const Set *set, const Times *times)
{
	double		draws = times->commands[GK_DRAW] + times->commands[GK_CANDIDATES] +
		times->commands[GK_MASSES] + times->commands[GK_ENTRIES] + times->commands[GK_ROWS] +
		times->commands[GK_COMPARE];
	double		weights = times->commands[GK_LABEL_WEIGHTS];
	double		merge = times->commands[GK_MERGE];
	double		rest = times->seeding - draws - weights - merge;

	printf("| %lld × %d, k %lld | %lld, %g | %.2f | %.2f, %.2f, %.2f, %.2f | %.3f | %.1f | %s |\n",
		   (long long) set->rows.n, set->rows.d, (long long) set->k, set->centres, set->spread,
		   1e3 * times->seeding, 1e3 * draws, 1e3 * weights, 1e3 * merge, 1e3 * rest,
		   1e3 * times->iteration, times->seeding / times->iteration,
		   times->right ? "yes" : "no");
	fflush(stdout);
}

/* Times the seeding of a set; false if something is wrong. */
static bool
time_set(const GkEngineClass *class_of, const GkEngineConfig *config, const char *description)
{
	Set			set = make_set(description);
	Times		fastest = {.seeding = INFINITY};
	bool		right = true;

	for (int i = 0; i < SEEDINGS; i++)
	{
		Times		times = time_seeding(class_of, config, &set);

		right &= times.right;
		if (times.seeding < fastest.seeding)
			fastest = times;
	}
	fastest.right = right;
	print_times(&set, &fastest);
	free((float *) set.rows.x);
	return right;
}

/* Times the sets; the exit status is 1 if something was wrong. */
int
main(int argc, char **argv)
{
	GkEngineConfig config = {0};
	const GkEngineClass *class_of = class_of_engine(argc > 2 ? argv[2] : NULL);
	bool		right = true;

	config.threads = config.device_count = argc > 1 ? atoi(argv[1]) : 1;
	for (int i = 0; i < config.device_count && i < GK_MAX_DEVICES; i++)
		config.devices[i] = i;
	printf("| rows | centres, their spread | seeding, ms | of it: rounds, weights, merge, host |"
		   " an iteration, ms | iterations | right |\n|---|---|--:|---|--:|--:|---|\n");
	if (argc > 3)
		for (int i = 3; i < argc; i++)
			right &= time_set(class_of, &config, argv[i]);
	else
		for (size_t i = 0; i < lengthof(usual_sets); i++)
			right &= time_set(class_of, &config, usual_sets[i]);
	return right ? 0 : 1;
}
