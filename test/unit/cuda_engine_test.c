/*
 * The CUDA engine against the reference engine and, on larger data, the CPU engine: every output of
 * every command, bit for bit; with rows in device memory and without, on one GPU and on all.
 * Usage: cuda_engine_test LIBRARY [seed [devices]]
 */
#include <dlfcn.h>

#include "engine.h"
#include "reference_engine.h"

static const GkEngineClass *tested;
static const GkEngineClass *oracle;

/* the comparisons are those of the CPU engine's test */
#define main cpu_engine_main
#define gk_cpu_engine() tested
#define gk_reference_engine() oracle
#include "engine_test.c"
#undef main
#undef gk_cpu_engine
#undef gk_reference_engine

#include <time.h>

static const GkEngineClass *cuda;
static GkEngineClass limited;
static uint64_t device_limit;
static int	device_count;

/* Seconds on a clock that only goes on. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Opens the CUDA engine with the limits of the case. */
static GkStatus
open_limited(const GkEngineConfig *config, GkEngine **engine)
{
	GkEngineConfig mine = *config;

	mine.device_memory_limit = device_limit;
	mine.device_count = device_count;
	for (int i = 0; i < device_count; i++)
		mine.devices[i] = i;
	return cuda->open(&mine, engine);
}

/* One data set. */
static void
compare_case(Kind kind, int64_t n, int d, int64_t k, int flags, int steps)
{
	Data		data = make_data(kind, n, d, k, flags & 1, flags & 2, flags & 4);
	uint64_t	most = (uint64_t) (n < 4096 ? 2 * n : n / 2);
	Feeding		feeding = {16, 1 + (int64_t) (random_bits() % most)};

	snprintf(where, sizeof(where),
			 "n %lld d %d k %lld kind %d flags %d batch %lld limit %llu gpus %d",
			 (long long) n, d, (long long) k, kind, flags, (long long) feeding.batch,
			 (unsigned long long) device_limit, device_count);
	compare_fit(&data, feeding, steps);
	free_data(&data);
}

/* All kinds of data in a shape. */
static void
cuda_shape(int64_t n, int d, int64_t k, int steps)
{
	double		start = now();
	char		name[120];

	differs = false;
	for (int kind = 0; kind < KINDS; kind++)
		compare_case(kind, n, d, k, (int) (random_bits() % 5), steps);
	snprintf(name, sizeof(name), "n %lld, d %d, k %lld, limit %llu, gpus %d (%.1f s)",
			 (long long) n, d, (long long) k, (unsigned long long) device_limit, device_count,
			 now() - start);
	ok(!differs, name);
	fflush(stdout);
}

/* Shapes that the reference engine can do. */
static void
small_shapes(void)
{
	oracle = gk_reference_engine();
	cuda_shape(1, 1, 1, 3);
	cuda_shape(5, 2, 5, 3);
	cuda_shape(17, 3, 4, 5);
	cuda_shape(300, 1, 20, 8);
	cuda_shape(1000, 2, 50, 8);
	cuda_shape(999, 7, 13, 8);
	cuda_shape(500, 8, 500, 4);
	cuda_shape(2000, 16, 100, 6);
	cuda_shape(1500, 17, 33, 6);
	cuda_shape(800, 100, 64, 5);
	cuda_shape(400, 128, 130, 5);
	cuda_shape(100, 784, 30, 4);
	cuda_shape(60, 2000, 25, 4);
	cuda_shape(5000, 3, 12, 8);
	for (int i = 0; i < 8; i++)
	{
		int64_t		n = 1 + (int64_t) (random_bits() % 600);

		cuda_shape(n, 1 + (int) (random_bits() % 40), 1 + (int64_t) (random_bits() % (uint64_t) n),
				   4);
	}
}

/* Larger ones, with the CPU engine as the oracle. */
static void
large_shapes(void)
{
	oracle = gk_cpu_engine();
	cuda_shape(100000, 8, 16, 6);
	cuda_shape(60000, 32, 100, 5);
	cuda_shape(20000, 128, 300, 4);
	cuda_shape(4000, 784, 256, 3);
	cuda_shape(20000, 17, 2000, 3);
	cuda_shape(3000, 2000, 40, 3);
}

/* Closing in the middle of a command, and whether what was held is given back. */
static void
test_close(void)
{
	Data		data = make_data(NORMAL, 40000, 256, 20000, false, false, false);
	GkCommand	c = {.operation = GK_CENTROIDS};
	GkDevice	before[16];
	GkDevice	after[16];
	double		longest = 0.0;
	uint64_t	left = 0;
	int			count;

	device_limit = 0;
	for (int turn = 0; turn < 10; turn++)
	{
		GkEngine   *engine = feed(&limited, &data, (Feeding) {1, 1000});
		double		start;

		cuda->list_devices(before, 16, &count);
		c = (GkCommand) {.operation = GK_GRID};
		c.u.grid.exponents = data.exponents;
		c.u.grid.center = data.center;
		run(engine, &c);
		c = (GkCommand) {.operation = GK_CENTROIDS};
		c.u.centroids.centroids = data.centroids;
		c.u.centroids.k = data.k;
		run(engine, &c);
		c = (GkCommand) {.operation = turn % 2 ? GK_STEP : GK_CANDIDATES};
		c.u.candidates.candidates = data.centroids;
		c.u.candidates.count = turn % 2 ? 0 : data.k;
		if (turn % 2)
			c.u.step.is_empty = NULL;
		engine->class_of->submit(engine, &c);
		(void) engine->class_of->wait(engine, turn);
		start = now();
		engine->class_of->close(engine);
		longest = fmax(longest, now() - start);
		printf("# closed in %.1f ms after %d ms\n", (now() - start) * 1e3, turn);
	}
	cuda->list_devices(after, 16, &count);
	for (int i = 0; i < count; i++)
		left += after[i].own_bytes;
	printf("# closed within %.1f ms, %llu bytes left\n", longest * 1e3, (unsigned long long) left);
	ok(longest < 0.1 && left == 0, "closing in the middle of a command");
	free_data(&data);
}

/* Compares on 1, 2, 4 ... GPUs: arguments are the library, the seed, the most GPUs, "quick". */
int
main(int argc, char **argv)
{
	const GkEngineClass *(*get) (void);
	void	   *library;
	GkDevice	devices[16];
	int			visible = 0;
	int			most = argc > 3 ? atoi(argv[3]) : 1;
	bool		quick = argc > 4;

	library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	get = library == NULL ? NULL
		: (const GkEngineClass *(*) (void)) dlsym(library, "gk_cuda_engine");
	if (get == NULL)
	{
		printf("Bail out! %s\n", dlerror());
		return 1;
	}
	cuda = get();
	if (cuda->list_devices(devices, 16, &visible).code != GK_OK || visible == 0)
	{
		printf("1..0 # SKIP no GPU\n");
		return 0;
	}
	limited = *cuda;
	limited.open = open_limited;
	tested = &limited;
	random_seed(argc > 2 ? strtoull(argv[2], NULL, 10) : 20);
	for (device_count = 1; device_count <= most; device_count *= 2)
	{
		device_limit = 0;
		small_shapes();
		if (quick)
			continue;
		large_shapes();
		device_limit = 14 << 20;
		oracle = gk_cpu_engine();
		cuda_shape(50000, 32, 100, 4);
		cuda_shape(3000, 2000, 40, 3);
	}
	device_count = 1;
	test_close();
	printf("1..%d\n", tests);
	return failures > 0;
}
