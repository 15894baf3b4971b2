/*
 * Merging the clusters whose union costs least.
 *
 * Centroids merge with those of their group: few centroids are one group; of many, a range is cut
 * in two where few of them lie, and the parts again, until groups are small.  A cut may part
 * neighbours.  So there are several rounds, cut in other directions, and only the last one makes
 * all the unions that it can: the dear ones.
 *
 * A merged cluster is dearer to all others than the cheaper of its parts was.  So what was noted
 * before a merge is a lower bound, and is computed again only when it comes first.  With many
 * features, what is noted at first is a lower bound as well, from some of them.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "merge.h"
#include "nearest.h"

/*
 * Groups are so large that the centroids of each are compared with about so many features, but have
 * this many centroids at least.
 */
#define MERGE_WORK 2e7
#define GROUP_LEAST 32

/* Rounds, if there are several groups; each but the last leaves this share of what is to go. */
#define ROUNDS 4
#define LEFT_SHARE 4

/* Features from which the first lower bounds come, as a part of at least so many. */
#define HEAD_SHARE 8
#define HEAD_LEAST 32

/* The version of a partner to which the cost is but a lower bound. */
#define NEVER (-2)

/* Parts of a line on which the centroids of a range are counted. */
#define BINS 64

/* Features compared between two checks for interrupts. */
#define INTERRUPT_WORK 10000000

#define LANES 8

/* The cheapest union of a cluster with another one of its group. */
typedef struct Union
{
	double		cost;
	int64		partner;		/* its place; -1 = none */
	int32		partner_version;	/* of the partner when the cost was computed */
	int32		version;		/* merges of this cluster; -1 = it is gone */
} Union;

/* A group: some places beside each other. */
typedef struct Group
{
	int64		first;
	int64		count;
	double	   *packed;			/* its centroids, for gk_distances2() */
	double	   *heads;			/* their first features */
	int64		cheapest;		/* the place whose union is cheapest; -1 = there is none */
} Group;

typedef struct Merger
{
	double	   *centroids;
	double	   *weights;
	int64		count;
	int			dimension;
	int			head;			/* features of lower bounds; 0 = these do not pay */
	int64		refined;		/* lower bounds that were not enough, in a round */
	bool		spherical;
	int64	   *heaviest;		/* see gk_merge_closest() */
	double	   *first_weights;	/* the weights before all merges, with these */
	int64	   *order;			/* the centroid at each place */
	int64	   *spare;			/* the same while a range is cut */
	double	   *positions;		/* along a line, by place */
	Union	   *unions;			/* of each place */
	Group	   *groups;
	int64		group_count;
	int64		group_most;		/* centroids of a group */
	int64	   *winners;		/* a tree: the group of the cheapest union below; -1 = none */
	int64		leaves;			/* of the tree, a power of two */
	int			round;
	double	   *packed;
	double	   *heads;			/* NULL without lower bounds */
	double	   *distances2;		/* of one centroid to its group */
	int64		work;			/* features compared since the last check for interrupts */
} Merger;

/* The centroid at a place. */
static double *
centroid_at(const Merger *merger, int64 place)
{
	return merger->centroids + merger->order[place] * merger->dimension;
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

/* Σ (x - from) × (y - from), in lanes that vectorise. */
static double
product(const double *restrict x, const double *restrict y, const double *restrict from,
		int dimension)
{
	double		lanes[LANES] = {0};
	double		sum = 0.0;
	int			j = 0;

	for (; j + LANES <= dimension; j += LANES)
		for (int lane = 0; lane < LANES; lane++)
			lanes[lane] += (x[j + lane] - from[j + lane]) * (y[j + lane] - from[j + lane]);
	for (; j < dimension; j++)
		lanes[0] += (x[j] - from[j]) * (y[j] - from[j]);
	for (int lane = 0; lane < LANES; lane++)
		sum += lanes[lane];
	return sum;
}

/* The centroid of a range that lies farthest from another one. */
static const double *
farthest(Merger *merger, int64 first, int64 count, const double *from)
{
	const double *far = from;
	double		most = 0.0;

	for (int64 place = first; place < first + count; place++)
	{
		const double *centroid = centroid_at(merger, place);
		double		distance2 = product(centroid, centroid, from, merger->dimension);

		count_work(merger, merger->dimension);
		if (distance2 > most)
		{
			most = distance2;
			far = centroid;
		}
	}
	return far;
}

/* Where the centroids of a range lie along a line; gives the least and the greatest position. */
static void
find_positions(Merger *merger, int64 first, int64 count, double range[2])
{
	bool		widest = merger->round % 2 == 0;
	const double *begin = centroid_at(merger, first + (widest ? 0 : count / 2));
	const double *end = farthest(merger, first, count, begin);

	if (widest)
	{
		begin = end;
		end = farthest(merger, first, count, begin);
	}
	range[0] = INFINITY;
	range[1] = -INFINITY;
	for (int64 place = first; place < first + count; place++)
	{
		double		at = product(centroid_at(merger, place), end, begin, merger->dimension);

		merger->positions[place] = at;
		range[0] = Min(range[0], at);
		range[1] = Max(range[1], at);
		count_work(merger, merger->dimension);
	}
}

/* The part of the line that a position is in. */
static inline int
bin_of(double at, const double range[2])
{
	return Min((int) ((at - range[0]) / (range[1] - range[0]) * BINS), BINS - 1);
}

/* The first part of the line behind the cut: where few lie, a quarter on each side if possible. */
static int
choose_cut(const int64 *counts, int64 count)
{
	int64		before = 0;
	int64		fewest = INT64CONST(-1);
	int64		best_rest = INT64CONST(-1);
	int			best = 1;

	for (int bin = 1; bin < BINS; bin++)
	{
		int64		near = counts[bin - 1] + counts[bin];
		int64		rest;

		before += counts[bin - 1];
		rest = Min(Min(before, count - before), count / 4);
		if (rest < best_rest || (rest == best_rest && near >= fewest))
			continue;
		best_rest = rest;
		fewest = near;
		best = bin;
	}
	return best;
}

/* Cuts a range in two; how many centroids are in the first part, 0 if all are equal. */
static int64
cut(Merger *merger, int64 first, int64 count)
{
	int64		counts[BINS] = {0};
	double		range[2];
	int64		left = 0;
	int64		right = 0;
	int			bin;

	find_positions(merger, first, count, range);
	if (!(range[0] < range[1]))
		return 0;
	for (int64 place = first; place < first + count; place++)
		counts[bin_of(merger->positions[place], range)]++;
	bin = choose_cut(counts, count);
	for (int64 place = first; place < first + count; place++)
		if (bin_of(merger->positions[place], range) < bin)
			merger->order[first + left++] = merger->order[place];
		else
			merger->spare[right++] = merger->order[place];
	memcpy(merger->order + first + left, merger->spare, right * sizeof(int64));
	return left;
}

/* Cuts a range into groups. */
static void
make_groups(Merger *merger, int64 first, int64 count)
{
	Group	   *group;

	while (count > merger->group_most)
	{
		int64		left = cut(merger, first, count);

		if (left == 0)
			break;
		check_stack_depth();
		/* the smaller part by recursion, so that this is not deep */
		if (left < count - left)
			make_groups(merger, first, left);
		else
			make_groups(merger, first + left, count - left);
		first = left < count - left ? first + left : first;
		count = Max(left, count - left);
	}
	group = &merger->groups[merger->group_count++];
	group->first = first;
	group->count = count;
	group->cheapest = -1;
}

/* Packs the first features of the centroids of a group. */
static void
pack_group(Merger *merger, const Group *group, int features, double *packed)
{
	for (int64 i = 0; i < group->count; i++)
		gk_pack_centroid(packed, features, i, centroid_at(merger, group->first + i));
	gk_pack_rest(packed, features, group->count);
	count_work(merger, group->count * features);
}

/* Packs the centroids of the groups. */
static void
pack_groups(Merger *merger)
{
	int			d = merger->dimension;
	int64		places = 0;

	for (int64 g = 0; g < merger->group_count; g++)
		places += GK_GROUPS(merger->groups[g].count) * GK_GROUP;
	merger->packed = gk_allocate(places * d, sizeof(double));
	merger->heads = merger->head > 0 ? gk_allocate(places * merger->head, sizeof(double)) : NULL;
	places = 0;
	for (int64 g = 0; g < merger->group_count; g++)
	{
		Group	   *group = &merger->groups[g];

		group->packed = merger->packed + places * d;
		pack_group(merger, group, d, group->packed);
		if (merger->heads != NULL)
		{
			group->heads = merger->heads + places * merger->head;
			pack_group(merger, group, merger->head, group->heads);
		}
		places += GK_GROUPS(group->count) * GK_GROUP;
	}
}

/* What the union of two clusters adds to the inertia. */
static double
union_cost(double weight, double other, double distance2)
{
	return weight > 0.0 && other > 0.0 ? weight * (other / (weight + other)) * distance2 : 0.0;
}

/* Finds the cheapest union of a cluster, or (roughly) a lower bound of what it costs. */
static void
find_partner(Merger *merger, const Group *group, int64 place, bool roughly)
{
	Union	   *mine = &merger->unions[place];
	double		weight = merger->weights[merger->order[place]];
	int			features = roughly ? merger->head : merger->dimension;

	mine->cost = INFINITY;
	mine->partner = -1;
	gk_distances2(roughly ? group->heads : group->packed, centroid_at(merger, place), features,
				  group->count, merger->distances2);
	count_work(merger, group->count * features);
	for (int64 i = 0; i < group->count; i++)
	{
		int64		other = group->first + i;
		double		cost;

		if (other == place || merger->unions[other].version < 0)
			continue;
		cost = union_cost(weight, merger->weights[merger->order[other]], merger->distances2[i]);
		if (mine->partner >= 0 && !(cost < mine->cost))
			continue;
		mine->cost = cost;
		mine->partner = other;
		mine->partner_version = roughly ? NEVER : merger->unions[other].version;
	}
}

/* Finds the cheapest union of a group, by what is known. */
static void
find_cheapest(const Merger *merger, Group *group)
{
	group->cheapest = -1;
	for (int64 place = group->first; place < group->first + group->count; place++)
		if (merger->unions[place].version >= 0 && merger->unions[place].partner >= 0 &&
			(group->cheapest < 0 ||
			 merger->unions[place].cost < merger->unions[group->cheapest].cost))
			group->cheapest = place;
}

/* The cost of the cheapest union of a group; infinite if there is none. */
static double
cheapest_cost(const Merger *merger, int64 group)
{
	return group < 0 ? INFINITY : merger->unions[merger->groups[group].cheapest].cost;
}

/* Brings the tree up to date after the cheapest union of a group has changed. */
static void
update_winners(Merger *merger, int64 group)
{
	int64		node = merger->leaves + group;

	merger->winners[node] = merger->groups[group].cheapest < 0 ? -1 : group;
	for (node /= 2; node > 0; node /= 2)
	{
		int64		left = merger->winners[2 * node];
		int64		right = merger->winners[2 * node + 1];

		merger->winners[node] = right < 0 ||
			(left >= 0 && cheapest_cost(merger, left) <= cheapest_cost(merger, right))
			? left : right;
	}
}

/* Notes which of all the centroids that two are made of is the heaviest. */
static void
note_heaviest(const Merger *merger, int64 to, int64 from)
{
	int64	   *mine = &merger->heaviest[merger->order[to]];
	int64		other = merger->heaviest[merger->order[from]];

	if (merger->first_weights[other] > merger->first_weights[*mine])
		*mine = other;
}

/* Moves a centroid to the mean of itself and another one. */
static void
move_to_mean(Merger *merger, int64 to, int64 from)
{
	int			d = merger->dimension;
	double	   *weight = &merger->weights[merger->order[to]];
	double		more = merger->weights[merger->order[from]];
	double		share = *weight + more > 0.0 ? more / (*weight + more) : 0.0;
	double	   *centroid = centroid_at(merger, to);
	const double *other = centroid_at(merger, from);
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

/* Merges the two clusters of a group whose union is cheapest, or finds out that others are. */
static bool
merge_two(Merger *merger, Group *group)
{
	int64		from = group->cheapest;
	int64		to = merger->unions[from].partner;
	bool		known = merger->unions[to].version == merger->unions[from].partner_version;

	merger->refined += merger->unions[from].partner_version == NEVER;
	if (known)
	{
		move_to_mean(merger, to, from);
		if (merger->heaviest != NULL)
			note_heaviest(merger, to, from);
		gk_pack_centroid(group->packed, merger->dimension, to - group->first,
						 centroid_at(merger, to));
		merger->unions[from].version = -1;
		merger->unions[to].version++;
	}
	find_partner(merger, group, known ? to : from, false);
	find_cheapest(merger, group);
	return known;
}

/* Compares the centroids of each group. */
static void
compare_groups(Merger *merger)
{
	merger->leaves = 1;
	while (merger->leaves < merger->group_count)
		merger->leaves *= 2;
	merger->winners = gk_allocate(2 * merger->leaves, sizeof(int64));
	for (int64 i = 0; i < 2 * merger->leaves; i++)
		merger->winners[i] = -1;
	for (int64 g = 0; g < merger->group_count; g++)
	{
		Group	   *group = &merger->groups[g];

		for (int64 i = 0; i < group->count; i++)
			find_partner(merger, group, group->first + i, merger->heads != NULL);
		find_cheapest(merger, group);
		update_winners(merger, g);
	}
}

/* Makes groups of the centroids. */
static void
begin_round(Merger *merger)
{
	int64		most = 0;

	for (int64 place = 0; place < merger->count; place++)
	{
		merger->order[place] = place;
		merger->unions[place].version = 0;
	}
	/* costs that are all alike have to be known */
	if (merger->refined > merger->count / 2)
		merger->head = 0;
	merger->refined = 0;
	merger->group_count = 0;
	merger->group_most = (int64) Max(MERGE_WORK / merger->dimension / merger->count, GROUP_LEAST);
	make_groups(merger, 0, merger->count);
	pack_groups(merger);
	for (int64 g = 0; g < merger->group_count; g++)
		most = Max(most, merger->groups[g].count);
	merger->distances2 = gk_allocate(GK_GROUPS(most) * GK_GROUP, sizeof(double));
	compare_groups(merger);
}

/* Takes those that are gone out, in place. */
static void
drop_merged(Merger *merger)
{
	int			d = merger->dimension;
	bool	   *is_gone = gk_allocate_zero(merger->count, sizeof(bool));
	int64		kept = 0;

	for (int64 place = 0; place < merger->count; place++)
		is_gone[merger->order[place]] = merger->unions[place].version < 0;
	for (int64 c = 0; c < merger->count; c++)
	{
		if (is_gone[c])
			continue;
		if (kept < c)
			memmove(merger->centroids + kept * d, merger->centroids + c * d, d * sizeof(double));
		if (merger->heaviest != NULL)
			merger->heaviest[kept] = merger->heaviest[c];
		merger->weights[kept++] = merger->weights[c];
	}
	merger->count = kept;
	pfree(is_gone);
}

/* Merges within groups until few enough stay, or each is alone in its group. */
static void
merge_groups(Merger *merger, int64 most)
{
	int64		left = merger->count;

	begin_round(merger);
	if (merger->group_count > 1 && merger->round < ROUNDS - 1)
		most += Max(left - most, 0) / LEFT_SHARE;
	for (;;)
	{
		int64		group = merger->winners[1];

		if (group < 0 || (left <= most && (merger->heaviest == NULL ||
										   cheapest_cost(merger, group) > 0.0)))
			break;
		left -= merge_two(merger, &merger->groups[group]);
		update_winners(merger, group);
	}
	drop_merged(merger);
	pfree(merger->winners);
	pfree(merger->distances2);
	if (merger->heads != NULL)
		pfree(merger->heads);
	pfree(merger->packed);
	merger->round++;
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
gk_merge_closest(double *centroids, double *weights, int64 count, int dimension, int64 most,
				 bool spherical, int64 *heaviest)
{
	Merger		merger = {.centroids = centroids,.weights = weights,.count = count,
	.dimension = dimension,.spherical = spherical,.heaviest = heaviest};

	merger.head = dimension < HEAD_LEAST ? 0 : dimension / HEAD_SHARE;
	if (heaviest != NULL)
		begin_heaviest(&merger);
	merger.order = gk_allocate(count, sizeof(int64));
	merger.spare = gk_allocate(count, sizeof(int64));
	merger.positions = gk_allocate(count, sizeof(double));
	merger.unions = gk_allocate(count, sizeof(Union));
	merger.groups = gk_allocate(count, sizeof(Group));
	do
		merge_groups(&merger, most);
	while (merger.count > most);
	pfree(merger.groups);
	pfree(merger.unions);
	pfree(merger.positions);
	pfree(merger.spare);
	pfree(merger.order);
	if (heaviest != NULL)
		pfree(merger.first_weights);
	return merger.count;
}
