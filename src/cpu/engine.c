/*
 * The CPU engine: its class, and which function runs which command.
 */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

static const GkStatus ok = {.code = GK_OK,.device = -1};

static const GkKernels *chosen_kernels = NULL;

/* Work of about a millisecond, in flops. */
#define SMALL_WORK (1e-3 * GK_THREAD_FLOPS)
/* A thread with less to do is not worth waking. */
#define LEAST_WORK_OF_THREAD (0.5 * SMALL_WORK)

/* Commands with less work than this run on the caller. */
static double small_work = SMALL_WORK;

/* Sets, for tests, the kernels of engines to come and whether small data is treated as large. */
void
gk_cpu_engine_use(const GkKernels *kernels, bool as_large)
{
	chosen_kernels = kernels;
	small_work = as_large ? -1 : SMALL_WORK;
}

/* Runs a command that can be run. */
static void
dispatch(GkCpuEngine *engine, GkCommand *command)
{
	static void (*const functions[]) (GkCpuEngine *engine, GkCommand *command) = {
		[GK_SEAL] = gk_cpu_run_seal,
		[GK_RANGE] = gk_cpu_run_range,
		[GK_MOMENTS] = gk_cpu_run_moments,
		[GK_TRANSFORM] = gk_cpu_run_transform,
		[GK_GRID] = gk_cpu_run_grid,
		[GK_CANDIDATES] = gk_cpu_run_candidates,
		[GK_POTENTIALS] = gk_cpu_run_potentials,
		[GK_MASSES] = gk_cpu_run_masses,
		[GK_ENTRIES] = gk_cpu_run_entries,
		[GK_DRAW] = gk_cpu_run_draw,
		[GK_LABEL_WEIGHTS] = gk_cpu_run_label_weights,
		[GK_ROWS] = gk_cpu_run_rows,
		[GK_COMPARE] = gk_cpu_run_compare,
		[GK_CENTROIDS] = gk_cpu_run_centroids,
		[GK_STEP] = gk_cpu_run_step,
		[GK_MOVE] = gk_cpu_run_move,
		[GK_RELOCATE] = gk_cpu_run_relocate,
		[GK_DISTANCES] = gk_cpu_run_distances,
		[GK_FARTHEST] = gk_cpu_run_farthest,
		[GK_ASSIGN] = gk_cpu_run_assign,
		[GK_STATISTICS] = gk_cpu_run_statistics,
		[GK_SQUARES] = gk_cpu_run_squares,
		[GK_SEPARATION] = gk_cpu_run_separation,
		[GK_MERGE] = gk_cpu_run_merge,
		[GK_GET_CENTROIDS] = gk_cpu_run_get_centroids
	};

	functions[command->operation] (engine, command);
	if (gk_cpu_stopped(engine))
		gk_cpu_fail(engine, GK_INTERNAL, "", "the engine is being closed");
}

/* Runs a command on the calling thread, which leads the others. */
static void
execute(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		centroids = engine->state.centroids;

	if (!gk_can_run(&engine->state, command))
	{
		gk_cpu_fail(engine, GK_INTERNAL, "submit", "a command needs data that does not exist");
		return;
	}
	gk_forget(&engine->state, command);
	/* only labels and d² of candidates tell how far these reach */
	if (!engine->state.distances && command->operation != GK_CANDIDATES)
		engine->earlier_count = -1;
	dispatch(engine, command);
	if (engine->status.code == GK_OK)
		gk_note(&engine->state, command, centroids);
	else if (!gk_only_reads(command->operation))
	{
		engine->sums_valid = engine->packed_valid = engine->no_labels = false;
		engine->state.given = false;
		if (!engine->state.distances)
			engine->per_row_state = GK_PER_ROW_NOTHING;
	}
}

/* Makes an engine without rows; its threads start with the first big command. */
static GkStatus
cpu_open(const GkEngineConfig *config, GkEngine **result)
{
	GkCpuEngine *engine = aligned_alloc(64, (sizeof(GkCpuEngine) + 63) / 64 * 64);
	GkStatus	status = ok;

	*result = NULL;
	if (engine == NULL)
	{
		status.code = GK_NO_HOST_MEMORY;
		strcpy(status.where, "aligned_alloc");
		strcpy(status.message, "out of memory");
		return status;
	}
	memset(engine, 0, sizeof(*engine));
	engine->base.class_of = gk_cpu_engine();
	engine->weighted = config->weighted;
	engine->host_limit = config->host_memory_limit;
	engine->draw_host_memory = config->draw_host_memory;
	engine->return_host_memory = config->return_host_memory;
	engine->kernels = &gk_cpu_kernels_generic;
	engine->regions_always = small_work < 0;
	engine->status = ok;
	atomic_init(&engine->host_bytes, 0);
	atomic_init(&engine->host_peak, 0);
	status = gk_cpu_pool_init(&engine->pool, config->threads, config->max_threads, execute);
	if (status.code != GK_OK)
		free(engine);
	else
		*result = &engine->base;
	return status;
}

/* Nothing to do: rows are copied by append. */
static GkStatus
cpu_lend_buffer(GkEngine *base, void *buffer, size_t bytes)
{
	(void) base;
	(void) buffer;
	(void) bytes;
	return ok;
}

/* Says how wide a row is. */
static GkStatus
cpu_set_dimension(GkEngine *base, int dimension)
{
	GkCpuEngine *engine = (GkCpuEngine *) base;

	engine->status = ok;
	if (dimension < 1 || dimension > GK_MAX_DIMENSION)
		gk_cpu_fail(engine, GK_LIMIT, "set_dimension", "too many features");
	else
	{
		engine->d = dimension;
		engine->kernels = chosen_kernels != NULL ? chosen_kernels : gk_cpu_kernels_for(dimension);
	}
	return engine->status;
}

/* Copies a batch into the blocks. */
static GkStatus
cpu_append(GkEngine *base, const GkBatch *batch, uint64_t *ticket)
{
	GkCpuEngine *engine = (GkCpuEngine *) base;
	GkStatus	status = gk_cpu_rows_append(engine, batch);

	if (status.code == GK_OK)
		*ticket = ++engine->tickets;
	return status;
}

/* Every batch is free again: append copied it. */
static GkStatus
cpu_reclaim(GkEngine *base, uint64_t *ticket)
{
	*ticket = ((GkCpuEngine *) base)->tickets;
	return ok;
}

/* Gives all memory back. */
static void
free_all(GkCpuEngine *engine)
{
	GkArray    *arrays[] = {
		&engine->features, &engine->weights, &engine->labels, &engine->per_row, &engine->hashes,
		&engine->earlier, &engine->reaches,
		&engine->exponents, &engine->scales, &engine->grid_origin, &engine->centroids,
		&engine->shifts, &engine->deltas, &engine->sums, &engine->partial_sums, &engine->scratch
	};

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
		gk_cpu_array_free(engine, arrays[i]);
	gk_cpu_packed_free(engine, &engine->packed);
}

/* Drops the rows and all that was made of them. */
static GkStatus
cpu_clear(GkEngine *base)
{
	GkCpuEngine *engine = (GkCpuEngine *) base;

	free_all(engine);
	engine->d = 0;
	engine->n = 0;
	engine->k = 0;
	engine->state = (GkState) {0};
	engine->per_row_state = GK_PER_ROW_NOTHING;
	engine->hashes_valid = engine->has_grid = engine->packed_valid = engine->sums_valid = false;
	engine->moved = false;
	engine->earlier_count = -1;
	return ok;
}

/* About how many flops a command takes. */
static double
work_of(const GkCpuEngine *engine, const GkCommand *command)
{
	double		values = (double) engine->n * engine->d;

	switch (command->operation)
	{
		case GK_CANDIDATES:
			return values * (8.0 + 2.0 * command->candidates.count);
		case GK_POTENTIALS:
			return values * 4.0 * command->potentials.count;
		case GK_STEP:
		case GK_ASSIGN:
			return values * (8.0 + 2.0 * engine->k) + 8.0 * engine->k * engine->d;
		case GK_SQUARES:
			return 12.0 * values + 16.0 * engine->k * engine->d;
		case GK_MOVE:
		case GK_RELOCATE:
		case GK_GET_CENTROIDS:
			return 8.0 * engine->k * engine->d;
		case GK_CENTROIDS:
			return 4.0 * command->centroids.k * engine->d;
		case GK_MASSES:
			return values + (double) (1 << command->masses.bits);
		case GK_COMPARE:
			return 4.0 * command->compare.count * engine->d;
		case GK_SEPARATION:
			return 4.0 * command->separation.count *
				command->separation.ends[command->separation.groups - 1] * engine->d;
		case GK_MERGE:
			return 2.0 * command->merge.count * command->merge.count * engine->d;
		case GK_DRAW:
		case GK_GRID:
			return 0;
		default:
			return 8.0 * values;
	}
}

/* On how many threads a command runs that is not small. */
static int
useful_threads(const GkCpuEngine *engine, double work)
{
	double		useful = small_work < 0 ? HUGE_VAL : ceil(work / LEAST_WORK_OF_THREAD);

	return useful < engine->pool.threads ? (int) useful : engine->pool.threads;
}

/* Runs a command on the thread of the caller, however that rounds. */
static void
execute_here(GkCpuEngine *engine, GkCommand *command)
{
	fenv_t		before;

	(void) fegetenv(&before);
	(void) fesetenv(FE_DFL_ENV);
	execute(engine, command);
	(void) fesetenv(&before);
}

/* Starts a command on the threads, or runs it at once if it is small. */
static GkStatus
cpu_submit(GkEngine *base, GkCommand *command)
{
	GkCpuEngine *engine = (GkCpuEngine *) base;
	double		work = work_of(engine, command);

	engine->status = ok;
	if (work > small_work)
		return gk_cpu_pool_submit(engine, command, useful_threads(engine, work));
	engine->pool.useful = 1;
	execute_here(engine, command);
	return ok;
}

/* Waits for the command; its status if it has ended. */
static GkStatus
cpu_wait(GkEngine *base, int milliseconds)
{
	GkCpuEngine *engine = (GkCpuEngine *) base;
	GkStatus	status = ok;

	if (gk_cpu_pool_wait(&engine->pool, milliseconds))
		return engine->status;
	status.code = GK_RUNNING;
	return status;
}

/* Copies labels and d² of a range of rows. */
static GkStatus
cpu_fetch(GkEngine *base, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	GkCpuEngine *engine = (GkCpuEngine *) base;

	engine->status = ok;
	if (from < 0 || count < 0 || count > engine->n - from)
		gk_cpu_fail(engine, GK_INTERNAL, "fetch", "there are no such rows");
	if (distance2 != NULL && count > 0)
		(void) gk_cpu_need_distances(engine);
	if (engine->status.code != GK_OK || count == 0)
		return engine->status;
	if (labels != NULL)
		memcpy(labels, gk_cpu_labels(engine) + from, count * sizeof(int32_t));
	if (distance2 != NULL)
		memcpy(distance2, gk_cpu_distance2(engine) + from, count * sizeof(double));
	return ok;
}

/* The memory and the threads that the engine takes. */
static void
cpu_usage(const GkEngine *base, GkUsage *usage)
{
	const GkCpuEngine *engine = (const GkCpuEngine *) base;

	memset(usage, 0, sizeof(*usage));
	usage->host_bytes = atomic_load_explicit(&engine->host_bytes, memory_order_relaxed);
	usage->host_peak = atomic_load_explicit(&engine->host_peak, memory_order_relaxed);
	usage->threads = engine->pool.threads;
}

/* Stops the threads and frees the engine. */
static void
cpu_close(GkEngine *base)
{
	GkCpuEngine *engine = (GkCpuEngine *) base;

	if (engine == NULL)
		return;
	gk_cpu_pool_close(engine);
	free_all(engine);
	free(engine);
}

/* The class of the CPU engine. */
const GkEngineClass *
gk_cpu_engine(void)
{
	static const GkEngineClass class_of = {
		.interface = GK_ENGINE_INTERFACE,
		.name = "cpu",
		.open = cpu_open,
		.lend_buffer = cpu_lend_buffer,
		.set_dimension = cpu_set_dimension,
		.append = cpu_append,
		.reclaim = cpu_reclaim,
		.clear = cpu_clear,
		.submit = cpu_submit,
		.wait = cpu_wait,
		.fetch = cpu_fetch,
		.usage = cpu_usage,
		.close = cpu_close
	};

	return &class_of;
}
