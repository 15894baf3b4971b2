/*
 * From many weighted candidates to k centroids: the last part of k-means||.
 *
 * Plain double arithmetic in a fixed order on one thread: there are few candidates compared
 * with the rows.  If a candidate's distance from its centroid is less than half the distance
 * between that centroid and a new one, the new one cannot be nearer.
 * The masses of the candidates are added up in parts, and only the parts that changed anew.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "candidates.h"
#include "random.h"

/* The most multiplications for greedy trials, and for the Lloyd steps after them. */
#define WORK_LIMIT 5e8

#define MAX_LLOYD_STEPS 10

/* The round number that distinguishes draws of the reduction from those over the rows. */
#define REDUCE_ROUND UINT32_C(0x80000000)

#define LANES 8

/* Candidates whose masses are added up together. */
#define PART 128

/* The state of k-means++ over the candidates. */
typedef struct Reduction
{
	const GkCandidates *candidates;
	double	   *centroids;
	int64		chosen;
	double	   *distance2;		/* count: d² to the nearest centroid */
	int64	   *nearest;		/* count: which one that is */
	double	   *parts;			/* masses of each PART candidates */
	bool	   *stale;			/* whose sum is to be made anew */
	double	   *reach;			/* k: a quarter of d² between the new centroid and each other */
	double	   *point;			/* dimension */
	uint64		draws;
} Reduction;

/* d² between a candidate and a point, in lanes that vectorise. */
static double
square(const float *restrict x, const double *restrict point, int dimension)
{
	double		lanes[LANES] = {0};
	double		sum = 0.0;
	int			j = 0;

	for (; j + LANES <= dimension; j += LANES)
		for (int lane = 0; lane < LANES; lane++)
		{
			double		difference = (double) x[j + lane] - point[j + lane];

			lanes[lane] += difference * difference;
		}
	for (; j < dimension; j++)
		lanes[0] += ((double) x[j] - point[j]) * ((double) x[j] - point[j]);
	for (int lane = 0; lane < LANES; lane++)
		sum += lanes[lane];
	return sum;
}

/* The features of a candidate. */
static const float *
features_of(const GkCandidates *candidates, int64 candidate)
{
	return candidates->features + candidate * candidates->dimension;
}

/* Makes a candidate the new centroid to compare the others with. */
static void
set_point(Reduction *reduction, int64 candidate)
{
	int			d = reduction->candidates->dimension;
	const float *x = features_of(reduction->candidates, candidate);

	for (int j = 0; j < d; j++)
		reduction->point[j] = x[j];
	for (int64 c = 0; c < reduction->chosen; c++)
		reduction->reach[c] = square(x, reduction->centroids + c * d, d) / 4;
}

/* d² of a candidate to the nearest centroid, the new one included. */
static inline double
nearer(const Reduction *reduction, int64 candidate)
{
	double		old = reduction->distance2[candidate];
	double		fresh;

	if (reduction->chosen > 0 && old <= reduction->reach[reduction->nearest[candidate]])
		return old;
	fresh = square(features_of(reduction->candidates, candidate), reduction->point,
				   reduction->candidates->dimension);
	return fresh < old ? fresh : old;
}

/* Σ of weight × d² if a candidate became a centroid. */
static double
potential(Reduction *reduction, int64 trial)
{
	double		sum = 0.0;

	set_point(reduction, trial);
	for (int64 i = 0; i < reduction->candidates->count; i++)
		sum += reduction->candidates->weights[i] * nearer(reduction, i);
	return sum;
}

/* Makes a candidate a centroid. */
static void
choose(Reduction *reduction, int64 candidate)
{
	int			d = reduction->candidates->dimension;

	set_point(reduction, candidate);
	for (int64 i = 0; i < reduction->candidates->count; i++)
	{
		double		fresh = nearer(reduction, i);

		if (fresh < reduction->distance2[i])
		{
			reduction->distance2[i] = fresh;
			reduction->nearest[i] = reduction->chosen;
			reduction->stale[i / PART] = true;
		}
	}
	memcpy(reduction->centroids + reduction->chosen * d, reduction->point, d * sizeof(double));
	reduction->chosen++;
}

/* A candidate's mass in a draw: its weight, times d² once there is a centroid. */
static inline double
mass_of(const Reduction *reduction, int64 candidate)
{
	double		weight = reduction->candidates->weights[candidate];

	return reduction->chosen == 0 ? weight : weight * reduction->distance2[candidate];
}

/* The sum of all masses. */
static double
total_mass(Reduction *reduction)
{
	int64		count = reduction->candidates->count;
	double		total = 0.0;

	for (int64 part = 0; part * PART < count; part++)
	{
		if (reduction->stale[part])
		{
			reduction->stale[part] = false;
			reduction->parts[part] = 0.0;
			for (int64 i = part * PART; i < Min(count, (part + 1) * PART); i++)
				reduction->parts[part] += mass_of(reduction, i);
		}
		total += reduction->parts[part];
	}
	return total;
}

/* Draws a candidate by mass; -1 if there is no mass. */
static int64
draw(Reduction *reduction)
{
	const GkCandidates *candidates = reduction->candidates;
	double		total = total_mass(reduction);
	double		target = (double) (gk_random_bits(candidates->seed, candidates->start, REDUCE_ROUND,
												  reduction->draws++) >> 11) * 0x1p-53 * total;
	int64		parts = (candidates->count + PART - 1) / PART;
	int64		last = -1;

	for (int64 part = 0; part < parts; part++)
	{
		if (part + 1 < parts && target >= reduction->parts[part])
		{
			target -= reduction->parts[part];
			if (reduction->parts[part] > 0.0)
				last = part * PART + PART - 1;
			continue;
		}
		for (int64 i = part * PART; i < Min(candidates->count, (part + 1) * PART); i++)
		{
			double		mass = mass_of(reduction, i);

			if (mass > 0.0)
				last = i;
			target -= mass;
			if (mass > 0.0 && target < 0.0)
				return i;
		}
	}
	while (last > 0 && !(mass_of(reduction, last) > 0.0))
		last--;
	return last;
}

/* The best of some candidates drawn; -1 if there is no mass. */
static int64
draw_best(Reduction *reduction, int trials)
{
	int64		best = draw(reduction);
	double		least;

	if (best < 0 || trials == 1 || reduction->chosen == 0)
		return best;
	least = potential(reduction, best);
	for (int trial = 1; trial < trials; trial++)
	{
		int64		candidate = draw(reduction);
		double		sum = potential(reduction, candidate);

		CHECK_FOR_INTERRUPTS();
		if (sum < least)
		{
			least = sum;
			best = candidate;
		}
	}
	return best;
}

/* How many trials greedy k-means++ makes for a centroid. */
int
gk_greedy_trials(int64 k)
{
	return 2 + (int) log((double) k);
}

/* The nearest centroid of a candidate. */
static int64
nearest_centroid(const GkCandidates *candidates, int64 candidate, const double *centroids,
				 int64 count)
{
	int			d = candidates->dimension;
	const float *x = features_of(candidates, candidate);
	double		least = square(x, centroids, d);
	int64		best = 0;

	for (int64 c = 1; c < count; c++)
	{
		double		distance2 = square(x, centroids + c * d, d);

		if (distance2 < least)
		{
			least = distance2;
			best = c;
		}
	}
	return best;
}

/* One weighted Lloyd step; false once no candidate changes its centroid. */
static bool
lloyd_step(Reduction *reduction, double *sums, double *weights)
{
	const GkCandidates *candidates = reduction->candidates;
	int			d = candidates->dimension;
	bool		changed = false;

	memset(sums, 0, reduction->chosen * d * sizeof(double));
	memset(weights, 0, reduction->chosen * sizeof(double));
	for (int64 i = 0; i < candidates->count; i++)
	{
		int64		label = nearest_centroid(candidates, i, reduction->centroids,
											 reduction->chosen);
		const float *x = features_of(candidates, i);

		CHECK_FOR_INTERRUPTS();
		changed |= label != reduction->nearest[i];
		reduction->nearest[i] = label;
		weights[label] += candidates->weights[i];
		for (int j = 0; j < d; j++)
			sums[label * d + j] += candidates->weights[i] * x[j];
	}
	for (int64 c = 0; c < reduction->chosen; c++)
		if (weights[c] > 0.0)
			for (int j = 0; j < d; j++)
				reduction->centroids[c * d + j] = sums[c * d + j] / weights[c];
	return changed;
}

/* Lloyd steps within the work limit. */
static void
polish(Reduction *reduction)
{
	const GkCandidates *candidates = reduction->candidates;
	double		work = (double) candidates->count * reduction->chosen * candidates->dimension;
	int			steps = (int) Min(MAX_LLOYD_STEPS, WORK_LIMIT / Max(work, 1.0));
	double	   *sums = gk_allocate(reduction->chosen * candidates->dimension, sizeof(double));
	double	   *weights = gk_allocate(reduction->chosen, sizeof(double));

	while (steps-- > 0 && lloyd_step(reduction, sums, weights))
		;
	pfree(weights);
	pfree(sums);
}

/* Weighted k-means++ on the candidates; greedy, with Lloyd steps after it, if they are few. */
int64
gk_reduce_candidates(const GkCandidates *candidates, int64 k, double *centroids)
{
	Reduction	reduction = {.candidates = candidates,.centroids = centroids};
	int			trials = gk_greedy_trials(k);

	if ((double) candidates->count * k * candidates->dimension * trials > WORK_LIMIT)
		trials = 1;
	reduction.distance2 = gk_allocate(candidates->count, sizeof(double));
	reduction.nearest = gk_allocate_zero(candidates->count, sizeof(int64));
	reduction.reach = gk_allocate(k, sizeof(double));
	reduction.point = gk_allocate(candidates->dimension, sizeof(double));
	reduction.parts = gk_allocate(candidates->count / PART + 1, sizeof(double));
	reduction.stale = gk_allocate(candidates->count / PART + 1, sizeof(bool));
	memset(reduction.stale, true, candidates->count / PART + 1);
	for (int64 i = 0; i < candidates->count; i++)
		reduction.distance2[i] = INFINITY;

	while (reduction.chosen < k)
	{
		int64		best = draw_best(&reduction, trials);

		CHECK_FOR_INTERRUPTS();
		if (best < 0)
			break;
		choose(&reduction, best);
	}
	polish(&reduction);
	pfree(reduction.stale);
	pfree(reduction.parts);
	pfree(reduction.point);
	pfree(reduction.reach);
	pfree(reduction.nearest);
	pfree(reduction.distance2);
	return reduction.chosen;
}
