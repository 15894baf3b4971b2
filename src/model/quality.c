/*
 * Figures of a clustering: silhouettes, Davies-Bouldin, Calinski-Harabasz, sums of squares.
 *
 * The engine compares all rows twice: with the centroids, and with the means of the clusters.  Here
 * its distances are added up, as integers, so the order of the rows does not matter.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "deviations.h"
#include "exact.h"
#include "means.h"
#include "nearest.h"
#include "quality.h"
#include "silhouette.h"
#include "sum.h"

/* Rows that are compared at once. */
#define WINDOW_ROWS (1 << 17)
/*
 * Bits of a value in a sum, which leave room for all rows.  Every sum has a scale of its own, by
 * what its own values are at most: what is small is not rounded away because other rows are far.
 */
#define SUM_BITS 86

/* A sum of integers: the same in any order. */
typedef int128 Sum;

StaticAssertDecl(__alignof__(Sum) <= MAXIMUM_ALIGNOF, "palloc aligns no more");

/* Sums over the rows of a label. */
typedef struct Tally
{
	double		farthest;		/* the greatest distance to the centroid */
	double		apart2;			/* d² of mean and centroid */
	double		spread_scale;
	double		within_scale;
	Sum			simplified;		/* Σ simplified silhouette */
	Sum			spread;			/* Σ d to the mean */
	Sum			within;			/* Σ d² to it */
} Tally;

/* A measurement under way. */
typedef struct Measurement
{
	const GkClustering *clustering;
	GkQuality  *quality;
	double	   *means;			/* k × dimension */
	double	   *engine_means;	/* those that the engine has, in which weights count */
	Tally	   *tallies;		/* k */
	int32	   *group_of;		/* k: number of a label among those that have rows */
	double	   *points;			/* what the rows are compared with: groups × dimension */
	int64	   *ends;			/* of groups of one point each */

	/* rows at a time, and what is known of them */
	int64		window;
	int32	   *labels;
	int32	   *groups;
	double	   *own;			/* distance to the own point, and to the nearest other one */
	double	   *other;
} Measurement;

/* Uses the distances of one row. */
typedef void (*UseDistances) (Measurement *measurement, int32 label, double own, double other);

/* The power of two by which values up to a limit have SUM_BITS bits. */
static inline double
scale_for(double limit)
{
	int			exponent = limit > 0.0 ? gk_exponent_double(limit) : 0;

	return gk_power_of_two(Min(Max(SUM_BITS - 1 - exponent, -1000), 1000));
}

/* Adds a value to a sum. */
static inline void
add(Sum *sum, double value, double scale)
{
	*sum += (Sum) rint(value * scale);
}

/* What a sum stands for. */
static double
value_of(Sum sum, double scale)
{
	return (double) sum / scale;
}

/* d² of two points. */
static double
square_apart(const double *left, const double *right, int dimension)
{
	double		sum = 0.0;

	for (int j = 0; j < dimension; j++)
		sum += (left[j] - right[j]) * (left[j] - right[j]);
	return sum;
}

/* The mean of the rows of a label. */
static inline const double *
mean_of(const Measurement *measurement, int label)
{
	return measurement->means + (int64) label * measurement->clustering->dimension;
}

/* Gives the engine the centroids of the labels; an iteration labels the rows, or else this does. */
static void
set_centroids(const GkClustering *clustering, bool label)
{
	GkCommand	centroids = {.operation = GK_CENTROIDS};
	GkCommand	assign = {.operation = GK_ASSIGN};
	int			d = clustering->dimension;
	double	   *points = gk_allocate((int64) clustering->k * d, sizeof(double));

	for (int64 i = 0; i < clustering->k; i++)
	{
		CHECK_FOR_INTERRUPTS();
		gk_unpack_centroid(clustering->packed, d, i, points + i * d);
	}
	centroids.centroids.centroids = points;
	centroids.centroids.k = clustering->k;
	gk_run(clustering->job, &centroids);
	if (label)
		gk_run(clustering->job, &assign);
	pfree(points);
}

/* Counts the rows of the labels, and numbers those that have some. */
static void
count_rows(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;

	for (int64 from = 0; from < clustering->rows; from += measurement->window)
	{
		int64		count = Min(measurement->window, clustering->rows - from);

		CHECK_FOR_INTERRUPTS();
		gk_read_labels(clustering, from, count, measurement->labels);
		for (int64 i = 0; i < count; i++)
			if (measurement->labels[i] >= 0)
				quality->sizes[measurement->labels[i]]++;
	}
	for (int c = 0; c < clustering->k; c++)
	{
		quality->rows += quality->sizes[c];
		measurement->group_of[c] = quality->clusters;
		quality->clusters += quality->sizes[c] > 0;
	}
}

/* The centroid of a label: the one that was given, or the one that a fit makes of its rows. */
static void
find_centroid(const Measurement *measurement, int c, double *centroid)
{
	const GkClustering *clustering = measurement->clustering;
	const double *mean = mean_of(measurement, c);
	int			d = clustering->dimension;
	double		norm2 = 0.0;

	if (clustering->packed != NULL)
	{
		gk_unpack_centroid(clustering->packed, d, c, centroid);
		return;
	}
	for (int j = 0; j < d; j++)
		norm2 += mean[j] * mean[j];
	for (int j = 0; j < d; j++)
		centroid[j] = clustering->metric == GK_COSINE && norm2 > 0.0 ? mean[j] / sqrt(norm2)
			: mean[j];
}

/* Sets what the rows are compared with: the centroids, or the means. */
static void
set_points(Measurement *measurement, bool centroids)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;

	for (int c = 0; c < clustering->k; c++)
	{
		int64		group = measurement->group_of[c];

		CHECK_FOR_INTERRUPTS();
		if (measurement->quality->sizes[c] == 0)
			continue;
		measurement->ends[group] = group + 1;
		if (centroids)
			find_centroid(measurement, c, measurement->points + group * d);
		else
			memcpy(measurement->points + group * d, mean_of(measurement, c), d * sizeof(double));
	}
}

/* Has the engine compare a window of rows with all points, or with that of the own label. */
static void
compare_window(Measurement *measurement, int64 from, int64 count, bool all, bool cosine)
{
	GkCommand	command = {.operation = GK_SEPARATION};

	gk_read_labels(measurement->clustering, from, count, measurement->labels);
	for (int64 i = 0; i < count; i++)
		measurement->groups[i] = measurement->labels[i] < 0 ? 0
			: measurement->group_of[measurement->labels[i]];
	command.separation.points = measurement->points;
	command.separation.ends = measurement->ends;
	command.separation.groups = measurement->quality->clusters;
	command.separation.first = from;
	command.separation.count = count;
	command.separation.labels = measurement->groups;
	command.separation.cosine = cosine;
	command.separation.own = measurement->own;
	command.separation.other = all ? measurement->other : NULL;
	gk_run(measurement->clustering->job, &command);
}

/* Compares all rows that count with all points, or with that of the own label. */
static void
compare_rows(Measurement *measurement, bool all, UseDistances use)
{
	const GkClustering *clustering = measurement->clustering;

	for (int64 from = 0; from < clustering->rows; from += measurement->window)
	{
		int64		count = Min(measurement->window, clustering->rows - from);

		compare_window(measurement, from, count, all,
					   all && clustering->metric == GK_COSINE);
		for (int64 i = 0; i < count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (measurement->labels[i] >= 0)
				use(measurement, measurement->labels[i], measurement->own[i],
					all ? measurement->other[i] : NAN);
		}
	}
}

/* Adds the distances of a row to the centroids. */
static void
add_separation(Measurement *measurement, int32 label, double own, double other)
{
	Tally	   *tally = &measurement->tallies[label];

	tally->farthest = Max(tally->farthest, own);
	add(&tally->simplified, gk_silhouette(own, other), scale_for(1.0));
}

/* Adds the distance of a row to the mean of its cluster. */
static void
add_spread(Measurement *measurement, int32 label, double own, double other)
{
	Tally	   *tally = &measurement->tallies[label];

	add(&tally->spread, own, tally->spread_scale);
	add(&tally->within, own * own, tally->within_scale);
}

/* The scales of the sums of distances to the means: none is greater than by way of the centroid. */
static void
find_scales(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;
	double	   *centroid = gk_allocate(d, sizeof(double));

	for (int c = 0; c < clustering->k; c++)
	{
		Tally	   *tally = &measurement->tallies[c];
		double		limit;

		CHECK_FOR_INTERRUPTS();
		find_centroid(measurement, c, centroid);
		tally->apart2 = square_apart(centroid, mean_of(measurement, c), d);
		if (clustering->metric == GK_COSINE)
			tally->farthest = sqrt(2.0 * tally->farthest);
		limit = tally->farthest + sqrt(tally->apart2);
		tally->spread_scale = scale_for(limit);
		tally->within_scale = scale_for(limit * limit);
	}
	pfree(centroid);
}

/*
 * The greatest distance of a row to the engine's mean of its cluster is not above this.  Directions
 * are within 2 of each other, and their distances are too much rounded.
 */
static double
find_reach(const Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;
	double	   *centroid;
	double		reach = 0.0;

	if (clustering->metric == GK_COSINE)
		return HUGE_VAL;
	centroid = gk_allocate(d, sizeof(double));
	for (int c = 0; c < clustering->k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		if (measurement->quality->sizes[c] == 0)
			continue;
		find_centroid(measurement, c, centroid);
		reach = Max(reach, measurement->tallies[c].farthest +
					sqrt(square_apart(centroid, measurement->engine_means + (int64) c * d, d)));
	}
	pfree(centroid);
	return reach;
}

/* The deviations within the clusters, around the means of the engine. */
static void
find_deviations(const Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	int64		numbers = (int64) clustering->k * clustering->dimension;
	GkQuality  *quality = measurement->quality;

	quality->deviations = gk_allocate(numbers, sizeof(double));
	gk_find_deviations(clustering, measurement->engine_means, find_reach(measurement),
					   quality->deviations);
	if (measurement->engine_means != measurement->means)
		pfree(measurement->engine_means);
}

/* The means of the rows of the labels, and the labels if there are none yet. */
static void
find_means(Measurement *measurement, GkSample *sample, bool by_engine)
{
	const GkClustering *clustering = measurement->clustering;

	if (clustering->packed != NULL)
		set_centroids(clustering, !by_engine);
	measurement->engine_means = measurement->means;
	if (!by_engine && clustering->with_deviations)
		measurement->engine_means = gk_allocate((int64) clustering->k * clustering->dimension,
												sizeof(double));
	if (by_engine || clustering->with_deviations)
		gk_find_means_by_engine(clustering, measurement->engine_means);
	count_rows(measurement);
	if (!by_engine)
		gk_find_means(clustering, measurement->quality->sizes, sample, measurement->means);
}

/* Compares the rows with the centroids, and with the means. */
static void
find_sums(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;

	measurement->points = gk_allocate((int64) quality->clusters * clustering->dimension,
									  sizeof(double));
	measurement->ends = gk_allocate(quality->clusters, sizeof(int64));
	set_points(measurement, true);
	compare_rows(measurement, true, add_separation);
	find_scales(measurement);
	if (clustering->with_deviations)
		find_deviations(measurement);
	set_points(measurement, false);
	compare_rows(measurement, false, add_spread);
}

/*
 * Raises the terms of two clusters to (S + S) / M.  Most quotients are less than both terms, which
 * squares tell without a root; the margin is far above their rounding, unless a term is tiny.
 */
static void
raise_terms(const Measurement *measurement, const double *spread, double *terms, int a, int b)
{
	double		both = spread[a] + spread[b];
	double		least = Min(terms[a], terms[b]);
	double		apart2 = square_apart(mean_of(measurement, a), mean_of(measurement, b),
									  measurement->clustering->dimension);
	double		term;

	if (apart2 == 0.0 || (least > 1e-100 && both * both < 0.999999 * (least * least) * apart2))
		return;
	term = both / sqrt(apart2);
	terms[a] = Max(terms[a], term);
	terms[b] = Max(terms[b], term);
}

/* The mean over the clusters of the greatest (S + S) / M. */
static double
davies_bouldin(const Measurement *measurement)
{
	const GkQuality *quality = measurement->quality;
	int			k = measurement->clustering->k;
	double	   *spread = gk_allocate(k, sizeof(double));
	double	   *terms = gk_allocate_zero(k, sizeof(double));

	for (int c = 0; c < k; c++)
		spread[c] = quality->sizes[c] == 0 ? 0.0
			: value_of(measurement->tallies[c].spread, measurement->tallies[c].spread_scale) /
			quality->sizes[c];
	for (int a = 0; a < k; a++)
		for (int b = 0; b < a && quality->sizes[a] > 0; b++)
		{
			CHECK_FOR_INTERRUPTS();
			if (quality->sizes[b] > 0)
				raise_terms(measurement, spread, terms, a, b);
		}
	return gk_sum(terms, k) / quality->clusters;
}

/* The nearest other centroid with rows of each centroid that was given. */
static void
find_nearest(const GkClustering *clustering, GkQuality *quality)
{
	int			d = clustering->dimension;
	double	   *centroid = gk_allocate(d, sizeof(double));
	int64		places = GK_GROUPS((int64) clustering->k) * GK_GROUP;
	double	   *distances2 = gk_allocate(places, sizeof(double));

	for (int c = 0; c < clustering->k; c++)
	{
		double		least = HUGE_VAL;

		CHECK_FOR_INTERRUPTS();
		gk_unpack_centroid(clustering->packed, d, c, centroid);
		gk_distances2(clustering->packed, centroid, d, clustering->k, distances2);
		quality->nearest[c] = -1;
		for (int other = 0; other < clustering->k; other++)
			if (other != c && quality->sizes[other] > 0 && distances2[other] < least)
			{
				least = distances2[other];
				quality->nearest[c] = other;
			}
		quality->separations[c] = quality->nearest[c] < 0 ? NAN
			: gk_distance(clustering->metric, least);
	}
}

/*
 * The mean of all rows, as what it is above the least of the means.  Its sums are on a grid, as the
 * order of the labels varies.
 */
static void
find_centre(const Measurement *measurement, double *least, double *above)
{
	const GkQuality *quality = measurement->quality;
	int			d = measurement->clustering->dimension;
	int			k = measurement->clustering->k;
	double	   *greatest = gk_allocate(d, sizeof(double));
	Sum		   *sums = gk_allocate_zero(d, sizeof(Sum));

	for (int j = 0; j < d; j++)
	{
		least[j] = HUGE_VAL;
		greatest[j] = -HUGE_VAL;
	}
	for (int c = 0; c < k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; quality->sizes[c] > 0 && j < d; j++)
		{
			least[j] = Min(least[j], mean_of(measurement, c)[j]);
			greatest[j] = Max(greatest[j], mean_of(measurement, c)[j]);
		}
	}
	for (int c = 0; c < k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; quality->sizes[c] > 0 && j < d; j++)
			add(&sums[j], (mean_of(measurement, c)[j] - least[j]) *
				((double) quality->sizes[c] / quality->rows), scale_for(greatest[j] - least[j]));
	}
	for (int j = 0; j < d; j++)
		above[j] = value_of(sums[j], scale_for(greatest[j] - least[j]));
	pfree(sums);
	pfree(greatest);
}

/* The sum of squares of the means around the mean of all rows. */
static double
between_means(const Measurement *measurement)
{
	const GkQuality *quality = measurement->quality;
	int			d = measurement->clustering->dimension;
	int			k = measurement->clustering->k;
	double	   *least = gk_allocate(d, sizeof(double));
	double	   *above = gk_allocate(d, sizeof(double));
	double	   *terms = gk_allocate_zero(k, sizeof(double));
	double		sum;

	find_centre(measurement, least, above);
	for (int c = 0; c < k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int j = 0; quality->sizes[c] > 0 && j < d; j++)
		{
			/* far from zero, the mean of all rows alone would lose its digits */
			double		apart = mean_of(measurement, c)[j] - least[j] - above[j];

			terms[c] += quality->sizes[c] * (apart * apart);
		}
	}
	sum = gk_sum(terms, k);
	pfree(terms);
	pfree(above);
	pfree(least);
	return sum;
}

/* The sums of squares within the clusters, around the means and around the centroids. */
static void
add_squares(Measurement *measurement)
{
	GkQuality  *quality = measurement->quality;
	int			k = measurement->clustering->k;
	double	   *within = gk_allocate(k, sizeof(double));
	double	   *inertia = gk_allocate(k, sizeof(double));

	for (int c = 0; c < k; c++)
	{
		within[c] = value_of(measurement->tallies[c].within, measurement->tallies[c].within_scale);
		inertia[c] = within[c] + quality->sizes[c] * measurement->tallies[c].apart2;
	}
	quality->within = gk_sum(within, k);
	quality->inertia = gk_sum(inertia, k);
	pfree(inertia);
	pfree(within);
}

/* Turns the sums into figures. */
static void
derive_figures(Measurement *measurement)
{
	GkQuality  *quality = measurement->quality;
	double		between = between_means(measurement);
	int			clusters = quality->clusters;
	double		rows = quality->rows;
	Sum			simplified = 0;

	add_squares(measurement);
	for (int c = 0; c < measurement->clustering->k; c++)
	{
		const Tally *tally = &measurement->tallies[c];

		simplified += tally->simplified;
		quality->simplified_silhouettes[c] = quality->sizes[c] == 0 || clusters < 2 ? NAN
			: value_of(tally->simplified, scale_for(1.0)) / quality->sizes[c];
	}
	quality->total = quality->within + between;
	if (clusters < 2 || clusters >= rows)
		return;
	quality->simplified_silhouette = value_of(simplified, scale_for(1.0)) / rows;
	quality->davies_bouldin = davies_bouldin(measurement);
	quality->calinski_harabasz = quality->within > 0.0 ? between / (clusters - 1) /
		(quality->within / (rows - clusters)) : 1.0;
}

/* Room for a measurement and its results. */
static void
begin_measurement(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;
	int			k = clustering->k;

	measurement->window = Max(1, Min(WINDOW_ROWS, clustering->rows));
	measurement->labels = gk_allocate(measurement->window, sizeof(int32));
	measurement->groups = gk_allocate(measurement->window, sizeof(int32));
	measurement->own = gk_allocate(measurement->window, sizeof(double));
	measurement->other = gk_allocate(measurement->window, sizeof(double));
	measurement->means = gk_allocate_zero((int64) k * clustering->dimension, sizeof(double));
	measurement->tallies = gk_allocate_zero(k, sizeof(Tally));
	measurement->group_of = gk_allocate(k, sizeof(int32));
	quality->silhouette = quality->simplified_silhouette = NAN;
	quality->davies_bouldin = quality->calinski_harabasz = NAN;
	quality->sizes = gk_allocate_zero(k, sizeof(int64));
	quality->silhouettes = gk_allocate(k, sizeof(double));
	quality->simplified_silhouettes = gk_allocate_zero(k, sizeof(double));
	quality->nearest = gk_allocate(k, sizeof(int));
	quality->separations = gk_allocate(k, sizeof(double));
	for (int c = 0; c < k; c++)
		quality->silhouettes[c] = NAN;
}

/* Measures a clustering. */
void
gk_measure(const GkClustering *clustering, GkQuality *quality)
{
	Measurement measurement = {.clustering = clustering,.quality = quality};
	bool		by_engine = clustering->labels == NULL && !clustering->weighted;
	GkSample   *sample = gk_begin_sample(clustering, by_engine);

	memset(quality, 0, sizeof(*quality));
	begin_measurement(&measurement);
	find_means(&measurement, sample, by_engine);
	find_sums(&measurement);
	quality->silhouette_rows = gk_measure_sample(sample, &quality->silhouette,
												 quality->silhouettes);
	derive_figures(&measurement);
	if (clustering->packed != NULL)
		find_nearest(clustering, quality);
}
