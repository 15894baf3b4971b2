/*
 * The plane in which the centroids of a model lie farthest apart, and the places in it.
 *
 * Its axes are found by power iteration.  All is added up in a fixed order, and the rows are drawn
 * without regard to theirs, so the same rows give the same map.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "map.h"
#include "sample.h"

/* Steps of the iteration at most, and multiplications of all of them. */
#define MOST_STEPS 300
#define MOST_WORK 4e9
#define LEAST_STEPS 10

/* The iteration ends when the axis moves less than this. */
#define STEADY 1e-12

/* A spread below this part of the whole is what rounding leaves of none. */
#define NO_SPREAD 1e-20

/* Whole multiples of it have fractions that differ. */
#define GOLDEN_RATIO 1.6180339887498949

/* Rows that are kept, and their numbers, at most. */
#define SAMPLE_ROWS 500
#define SAMPLE_NUMBERS (1 << 22)

/* Points that an axis is sought for. */
typedef struct Cloud
{
	const double *points;		/* count × dimension */
	const double *weights;		/* count; NULL = all the same */
	int			count;
	int			dimension;
	double	   *mean;			/* dimension */
} Cloud;

/* Rows of which a map is made. */
typedef struct MapRows
{
	int			count;
	const float *features;		/* count × dimension, as compared */
	const int32 *clusters;		/* count: numbers of their clusters */
} MapRows;

/* The places; in the memory context current at the call. */
typedef struct Map
{
	double	   *x;				/* k */
	double	   *y;				/* k */
	float	   *sample;			/* count × 3: x, y, number of the cluster; in order of these */
} Map;

/* The weight of a point. */
static double
weight_of(const Cloud *cloud, int i)
{
	return cloud->weights != NULL ? cloud->weights[i] : 1.0;
}

/* The mean of the points. */
static void
find_mean(Cloud *cloud)
{
	int			d = cloud->dimension;
	double		total = 0.0;

	cloud->mean = gk_allocate_zero(d, sizeof(double));
	for (int i = 0; i < cloud->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		total += weight_of(cloud, i);
		for (int j = 0; j < d; j++)
			cloud->mean[j] += weight_of(cloud, i) * cloud->points[(int64) i * d + j];
	}
	for (int j = 0; j < d; j++)
		cloud->mean[j] /= total;
}

/* How far a point is from the mean along an axis. */
static double
place_along(const double *point, const double *mean, const double *axis, int d)
{
	double		place = 0.0;

	for (int j = 0; j < d; j++)
		place += (point[j] - mean[j]) * axis[j];
	return place;
}

/* Takes what lies along another axis off a vector. */
static void
take_off(double *vector, const double *other, int d)
{
	double		along = 0.0;

	if (other == NULL)
		return;
	for (int j = 0; j < d; j++)
		along += vector[j] * other[j];
	for (int j = 0; j < d; j++)
		vector[j] -= along * other[j];
}

/* Makes a vector one of length 1; its length before. */
static double
normalize(double *vector, int d)
{
	double		norm2 = 0.0;

	for (int j = 0; j < d; j++)
		norm2 += vector[j] * vector[j];
	for (int j = 0; norm2 > 0.0 && j < d; j++)
		vector[j] /= sqrt(norm2);
	return sqrt(norm2);
}

/* The direction of a point from the mean, beside another axis; how far it is, and how far there. */
static double
find_direction(const Cloud *cloud, int i, const double *other, double *direction, double *whole)
{
	int			d = cloud->dimension;
	double		weight = sqrt(weight_of(cloud, i));

	for (int j = 0; j < d; j++)
		direction[j] = cloud->points[(int64) i * d + j] - cloud->mean[j];
	*whole = normalize(direction, d) * weight;
	take_off(direction, other, d);
	return normalize(direction, d) * *whole;
}

/* Finds the direction of the point that is farthest from the mean; 0 if none is far from it. */
static double
find_farthest(const Cloud *cloud, const double *other, double *axis)
{
	int			d = cloud->dimension;
	double	   *direction = gk_allocate(d, sizeof(double));
	double		greatest = 0.0;
	double		spread = 0.0;

	for (int i = 0; i < cloud->count; i++)
	{
		double		whole;
		double		rest = find_direction(cloud, i, other, direction, &whole);

		CHECK_FOR_INTERRUPTS();
		spread = Max(spread, whole);
		if (rest > greatest)
			memcpy(axis, direction, d * sizeof(double));
		greatest = Max(rest, greatest);
	}
	pfree(direction);
	return greatest * greatest > NO_SPREAD * spread * spread ? greatest : 0.0;
}

/*
 * Begins with the farthest point and some of all others: the iteration would not leave an axis that
 * has nothing of the main one, as where points lie on lines.
 */
static bool
begin_axis(const Cloud *cloud, const double *other, double *axis)
{
	int			d = cloud->dimension;
	double		greatest = find_farthest(cloud, other, axis);
	double	   *direction;

	if (!(greatest > 0.0))
		return false;
	direction = gk_allocate(d, sizeof(double));
	for (int i = 0; i < cloud->count; i++)
	{
		double		whole;
		double		part = find_direction(cloud, i, other, direction, &whole) / greatest;
		double		along = 0.0;

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			along += direction[j] * axis[j];
		/* parts that differ, so that those of symmetric points do not cancel */
		part *= (along < 0.0 ? -1.0 : 1.0) * (1.0 + fmod(i * GOLDEN_RATIO, 1.0));
		for (int j = 0; j < d; j++)
			axis[j] += part * direction[j];
	}
	pfree(direction);
	return normalize(axis, d) > 0.0;
}

/* One step of the iteration: the next axis, and how far it is from the one before, squared. */
static double
improve_axis(const Cloud *cloud, const double *other, double *axis, double *next)
{
	int			d = cloud->dimension;
	double		moved = 0.0;

	memset(next, 0, d * sizeof(double));
	for (int i = 0; i < cloud->count; i++)
	{
		const double *point = cloud->points + (int64) i * d;
		double		place = place_along(point, cloud->mean, axis, d) * weight_of(cloud, i);

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			next[j] += place * (point[j] - cloud->mean[j]);
	}
	take_off(next, other, d);
	if (!(normalize(next, d) > 0.0))
		return 0.0;
	for (int j = 0; j < d; j++)
	{
		moved += (next[j] - axis[j]) * (next[j] - axis[j]);
		axis[j] = next[j];
	}
	return moved;
}

/* Turns an axis so that its largest component is positive. */
static void
choose_sign(double *axis, int d)
{
	int			largest = 0;

	for (int j = 1; j < d; j++)
		if (fabs(axis[j]) > fabs(axis[largest]))
			largest = j;
	if (axis[largest] >= 0.0)
		return;
	for (int j = 0; j < d; j++)
		axis[j] = axis[j] == 0.0 ? 0.0 : -axis[j];
}

/* The main axis of points, beside another; NULL if they do not spread. */
static double *
find_axis(const Cloud *cloud, const double *other)
{
	int			d = cloud->dimension;
	double	   *axis = gk_allocate(d, sizeof(double));
	double	   *next = gk_allocate(d, sizeof(double));
	double		steps = MOST_WORK / (4.0 * cloud->count * d);

	steps = Max(LEAST_STEPS, Min(steps, MOST_STEPS));
	if (!begin_axis(cloud, other, axis))
		return NULL;
	for (int step = 0; step < steps; step++)
		if (improve_axis(cloud, other, axis, next) < STEADY * STEADY)
			break;
	choose_sign(axis, d);
	pfree(next);
	return axis;
}

/* The next axis: of the centroids, or of the rows where those have none left. */
static double *
next_axis(const Cloud *centroids, const Cloud *rows, const double *other)
{
	double	   *axis = find_axis(centroids, other);

	return axis == NULL && rows->count > 0 ? find_axis(rows, other) : axis;
}

/* The order of sample rows. */
static int
compare_samples(const void *a, const void *b, void *argument)
{
	const float *left = a;
	const float *right = b;

	for (int i = 0; i < 3; i++)
		if (left[i] != right[i])
			return left[i] < right[i] ? -1 : 1;
	return 0;
}

/* The weights of the centroids, the greatest of which is 1; NULL if none has any. */
static double *
scale_weights(const double *weights, int k)
{
	double	   *scaled = gk_allocate(k, sizeof(double));
	double		greatest = 0.0;

	for (int i = 0; weights != NULL && i < k; i++)
		greatest = Max(greatest, weights[i]);
	if (!(greatest > 0.0) || !isfinite(greatest))
		return NULL;
	for (int i = 0; i < k; i++)
		scaled[i] = weights[i] / greatest;
	return scaled;
}

/* The rows as a cloud of points. */
static Cloud
cloud_of_rows(const MapRows *rows, int d)
{
	Cloud		cloud = {.count = rows->count,.dimension = d};
	double	   *points = gk_allocate((int64) rows->count * d, sizeof(double));

	for (int64 i = 0; i < (int64) rows->count * d; i++)
		points[i] = rows->features[i];
	cloud.points = points;
	if (rows->count > 0)
		find_mean(&cloud);
	return cloud;
}

/* A place as it is kept: what is not finite as float would not be read again. */
static double
place_of(const double *point, const double *mean, const double *axis, int d)
{
	double		place = axis != NULL ? place_along(point, mean, axis, d) : 0.0;

	return fabs(place) < 1e38 ? place : copysign(1e38, place);
}

/*
 * Finds the plane and the places.  Its axes are the main ones of the centroids, weighted, or of the
 * rows where the centroids have none left, as two centroids lie on a line.  `weights` may be NULL:
 * all the same.
 */
static void
find_map(const double *points, const double *weights, int k, int dimension,
		 const MapRows *rows, Map *map)
{
	Cloud		centroids = {.points = points,.weights = scale_weights(weights, k),.count = k,
	.dimension = dimension};
	Cloud		others = cloud_of_rows(rows, dimension);
	double	   *first;
	double	   *second;

	find_mean(&centroids);
	first = next_axis(&centroids, &others, NULL);
	second = first != NULL ? next_axis(&centroids, &others, first) : NULL;
	map->x = gk_allocate(k, sizeof(double));
	map->y = gk_allocate(k, sizeof(double));
	map->sample = gk_allocate(Max(1, 3 * (int64) rows->count), sizeof(float));
	for (int c = 0; c < k; c++)
	{
		map->x[c] = place_of(points + (int64) c * dimension, centroids.mean, first, dimension);
		map->y[c] = place_of(points + (int64) c * dimension, centroids.mean, second, dimension);
	}
	for (int i = 0; i < rows->count; i++)
	{
		const double *point = others.points + (int64) i * dimension;

		map->sample[3 * i] = place_of(point, centroids.mean, first, dimension);
		map->sample[3 * i + 1] = place_of(point, centroids.mean, second, dimension);
		map->sample[3 * i + 2] = rows->clusters[i];
	}
	qsort_interruptible(map->sample, rows->count, 3 * sizeof(float), compare_samples, NULL);
}

/* Draws rows, and fetches them. */
static void
sample_rows(const GkCall *call, MapRows *rows)
{
	const GkFit *fit = &call->fit;
	int			d = call->arguments.fit.dimension;
	int64		most = Max(2, Min(SAMPLE_ROWS, SAMPLE_NUMBERS / d));
	MemoryContext before = MemoryContextSwitchTo(gk_job_context(call->job));
	int64	   *numbers = gk_allocate(most, sizeof(int64));
	float	   *features = gk_allocate(most * d, sizeof(float));
	int32	   *clusters = gk_allocate(most, sizeof(int32));

	rows->count = (int) gk_sample_rows(call->job, &call->arguments.fit, fit, most, numbers);
	gk_sample_features(call->job, &call->arguments.fit, fit, numbers, rows->count, features,
					   clusters);
	for (int i = 0; i < rows->count; i++)
		clusters[i] = fit->clusters[clusters[i]].id;
	rows->features = features;
	rows->clusters = clusters;
	MemoryContextSwitchTo(before);
}

/* Puts a map into a draft. */
static void
put_map(GkDraft *draft, const Map *map, int k, int count)
{
	gk_draft_doubles(draft, GK_MODEL_MAP_X, map->x, k);
	gk_draft_doubles(draft, GK_MODEL_MAP_Y, map->y, k);
	if (count > 0)
		gk_draft_reals(draft, GK_MODEL_SAMPLE_POINTS, map->sample, count, 3);
}

/* Puts the map of a fit into a draft. */
void
gk_draft_map(GkDraft *draft, const GkCall *call)
{
	const GkFit *fit = &call->fit;
	int			k = (int) fit->k;
	double	   *weights = gk_allocate(k, sizeof(double));
	MapRows		rows = {0};
	Map		map;

	for (int c = 0; c < k; c++)
		weights[c] = fit->clusters[c].weight;
	sample_rows(call, &rows);
	find_map(fit->model.points, weights, k, call->arguments.fit.dimension, &rows, &map);
	put_map(draft, &map, k, rows.count);
}

/* Puts the map of centroids without rows into a draft. */
void
gk_draft_centroid_map(GkDraft *draft, const double *points, int k, int dimension)
{
	MapRows		rows = {0};
	Map		map;

	find_map(points, NULL, k, dimension, &rows, &map);
	put_map(draft, &map, k, 0);
}
