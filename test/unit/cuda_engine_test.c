/*
 * The CUDA engine against the reference engine and, on larger data, the CPU engine: every output of
 * every command, bit for bit; with rows in device memory and out of it, on one GPU and on several.
 *
 * Usage: cuda_engine_test ENGINE [seed [GPUs
 *			[few | edges | counts | quick | regions | wide | narrow | crowds | streamed | refits |
 *			 merges | draws | nearer | limits | stops | random | faults | all | large | products
 *			 [@CAPABILITY] [scale]]]]
 * ENGINE is the path of gkmeans_cuda.so; "cpu" puts the CPU engine in its place, "broken" one that
 * gives wrong labels ("broken=12", wrong answers to GkOperation 12).  GPUs is the most to use,
 * after 1, 2, 4 ... up to there; "4-4" is with four alone.
 * "products" is the error of the tensor cores alone, "few" every kernel on a little data, for
 * compute-sanitizer.  "regions" is the comparison by regions, "wide" rows of 512 or more
 * features, "narrow" few features and centroids, "crowds" rows that many centroids are nearest to.
 * "streamed" is rows that do not fit the devices, "large" fits of more than 2^31 values, and
 * nothing else; the host needs 30 GB for the latter.  scale shrinks or stretches the larger data.
 * "edges" is sizes at and beside those where kernels and tiles change, and "counts", which is whole
 * numbers; "limits" is values, differences and sizes that are hard to compute with, 300 data sets
 * of them, times the scale; "merges" is clusters that could have to wait for each other, "draws"
 * rows that seeding draws, "nearer" candidates that come after others, and neighbours of points of
 * any size; "refits" is fits with ever other k on the same engine.
 * "stops" stops commands wherever they can notice, and then at random for as many seconds as the
 * scale says; "random" does only the latter.  "faults" is calls of CUDA that fail: the end of an
 * engine, or of a command after which the engine goes on.  The GPUs must be free of other work:
 * what is free on them is compared.  "few@75" is the same with the kernels that GPUs of compute
 * capability 7.5 get, and as much shared memory as these have; "few@-75" has the first GPU get its
 * own kernels beside others that get those.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_stops.h"
#include "cuda_accumulation.h"
#include "engine_compare.h"
#include "engine_drive.h"
#include "engine_ends.h"
#include "engine_large.h"
#include "engine_stops.h"
#include "fault_engine.h"
#include "merge_rounds.h"
#include "reference_engine.h"
#include "spoiled_engine.h"
#include "tap.h"

#define CLOSE_SECONDS 0.1

#define CUDA_OUT_OF_MEMORY 2
#define CUDA_LAUNCH_OUT_OF_RESOURCES 701
#define CUDA_LAUNCH_FAILURE 719

static const GkEngineClass *tested;

/* Draws of rows that it has made by itself. */
static int64_t draws_made;

/* Plans an error of CUDA; NULL if the engine is another. */
static int64_t (*plan_cuda_fault) (int64_t call, int error);
static Probe probe;

/* Has regions always (1), or when they pay (0); returns the rows that they have decided, or -1. */
static int64_t (*wish_regions) (int wish);

/* Makes GPUs seem older from when they are opened; NULL if the engine cannot. */
static void (*pretend_capability) (int capability);

/* Plans a stop; NULL if the engine has none. */
static StopPlan plan_stop;
static double scale = 1.0;

/* From this many rows on, the reference engine is too slow. */
static int64_t
scaled(int64_t rows)
{
	return (int64_t) fmax(1.0, (double) rows * scale);
}

/* With so little device memory, each block is an allocation, whose ends a sanitizer checks. */
#define NO_ARENA_BYTES (UINT64_C(120) << 20)

/* One data set; the bits of `flags`: weighted, wide, spherical. */
static void
compare_case(Comparison *comparison, Kind kind, int64_t n, int d, int64_t k, int flags, int steps,
			 int devices, uint64_t limit)
{
	Data		data = make_data(kind, n, d, k, flags & 1, flags & 2, flags & 4);
	uint64_t	most = (uint64_t) (n < 4096 ? 2 * n : n / 2);
	Feeding		feeding = {
		.batch = 1 + (int64_t) (random_bits() % most),.slots = random_bits() % 2 ? 4 : 0,
		.devices = devices,.device_memory_limit = limit
	};

	if (limit == 0 && n * d < 1000000 && k * d < 100000 && random_bits() % 2)
		feeding.device_memory_limit = NO_ARENA_BYTES;
	snprintf(comparison->where, sizeof(comparison->where),
			 "n %lld d %d k %lld %s%s%s%s batch %lld%s limit %llu GPUs %d",
			 (long long) n, d, (long long) k, kind_name(kind), flags & 1 ? " weighted" : "",
			 flags & 2 ? " wide" : "", flags & 4 ? " spherical" : "", (long long) feeding.batch,
			 feeding.slots > 0 ? " lent" : "", (unsigned long long) limit, devices);
	compare_fit(comparison, &data, feeding, steps);
	free_data(&data);
}

/* Every stride-th kind of data in a shape. */
static void
test_shape(const GkEngineClass *oracle, int64_t n, int d, int64_t k, int steps, int devices,
		   int stride)
{
	Comparison	comparison = {.tested = tested,.oracle = oracle};
	double		start = now();

	k = k < n ? k : n;
	for (int kind = (int) (random_bits() % (uint64_t) stride); kind < KINDS; kind += stride)
		compare_case(&comparison, kind, n, d, k, (int) (random_bits() % 8), steps, devices, 0);
	ok(!comparison.differs, "n %lld, d %d, k %lld, GPUs %d (%.1f s)", (long long) n, d,
	   (long long) k, devices, now() - start);
}

/* Shapes that the reference engine can do. */
static void
test_small_shapes(int devices)
{
	static const struct
	{
		int			d;
		int64_t		n;
		int64_t		k;
		int64_t		all;		/* rows where k is their number */
	}			shapes[] = {
		{1, 9000, 40, 300}, {3, 6000, 100, 300}, {17, 3000, 64, 200}, {100, 1500, 50, 150},
		{784, 300, 20, 90}, {2000, 150, 16, 60}, {2, 5000, 50, 0}, {8, 1000, 260, 0},
		{128, 700, 130, 0}, {128, 900, 400, 0}, {250, 500, 300, 0}, {500, 400, 260, 0},
		{3, 2500, 2100, 0}
	};
	const GkEngineClass *oracle = gk_reference_engine();
	/* engine_test tries all on the CPU engine */
	int			stride = tested == gk_cpu_engine() ? 3 : 1;

	test_shape(oracle, 1, 1, 1, 3, devices, 1);
	test_shape(oracle, 5, 2, 5, 3, devices, 1);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
	{
		test_shape(oracle, shapes[i].n, shapes[i].d, shapes[i].k, 4, devices, stride);
		if (shapes[i].all == 0)
			continue;
		test_shape(oracle, shapes[i].n, shapes[i].d, 1, 2, devices, 2);
		test_shape(oracle, shapes[i].all, shapes[i].d, shapes[i].all, 3, devices, 2);
	}
	for (int i = 0; i < 10; i++)
	{
		int64_t		n = 1 + (int64_t) (random_bits() % 1000);
		int			d = 1 + (int) (random_bits() % 40);

		test_shape(oracle, n, d, 1 + (int64_t) (random_bits() % (uint64_t) n), 4, devices, 2);
	}
}

/* Larger ones, with the CPU engine as the oracle. */
static void
test_larger_shapes(int devices)
{
	const GkEngineClass *oracle = gk_cpu_engine();
	int			stride = devices == 1 ? 1 : 3;

	test_shape(oracle, scaled(100000), 8, 16, 6, devices, stride);
	test_shape(oracle, scaled(60000), 32, 100, 5, devices, stride);
	test_shape(oracle, scaled(20000), 128, 300, 4, devices, stride);
	test_shape(oracle, scaled(20000), 128, 600, 3, devices, stride);
	test_shape(oracle, scaled(4000), 300, 700, 3, devices, stride);
	test_shape(oracle, scaled(4000), 784, 256, 3, devices, stride);
	test_shape(oracle, scaled(20000), 17, 2000, 3, devices, stride);
	test_shape(oracle, scaled(3000), 2000, 40, 3, devices, stride);
	test_shape(oracle, scaled(6000), 40, 2100, 3, devices, 3 * stride);
	test_shape(oracle, scaled(200000), 1, 30, 4, devices, 3);
	test_shape(oracle, scaled(200000), 3, 1, 2, devices, 3);
}

/* Rows of many columns: as few as fill no tile, and so many that each block takes several. */
static void
test_wide_shapes(int devices)
{
	static const struct
	{
		int			d;
		int64_t		n;
		int64_t		k;
		int			stride;
	}			shapes[] = {
		{513, 300, 140, 1}, {640, 129, 129, 2}, {768, 400, 256, 2}, {1000, 200, 100, 1},
		{1024, 150, 130, 2}, {1536, 140, 65, 2}, {3072, 130, 90, 4}, {4096, 70, 50, 4},
		{512, 17300, 700, 9}, {513, 35001, 129, 9}, {640, 17100, 300, 9}, {768, 34500, 520, 9},
		{1000, 6001, 257, 6}, {1021, 17300, 300, 9}, {1024, 4000, 200, 6}, {1536, 3000, 513, 6},
		{3072, 2000, 384, 9}, {4096, 1500, 260, 9},
		/* candidates, and rows that others are compared with, in portions */
		{60000, 200, 195, KINDS}
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		test_shape(gk_cpu_engine(), shapes[i].n < 1000 ? shapes[i].n : scaled(shapes[i].n),
				   shapes[i].d, shapes[i].k, 3, devices, shapes[i].stride);
}

/*
 * Rows of as many columns as fill 1 to 8 tiles of 64, or end in one, and many centroids; as many
 * rows that each block takes several, the last ones not whole.
 */
static void
test_dense_shapes(int devices)
{
	static const struct
	{
		int			d;
		int64_t		n;
		int64_t		k;
		int			stride;
	}			shapes[] = {
		{128, 1000, 700, 1}, {100, 70001, 300, 9}, {128, 101000, 140, 9}, {64, 70077, 260, 9},
		{33, 69001, 129, 9}, {80, 40003, 513, 9}, {192, 55011, 200, 9}, {150, 52003, 385, 9},
		{256, 51007, 130, 9}, {210, 26001, 300, 9}, {300, 35003, 129, 9}, {384, 18001, 257, 9},
		{440, 17999, 140, 9}, {511, 18003, 131, 9},
		/* so many centroids that they are sorted by digits */
		{64, 19001, 17001, KINDS}
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		test_shape(gk_cpu_engine(), shapes[i].n <= 1000 ? shapes[i].n : scaled(shapes[i].n),
				   shapes[i].d, shapes[i].k, 3, devices, shapes[i].stride);
}

/* Has regions always (1), or when they pay (0). */
static void
set_regions(int wish)
{
	if (wish_regions != NULL)
		(void) wish_regions(wish);
}

/*
 * Iterations that a shift within a tolerance ends while the next one is under way, and others after
 * them.
 */
static void
test_resting(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{900, 4, 12}, {3000, 20, 50}, {5000, 100, 80}, {4000, 130, 200}, {2000, 600, 40}
	};
	Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
	double		start = now();
	size_t		count = sizeof(shapes) / sizeof(*shapes);
	int			rested = 0;

	/* of some data, a cluster is empty at once: then there are others */
	for (size_t i = 0; i < count || (rested < 3 && i < 6 * count); i++)
	{
		size_t		which = i % count;
		Data		data = make_data(i % 2 ? TOPICS : NORMAL, shapes[which].n, shapes[which].d,
									 shapes[which].k, i % 2, i % 2, false);
		Feeding		feeding = {.batch = 700,.devices = devices};

		snprintf(comparison.where, sizeof(comparison.where), "n %lld d %d k %lld at rest, GPUs %d",
				 (long long) data.n, data.d, (long long) data.k, devices);
		rested += compare_resting(&comparison, &data, feeding);
		free_data(&data);
	}
	ok(!comparison.differs && rested > 2, "iterations after centroids have rested, %d times,"
	   " GPUs %d (%.1f s)", rested, devices, now() - start);
}

/* A shape for each kernel. */
static void
test_few_shapes(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{700, 8, 5}, {400, 40, 70}, {300, 130, 20}, {400, 100, 330}, {200, 300, 190},
		{2300, 3, 2100}, {60, 784, 20}, {300, 600, 260}, {600, 16, 33},
		{500, 3, 200}, {300, 16, 70}, {400, 80, 50}, {300, 50, 9}, {300, 90, 12},
		{300, 200, 100}, {200, 300, 100}, {350, 128, 10}, {300, 64, 31}
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		test_shape(gk_reference_engine(), shapes[i].n, shapes[i].d, shapes[i].k, 3, devices,
				   KINDS / 2);
	set_regions(1);
	for (size_t i = 1; i < 5; i++)
		test_shape(gk_reference_engine(), shapes[i].n, shapes[i].d, shapes[i].k, 2, devices,
				   KINDS / 2);
	set_regions(0);
	test_resting(devices);
}

/* Draws of rows, from a few to more than one block adds up the masses of, some with many copies. */
static void
test_draws(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{1, 1, 1}, {2, 5, 2}, {7, 2, 7}, {8, 3, 2}, {9, 1, 9}, {130, 17, 100}, {2000, 3, 900},
		{9000, 40, 30}, {40000, 2, 3000}, {140000, 3, 700}
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
	{
		int64_t		n = shapes[i].n < 1000 ? shapes[i].n : scaled(shapes[i].n);
		Comparison	comparison = {
			.tested = tested,.oracle = n < 5000 ? gk_reference_engine() : gk_cpu_engine()
		};
		double		start = now();

		for (int kind = 0; kind < KINDS; kind++)
		{
			Data		data = make_data(kind, n, shapes[i].d, shapes[i].k < n ? shapes[i].k : n,
										 random_bits() % 2, false, false);
			Feeding		feeding = {.batch = n,.devices = devices};

			snprintf(comparison.where, sizeof(comparison.where), "draws, n %lld, d %d, %s%s",
					 (long long) n, data.d, kind_name(kind), data.weighted ? " weighted" : "");
			compare_rows_drawn(&comparison, &data, feeding);
			free_data(&data);
		}
		ok(!comparison.differs, "draws, n %lld, d %d, %lld of them by the engine, GPUs %d (%.1f s)",
		   (long long) n, shapes[i].d, (long long) comparison.draws, devices, now() - start);
		draws_made += comparison.draws;
	}
}

/* Every stride-th kind of data, compared by a function, with values multiplied by 2^exponent. */
static void
test_kinds(void (*compare) (Comparison *, const Data *, Feeding), const char *what, int64_t n,
		   int d, int64_t k, int devices, int stride)
{
	static const int exponents[] = {0, 0, 0, -20, 20, -39, -42, 58, 61, -100, -135, 90};
	Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
	double		start = now();

	for (int kind = (int) (random_bits() % (uint64_t) stride); kind < KINDS; kind += stride)
	{
		Data		data = make_data(kind, n, d, k, random_bits() % 2, true, false);
		Feeding		feeding = {.batch = n,.devices = devices};
		int			exponent = exponents[random_bits() % (sizeof(exponents) / sizeof(int))];

		scale_data(&data, exponent);
		snprintf(comparison.where, sizeof(comparison.where), "%s, n %lld, d %d, k %lld, %s × 2^%d",
				 what, (long long) n, d, (long long) k, kind_name(kind), exponent);
		compare(&comparison, &data, feeding);
		free_data(&data);
	}
	ok(!comparison.differs, "%s, n %lld, d %d, k %lld, GPUs %d (%.1f s)", what, (long long) n, d,
	   (long long) k, devices, now() - start);
}

/*
 * Rows at the origin, and candidates of which some are nearer to them than the first one, others so
 * far away that in their scale the squares of such distances are below the least float.
 */
static void
test_nearer_to_origin(int devices)
{
	static const double nearest[] = {1.0, 0.875, 0.5, 0.75};
	Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
	Data		data = make_data(NORMAL, 1200, 130, 160, false, false, false);
	int			d = data.d;

	memset(data.x, 0, data.n * d * sizeof(float));
	memset(data.centroids, 0, data.k * d * sizeof(double));
	for (int64_t i = 0; i < 1000; i++)
		data.x[i * d + i / 2 % d] = (float) ldexp(i % 2 ? -1.0 : 1.0, i < 800 ? 45 : 100);
	for (int64_t c = 0; c < data.k; c++)
		data.centroids[c * d + c % d] = c < 4 ? nearest[c] : ldexp(c < d ? 1.0 : -1.0, 100);
	scale_data(&data, 0);
	snprintf(comparison.where, sizeof(comparison.where), "rows at the origin");
	compare_first_and_others(&comparison, &data, (Feeding) {.batch = data.n,.devices = devices});
	ok(!comparison.differs, "rows at the origin, GPUs %d", devices);
	free_data(&data);
}

/*
 * Rows at the origin, a candidate there, and another one with a greater number so near that its
 * score is a subnormal number below 0.
 */
static void
test_beside_origin(int devices)
{
	static const int dimensions[] = {18, 20};
	Comparison	comparison = {.tested = tested,.oracle = gk_reference_engine()};

	for (size_t i = 0; i < sizeof(dimensions) / sizeof(*dimensions); i++)
	{
		int			d = dimensions[i];
		Data		data = make_data(NORMAL, 64, d, 18, false, false, false);

		memset(data.x, 0, data.n * d * sizeof(float));
		memset(data.centroids, 0, data.k * d * sizeof(double));
		for (int64_t row = 32; row < data.n; row++)
			data.x[row * d + row / 2 % d] = row % 2 ? -1.0f : 1.0f;
		for (int64_t c = 0; c < data.k; c++)
			data.centroids[c * d + c] = c == 2 ? 0.0 : c < data.k - 1 ? 1.0 : 0x1p-110;
		scale_data(&data, 0);
		snprintf(comparison.where, sizeof(comparison.where), "beside the origin, d %d", d);
		compare_first_and_others(&comparison, &data,
								 (Feeding) {.batch = data.n,.devices = devices});
		free_data(&data);
	}
	ok(!comparison.differs, "a candidate beside the origin, GPUs %d", devices);
}

/* Candidates that come after others, and neighbours of points. */
static void
test_nearer(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{1000, 129, 140}, {700, 64, 900}, {900, 200, 257}, {500, 512, 200}, {400, 300, 700},
		{600, 110, 500}, {500, 255, 300}, {3000, 16, 1500}, {300, 700, 150}, {400, 30, 100},
		{300, 3, 9}, {300, 128, 60}
	};
	static const struct
	{
		int64_t		n;
		int			d;
	}			points[] = {
		{511, 5}, {512, 64}, {513, 63}, {640, 129}, {700, 3}, {1500, 300}, {600, 1000}, {1025, 17},
		{2500, 65}, {1100, 128}, {3000, 2}
	};

	test_nearer_to_origin(devices);
	test_beside_origin(devices);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		test_kinds(compare_nearer, "more candidates", scaled(shapes[i].n), shapes[i].d, shapes[i].k,
				   devices, i % 3 == 0 ? 1 : 4);
	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++)
		test_kinds(compare_points_merged, "points merged", points[i].n, points[i].d, 40, devices,
				   i % 3 == 1 ? 1 : 4);
}

/* Draws of rows; one GPU makes some of them by itself. */
static void
test_own_draws(int devices)
{
	test_draws(devices);
	ok(plan_cuda_fault == NULL || devices > 1 || draws_made > 0, "one GPU draws rows by itself");
}

/*
 * Whole numbers: rows that are as far from several centroids, in scores without rounding or, if
 * there are more columns than that allows, with it.
 */
static void
test_counts(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{3000, 1, 20}, {3000, 3, 200}, {3001, 4, 8}, {3001, 6, 64}, {3000, 12, 37},
		{3000, 16, 100}, {3003, 20, 16}, {3003, 36, 31}, {3000, 64, 100}, {3000, 64, 128},
		{3000, 90, 65}, {2000, 16, 300}, {1100, 40, 1000}, {900, 120, 130}, {700, 120, 400},
		{500, 200, 50}, {300, 700, 140}
	};
	Comparison	comparison = {.tested = tested,.oracle = gk_reference_engine()};
	double		start = now();

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (int flags = 0; flags < 4; flags += 1 + (int) (random_bits() % 3))
		{
			int64_t		n = scaled(shapes[i].n);

			compare_case(&comparison, COUNTS, n, shapes[i].d, shapes[i].k < n ? shapes[i].k : n,
						 flags, 3, devices, 0);
		}
	ok(!comparison.differs, "whole numbers, GPUs %d (%.1f s)", devices, now() - start);
}

/* Values, differences and sizes that are hard to compute with: a hundred data sets at a time. */
static void
test_limits(int devices)
{
	int			cases = (int) scaled(300);

	for (int first = 0; first < cases; first += 100)
	{
		Comparison	comparison = {.tested = tested,.oracle = gk_reference_engine()};
		int			after = first + 100 < cases ? first + 100 : cases;
		double		start = now();

		for (int i = first; i < after; i++)
		{
			snprintf(comparison.where, sizeof(comparison.where), "case %d", i);
			compare_at_limits(&comparison, (Feeding) {.threads = 1,.devices = devices});
		}
		ok(!comparison.differs, "data sets at the limits of the arithmetic, %d to %d, GPUs %d"
		   " (%.1f s)", first, after - 1, devices, now() - start);
	}
}

/* Lengths of rows, and numbers of centroids, at and beside those where kernels and tiles change. */
static void
test_edges(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{129, 15, 41}, {130, 16, 41}, {131, 17, 33}, {127, 31, 17}, {128, 33, 65}, {65, 64, 129},
		{257, 65, 16}, {63, 96, 63}, {255, 97, 64}, {200, 127, 193}, {190, 129, 128},
		{140, 255, 129}, {160, 257, 127}, {150, 511, 129}, {140, 512, 65}, {135, 576, 129},
		{125, 36, 104}, {126, 35, 105}, {300, 128, 16}, {301, 124, 17}, {302, 32, 32},
		{303, 96, 33}, {133, 8, 16}, {134, 7, 17}, {136, 6, 64}, {137, 5, 16},
		{60, 768, 33}, {50, 769, 8}, {40, 4096, 17}, {40, 4097, 17}, {24, 16000, 9}
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		test_shape(gk_reference_engine(), shapes[i].n, shapes[i].d, shapes[i].k, 2, devices,
				   KINDS / 2);
	test_counts(devices);
}

/* Clusters that could have to wait for each other merge in few rounds, as expected. */
static void
test_merges(int devices)
{
	double		start = now();
	bool		good = merges_in_few_rounds(tested, gk_reference_engine(), 600, devices);

	good &= merges_in_few_rounds(tested, gk_cpu_engine(), 12000, devices);
	ok(good, "few rounds merge clusters in any arrangement, GPUs %d (%.1f s)", devices,
	   now() - start);
}

/* Fits with ever other k on one engine, on rows of which another set takes the place. */
static void
test_refits(int devices)
{
	static const struct
	{
		int			d;
		int			next;		/* features of the rows afterwards */
		uint64_t	limit;
	}			cases[] = {
		{3, 40, 0}, {40, 7, 0}, {100, 600, 0}, {700, 12, 0}, {60, 3, 15 << 20}
	};
	static const int64_t ks[] = {1, 5, 300, 64, 2, 130, 700, 33, 1, 129};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
	{
		Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
		int64_t		n = cases[i].limit > 0 ? scaled(60000) : 900;
		Kind		kind = (Kind) (random_bits() % KINDS);
		bool		weighted = random_bits() % 2;
		Data		data = make_data(kind, n, cases[i].d, n < 700 ? n : 700, weighted, false,
									 false);
		Data		next = make_data(NORMAL, n + 77, cases[i].next, 250, weighted, true, false);
		Feeding		feeding = {
			.batch = 300,.slots = i % 2 ? 3 : 0,.devices = devices,
			.device_memory_limit = cases[i].limit
		};
		double		start = now();

		snprintf(comparison.where, sizeof(comparison.where), "refits, n %lld, d %d, %s%s",
				 (long long) n, cases[i].d, kind_name(kind), weighted ? " weighted" : "");
		/* every other one with regions */
		set_regions((int) i % 2);
		compare_refits(&comparison, &data, &next, feeding, ks, sizeof(ks) / sizeof(*ks));
		set_regions(0);
		ok(!comparison.differs, "fits with other k on the same engine, d %d, then %d, GPUs %d"
		   " (%.1f s)", cases[i].d, cases[i].next, devices, now() - start);
		free_data(&data);
		free_data(&next);
	}
}

/* Few features, and few centroids: rows of every length that the narrow kernel has. */
static void
test_narrow_shapes(int devices)
{
	for (int d = 1; d <= 33; d++)
	{
		int64_t		k = 1 + (int64_t) (random_bits() % (d % 3 == 0 ? 300 : d % 3 == 1 ? 40 : 9));

		test_shape(gk_reference_engine(), 900 + d, d, k, 3, devices, 4);
	}
}

/* The same with more rows than the GPU works on at a time, and with rows in host memory. */
static void
test_narrow_many(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{1100000, 3, 5}, {1000000, 8, 32}, {900000, 11, 50}, {800000, 16, 20}
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
	{
		Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
		int64_t		n = scaled(shapes[i].n);
		double		bytes = (double) n * shapes[i].d * sizeof(float);
		double		start = now();

		for (int kind = (int) (random_bits() % 6); kind < KINDS; kind += 6)
		{
			compare_case(&comparison, kind, n, shapes[i].d, shapes[i].k,
						 (int) (random_bits() % 8), 4, devices, 0);
			compare_case(&comparison, kind, n, shapes[i].d, shapes[i].k, (int) (random_bits() % 8),
						 2, devices, (14 << 20) + (uint64_t) ((20.0 * (double) n + bytes / 2) /
															  devices));
		}
		ok(!comparison.differs, "many rows: n %lld, d %d, k %lld, GPUs %d (%.1f s)", (long long) n,
		   shapes[i].d, (long long) shapes[i].k, devices, now() - start);
	}
}

/* More equally distant rows than a list can hold: they come in the order of their bits. */
static void
test_ties(int devices)
{
	static const Kind kinds[] = {LATTICE, EQUAL, COPIES};
	Comparison	comparison = {.tested = tested,.oracle = gk_reference_engine()};
	double		start = now();

	for (int i = 0; i < 6; i++)
	{
		Data		data = make_data(kinds[i % 3], scaled(300000), 1 + 7 * i, 3, i % 2, true,
									 false);
		Feeding		feeding = {.batch = 9000,.slots = 3,.devices = devices};

		/* some lie in host memory */
		if (i >= 3)
			feeding.device_memory_limit = (14 << 20) +
				(uint64_t) (data.n * 40 + data.n * (40 + 2 * data.d) / devices);
		snprintf(comparison.where, sizeof(comparison.where), "ties, %s, d %d",
				 kind_name(data.kind), data.d);
		compare_farthest(&comparison, &data, feeding);
		free_data(&data);
	}
	ok(!comparison.differs, "rows that are equally far are in the order of their bits, GPUs %d"
	   " (%.1f s)", devices, now() - start);
}

/* Most rows are undecided, between some centroids or all of them. */
static void
test_crowds(int devices)
{
	Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
	double		start = now();

	compare_case(&comparison, HUB, scaled(100000), 30, 1000, 0, 3, devices, 0);
	compare_case(&comparison, HUB, scaled(3000), 700, 300, 0, 3, devices, 0);
	compare_case(&comparison, INDICATORS, scaled(400000), 64, 100, 0, 3, devices, 0);
	compare_case(&comparison, LATTICE, scaled(400000), 5, 60, 0, 3, devices, 0);
	compare_case(&comparison, NEAR_TIES, scaled(50000), 60, 200, 0, 3, devices, 0);
	/* most rows lie in host memory */
	compare_case(&comparison, HUB, scaled(100000), 100, 40, 1, 3, devices,
				 (14 << 20) + (uint64_t) scaled(24000000) / devices);
	ok(!comparison.differs, "rows that many centroids are nearest to, GPUs %d (%.1f s)", devices,
	   now() - start);
	start = now();

	compare_case(&comparison, CROWDS, scaled(600000), 16, 150, 0, 3, devices, 0);
	compare_case(&comparison, CROWDS, scaled(150000 * devices), 40, 600, 1, 3, devices, 0);
	ok(!comparison.differs, "many centroids in each of few clusters, GPUs %d (%.1f s)", devices,
	   now() - start);
}

/* Regions of centroids on data that has too little for them, in device memory and out of it. */
static void
test_regions(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
		uint64_t	limit;
	}			shapes[] = {
		{3000, 2, 128, 0}, {2000, 17, 130, 0}, {2500, 33, 900, 0}, {1500, 128, 400, 0},
		{6000, 3, 5000, 0}, {700, 250, 131, 0}, {500, 600, 200, 0}, {900, 768, 20, 0},
		{60000, 40, 150, 15 << 20}, {300, 100, 6, 0}
	};

	if (wish_regions == NULL)
		return;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
	{
		Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
		double		start = now();
		int			stride = shapes[i].limit > 0 ? 4 : 1;
		int64_t		decided;

		set_regions(1);
		for (int kind = (int) (random_bits() % (uint64_t) stride); kind < KINDS; kind += stride)
			compare_case(&comparison, kind, shapes[i].n, shapes[i].d, shapes[i].k,
						 (int) (random_bits() % 8), 3, devices, shapes[i].limit);
		/* the others may have no row that a region decides */
		if (stride > 1)
			compare_case(&comparison, BLOBS, shapes[i].n, shapes[i].d, shapes[i].k, 0, 3, devices,
						 shapes[i].limit);
		decided = wish_regions(0);
		ok(!comparison.differs && decided != 0,
		   "regions: n %lld, d %d, k %lld, GPUs %d: %lld rows decided (%.1f s)",
		   (long long) shapes[i].n, shapes[i].d, (long long) shapes[i].k, devices,
		   (long long) decided, now() - start);
	}
}

/* Regions where they pay, chosen by the geometry of the centroids. */
static void
test_chosen_regions(int devices)
{
	Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
	double		start = now();
	int64_t		decided;

	if (wish_regions == NULL)
		return;
	set_regions(0);
	compare_case(&comparison, CROWDS, scaled(150000 * devices), 40, 600, 0, 3, devices, 0);
	compare_case(&comparison, BLOBS, scaled(150000 * devices), 100, 300, 1, 3, devices, 0);
	decided = wish_regions(0);
	ok(!comparison.differs && (scale < 1.0 || decided != 0),
	   "clusters well apart have regions, GPUs %d: %lld rows decided (%.1f s)", devices,
	   (long long) decided, now() - start);
}

/* Rows beyond a limit of device memory: a tenth, half and most of them fit. */
static void
test_out_of_core(int devices)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{100000, 100, 64}, {6000, 2000, 40}, {600000, 17, 30}, {40000, 520, 150}
	};
	static const double parts[] = {0.1, 0.5, 0.9};
	int			stride = devices == 1 ? 4 : KINDS;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (int j = 0; j < 3; j++)
		{
			Comparison	comparison = {.tested = tested,.oracle = gk_cpu_engine()};
			int64_t		n = scaled(shapes[i].n);
			double		bytes = (double) n * shapes[i].d * sizeof(float);
			uint64_t	limit = (14 << 20) +
				(uint64_t) ((20.0 * (double) n + parts[j] * bytes) / devices);
			uint64_t	most = 0;
			double		start = now();

			for (int kind = (int) (random_bits() % (uint64_t) stride); kind < KINDS; kind += stride)
			{
				compare_case(&comparison, kind, n, shapes[i].d, shapes[i].k,
							 (int) (random_bits() % 8), 3, devices, limit);
				most = comparison.usage.device_peak > most ? comparison.usage.device_peak : most;
			}
			ok(!comparison.differs && most <= limit * devices,
			   "out of core: n %lld, d %d, %.0f MB, limit %.0f MB, peak %.0f MB, GPUs %d (%.1f s)",
			   (long long) n, shapes[i].d, bytes * 1e-6, (double) limit * 1e-6,
			   (double) most * 1e-6, devices, now() - start);
		}
}

/* Engines draw their host memory from a shared account, and return it. */
static void
test_account(int devices)
{
	Data		data = make_data(NORMAL, 20000, 100, 10, true, false, false);
	Feeding		feeding = {.devices = devices,.device_memory_limit = 40 << 20};
	GkBatch		batch = {.rows = 20000,.features = data.x,.weights = data.w};
	GkEngine   *engines[2];
	GkUsage		usage[2];
	GkStatus	status;

	for (int i = 0; i < 2; i++)
	{
		engines[i] = open_engine(tested, true, feeding);
		check_status(engines[i]->class_of->set_dimension(engines[i], 100));
		check_status(append_until(engines[i], &batch, 200000 * devices));
	}
	for (int i = 0; i < 2; i++)
		tested->usage(engines[i], &usage[i]);
	ok(account_drawn() == usage[0].host_bytes + usage[1].host_bytes &&
	   account_drawn() > 80000000,
	   "what engines hold in host memory is drawn: %llu bytes, GPUs %d",
	   (unsigned long long) account_drawn(), devices);
	account_allow(account_drawn() + (10 << 20));
	status = append_until(engines[1], &batch, 1000000);
	ok(status.code == GK_HOST_MEMORY_REFUSED && status.needed > 0, "what is refused is an error");
	account_allow(UINT64_MAX);
	tested->close(engines[1]);
	ok(account_drawn() == usage[0].host_bytes, "close returns what was drawn");
	tested->close(engines[0]);
	ok(account_drawn() == 0, "nothing is left");
	free_data(&data);
}

/* Two engines running at once, and the answers that each should give. */
typedef struct Twin
{
	Data		data;
	GkEngine   *engine;
	GkEngine   *reference;
	GkCommand	command;
} Twin;

/* Starts the next step of the tested engine. */
static void
start_step(Twin *twin)
{
	twin->command = (GkCommand) {.operation = GK_STEP};
	check_status(twin->engine->class_of->submit(twin->engine, &twin->command));
}

/* Ends the step; true if it and the centroids after it agree with the reference. */
static bool
end_step(Twin *twin)
{
	size_t		bytes = twin->data.k * twin->data.d * sizeof(double);
	double	   *centroids[2] = {malloc(bytes), malloc(bytes)};
	GkEngine   *engines[2] = {twin->engine, twin->reference};
	GkCommand	step = {.operation = GK_STEP};
	GkStatus	status;
	bool		good;

	while ((status = twin->engine->class_of->wait(twin->engine, 10)).code == GK_RUNNING)
		;
	check_status(status);
	run(twin->reference, &step);
	good = step.step.changed == twin->command.step.changed &&
		step.step.shift2 == twin->command.step.shift2 &&
		step.step.between == twin->command.step.between;
	for (int e = 0; e < 2; e++)
	{
		GkCommand	c = {.operation = GK_RELOCATE};

		if (step.step.empty > 0)
			run(engines[e], &c);
		c = (GkCommand) {.operation = GK_GET_CENTROIDS};
		c.get_centroids.centroids = centroids[e];
		run(engines[e], &c);
	}
	good = good && memcmp(centroids[0], centroids[1], bytes) == 0;
	free(centroids[0]);
	free(centroids[1]);
	return good;
}

/* An engine in the middle of a fit. */
static Twin
open_twin(Kind kind, int64_t n, int d, int64_t k, int devices)
{
	Twin		twin = {.data = make_data(kind, n, d, k, true, true, false)};
	Feeding		feeding = {.batch = 1000,.slots = 2,.devices = devices};

	twin.engine = feed(tested, &twin.data, feeding);
	twin.reference = feed(gk_cpu_engine(), &twin.data, feeding);
	begin_fit(twin.engine, &twin.data);
	begin_fit(twin.reference, &twin.data);
	return twin;
}

/* Closes both engines of a twin. */
static void
close_twin(Twin *twin)
{
	twin->engine->class_of->close(twin->engine);
	twin->reference->class_of->close(twin->reference);
	free_data(&twin->data);
}

/* Two engines in one process, on one GPU and on two. */
static void
test_two_engines(int devices)
{
	int			second = devices < 2 ? devices : 2;
	Twin		a = open_twin(NORMAL, scaled(50000), 32, 60, 1);
	Twin		b = open_twin(BLOBS, scaled(20000), 100, 40, second);
	bool		good = true;

	for (int i = 0; i < 5; i++)
	{
		start_step(&a);
		start_step(&b);
		good &= end_step(&b) & end_step(&a);
	}
	start_step(&a);
	close_twin(&b);
	good &= end_step(&a);
	b = open_twin(NORMAL, scaled(20000), 7, 30, second);
	start_step(&b);
	good &= end_step(&b);
	close_twin(&a);
	start_step(&b);
	good &= end_step(&b);
	close_twin(&b);
	ok(good && bytes_left(tested) == 0, "two engines at once, on 1 GPU and on %d", second);
}

/* Closing in the middle of every command releases everything. */
static void
test_close(int devices, Kind kind, int64_t n, int d, int64_t k)
{
	Data		data = make_data(kind, scaled(n), d, k, false, false, false);
	Feeding		feeding = {.devices = devices};
	double		longest = 0.0;
	int			running = 0;
	uint64_t	left = 0;

	for (int last = 0; last < COMMANDS; last++)
		for (int milliseconds = 0; milliseconds < 10; milliseconds = 3 * milliseconds + 1)
		{
			bool		was_running;
			double		seconds = close_in_command(tested, &data, feeding, last, milliseconds,
												   &was_running);

			if (seconds > CLOSE_SECONDS)
				printf("# command %d closed in %.0f ms\n", (int) command_order[last],
					   seconds * 1e3);
			longest = fmax(longest, seconds);
			running += was_running;
			left += bytes_left(tested);
		}
	ok(longest < CLOSE_SECONDS && left == 0,
	   "closed in every command, %s, d %d, GPUs %d: %d running, longest %.0f ms, %llu bytes left",
	   kind_name(kind), d, devices, running, longest * 1e3, (unsigned long long) left);
	free_data(&data);
}

/* Closing with more rows in host memory than can be freed in time. */
static void
test_close_spilled(int devices)
{
	Feeding		feeding = {.devices = devices,.device_memory_limit = 64 << 20};
	double		seconds = close_spilled(tested, scaled(500), feeding);

	ok(seconds < CLOSE_SECONDS && bytes_left(tested) == 0,
	   "closed with %lld MB beyond the devices, GPUs %d (%.0f ms)", (long long) scaled(500) * 4,
	   devices, seconds * 1e3);
}

/* Every call fails once, and a fit afterwards is right. */
static void
test_faults(int devices)
{
	Data		data = make_data(BLOBS, 2000, 12, 10, true, true, false);
	Feeding		feeding = {.devices = devices};
	Comparison	comparison = {.tested = tested,.oracle = gk_reference_engine()};
	int			faults = 0;
	bool		good = true;

	for (;; faults++)
	{
		GkCode		code = run_until_error(gk_fault_engine(tested, faults + 1, GK_DEVICE_ERROR),
										   &data, feeding);

		good &= bytes_left(tested) == 0;
		good &= code == GK_OK || code == GK_DEVICE_ERROR;
		if (code == GK_OK || !good)
			break;
	}
	compare_case(&comparison, NORMAL, 1000, 12, 10, 3, 3, devices, 0);
	ok(good && faults > 2 * COMMANDS && !comparison.differs,
	   "%d calls that fail leave nothing behind, GPUs %d", faults, devices);
	free_data(&data);
}

/* The least that is free on any of the GPUs. */
static uint64_t
least_free(int devices)
{
	GkDevice	list[16];
	uint64_t	least = UINT64_MAX;
	int			count = 0;

	check_status(tested->list_devices(list, 16, &count));
	for (int i = 0; i < count && i < devices; i++)
		least = list[i].free_bytes < least ? list[i].free_bytes : least;
	return least;
}

/* Every CUDA call of all commands fails once: an error, or a way around it, and nothing is left. */
static void
test_cuda_faults(int devices, int error, GkCode expected, bool regions)
{
	Data		data = make_data(BLOBS, 300, 12, 10, true, true, false);
	Feeding		feeding = {.devices = devices};
	uint64_t	free_before;
	int64_t		faults = 0;
	int64_t		failed = 0;
	bool		good = true;

	set_regions(regions);
	(void) run_until_error(tested, &data, feeding);
	free_before = least_free(devices);
	for (;; faults++)
	{
		GkCode		code;
		bool		right;

		(void) plan_cuda_fault(faults + 1, error);
		code = run_until_error(tested, &data, feeding);
		if (plan_cuda_fault(0, 0) > 0)
			break;
		right = code == GK_OK || code == expected ||
			(error == CUDA_OUT_OF_MEMORY && code == GK_NO_HOST_MEMORY);
		if (!right)
			printf("# call %lld: code %d\n", (long long) faults + 1, (int) code);
		good &= right && bytes_left(tested) == 0;
		failed += code != GK_OK;
	}
	ok(good && failed > 100 && least_free(devices) >= free_before,
	   "%lld calls of CUDA that give error %d, of which %lld end the fit, leave nothing behind, "
	   "GPUs %d%s",
	   (long long) faults, error, (long long) failed, devices, regions ? ", with regions" : "");
	set_regions(0);
	free_data(&data);
}

/* Plans an error of CUDA in the way of a stop. */
static int64_t
plan_failure(GkEngine *engine, int64_t call)
{
	(void) engine;
	return plan_cuda_fault(call, CUDA_LAUNCH_OUT_OF_RESOURCES);
}

/* Calls of CUDA fail in every command, and the engine goes on: nothing half made is used. */
static void
test_failed_commands(int devices)
{
	static const struct
	{
		Kind		kind;
		int64_t		n;
		int			d;
		int64_t		k;
	}			cases[] = {{NORMAL, 900, 6, 30}, {BLOBS, 900, 40, 150}, {CROWDS, 500, 520, 40}};

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases) && plan_cuda_fault != NULL; i++)
	{
		Stopper		stopper = {
			.tested = tested,.plan = plan_failure,.code = GK_DEVICE_ERROR,
			.oracle = gk_cpu_engine(),.feeding = {.devices = devices},.first = 12,.others = 6
		};
		Data		data = make_data(cases[i / 2].kind, cases[i / 2].n, cases[i / 2].d,
									 cases[i / 2].k, i % 2, i % 2, false);
		bool		good;

		/* every other one with regions */
		set_regions((int) i % 2);
		good = stop_everywhere(&stopper, &data);
		set_regions(0);
		ok(good && stopper.stops > 0 && bytes_left(tested) == 0,
		   "commands in which a call of CUDA fails, d %d, k %lld, GPUs %d: %lld failures",
		   data.d, (long long) data.k, devices, (long long) stopper.stops);
		free_data(&data);
	}
}

/* Calls of the engine that fail, and calls of CUDA, with regions and without. */
static void
test_all_faults(int devices)
{
	test_faults(devices);
	for (int regions = 0; regions < 2 && plan_cuda_fault != NULL; regions++)
	{
		test_cuda_faults(devices, CUDA_OUT_OF_MEMORY, GK_NO_DEVICE_MEMORY, regions);
		test_cuda_faults(devices, CUDA_LAUNCH_OUT_OF_RESOURCES, GK_DEVICE_ERROR, regions);
	}
	test_failed_commands(devices);
}

/* A failed launch makes CUDA unusable in the process: every later call reports it. */
static void
test_lost_context(int devices)
{
	Data		data = make_data(BLOBS, 300, 12, 10, true, true, false);
	Feeding		feeding = {.devices = devices};
	bool		good;

	(void) plan_cuda_fault(200, CUDA_LAUNCH_FAILURE);
	good = run_until_error(tested, &data, feeding) == GK_CONTEXT_LOST;
	(void) plan_cuda_fault(0, 0);
	good &= run_until_error(tested, &data, feeding) == GK_CONTEXT_LOST;
	ok(good, "a failed launch is the end of CUDA in the process, GPUs %d", devices);
	free_data(&data);
}

/* Labels if the check of the tensor cores multiplies the error that it sees. */
static void
test_pretended_error(double times, double expected)
{
	Comparison	comparison = {.tested = tested,.oracle = gk_reference_engine()};
	double		factor;

	tested->release_process();
	(void) probe.pretend_error(times);
	compare_case(&comparison, NORMAL, 3000, 17, 64, 0, 3, 1, 0);
	compare_case(&comparison, BLOBS, 500, 130, 200, 1, 3, 1, 0);
	compare_case(&comparison, CROWDS, 400, 700, 40, 0, 3, 1, 0);
	compare_case(&comparison, HUB, 300, 20, 300, 0, 3, 1, 0);
	factor = probe.pretend_error(1.0);
	tested->release_process();
	/* GPUs of capability 7.5 have a factor of 4, which allows for three times the error */
	if (expected == 5.0 && factor == 4.0)
		expected = factor;
	ok(!comparison.differs && (expected > 0.0 ? factor == expected : factor > 0.0 && factor < 5.0),
	   "labels are right where a check sees %g times the error: the bound's factor is %g", times,
	   factor);
}

/* The bound on the tensor cores' error, and what happens if a check finds that it does not hold. */
static void
test_accumulation(int rounds)
{
	Comparison	comparison = {.tested = tested,.oracle = gk_reference_engine()};

	if (probe.multiply == NULL)
	{
		search_models(rounds / 20);
		return;
	}
	compare_case(&comparison, NORMAL, 100, 3, 5, 0, 1, 1, 0);
	search_worst_products(&probe, rounds);
	test_pretended_error(1.0, 0.0);
	test_pretended_error(3.0, 5.0);
	test_pretended_error(1e6, INFINITY);
}

/* Fits of more than 2^31 values on the devices. */
static void
test_beyond_31_bits(int devices)
{
	Feeding		feeding = {.slots = 8,.devices = devices};

	feeding.batch = (4 << 20) / (32 * sizeof(float));
	test_large(tested, scaled(70000000), 32, 12, false, feeding);
	feeding.batch = (4 << 20) / (2000 * sizeof(float));
	test_large(tested, scaled(1100000), 2000, 10, true, feeding);
}

/* Stops every command at its first checks and some later ones, on data with and without ties. */
static void
test_stops(int devices)
{
	static const struct
	{
		Kind		kind;
		int64_t		n;
		int			d;
		int64_t		k;
		int			flags;
	}			cases[] = {
		{LATTICE, 3000, 3, 20, 0}, {COPIES, 2000, 40, 70, 1}, {NEAR_TIES, 2500, 17, 2100, 2},
		{EQUAL, 1000, 130, 20, 3}, {CROWDS, 2000, 100, 330, 0}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases) && plan_stop != NULL; i++)
	{
		Stopper		stopper = {
			.tested = tested,.plan = plan_stop,.oracle = gk_cpu_engine(),
			.feeding = {.devices = devices},.first = 2,.others = 2
		};
		Data		data = make_data(cases[i].kind, cases[i].n, cases[i].d, cases[i].k,
									 cases[i].flags & 1, cases[i].flags & 2, false);
		bool		good;

		/* every other one with regions */
		set_regions((int) i % 2);
		good = stop_everywhere(&stopper, &data);
		set_regions(0);
		ok(good && stopper.stops > 0 && bytes_left(tested) == 0,
		   "%s, n %lld, d %d, k %lld, GPUs %d: stopped %lld times", kind_name(data.kind),
		   (long long) data.n, data.d, (long long) data.k, devices, (long long) stopper.stops);
		free_data(&data);
	}
}

/* Stops random commands at random checks for this many seconds. */
static void
test_random_stops(int devices, double seconds)
{
	Stopper		stopper = {
		.tested = tested,.plan = plan_stop,.oracle = gk_cpu_engine(),.feeding = {.devices = devices}
	};
	bool		good = plan_stop != NULL && stop_at_random(&stopper, seconds);

	ok(good && bytes_left(tested) == 0,
	   "GPUs %d: stopped %lld times at random, %lld refused after it",
	   devices, (long long) stopper.stops, (long long) stopper.refused);
}

/* The engine with this name: a library, the CPU engine or a spoiled one. */
static const GkEngineClass *
find_engine(const char *name)
{
	const GkEngineClass *(*get) (void);
	void	   *library;

	if (strcmp(name, "cpu") == 0)
	{
		plan_stop = plan_cpu_stop;
		return gk_cpu_engine();
	}
	if (strncmp(name, "broken", 6) == 0)
		return gk_spoiled_engine(gk_cpu_engine(), name[6] == '=' ? atoi(name + 7) : SPOIL_LABELS);
	library = dlopen(name, RTLD_NOW);
	plan_cuda_fault = library == NULL ? NULL
		: (int64_t (*) (int64_t, int)) dlsym(library, "gk_cuda_fault");
	if (library != NULL)
		probe = (Probe) {
			.multiply = (int (*) (int, const uint16_t *, const uint16_t *, int, int64_t, int,
								  float *)) dlsym(library, "gk_cuda_multiply"),
			.pretend_error = (double (*) (double)) dlsym(library, "gk_cuda_pretend_error")
		};
	pretend_capability = library == NULL ? NULL
		: (void (*) (int)) dlsym(library, "gk_cuda_pretend_capability");
	wish_regions = library == NULL ? NULL : (int64_t (*) (int)) dlsym(library, "gk_cuda_regions");
	plan_stop = library == NULL ? NULL : (StopPlan) dlsym(library, "gk_cuda_stop");
	get = library == NULL ? NULL
		: (const GkEngineClass *(*) (void)) dlsym(library, "gk_cuda_engine");
	if (get == NULL)
	{
		printf("Bail out! %s\n", dlerror());
		exit(1);
	}
	return get();
}

/* True if the engine has what it needs to run. */
static bool
can_run(void)
{
	GkDevice	devices[16];
	int			count = 0;

	return tested->list_devices == NULL ||
		(tested->list_devices(devices, 16, &count).code == GK_OK && count > 0);
}

/* Few features, on a little data and on more. */
static void
test_narrow(int devices)
{
	test_narrow_shapes(devices);
	test_narrow_many(devices);
}

/* Regions wherever they are possible, and where they pay. */
static void
test_all_regions(int devices)
{
	test_regions(devices);
	test_chosen_regions(devices);
}

/* Runs what the arguments ask for on a number of GPUs. */
static void
test_on(int devices, bool all)
{
	test_small_shapes(devices);
	test_edges(devices);
	test_merges(devices);
	test_draws(devices);
	test_nearer(devices);
	test_limits(devices);
	test_narrow_shapes(devices);
	test_refits(devices);
	test_resting(devices);
	test_two_engines(devices);
	test_all_faults(devices);
	test_stops(devices);
	test_close(devices, NORMAL, 200000, 64, 2000);
	/* nothing but the definition decides these rows */
	test_close(devices, HUB, 1000000, 8, 120);
	test_close_spilled(devices);
	test_crowds(devices);
	test_all_regions(devices);
	test_account(devices);
	test_ties(devices);
	if (!all)
		return;
	test_larger_shapes(devices);
	test_dense_shapes(devices);
	test_wide_shapes(devices);
	test_narrow_many(devices);
	test_out_of_core(devices);
}

/* Runs a part, by its name, on a number of GPUs. */
static void
test_part(const char *part, int devices, double seconds)
{
	static const struct
	{
		const char *name;
		void		(*run) (int devices);
	}			parts[] = {
		{"large", test_beyond_31_bits}, {"few", test_few_shapes}, {"edges", test_edges},
		{"regions", test_all_regions}, {"dense", test_dense_shapes}, {"wide", test_wide_shapes},
		{"narrow", test_narrow}, {"crowds", test_crowds}, {"streamed", test_out_of_core},
		{"refits", test_refits}, {"faults", test_all_faults}, {"stops", test_stops},
		{"counts", test_counts}, {"merges", test_merges}, {"draws", test_own_draws},
		{"nearer", test_nearer}, {"limits", test_limits}
	};
	bool		stops = strcmp(part, "stops") == 0 || strcmp(part, "random") == 0;
	bool		found = stops;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (strcmp(part, parts[i].name) == 0)
		{
			parts[i].run(devices);
			found = true;
		}
	if (stops)
		test_random_stops(devices, seconds);
	else if (!found)
		test_on(devices, strcmp(part, "quick") != 0);
}

/* True if a part includes the error of the tensor cores. */
static bool
has_products(const char *part)
{
	static const char *const with[] = {"few", "quick", "all", "products"};

	for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++)
		if (strcmp(part, with[i]) == 0)
			return true;
	return false;
}

/* Cuts the compute capability off the name of a part, and has GPUs seem as old as that. */
static char *
choose_capability(char *part)
{
	char	   *at = strchr(part, '@');

	if (at != NULL && pretend_capability != NULL)
	{
		*at = '\0';
		pretend_capability(atoi(at + 1));
	}
	return part;
}

/* Compares on 1, 2, 4 ... GPUs. */
int
main(int argc, char **argv)
{
	int			least = 1;
	int			most = 1;
	const char *part = "all";

	if (argc < 2)
	{
		printf("1..0 # SKIP no GPU library is named\n");
		return 0;
	}
	tested = find_engine(argv[1]);
	if (argc > 4)
		part = choose_capability(argv[4]);
	if (!can_run())
	{
		printf("1..0 # SKIP no GPU\n");
		return 0;
	}
	if (argc > 3 && sscanf(argv[3], "%d-%d", &least, &most) == 1)
	{
		most = least;
		least = 1;
	}
	random_seed(argc > 2 ? strtoull(argv[2], NULL, 10) : 20);
	scale = argc > 5 ? atof(argv[5]) : 1.0;
	if (has_products(part))
		test_accumulation(strcmp(part, "few") == 0 ? 2 : 400);
	if (strcmp(part, "products") == 0)
		return done_testing();
	for (int devices = least; devices <= most; devices *= 2)
		test_part(part, devices, argc > 5 ? scale : 60);
	if (plan_cuda_fault != NULL && (strcmp(part, "quick") == 0 || strcmp(part, "all") == 0))
		test_lost_context(1);
	if (tested->release_process != NULL)
		tested->release_process();
	return done_testing();
}
