/*
 * Merging the clusters whose union costs least.
 *
 * Few centroids are compared with all others.  Of many, each is compared with its neighbours: the
 * engine lists the nearest of each, and a merged cluster has those of its two parts that seem the
 * cheapest.  Where all neighbours have become one, they are listed anew.
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

/* A cluster that another one may be united with. */
typedef struct Neighbour
{
	double		cost;			/* of the union … */
	int32		number;			/* -1 = nobody, at infinite cost */
	int32		version;		/* … if that is the neighbour's version, else a lower bound of it */
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
	int32	   *versions;		/* how often each cluster has merged; -1 = it is gone */
	int32	   *successors;		/* what each has become a part of; itself if nothing */
	int			width;			/* of a list of neighbours; 1 where all others are neighbours */
	Neighbour  *lists;			/* count × width, the cheapest first */
	double	   *costs;			/* of the first of each list, for the tree */
	int32	   *winners;		/* a tree: the cluster of the cheapest union below; -1 = none */
	int64		leaves;			/* of the tree, a power of two */
	double	   *packed;			/* where all are neighbours: the centroids, for gk_distances2() */
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

/* The neighbours of a cluster. */
static Neighbour *
list_of(const Merger *merger, int64 c)
{
	return merger->lists + c * merger->width;
}

/* Nobody. */
static Neighbour
nobody(void)
{
	return (Neighbour) {.cost = INFINITY,.number = -1,.version = -1};
}

/* Puts a neighbour into a list, behind those that cost no more; the last one drops out. */
static void
put_neighbour(Neighbour *list, int width, Neighbour one)
{
	int			place = width - 1;

	if (!(one.cost < list[place].cost))
		return;
	for (; place > 0 && one.cost < list[place - 1].cost; place--)
		list[place] = list[place - 1];
	list[place] = one;
}

/* Finds the cheapest union of a cluster among all. */
static void
find_among_all(Merger *merger, int64 c)
{
	Neighbour  *list = list_of(merger, c);

	list[0] = nobody();
	gk_distances2(merger->packed, centroid_of(merger, c), merger->dimension, merger->count,
				  merger->distances2);
	count_work(merger, merger->count * merger->dimension);
	for (int64 other = 0; other < merger->count; other++)
		if (other != c && merger->versions[other] >= 0)
			put_neighbour(list, 1, (Neighbour) {
				.cost = union_cost(merger, c, other, merger->distances2[other]),
				.number = (int32) other,.version = merger->versions[other]
			});
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

/* Takes all neighbours that have become a part of a cluster out of a list. */
static void
take_out(Merger *merger, Neighbour *list, int32 number)
{
	int			kept = 0;

	for (int i = 0; i < merger->width && list[i].number >= 0; i++)
		if (successor_of(merger, list[i].number) != number)
			list[kept++] = list[i];
	while (kept < merger->width && list[kept].number >= 0)
		list[kept++] = nobody();
}

/* Computes what the union with the first neighbour of a cluster costs now, and puts it there. */
static void
check_neighbour(Merger *merger, int64 c)
{
	Neighbour  *list = list_of(merger, c);
	int32		number = successor_of(merger, list[0].number);

	take_out(merger, list, number);
	if (number == c)
		return;
	put_neighbour(list, merger->width, (Neighbour) {
		.cost = union_cost(merger, c, number, distance2_of(merger, c, number)),
		.number = number,.version = merger->versions[number]
	});
}

/* The neighbours of a cluster and of one that has become a part of it, with lower bounds. */
static void
join_lists(Merger *merger, int64 to, int64 from)
{
	Neighbour  *list = list_of(merger, to);
	Neighbour	both[2 * GK_NEIGHBOUR_COUNT];
	int			width = merger->width;
	int			kept = 0;

	for (int i = 0; i < 2 * width; i++)
		both[i] = nobody();
	for (int i = 0; i < width; i++)
	{
		put_neighbour(both, 2 * width, list[i]);
		put_neighbour(both, 2 * width, list_of(merger, from)[i]);
	}
	for (int i = 0; i < 2 * width && kept < width && both[i].number >= 0; i++)
	{
		int32		number = successor_of(merger, both[i].number);
		bool		is_new = number != to;

		for (int j = 0; j < kept; j++)
			is_new &= list[j].number != number;
		if (is_new)
			list[kept++] = (Neighbour) {.cost = both[i].cost,.number = number,.version = -1};
	}
	for (; kept < width; kept++)
		list[kept] = nobody();
}

/* Decides between the two below a node of the tree. */
static void
decide_winner(Merger *merger, int64 node)
{
	int32		left = merger->winners[2 * node];
	int32		right = merger->winners[2 * node + 1];

	merger->winners[node] = right < 0 ||
		(left >= 0 && merger->costs[left] <= merger->costs[right]) ? left : right;
}

/* Brings the tree up to date after the first neighbour of a cluster has changed. */
static void
update_winners(Merger *merger, int64 c)
{
	int64		node = merger->leaves + c;
	const Neighbour *first = list_of(merger, c);

	merger->costs[c] = first->cost;
	merger->winners[node] = merger->versions[c] >= 0 && first->number >= 0 ? (int32) c : -1;
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
	merger->versions[from] = -1;
	merger->versions[to]++;
	merger->successors[from] = (int32) to;
	if (merger->width > 1)
	{
		join_lists(merger, to, from);
		return;
	}
	gk_pack_centroid(merger->packed, merger->dimension, to, centroid_of(merger, to));
	find_among_all(merger, to);
}

/* Merges the two clusters whose union is cheapest, or finds out that others may be. */
static bool
merge_two(Merger *merger)
{
	int32		from = merger->winners[1];
	Neighbour	first = list_of(merger, from)[0];
	bool		known = first.version == merger->versions[first.number] && first.version >= 0;

	if (known)
	{
		merge_into(merger, first.number, from);
		update_winners(merger, first.number);
	}
	else if (merger->width > 1)
		check_neighbour(merger, from);
	else
		find_among_all(merger, from);
	update_winners(merger, from);
	return known;
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

/* Lists the neighbours that the engine finds among the centroids as floats. */
static void
list_neighbours(Merger *merger)
{
	int64		values = merger->count * merger->dimension;
	int64		places = merger->count * merger->width;
	int			exponent = typical_exponent(merger);
	double		scale = ldexp(1.0, -exponent);
	float	   *points = gk_allocate(values, sizeof(float));
	int32	   *numbers = gk_allocate(places, sizeof(int32));
	float	   *distances = gk_allocate(places, sizeof(float));
	GkCommand	command = {.operation = GK_NEIGHBOURS};

	for (int64 i = 0; i < values; i++)
		points[i] = (float) Min(Max(merger->centroids[i] * scale, -FLT_MAX), FLT_MAX);
	command.neighbours.points = points;
	command.neighbours.count = command.neighbours.wanted = merger->count;
	command.neighbours.neighbours = numbers;
	command.neighbours.distances = distances;
	gk_run(merger->job, &command);
	for (int64 i = 0; i < places; i++)
		merger->lists[i] = nobody();
	for (int64 i = 0; i < places; i++)
	{
		int64		c = i / merger->width;

		if (numbers[i] >= 0)
			put_neighbour(list_of(merger, c), merger->width, (Neighbour) {
				.cost = Min(union_cost(merger, c, numbers[i], ldexp(distances[i], 2 * exponent)),
							DBL_MAX),
				.number = numbers[i],.version = -1
			});
	}
	pfree(distances);
	pfree(numbers);
	pfree(points);
}

/* Compares all centroids with each other. */
static void
compare_all(Merger *merger)
{
	int			d = merger->dimension;
	int64		places = GK_GROUPS(merger->count) * GK_GROUP;

	merger->packed = gk_allocate(places * d, sizeof(double));
	merger->distances2 = gk_allocate(places, sizeof(double));
	for (int64 c = 0; c < merger->count; c++)
		gk_pack_centroid(merger->packed, d, c, centroid_of(merger, c));
	gk_pack_rest(merger->packed, d, merger->count);
	for (int64 c = 0; c < merger->count; c++)
		find_among_all(merger, c);
}

/* Builds the tree. */
static void
find_winners(Merger *merger)
{
	for (int64 c = 0; c < merger->leaves; c++)
	{
		bool		has_neighbour = c < merger->count && list_of(merger, c)->number >= 0;

		merger->winners[merger->leaves + c] = has_neighbour ? (int32) c : -1;
		if (has_neighbour)
			merger->costs[c] = list_of(merger, c)->cost;
	}
	for (int64 node = merger->leaves - 1; node > 0; node--)
		decide_winner(merger, node);
}

/* Begins to compare the centroids, as they are now. */
static void
begin_round(Merger *merger)
{
	bool		all = (double) merger->count * merger->count * merger->dimension <= MERGE_WORK;

	merger->width = all ? 1 : GK_NEIGHBOUR_COUNT;
	merger->lists = gk_allocate(merger->count * merger->width, sizeof(Neighbour));
	merger->leaves = 1;
	while (merger->leaves < merger->count)
		merger->leaves *= 2;
	merger->winners = gk_allocate(2 * merger->leaves, sizeof(int32));
	for (int64 c = 0; c < merger->count; c++)
	{
		merger->versions[c] = 0;
		merger->successors[c] = (int32) c;
	}
	if (all)
		compare_all(merger);
	else
		list_neighbours(merger);
	find_winners(merger);
}

/* Frees what a round needed. */
static void
end_round(Merger *merger)
{
	if (merger->width == 1)
	{
		pfree(merger->packed);
		pfree(merger->distances2);
	}
	pfree(merger->winners);
	pfree(merger->lists);
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
		int32		winner = merger->winners[1];

		if (winner < 0 || (left <= most && (merger->heaviest == NULL ||
											merger->costs[winner] > 0.0)))
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
	merger.versions = gk_allocate(count, sizeof(int32));
	merger.successors = gk_allocate(count, sizeof(int32));
	merger.costs = gk_allocate(count, sizeof(double));
	do
		merge_round(&merger, most);
	while (merger.count > most);
	pfree(merger.costs);
	pfree(merger.successors);
	pfree(merger.versions);
	if (heaviest != NULL)
		pfree(merger.first_weights);
	return merger.count;
}
