/*
 * What seeding asks of the CPU engine.
 */
#include <math.h>
#include <string.h>

#include "state.h"
#include "exact.h"

/* Reaches are found if the earlier candidates are at most this share of the rows. */
#define REACH_SHARE 64

/* Candidates so few that their d² cost less than a filter would: one in place, or that of tiles. */
#define VERY_FEW_CANDIDATES 3
#define FEW_CANDIDATES 8

/* A few candidates, and what was found on the way. */
typedef struct FewCandidates
{
	const GkCommand *command;
	pthread_mutex_t mutex;
	double		greatest;		/* weight × d² */
} FewCandidates;

/* Compares a block with a few candidates, by the definition. */
static void
compare_with_few(GkCpuEngine *engine, const GkCommand *command, int64_t block)
{
	double	   *old = gk_cpu_distance2(engine) + block * GK_BLOCK;
	int32_t    *labels = gk_cpu_labels(engine) + block * GK_BLOCK;
	double		fresh[GK_CENTROIDS_AT_ONCE * GK_BLOCK];

	for (int64_t c = 0; c < command->candidates.count; c += GK_CENTROIDS_AT_ONCE)
	{
		int64_t		left = command->candidates.count - c;
		int			count = left < GK_CENTROIDS_AT_ONCE ? (int) left : GK_CENTROIDS_AT_ONCE;

		engine->kernels->distances(gk_cpu_block(engine, block), engine->d,
								   command->candidates.candidates + c * engine->d, count, fresh);
		for (int i = 0; i < count; i++)
			engine->kernels->take_nearer(fresh + i * GK_BLOCK,
										 (int32_t) (command->candidates.first_label + c + i),
										 old, labels);
	}
	gk_cpu_pad_labels(engine, block);
}

/* Compares blocks with a few candidates. */
static void
few_candidates_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	FewCandidates *few = context;
	double		greatest[GK_BLOCK] = {0};

	(void) worker;
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b++)
	{
		const double *distance2 = gk_cpu_distance2(engine) + b * GK_BLOCK;
		int			rows = gk_cpu_block_rows(engine, b);

		compare_with_few(engine, few->command, b);
		for (int i = 0; i < rows; i++)
		{
			double		mass = gk_cpu_weight(engine, b * GK_BLOCK + i) * distance2[i];

			greatest[i] = mass > greatest[i] ? mass : greatest[i];
		}
	}
	pthread_mutex_lock(&few->mutex);
	for (int i = 0; i < GK_BLOCK; i++)
		few->greatest = greatest[i] > few->greatest ? greatest[i] : few->greatest;
	pthread_mutex_unlock(&few->mutex);
}

/*
 * Finds how near rows must be to each earlier candidate so that no new one is nearer: half its
 * distance to the nearest of these, less what d² may be rounded by.
 */
static void
reaches_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const GkCommand *command = context;
	double	   *reaches = engine->reaches.base;

	(void) worker;
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b++)
	{
		const float *block = (float *) engine->earlier.base + b * GK_BLOCK * engine->d;
		double		least[GK_BLOCK];
		double		fresh[GK_CENTROIDS_AT_ONCE * GK_BLOCK];

		for (int i = 0; i < GK_BLOCK; i++)
			least[i] = INFINITY;
		for (int64_t c = 0; c < command->candidates.count; c += GK_CENTROIDS_AT_ONCE)
		{
			int64_t		left = command->candidates.count - c;
			int			count = left < GK_CENTROIDS_AT_ONCE ? (int) left : GK_CENTROIDS_AT_ONCE;

			engine->kernels->distances(block, engine->d,
									   command->candidates.candidates + c * engine->d, count,
									   fresh);
			for (int i = 0; i < count * GK_BLOCK; i++)
				if (fresh[i] < least[i % GK_BLOCK])
					least[i % GK_BLOCK] = fresh[i];
		}
		for (int i = 0; i < GK_BLOCK; i++)
			reaches[b * GK_BLOCK + i] = least[i] / 4 * (1 - 1e-10);
	}
}

/* The reaches of the earlier candidates; NULL if they are not known, or too many to pay. */
static const double *
find_reaches(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		first = command->candidates.first_label;
	int64_t		blocks = (first + GK_BLOCK - 1) / GK_BLOCK;

	if (first == 0 || engine->earlier_count != first ||
		(first > engine->n / REACH_SHARE && !engine->regions_always))
		return NULL;
	if (!gk_cpu_array_need(engine, &engine->reaches, blocks * GK_BLOCK, sizeof(double)) ||
		!gk_cpu_for_each(engine, blocks, 64.0 * engine->d * command->candidates.count / 8,
						 reaches_chunk, command))
		return NULL;
	return engine->reaches.base;
}

/* Keeps candidates for the next time, if they are floats, as rows are. */
static bool
keep_candidates(GkCpuEngine *engine, const GkCommand *command)
{
	int64_t		first = command->candidates.first_label;
	int64_t		total = first + command->candidates.count;
	const double *value = command->candidates.candidates;
	bool		exact = true;
	float	   *blocks;

	if (first > 0 && engine->earlier_count != first)
		return true;
	if (!gk_cpu_array_grow(engine, &engine->earlier, (total + GK_BLOCK - 1) / GK_BLOCK,
						   GK_BLOCK * engine->d * sizeof(float)))
		return false;
	blocks = engine->earlier.base;
	engine->earlier_count = -1;
	for (int64_t c = first; c < total; c++)
	{
		if (gk_cpu_stopped(engine))
			return false;
		for (int j = 0; j < engine->d; j++, value++)
		{
			float		x = (float) *value;

			blocks[(c / GK_BLOCK * engine->d + j) * GK_BLOCK + c % GK_BLOCK] = x;
			exact = exact && x == *value;
		}
	}
	if (exact)
		engine->earlier_count = total;
	return true;
}

/* True if all d² of so many candidates cost less than the filter. */
static bool
are_few(const GkCpuEngine *engine, int64_t candidates)
{
	return candidates <=
		(engine->kernels->direct != NULL ? VERY_FEW_CANDIDATES : FEW_CANDIDATES);
}

/* Adds candidates: label and d² of each row to the nearest so far; the first of equals wins. */
void
gk_cpu_run_candidates(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		blocks = gk_cpu_block_count(engine);
	GkAssignment assignment = {
		.packed = &engine->packed,.exact = true,.keep_nearer = true,
		.first_label = command->candidates.first_label
	};
	FewCandidates few = {.command = command,.mutex = PTHREAD_MUTEX_INITIALIZER};

	command->candidates.greatest = 0.0;
	engine->sums_valid = false;
	engine->packed_valid = false;
	engine->per_row_state = GK_PER_ROW_NOTHING;
	if (!gk_cpu_array_need(engine, &engine->per_row, gk_cpu_padded_rows(engine), sizeof(double)))
		return;
	engine->no_labels = false;
	if (are_few(engine, command->candidates.count))
	{
		if (!gk_cpu_for_each(engine, blocks, 64.0 * engine->d * command->candidates.count / 8,
							 few_candidates_chunk, &few))
			return;
		assignment.greatest_mass = few.greatest;
	}
	else
	{
		if (command->candidates.count > FEW_CANDIDATES)
			assignment.reaches = find_reaches(engine, command);
		if (engine->status.code != GK_OK || gk_cpu_stopped(engine) ||
			!gk_cpu_pack(engine, &engine->packed, command->candidates.candidates,
						 command->candidates.count, false) ||
			!gk_cpu_regions_pack(engine, &engine->packed, false) ||
			!gk_cpu_assign_rows(engine, &assignment))
			return;
	}
	if (!keep_candidates(engine, command))
		return;
	engine->per_row_state = GK_PER_ROW_DISTANCE2;
	command->candidates.greatest = assignment.greatest_mass;
}

/* Adds blocks to the potential of each trial. */
static void
potentials_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	GkCommand  *command = context;
	double		scale = gk_power_of_two(command->potentials.exponent);
	int64_t		sums[64] = {0};

	(void) worker;
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b++)
	{
		const double *old = gk_cpu_distance2(engine) + b * GK_BLOCK;
		int			rows = gk_cpu_block_rows(engine, b);
		double		fresh[GK_CENTROIDS_AT_ONCE * GK_BLOCK];

		for (int t = 0; t < command->potentials.count; t += GK_CENTROIDS_AT_ONCE)
		{
			int			left = command->potentials.count - t;
			int			count = left < GK_CENTROIDS_AT_ONCE ? left : GK_CENTROIDS_AT_ONCE;

			engine->kernels->distances(gk_cpu_block(engine, b), engine->d,
									   command->potentials.trials + (int64_t) t * engine->d,
									   count, fresh);
			for (int i = 0; i < count; i++)
				for (int r = 0; r < rows; r++)
				{
					double		d2 = fresh[i * GK_BLOCK + r];

					if (!(d2 < old[r]))
						d2 = old[r];
					sums[t + i] += gk_quantize(gk_cpu_weight(engine, b * GK_BLOCK + r) * d2, scale);
				}
		}
	}
	for (int t = 0; t < command->potentials.count; t++)
		__atomic_fetch_add(&command->potentials.potentials[t], sums[t], __ATOMIC_RELAXED);
}

/* What the sum of weight × d² would be with each trial as one more centroid. */
void
gk_cpu_run_potentials(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		blocks = gk_cpu_block_count(engine);

	if (!gk_cpu_need_distances(engine))
		return;
	memset(command->potentials.potentials, 0, command->potentials.count * sizeof(int64_t));
	gk_cpu_for_each(engine, blocks, 64.0 * engine->d * command->potentials.count / 8,
					potentials_chunk, command);
}

/* Hashes the rows of some blocks. */
static void
hash_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	uint64_t   *hashes = engine->hashes.base;
	const double *weights = engine->weights.base;

	(void) context;
	(void) worker;
	for (int64_t b = from; b < to && !gk_cpu_stopped(engine); b++)
	{
		uint64_t	terms[GK_BLOCK];
		int			rows = gk_cpu_block_rows(engine, b);

		engine->kernels->hash(gk_cpu_block(engine, b), engine->d, terms);
		for (int r = 0; r < rows; r++)
		{
			uint64_t	weight_bits = 0;

			if (engine->weighted)
				memcpy(&weight_bits, weights + b * GK_BLOCK + r, sizeof(double));
			hashes[b * GK_BLOCK + r] = gk_hash_finish(terms[r], weight_bits);
		}
	}
}

/* Computes the hashes of all rows, unless they are known. */
static bool
need_hashes(GkCpuEngine *engine)
{
	int64_t		blocks = gk_cpu_block_count(engine);

	if (engine->hashes_valid)
		return true;
	if (!gk_cpu_array_need(engine, &engine->hashes, gk_cpu_padded_rows(engine), sizeof(uint64_t)))
		return false;
	engine->hashes_valid = gk_cpu_for_each(engine, blocks, 16.0 * engine->d, hash_chunk, NULL);
	return engine->hashes_valid;
}

/* The quantised mass of a row. */
static inline int64_t
mass_of(const GkCpuEngine *engine, int64_t row, GkMass mass, double scale)
{
	double		value = gk_cpu_weight(engine, row);

	if (mass == GK_MASS_DISTANCE)
		value = value * gk_cpu_distance2(engine)[row];
	return gk_quantize(value, scale);
}

/* Adds rows to the buckets of a worker. */
static void
masses_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const GkCommand *command = context;
	int			bits = command->masses.bits;
	int64_t    *buckets = (int64_t *) engine->scratch.base + ((int64_t) worker << bits);
	const uint64_t *hashes = engine->hashes.base;
	double		scale = gk_power_of_two(command->masses.exponent);

	for (int64_t row = from; row < to; row++)
		buckets[gk_hash_bucket(hashes[row], bits)] +=
			mass_of(engine, row, command->masses.mass, scale);
}

/* The mass of the rows, by buckets of their hashes. */
void
gk_cpu_run_masses(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		count = INT64_C(1) << command->masses.bits;
	int			workers = gk_cpu_partial_workers(engine, count * sizeof(int64_t));

	if (command->masses.mass == GK_MASS_DISTANCE && !gk_cpu_need_distances(engine))
		return;
	if (!need_hashes(engine) ||
		!gk_cpu_array_need(engine, &engine->scratch, workers, count * sizeof(int64_t)))
		return;
	memset(engine->scratch.base, 0, workers * count * sizeof(int64_t));
	if (!gk_cpu_parallel(engine, engine->n, 65536, workers, masses_chunk, command))
		return;
	memset(command->masses.buckets, 0, count * sizeof(int64_t));
	for (int w = 0; w < workers; w++)
		engine->kernels->add(command->masses.buckets,
							 (int64_t *) engine->scratch.base + w * count, count);
}

/* Lists the rows with mass in the wanted buckets, until the list is full. */
void
gk_cpu_run_entries(GkCpuEngine *engine, GkCommand *command)
{
	double		scale = gk_power_of_two(command->entries.exponent);
	const uint64_t *hashes;
	int64_t		row;

	command->entries.count = 0;
	command->entries.next = engine->n;
	if (command->entries.mass == GK_MASS_DISTANCE && !gk_cpu_need_distances(engine))
		return;
	if (!need_hashes(engine))
		return;
	hashes = engine->hashes.base;
	for (row = command->entries.from; row < engine->n; row++)
	{
		int64_t		mass;

		if (row % 65536 == 0 && gk_cpu_stopped(engine))
			return;
		if (!command->entries.wanted[gk_hash_bucket(hashes[row], command->entries.bits)])
			continue;
		mass = mass_of(engine, row, command->entries.mass, scale);
		if (mass <= 0)
			continue;
		if (command->entries.count == command->entries.capacity)
			break;
		command->entries.entries[command->entries.count++] = (GkEntry) {
			.row = row,.hash = hashes[row],.mass = mass,.distance2 = 0.0
		};
	}
	command->entries.next = row;
}

/* Leaves the draw to the caller: here, commands and what lies between them cost little. */
void
gk_cpu_run_draw(GkCpuEngine *engine, GkCommand *command)
{
	(void) engine;
	command->draw.found = -1;
	command->draw.total = 0;
}

/* Adds rows to a worker's weights of the labels. */
static void
label_weights_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const GkCommand *command = context;
	GkSum	   *sums = (GkSum *) engine->scratch.base + worker * command->label_weights.count;
	double		scale = ((const double *) engine->scales.base)[engine->d];
	double		rest_scale = gk_power_of_two(engine->rest_bits);

	for (int64_t row = from; row < to; row++)
	{
		GkSum	   *sum = &sums[gk_cpu_labels(engine)[row]];
		double		weight = gk_cpu_weight(engine, row);

		sum->high += gk_quantize(weight, scale);
		if (engine->wide)
			sum->low += gk_quantize_rest(weight, scale, rest_scale);
	}
}

/* The weight of the rows of each label, on the grid of the weights. */
void
gk_cpu_run_label_weights(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		count = command->label_weights.count;
	int			workers = gk_cpu_partial_workers(engine, count * sizeof(GkSum));

	if (!gk_cpu_array_need(engine, &engine->scratch, workers, count * sizeof(GkSum)))
		return;
	memset(engine->scratch.base, 0, workers * count * sizeof(GkSum));
	if (!gk_cpu_parallel(engine, engine->n, 65536, workers, label_weights_chunk, command))
		return;
	memset(command->label_weights.weights, 0, count * sizeof(GkSum));
	for (int w = 0; w < workers; w++)
		engine->kernels->add((int64_t *) command->label_weights.weights,
							 (int64_t *) engine->scratch.base + w * count * 2, count * 2);
}
