/*
 * Times the CUDA engine alone: reading rows in, iterations, final labels; and checks labels against
 * the definition on a sample.
 * Usage: engine_cuda LIBRARY [devices [largest GB of rows [shape]]]
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "exact.h"

#define ITERATIONS 12
#define SAMPLE 1000
#define BATCH_BYTES ((int64_t) 4 << 20)
#define MAKERS 32

typedef struct Shape
{
	int64_t		n;
	int64_t		k;
	int			d;
} Shape;

typedef struct Maker
{
	float	   *x;
	int64_t		from;
	int64_t		to;
} Maker;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Nearly normal values: the sum of four 16-bit uniform ones, with variance 1. */
static void *
make_values(void *argument)
{
	Maker	   *maker = argument;

	for (int64_t i = maker->from; i < maker->to; i++)
	{
		uint64_t	bits = gk_mix((uint64_t) i * UINT64_C(0x9e3779b97f4a7c15) + 1);
		int			sum = (int) (bits & 0xffff) + (int) (bits >> 16 & 0xffff) +
			(int) (bits >> 32 & 0xffff) + (int) (bits >> 48);

		maker->x[i] = (float) (sum - 131070) * (1.7320508f / 65536.0f) + 0.0f;
	}
	return NULL;
}

/* Random normal rows, made by several threads. */
static void
make_rows(float *x, int64_t count)
{
	pthread_t	threads[MAKERS];
	Maker		makers[MAKERS];

	for (int i = 0; i < MAKERS; i++)
	{
		makers[i] = (Maker) {x, count / MAKERS * i, i == MAKERS - 1 ? count : count / MAKERS * (i + 1)};
		pthread_create(&threads[i], NULL, make_values, &makers[i]);
	}
	for (int i = 0; i < MAKERS; i++)
		pthread_join(threads[i], NULL);
}

static void
check(GkStatus status)
{
	if (status.code == GK_OK)
		return;
	fprintf(stderr, "%d %s: %s (%llu of %llu)\n", (int) status.code, status.where, status.message,
			(unsigned long long) status.needed, (unsigned long long) status.allowed);
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

/* Appends the rows through a pinned buffer, as the ring does. */
static double
append_rows(GkEngine *engine, Shape s, const float *x)
{
	const GkEngineClass *c = engine->class_of;
	int64_t		batch_rows = BATCH_BYTES / (int64_t) sizeof(float) / s.d;
	GkCommand	seal = {.operation = GK_SEAL};
	float	   *ring = aligned_alloc(4096, 8 * BATCH_BYTES);
	uint64_t	tickets[8] = {0};
	double		start;
	int			slot = 0;

	memset(ring, 0, 8 * BATCH_BYTES);
	check(c->lend_buffer(engine, ring, 8 * BATCH_BYTES));
	check(c->set_dimension(engine, s.d));
	start = now();
	for (int64_t i = 0; i < s.n; i += batch_rows, slot = (slot + 1) % 8)
	{
		GkBatch		batch = {.rows = s.n - i < batch_rows ? s.n - i : batch_rows};
		uint64_t	done = 0;
		float	   *at = ring + slot * (BATCH_BYTES / 4);

		while (done < tickets[slot])
			check(c->reclaim(engine, &done));
		memcpy(at, x + i * s.d, batch.rows * s.d * sizeof(float));
		batch.features = at;
		check(c->append(engine, &batch, &tickets[slot]));
	}
	run(engine, &seal);
	start = now() - start;
	check(c->lend_buffer(engine, NULL, 0));
	free(ring);
	return start;
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

/* Rows of a sample whose label or d² is not that of the definition. */
static int64_t
wrong_labels(GkEngine *engine, Shape s, const float *x)
{
	int64_t		sample = s.k * s.d > 10000000 ? 50 : SAMPLE;
	double	   *centroids = malloc(s.k * s.d * sizeof(double));
	GkCommand	c = {.operation = GK_GET_CENTROIDS};
	int64_t		wrong = 0;

	c.u.get_centroids.centroids = centroids;
	run(engine, &c);
	for (int64_t i = 0; i < sample; i++)
	{
		int64_t		row = (int64_t) (gk_mix((uint64_t) i + 99) % (uint64_t) s.n);
		int32_t		label;
		double		distance2;
		double		best = INFINITY;
		int32_t		nearest = -1;

		check(engine->class_of->fetch(engine, row, 1, &label, &distance2));
		for (int64_t j = 0; j < s.k; j++)
		{
			double		sum = 0.0;

			for (int t = 0; t < s.d; t++)
				sum = gk_add_square(sum, x[row * s.d + t], centroids[j * s.d + t]);
			if (sum < best)
			{
				best = sum;
				nearest = (int32_t) j;
			}
		}
		wrong += nearest != label || best != distance2;
	}
	free(centroids);
	return wrong;
}

static int
compare_doubles(const void *a, const void *b)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return (left > right) - (left < right);
}

/* One shape: a line of the table. */
static void
time_shape(const GkEngineClass *class_of, Shape s, const float *x, int devices)
{
	GkEngineConfig config = {.device_count = devices};
	GkEngine   *engine;
	GkUsage		usage;
	double		seconds[ITERATIONS];
	int64_t		changed = 0;
	double		load;
	double		assign;
	double		start;
	GkCommand	c;

	for (int i = 0; i < devices; i++)
		config.devices[i] = i;
	check(class_of->open(&config, &engine));
	load = append_rows(engine, s, x);
	begin(engine, s, x);
	for (int i = 0; i < ITERATIONS; i++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		start = now();
		run(engine, &c);
		seconds[i] = now() - start;
		changed = c.u.step.changed;
		if (c.u.step.empty > 0)
		{
			c = (GkCommand) {.operation = GK_RELOCATE};
			run(engine, &c);
		}
	}
	c = (GkCommand) {.operation = GK_ASSIGN};
	start = now();
	run(engine, &c);
	assign = now() - start;
	class_of->usage(engine, &usage);
	qsort(seconds + 2, ITERATIONS - 2, sizeof(double), compare_doubles);
	printf("%9lld x %6lld x %4d  load %6.2f GB/s  first %8.3f  second %8.3f  median %8.3f  "
		   "least %8.3f  assign %8.3f ms  changed %.3f  device %.3f of %.3f GB  wrong %lld\n",
		   (long long) s.n, (long long) s.k, s.d, (double) s.n * s.d * 4e-9 / load, seconds[0] * 1e3,
		   seconds[1] * 1e3, seconds[2 + (ITERATIONS - 2) / 2] * 1e3, seconds[2] * 1e3, assign * 1e3,
		   (double) changed / (double) s.n, (double) usage.device_peak * 1e-9, (double) s.n * s.d * 4e-9,
		   (long long) wrong_labels(engine, s, x));
	fflush(stdout);
	class_of->close(engine);
}

int
main(int argc, char **argv)
{
	static const Shape shapes[] = {
		{1000000, 1000, 128}, {10000000, 100, 32}, {10000000, 1024, 128}, {1000000, 16384, 128},
		{5000000, 4096, 256}, {1000000, 65536, 512}, {100000000, 16, 8}, {8000000, 10, 128},
		{1000000, 256, 784}, {4000000, 10000, 250}
	};
	void	   *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	const GkEngineClass *(*get) (void);
	double		largest = argc > 3 ? atof(argv[3]) * 1e9 : 6e9;
	int64_t		count = 0;
	float	   *x;

	if (library == NULL)
	{
		fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: engine_cuda LIBRARY [devices [GB]]");
		return 1;
	}
	get = (const GkEngineClass *(*) (void)) dlsym(library, "gk_cuda_engine");
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if ((double) shapes[i].n * shapes[i].d * 4 <= largest && shapes[i].n * shapes[i].d > count)
			count = shapes[i].n * shapes[i].d;
	x = malloc(count * sizeof(float));
	make_rows(x, count);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if (shapes[i].n * shapes[i].d <= count && (argc < 5 || atoi(argv[4]) == (int) i))
			time_shape(get(), shapes[i], x, argc > 2 ? atoi(argv[2]) : 1);
	return 0;
}
