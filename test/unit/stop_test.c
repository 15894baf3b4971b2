/*
 * The CPU engine and the reference engine, stopped in every command wherever they can notice: as
 * the end of an engine, and as a pause after which it answers as one that was never stopped.
 *
 * Usage: stop_test [seed [seconds]]: with seconds, stops at random for that long.
 */
#include <stdlib.h>

#include "cpu_stops.h"
#include "engine_stops.h"
#include "reference_engine.h"
#include "state.h"
#include "tap.h"

/* How many of a command's first checks are stops, and how many random later ones. */
#ifdef SLOW
#define FIRST_LOOKS 3
#define OTHER_LOOKS 5
#else
#define FIRST_LOOKS 300
#define OTHER_LOOKS 10
#endif

/* Rows enough for several tiles in a chunk: doubtful rows of more than one come together. */
#define ROWS 1100

/* The CPU engine with this many threads (with several, checks have no order), and its oracle. */
static Stopper
cpu_stopper(int threads)
{
	return (Stopper) {
		.tested = gk_cpu_engine(),.plan = plan_cpu_stop,.oracle = gk_reference_engine(),
		.feeding = {.threads = threads},.first = threads == 1 ? FIRST_LOOKS : 3,
		.others = OTHER_LOOKS
	};
}

/* Stops everywhere on one data set. */
static void
test_data(Stopper stopper, Kind kind, int64_t n, int d, int64_t k, int flags)
{
	Data		data = make_data(kind, n, d, k, flags & 1, flags & 2, false);
	bool		good = stop_everywhere(&stopper, &data);

	ok(good && stopper.stops > 0 && stopper.refused > 0,
	   "%s: %s, n %lld, d %d, k %lld%s%s, threads %d: %lld stops", stopper.tested->name,
	   kind_name(kind), (long long) n, d, (long long) k, flags & 1 ? ", weighted" : "",
	   flags & 2 ? ", wide" : "", stopper.feeding.threads, (long long) stopper.stops);
	free_data(&data);
}

/* Data full of ties, and some with a part of the rows in doubt: two centroids are always equal. */
static void
test_all(void)
{
	static const Kind kinds[] = {LATTICE, EQUAL, COPIES, NEAR_TIES, NORMAL};
	Stopper		reference = cpu_stopper(1);
	Stopper		large = cpu_stopper(1);

	for (int threads = 1; threads <= 3; threads += 2)
	{
		gk_cpu_engine_use(NULL, threads > 1);
		for (int i = 0; i < 5; i++)
			test_data(cpu_stopper(threads), kinds[i], ROWS, 3 + 4 * i, i == 1 ? 50 : 6, i % 4);
	}
	/* centroids in regions */
	gk_cpu_engine_use(NULL, true);
	test_data(cpu_stopper(1), CROWDS, ROWS, 9, 40, 0);
	test_data(cpu_stopper(3), TOPICS, ROWS, 33, 70, 1);
	gk_cpu_engine_use(NULL, false);
	/* centroids in many panels, rows in many tiles */
	large.oracle = gk_cpu_engine();
	large.first = 0;
	large.others = 2;
	test_data(large, LATTICE, ROWS / 2, 64, 2200, 1);
	reference.tested = gk_reference_engine();
	reference.plan = plan_reference_stop;
	test_data(reference, LATTICE, 60, 3, 7, 1);
}

/* Stops everywhere, or at random for a while. */
int
main(int argc, char **argv)
{
	random_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 9);
	if (argc > 2)
	{
		Stopper		stopper = cpu_stopper(1);
		bool		good;

		stopper.oracle = gk_cpu_engine();
		good = stop_at_random(&stopper, atof(argv[2]));
		ok(good && stopper.stops > 0, "seed %s: stopped %lld times at random", argv[1],
		   (long long) stopper.stops);
	}
	else
		test_all();
	return done_testing();
}
