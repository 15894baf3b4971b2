/*
 * Figures of a clustering: silhouettes, Davies-Bouldin, Calinski-Harabasz, sums of squares.
 *
 * The engine compares rows with centroids and with one another; here the rows are gone through
 * three times: for their ranges and the sample, for the means, and for the sums around these.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "nearest.h"
#include "quality.h"
#include "silhouette.h"

/* Numbers that are fetched from the engine at once. */
#define WINDOW_NUMBERS (1 << 20)
/*
 * Bits of a value in a sum, which leave room for all rows.  Every sum has a scale of its own, by
 * what its own values are at most: what is small is not rounded away because other rows are far.
 */
#define SUM_BITS 86

/* A sum of integers: the same in any order. */
typedef int128 Sum;

StaticAssertDecl(__alignof__(Sum) <= MAXIMUM_ALIGNOF, "palloc aligns no more");

/* Sums over the rows of a label, or over all. */
typedef struct Tally
{
	double		inertia_scale;
	double		within_scale;
	double		spread_scale;
	Sum			inertia;		/* Σ d² to the centroid */
	Sum			within;			/* Σ d² to the mean */
	Sum			spread;			/* Σ d to the mean */
	Sum			simplified;		/* Σ simplified silhouette */
} Tally;

/* A measurement under way.  Arrays of k + 1 have a place for all rows behind those of labels. */
typedef struct Measurement
{
	const GkClustering *clustering;
	GkQuality  *quality;
	GkSample   *sample;

	/* rows at a time, and what is known of them */
	int64		window;
	int64	   *numbers;
	float	   *features;		/* window × dimension */
	int32	   *groups;			/* number of the label's centroid among ->points */
	double	   *own;			/* distance to it, and to the nearest other one */
	double	   *other;

	float	   *least;			/* (k + 1) × dimension */
	float	   *greatest;
	Sum		   *sums;			/* (k + 1) × dimension: of the features */
	double	   *means;			/* (k + 1) × dimension */
	Tally	   *tallies;		/* k + 1 */
	double	   *points;			/* centroids of the labels that have rows, row-major */
	int64	   *ends;			/* of groups of one of them each */
	int32	   *group_of;		/* k: number of a label's centroid among them */
} Measurement;

/* Uses one row: its number, its place in the window, its label and its features. */
typedef void (*UseRow) (Measurement *measurement, int64 number, int64 place, int32 label,
						const float *features);

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

/* d² of a row to a point. */
static double
square_distance(const float *features, const double *point, int dimension)
{
	double		sum = 0.0;

	for (int j = 0; j < dimension; j++)
		sum = gk_add_square(sum, features[j], point[j]);
	return sum;
}

/* Fetches a window of rows from the engine. */
static void
fetch_window(Measurement *measurement, int64 from, int64 count)
{
	for (int64 i = 0; i < count; i++)
		measurement->numbers[i] = from + i;
	gk_fetch_rows(measurement->clustering->job, measurement->numbers, count,
				  measurement->features);
}

/* Has the engine compare a window of rows with the centroids. */
static void
compare_window(Measurement *measurement, int64 from, int64 count)
{
	const GkClustering *clustering = measurement->clustering;
	GkCommand	command = {.operation = GK_SEPARATION};

	if (measurement->quality->clusters < 2)
		return;
	for (int64 i = 0; i < count; i++)
	{
		int32		label = clustering->labels[from + i];

		measurement->groups[i] = label < 0 ? 0 : measurement->group_of[label];
	}
	command.separation.points = measurement->points;
	command.separation.ends = measurement->ends;
	command.separation.groups = measurement->quality->clusters;
	command.separation.first = from;
	command.separation.count = count;
	command.separation.labels = measurement->groups;
	command.separation.cosine = clustering->metric == GK_COSINE;
	command.separation.own = measurement->own;
	command.separation.other = measurement->other;
	gk_run(clustering->job, &command);
}

/* Goes through all rows that count; compared with the centroids once there are some. */
static void
for_each_row(Measurement *measurement, UseRow use)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;

	for (int64 from = 0; from < clustering->rows; from += measurement->window)
	{
		int64		count = Min(measurement->window, clustering->rows - from);

		fetch_window(measurement, from, count);
		if (measurement->points != NULL)
			compare_window(measurement, from, count);
		for (int64 i = 0; i < count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (clustering->labels[from + i] >= 0)
				use(measurement, from + i, i, clustering->labels[from + i],
					measurement->features + i * d);
		}
	}
}

/* Widens the range of a label, or of all rows, by a row. */
static void
widen(Measurement *measurement, int64 place, bool first, const float *features)
{
	int			d = measurement->clustering->dimension;
	float	   *least = measurement->least + place * d;
	float	   *greatest = measurement->greatest + place * d;

	for (int j = 0; j < d; j++)
	{
		least[j] = first ? features[j] : Min(least[j], features[j]);
		greatest[j] = first ? features[j] : Max(greatest[j], features[j]);
	}
}

/* Counts a row, takes it into the ranges and perhaps into the sample. */
static void
look_at_row(Measurement *measurement, int64 number, int64 place, int32 label,
			const float *features)
{
	GkQuality  *quality = measurement->quality;

	widen(measurement, label, quality->sizes[label] == 0, features);
	widen(measurement, measurement->clustering->k, quality->rows == 0, features);
	quality->clusters += quality->sizes[label] == 0;
	quality->sizes[label]++;
	quality->rows++;
	gk_offer_row(measurement->sample, number, label, features);
}

/* The scale of a sum of a feature over a label. */
static inline double
feature_scale(const Measurement *measurement, int64 at)
{
	return scale_for(Max(fabsf(measurement->least[at]), fabsf(measurement->greatest[at])));
}

/* Adds a row to the sums of its label and of all. */
static void
add_features(Measurement *measurement, int64 number, int64 place, int32 label,
			 const float *features)
{
	int64		d = measurement->clustering->dimension;
	int64		own = label * d;
	int64		all = measurement->clustering->k * d;

	for (int j = 0; j < d; j++)
	{
		add(&measurement->sums[own + j], features[j], feature_scale(measurement, own + j));
		add(&measurement->sums[all + j], features[j], feature_scale(measurement, all + j));
	}
}

/* The means of the labels and of all rows. */
static void
find_means(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;
	int			d = clustering->dimension;

	measurement->sums = gk_allocate_zero((clustering->k + INT64CONST(1)) * d, sizeof(Sum));
	for_each_row(measurement, add_features);
	for (int64 c = 0; c <= clustering->k; c++)
	{
		int64		rows = c < clustering->k ? quality->sizes[c] : quality->rows;

		CHECK_FOR_INTERRUPTS();
		for (int64 at = c * d; at < (c + 1) * d && rows > 0; at++)
		{
			double		sum = value_of(measurement->sums[at], feature_scale(measurement, at));
			double		mean = sum / rows;

			/* no distance to it is greater than the range then */
			mean = Max(mean, (double) measurement->least[at]);
			measurement->means[at] = Min(mean, (double) measurement->greatest[at]);
		}
	}
	pfree(measurement->sums);
}

/* The centroids of the labels that have rows: those that were given, or the means. */
static void
find_points(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;
	int32		group = 0;

	measurement->points = gk_allocate((int64) measurement->quality->clusters * d, sizeof(double));
	measurement->ends = gk_allocate(measurement->quality->clusters, sizeof(int64));
	for (int c = 0; c < clustering->k; c++)
	{
		double	   *point = measurement->points + (int64) group * d;

		if (measurement->quality->sizes[c] == 0)
			continue;
		measurement->group_of[c] = group++;
		measurement->ends[measurement->group_of[c]] = group;
		if (clustering->packed != NULL)
			gk_unpack_centroid(clustering->packed, d, c, point);
		else
			memcpy(point, measurement->means + (int64) c * d, d * sizeof(double));
	}
}

/* The scales of the sums of a label, or of all. */
static void
find_scales(Measurement *measurement, int64 place, const double *point)
{
	int			d = measurement->clustering->dimension;
	Tally	   *tally = &measurement->tallies[place];
	double		inertia = 0.0;
	double		within = 0.0;

	for (int j = 0; j < d; j++)
	{
		double		least = measurement->least[place * d + j];
		double		greatest = measurement->greatest[place * d + j];
		double		far = point == NULL ? 0.0
			: Max(fabs(least - point[j]), fabs(greatest - point[j]));

		inertia += far * far;
		within += (greatest - least) * (greatest - least);
	}
	tally->inertia_scale = scale_for(inertia);
	tally->within_scale = scale_for(within);
	tally->spread_scale = scale_for(sqrt(within));
}

/* Adds a row to the sums of squares, distances and simplified silhouettes. */
static void
add_distances(Measurement *measurement, int64 number, int64 place, int32 label,
			  const float *features)
{
	int			d = measurement->clustering->dimension;
	int			k = measurement->clustering->k;
	Tally	   *tally = &measurement->tallies[label];
	Tally	   *all = &measurement->tallies[k];
	double		within = square_distance(features, measurement->means + (int64) label * d, d);

	add(&tally->inertia,
		square_distance(features, measurement->points +
						(int64) measurement->group_of[label] * d, d), tally->inertia_scale);
	add(&tally->within, within, tally->within_scale);
	add(&tally->spread, sqrt(within), tally->spread_scale);
	add(&all->within, square_distance(features, measurement->means + (int64) k * d, d),
		all->within_scale);
	if (measurement->quality->clusters >= 2)
		add(&tally->simplified, gk_silhouette(measurement->own[place], measurement->other[place]),
			scale_for(1.0));
}

/* The sums around the means and the centroids. */
static void
find_sums(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	int64		d = clustering->dimension;

	find_points(measurement);
	for (int c = 0; c < clustering->k; c++)
		if (measurement->quality->sizes[c] > 0)
			find_scales(measurement, c, measurement->points + measurement->group_of[c] * d);
	find_scales(measurement, clustering->k, NULL);
	for_each_row(measurement, add_distances);
}

/* d² between the means of two labels. */
static double
means_apart(const Measurement *measurement, int a, int b)
{
	int			d = measurement->clustering->dimension;
	const double *left = measurement->means + (int64) a * d;
	const double *right = measurement->means + (int64) b * d;
	double		sum = 0.0;

	for (int j = 0; j < d; j++)
		sum += (left[j] - right[j]) * (left[j] - right[j]);
	return sum;
}

/* The mean over the clusters of the greatest (S + S) / M. */
static double
davies_bouldin(const Measurement *measurement)
{
	const GkQuality *quality = measurement->quality;
	int			k = measurement->clustering->k;
	double	   *spread = gk_allocate(k, sizeof(double));
	double		sum = 0.0;

	for (int c = 0; c < k; c++)
		spread[c] = quality->sizes[c] == 0 ? 0.0
			: value_of(measurement->tallies[c].spread, measurement->tallies[c].spread_scale) /
			quality->sizes[c];
	for (int a = 0; a < k; a++)
	{
		double		greatest = 0.0;

		CHECK_FOR_INTERRUPTS();
		for (int b = 0; b < k && quality->sizes[a] > 0; b++)
		{
			double		apart = b == a || quality->sizes[b] == 0 ? 0.0
				: sqrt(means_apart(measurement, a, b));

			if (apart > 0.0)
				greatest = Max(greatest, (spread[a] + spread[b]) / apart);
		}
		sum += greatest;
	}
	return sum / quality->clusters;
}

/* The nearest other centroid with rows of each centroid that was given. */
static void
find_nearest(const GkClustering *clustering, GkQuality *quality)
{
	int			d = clustering->dimension;
	int64		places = GK_GROUPS((int64) clustering->k) * GK_GROUP;
	double	   *centroid = gk_allocate(d, sizeof(double));
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

/* Turns the sums into figures. */
static void
derive_figures(Measurement *measurement)
{
	GkQuality  *quality = measurement->quality;
	int			k = measurement->clustering->k;
	const Tally *all = &measurement->tallies[k];
	Sum			simplified = 0;
	double		within = 0.0;
	int64		rows = quality->rows;
	int			clusters = quality->clusters;

	quality->total = value_of(all->within, all->within_scale);
	for (int c = 0; c < k; c++)
	{
		const Tally *tally = &measurement->tallies[c];

		if (quality->sizes[c] > 0)
		{
			quality->inertia += value_of(tally->inertia, tally->inertia_scale);
			within += value_of(tally->within, tally->within_scale);
		}
		simplified += tally->simplified;
		quality->simplified_silhouettes[c] = quality->sizes[c] == 0 || clusters < 2 ? NAN
			: value_of(tally->simplified, scale_for(1.0)) / quality->sizes[c];
	}
	if (clusters < 2 || clusters >= rows)
		return;
	quality->simplified_silhouette = value_of(simplified, scale_for(1.0)) / rows;
	quality->davies_bouldin = davies_bouldin(measurement);
	quality->calinski_harabasz = within > 0.0 ? (quality->total - within) / (clusters - 1) /
		(within / (rows - clusters)) : 1.0;
}

/* Room for a measurement and its results. */
static void
begin_measurement(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;
	int			d = clustering->dimension;
	int			k = clustering->k;
	int64		places = (k + INT64CONST(1)) * d;

	measurement->sample = gk_begin_sample(clustering);
	measurement->window = Max(1, Min(WINDOW_NUMBERS / d, clustering->rows));
	measurement->numbers = gk_allocate(measurement->window, sizeof(int64));
	measurement->features = gk_allocate(measurement->window * d, sizeof(float));
	measurement->groups = gk_allocate(measurement->window, sizeof(int32));
	measurement->own = gk_allocate(measurement->window, sizeof(double));
	measurement->other = gk_allocate(measurement->window, sizeof(double));
	measurement->least = gk_allocate(places, sizeof(float));
	measurement->greatest = gk_allocate(places, sizeof(float));
	measurement->means = gk_allocate(places, sizeof(double));
	measurement->tallies = gk_allocate_zero(k + INT64CONST(1), sizeof(Tally));
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

	memset(quality, 0, sizeof(*quality));
	begin_measurement(&measurement);
	for_each_row(&measurement, look_at_row);
	find_means(&measurement);
	find_sums(&measurement);
	gk_measure_sample(measurement.sample, quality);
	derive_figures(&measurement);
	if (clustering->packed != NULL)
		find_nearest(clustering, quality);
}
