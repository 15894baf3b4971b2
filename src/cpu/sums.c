/*
 * Centroid sums in fixed point, and the centroids that come of them.
 */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "state.h"
#include "update.h"

/* Sums of their own for every thread as long as they take less than this, or a part of the rows. */
#define PARTIAL_BYTES ((double) ((size_t) 32 << 20))
#define PARTIAL_SHARE 16

/* The sums of a cluster. */
static inline int64_t *
cluster_sums(const GkCpuEngine *engine, int64_t cluster)
{
	return (int64_t *) engine->sums.base + cluster * engine->sum_stride;
}

/* The second limbs of the sums of a cluster; NULL if there are none. */
static inline const int64_t *
cluster_lows(const GkCpuEngine *engine, int64_t cluster)
{
	int64_t		lows = engine->d + 1;

	return engine->sum_stride > lows ? cluster_sums(engine, cluster) + lows : NULL;
}

/* How centroids are made of the sums. */
static GkUpdate
describe_update(const GkCpuEngine *engine)
{
	return (GkUpdate) {
		.dimension = engine->d,.spherical = engine->spherical,
		.grid = {
			.wide = engine->wide,.rest_bits = engine->wide ? engine->rest_bits : 0,
			.exponents = engine->exponents.base,.origin = engine->grid_origin.base
		}
	};
}

/* The weight of a cluster. */
double
gk_cpu_cluster_weight(const GkCpuEngine *engine, int64_t cluster)
{
	GkUpdate	update = describe_update(engine);

	return gk_update_value(&update, cluster_sums(engine, cluster), cluster_lows(engine, cluster),
						   engine->d);
}

/* How many threads there are rows for, each of which may have sums of its own. */
static int
summing_threads(const GkCpuEngine *engine)
{
	return gk_cpu_workers(engine, gk_cpu_block_count(engine));
}

/* Sets the sums of some clusters to 0, those of every worker too. */
static void
clear_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	int64_t		stride = engine->sum_stride;
	int64_t    *partial = engine->partial_sums.base;
	int			threads = summing_threads(engine);

	(void) context;
	(void) worker;
	memset(cluster_sums(engine, from), 0, (to - from) * stride * sizeof(int64_t));
	for (int i = 0; partial != NULL && i < threads; i++)
		memset(partial + (i * engine->k + from) * stride, 0,
			   (to - from) * stride * sizeof(int64_t));
}

/* Gets memory for the sums of k centroids, with both limbs if wide, and sets them to 0. */
bool
gk_cpu_sums_prepare(GkCpuEngine *engine, bool wide)
{
	double		all;
	double		share = (double) engine->features.bytes / PARTIAL_SHARE;
	int			threads = summing_threads(engine);

	engine->sum_stride = ((int64_t) engine->d + 1) * (wide ? 2 : 1);
	all = (double) engine->k * engine->sum_stride * sizeof(int64_t) * threads;
	if (!gk_cpu_array_need(engine, &engine->sums, engine->k, engine->sum_stride * sizeof(int64_t)))
		return false;
	if (all > PARTIAL_BYTES && all > share)
		gk_cpu_array_free(engine, &engine->partial_sums);
	else if (!gk_cpu_array_need(engine, &engine->partial_sums, engine->k * threads,
								engine->sum_stride * sizeof(int64_t)))
		return false;
	return gk_cpu_for_each(engine, engine->k, 4.0 * engine->sum_stride, clear_chunk, NULL);
}

/* Takes the lock of a cluster's sums. */
static void
lock(GkCpuEngine *engine, int64_t cluster)
{
	atomic_flag *flag = &engine->locks[cluster % GK_SUM_LOCKS];

	while (atomic_flag_test_and_set_explicit(flag, memory_order_acquire))
		sched_yield();
}

/* Gives the lock of a cluster's sums back. */
static void
unlock(GkCpuEngine *engine, int64_t cluster)
{
	atomic_flag_clear_explicit(&engine->locks[cluster % GK_SUM_LOCKS], memory_order_release);
}

/* Moves a row from the sums of one cluster (-1: none) to those of another. */
void
gk_cpu_sums_add_row(GkCpuEngine *engine, int worker, int64_t row, int64_t from, int64_t to)
{
	const float *x = gk_cpu_block(engine, row / GK_BLOCK) + row % GK_BLOCK;
	double		weight = gk_cpu_weight(engine, row);
	int64_t		stride = engine->sum_stride;
	int64_t    *partial = engine->partial_sums.base;

	if (partial != NULL)
	{
		partial += worker * engine->k * stride;
		engine->kernels->move(&engine->quantizer, x, weight,
							  from >= 0 ? partial + from * stride : NULL, partial + to * stride);
		return;
	}
	if (from >= 0)
	{
		lock(engine, from);
		engine->kernels->move(&engine->quantizer, x, weight, cluster_sums(engine, from), NULL);
		unlock(engine, from);
	}
	lock(engine, to);
	engine->kernels->move(&engine->quantizer, x, weight, NULL, cluster_sums(engine, to));
	unlock(engine, to);
}

/* Adds the rows of blocks from .. to - 1 to the sums of their labels' clusters. */
void
gk_cpu_sums_add_blocks(GkCpuEngine *engine, int worker, int64_t from, int64_t to)
{
	const double *weights = engine->weighted ? engine->weights.base : NULL;
	int64_t    *partial = engine->partial_sums.base;

	for (int64_t b = from; b < to; b++)
	{
		int64_t		first = b * GK_BLOCK;
		int			rows = gk_cpu_block_rows(engine, b);

		if (partial != NULL)
			engine->kernels->add_block(&engine->quantizer, gk_cpu_block(engine, b),
									   weights == NULL ? NULL : weights + first,
									   gk_cpu_labels(engine) + first, rows, engine->sum_stride,
									   partial + worker * engine->k * engine->sum_stride);
		for (int64_t row = first; partial == NULL && row < first + rows; row++)
			gk_cpu_sums_add_row(engine, worker, row, -1, gk_cpu_labels(engine)[row]);
	}
}

/* Adds the workers' sums of some clusters to the sums, and sets them to 0. */
static void
merge_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	int64_t		stride = engine->sum_stride;
	int64_t		count = (to - from) * stride;
	int			threads = summing_threads(engine);

	(void) context;
	(void) worker;
	for (int i = 0; i < threads; i++)
	{
		int64_t    *partial = (int64_t *) engine->partial_sums.base +
			(i * engine->k + from) * stride;

		engine->kernels->add(cluster_sums(engine, from), partial, count);
		memset(partial, 0, count * sizeof(int64_t));
	}
}

/* Adds the threads' sums to the sums. */
bool
gk_cpu_sums_merge(GkCpuEngine *engine)
{
	if (engine->partial_sums.base == NULL)
		return !gk_cpu_stopped(engine);
	return gk_cpu_for_each(engine, engine->k, 4.0 * engine->sum_stride * summing_threads(engine),
						   merge_chunk, NULL);
}

/* Copies the sums of some clusters to the caller, and sets them to 0. */
static void
give_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	int64_t		width = engine->d + 1;
	int64_t    *highs = context;
	int64_t    *lows = highs + engine->k * width;

	(void) worker;
	for (int64_t c = from; c < to; c++)
	{
		memcpy(highs + c * width, cluster_sums(engine, c), width * sizeof(int64_t));
		if (cluster_lows(engine, c) != NULL)
			memcpy(lows + c * width, cluster_lows(engine, c), width * sizeof(int64_t));
		memset(cluster_sums(engine, c), 0, engine->sum_stride * sizeof(int64_t));
	}
}

/* Gives the sums to the caller, as GK_STEP says; false if the engine is closing. */
bool
gk_cpu_sums_give(GkCpuEngine *engine, int64_t *sums)
{
	return gk_cpu_for_each(engine, engine->k, 8.0 * engine->sum_stride, give_chunk, sums);
}

/* The squares under way. */
typedef struct Squares
{
	GkQuantizer quantizer;
	int64_t    *own;			/* 4 × sum_stride for each worker; NULL: not used */
} Squares;

/* Adds a worker's sums of a row to those of its cluster, and sets them to 0. */
static void
give_row(GkCpuEngine *engine, int64_t *own, int64_t cluster)
{
	lock(engine, cluster);
	engine->kernels->add(cluster_sums(engine, cluster), own, engine->sum_stride);
	unlock(engine, cluster);
	memset(own, 0, engine->sum_stride * sizeof(int64_t));
}

/* Adds the squares of up to four rows to the sums of their labels' clusters. */
static void
add_squares(GkCpuEngine *engine, const Squares *squares, int worker, int64_t row, int rows)
{
	const int32_t *labels = gk_cpu_labels(engine) + row;
	const double *weights = engine->weighted ? (double *) engine->weights.base + row : NULL;
	int64_t		stride = engine->sum_stride;
	int64_t    *partial = (int64_t *) engine->partial_sums.base + worker * engine->k * stride;
	const double *centroids[4];
	int64_t    *sums[4];

	for (int i = 0; i < rows; i++)
	{
		centroids[i] = (double *) engine->centroids.base + (int64_t) labels[i] * engine->d;
		sums[i] = squares->own != NULL ? squares->own + (worker * 4 + i) * stride
			: partial + labels[i] * stride;
	}
	engine->kernels->add_squares(&squares->quantizer,
								 gk_cpu_block(engine, row / GK_BLOCK) + row % GK_BLOCK, weights,
								 centroids, rows, sums);
	for (int i = 0; squares->own != NULL && i < rows; i++)
		give_row(engine, sums[i], labels[i]);
}

/* Adds the squares of the rows of some blocks. */
static void
squares_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b++)
	{
		int			rows = gk_cpu_block_rows(engine, b);

		for (int row = 0; row < rows; row += 4)
			add_squares(engine, context, worker, b * GK_BLOCK + row,
						rows - row < 4 ? rows - row : 4);
	}
}

/* How the squares become integers, and memory for the sums; false if it is short. */
static bool
prepare_squares(GkCpuEngine *engine, const GkCommand *command, Squares *squares)
{
	int64_t		own = summing_threads(engine) * 8 * ((int64_t) engine->d + 1);
	double	   *scales;

	if (!gk_cpu_sums_prepare(engine, true) ||
		!gk_cpu_array_need(engine, &engine->scratch, own + engine->d + 1, sizeof(int64_t)))
		return false;
	if (engine->partial_sums.base == NULL)
		squares->own = memset(engine->scratch.base, 0, own * sizeof(int64_t));
	scales = (double *) engine->scratch.base + own;
	for (int j = 0; j <= engine->d; j++)
		scales[j] = gk_power_of_two(command->squares.exponents[j]);
	squares->quantizer = (GkQuantizer) {
		.d = engine->d,.wide = true,.scales = scales,
		.rest_scale = gk_power_of_two(command->squares.rest_bits)
	};
	return true;
}

/* The squares of the rows to their centroids, added up by cluster and feature. */
void
gk_cpu_run_squares(GkCpuEngine *engine, GkCommand *command)
{
	Squares		squares = {.own = NULL};

	engine->sums_valid = false;
	if (prepare_squares(engine, command, &squares) &&
		gk_cpu_for_each(engine, gk_cpu_block_count(engine), 12.0 * GK_BLOCK * engine->d,
						squares_chunk, &squares) &&
		gk_cpu_sums_merge(engine))
		(void) gk_cpu_sums_give(engine, command->squares.sums);
}

/* Makes new centroids of some clusters, and notes how far they moved. */
static void
update_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const GkUpdate *update = context;
	double	   *mean = (double *) engine->scratch.base + (int64_t) worker * engine->d;
	double	   *centroids = engine->centroids.base;
	double	   *shifts = engine->shifts.base;

	for (int64_t c = from; c < to && !gk_cpu_stopped(engine); c++)
		shifts[c] = gk_update_centroid(update, cluster_sums(engine, c), cluster_lows(engine, c),
									   mean, centroids + c * engine->d, &shifts[engine->k + c]);
}

/* Replaces some centroids, and notes how far they moved. */
static void
move_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const double *fresh = context;
	double	   *centroids = engine->centroids.base;
	double	   *shifts = engine->shifts.base;

	(void) worker;
	for (int64_t c = from; c < to && !gk_cpu_stopped(engine); c++)
	{
		double		shift = 0.0;

		for (int64_t i = c * engine->d; i < (c + 1) * engine->d; i++)
		{
			double		step = fresh[i] - centroids[i];

			shift += step * step;
			centroids[i] = fresh[i];
		}
		shifts[c] = shift;
	}
}

/*
 * Moves the centroids by a function, and brings the bounds of the rows up to date: those of a
 * second movement since the last labels are void.  False if memory is short or the engine is
 * closing.
 */
static bool
move_centroids(GkCpuEngine *engine, double work, GkChunkFunction function, void *context)
{
	const double *shifts;
	float	   *deltas;

	if (!gk_cpu_array_need(engine, &engine->scratch, gk_cpu_workers(engine, engine->k),
						   engine->d * sizeof(double)) ||
		!gk_cpu_array_need(engine, &engine->shifts, engine->k, 2 * sizeof(double)) ||
		!gk_cpu_array_need(engine, &engine->deltas, engine->k, sizeof(float)) ||
		!gk_cpu_for_each(engine, engine->k, work, function, context))
		return false;
	shifts = engine->shifts.base;
	deltas = engine->deltas.base;
	for (int64_t c = 0; c < engine->k; c++)
		deltas[c] = (float) (sqrt(shifts[c]) * engine->packed.filter.scale * (1.0 + 0x1p-20)) +
			(shifts[c] > 0.0 ? 0x1p-100f : 0.0f);
	if (engine->moved && engine->per_row_state == GK_PER_ROW_BOUNDS)
		engine->per_row_state = GK_PER_ROW_NOTHING;
	engine->moved = true;
	engine->packed_valid = false;
	return true;
}

/* Makes new centroids of the sums; false if memory is short or the engine is closing. */
bool
gk_cpu_centroids_update(GkCpuEngine *engine, double *shift2, double *between)
{
	GkUpdate	update = describe_update(engine);

	if (!move_centroids(engine, 40.0 * engine->d, update_chunk, &update))
		return false;
	*shift2 = gk_ordered_sum(engine->shifts.base, engine->k);
	*between = gk_ordered_sum((double *) engine->shifts.base + engine->k, engine->k);
	return true;
}

/* Takes new centroids; false if memory is short or the engine is closing. */
bool
gk_cpu_centroids_move(GkCpuEngine *engine, const double *centroids)
{
	return move_centroids(engine, 4.0 * engine->d, move_chunk, (void *) centroids);
}
