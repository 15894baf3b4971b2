/*
 * The cluster engine with nodes in this process: it answers every command as one engine with all
 * rows does, bit for bit; it stands failures of the way to the nodes, and forged messages.
 *
 * Usage: cluster_test [seed [mutations]]: with mutations, only forges that many messages.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_engine.h"
#include "engine_compare.h"
#include "engine_drive.h"
#include "engine_ends.h"
#include "fault_engine.h"
#include "local_cluster.h"
#include "memory.h"
#include "message.h"
#include "node.h"
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

/* All kinds of data on so many nodes, each of about half of the shapes. */
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
			if (random_bits() % 2 == 0)
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

/* Candidates and centroids in orders that no fit has, by messages to one node and to several. */
static void
test_odd_orders(void)
{
	Comparison	comparison = {.oracle = gk_reference_engine()};

	gk_cpu_engine_use(NULL, true);
	for (int nodes = 1; nodes <= 3; nodes++)
	{
		Data		data = make_data(BLOBS, 93, 90, 9, false, false, false);
		LocalPlan	plan = make_plan(nodes, false);

		for (int i = 0; i < nodes; i++)
			plan.classes[i] = gk_cpu_engine();
		comparison.tested = gk_local_cluster(&plan);
		snprintf(comparison.where, sizeof(comparison.where), "odd orders, nodes %d", nodes);
		compare_odd_orders(&comparison, &data, (Feeding) {.threads = 1,.batch = 100});
		free_data(&data);
	}
	ok(!comparison.differs, "labels that are no centroids' do no harm to nodes");
}

/* GK_SQUARES of these exponents, of all features. */
static GkCommand
squares_of(const Data *data, int *exponents, int exponent, int64_t *sums)
{
	GkCommand	c = {.operation = GK_SQUARES};

	for (int j = 0; j < data->d; j++)
		exponents[j] = exponent;
	c.squares.exponents = exponents;
	c.squares.rest_bits = REST_BITS;
	c.squares.sums = sums;
	return c;
}

/* Squares beyond their grid mean nothing, and do no harm to those that come after them. */
static void
test_squares(void)
{
	Data		data = make_data(BLOBS, 200, 7, 3, true, false, false);
	LocalPlan	plan = make_plan(2, false);
	int			exponents[8] = {0};
	int64_t		sums[3][2 * 3 * 8];
	GkEngine   *engine;
	GkCommand	c = {.operation = GK_ASSIGN};

	plan.classes[0] = plan.classes[1] = gk_cpu_engine();
	engine = feed(gk_local_cluster(&plan), &data, (Feeding) {.threads = 1,.batch = 100});
	begin_fit(engine, &data);
	run(engine, &c);
	for (int i = 0; i < 3; i++)
	{
		c = squares_of(&data, exponents, i == 1 ? 1000 : 0, sums[i]);
		run(engine, &c);
	}
	ok(memcmp(sums[0], sums[2], sizeof(sums[0])) == 0,
	   "squares beyond their grid spoil nothing but their sums");
	engine->class_of->close(engine);
	free_data(&data);
}

/* What the nodes forget with centroids that reach them late, the cluster forgets, too. */
static void
test_late_centroids(void)
{
	Data		data = make_data(BLOBS, 200, 7, 3, false, false, false);
	LocalPlan	plan = make_plan(2, false);
	int			exponents[8] = {0};
	int64_t		sums[2 * 3 * 8];
	GkEngine   *engine = feed(gk_local_cluster(&plan), &data,
							  (Feeding) {.threads = 1,.batch = 100});
	GkCommand	c = {.operation = GK_MOVE};
	GkStatus	status;

	begin_fit(engine, &data);
	for (int64_t i = 0; i < data.k * data.d; i++)
		data.centroids[i] += 1.0;
	c.move.centroids = data.centroids;
	run(engine, &c);
	c = (GkCommand) {.operation = GK_CANDIDATES};
	c.candidates.candidates = data.centroids;
	c.candidates.count = data.k;
	run(engine, &c);
	c = squares_of(&data, exponents, 0, sums);
	run(engine, &c);
	c = (GkCommand) {.operation = GK_CANDIDATES};
	c.candidates.candidates = data.centroids;
	c.candidates.count = 1;
	c.candidates.first_label = data.k;
	status = run_one(engine, &c);
	ok(status.code == GK_INTERNAL && strcmp(status.where, "submit") == 0,
	   "d² that the nodes have forgotten are not asked for");
	c = (GkCommand) {.operation = GK_DISTANCES};
	run(engine, &c);
	engine->class_of->close(engine);
	free_data(&data);
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

/* Fails every call of the transport, then of the cluster engine, then of the nodes' engines. */
static void
test_failures(void)
{
	Data		data = make_data(NORMAL, 60, 3, 6, true, true, false);
	Feeding		feeding = {.threads = 1};
	bool		good = true;
	int64_t		failures = 0;
	GkCode		code;

	for (int what = 0; what < 3; what++)
		for (int64_t call = 1;; call++)
		{
			LocalPlan	plan = make_plan(3, false);
			const GkEngineClass *tested;

			if (what == 0)
				plan.fail_at = call;
			for (int i = 0; i < 3 && what == 2; i++)
				plan.classes[i] = gk_fault_engine(gk_cpu_engine(), call, GK_DEVICE_ERROR);
			tested = gk_local_cluster(&plan);
			if (what == 1)
				tested = gk_fault_engine(tested, call, GK_DEVICE_ERROR);
			code = run_until_error(tested, &data, feeding);
			good &= code == GK_OK || code == GK_DEVICE_ERROR;
			good &= account_drawn() == 0;
			failures++;
			if (code == GK_OK || !good)
				break;
		}
	ok(good && failures > 150, "%lld failing calls end in their error, and leave nothing",
	   (long long) failures);
	free_data(&data);
}

/* Refuses memory, less and less of it. */
static void
test_memory(void)
{
	Data		data = make_data(NORMAL, 400, 5, 9, false, false, false);
	LocalPlan	plan = make_plan(2, false);
	bool		good = true;
	int64_t		refusals = 0;
	GkCode		code = GK_OK;

	for (uint64_t bytes = 0; good && (bytes == 0 || code != GK_OK); bytes += 1024)
	{
		account_allow(bytes);
		code = run_until_error(gk_local_cluster(&plan), &data, (Feeding) {.threads = 1});
		good &= code == GK_OK || code == GK_HOST_MEMORY_REFUSED;
		good &= account_drawn() == 0;
		refusals++;
	}
	account_allow(UINT64_MAX);
	ok(good && refusals > 20, "memory refused %lld times ends in that error, and leaves nothing",
	   (long long) refusals);
	free_data(&data);
}

/* An account that has nothing left. */
static bool
draw_nothing(uint64_t bytes)
{
	(void) bytes;
	return false;
}

/* What is refused is what a room would grow by. */
static void
test_refusal(void)
{
	GkMemory	memory = {0};
	GkRoom		room = {0};
	GkStatus	status = gk_room_need(&memory, &room, 100, 8);

	memory.draw = draw_nothing;
	ok(status.code == GK_OK && gk_room_need(&memory, &room, 100, 8).code == GK_OK,
	   "a room that is large enough draws nothing");
	status = gk_room_need(&memory, &room, 300, 8);
	ok(status.code == GK_HOST_MEMORY_REFUSED && status.needed == 1600,
	   "1600 bytes more are refused: %llu", (unsigned long long) status.needed);
	gk_room_free(&memory, &room);
}

/* Rows are numbered node by node; a cluster without its rows takes others; reports add up. */
static void
test_rows(void)
{
	Data		data = make_data(NORMAL, 100, 2, 4, false, false, false);
	LocalPlan	plan = make_plan(3, false);
	GkEngine   *engine;
	GkBatch		batch = {40, data.x, NULL};
	GkCommand	seal = {.operation = GK_SEAL};
	const int64_t *first;
	GkNodeReport report;
	uint64_t	ticket;

	plan.shares[0] = 3;
	plan.shares[1] = 0;
	plan.shares[2] = 1;
	engine = feed(gk_local_cluster(&plan), &data, (Feeding) {.threads = 1,.batch = 7});
	first = gk_cluster_first_rows(local_cluster_inside(engine));
	gk_cluster_report(local_cluster_inside(engine), 0, &report);
	ok(first[0] == 0 && first[1] == 75 && first[2] == 75 && first[3] == 100,
	   "rows are numbered node by node");
	ok(report.rows == 75 && report.sent > 0 && report.received > 0 && report.bytes > 0 &&
	   report.seconds >= 0.0 && gk_cluster_exchange_seconds(local_cluster_inside(engine)) > 0.0,
	   "a node's report, and the exchange");
	check_status(engine->class_of->clear(engine));
	check_status(engine->class_of->set_dimension(engine, 2));
	check_status(engine->class_of->append(engine, &batch, &ticket));
	run(engine, &seal);
	ok(seal.seal.rows == 40 && first[3] == 40, "other rows after a clear");
	engine->class_of->close(engine);
	free_data(&data);
}

/* A step with many values is merged in pieces: wait() returns between them. */
static void
test_pieces(void)
{
	Data		data = make_data(NORMAL, 300, 4000, 300, false, false, false);
	LocalPlan	plan = make_plan(2, false);
	Feeding		feeding = {.threads = 1,.batch = 300};
	GkEngine   *engine = feed(gk_local_cluster(&plan), &data, feeding);
	GkCommand	c = {.operation = GK_STEP};
	int			returns = 0;
	GkStatus	status;

	begin_fit(engine, &data);
	check_status(engine->class_of->submit(engine, &c));
	while ((status = engine->class_of->wait(engine, 0)).code == GK_RUNNING)
		returns++;
	/* clearing, adding twice, and more */
	ok(status.code == GK_OK && returns >= 4, "a step with many values is merged in pieces");
	engine->class_of->close(engine);
	free_data(&data);
}

/* A value that is wrong in most places. */
static uint64_t
odd_value(void)
{
	static const double values[] = {NAN, INFINITY, -INFINITY, -0.0, 1e308, -1e-310, 0x1p131};
	static const uint64_t integers[] = {
		0, 1, UINT64_MAX, INT64_MAX, UINT64_C(1) << 63, INT32_MAX, UINT64_C(1) << 32,
		UINT64_C(0x3ff00000400), 1023, 1024, 62, 63, 20, 21, UINT64_C(1) << 60, UINT64_C(1) << 40
	};
	uint64_t	bits;
	double		value = values[random_bits() % 7];

	memcpy(&bits, &value, sizeof(bits));
	return random_bits() % 3 == 0 ? bits : integers[random_bits() % 16];
}

/* Changes something in a message behind its first bytes. */
static void
mutate(char *message, size_t from, size_t bytes)
{
	for (int times = 1 + (int) (random_bits() % 3); times > 0 && bytes > from + 8; times--)
	{
		size_t		at = from + random_bits() % (bytes - from - 8);
		uint64_t	odd = odd_value();

		if (random_bits() % 2)
			memcpy(message + at / 8 * 8, &odd, 8);
		else
			message[at] = (char) (message[at] ^ 1 << random_bits() % 8);
	}
}

/* Changes an answer: mostly behind its header. */
static void
mutate_answer(void *answer, size_t bytes)
{
	mutate(answer, random_bits() % 16 == 0 ? 0 : sizeof(GkHeader), bytes);
}

/* Forges answers of nodes: the command ends in an error, or the engine goes on. */
static void
test_answers(int64_t mutations)
{
	Data		data = make_data(LATTICE, 40, 3, 5, true, true, false);
	LocalPlan	plan = make_plan(3, false);
	int64_t		refused = 0;
	bool		good = true;
	int64_t		all;

	(void) run_until_error(gk_local_cluster(&plan), &data, (Feeding) {.threads = 1});
	all = local_answers();
	plan.look = mutate_answer;
	for (int64_t i = 0; i < mutations; i++)
	{
		GkCode		code;

		plan.look_at = 1 + (int64_t) (random_bits() % (uint64_t) all);
		code = run_until_error(gk_local_cluster(&plan), &data, (Feeding) {.threads = 1});
		good &= code == GK_OK || code == GK_INVALID_ANSWER || code == GK_LIMIT;
		refused += code != GK_OK;
	}
	ok(good && refused > mutations / 5, "%lld of %lld forged answers are refused",
	   (long long) refused, (long long) mutations);
	free_data(&data);
}

/* How many answers were left without unions. */
static int	emptied;

/* Takes the unions out of an answer; their costs stay. */
static void
empty_merges(void *answer, size_t bytes)
{
	GkHeader   *header = answer;

	if (header->operation != GK_MERGE)
		return;
	memset(header + 1, 0xff, (bytes - sizeof(GkHeader)) / 3);
	emptied++;
}

/* A node that merges nothing is refused: whoever asks would ask for ever. */
static void
test_merges(void)
{
	Data		data = make_data(LATTICE, 40, 3, 5, true, true, false);
	LocalPlan	plan = make_plan(3, false);
	int			refused = 0;
	int64_t		all;

	(void) run_until_error(gk_local_cluster(&plan), &data, (Feeding) {.threads = 1});
	all = local_answers();
	plan.look = empty_merges;
	for (plan.look_at = 1; plan.look_at <= all; plan.look_at++)
		refused += run_until_error(gk_local_cluster(&plan), &data,
								   (Feeding) {.threads = 1}) == GK_INVALID_ANSWER;
	ok(emptied > 0 && refused == emptied, "%d of %d answers without unions are refused",
	   refused, emptied);
	free_data(&data);
}

/* The messages of a fit to node 0. */
#define MOST_MESSAGES 64
static char *recorded[MOST_MESSAGES];
static size_t recorded_bytes[MOST_MESSAGES];
static int	recordings;

/* Records a message. */
static void
record(const void *message, size_t bytes)
{
	if (recordings == MOST_MESSAGES)
		return;
	recorded[recordings] = memcpy(malloc(bytes), message, bytes);
	recorded_bytes[recordings++] = bytes;
}

/* A copy of a message that is changed, with a header that lets most copies pass. */
static char *
forge(int number, uint64_t sequence, size_t *bytes)
{
	size_t		most = recorded_bytes[number] + 64;
	char	   *message = memcpy(calloc(1, most), recorded[number], recorded_bytes[number]);
	GkHeader   *header = (GkHeader *) message;

	*bytes = recorded_bytes[number];
	if (random_bits() % 8 == 0)
		*bytes = sizeof(GkHeader) + random_bits() % (most - sizeof(GkHeader)) / 8 * 8;
	mutate(message, sizeof(GkHeader), *bytes);
	if (random_bits() % 16 == 0)
		mutate(message, 0, sizeof(GkHeader));
	else
		header->bytes = *bytes;
	if (random_bits() % 8 == 0)
		header->operation = (uint32_t) (random_bits() % (GK_MESSAGE_OPERATIONS + 1));
	header->sequence = sequence;
	return message;
}

/* Has a node carry a message out; true if it answered. */
static bool
carry_out(GkNode *node, const char *message, size_t bytes)
{
	size_t		cut = random_bits() % (bytes + 1);
	GkStatus	status = gk_node_put(node, message, cut);

	if (status.code == GK_OK)
		status = gk_node_put(node, message + cut, bytes - cut);
	if (status.code == GK_OK)
		status = gk_node_submit(node);
	if (status.code == GK_OK)
		while ((status = gk_node_wait(node, 10)).code == GK_RUNNING)
			;
	(void) gk_node_answer(node, &bytes);
	return status.code == GK_OK && bytes >= sizeof(GkHeader);
}

/* A node with the rows of the data in an engine of its own. */
static GkNode *
open_node(const Data *data, GkEngine **engine)
{
	GkNodeConfig config = {.dimension = data->d,.rows = data->n};
	GkNode	   *node;

	*engine = open_engine(gk_cpu_engine(), data->weighted, (Feeding) {.threads = 1});
	check_status(append_all(*engine, data));
	config.engine = *engine;
	check_status(gk_node_open(&config, &node));
	return node;
}

/* Forges messages among those of a fit. */
static void
test_messages(int64_t mutations)
{
	Data		data = make_data(LATTICE, 40, 3, 5, true, true, false);
	LocalPlan	plan = make_plan(1, false);
	int64_t		refused = 0;
	int64_t		done = 0;

	plan.record = record;
	(void) run_until_error(gk_local_cluster(&plan), &data, (Feeding) {.threads = 1});
	while (done < mutations)
	{
		GkEngine   *engine;
		GkNode	   *node = open_node(&data, &engine);
		uint64_t	sequence = 0;

		for (int i = 0; i < recordings; i++)
		{
			GkHeader   *header = (GkHeader *) recorded[i];

			for (int times = (int) (random_bits() % 6); times > 0 && i > 0; times--)
			{
				size_t		bytes;
				char	   *message = forge((int) (random_bits() % recordings), ++sequence, &bytes);

				refused += !carry_out(node, message, bytes);
				done++;
				free(message);
			}
			header->sequence = ++sequence;
			(void) carry_out(node, recorded[i], recorded_bytes[i]);
		}
		engine->class_of->close(engine);
		gk_node_close(node);
	}
	ok(refused > mutations / 2 && refused < done, "%lld of %lld forged messages are refused",
	   (long long) refused, (long long) done);
	for (int i = 0; i < recordings; i++)
		free(recorded[i]);
	free_data(&data);
}

/* Compares engines, and forges messages. */
int
main(int argc, char **argv)
{
	random_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 31);
	if (argc > 2)
	{
		test_answers(strtoll(argv[2], NULL, 10) / 50);
		test_messages(strtoll(argv[2], NULL, 10));
		return done_testing();
	}
	test_nodes(1);
	test_nodes(2);
	test_nodes(3);
	test_nodes(7);
	test_ties();
	test_odd_orders();
	test_squares();
	test_late_centroids();
	test_spoiled();
	test_failures();
	test_memory();
	test_refusal();
	test_rows();
	test_pieces();
	test_merges();
	test_answers(2000 / FEWER);
	test_messages(40000 / FEWER);
	return done_testing();
}
