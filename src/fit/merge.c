/*
 * Merging the clusters whose union costs least.
 *
 * Few centroids are compared with all others.  Of many, each is compared with its neighbours: the
 * engine lists the nearest of each, and a cluster has the cheapest neighbours of all that it is
 * made of.  Where all neighbours have become one, they are listed anew.
 *
 * A merged cluster is dearer to all others than the cheaper of its parts was.  So what was noted
 * before a merge is a lower bound, and is computed again only when it comes first.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "exact.h"
#include "merge.h"
#include "nearest.h"

/* Up to so many products of features all centroids are compared with each other. */
#define MERGE_WORK 1e6

/* Features compared between two checks for interrupts. */
#define INTERRUPT_WORK 10000000

#define LANES 8

/* The cheapest union of a cluster. */
typedef struct Union
{
	double		cost;
	int64		partner;		/* -1 = none */
	int32		partner_version;	/* of the partner when the cost was computed */
	int32		version;		/* merges of this cluster; -1 = it is gone */
} Union;

/* A neighbour, and what the union with it costs. */
typedef struct Neighbour
{
	double		cost;
	int32		number;
} Neighbour;

typedef struct Merger
{
	GkJob	   *job;
	double	   *centroids;
	double	   *weights;
	int64		count;
	int			dimension;
	bool		spherical;
	int64	   *heaviest;		/* see gk_merge_closest() */
	double	   *first_weights;	/* the weights before all merges, with these */
	Union	   *unions;
	int64	   *winners;		/* a tree: the cluster of the cheapest union below; -1 = none */
	int64		leaves;			/* of the tree, a power of two */
	int32	   *neighbours;		/* count × GK_NEIGHBOUR_COUNT; NULL: all others are */
	int32	   *successors;		/* what each has become a part of; itself if nothing */
	double	   *packed;			/* without lists: the centroids, for gk_distances2() */
	double	   *distances2;		/* … of one of them to all */
	int64		work;			/* features compared since the last check for interrupts */
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

/* d² of two centroids, in lanes that vectorise. */
static double
distance2_of(Merger *merger, int64 a, int64 b)
{
	const double *restrict x = centroid_of(merger, a);
	const double *restrict y = centroid_of(merger, b);
	double		lanes[LANES] = {0};
	double		sum = 0.0;
	int			j = 0;

	for (; j + LANES <= merger->dimension; j += LANES)
		for (int lane = 0; lane < LANES; lane++)
			lanes[lane] += (x[j + lane] - y[j + lane]) * (x[j + lane] - y[j + lane]);
	for (; j < merger->dimension; j++)
		lanes[0] += (x[j] - y[j]) * (x[j] - y[j]);
	for (int lane = 0; lane < LANES; lane++)
		sum += lanes[lane];
	count_work(merger, merger->dimension);
	return sum;
}

/* What the union of two clusters adds to the inertia. */
static double
union_cost(const Merger *merger, int64 a, int64 b, double distance2)
{
	double		weight = merger->weights[a];
	double		other = merger->weights[b];

	return weight > 0.0 && other > 0.0 ? weight * (other / (weight + other)) * distance2 : 0.0;
}

/* Notes the cheapest union of a cluster; none if the partner is -1. */
static void
note_union(Merger *merger, int64 c, int64 partner, double cost)
{
	Union	   *mine = &merger->unions[c];

	mine->partner = partner;
	mine->cost = cost;
	mine->partner_version = partner < 0 ? 0 : merger->unions[partner].version;
}

/* Finds the cheapest union of a cluster among all. */
static void
find_among_all(Merger *merger, int64 c)
{
	int64		partner = -1;
	double		least = INFINITY;

	gk_distances2(merger->packed, centroid_of(merger, c), merger->dimension, merger->count,
				  merger->distances2);
	count_work(merger, merger->count * merger->dimension);
	for (int64 other = 0; other < merger->count; other++)
	{
		double		cost;

		if (other == c || merger->unions[other].version < 0)
			continue;
		cost = union_cost(merger, c, other, merger->distances2[other]);
		if (partner >= 0 && !(cost < least))
			continue;
		least = cost;
		partner = other;
	}
	note_union(merger, c, partner, least);
}

/* The cluster that a centroid has become a part of. */
static int32
successor_of(Merger *merger, int32 c)
{
	int32	   *successors = merger->successors;

	while (successors[c] != c)
		c = successors[c] = successors[successors[c]];
	return c;
}

/* Takes a cluster into a list of neighbours, the cheapest first, unless it is there. */
static int
take_neighbour(Merger *merger, int64 c, int32 number, Neighbour *list, int count)
{
	double		cost;
	int			place;

	for (int i = 0; i < count; i++)
		if (list[i].number == number)
			return count;
	cost = union_cost(merger, c, number, distance2_of(merger, c, number));
	for (place = count; place > 0 && cost < list[place - 1].cost; place--)
		list[place] = list[place - 1];
	list[place] = (Neighbour) {.cost = cost,.number = number};
	return count + 1;
}

/* Finds the cheapest union of a cluster among the neighbours of itself and of a part of it. */
static void
find_among_neighbours(Merger *merger, int64 c, int64 part)
{
	int32	   *mine = merger->neighbours + c * GK_NEIGHBOUR_COUNT;
	const int32 *others = merger->neighbours + part * GK_NEIGHBOUR_COUNT;
	Neighbour	list[2 * GK_NEIGHBOUR_COUNT];
	int			count = 0;

	for (int i = 0; i < (part == c ? 1 : 2) * GK_NEIGHBOUR_COUNT; i++)
	{
		int32		number = i < GK_NEIGHBOUR_COUNT ? mine[i] : others[i - GK_NEIGHBOUR_COUNT];

		if (number >= 0)
			number = successor_of(merger, number);
		if (number >= 0 && number != c)
			count = take_neighbour(merger, c, number, list, count);
	}
	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
		mine[i] = i < count ? list[i].number : -1;
	note_union(merger, c, count > 0 ? list[0].number : -1, count > 0 ? list[0].cost : INFINITY);
}

/* Finds the cheapest union of a cluster, which another one may have just become a part of. */
static void
find_partner(Merger *merger, int64 c, int64 part)
{
	if (merger->neighbours == NULL)
		find_among_all(merger, c);
	else
		find_among_neighbours(merger, c, part);
}

/* The cost of the union of a winner; infinite if there is none. */
static double
winning_cost(const Merger *merger, int64 winner)
{
	return winner < 0 ? INFINITY : merger->unions[winner].cost;
}

/* Decides between the two below a node of the tree. */
static void
decide_winner(Merger *merger, int64 node)
{
	int64		left = merger->winners[2 * node];
	int64		right = merger->winners[2 * node + 1];

	merger->winners[node] = right < 0 ||
		(left >= 0 && winning_cost(merger, left) <= winning_cost(merger, right)) ? left : right;
}

/* Brings the tree up to date after the union of a cluster has changed. */
static void
update_winners(Merger *merger, int64 c)
{
	int64		node = merger->leaves + c;
	bool		has_union = merger->unions[c].version >= 0 && merger->unions[c].partner >= 0;

	merger->winners[node] = has_union ? c : -1;
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

/* Makes a cluster a part of another one. */
static void
merge_into(Merger *merger, int64 to, int64 from)
{
	move_to_mean(merger, to, from);
	if (merger->heaviest != NULL)
		note_heaviest(merger, to, from);
	if (merger->neighbours == NULL)
		gk_pack_centroid(merger->packed, merger->dimension, to, centroid_of(merger, to));
	else
		merger->successors[from] = (int32) to;
	merger->unions[from].version = -1;
	merger->unions[to].version++;
}

/* Merges the two clusters whose union is cheapest, or finds out that others are. */
static bool
merge_two(Merger *merger)
{
	int64		from = merger->winners[1];
	int64		to = merger->unions[from].partner;
	bool		known = merger->unions[to].version == merger->unions[from].partner_version;

	if (!known)
	{
		find_partner(merger, from, from);
		update_winners(merger, from);
		return false;
	}
	merge_into(merger, to, from);
	find_partner(merger, to, from);
	update_winners(merger, from);
	update_winners(merger, to);
	return true;
}

/* The mean exponent of the features, so that floats hold the squares of typical ones. */
static int
typical_exponent(const Merger *merger)
{
	int64		sum = 0;
	int64		nonzero = 0;

	for (int64 i = 0; i < merger->count * merger->dimension; i++)
		if (merger->centroids[i] != 0.0)
		{
			sum += gk_exponent_double(merger->centroids[i]);
			nonzero++;
		}
	return nonzero == 0 ? 0 : (int) (sum / nonzero);
}

/* Asks the engine for the neighbours of all centroids, as floats. */
static void
list_neighbours(Merger *merger)
{
	int64		values = merger->count * merger->dimension;
	float	   *points = gk_allocate(values, sizeof(float));
	double		scale = ldexp(1.0, -typical_exponent(merger));
	GkCommand	command = {.operation = GK_NEIGHBOURS};

	for (int64 i = 0; i < values; i++)
		points[i] = (float) Min(Max(merger->centroids[i] * scale, -FLT_MAX), FLT_MAX);
	command.neighbours.points = points;
	command.neighbours.count = command.neighbours.wanted = merger->count;
	command.neighbours.neighbours = merger->neighbours;
	gk_run(merger->job, &command);
	pfree(points);
}

/* Finds the cheapest union of each cluster. */
static void
find_partners(Merger *merger)
{
	merger->leaves = 1;
	while (merger->leaves < merger->count)
		merger->leaves *= 2;
	merger->winners = gk_allocate(2 * merger->leaves, sizeof(int64));
	for (int64 c = 0; c < merger->leaves; c++)
		merger->winners[merger->leaves + c] = -1;
	for (int64 c = 0; c < merger->count; c++)
	{
		find_partner(merger, c, c);
		if (merger->unions[c].partner >= 0)
			merger->winners[merger->leaves + c] = c;
	}
	for (int64 node = merger->leaves - 1; node > 0; node--)
		decide_winner(merger, node);
}

/* Prepares for comparing each centroid with its neighbours, or with all if that is little work. */
static void
begin_round(Merger *merger)
{
	int			d = merger->dimension;
	int64		places = GK_GROUPS(merger->count) * GK_GROUP;

	for (int64 c = 0; c < merger->count; c++)
		merger->unions[c].version = 0;
	if ((double) merger->count * merger->count * d > MERGE_WORK)
	{
		merger->neighbours = gk_allocate(merger->count * GK_NEIGHBOUR_COUNT, sizeof(int32));
		merger->successors = gk_allocate(merger->count, sizeof(int32));
		for (int64 c = 0; c < merger->count; c++)
			merger->successors[c] = (int32) c;
		list_neighbours(merger);
	}
	else
	{
		merger->packed = gk_allocate(places * d, sizeof(double));
		merger->distances2 = gk_allocate(places, sizeof(double));
		for (int64 c = 0; c < merger->count; c++)
			gk_pack_centroid(merger->packed, d, c, centroid_of(merger, c));
		gk_pack_rest(merger->packed, d, merger->count);
	}
	find_partners(merger);
}

/* Frees what a round needed. */
static void
end_round(Merger *merger)
{
	pfree(merger->winners);
	if (merger->neighbours != NULL)
	{
		pfree(merger->neighbours);
		pfree(merger->successors);
		merger->neighbours = NULL;
	}
	else
	{
		pfree(merger->packed);
		pfree(merger->distances2);
	}
}

/* Takes those that are gone out, in place. */
static void
drop_merged(Merger *merger)
{
	int			d = merger->dimension;
	int64		kept = 0;

	for (int64 c = 0; c < merger->count; c++)
	{
		if (merger->unions[c].version < 0)
			continue;
		if (kept < c)
			memmove(centroid_of(merger, kept), centroid_of(merger, c), d * sizeof(double));
		if (merger->heaviest != NULL)
			merger->heaviest[kept] = merger->heaviest[c];
		merger->weights[kept++] = merger->weights[c];
	}
	merger->count = kept;
}

/* Merges until few enough stay, or no neighbours are left. */
static void
merge_round(Merger *merger, int64 most)
{
	int64		left = merger->count;

	begin_round(merger);
	for (;;)
	{
		double		cost = winning_cost(merger, merger->winners[1]);

		if (merger->winners[1] < 0 || (left <= most && (merger->heaviest == NULL || cost > 0.0)))
			break;
		left -= merge_two(merger);
	}
	end_round(merger);
	drop_merged(merger);
}

/* Makes each centroid the heaviest of itself. */
static void
begin_heaviest(Merger *merger)
{
	merger->first_weights = gk_allocate(merger->count, sizeof(double));
	memcpy(merger->first_weights, merger->weights, merger->count * sizeof(double));
	for (int64 c = 0; c < merger->count; c++)
		merger->heaviest[c] = c;
}

/* Merges clusters; returns how many stay. */
int64
gk_merge_closest(GkJob *job, double *centroids, double *weights, int64 count, int dimension,
				 int64 most, bool spherical, int64 *heaviest)
{
	Merger		merger = {.job = job,.centroids = centroids,.weights = weights,.count = count,
	.dimension = dimension,.spherical = spherical,.heaviest = heaviest};

	if (heaviest != NULL)
		begin_heaviest(&merger);
	merger.unions = gk_allocate(count, sizeof(Union));
	do
		merge_round(&merger, most);
	while (merger.count > most);
	pfree(merger.unions);
	if (heaviest != NULL)
		pfree(merger.first_weights);
	return merger.count;
}
