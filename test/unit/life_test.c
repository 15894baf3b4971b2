/*
 * The life of an engine: closing it in the middle of a command, memory limits and accounts,
 * reading rows twice, signals, and the fault engine.
 */
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_cases.h"
#include "engine_drive.h"
#include "engine_ends.h"
#include "fault_engine.h"
#include "reference_engine.h"
#include "tap.h"

/* How long a thread may work on during close: engine.h's 0.1 s, and more in slow builds. */
#ifdef SLOW
#define CLOSE_SECONDS 5.0
#else
#define CLOSE_SECONDS 0.1
#endif
#define THREADS 3

/* Threads of this process. */
static int
count_threads(void)
{
	DIR		   *directory = opendir("/proc/self/task");
	int			count = 0;

	while (readdir(directory) != NULL)
		count++;
	closedir(directory);
	return count - 2;
}

/* A command that takes long, about to be submitted. */
static GkCommand
long_command(GkEngine *engine, int number, const Data *data, double *room)
{
	GkCommand	c = {.operation = GK_STEP};

	if (number == 1)
	{
		c.operation = GK_CANDIDATES;
		c.candidates.candidates = data->centroids;
		c.candidates.count = data->k;
	}
	else if (number == 2)
	{
		c.operation = GK_CANDIDATES;
		c.candidates.candidates = data->centroids;
		c.candidates.count = 1;
		run(engine, &c);
		c = (GkCommand) {.operation = GK_POTENTIALS};
		c.potentials.trials = data->centroids;
		c.potentials.count = 64;
		c.potentials.potentials = (int64_t *) room;
	}
	else if (number == 3)
		c.operation = GK_ASSIGN;
	return c;
}

/* Closes an engine in the middle of commands. */
static void
test_close(int64_t n, int d, int64_t k, int rounds, const char *name)
{
	Data		data = make_data(NORMAL, n, d, k, false, false, false);
	double	   *room = calloc(1024, sizeof(double));
	double		longest = 0.0;
	int			before = 0;
	int			running = 0;

	for (int i = 0; i < rounds; i++)
	{
		Feeding		feeding = {.threads = THREADS,.batch = n};
		GkEngine   *engine = feed(gk_cpu_engine(), &data, feeding);
		GkCommand	c;
		double		start;

		begin_fit(engine, &data);
		c = long_command(engine, i % 4, &data, room);
		engine->class_of->submit(engine, &c);
		running += engine->class_of->wait(engine, i % 12).code == GK_RUNNING;
		start = worked();
		engine->class_of->close(engine);
		longest = fmax(longest, (worked() - start) / THREADS);
		/* a sanitizer has threads of its own once there is another */
		if (i == 0)
			before = count_threads();
	}
	printf("# %s: %d of %d commands were running; longest close %.1f ms\n", name, running, rounds,
		   longest * 1e3);
	ok(running > rounds / 2, "commands were running");
	ok(longest < CLOSE_SECONDS, "%s", name);
	ok(count_threads() == before && before <= 2, "no thread is left");
	free(room);
	free_data(&data);
}

/* A memory limit holds, and its error says what was needed. */
static void
test_limit(void)
{
	Data		data = make_data(NORMAL, 10000, 100, 10, true, false, false);
	GkEngineConfig config = {.weighted = true,.host_memory_limit = 1000000};
	GkEngine   *engine;
	GkUsage		usage;
	GkBatch		batch = {.rows = 100,.features = data.x,.weights = data.w};
	GkStatus	status = {.code = GK_OK};
	uint64_t	ticket;
	int64_t		rows = 0;

	gk_cpu_engine()->open(&config, &engine);
	engine->class_of->set_dimension(engine, 100);
	for (; rows < 10000 && status.code == GK_OK; rows += 100)
		status = engine->class_of->append(engine, &batch, &ticket);
	ok(status.code == GK_NO_HOST_MEMORY && status.allowed == 1000000 && status.needed > 1000000,
	   "a limit on memory is an error with its figures");
	ok(rows > 1500, "most of the limit could be used");
	engine->class_of->usage(engine, &usage);
	ok(usage.host_bytes <= 1000000 && usage.host_bytes > 500000, "usage stays below the limit");
	engine->class_of->clear(engine);
	engine->class_of->usage(engine, &usage);
	ok(usage.host_bytes == 0 && usage.host_peak > 0, "clear gives all memory back");
	engine->class_of->close(engine);
	free_data(&data);
}

/* Engines that share an account draw all their memory from it, and return it. */
static void
test_account(void)
{
	Data		data = make_data(NORMAL, 10000, 100, 10, true, false, false);
	GkEngineConfig config = {.weighted = true,.threads = 2,.draw_host_memory = account_draw,
	.return_host_memory = account_return};
	GkBatch		batch = {.rows = 100,.features = data.x,.weights = data.w};
	GkEngine   *engines[2];
	GkUsage		usage[2];
	GkStatus	status;
	uint64_t	most;

	account_allow(UINT64_MAX);
	for (int i = 0; i < 2; i++)
	{
		gk_cpu_engine()->open(&config, &engines[i]);
		engines[i]->class_of->set_dimension(engines[i], 100);
	}
	check_status(append_until(engines[0], &batch, 10000));
	check_status(append_until(engines[1], &batch, 5000));
	for (int i = 0; i < 2; i++)
		engines[i]->class_of->usage(engines[i], &usage[i]);
	most = usage[0].host_bytes + usage[1].host_bytes;
	ok(account_drawn() == most && most > 6000000, "what two engines hold is drawn");
	account_allow(most + 1000000);
	status = append_until(engines[1], &batch, 10000);
	ok(status.code == GK_HOST_MEMORY_REFUSED && status.needed > 0, "what is refused is an error");
	engines[1]->class_of->usage(engines[1], &usage[1]);
	ok(account_drawn() == usage[0].host_bytes + usage[1].host_bytes,
	   "what is refused is not drawn");
	engines[0]->class_of->clear(engines[0]);
	ok(account_drawn() == usage[1].host_bytes, "clear returns all that was drawn");
	check_status(append_until(engines[1], &batch, 5000));
	for (int i = 0; i < 2; i++)
		engines[i]->class_of->close(engines[i]);
	ok(account_drawn() == 0, "close returns the rest");
	free_data(&data);
}

/* At every moment, a fit has drawn what it holds, and uses no more threads than allowed. */
static void
test_account_of_fit(void)
{
	Data		data = make_data(NORMAL, 60000, 16, 20, false, false, false);
	GkEngine   *engine;
	GkEngineConfig config = {.threads = 8,.max_threads = 2,.draw_host_memory = account_draw,
	.return_host_memory = account_return};
	GkBatch		batch = {.rows = 2000,.features = data.x};
	GkCommand	seal = {.operation = GK_SEAL};
	GkUsage		usage;
	bool		equal = true;

	account_allow(UINT64_MAX);
	gk_cpu_engine()->open(&config, &engine);
	engine->class_of->set_dimension(engine, 16);
	check_status(append_until(engine, &batch, 60000));
	run(engine, &seal);
	begin_fit(engine, &data);
	for (int i = 0; i < 4; i++)
	{
		GkCommand	c = {.operation = i < 3 ? GK_STEP : GK_ASSIGN};

		run(engine, &c);
		engine->class_of->usage(engine, &usage);
		equal &= account_drawn() == usage.host_bytes;
	}
	ok(equal, "a fit draws what it holds");
	ok(usage.threads == 2, "more threads than are allowed are not taken");
	engine->class_of->close(engine);
	ok(account_drawn() == 0, "and returns it");
	config.threads = 0;
	config.max_threads = 1;
	gk_cpu_engine()->open(&config, &engine);
	engine->class_of->usage(engine, &usage);
	ok(usage.threads == 1, "nor where their number is left to the engine");
	engine->class_of->close(engine);
	free_data(&data);
}

/* Distances of all rows to the centroids, which the engine does not have. */
static void
measure_separation(GkEngine *engine, const Data *data)
{
	GkCommand	c = {.operation = GK_SEPARATION};
	int64_t	   *ends = calloc(data->k, sizeof(int64_t));
	int32_t    *labels = calloc(data->n, sizeof(int32_t));
	double	   *own = calloc(2 * data->n, sizeof(double));

	for (int64_t group = 0; group < data->k; group++)
		ends[group] = group + 1;
	c.separation.points = data->centroids;
	c.separation.ends = ends;
	c.separation.groups = data->k;
	c.separation.features = data->x;
	c.separation.count = data->n;
	c.separation.labels = labels;
	c.separation.own = own;
	c.separation.other = own + data->n;
	run(engine, &c);
	free(own);
	free(labels);
	free(ends);
}

/* Few wide rows take little memory, however many threads there may be. */
static void
test_few_rows(void)
{
	Data		data = make_data(NORMAL, 48, 5000, 3, false, false, false);
	GkEngineConfig config = {.threads = 64,.max_threads = 64};
	GkBatch		batch = {.rows = 48,.features = data.x};
	GkCommand	seal = {.operation = GK_SEAL};
	GkEngine   *engine;
	GkUsage		usage;

	gk_cpu_engine()->open(&config, &engine);
	engine->class_of->set_dimension(engine, 5000);
	check_status(append_until(engine, &batch, 48));
	run(engine, &seal);
	begin_fit(engine, &data);
	for (int i = 0; i < 4; i++)
	{
		GkCommand	c = {.operation = i < 3 ? GK_STEP : GK_ASSIGN};

		run(engine, &c);
	}
	measure_separation(engine, &data);
	engine->class_of->usage(engine, &usage);
	ok(usage.threads == 64 && usage.host_peak < 10000000,
	   "threads that have nothing to do take no memory");
	engine->class_of->close(engine);
	free_data(&data);
}

/* Limits of the sizes. */
static void
test_sizes(void)
{
	GkEngineConfig config = {.threads = 1};
	GkEngine   *engine;

	gk_cpu_engine()->open(&config, &engine);
	ok(engine->class_of->set_dimension(engine, GK_MAX_DIMENSION + 1).code == GK_LIMIT,
	   "too many features are an error");
	ok(engine->class_of->set_dimension(engine, GK_MAX_DIMENSION).code == GK_OK,
	   "as many as allowed are none");
	engine->class_of->close(engine);
	gk_cpu_engine()->close(NULL);
}

/* Memory of a whole fit over the data. */
static void
test_memory(void)
{
	Data		data = make_data(NORMAL, 60000, 128, 20, false, false, false);
	GkEngine   *engine = feed(gk_cpu_engine(), &data, (Feeding) {.threads = 2,.batch = 2048});
	GkCommand	c;
	GkUsage		usage;

	begin_fit(engine, &data);
	for (int i = 0; i < 2; i++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		run(engine, &c);
	}
	c = (GkCommand) {.operation = GK_ASSIGN};
	run(engine, &c);
	engine->class_of->usage(engine, &usage);
	ok((double) usage.host_bytes < 1.06 * 60000 * 128 * 4, "a fit takes 1.06 × the data or less");
	engine->class_of->close(engine);
	free_data(&data);
}

/* Rows can be read again after clear(), even with another dimension. */
static void
test_clear(void)
{
	Data		first = make_data(NORMAL, 5000, 7, 5, false, false, false);
	Data		second = make_data(BLOBS, 3000, 19, 5, false, false, false);
	GkEngine   *engine = feed(gk_cpu_engine(), &first, (Feeding) {.threads = 2,.batch = 100});
	GkBatch		batch = {.rows = 3000,.features = second.x};
	GkCommand	seal = {.operation = GK_SEAL};
	GkCommand	get = {.operation = GK_ROWS};
	int64_t		rows[2] = {0, 2999};
	float		features[2 * 19];
	uint64_t	ticket;

	engine->class_of->clear(engine);
	engine->class_of->set_dimension(engine, 19);
	engine->class_of->append(engine, &batch, &ticket);
	run(engine, &seal);
	get.rows.rows = rows;
	get.rows.count = 2;
	get.rows.features = features;
	run(engine, &get);
	ok(seal.seal.rows == 3000 && memcmp(features, second.x, 19 * sizeof(float)) == 0 &&
	   memcmp(features + 19, second.x + 2999 * 19, 19 * sizeof(float)) == 0,
	   "rows can be read again");
	engine->class_of->close(engine);
	free_data(&first);
	free_data(&second);
}

/* Rows are sealed once: what is known of them stays right. */
static void
test_sealed_again(const GkEngineClass *class_of)
{
	Data		data = make_data(BLOBS, 500, 7, 5, false, false, false);
	GkEngine   *engine = feed(class_of, &data, (Feeding) {.threads = 2,.batch = 100});
	GkCommand	seal = {.operation = GK_SEAL};
	GkCommand	step = {.operation = GK_STEP};
	GkCode		code;

	begin_fit(engine, &data);
	run(engine, &step);
	code = run_one(engine, &seal).code;
	step = (GkCommand) {.operation = GK_STEP};
	run(engine, &step);
	ok(code == GK_INTERNAL && step.step.changed < data.n, "%s: rows are not sealed again",
	   class_of->name);
	check_status(class_of->clear(engine));
	check_status(append_all(engine, &data));
	run(engine, &seal);
	ok(seal.seal.rows == data.n, "%s: but for others, after a clear", class_of->name);
	class_of->close(engine);
	free_data(&data);
}

static volatile sig_atomic_t foreign_signals = 0;
static pthread_t main_thread;

/* Counts the signals that reach another thread than the main one. */
static void
note_signal(int number)
{
	(void) number;
	if (!pthread_equal(pthread_self(), main_thread))
		foreign_signals++;
}

/* The engine's threads take no signals. */
static void
test_signals(void)
{
	Data		data = make_data(NORMAL, 20000, 32, 200, false, false, false);
	GkEngine   *engine = feed(gk_cpu_engine(), &data, (Feeding) {.threads = 3,.batch = 20000});
	GkCommand	c;

	main_thread = pthread_self();
	signal(SIGUSR1, note_signal);
	begin_fit(engine, &data);
	for (int i = 0; i < 10; i++)
	{
		c = (GkCommand) {.operation = GK_STEP};
		engine->class_of->submit(engine, &c);
		kill(getpid(), SIGUSR1);
		while (engine->class_of->wait(engine, 1).code == GK_RUNNING)
			kill(getpid(), SIGUSR1);
	}
	ok(foreign_signals == 0, "signals reach the caller only");
	engine->class_of->close(engine);
	free_data(&data);
}

/* One small fit through the fault engine; returns how many calls, or -1 if one failed wrongly. */
static int64_t
faulty_fit(const Data *data, int64_t fail_at, GkCode code)
{
	const GkEngineClass *class_of = gk_fault_engine(gk_cpu_engine(), fail_at, code);
	GkEngineConfig config = {.threads = 1};
	GkEngine   *engine;
	GkBatch		batch = {.rows = data->n,.features = data->x};
	GkCommand	seal = {.operation = GK_SEAL};
	int32_t		label;
	uint64_t	ticket;
	int64_t		calls = 0;
	bool		wrong = false;
	GkCode		codes[9];

	codes[calls++] = class_of->open(&config, &engine).code;
	if (codes[0] != GK_OK)
		return fail_at == 1 && codes[0] == code && engine == NULL ? 1 : -1;
	codes[calls++] = class_of->lend_buffer(engine, NULL, 0).code;
	codes[calls++] = class_of->set_dimension(engine, data->d).code;
	codes[calls++] = class_of->append(engine, &batch, &ticket).code;
	codes[calls++] = class_of->reclaim(engine, &ticket).code;
	/* how many reclaims it takes must not matter */
	for (int i = 0; i < 3; i++)
		wrong |= class_of->reclaim(engine, &ticket).code != GK_OK;
	codes[calls++] = class_of->submit(engine, &seal).code;
	if (codes[calls - 1] == GK_OK)
		codes[calls++] = class_of->wait(engine, 1000).code;
	else
		codes[calls++] = GK_OK;
	codes[calls++] = class_of->clear(engine).code;
	codes[calls++] = class_of->fetch(engine, 0, 0, &label, NULL).code;
	class_of->close(engine);
	for (int64_t i = 0; i < calls; i++)
		if (codes[i] != (i + 1 == fail_at ? code : GK_OK))
			return -1;
	return wrong ? -1 : calls;
}

/* The fault engine fails exactly the planned call. */
static void
test_faults(void)
{
	Data		data = make_data(NORMAL, 50, 3, 2, false, false, false);
	bool		good = faulty_fit(&data, 0, GK_INTERNAL) == 9;

	for (int64_t i = 1; i <= 9; i++)
		good &= i == 3 || i == 4 || i == 6 || faulty_fit(&data, i, GK_DEVICE_ERROR) > 0;
	ok(good, "the fault engine fails the call of its number, and no other");
	free_data(&data);
}

/* Runs the tests of an engine's life: ends, limits, memory, signals, faults. */
int
main(void)
{
	random_seed(5);
	test_close(60000, 64, 1500, 24, "close in the middle of a command");
	test_close(2000, 4000, 2000, 8, "close in the middle of a command with wide rows");
	test_limit();
	test_account();
	test_account_of_fit();
	test_few_rows();
	test_sizes();
	test_memory();
	test_clear();
	test_sealed_again(gk_cpu_engine());
	test_sealed_again(gk_reference_engine());
	test_signals();
	test_faults();
	return done_testing();
}
