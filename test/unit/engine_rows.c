/*
 * Very many rows, generated and checked by several threads.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine_rows.h"
#include "exact.h"

/* Parts of a job: more than cores, for an even end. */
#define PARTS 256
#define MOST_THREADS 64

typedef struct Job
{
	int64_t		count;
	void		(*part) (void *argument, int64_t from, int64_t to);
	void	   *argument;
	atomic_int	next;
} Job;

/* Takes parts of a job until none is left. */
static void *
do_parts(void *argument)
{
	Job		   *job = argument;
	int			number;

	while ((number = atomic_fetch_add(&job->next, 1)) < PARTS)
		job->part(job->argument, job->count * number / PARTS, job->count * (number + 1) / PARTS);
	return NULL;
}

/* Does parts of 0 .. count - 1 on all cores. */
void
in_parallel(int64_t count, void (*part) (void *argument, int64_t from, int64_t to), void *argument)
{
	Job			job = {.count = count,.part = part,.argument = argument};
	pthread_t	threads[MOST_THREADS];
	int			cores = (int) sysconf(_SC_NPROCESSORS_ONLN);
	int			others = cores > MOST_THREADS ? MOST_THREADS - 1 : cores - 1;

	for (int i = 0; i < others; i++)
		pthread_create(&threads[i], NULL, do_parts, &job);
	do_parts(&job);
	for (int i = 0; i < others; i++)
		pthread_join(threads[i], NULL);
}

/* What rows to make. */
typedef struct Making
{
	float	   *x;
	int			d;
	int64_t		blobs;
} Making;

/* Nearly normal: the sum of four uniform values of 16 bits, with variance 1. */
static float
nearly_normal(uint64_t number)
{
	uint64_t	bits = gk_mix(number * UINT64_C(0x9e3779b97f4a7c15) + 1);
	int			sum = (int) (bits & 0xffff) + (int) (bits >> 16 & 0xffff) +
		(int) (bits >> 32 & 0xffff) + (int) (bits >> 48);

	return (float) (sum - 131070) * (1.7320508f / 65536.0f);
}

/* Makes some of the rows. */
static void
make_part(void *argument, int64_t from, int64_t to)
{
	Making	   *making = argument;

	for (int64_t i = from; i < to; i++)
	{
		float	   *row = making->x + i * making->d;
		uint64_t	blob = making->blobs > 0 ? gk_mix(i) % (uint64_t) making->blobs : 0;

		for (int j = 0; j < making->d; j++)
		{
			row[j] = nearly_normal((uint64_t) i * making->d + j) + 0.0f;
			if (making->blobs > 0)
				row[j] += 20.0f * nearly_normal(~(blob * 65536 + j)) + 0.0f;
		}
	}
}

/* Nearly normal rows, or this many blobs that lie 20 σ apart in each feature. */
float *
make_rows(int64_t n, int d, int64_t blobs)
{
	Making		making = {malloc(n * d * sizeof(float)), d, blobs};

	in_parallel(n, make_part, &making);
	return making.x;
}

/* What labels to check. */
typedef struct Checking
{
	const Rows *rows;
	const double *centroids;
	int64_t		k;
	int64_t		every;
	int32_t    *labels;
	double	   *distance2;		/* NULL if not to be checked */
	atomic_llong wrong;
} Checking;

/* Checks some of the rows. */
static void
check_part(void *argument, int64_t from, int64_t to)
{
	Checking   *checking = argument;
	int64_t		last = checking->rows->n - 1;
	int64_t		every = checking->every;
	int			d = checking->rows->d;

	for (int64_t i = from; i < to; i++)
	{
		double		distance2;

		if (i % every != 0 && i != last)
			continue;
		if (nearest_centroid(checking->rows->x + i * d, d, checking->centroids, checking->k,
							 &distance2) != checking->labels[i] ||
			(checking->distance2 != NULL && checking->distance2[i] != distance2))
			atomic_fetch_add(&checking->wrong, 1);
	}
}

/*
 * Counts the rows whose label in the engine is not the nearest centroid or, if asked for, whose
 * d² is not the distance.  Checks the last row and every `every`-th.
 */
int64_t
wrong_labels(GkEngine *engine, const Rows *rows, const double *centroids, int64_t k, bool distances,
			 int64_t every)
{
	Checking	checking = {.rows = rows,.centroids = centroids,.k = k,.every = every};

	checking.labels = malloc(rows->n * sizeof(int32_t));
	if (distances)
		checking.distance2 = malloc(rows->n * sizeof(double));
	check_status(engine->class_of->fetch(engine, 0, rows->n, checking.labels, checking.distance2));
	in_parallel(rows->n, check_part, &checking);
	free(checking.labels);
	free(checking.distance2);
	return checking.wrong;
}

/* The same of about so many rows, with the centroids that the engine has. */
int64_t
wrong_in_sample(GkEngine *engine, const Rows *rows, int64_t k, int64_t sample)
{
	double	   *centroids = malloc(k * rows->d * sizeof(double));
	GkCommand	c = {.operation = GK_GET_CENTROIDS};
	int64_t		wrong;

	c.get_centroids.centroids = centroids;
	run(engine, &c);
	wrong = wrong_labels(engine, rows, centroids, k, true, rows->n / sample + 1);
	free(centroids);
	return wrong;
}

/* Sets a grid, and rows as the centroids. */
void
begin_with_rows(GkEngine *engine, const Rows *rows, int64_t k)
{
	int			d = rows->d;
	int		   *exponents = malloc((d + 1) * sizeof(int));
	double	   *origin = calloc(d, sizeof(double));
	double	   *centroids = malloc(k * d * sizeof(double));

	for (int j = 0; j < d; j++)
		exponents[j] = 20;
	exponents[d] = 0;
	set_grid(engine, false, exponents, origin);
	for (int64_t i = 0; i < k; i++)
		for (int j = 0; j < d; j++)
			centroids[i * d + j] = rows->x[i * (rows->n / k) * d + j];
	set_centroids(engine, centroids, k, false);
	free(exponents);
	free(origin);
	free(centroids);
}
