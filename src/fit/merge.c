/*
 * Merging the clusters whose union costs least.
 *
 * Few clusters are compared with all others: the two whose union is cheapest become one, again and
 * again.  A merged cluster is dearer to all others than the cheaper of its parts was.  So what was
 * noted before a merge is a lower bound, and is computed again only when it comes first.
 *
 * Of many, the engine finds the unions (GK_MERGE): more than are wanted, and not the cheapest
 * first.  The cheapest of them are those that would be made one after the other.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "exact.h"
#include "merge.h"
#include "merges.h"
#include "nearest.h"

/* Up to so many products of features all centroids are compared with each other. */
#define MERGE_WORK 1e6

/* Features compared between two checks for interrupts. */
#define INTERRUPT_WORK 10000000

/* Floats hold the squares of features with exponents up to so far from 0. */
#define MOST_EXPONENT 30

/* About so many features are looked at to know whether they do. */
#define EXPONENTS 8192

/* The cheapest union of a cluster. */
typedef struct Neighbour
{
	double		cost;			/* of the union … */
	int32		number;			/* -1 = nobody, at infinite cost */
	int32		version;		/* … if that is the neighbour's version, else a lower bound of it */
} Neighbour;

/* A union that the engine has found. */
typedef struct Union
{
	int32		to;
	int32		from;
	int32		round;
	float		cost;			/* of it, or of one that it needs, whichever is greater */
} Union;

typedef struct Merger
{
	GkJob	   *job;
	const float *points;		/* the centroids as floats, until they move */
	double	   *centroids;		/* NULL as long as there are points */
	double	   *weights;
	int64		count;
	int			dimension;
	bool		spherical;
	bool		drawn;			/* the points are as GK_DRAW has given them */
	int64	   *heaviest;		/* see gk_merge_candidates() */
	double	   *first_weights;	/* the weights before all merges, with these */

	/* where all are compared with all */
	int32	   *versions;		/* how often each cluster has merged; -1 = it is gone */
	Neighbour  *nearest;
	int32	   *winners;		/* a tree: the cluster of the cheapest union below; -1 = none */
	int64		leaves;			/* of the tree, a power of two */
	double	   *packed;			/* the centroids, for gk_distances2() */
	double	   *distances2;		/* of one of them to all */
	int64		work;			/* features compared since the last check for interrupts */

	/* where the engine finds the unions */
	Union	   *unions;			/* by round, then by number */
	int64		found;
} Merger;

/* A centroid. */
static double *
centroid_of(const Merger *merger, int64 c)
{
	return merger->centroids + c * merger->dimension;
}

/* Checks for interrupts after enough work. */
static void
count_work(Merger *merger, int64 features)
{
	merger->work += features;
	if (merger->work < INTERRUPT_WORK)
		return;
	merger->work = 0;
	CHECK_FOR_INTERRUPTS();
}

/* What the union of two clusters adds to the inertia. */
static double
union_cost(const Merger *merger, int64 a, int64 b, double distance2)
{
	double		weight = merger->weights[a];
	double		other = merger->weights[b];

	return weight > 0.0 && other > 0.0 ? weight * (other / (weight + other)) * distance2 : 0.0;
}

/* Finds the cheapest union of a cluster among all. */
static void
find_nearest(Merger *merger, int64 c)
{
	Neighbour	least = {.cost = INFINITY,.number = -1,.version = -1};

	gk_distances2(merger->packed, centroid_of(merger, c), merger->dimension, merger->count,
				  merger->distances2);
	count_work(merger, merger->count * merger->dimension);
	for (int64 other = 0; other < merger->count; other++)
	{
		double		cost;

		if (other == c || merger->versions[other] < 0)
			continue;
		cost = union_cost(merger, c, other, merger->distances2[other]);
		/* a cluster that is left has a neighbour, even if a node's weights make all costs NaN */
		if (cost < least.cost || least.number < 0)
			least = (Neighbour) {.cost = cost,.number = (int32) other,
			.version = merger->versions[other]};
	}
	merger->nearest[c] = least;
}

/* Decides between the two below a node of the tree. */
static void
decide_winner(Merger *merger, int64 node)
{
	int32		left = merger->winners[2 * node];
	int32		right = merger->winners[2 * node + 1];

	merger->winners[node] = right < 0 ||
		(left >= 0 && merger->nearest[left].cost <= merger->nearest[right].cost) ? left : right;
}

/* True if a cluster is left that has another one to be united with. */
static bool
has_nearest(const Merger *merger, int64 c)
{
	return c < merger->count && merger->versions[c] >= 0 && merger->nearest[c].number >= 0;
}

/* Brings the tree up to date after the cheapest union of a cluster has changed. */
static void
update_winners(Merger *merger, int64 c)
{
	int64		node = merger->leaves + c;

	merger->winners[node] = has_nearest(merger, c) ? (int32) c : -1;
	for (node /= 2; node > 0; node /= 2)
		decide_winner(merger, node);
}

/* Notes which of all the centroids that two are made of is the heaviest. */
static void
note_heaviest(const Merger *merger, int64 to, int64 from)
{
	int64	   *mine = &merger->heaviest[to];
	int64		other = merger->heaviest[from];

	if (merger->first_weights[other] > merger->first_weights[*mine])
		*mine = other;
}

/* Moves a centroid to the mean of itself and another one. */
static void
move_to_mean(Merger *merger, int64 to, int64 from)
{
	int			d = merger->dimension;
	double	   *weight = &merger->weights[to];
	double		more = merger->weights[from];
	double		share = *weight + more > 0.0 ? more / (*weight + more) : 0.0;
	double	   *centroid = centroid_of(merger, to);
	const double *other = centroid_of(merger, from);
	double		norm2 = 0.0;

	for (int j = 0; j < d; j++)
	{
		centroid[j] += share * (other[j] - centroid[j]);
		norm2 += centroid[j] * centroid[j];
	}
	for (int j = 0; merger->spherical && norm2 > 0.0 && j < d; j++)
		centroid[j] /= sqrt(norm2);
	*weight += more;
}

/* Merges the two clusters whose union is cheapest, or finds out that others may be. */
static bool
merge_two(Merger *merger)
{
	int32		from = merger->winners[1];
	int32		to = merger->nearest[from].number;
	bool		known = merger->nearest[from].version == merger->versions[to];

	if (known)
	{
		move_to_mean(merger, to, from);
		if (merger->heaviest != NULL)
			note_heaviest(merger, to, from);
		merger->versions[from] = -1;
		merger->versions[to]++;
		gk_pack_centroid(merger->packed, merger->dimension, to, centroid_of(merger, to));
		find_nearest(merger, to);
		update_winners(merger, to);
	}
	else
		find_nearest(merger, from);
	update_winners(merger, from);
	return known;
}

/* Compares all centroids with each other. */
static void
compare_all(Merger *merger)
{
	int			d = merger->dimension;
	int64		places = GK_GROUPS(merger->count) * GK_GROUP;

	merger->packed = gk_allocate(places * d, sizeof(double));
	merger->distances2 = gk_allocate(places, sizeof(double));
	merger->nearest = gk_allocate(merger->count, sizeof(Neighbour));
	for (int64 c = 0; c < merger->count; c++)
		gk_pack_centroid(merger->packed, d, c, centroid_of(merger, c));
	gk_pack_rest(merger->packed, d, merger->count);
	for (int64 c = 0; c < merger->count; c++)
		find_nearest(merger, c);
}

/* Builds the tree. */
static void
find_winners(Merger *merger)
{
	merger->leaves = 1;
	while (merger->leaves < merger->count)
		merger->leaves *= 2;
	merger->winners = gk_allocate(2 * merger->leaves, sizeof(int32));
	for (int64 c = 0; c < merger->leaves; c++)
		merger->winners[merger->leaves + c] = has_nearest(merger, c) ? (int32) c : -1;
	for (int64 node = merger->leaves - 1; node > 0; node--)
		decide_winner(merger, node);
}

/* Merges until few enough stay, one union after the other. */
static void
merge_one_by_one(Merger *merger, int64 most)
{
	int64		left = merger->count;

	compare_all(merger);
	find_winners(merger);
	for (;;)
	{
		int32		winner = merger->winners[1];

		if (winner < 0 || (left <= most && (merger->heaviest == NULL ||
											merger->nearest[winner].cost > 0.0)))
			break;
		left -= merge_two(merger);
	}
	pfree(merger->packed);
	pfree(merger->distances2);
	pfree(merger->nearest);
	pfree(merger->winners);
}

/* A feature of all centroids. */
static double
value_of(const Merger *merger, int64 i)
{
	return merger->points != NULL ? merger->points[i] : merger->centroids[i];
}

/*
 * The exponent by which the features are scaled, so that floats hold the squares of typical ones;
 * 0 if they do.
 */
static int
scale_exponent(const Merger *merger)
{
	int64		values = merger->count * merger->dimension;
	int64		step = (values / EXPONENTS) | 1;
	int64		sum = 0;
	int64		nonzero = 0;
	int			mean;

	for (int64 i = 0; i < values; i += step)
		if (value_of(merger, i) != 0.0)
		{
			sum += gk_exponent_double(value_of(merger, i));
			nonzero++;
		}
	mean = nonzero == 0 ? 0 : (int) (sum / nonzero);
	return abs(mean) <= MOST_EXPONENT ? 0 : -mean;
}

/* The centroids as the engine takes them: as floats of a typical size. */
static float *
scaled_points(const Merger *merger, int exponent)
{
	int64		values = merger->count * merger->dimension;
	double		scale = ldexp(1.0, exponent);
	float	   *points = gk_allocate(values, sizeof(float));

	for (int64 i = 0; i < values; i++)
		points[i] = (float) Min(Max(value_of(merger, i) * scale, -FLT_MAX), FLT_MAX);
	return points;
}

/* The weights as the engine takes them: 1 at most. */
static double *
scaled_weights(const Merger *merger)
{
	double	   *weights = gk_allocate(merger->count, sizeof(double));
	double		greatest = 0.0;

	for (int64 c = 0; c < merger->count; c++)
		greatest = Max(greatest, merger->weights[c]);
	for (int64 c = 0; c < merger->count; c++)
		weights[c] = greatest > 0.0 ? merger->weights[c] / greatest : 0.0;
	return weights;
}

/* Puts the unions that the engine has found in the order of their rounds. */
static void
sort_unions(Merger *merger, const GkCommand *command)
{
	int64		rounds = 0;
	int64	   *ends;

	for (int64 c = 0; c < merger->count; c++)
		if (command->merge.into[c] >= 0)
			rounds = Max(rounds, (int64) command->merge.rounds[c] + 1);
	ends = gk_allocate_zero(rounds + 1, sizeof(int64));
	merger->unions = gk_allocate(merger->count, sizeof(Union));
	for (int64 c = 0; c < merger->count; c++)
		if (command->merge.into[c] >= 0)
			ends[command->merge.rounds[c] + 1]++;
	for (int64 round = 0; round < rounds; round++)
		ends[round + 1] += ends[round];
	merger->found = ends[rounds];
	for (int64 c = 0; c < merger->count; c++)
		if (command->merge.into[c] >= 0)
			merger->unions[ends[command->merge.rounds[c]]++] = (Union) {
				.to = command->merge.into[c],.from = (int32) c,
				.round = command->merge.rounds[c],.cost = command->merge.costs[c]
			};
	pfree(ends);
}

/* Has the engine find unions. */
static void
find_unions(Merger *merger, int64 wanted)
{
	int			exponent = scale_exponent(merger);
	const float *points = merger->points != NULL && exponent == 0 ? merger->points
		: scaled_points(merger, exponent);
	double	   *weights = scaled_weights(merger);
	GkCommand	command = {.operation = GK_MERGE};

	command.merge.points = points;
	command.merge.weights = weights;
	command.merge.count = merger->count;
	command.merge.wanted = Max(wanted, 1);
	command.merge.spherical = merger->spherical;
	command.merge.drawn = merger->drawn && points == merger->points;
	command.merge.into = gk_allocate(merger->count, sizeof(int32));
	command.merge.rounds = gk_allocate(merger->count, sizeof(int32));
	command.merge.costs = gk_allocate(merger->count, sizeof(float));
	gk_run(merger->job, &command);
	sort_unions(merger, &command);
	pfree(command.merge.costs);
	pfree(command.merge.rounds);
	pfree(command.merge.into);
	pfree(weights);
	if (points != merger->points)
		pfree(unconstify(float *, points));
	if (merger->found == 0)
		elog(ERROR, "gkmeans engine merges no clusters");
}

/* Raises the cost of each union to that of the unions it needs. */
static void
raise_costs(Merger *merger)
{
	float	   *costs = gk_allocate_zero(merger->count, sizeof(float));

	for (int64 i = 0; i < merger->found; i++)
	{
		Union	   *one = &merger->unions[i];

		one->cost = Max(one->cost, Max(costs[one->to], costs[one->from]));
		costs[one->to] = one->cost;
	}
	pfree(costs);
}

/* The order in which unions are made: by cost, then by round. */
static int
compare_unions(const Union *a, const Union *b)
{
	if (a->cost != b->cost)
		return a->cost < b->cost ? -1 : 1;
	if (a->round != b->round)
		return a->round < b->round ? -1 : 1;
	return (a->from > b->from) - (a->from < b->from);
}

/* Sorts unions. */
#define ST_SORT sort_by_cost
#define ST_ELEMENT_TYPE Union
#define ST_COMPARE(a, b) compare_unions(a, b)
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

/* The bin of the cost of a union. */
static uint32
cost_bin(const Union *one)
{
	return gk_union_cost_bits(gk_union_key(one->cost, 0)) >> GK_COST_SHIFT;
}

/* The unions of a bin, sorted; returns how many they are. */
static int64
sort_bin(const Merger *merger, uint32 bin, Union *sorted)
{
	int64		count = 0;

	for (int64 i = 0; i < merger->found; i++)
		if (cost_bin(&merger->unions[i]) == bin)
			sorted[count++] = merger->unions[i];
	sort_by_cost(sorted, count);
	return count;
}

/* Of all unions found, the last one to be made if `wanted` are, or all that cost nothing. */
static Union
last_union(const Merger *merger, int64 wanted)
{
	uint32	   *bins = gk_allocate_zero(GK_COST_BINS, sizeof(uint32));
	Union	   *sorted = gk_allocate(merger->found, sizeof(Union));
	Union		last = {.cost = -1.0f};
	int64		before = 0;
	uint32		bin = 0;
	int64		count;

	for (int64 i = 0; i < merger->found; i++)
		bins[cost_bin(&merger->unions[i])]++;
	wanted = Min(wanted, merger->found);
	while (before + bins[bin] < wanted)
		before += bins[bin++];
	count = sort_bin(merger, bin, sorted);
	if (wanted > before)
		last = sorted[wanted - before - 1];
	for (int64 i = wanted - before; i < count && merger->heaviest != NULL; i++)
		if (sorted[i].cost == 0.0f)
			last = sorted[i];
	pfree(sorted);
	pfree(bins);
	return last;
}

/* The cluster that one is a part of now. */
static int32
cluster_of(const int32 *into, int32 c)
{
	while (into[c] >= 0)
		c = into[c];
	return c;
}

/* Makes the unions up to the last one; the centroids follow if they are needed. */
static void
make_unions(Merger *merger, const Union *last)
{
	int32	   *into = merger->versions;

	memset(into, 0xff, merger->count * sizeof(int32));
	for (int64 i = 0; i < merger->found; i++)
	{
		const Union *one = &merger->unions[i];
		int32		to;

		CHECK_FOR_INTERRUPTS();
		if (compare_unions(one, last) > 0)
			continue;
		to = cluster_of(into, one->to);
		if (merger->centroids != NULL)
			move_to_mean(merger, to, one->from);
		if (merger->heaviest != NULL)
			note_heaviest(merger, to, one->from);
		into[one->from] = to;
	}
	for (int64 c = 0; c < merger->count; c++)
		merger->versions[c] = into[c] >= 0 ? -1 : 0;
}

/* Replaces the points by centroids, which can move. */
static void
make_centroids(Merger *merger)
{
	int64		values = merger->count * merger->dimension;

	merger->centroids = gk_allocate(values, sizeof(double));
	for (int64 i = 0; i < values; i++)
		merger->centroids[i] = merger->points[i];
	merger->points = NULL;
}

/* Merges until few enough stay, or no neighbours are left. */
static void
merge_at_once(Merger *merger, int64 most)
{
	int64		wanted = Max(merger->count - most, 0);
	Union		last;

	find_unions(merger, wanted);
	raise_costs(merger);
	last = last_union(merger, wanted);
	if (merger->points != NULL && merger->found < wanted)
		make_centroids(merger);
	make_unions(merger, &last);
	pfree(merger->unions);
}

/* Takes those that are gone out, in place. */
static void
drop_merged(Merger *merger)
{
	int			d = merger->dimension;
	int64		kept = 0;

	for (int64 c = 0; c < merger->count; c++)
	{
		if (merger->versions[c] < 0)
			continue;
		if (kept < c && merger->centroids != NULL)
			memmove(centroid_of(merger, kept), centroid_of(merger, c), d * sizeof(double));
		if (merger->heaviest != NULL)
			merger->heaviest[kept] = merger->heaviest[c];
		merger->weights[kept++] = merger->weights[c];
	}
	merger->count = kept;
}

/* Merges until few enough stay. */
static void
merge_all(Merger *merger, int64 most)
{
	merger->versions = gk_allocate_zero(merger->count, sizeof(int32));
	do
	{
		memset(merger->versions, 0, merger->count * sizeof(int32));
		if ((double) merger->count * merger->count * merger->dimension <= MERGE_WORK)
		{
			if (merger->centroids == NULL)
				make_centroids(merger);
			merge_one_by_one(merger, most);
		}
		else
			merge_at_once(merger, most);
		drop_merged(merger);
	} while (merger->count > most);
	pfree(merger->versions);
}

/* Merges clusters; returns how many stay. */
int64
gk_merge_closest(GkJob *job, double *centroids, double *weights, int64 count, int dimension,
				 int64 most, bool spherical)
{
	Merger		merger = {.job = job,.centroids = centroids,.weights = weights,.count = count,
	.dimension = dimension,.spherical = spherical};

	merge_all(&merger, most);
	return merger.count;
}

/* Merges candidates; returns how many stay. */
int64
gk_merge_candidates(GkJob *job, const float *points, double *weights, int64 count, int dimension,
					int64 most, bool spherical, bool drawn, int64 *heaviest)
{
	Merger		merger = {.job = job,.points = points,.weights = weights,.count = count,
	.dimension = dimension,.spherical = spherical,.drawn = drawn,.heaviest = heaviest};

	merger.first_weights = gk_allocate(count, sizeof(double));
	memcpy(merger.first_weights, weights, count * sizeof(double));
	for (int64 c = 0; c < count; c++)
		heaviest[c] = c;
	merge_all(&merger, most);
	if (merger.centroids != NULL)
		pfree(merger.centroids);
	pfree(merger.first_weights);
	return merger.count;
}
