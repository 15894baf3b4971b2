/*
 * The rows of the CPU engine: storing, ranges, moments, transformation, hashes.
 */
#include <stdlib.h>
#include <string.h>

#include "state.h"
#include "exact.h"

#define BLOCKS_AT_ONCE 16		/* of range and moments */

/* Puts one row into its place. */
static void
put_row(GkCpuEngine *engine, int64_t row, const float *features)
{
	float	   *to = gk_cpu_block(engine, row / GK_BLOCK) + row % GK_BLOCK;

	for (int j = 0; j < engine->d; j++)
		to[j * GK_BLOCK] = features[j];
}

/* Takes a batch of rows. */
GkStatus
gk_cpu_rows_append(GkCpuEngine *engine, const GkBatch *batch)
{
	int64_t		rows = engine->n + batch->rows;
	int64_t		blocks = (rows + GK_BLOCK - 1) / GK_BLOCK;
	int64_t		i = 0;

	engine->status.code = GK_OK;
	if (rows > GK_MAX_ROWS)
		gk_cpu_fail(engine, GK_LIMIT, "append", "too many rows");
	if (engine->status.code != GK_OK ||
		!gk_cpu_array_grow(engine, &engine->features, blocks * GK_BLOCK,
						   engine->d * sizeof(float)) ||
		(engine->weighted && !gk_cpu_array_grow(engine, &engine->weights, rows, sizeof(double))))
		return engine->status;
	if (engine->weighted)
		memcpy((double *) engine->weights.base + engine->n, batch->weights,
			   batch->rows * sizeof(double));
	gk_cpu_array_populate(&engine->features, engine->n * engine->d * sizeof(float),
						  rows * engine->d * sizeof(float));
	while (i < batch->rows)
	{
		int64_t		row = engine->n + i;
		const float *features = batch->features + i * engine->d;

		if (row % GK_BLOCK == 0 && batch->rows - i >= GK_BLOCK)
		{
			engine->kernels->transpose(gk_cpu_block(engine, row / GK_BLOCK), features, engine->d);
			i += GK_BLOCK;
		}
		else
		{
			put_row(engine, row, features);
			i++;
		}
	}
	engine->n = rows;
	return engine->status;
}

/* Fills the last block with copies of the last row. */
static void
pad(GkCpuEngine *engine)
{
	int64_t		last = engine->n - 1;

	for (int64_t row = engine->n; row < gk_cpu_padded_rows(engine); row++)
	{
		float	   *block = gk_cpu_block(engine, row / GK_BLOCK);

		for (int j = 0; j < engine->d; j++)
			block[j * GK_BLOCK + row % GK_BLOCK] = block[j * GK_BLOCK + last % GK_BLOCK];
	}
}

/* Sets the labels of some blocks to "none", those of the padding to 0. */
static void
forget_labels_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	(void) context;
	(void) worker;
	for (int64_t row = from * GK_BLOCK; row < to * GK_BLOCK; row++)
		gk_cpu_labels(engine)[row] = row < engine->n ? -1 : 0;
}

/* Sets all labels to "none"; those of the padding are valid ones. */
void
gk_cpu_forget_labels(GkCpuEngine *engine)
{
	if (!engine->no_labels)
		engine->no_labels = gk_cpu_parallel(engine, gk_cpu_block_count(engine), 4096, 0,
											forget_labels_chunk, NULL);
}

/* Ends the appending: pads the rows, and makes labels for them. */
void
gk_cpu_run_seal(GkCpuEngine *engine, GkCommand *command)
{
	command->seal.rows = engine->n;
	if (engine->n == 0)
		return;
	if (!gk_cpu_array_resize(engine, &engine->features, gk_cpu_padded_rows(engine),
							 engine->d * sizeof(float)) ||
		(engine->weighted &&
		 !gk_cpu_array_resize(engine, &engine->weights, engine->n, sizeof(double))) ||
		!gk_cpu_array_need(engine, &engine->labels, gk_cpu_padded_rows(engine), sizeof(int32_t)))
		return;
	pad(engine);
	engine->no_labels = false;
	gk_cpu_forget_labels(engine);
}

/* The partial results of GK_RANGE: d least and d greatest values for each worker. */
static void
range_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	float	   *least = (float *) context + (size_t) worker * 2 * engine->d;

	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b += BLOCKS_AT_ONCE)
		engine->kernels->range(gk_cpu_block(engine, b),
							   b + BLOCKS_AT_ONCE < to ? BLOCKS_AT_ONCE : to - b,
							   engine->d, least, least + engine->d);
}

/* Range of the weights. */
static void
range_weights(GkCpuEngine *engine, GkCommand *command)
{
	double		least = engine->n > 0 ? gk_cpu_weight(engine, 0) : 1.0;
	double		greatest = least;

	for (int64_t i = 1; engine->weighted && i < engine->n; i++)
	{
		double		weight = gk_cpu_weight(engine, i);

		least = weight < least ? weight : least;
		greatest = weight > greatest ? weight : greatest;
		if (i % 65536 == 0 && gk_cpu_stopped(engine))
			break;
	}
	command->range.least_weight = least;
	command->range.greatest_weight = greatest;
}

/* The least and the greatest value of each feature, and of the weights. */
void
gk_cpu_run_range(GkCpuEngine *engine, GkCommand *command)
{
	int			d = engine->d;
	int			workers = gk_cpu_workers(engine, gk_cpu_block_count(engine));
	float	   *least;

	range_weights(engine, command);
	if (engine->n == 0 ||
		!gk_cpu_array_need(engine, &engine->scratch, workers, 2 * sizeof(float) * d))
		return;
	least = engine->scratch.base;
	for (int w = 0; w < workers; w++)
		for (int j = 0; j < d; j++)
			least[(size_t) w * 2 * d + j] = least[((size_t) w * 2 + 1) * d + j] =
				gk_cpu_block(engine, 0)[j * GK_BLOCK];
	gk_cpu_for_each(engine, gk_cpu_block_count(engine), 16.0 * d, range_chunk, least);
	memcpy(command->range.least, least, d * sizeof(float));
	memcpy(command->range.greatest, least + d, d * sizeof(float));
	for (int w = 1; w < workers; w++)
		for (int j = 0; j < d; j++)
		{
			float		low = least[(size_t) w * 2 * d + j];
			float		high = least[((size_t) w * 2 + 1) * d + j];

			if (low < command->range.least[j])
				command->range.least[j] = low;
			if (high > command->range.greatest[j])
				command->range.greatest[j] = high;
		}
}

typedef struct Moments
{
	GkMomentSums sums;
	int64_t    *all;			/* for each worker d × 6 and the same of the weights: 4 */
	double		weight_scale;
} Moments;

/* Adds a weight to the moments. */
static void
add_weight(const Moments *moments, int64_t *sums, double weight)
{
	sums[0] += gk_quantize(weight, moments->weight_scale);
	sums[1] += gk_quantize_rest(weight, moments->weight_scale, moments->sums.rest_scale);
	if (weight != 0)
	{
		sums[2] += gk_exponent_double(weight);
		sums[3]++;
	}
}

/* Adds the weights of rows from .. to - 1 to the moments. */
static void
add_weights(const GkCpuEngine *engine, const Moments *moments, int64_t from, int64_t to,
			int64_t *sums)
{
	int64_t		one[4] = {0};

	for (int64_t row = from; engine->weighted && row < to; row++)
		add_weight(moments, sums, gk_cpu_weight(engine, row));
	if (engine->weighted)
		return;
	add_weight(moments, one, 1.0);
	for (int i = 0; i < 4; i++)
		sums[i] += one[i] * (to - from);
}

/* Adds blocks to the moments of a worker. */
static void
moments_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Moments *moments = context;
	GkMomentSums sums = moments->sums;
	int64_t		step;

	sums.sums = moments->all + worker * ((int64_t) engine->d * 6 + 4);
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b += step)
	{
		int			rows = gk_cpu_block_rows(engine, b);

		step = 1;
		while (step < BLOCKS_AT_ONCE && b + step < to &&
			   gk_cpu_block_rows(engine, b + step) == rows)
			step++;
		engine->kernels->moments(gk_cpu_block(engine, b), step, rows, engine->d, &sums);
	}
	add_weights(engine, moments, from * GK_BLOCK,
				to * GK_BLOCK < engine->n ? to * GK_BLOCK : engine->n,
				sums.sums + (int64_t) engine->d * 6);
}

/* Sums up the workers' moments. */
static void
finish_moments(GkCpuEngine *engine, GkCommand *command, const int64_t *all, int workers)
{
	int			d = engine->d;
	int64_t		stride = (int64_t) d * 6 + 4;

	memset(command->moments.first, 0, d * sizeof(GkSum));
	memset(command->moments.second, 0, d * sizeof(GkSum));
	memset(command->moments.exponent_sum, 0, (d + 1) * sizeof(int64_t));
	memset(command->moments.nonzero, 0, (d + 1) * sizeof(int64_t));
	memset(&command->moments.weight, 0, sizeof(GkSum));
	for (int w = 0; w < workers; w++)
	{
		const int64_t *sums = all + w * stride;

		for (int j = 0; j < d; j++, sums += 6)
		{
			command->moments.first[j].high += sums[0];
			command->moments.first[j].low += sums[1];
			command->moments.second[j].high += sums[2];
			command->moments.second[j].low += sums[3];
			command->moments.exponent_sum[j] += sums[4];
			command->moments.nonzero[j] += sums[5];
		}
		command->moments.weight.high += sums[0];
		command->moments.weight.low += sums[1];
		command->moments.exponent_sum[d] += sums[2];
		command->moments.nonzero[d] += sums[3];
	}
}

/* Moments of each feature and of the weights, in fixed point. */
void
gk_cpu_run_moments(GkCpuEngine *engine, GkCommand *command)
{
	int			d = engine->d;
	int			workers = gk_cpu_workers(engine, gk_cpu_block_count(engine));
	size_t		sums_bytes = workers * ((size_t) d * 6 + 4) * sizeof(int64_t);
	Moments		moments = {0};
	double	   *scales;

	if (!gk_cpu_array_need(engine, &engine->scratch,
						   sums_bytes + 2 * d * sizeof(double), 1))
		return;
	memset(engine->scratch.base, 0, sums_bytes);
	moments.all = engine->scratch.base;
	scales = (double *) ((char *) engine->scratch.base + sums_bytes);
	for (int j = 0; j < d; j++)
	{
		scales[j] = gk_power_of_two(command->moments.first_exponents[j]);
		scales[d + j] = gk_power_of_two(command->moments.second_exponents[j]);
	}
	moments.weight_scale = gk_power_of_two(command->moments.weight_exponent);
	moments.sums.pivot = command->moments.pivot;
	moments.sums.first_scales = scales;
	moments.sums.second_scales = scales + d;
	moments.sums.rest_scale = gk_power_of_two(command->moments.rest_bits);
	if (gk_cpu_for_each(engine, gk_cpu_block_count(engine), 16.0 * 8 * d, moments_chunk, &moments))
		finish_moments(engine, command, moments.all, workers);
}

/* Transforms some blocks. */
static void
transform_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const GkCommand *command = context;

	(void) worker;
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b++)
		engine->kernels->transform(gk_cpu_block(engine, b), engine->d, command->transform.offset,
								   command->transform.factor, command->transform.normalize);
}

/* Moves and scales the rows in place; what was known of them is void. */
void
gk_cpu_run_transform(GkCpuEngine *engine, GkCommand *command)
{
	engine->hashes_valid = false;
	engine->sums_valid = false;
	engine->per_row_state = GK_PER_ROW_NOTHING;
	gk_cpu_for_each(engine, gk_cpu_block_count(engine), 16.0 * 8 * engine->d, transform_chunk,
					command);
}

/* Copies some rows out. */
void
gk_cpu_run_rows(GkCpuEngine *engine, GkCommand *command)
{
	for (int64_t i = 0; i < command->rows.count && !gk_cpu_stopped(engine); i++)
	{
		int64_t		row = command->rows.rows[i];
		const float *from = gk_cpu_block(engine, row / GK_BLOCK) + row % GK_BLOCK;

		for (int j = 0; j < engine->d; j++)
			command->rows.features[i * engine->d + j] = from[j * GK_BLOCK];
		if (command->rows.weights != NULL)
			command->rows.weights[i] = gk_cpu_weight(engine, row);
		if (command->rows.labels != NULL)
			command->rows.labels[i] = gk_cpu_labels(engine)[row];
	}
}

/* The order of two rows by their bits: features in turn, then the weight. */
int
gk_cpu_compare_rows(const GkCpuEngine *engine, int64_t row, int64_t other)
{
	const float *x = gk_cpu_block(engine, row / GK_BLOCK) + row % GK_BLOCK;
	const float *y = gk_cpu_block(engine, other / GK_BLOCK) + other % GK_BLOCK;
	uint64_t	weights[2] = {0, 0};

	for (int64_t j = 0; j < (int64_t) engine->d * GK_BLOCK; j += GK_BLOCK)
	{
		uint32_t	left;
		uint32_t	right;

		memcpy(&left, x + j, sizeof(float));
		memcpy(&right, y + j, sizeof(float));
		if (left != right)
			return left < right ? -1 : 1;
	}
	if (engine->weighted)
	{
		memcpy(&weights[0], (const double *) engine->weights.base + row, sizeof(double));
		memcpy(&weights[1], (const double *) engine->weights.base + other, sizeof(double));
	}
	return (weights[0] > weights[1]) - (weights[0] < weights[1]);
}

/* Compares some pairs of rows. */
static void
compare_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const GkCommand *command = context;

	(void) worker;
	for (int64_t i = from; i < to && !gk_cpu_stopped(engine); i++)
		command->compare.order[i] = (int8_t)
			gk_cpu_compare_rows(engine, command->compare.rows[i], command->compare.others[i]);
}

/* The order of pairs of rows by their bits. */
void
gk_cpu_run_compare(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		count = command->compare.count;

	gk_cpu_for_each(engine, count, 8.0 * engine->d, compare_chunk, command);
}

/* The hash of one row. */
uint64_t
gk_cpu_row_hash(const GkCpuEngine *engine, int64_t row)
{
	const float *x = gk_cpu_block(engine, row / GK_BLOCK) + row % GK_BLOCK;
	uint64_t	terms = 0;
	uint64_t	weight_bits = 0;

	for (int j = 0; j < engine->d; j += 2)
	{
		uint32_t	pair[2] = {0, 0};

		memcpy(&pair[0], x + j * GK_BLOCK, sizeof(float));
		if (j + 1 < engine->d)
			memcpy(&pair[1], x + (j + 1) * GK_BLOCK, sizeof(float));
		terms += gk_hash_term(pair[0], pair[1], j / 2);
	}
	if (engine->weighted)
		memcpy(&weight_bits, (const double *) engine->weights.base + row, sizeof(double));
	return gk_hash_finish(terms, weight_bits);
}
