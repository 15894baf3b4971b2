/*
 * The CPU engine against the reference engine: every output of every command, bit for bit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"
#include "engine_cases.h"
#include "reference_engine.h"

/* Slow programs take fewer rows. */
#ifdef SLOW
#define FEWER 5
#else
#define FEWER 1
#endif

static int	tests = 0;
static int	failures = 0;
static char where[200];			/* the case that runs */
static bool differs;			/* some output of this case was not the same */

/* Reports a test. */
static void
ok(bool good, const char *name)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
	failures += !good;
}

/* Compares an output. */
static void
same(const void *mine, const void *reference, size_t bytes, const char *what)
{
	if (memcmp(mine, reference, bytes) == 0)
		return;
	if (!differs)
		printf("# %s: %s differs\n", where, what);
	differs = true;
}

/* Both engines, and room for what they answer: out[0] the CPU engine's, out[1] the reference's. */
typedef struct Pair
{
	const Data *data;
	GkEngine   *engines[2];
	void	   *out[2][8];
	size_t		sizes[8];
} Pair;

/* Room for output number i. */
static void *
room(Pair *pair, int which, int i, size_t bytes)
{
	pair->sizes[i] = bytes;
	free(pair->out[which][i]);
	pair->out[which][i] = calloc(1, bytes + 1);
	return pair->out[which][i];
}

/* Compares outputs 0 .. count - 1. */
static void
same_outputs(Pair *pair, int count, const char *what)
{
	for (int i = 0; i < count; i++)
		same(pair->out[0][i], pair->out[1][i], pair->sizes[i], what);
}

/* Labels, and d² if asked for, of all rows. */
static void
compare_rows(Pair *pair, bool distances, const char *what)
{
	int64_t		n = pair->data->n;

	for (int e = 0; e < 2; e++)
		pair->engines[e]->class_of->fetch(pair->engines[e], 0, n, room(pair, e, 0, n * 4),
										  distances ? room(pair, e, 1, n * 8) : NULL);
	same_outputs(pair, distances ? 2 : 1, what);
}

/* Least and greatest values and weights. */
static void
compare_range(Pair *pair)
{
	int			d = pair->data->d;

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_RANGE};
		double	   *weights = room(pair, e, 2, 2 * sizeof(double));

		c.u.range.least = room(pair, e, 0, d * sizeof(float));
		c.u.range.greatest = room(pair, e, 1, d * sizeof(float));
		run(pair->engines[e], &c);
		weights[0] = c.u.range.least_weight;
		weights[1] = c.u.range.greatest_weight;
	}
	same_outputs(pair, 3, "range");
}

/* Moments of features and weights. */
static void
compare_moments(Pair *pair)
{
	int			d = pair->data->d;
	int		   *exponents = malloc(2 * d * sizeof(int));

	for (int j = 0; j < d; j++)
	{
		exponents[j] = pair->data->exponents[j] - 8;
		exponents[d + j] = 2 * pair->data->exponents[j] - 60;
		if (exponents[d + j] > 900)
			exponents[d + j] = 900;
	}
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_MOMENTS};
		GkSum	   *weight = room(pair, e, 4, sizeof(GkSum));

		c.u.moments.pivot = pair->data->center;
		c.u.moments.first_exponents = exponents;
		c.u.moments.second_exponents = exponents + d;
		c.u.moments.weight_exponent = 10;
		c.u.moments.rest_bits = 30;
		c.u.moments.first = room(pair, e, 0, d * sizeof(GkSum));
		c.u.moments.second = room(pair, e, 1, d * sizeof(GkSum));
		c.u.moments.exponent_sum = room(pair, e, 2, (d + 1) * 8);
		c.u.moments.nonzero = room(pair, e, 3, (d + 1) * 8);
		run(pair->engines[e], &c);
		*weight = c.u.moments.weight;
	}
	same_outputs(pair, 5, "moments");
	free(exponents);
}

/* Transforms the rows, and looks at the first, the middle and the last one. */
static void
compare_transform(Pair *pair, bool normalize)
{
	int			d = pair->data->d;
	double	   *factor = malloc(d * sizeof(double));
	int64_t		rows[3] = {0, pair->data->n / 2, pair->data->n - 1};

	for (int j = 0; j < d; j++)
		factor[j] = 1.0 + 0.125 * (j % 3);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_TRANSFORM};
		GkCommand	get = {.operation = GK_ROWS};

		c.u.transform.offset = pair->data->center;
		c.u.transform.factor = factor;
		c.u.transform.normalize = normalize;
		run(pair->engines[e], &c);
		get.u.rows.rows = rows;
		get.u.rows.count = 3;
		get.u.rows.features = room(pair, e, 0, 3 * d * sizeof(float));
		run(pair->engines[e], &get);
	}
	same_outputs(pair, 1, "transform");
	free(factor);
}

/* Gives both engines the grid of the data. */
static void
set_grid(Pair *pair)
{
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_GRID};

		c.u.grid.wide = pair->data->wide;
		c.u.grid.rest_bits = pair->data->rest_bits;
		c.u.grid.exponents = pair->data->exponents;
		c.u.grid.center = pair->data->center;
		run(pair->engines[e], &c);
	}
}

/* An exponent that makes masses large and sums of them no overflow. */
static int
mass_exponent(const Data *data, double greatest)
{
	int			exponent;

	frexp(greatest > 0 ? greatest : 1.0, &exponent);
	exponent = 48 - (int) ceil(log2((double) data->n + 1)) - exponent;
	return exponent > 1000 ? 1000 : exponent;
}

/* The buckets of a mass, and the entries of some of them, 100 at a time. */
static void
compare_masses(Pair *pair, GkMass mass, int exponent, int bits)
{
	int64_t		buckets = INT64_C(1) << bits;
	uint8_t    *wanted = calloc(1, buckets);

	for (int64_t b = 0; b < buckets; b++)
		wanted[b] = random_bits() % 3 == 0 || bits == 0;
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_MASSES};
		int64_t		from = 0;

		c.u.masses.mass = mass;
		c.u.masses.exponent = exponent;
		c.u.masses.bits = bits;
		c.u.masses.buckets = room(pair, e, 0, buckets * 8);
		run(pair->engines[e], &c);
		c = (GkCommand) {.operation = GK_ENTRIES};
		c.u.entries.mass = mass;
		c.u.entries.exponent = exponent;
		c.u.entries.bits = bits;
		c.u.entries.wanted = wanted;
		c.u.entries.capacity = 100;
		room(pair, e, 1, (pair->data->n + 100) * sizeof(GkEntry));
		for (int64_t total = 0; from < pair->data->n; from = c.u.entries.next)
		{
			c.u.entries.from = from;
			c.u.entries.entries = (GkEntry *) pair->out[e][1] + total;
			run(pair->engines[e], &c);
			total += c.u.entries.count;
		}
	}
	same_outputs(pair, 2, "masses and entries");
	free(wanted);
}

/* d² to candidates, in `count` at a time. */
static double
compare_candidates(Pair *pair, int64_t count)
{
	double		greatest = 0.0;

	for (int64_t from = 0; from < pair->data->k; from += count)
	{
		for (int e = 0; e < 2; e++)
		{
			GkCommand	c = {.operation = GK_CANDIDATES};

			c.u.candidates.candidates = pair->data->centroids + from * pair->data->d;
			c.u.candidates.count = pair->data->k - from < count ? pair->data->k - from : count;
			c.u.candidates.first_label = from;
			run(pair->engines[e], &c);
			greatest = c.u.candidates.greatest;
			memcpy(room(pair, e, 2, 8), &greatest, 8);
		}
		same(pair->out[0][2], pair->out[1][2], 8, "greatest d² of candidates");
		compare_rows(pair, true, "labels and d² of candidates");
	}
	return greatest;
}

/* All that seeding asks: candidates, potentials, masses, weights of the labels. */
static void
compare_seeding(Pair *pair, int64_t count)
{
	double		greatest = compare_candidates(pair, count);
	int			exponent = mass_exponent(pair->data, greatest);
	int64_t		trials = pair->data->k < 7 ? pair->data->k : 7;

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_POTENTIALS};

		c.u.potentials.trials = pair->data->centroids;
		c.u.potentials.count = (int) trials;
		c.u.potentials.exponent = exponent;
		c.u.potentials.potentials = room(pair, e, 0, trials * 8);
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "potentials");
	compare_masses(pair, GK_MASS_DISTANCE, exponent, 10);
	compare_masses(pair, GK_MASS_WEIGHT,
				   mass_exponent(pair->data, pair->data->weighted ? 1e8 : 1), 0);
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_LABEL_WEIGHTS};

		c.u.label_weights.count = pair->data->k;
		c.u.label_weights.weights = room(pair, e, 0, pair->data->k * sizeof(GkSum));
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "label weights");
}

/* The centroids as they are. */
static void
compare_centroids(Pair *pair)
{
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_GET_CENTROIDS};

		c.u.get_centroids.centroids = room(pair, e, 0, pair->data->k * pair->data->d * 8);
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 1, "centroids");
}

/* Relocation as the fit layer does it: the farthest rows to the empty clusters. */
static void
compare_relocation(Pair *pair, const uint8_t *is_empty, int64_t empty)
{
	int64_t    *rows = calloc(empty, 8);
	int64_t    *clusters = calloc(empty, 8);

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_DISTANCES};
		GkEntry    *entries = room(pair, e, 0, empty * sizeof(GkEntry));
		double	   *shift2 = room(pair, e, 1, 8);

		run(pair->engines[e], &c);
		c = (GkCommand) {.operation = GK_FARTHEST};
		c.u.farthest.count = empty;
		c.u.farthest.entries = entries;
		run(pair->engines[e], &c);
		for (int64_t i = 0, cluster = 0; i < c.u.farthest.found; i++, cluster++)
		{
			while (!is_empty[cluster])
				cluster++;
			rows[i] = entries[i].row;
			clusters[i] = cluster;
		}
		c.u.relocate.count = c.u.farthest.found;
		c.operation = GK_RELOCATE;
		c.u.relocate.rows = rows;
		c.u.relocate.clusters = clusters;
		run(pair->engines[e], &c);
		*shift2 = c.u.relocate.shift2;
	}
	same_outputs(pair, 2, "relocation");
	free(rows);
	free(clusters);
}

/* One iteration; true if no label changed. */
static bool
compare_step(Pair *pair)
{
	int64_t		k = pair->data->k;
	int64_t		changed = 0;
	int64_t		empty = 0;
	uint8_t    *is_empty = calloc(1, k);

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_STEP};
		double	   *numbers = room(pair, e, 1, 3 * 8);

		c.u.step.is_empty = room(pair, e, 0, k);
		run(pair->engines[e], &c);
		numbers[0] = (double) (changed = c.u.step.changed);
		numbers[1] = (double) (empty = c.u.step.empty);
		numbers[2] = c.u.step.shift2;
	}
	same_outputs(pair, 2, "step");
	memcpy(is_empty, pair->out[1][0], k);
	compare_rows(pair, false, "labels of a step");
	if (empty > 0)
		compare_relocation(pair, is_empty, empty);
	compare_centroids(pair);
	free(is_empty);
	return changed == 0;
}

/* The last assignment, and the statistics of the clusters. */
static void
compare_statistics(Pair *pair)
{
	int64_t		k = pair->data->k;

	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_ASSIGN};
		double	   *numbers = room(pair, e, 0, 3 * 8);
		double		greatest;
		double		greatest_distance;

		run(pair->engines[e], &c);
		numbers[0] = (double) c.u.assign.changed;
		numbers[1] = greatest = c.u.assign.greatest;
		numbers[2] = greatest_distance = c.u.assign.greatest_distance;
		c = (GkCommand) {.operation = GK_STATISTICS};
		c.u.statistics.inertia_exponent = mass_exponent(pair->data, greatest);
		c.u.statistics.distance_exponent = mass_exponent(pair->data, greatest_distance);
		c.u.statistics.rest_bits = 30;
		c.u.statistics.sizes = room(pair, e, 1, k * 8);
		c.u.statistics.weights = room(pair, e, 2, k * sizeof(GkSum));
		c.u.statistics.inertia = room(pair, e, 3, k * sizeof(GkSum));
		c.u.statistics.distance = room(pair, e, 4, k * sizeof(GkSum));
		c.u.statistics.radius2 = room(pair, e, 5, k * 8);
		run(pair->engines[e], &c);
	}
	same_outputs(pair, 6, "statistics");
	compare_rows(pair, true, "labels and d²");
}

/* A whole fit on both engines. */
static void
compare_fit(const Data *data, Feeding feeding, int steps)
{
	Pair		pair = {.data = data};

	pair.engines[0] = feed(gk_cpu_engine(), data, feeding);
	pair.engines[1] = feed(gk_reference_engine(), data, feeding);
	compare_range(&pair);
	compare_moments(&pair);
	set_grid(&pair);
	compare_seeding(&pair, data->k > 40 ? data->k / 3 : 1 + (int64_t) (random_bits() % 30));
	for (int start = 0; start < 2; start++)
	{
		for (int e = 0; e < 2; e++)
		{
			GkCommand	c = {.operation = GK_CENTROIDS};

			c.u.centroids.centroids = data->centroids;
			c.u.centroids.k = data->k;
			c.u.centroids.spherical = data->spherical;
			run(pair.engines[e], &c);
		}
		for (int step = 0; step < steps && !compare_step(&pair); step++)
			;
		compare_statistics(&pair);
		/* going on after the statistics is allowed */
		compare_step(&pair);
	}
	compare_transform(&pair, data->spherical);
	for (int e = 0; e < 2; e++)
		pair.engines[e]->class_of->close(pair.engines[e]);
	for (int i = 0; i < 8; i++)
	{
		free(pair.out[0][i]);
		free(pair.out[1][i]);
	}
}

/* All kinds of data in a shape, on every instruction set. */
static void
test_shape(int64_t n, int d, int64_t k, int steps)
{
	static const char *const sets[] = {"generic", "avx2", "avx512"};
	static const int threads[] = {1, 2, 3, 7};
	char		name[100];

	n = (n + FEWER - 1) / FEWER;
	k = k < n ? k : n;
	differs = false;
	for (int kind = 0; kind < KINDS; kind++)
		for (int s = 0; s < 3; s++)
		{
			const GkKernels *kernels = gk_kernels_find(sets[s]);
			uint64_t	dice = random_bits();
			Feeding		feeding = {threads[dice % 4], 1 + (int64_t) (random_bits() % (2 * n))};
			bool		weighted = dice >> 8 & 1;
			bool		wide = dice >> 9 & 1;
			bool		spherical = (dice >> 10 & 3) == 0;
			Data		data;

			if (kernels == NULL)
				continue;
			gk_cpu_engine_use(kernels, dice >> 12 & 1);
			data = make_data(kind, n, d, k, weighted, wide, spherical);
			snprintf(where, sizeof(where),
					 "n %lld d %d k %lld kind %d %s threads %d batch %lld%s%s%s",
					 (long long) n, d, (long long) k, kind, sets[s], feeding.threads,
					 (long long) feeding.batch, weighted ? " weighted" : "", wide ? " wide" : "",
					 spherical ? " spherical" : "");
			compare_fit(&data, feeding, steps);
			free_data(&data);
		}
	snprintf(name, sizeof(name), "n %lld, d %d, k %lld", (long long) n, d, (long long) k);
	ok(!differs, name);
}

/* One data set on the best instruction set, with threads. */
static void
test_case(Kind kind, int64_t n, int d, int64_t k, bool wide, int threads, const char *name)
{
	Data		data = make_data(kind, n / FEWER, d, k, false, wide, false);

	gk_cpu_engine_use(NULL, true);
	differs = false;
	snprintf(where, sizeof(where), "%s", name);
	compare_fit(&data, (Feeding) {threads, n}, 1);
	ok(!differs, name);
	free_data(&data);
}

/* Runs iterations on one engine and gives its centroids. */
static double *
fit_centroids(const Data *data, Feeding feeding, int steps)
{
	GkEngine   *engine = feed(gk_cpu_engine(), data, feeding);
	double	   *centroids = malloc(data->k * data->d * sizeof(double));
	GkCommand	c = {.operation = GK_GRID};

	c.u.grid.wide = data->wide;
	c.u.grid.rest_bits = data->rest_bits;
	c.u.grid.exponents = data->exponents;
	c.u.grid.center = data->center;
	run(engine, &c);
	c = (GkCommand) {.operation = GK_CENTROIDS};
	c.u.centroids.centroids = data->centroids;
	c.u.centroids.k = data->k;
	run(engine, &c);
	for (int step = 0; step < steps; step++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		run(engine, &c);
		if (c.u.step.empty > 0)
		{
			c = (GkCommand) {.operation = GK_RELOCATE};
			run(engine, &c);
		}
	}
	c = (GkCommand) {.operation = GK_GET_CENTROIDS};
	c.u.get_centroids.centroids = centroids;
	run(engine, &c);
	engine->class_of->close(engine);
	return centroids;
}

/* The order of the rows, the batches and the threads must not matter. */
static void
test_order(void)
{
	bool		good = true;

	gk_cpu_engine_use(NULL, true);
	for (int wide = 0; wide < 2; wide++)
	{
		Data		data = make_data(NORMAL, 20000 / FEWER, 24, 60, true, wide, false);
		double	   *first = fit_centroids(&data, (Feeding) {1, 500}, 8);

		for (int i = 0; i < 4; i++)
		{
			double	   *other;

			shuffle_rows(&data);
			other = fit_centroids(&data, (Feeding) {1 + 2 * i, 1 + 777 * i * i}, 8);
			good &= memcmp(first, other, data.k * data.d * sizeof(double)) == 0;
			free(other);
		}
		free(first);
		free_data(&data);
	}
	ok(good, "row order, batches and threads do not matter");
}

/* Compares engines on shapes small and large; the argument is the seed. */
int
main(int argc, char **argv)
{
	random_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 20);
	test_shape(1, 1, 1, 3);
	test_shape(5, 2, 5, 3);
	test_shape(17, 3, 4, 5);
	test_shape(300, 1, 20, 8);
	test_shape(1000, 2, 50, 12);
	test_shape(999, 7, 13, 12);
	test_shape(500, 8, 500, 4);
	test_shape(2000, 16, 100, 8);
	test_shape(1500, 17, 33, 8);
	test_shape(800, 100, 64, 6);
	test_shape(400, 128, 130, 6);
	test_shape(100, 784, 30, 4);
	test_shape(60, 2000, 25, 4);
	test_shape(5000, 3, 12, 10);
	for (int i = 0; i < 10; i++)
	{
		int64_t		n = 1 + (int64_t) (random_bits() % 600);

		test_shape(n, 1 + (int) (random_bits() % 40), 1 + (int64_t) (random_bits() % (uint64_t) n),
				   6);
	}
	test_case(NORMAL, 1000, 784, 200, false, 1, "centroids that exceed the cache");
	test_case(LATTICE, 1000, 784, 200, false, 2, "centroids that exceed the cache, ties");
	test_case(NORMAL, 600, 100, 500, true, 64, "sums that exceed what every thread can have");
	test_order();
	printf("1..%d\n", tests);
	return failures > 0;
}
