/*
 * Merging the clusters whose union costs least.
 *
 * All pairs are compared on one thread: k²/2 beside the n × k of a pass over the rows.  Most of
 * them end early, as soon as the distance so far costs more than the partners that both have.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "merge.h"

/* Features between two looks at whether a pair already costs too much. */
#define STRIDE 16

/* Pairs between two looks at interrupts, in features. */
#define INTERRUPT_WORK 10000000

/* The cheapest union of a cluster with another one. */
typedef struct Union
{
	double		cost;
	int64		cluster;
	int64		partner;
} Union;

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

/* Compares a pair, and notes it with both clusters if neither has a cheaper one. */
static void
compare_pair(const double *centroids, const double *weights, int dimension, Union *a, Union *b)
{
	double		weight_a = weights[a->cluster];
	double		weight_b = weights[b->cluster];
	double		factor = weight_a > 0.0 && weight_b > 0.0
		? weight_a * (weight_b / (weight_a + weight_b)) : 0.0;
	double		most = Max(a->cost, b->cost);
	double		cost;

	cost = factor > 0.0
		? factor * square_up_to(centroids + a->cluster * dimension,
								centroids + b->cluster * dimension, dimension, most / factor)
		: 0.0;
	if (cost < a->cost)
	{
		a->cost = cost;
		a->partner = b->cluster;
	}
	if (cost < b->cost)
	{
		b->cost = cost;
		b->partner = a->cluster;
	}
}

/* The cheapest union of each cluster. */
static Union *
find_unions(const double *centroids, const double *weights, int64 count, int dimension)
{
	Union	   *unions = gk_allocate(count, sizeof(Union));
	int64		work = 0;

	for (int64 i = 0; i < count; i++)
		unions[i] = (Union) {.cost = INFINITY,.cluster = i,.partner = i == 0 ? count - 1 : 0};
	for (int64 i = 0; i < count; i++)
		for (int64 j = i + 1; j < count; j++)
		{
			compare_pair(centroids, weights, dimension, &unions[i], &unions[j]);
			work += dimension;
			if (work >= INTERRUPT_WORK)
			{
				CHECK_FOR_INTERRUPTS();
				work = 0;
			}
		}
	return unions;
}

/* Ascending cost. */
static int
compare_unions(const void *a, const void *b, void *unused)
{
	const Union *left = a;
	const Union *right = b;

	if (left->cost != right->cost)
		return left->cost < right->cost ? -1 : 1;
	return (left->cluster > right->cluster) - (left->cluster < right->cluster);
}

/* Moves a centroid to the mean of itself and another one. */
static void
move_to_mean(double *centroids, const double *weights, int dimension, int64 to, int64 from,
			 bool spherical)
{
	double		total = weights[to] + weights[from];
	double		share = total > 0.0 ? weights[from] / total : 0.0;
	double	   *centroid = centroids + to * dimension;
	const double *other = centroids + from * dimension;
	double		norm2 = 0.0;

	for (int j = 0; j < dimension; j++)
	{
		centroid[j] += share * (other[j] - centroid[j]);
		norm2 += centroid[j] * centroid[j];
	}
	for (int j = 0; spherical && norm2 > 0.0 && j < dimension; j++)
		centroid[j] /= sqrt(norm2);
}

/* Marks the clusters that go, after moving their partners. */
static void
merge_unions(double *centroids, const double *weights, int64 count, int dimension,
			 const Union *unions, int64 excess, bool spherical, uint8 *gone)
{
	uint8	   *taken = gk_allocate_zero(count, sizeof(uint8));

	for (int64 i = 0; i < count && excess > 0; i++)
	{
		int64		from = unions[i].cluster;
		int64		to = unions[i].partner;

		if (taken[from] || taken[to])
			continue;
		move_to_mean(centroids, weights, dimension, to, from, spherical);
		taken[from] = taken[to] = gone[from] = 1;
		excess--;
	}
	for (int64 i = 0; i < count && excess > 0; i++)
		if (!gone[unions[i].cluster])
		{
			gone[unions[i].cluster] = 1;
			excess--;
		}
	pfree(taken);
}

/* Takes centroids away, in place. */
void
gk_merge_closest(double *centroids, const double *weights, int64 count, int dimension,
				 int64 excess, bool spherical)
{
	Union	   *unions = find_unions(centroids, weights, count, dimension);
	uint8	   *gone = gk_allocate_zero(count, sizeof(uint8));
	int64		kept = 0;

	qsort_interruptible(unions, count, sizeof(Union), compare_unions, NULL);
	merge_unions(centroids, weights, count, dimension, unions, excess, spherical, gone);
	for (int64 i = 0; i < count; i++)
	{
		if (gone[i])
			continue;
		if (kept < i)
			memmove(centroids + kept * dimension, centroids + i * dimension,
					dimension * sizeof(double));
		kept++;
	}
	pfree(gone);
	pfree(unions);
}
