/*
 * The cluster engine with nodes in this process: it answers every command as one engine with all
 * rows does, bit for bit; it stands failures of the way to the nodes, and forged messages.
 *
 * Usage: cluster_test [seed [mutations]].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_engine.h"
#include "engine_compare.h"
#include "engine_drive.h"
#include "engine_ends.h"
#include "fault_engine.h"
#include "local_cluster.h"
#include "reference_engine.h"
#include "spoiled_engine.h"
#include "state.h"
#include "tap.h"

/* Slow builds use fewer rows. */
#ifdef SLOW
#define FEWER 4
#else
#define FEWER 1
#endif

/* A plan with shares of various sizes, a few of them none; engines of both kinds. */
static LocalPlan
make_plan(int nodes, bool uneven)
{
	LocalPlan	plan = {.nodes = nodes};
	static const size_t pieces[] = {0, 1, 100, 4096};

	for (int i = 0; i < nodes; i++)
	{
		plan.shares[i] = uneven ? (int) (random_bits() % 4) * (int) (random_bits() % 4) : 1;
		plan.classes[i] = random_bits() % 4 == 0 ? gk_reference_engine() : gk_cpu_engine();
	}
	/* someone has rows */
	plan.shares[random_bits() % (uint64_t) nodes] += 1;
	plan.piece = pieces[random_bits() % 4];
	return plan;
}

/* One case. */
static void
compare_case(Comparison *comparison, const LocalPlan *plan, Kind kind, int64_t n, int d, int64_t k,
			 int steps)
{
	static const int threads[] = {1, 2, 3};
	uint64_t	dice = random_bits();
	Feeding		feeding = {
		.threads = threads[dice % 3],.batch = 1 + (int64_t) (random_bits() % (2 * n))
	};
	bool		weighted = dice >> 8 & 1;
	bool		wide = dice >> 9 & 1;
	bool		spherical = (dice >> 10 & 3) == 0;
	Data		data = make_data(kind, n, d, k, weighted, wide, spherical);

	comparison->tested = gk_local_cluster(plan);
	gk_cpu_engine_use(NULL, dice >> 12 & 1);
	snprintf(comparison->where, sizeof(comparison->where),
			 "n %lld d %d k %lld %s nodes %d shares %d %d %d piece %zu%s%s%s", (long long) n, d,
			 (long long) k, kind_name(kind), plan->nodes, plan->shares[0], plan->shares[1],
			 plan->shares[2], plan->piece, weighted ? " weighted" : "", wide ? " wide" : "",
			 spherical ? " spherical" : "");
	compare_fit(comparison, &data, feeding, steps);
	free_data(&data);
}

/* All kinds of data on so many nodes. */
static void
test_nodes(int nodes)
{
	static const struct
	{
		int64_t		n;
		int			d;
		int64_t		k;
	}			shapes[] = {
		{7, 2, 7}, {60, 3, 40}, {500, 1, 20}, {700, 7, 13}, {300, 8, 250}, {900, 16, 60},
		{200, 100, 30}
	};
	Comparison	comparison = {.oracle = gk_reference_engine()};

	for (int kind = 0; kind < KINDS; kind++)
		for (int i = 0; i < 7; i++)
		{
			int64_t		n = i < 2 ? shapes[i].n : shapes[i].n / FEWER;
			LocalPlan	plan = make_plan(nodes, random_bits() % 3 > 0);

			compare_case(&comparison, &plan, kind, n, shapes[i].d,
						 shapes[i].k < n ? shapes[i].k : n, 5);
		}
	ok(!comparison.differs, "%d nodes: every command as one engine answers it", nodes);
}

/* Rows that are equally far, on several nodes. */
static void
test_ties(void)
{
	static const Kind kinds[] = {LATTICE, EQUAL, COPIES};
	Comparison	comparison = {.oracle = gk_reference_engine()};

	for (int i = 0; i < 12; i++)
	{
		Data		data = make_data(kinds[i % 3], 6000 / FEWER, 1 + i, 3, i % 2, true, false);
		LocalPlan	plan = make_plan(2 + i % 6, i % 3 > 0);

		comparison.tested = gk_local_cluster(&plan);
		snprintf(comparison.where, sizeof(comparison.where), "ties, %s", kind_name(data.kind));
		compare_farthest(&comparison, &data, (Feeding) {.threads = 1 + i % 3,.batch = 1000});
		free_data(&data);
	}
	ok(!comparison.differs, "equally far rows of several nodes come in the order of their bits");
}

/* One wrong bit in any answer is noticed. */
static void
test_spoiled(void)
{
	Data		data = make_data(COPIES, 200, 5, 20, true, true, false);
	LocalPlan	plan = make_plan(3, false);
	int			noticed = 0;

	for (int i = 0; i < SPOILS; i++)
	{
		Comparison	comparison = {.oracle = gk_reference_engine()};

		comparison.tested = gk_spoiled_engine(gk_local_cluster(&plan), gk_spoils[i]);
		snprintf(comparison.where, sizeof(comparison.where), "on purpose, %d", gk_spoils[i]);
		compare_fit(&comparison, &data, (Feeding) {.threads = 1,.batch = 50}, 2);
		noticed += comparison.differs;
	}
	ok(noticed == SPOILS, "one wrong bit is noticed in any of %d answers", SPOILS);
	free_data(&data);
}

/* Compares engines. */
int
main(int argc, char **argv)
{
	random_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 31);
	test_nodes(1);
	test_nodes(2);
	test_nodes(3);
	test_nodes(7);
	test_ties();
	test_spoiled();
	return done_testing();
}
