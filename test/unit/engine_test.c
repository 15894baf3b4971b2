/*
 * The CPU engine against the reference engine: every output of every command, bit for bit.
 */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_compare.h"
#include "engine_drive.h"
#include "merge_rounds.h"
#include "reference_engine.h"
#include "spoiled_engine.h"
#include "state.h"
#include "tap.h"
#include "ties.h"

/* Slow builds use fewer rows. */
#ifdef SLOW
#define FEWER 5
#else
#define FEWER 1
#endif

#define SETS 4
static const char *const sets[SETS] = {"generic", "avx2", "avx512", "amx"};

/* A case of a shape: one kind of rows on one instruction set, the rest by chance. */
static void
compare_case(Comparison *comparison, Kind kind, int64_t n, int d, int64_t k, const char *set,
			 int steps)
{
	static const int threads[] = {1, 2, 3, 7};
	uint64_t	dice = random_bits();
	Feeding		feeding = {
		.threads = threads[dice % 4],.batch = 1 + (int64_t) (random_bits() % (2 * n)),
		.slots = dice >> 13 & 1 ? 3 : 0
	};
	bool		weighted = dice >> 8 & 1;
	bool		wide = dice >> 9 & 1;
	bool		spherical = (dice >> 10 & 3) == 0;
	Data		data = make_data(kind, n, d, k, weighted, wide, spherical);

	gk_cpu_engine_use(gk_cpu_kernels_find(set), dice >> 12 & 1);
	snprintf(comparison->where, sizeof(comparison->where),
			 "n %lld d %d k %lld %s %s threads %d batch %lld%s%s%s",
			 (long long) n, d, (long long) k, kind_name(kind), set, feeding.threads,
			 (long long) feeding.batch, weighted ? " weighted" : "", wide ? " wide" : "",
			 spherical ? " spherical" : "");
	compare_fit(comparison, &data, feeding, steps);
	free_data(&data);
}

/* All kinds of data in a shape, each on one of the instruction sets or so, by chance. */
static void
test_shape(int64_t n, int d, int64_t k, int steps)
{
	Comparison	comparison = {.tested = gk_cpu_engine(),.oracle = gk_reference_engine()};

	n = (n + FEWER - 1) / FEWER;
	k = k < n ? k : n;
	for (int kind = 0; kind < KINDS; kind++)
		for (size_t s = 0; s < SETS; s++)
			if (gk_cpu_kernels_find(sets[s]) != NULL && random_bits() % SETS == 0)
				compare_case(&comparison, kind, n, d, k, sets[s], steps);
	ok(!comparison.differs, "n %lld, d %d, k %lld", (long long) n, d, (long long) k);
}

/* Values, differences and sizes that are hard to compute with. */
static void
test_limits(int cases)
{
	Comparison	comparison = {.tested = gk_cpu_engine(),.oracle = gk_reference_engine()};

	for (int i = 0; i < cases; i++)
	{
		const char *set = sets[random_bits() % SETS];
		const GkKernels *kernels = gk_cpu_kernels_find(set);

		gk_cpu_engine_use(kernels, random_bits() % 2);
		snprintf(comparison.where, sizeof(comparison.where), "case %d %s", i,
				 kernels == NULL ? "best" : set);
		compare_at_limits(&comparison, (Feeding) {.threads = 1 + i % 4});
	}
	ok(!comparison.differs, "%d data sets at the limits of the arithmetic", cases);
}

/* One data set on the best instruction set, with threads. */
static void
test_case(Kind kind, int64_t n, int d, int64_t k, bool wide, int threads, const char *name)
{
	Comparison	comparison = {.tested = gk_cpu_engine(),.oracle = gk_reference_engine()};
	Data		data = make_data(kind, n / FEWER, d, k, false, wide, false);

	gk_cpu_engine_use(NULL, true);
	snprintf(comparison.where, sizeof(comparison.where), "%s", name);
	compare_fit(&comparison, &data, (Feeding) {.threads = threads,.batch = n}, 1);
	ok(!comparison.differs, "%s", name);
	free_data(&data);
}

/* Fits with ever other k on one engine, then on other rows. */
static void
test_refits(void)
{
	static const struct
	{
		int			d;
		int			next;		/* features of the rows afterwards */
	}			cases[] = {{3, 40}, {40, 7}, {100, 16}, {5, 130}};
	static const int64_t ks[] = {1, 5, 90, 64, 2, 130, 200, 33};
	Comparison	comparison = {.tested = gk_cpu_engine(),.oracle = gk_reference_engine()};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
	{
		bool		weighted = random_bits() % 2;
		Kind		kind = (Kind) (random_bits() % KINDS);
		Data		data = make_data(kind, 1500 / FEWER, cases[i].d, 200, weighted, false, false);
		Data		next = make_data(BLOBS, 1700 / FEWER, cases[i].next, 200, weighted, true,
									 false);

		gk_cpu_engine_use(NULL, i % 2);
		snprintf(comparison.where, sizeof(comparison.where), "refits, d %d, %s%s", cases[i].d,
				 kind_name(kind), weighted ? " weighted" : "");
		compare_refits(&comparison, &data, &next, (Feeding) {.threads = 1 + (int) i,.batch = 300},
					   ks, sizeof(ks) / sizeof(*ks));
		free_data(&data);
		free_data(&next);
	}
	ok(!comparison.differs, "fits with other k, and on other rows");
}

/* Rows that are equally distant, or equal, come in the order of their bits. */
static void
test_ties(void)
{
	static const Kind kinds[] = {LATTICE, EQUAL, COPIES};
	Comparison	comparison = {.tested = gk_cpu_engine(),.oracle = gk_reference_engine()};

	for (int i = 0; i < 6; i++)
	{
		Data		data = make_data(kinds[i % 3], 40000 / FEWER, 1 + i, 3, i % 2, true, false);

		snprintf(comparison.where, sizeof(comparison.where), "ties, %s", kind_name(data.kind));
		compare_farthest(&comparison, &data, (Feeding) {.threads = 1 + i,.batch = 1000});
		free_data(&data);
	}
	ok(!comparison.differs, "rows that are equally far are in the order of their bits");
}

/* Candidates and centroids in orders that no fit has; rows do not fill their last block. */
static void
test_odd_orders(void)
{
	static const int64_t ks[] = {3, 5, 9, 40};
	Comparison	comparison = {.tested = gk_cpu_engine(),.oracle = gk_reference_engine()};

	for (int i = 0; i < 12; i++)
	{
		Data		data = make_data(i % 3 == 0 ? NORMAL : BLOBS, 53 + 13 * i, 90, ks[i % 4], i & 1,
									 i & 2, false);

		gk_cpu_engine_use(i < SETS ? gk_cpu_kernels_find(sets[i]) : NULL, i % 3);
		snprintf(comparison.where, sizeof(comparison.where), "odd orders, n %lld, k %lld",
				 (long long) data.n, (long long) data.k);
		compare_odd_orders(&comparison, &data, (Feeding) {.threads = 1 + i % 3,.batch = 100});
		free_data(&data);
	}
	ok(!comparison.differs, "labels that are no centroids' do no harm, and are not mistaken");
}

/* Clusters that could have to wait for each other merge in few rounds. */
static void
test_rounds(void)
{
	gk_cpu_engine_use(NULL, true);
	ok(merges_in_few_rounds(gk_cpu_engine(), gk_reference_engine(), 600 / FEWER, 1),
	   "few rounds merge any arrangement, as expected");
	ok(merges_in_few_rounds(gk_cpu_engine(), NULL, 12000 / FEWER, 1),
	   "few rounds merge many clusters in any arrangement");
}

/* One wrong bit in any answer is noticed. */
static void
test_spoiled(void)
{
	Data		data = make_data(COPIES, 200, 5, 20, true, true, false);
	int			noticed = 0;

	gk_cpu_engine_use(NULL, false);
	for (int i = 0; i < SPOILS; i++)
	{
		Comparison	comparison = {.oracle = gk_reference_engine()};

		comparison.tested = gk_spoiled_engine(gk_cpu_engine(), gk_spoils[i]);
		snprintf(comparison.where, sizeof(comparison.where), "on purpose, %d", gk_spoils[i]);
		compare_fit(&comparison, &data, (Feeding) {.threads = 1,.batch = 50}, 2);
		noticed += comparison.differs;
	}
	ok(noticed == SPOILS, "one wrong bit is noticed in any of %d answers", SPOILS);
	free_data(&data);
}

/* What is compared where centroids rest does not depend on labels, and notices what moves them. */
static void
test_resting(void)
{
	static const int spoils[] = {SPOIL_NOTHING, SPOIL_AHEAD};
	Comparison	comparisons[2] = {{.oracle = gk_reference_engine()},
	{.oracle = gk_reference_engine()}};
	Feeding		feeding = {.threads = 1,.batch = 50};
	int			rested = 0;

	gk_cpu_engine_use(NULL, false);
	for (int i = 0; i < 8; i++)
	{
		Data		data = make_data(i / 2 % 2 ? TOPICS : NORMAL, 400, 4, 6 + i, true, true, false);
		Comparison *comparison = &comparisons[i % 2];

		comparison->tested = gk_spoiled_engine(gk_cpu_engine(), spoils[i % 2]);
		snprintf(comparison->where, sizeof(comparison->where), "iterations ahead, %d",
				 spoils[i % 2]);
		rested += compare_resting(comparison, &data, feeding);
		free_data(&data);
	}
	ok(rested > 8 && !comparisons[0].differs && comparisons[1].differs,
	   "an iteration ahead of centroids that rest is noticed if it moves them, %d times", rested);
}

/* Runs iterations on one engine and gives its centroids. */
static double *
fit_centroids(const Data *data, Feeding feeding, int steps)
{
	GkEngine   *engine = feed(gk_cpu_engine(), data, feeding);
	double	   *centroids = malloc(data->k * data->d * sizeof(double));
	GkCommand	c;

	begin_fit(engine, data);
	for (int step = 0; step < steps; step++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		run(engine, &c);
		if (c.step.empty > 0)
		{
			c = (GkCommand) {.operation = GK_RELOCATE};
			run(engine, &c);
		}
	}
	c = (GkCommand) {.operation = GK_GET_CENTROIDS};
	c.get_centroids.centroids = centroids;
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
		double	   *first = fit_centroids(&data, (Feeding) {.threads = 1,.batch = 500}, 8);

		for (int i = 0; i < 4; i++)
		{
			Feeding		feeding = {.threads = 1 + 2 * i,.batch = 1 + 777 * i * i};
			double	   *other;

			shuffle_rows(&data);
			other = fit_centroids(&data, feeding, 8);
			good &= memcmp(first, other, data.k * data.d * sizeof(double)) == 0;
			free(other);
		}
		free(first);
		free_data(&data);
	}
	ok(good, "row order, batches and threads do not matter");
}

/* How the thread of the caller rounds must not matter, be the commands large or small. */
static void
test_rounding(void)
{
	bool		good = true;

	for (int large = 0; large < 2; large++)
	{
		Data		data = make_data(NORMAL, 300, 6, 12, true, true, false);
		Feeding		feeding = {.threads = 3,.batch = 100};
		double	   *first;
		double	   *other;

		gk_cpu_engine_use(NULL, large);
		first = fit_centroids(&data, feeding, 4);
		(void) fesetround(FE_UPWARD);
		other = fit_centroids(&data, feeding, 4);
		good &= fegetround() == FE_UPWARD;
		(void) fesetround(FE_TONEAREST);
		good &= memcmp(first, other, data.k * data.d * sizeof(double)) == 0;
		free(first);
		free(other);
		free_data(&data);
	}
	ok(good, "how the thread of the caller rounds does not matter, and stays as it is");
}

/* Places of rows in their order, and how often they were compared. */
typedef struct Places
{
	int64_t    *place;
	int			comparisons;
} Places;

/* Compares rows by their places. */
static void
compare_places(void *context, const int64_t *rows, const int64_t *others, int64_t count,
			   int8_t *order)
{
	Places	   *places = context;

	places->comparisons++;
	for (int64_t i = 0; i < count; i++)
	{
		int64_t		difference = places->place[rows[i]] - places->place[others[i]];

		order[i] = (int8_t) ((difference > 0) - (difference < 0));
	}
}

/* Places such that a row in the middle of a run is always its first one, which splits off alone. */
static void
place_by_middle(int64_t *place, GkEntry *entries, GkTies *ties, int64_t count)
{
	for (int64_t begin = 0; begin < count; begin++)
	{
		int64_t		middle = begin + (count - begin) / 2;

		place[entries[middle].row] = begin;
		for (int64_t i = begin; i < count; i++)
			ties->order[i - begin] = i != middle;
		gk_tie_split(entries, ties, ties->order, begin, count);
	}
}

/* Rows with equal hashes that someone has put in the worst order. */
static void
test_worst_order(void)
{
	int64_t		count = 3000;
	GkEntry    *entries = calloc(count, sizeof(GkEntry));
	GkTies		ties = {
		.ends = calloc(count, sizeof(int64_t)),.rows = calloc(count, sizeof(int64_t)),
		.others = calloc(count, sizeof(int64_t)),.order = calloc(count, sizeof(int8_t))
	};
	Places		places = {.place = calloc(count, sizeof(int64_t))};
	bool		sorted = true;

	for (int64_t i = 0; i < count; i++)
		entries[i].row = i;
	place_by_middle(places.place, entries, &ties, count);
	for (int64_t i = 0; i < count; i++)
		entries[i].row = i;
	gk_tie_mark(&ties, 0, count, false);
	gk_order_ties(entries, count, &ties, compare_places, &places);
	for (int64_t i = 0; i < count; i++)
		sorted = sorted && places.place[entries[i].row] == i;
	ok(sorted && places.comparisons < 300, "rows in the worst order: %d comparisons",
	   places.comparisons);
	free(entries);
	free(ties.ends);
	free(ties.rows);
	free(ties.others);
	free(ties.order);
	free(places.place);
}

/*
 * Compares engines on shapes small and large.  Arguments: the seed, and the number of data sets at
 * the limits of the arithmetic.
 */
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
	test_limits(argc > 2 ? atoi(argv[2]) : 100 / FEWER);
	test_case(NORMAL, 1000, 784, 200, false, 1, "centroids that exceed the cache");
	test_case(LATTICE, 1000, 784, 200, false, 2, "centroids that exceed the cache, ties");
	test_case(NORMAL, 600, 100, 500, true, 64, "sums that exceed what every thread can have");
	test_refits();
	test_order();
	test_rounding();
	test_ties();
	test_worst_order();
	test_odd_orders();
	test_rounds();
	test_spoiled();
	test_resting();
	return done_testing();
}
