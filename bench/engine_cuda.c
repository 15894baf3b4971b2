/*
 * Times the CUDA engine alone: reading rows in, iterations, final labels; and checks labels against
 * the definition on a sample.  Rows are one cloud, the hard case for most, or blobs with many
 * centroids in each, where 16-bit products tell little.
 * Built by `make -C test/unit bench`.
 * Usage: engine_cuda_bench LIBRARY [devices [largest GB of rows [shape]]]
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine_drive.h"
#include "engine_library.h"
#include "engine_rows.h"

#define ITERATIONS 12
#define SAMPLE 1000
#define BATCH_BYTES ((int64_t) 4 << 20)
#define SLOTS 8

typedef struct Shape
{
	int64_t		n;
	int64_t		k;
	int			d;
	int64_t		blobs;			/* 0: one cloud */
} Shape;

/* The order of doubles, for qsort. */
static int
compare_doubles(const void *a, const void *b)
{
	double		left = *(const double *) a;
	double		right = *(const double *) b;

	return (left > right) - (left < right);
}

/* What was measured of a shape. */
typedef struct Times
{
	double		load;
	double		steps[ITERATIONS];
	double		assign;
	double		close;
	int64_t		changed;		/* in the last iteration */
	int64_t		wrong;
	uint64_t	device_peak;
} Times;

/* Iterates, then labels the rows. */
static void
iterate(GkEngine *engine, Times *times)
{
	GkCommand	c;

	for (int i = 0; i < ITERATIONS; i++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		times->steps[i] = -now();
		run(engine, &c);
		times->steps[i] += now();
		times->changed = c.step.changed;
		if (c.step.empty > 0)
		{
			c = (GkCommand) {.operation = GK_RELOCATE};
			run(engine, &c);
		}
	}
	c = (GkCommand) {.operation = GK_ASSIGN};
	times->assign = -now();
	run(engine, &c);
	times->assign += now();
}

/* Prints a line of the table. */
static void
print(Shape s, Times *times)
{
	double		bytes = (double) s.n * s.d * sizeof(float);
	double	   *later = times->steps + 2;
	char		note[40] = "";

	qsort(later, ITERATIONS - 2, sizeof(double), compare_doubles);
	if (s.blobs > 0)
		snprintf(note, sizeof(note), ", %lld blobs", (long long) s.blobs);
	printf("%9lld x %6lld x %4d%s  load %6.2f GB/s  first %8.3f  second %8.3f  median %8.3f  "
		   "least %8.3f  assign %8.3f  close %6.1f ms  changed %.3f  device %.3f of %.3f GB  "
		   "wrong %lld\n",
		   (long long) s.n, (long long) s.k, s.d, note, bytes * 1e-9 / times->load,
		   times->steps[0] * 1e3, times->steps[1] * 1e3, later[(ITERATIONS - 2) / 2] * 1e3,
		   later[0] * 1e3, times->assign * 1e3, times->close * 1e3,
		   (double) times->changed / (double) s.n, (double) times->device_peak * 1e-9,
		   bytes * 1e-9, (long long) times->wrong);
	fflush(stdout);
}

/* Times one shape. */
static void
time_shape(const GkEngineClass *class_of, Shape s, const float *x, int devices)
{
	GkEngineConfig config = {.device_count = devices};
	Rows		rows = {.n = s.n,.d = s.d,.x = x};
	GkEngine   *engine;
	GkUsage		usage;
	Times		times;

	for (int i = 0; i < devices; i++)
		config.devices[i] = i;
	check_status(class_of->open(&config, &engine));
	times.load = append_rows(engine, &rows, BATCH_BYTES / (int64_t) sizeof(float) / s.d, SLOTS);
	begin_with_rows(engine, &rows, s.k);
	iterate(engine, &times);
	class_of->usage(engine, &usage);
	times.device_peak = usage.device_peak;
	times.wrong = wrong_in_sample(engine, &rows, s.k, s.k * s.d > 10000000 ? 50 : SAMPLE);
	times.close = -now();
	class_of->close(engine);
	times.close += now();
	print(s, &times);
}

/* Times the shapes that fit into so many GB of rows. */
int
main(int argc, char **argv)
{
	static const Shape shapes[] = {
		{1000000, 1000, 128, 0}, {10000000, 100, 32, 0}, {10000000, 1024, 128, 0},
		{1000000, 16384, 128, 0}, {5000000, 4096, 256, 0}, {1000000, 65536, 512, 0},
		{100000000, 16, 8, 0}, {8000000, 10, 128, 0}, {1000000, 256, 784, 0},
		{4000000, 10000, 250, 0}, {1000000, 1000, 128, 50}, {1000000, 1000, 128, 1000}
	};
	const GkEngineClass *class_of;
	double		largest = argc > 3 ? atof(argv[3]) * 1e9 : 6e9;
	int64_t		count = 0;
	float	   *x;

	if (argc < 2)
	{
		fprintf(stderr, "usage: engine_cuda_bench LIBRARY [devices [largest GB of rows"
				" [shape]]]\n");
		return 1;
	}
	class_of = class_of_engine(argv[1]);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if ((double) shapes[i].n * shapes[i].d * 4 <= largest && shapes[i].n * shapes[i].d > count)
			count = shapes[i].n * shapes[i].d;
	x = make_rows(count, 1, 0);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
	{
		float	   *blobs;

		if (shapes[i].n * shapes[i].d > count || (argc > 4 && atoi(argv[4]) != (int) i))
			continue;
		blobs = shapes[i].blobs == 0 ? NULL
			: make_rows(shapes[i].n, shapes[i].d, shapes[i].blobs);
		time_shape(class_of, shapes[i], blobs != NULL ? blobs : x, argc > 2 ? atoi(argv[2]) : 1);
		free(blobs);
	}
	return 0;
}
