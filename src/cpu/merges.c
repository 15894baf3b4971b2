/*
 * Which of many clusters become one, on the CPU engine: rounds of unions (merges.h).
 */
#include <math.h>
#include <string.h>

#include "merges.h"
#include "state.h"

/* The clusters of a command, in memory of their own. */
typedef struct Merger
{
	const GkCommand *command;
	GkArray		memory;
	int			d;
	int64_t		count;
	float	   *means;			/* count × d */
	double	   *weights;
	uint64_t   *lists;			/* count × GK_NEIGHBOUR_COUNT: keys of unions, the least first */
	uint64_t   *best;			/* the first union that a cluster can have */
	int32_t    *parts;			/* which cluster became a part of each in this round; -1 = none */
	uint32_t	bins[GK_COST_BINS];	/* unions so far, by their cost */
	int64_t		found;			/* unions so far */
	uint32_t	limit;			/* the bits of the greatest cost that counts */
	int64_t		able;			/* clusters that have a union in this round */
	int			round;
	GkCoarseness coarseness;	/* of this round */
} Merger;

/* Lays the arrays of a merger out, or measures them if there is no memory yet. */
static size_t
lay_out(Merger *merger)
{
	char	   *base = merger->memory.base;
	size_t		used = 0;
	size_t		count = (size_t) merger->count;

#define TAKE(array, number) \
	(merger->array = base == NULL ? NULL : (void *) (base + used), \
	 used += (number) * sizeof(*merger->array))
	TAKE(lists, count * GK_NEIGHBOUR_COUNT);
	TAKE(best, count);
	TAKE(weights, count);
	TAKE(parts, count);
	TAKE(means, count * merger->d);
#undef TAKE
	return used;
}

/* The list of a cluster. */
static uint64_t *
list_of(const Merger *merger, int64_t c)
{
	return merger->lists + c * GK_NEIGHBOUR_COUNT;
}

/* The mean of a cluster. */
static float *
mean_of(const Merger *merger, int64_t c)
{
	return merger->means + c * merger->d;
}

/* True unless a cluster has become a part of another one. */
static bool
is_left(const Merger *merger, int64_t c)
{
	return merger->command->merge.into[c] < 0;
}

/* Makes keys of unions out of those of neighbours, for some clusters. */
static void
price_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Merger *merger = context;

	(void) worker;
	for (int64_t c = from; c < to && !gk_cpu_stopped(engine); c++)
	{
		uint64_t	neighbours[GK_NEIGHBOUR_COUNT];

		memcpy(neighbours, list_of(merger, c), sizeof(neighbours));
		memset(list_of(merger, c), 0xff, sizeof(neighbours));
		for (int i = 0; i < GK_NEIGHBOUR_COUNT && neighbours[i] != GK_NO_NEIGHBOUR; i++)
		{
			int32_t		other = gk_neighbour_number(neighbours[i], c);
			float		cost = gk_union_cost(merger->weights[c], merger->weights[other],
											 gk_neighbour_distance(neighbours[i]));

			gk_offer_union(list_of(merger, c), gk_union_key(cost, other));
		}
	}
}

/* A union of a cluster as others see it; none if it is too dear. */
static uint64_t
key_of_cluster(const Merger *merger, int64_t c, uint64_t key)
{
	uint32_t	bits = gk_union_cost_bits(key);

	return bits > merger->limit ? GK_NO_NEIGHBOUR
		: gk_round_key(bits, (int32_t) c, merger->coarseness.bits, merger->round);
}

/* Finds the first union that each cluster can have, of those that any cluster lists. */
static void
find_best(GkCpuEngine *engine, Merger *merger)
{
	uint64_t   *best = merger->best;

	memset(best, 0xff, merger->count * sizeof(uint64_t));
	memset(merger->parts, 0xff, merger->count * sizeof(int32_t));
	merger->able = 0;
	for (int64_t c = 0; c < merger->count && !gk_cpu_stopped(engine); c++)
	{
		const uint64_t *list = list_of(merger, c);
		uint64_t	key = key_of_cluster(merger, c, list[0]);

		if (!is_left(merger, c))
			continue;
		best[c] = key < best[c] ? key : best[c];
		merger->able += key != GK_NO_NEIGHBOUR;
		for (int i = 0; i < GK_NEIGHBOUR_COUNT && key != GK_NO_NEIGHBOUR; i++)
		{
			int32_t		other = gk_union_number(list[i]);

			best[other] = key < best[other] ? key : best[other];
			key = i + 1 < GK_NEIGHBOUR_COUNT ? key_of_cluster(merger, c, list[i + 1]) : key;
		}
	}
}

/* Divides a mean by its norm. */
static void
normalise(float *mean, int d)
{
	float		lanes[GK_MERGE_LANES] = {0};
	float		norm;

	for (int j = 0; j < d; j++)
		lanes[j % GK_MERGE_LANES] = gk_add_square_float(lanes[j % GK_MERGE_LANES], mean[j], 0.0f);
	norm = sqrtf(gk_sum_merge_lanes(lanes));
	for (int j = 0; norm > 0.0f && j < d; j++)
		mean[j] /= norm;
}

/* Makes a cluster a part of another one. */
static void
unite(Merger *merger, int32_t to, int32_t from, uint32_t cost_bits)
{
	const GkCommand *c = merger->command;
	float		share = gk_merge_share(merger->weights[to], merger->weights[from]);
	float	   *mean = mean_of(merger, to);
	const float *other = mean_of(merger, from);

	for (int j = 0; j < merger->d; j++)
		mean[j] = gk_merge_mean(mean[j], other[j], share);
	if (c->merge.spherical)
		normalise(mean, merger->d);
	merger->weights[to] += merger->weights[from];
	merger->parts[to] = from;
	merger->bins[cost_bits >> GK_COST_SHIFT]++;
	merger->found++;
	c->merge.into[from] = to;
	c->merge.rounds[from] = merger->round;
	memcpy(&c->merge.costs[from], &cost_bits, sizeof(float));
}

/* The union that a cluster would have in this round. */
static uint64_t
choice_of(const Merger *merger, int64_t c)
{
	const uint64_t *list = list_of(merger, c);

	return list[gk_round_choice(list, merger->coarseness.bits, merger->round, merger->limit)];
}

/* Unites the pairs that are each other's best; false if there are none. */
static bool
unite_best(GkCpuEngine *engine, Merger *merger)
{
	int64_t		before = merger->found;

	for (int64_t c = 0; c < merger->count && !gk_cpu_stopped(engine); c++)
	{
		uint64_t	key = key_of_cluster(merger, c, list_of(merger, c)[0]);
		uint64_t	choice;
		int32_t		other;

		if (!is_left(merger, c) || key == GK_NO_NEIGHBOUR || merger->best[c] != key)
			continue;
		choice = choice_of(merger, c);
		other = gk_union_number(choice);
		if (merger->best[other] == key)
			unite(merger, (int32_t) (c < other ? c : other), (int32_t) (c < other ? other : c),
				  gk_union_cost_bits(choice));
	}
	merger->limit = gk_union_limit(merger->bins, merger->command->merge.wanted);
	gk_judge_round(&merger->coarseness, merger->found - before, merger->able);
	merger->round++;
	return merger->found > before;
}

/* Takes the neighbours of a list into that of a cluster, as they are now. */
static void
take_neighbours(const Merger *merger, int64_t c, const uint64_t *from, uint64_t *to)
{
	for (int i = 0; i < GK_NEIGHBOUR_COUNT && from[i] != GK_NO_NEIGHBOUR; i++)
	{
		int32_t		number = gk_union_number(from[i]);
		int32_t		now = is_left(merger, number) ? number
			: merger->command->merge.into[number];
		float		cost;

		if (now == c)
			continue;
		if (now == number && merger->parts[now] < 0 && merger->parts[c] < 0)
		{
			gk_offer_union(to, from[i]);
			continue;
		}
		cost = gk_union_cost(merger->weights[c], merger->weights[now],
							 gk_merge_distance2(mean_of(merger, c), mean_of(merger, now),
												merger->d));
		gk_offer_union(to, gk_union_key(cost, now));
	}
}

/* Brings the lists of some clusters up to date after a round. */
static void
refresh_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Merger *merger = context;

	(void) worker;
	for (int64_t c = from; c < to && !gk_cpu_stopped(engine); c++)
	{
		uint64_t	keys[GK_NEIGHBOUR_COUNT];

		if (!is_left(merger, c))
			continue;
		memset(keys, 0xff, sizeof(keys));
		take_neighbours(merger, c, list_of(merger, c), keys);
		if (merger->parts[c] >= 0)
			take_neighbours(merger, c, list_of(merger, merger->parts[c]), keys);
		memcpy(list_of(merger, c), keys, sizeof(keys));
	}
}

/* Unites clusters, round by round. */
static void
merge_rounds(GkCpuEngine *engine, Merger *merger)
{
	if (!gk_cpu_for_each(engine, merger->count, 100.0, price_chunk, merger))
		return;
	merger->limit = gk_union_limit(merger->bins, merger->command->merge.wanted);
	for (;;)
	{
		find_best(engine, merger);
		if (!unite_best(engine, merger) ||
			!gk_cpu_for_each(engine, merger->count, 8.0 * merger->d, refresh_chunk, merger))
			return;
	}
}

/* GK_MERGE: which clusters become one. */
void
gk_cpu_run_merge(GkCpuEngine *engine, GkCommand *command)
{
	Merger		merger = {.command = command,.d = engine->d,.count = command->merge.count};
	int64_t		count = merger.count;

	memset(command->merge.into, 0xff, count * sizeof(int32_t));
	memset(command->merge.rounds, 0xff, count * sizeof(int32_t));
	memset(command->merge.costs, 0, count * sizeof(float));
	if (!gk_cpu_array_need(engine, &merger.memory, lay_out(&merger), 1))
		return;
	(void) lay_out(&merger);
	memcpy(merger.means, command->merge.points, count * merger.d * sizeof(float));
	memcpy(merger.weights, command->merge.weights, count * sizeof(double));
	if (gk_cpu_list_neighbours(engine, command->merge.points, count, merger.lists))
		merge_rounds(engine, &merger);
	gk_cpu_array_free(engine, &merger.memory);
}
