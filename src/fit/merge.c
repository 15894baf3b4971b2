/*
 * Merging the clusters whose union costs least.
 *
 * All pairs are compared once, on one thread: k²/2 beside the n × k of a pass over the rows.  Most
 * comparisons end early, as soon as the distance so far costs more than the partners that both
 * have.  A merged cluster is dearer to all others than the cheaper of its parts was.  So what was
 * noted before a merge is a lower bound, and is computed again only when it comes first.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "merge.h"

/* Features between two checks of whether a pair already costs too much. */
#define STRIDE 16

/* Features compared between two checks for interrupts. */
#define INTERRUPT_WORK 10000000

/* The cheapest union of a cluster with another one. */
typedef struct Union
{
	double		cost;
	int64		partner;		/* -1 = none */
	int32		partner_version;	/* of the partner when the cost was computed */
	int32		version;		/* merges of this cluster; -1 = it is gone */
} Union;

typedef struct Merger
{
	double	   *centroids;
	double	   *weights;
	int64		count;
	int			dimension;
	bool		spherical;
	Union	   *unions;
	int64		work;			/* features compared since the last check for interrupts */
} Merger;

/* d² of two centroids, or any number above `limit` if it is above that. */
static double
square_up_to(const double *restrict a, const double *restrict b, int dimension, double limit)
{
	double		sum = 0.0;

	for (int from = 0; from < dimension && sum <= limit; from += STRIDE)
	{
		int			end = Min(from + STRIDE, dimension);
		double		lanes[4] = {0};
		int			j = from;

		for (; j + 4 <= end; j += 4)
			for (int lane = 0; lane < 4; lane++)
			{
				double		difference = a[j + lane] - b[j + lane];

				lanes[lane] += difference * difference;
			}
		for (; j < end; j++)
			lanes[0] += (a[j] - b[j]) * (a[j] - b[j]);
		sum += (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
	}
	return sum;
}

/* Notes a union if it is the cheapest of a cluster. */
static void
note_union(Merger *merger, int64 cluster, int64 partner, double cost)
{
	Union	   *known = &merger->unions[cluster];

	if (known->partner >= 0 && !(cost < known->cost))
		return;
	known->cost = cost;
	known->partner = partner;
	known->partner_version = merger->unions[partner].version;
}

/* Compares two clusters. */
static void
compare_pair(Merger *merger, int64 a, int64 b)
{
	int			d = merger->dimension;
	double		weight_a = merger->weights[a];
	double		weight_b = merger->weights[b];
	double		factor = weight_a > 0.0 && weight_b > 0.0
		? weight_a * (weight_b / (weight_a + weight_b)) : 0.0;
	double		most = Max(merger->unions[a].cost, merger->unions[b].cost);
	double		cost = factor > 0.0
		? factor * square_up_to(merger->centroids + a * d, merger->centroids + b * d, d,
								most / factor) : 0.0;

	note_union(merger, a, b, cost);
	note_union(merger, b, a, cost);
	merger->work += d;
	if (merger->work >= INTERRUPT_WORK)
	{
		CHECK_FOR_INTERRUPTS();
		merger->work = 0;
	}
}

/* Finds the cheapest union of a cluster anew. */
static void
find_partner(Merger *merger, int64 cluster)
{
	merger->unions[cluster].cost = INFINITY;
	merger->unions[cluster].partner = -1;
	for (int64 other = 0; other < merger->count; other++)
		if (other != cluster && merger->unions[other].version >= 0)
			compare_pair(merger, cluster, other);
}

/* The cluster whose union is cheapest, by what is known. */
static int64
find_cheapest(const Merger *merger)
{
	int64		cheapest = -1;

	for (int64 c = 0; c < merger->count; c++)
		if (merger->unions[c].version >= 0 &&
			(cheapest < 0 || merger->unions[c].cost < merger->unions[cheapest].cost))
			cheapest = c;
	return cheapest;
}

/* Moves a centroid to the mean of itself and another one. */
static void
move_to_mean(Merger *merger, int64 to, int64 from)
{
	int			d = merger->dimension;
	double		total = merger->weights[to] + merger->weights[from];
	double		share = total > 0.0 ? merger->weights[from] / total : 0.0;
	double	   *centroid = merger->centroids + to * d;
	const double *other = merger->centroids + from * d;
	double		norm2 = 0.0;

	for (int j = 0; j < d; j++)
	{
		centroid[j] += share * (other[j] - centroid[j]);
		norm2 += centroid[j] * centroid[j];
	}
	for (int j = 0; merger->spherical && norm2 > 0.0 && j < d; j++)
		centroid[j] /= sqrt(norm2);
	merger->weights[to] = total;
}

/* Merges the two clusters whose union is cheapest. */
static void
merge_two(Merger *merger)
{
	for (;;)
	{
		int64		from = find_cheapest(merger);
		int64		to = merger->unions[from].partner;

		if (merger->unions[to].version == merger->unions[from].partner_version)
		{
			move_to_mean(merger, to, from);
			merger->unions[from].version = -1;
			merger->unions[to].version++;
			find_partner(merger, to);
			return;
		}
		find_partner(merger, from);
	}
}

/* Takes centroids away, in place. */
void
gk_merge_closest(double *centroids, double *weights, int64 count, int dimension, int64 excess,
				 bool spherical)
{
	Merger		merger = {.centroids = centroids,.weights = weights,.count = count,
	.dimension = dimension,.spherical = spherical};
	int64		kept = 0;

	merger.unions = gk_allocate_zero(count, sizeof(Union));
	for (int64 c = 0; c < count; c++)
	{
		merger.unions[c].cost = INFINITY;
		merger.unions[c].partner = -1;
	}
	for (int64 a = 0; a < count; a++)
		for (int64 b = a + 1; b < count; b++)
			compare_pair(&merger, a, b);
	for (int64 i = 0; i < excess; i++)
		merge_two(&merger);
	for (int64 c = 0; c < count; c++)
	{
		if (merger.unions[c].version < 0)
			continue;
		if (kept < c)
			memmove(centroids + kept * dimension, centroids + c * dimension,
					dimension * sizeof(double));
		kept++;
	}
	pfree(merger.unions);
}
