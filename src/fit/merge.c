/*
 * Merging the clusters whose union costs least.
 *
 * Centroids merge with those of their group, which are near them: a range of centroids is cut in
 * two, and the halves again, until groups are small.  A merged cluster is dearer to all others than
 * the cheaper of its parts was.  So what was noted before a merge is a lower bound, and is computed
 * again only when it comes first.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "merge.h"
#include "nearest.h"

/* The most centroids of a group: so many … */
#define GROUP_MOST 256
#define GROUP_LEAST 32

/* … that the groups compare about so many features with each other, and come back twice. */
#define MERGE_WORK 2e7

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
	int64		cheapest;		/* the place whose union is cheapest; -1 = there is none */
} Group;

/* How far along a line a centroid lies. */
typedef struct Position
{
	double		at;
	int64		centroid;
} Position;

typedef struct Merger
{
	double	   *centroids;
	double	   *weights;
	int64		count;
	int			dimension;
	bool		spherical;
	int64	   *heaviest;		/* see gk_merge_closest() */
	double	   *first_weights;	/* the weights before all merges, with these */
	int64	   *order;			/* the centroid at each place */
	Position   *positions;
	Union	   *unions;			/* of each place */
	Group	   *groups;
	int64		group_count;
	int64		group_most;		/* centroids of a group */
	double	   *packed;
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

/* The order along the line, then of the centroids. */
static int
compare_positions(const void *a, const void *b, void *unused)
{
	const Position *left = a;
	const Position *right = b;

	if (left->at != right->at)
		return left->at < right->at ? -1 : 1;
	return (left->centroid > right->centroid) - (left->centroid < right->centroid);
}

/* Orders the centroids of a range along the line through two that lie far apart. */
static void
order_range(Merger *merger, int64 first, int64 count)
{
	const double *begin = farthest(merger, first, count, centroid_at(merger, first));
	const double *end = farthest(merger, first, count, begin);
	Position   *positions = merger->positions + first;

	for (int64 i = 0; i < count; i++)
	{
		positions[i].centroid = merger->order[first + i];
		positions[i].at = product(centroid_at(merger, first + i), end, begin, merger->dimension);
		count_work(merger, merger->dimension);
	}
	qsort_interruptible(positions, count, sizeof(Position), compare_positions, NULL);
	for (int64 i = 0; i < count; i++)
		merger->order[first + i] = positions[i].centroid;
}

/* The widest gap before one of the positions from .. to - 1: which one; 0 if there is none. */
static int64
widest_gap(const Position *positions, int64 from, int64 to)
{
	double		widest = 0.0;
	int64		where = 0;

	for (int64 i = from; i < to; i++)
		if (positions[i].at - positions[i - 1].at > widest)
		{
			widest = positions[i].at - positions[i - 1].at;
			where = i;
		}
	return where;
}

/* Where a range is cut, so that neighbours stay together; 0 if all its centroids are equal. */
static int64
cut(Merger *merger, int64 first, int64 count)
{
	int64		where;

	order_range(merger, first, count);
	where = widest_gap(merger->positions + first, count / 4, count - count / 4);
	return where > 0 ? where : widest_gap(merger->positions + first, 1, count);
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

/* Packs the centroids of the groups. */
static void
pack_groups(Merger *merger)
{
	int			d = merger->dimension;
	int64		places = 0;

	for (int64 g = 0; g < merger->group_count; g++)
		places += GK_GROUPS(merger->groups[g].count) * GK_GROUP;
	merger->packed = gk_allocate(places * d, sizeof(double));
	places = 0;
	for (int64 g = 0; g < merger->group_count; g++)
	{
		Group	   *group = &merger->groups[g];

		group->packed = merger->packed + places * d;
		for (int64 i = 0; i < group->count; i++)
			gk_pack_centroid(group->packed, d, i, centroid_at(merger, group->first + i));
		gk_pack_rest(group->packed, d, group->count);
		places += GK_GROUPS(group->count) * GK_GROUP;
		count_work(merger, group->count * d);
	}
}

/* What the union of two clusters adds to the inertia. */
static double
union_cost(double weight, double other, double distance2)
{
	return weight > 0.0 && other > 0.0 ? weight * (other / (weight + other)) * distance2 : 0.0;
}

/* Finds the cheapest union of a cluster. */
static void
find_partner(Merger *merger, const Group *group, int64 place)
{
	Union	   *mine = &merger->unions[place];
	double		weight = merger->weights[merger->order[place]];

	mine->cost = INFINITY;
	mine->partner = -1;
	gk_distances2(group->packed, centroid_at(merger, place), merger->dimension, group->count,
				  merger->distances2);
	count_work(merger, group->count * merger->dimension);
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
		mine->partner_version = merger->unions[other].version;
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

/* The group of the cheapest union of all, by what is known; NULL if there is none. */
static Group *
find_cheapest_group(const Merger *merger)
{
	Group	   *best = NULL;

	for (int64 g = 0; g < merger->group_count; g++)
	{
		Group	   *group = &merger->groups[g];

		if (group->cheapest >= 0 &&
			(best == NULL ||
			 merger->unions[group->cheapest].cost < merger->unions[best->cheapest].cost))
			best = group;
	}
	return best;
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
	find_partner(merger, group, known ? to : from);
	find_cheapest(merger, group);
	return known;
}

/* Makes groups of the centroids, and compares the centroids of each. */
static void
begin_merger(Merger *merger)
{
	int64		most = 0;

	for (int64 place = 0; place < merger->count; place++)
	{
		merger->order[place] = place;
		merger->unions[place].version = 0;
	}
	merger->group_count = 0;
	merger->group_most = (int64) Max(Min(MERGE_WORK / merger->dimension / merger->count,
										 GROUP_MOST), GROUP_LEAST);
	make_groups(merger, 0, merger->count);
	pack_groups(merger);
	for (int64 g = 0; g < merger->group_count; g++)
		most = Max(most, merger->groups[g].count);
	merger->distances2 = gk_allocate(GK_GROUPS(most) * GK_GROUP, sizeof(double));
	for (int64 g = 0; g < merger->group_count; g++)
	{
		Group	   *group = &merger->groups[g];

		for (int64 i = 0; i < group->count; i++)
			find_partner(merger, group, group->first + i);
		find_cheapest(merger, group);
	}
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
	Group	   *group;

	begin_merger(merger);
	while ((group = find_cheapest_group(merger)) != NULL &&
		   (left > most || (merger->heaviest != NULL &&
							!(merger->unions[group->cheapest].cost > 0.0))))
		left -= merge_two(merger, group);
	drop_merged(merger);
	pfree(merger->distances2);
	pfree(merger->packed);
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

	if (heaviest != NULL)
		begin_heaviest(&merger);
	merger.order = gk_allocate(count, sizeof(int64));
	merger.positions = gk_allocate(count, sizeof(Position));
	merger.unions = gk_allocate(count, sizeof(Union));
	merger.groups = gk_allocate(count, sizeof(Group));
	do
		merge_groups(&merger, most);
	while (merger.count > most);
	pfree(merger.groups);
	pfree(merger.unions);
	pfree(merger.positions);
	pfree(merger.order);
	if (heaviest != NULL)
		pfree(merger.first_weights);
	return merger.count;
}
