/*
 * Figures of a clustering: silhouettes, Davies-Bouldin, Calinski-Harabasz, sums of squares.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "nearest.h"
#include "quality.h"

/* Numbers fetched from the engine at once. */
#define WINDOW_NUMBERS (1 << 20)
/* The most numbers in a sample: half a gigabyte. */
#define MAX_SAMPLE_NUMBERS (INT64CONST(1) << 26)
/*
 * Bits of a value in a sum: as many as leave room for 2^39 rows, since what is small beside the
 * range of the rows, as d² within clusters beside an outlier, must not be rounded away.
 */
#define SUM_BITS 88

/* A sum of integers, the same in any order. */
typedef int128 Sum;

StaticAssertDecl(__alignof__(Sum) <= MAXIMUM_ALIGNOF, "palloc aligns no more");

/* A row of the sample; the least keys are drawn. */
typedef struct Drawn
{
	uint64		key;			/* of the row's bits and the seed */
	int32		label;
	int64		row;
} Drawn;

/* The state of a measurement. */
typedef struct Measurement
{
	const GkClustering *clustering;
	GkQuality  *quality;
	int64		window;			/* rows at a time */
	int64	   *numbers;		/* window: of the rows */
	float	   *features;		/* window × dimension */
	double	   *row;			/* dimension */
	double	   *scales;			/* dimension: of the sums of features */
	double		distance_scale;
	double		square_scale;
	double	   *means;			/* k × dimension: of the rows of a label */
	double	   *mean;			/* dimension: of all rows */
	double	   *packed;			/* the centroids */
	double	   *distances2;		/* to all centroids */

	Sum		   *features_of;	/* k × dimension */
	Sum			inertia;
	Sum			within;			/* Σ d² to the mean of the label */
	Sum			total;
	Sum		   *spread;			/* k: Σ d to the mean of the label */
	Sum		   *simplified;		/* k */

	int			drawn_count;
	Drawn	   *drawn;			/* a heap, the greatest first */
} Measurement;

/* A function that uses one row: its number, label and features. */
typedef void (*UseRow) (Measurement *measurement, int64 number, int32 label,
						const float *features);

/* Adds a value to a sum. */
static inline void
add(Sum *sum, double value, double scale)
{
	*sum += (Sum) rint(value * scale);
}

/* The power of two by which values up to a limit have SUM_BITS bits. */
static double
scale_for(double limit)
{
	int			exponent = limit > 0.0 ? gk_exponent_double(limit) : 0;

	return ldexp(1.0, Min(Max(SUM_BITS - 1 - exponent, -1000), 1000));
}

/* A distance from its square. */
static double
distance_of(const Measurement *measurement, double distance2)
{
	return gk_distance(measurement->clustering->metric, distance2);
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

/* Calls a function for all rows that count. */
static void
for_each_row(Measurement *measurement, UseRow use)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;

	for (int64 from = 0; from < clustering->rows; from += measurement->window)
	{
		int64		count = Min(measurement->window, clustering->rows - from);

		for (int64 i = 0; i < count; i++)
			measurement->numbers[i] = from + i;
		gk_fetch_rows(clustering->job, measurement->numbers, count, measurement->features);
		for (int64 i = 0; i < count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (clustering->labels[from + i] >= 0)
				use(measurement, from + i, clustering->labels[from + i],
					measurement->features + i * d);
		}
	}
}

/* The scales of the sums, by the range of the rows and the centroids. */
static void
find_scales(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;
	GkCommand	command = {.operation = GK_RANGE};
	double		square = 0.0;

	command.range.least = gk_allocate(d, sizeof(float));
	command.range.greatest = gk_allocate(d, sizeof(float));
	gk_run(clustering->job, &command);
	for (int j = 0; j < d; j++)
	{
		double		limit = Max(fabsf(command.range.least[j]),
								fabsf(command.range.greatest[j]));

		measurement->scales[j] = scale_for(limit);
		for (int c = 0; clustering->packed != NULL && c < clustering->k; c++)
			limit = Max(limit, fabs(clustering->packed[(int64) c / GK_GROUP * GK_GROUP * d +
													   (int64) j * GK_GROUP + c % GK_GROUP]));
		square += 4 * limit * limit;
	}
	measurement->square_scale = scale_for(square);
	measurement->distance_scale = scale_for(distance_of(measurement, square));
}

/* Adds a row to the sums of its label. */
static void
add_features(Measurement *measurement, int64 number, int32 label, const float *features)
{
	int			d = measurement->clustering->dimension;
	Sum		   *sums = measurement->features_of + (int64) label * d;

	for (int j = 0; j < d; j++)
		add(&sums[j], features[j], measurement->scales[j]);
	measurement->quality->sizes[label]++;
	measurement->quality->rows++;
}

/* The means of the labels and of all rows. */
static void
find_means(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;
	int			d = clustering->dimension;

	measurement->features_of = gk_allocate_zero((int64) clustering->k * d, sizeof(Sum));
	for_each_row(measurement, add_features);
	for (int j = 0; j < d; j++)
	{
		Sum			all = 0;

		for (int c = 0; c < clustering->k; c++)
		{
			Sum			sum = measurement->features_of[(int64) c * d + j];

			all += sum;
			measurement->means[(int64) c * d + j] = quality->sizes[c] == 0 ? 0.0
				: (double) sum / measurement->scales[j] / quality->sizes[c];
		}
		measurement->mean[j] = quality->rows == 0 ? 0.0
			: (double) all / measurement->scales[j] / quality->rows;
	}
	for (int c = 0; c < clustering->k; c++)
		quality->clusters += quality->sizes[c] > 0;
	pfree(measurement->features_of);
}

/* The centroids, packed: those that were given, or the means. */
static void
pack_centroids(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	int			d = clustering->dimension;
	int64		places = GK_GROUPS((int64) clustering->k) * GK_GROUP;

	measurement->distances2 = gk_allocate(places, sizeof(double));
	if (clustering->packed != NULL)
	{
		measurement->packed = unconstify(double *, clustering->packed);
		return;
	}
	measurement->packed = gk_allocate(places * d, sizeof(double));
	for (int c = 0; c < clustering->k; c++)
		gk_pack_centroid(measurement->packed, d, c, measurement->means + (int64) c * d);
	gk_pack_rest(measurement->packed, d, clustering->k);
}

/* The least distance to the centroid of another label that has rows. */
static double
least_other(const Measurement *measurement, int32 label)
{
	const GkQuality *quality = measurement->quality;
	double		least = HUGE_VAL;

	for (int c = 0; c < measurement->clustering->k; c++)
		if (c != label && quality->sizes[c] > 0)
			least = Min(least, measurement->distances2[c]);
	return distance_of(measurement, least);
}

/* (b - a) / max(a, b). */
static double
silhouette_of(double own, double other)
{
	double		greater = Max(own, other);

	return greater > 0.0 && isfinite(greater) ? (other - own) / greater : 0.0;
}

/* Adds a row to the sums of squares, distances and simplified silhouettes. */
static void
add_distances(Measurement *measurement, int64 number, int32 label, const float *features)
{
	int			d = measurement->clustering->dimension;
	double		within = square_distance(features, measurement->means + (int64) label * d, d);
	double		own;

	for (int j = 0; j < d; j++)
		measurement->row[j] = features[j];
	gk_distances2(measurement->packed, measurement->row, d, measurement->clustering->k,
				  measurement->distances2);
	own = measurement->distances2[label];
	add(&measurement->inertia, own, measurement->square_scale);
	add(&measurement->within, within, measurement->square_scale);
	add(&measurement->total, square_distance(features, measurement->mean, d),
		measurement->square_scale);
	add(&measurement->spread[label], sqrt(within), measurement->distance_scale);
	add(&measurement->simplified[label],
		silhouette_of(distance_of(measurement, own), least_other(measurement, label)),
		scale_for(1.0));
}

/* True if one row comes after another in the sample's order. */
static bool
comes_after(const Drawn *left, const Drawn *right)
{
	return left->key != right->key ? left->key > right->key : left->label > right->label;
}

/* Restores the heap after its first element has changed. */
static void
sift_down(Drawn *heap, int count)
{
	int			at = 0;

	for (;;)
	{
		int			child = 2 * at + 1;
		Drawn		swapped = heap[at];

		if (child >= count)
			return;
		if (child + 1 < count && comes_after(&heap[child + 1], &heap[child]))
			child++;
		if (!comes_after(&heap[child], &heap[at]))
			return;
		heap[at] = heap[child];
		heap[child] = swapped;
		at = child;
	}
}

/* Restores the heap after an element was added at the end. */
static void
sift_up(Drawn *heap, int at)
{
	while (at > 0 && comes_after(&heap[at], &heap[(at - 1) / 2]))
	{
		Drawn		swapped = heap[at];

		heap[at] = heap[(at - 1) / 2];
		heap[(at - 1) / 2] = swapped;
		at = (at - 1) / 2;
	}
}

/* The key of a row, which depends on its bits and the seed, not on its position. */
static uint64
key_of(const float *features, int dimension, int64 seed)
{
	uint64		key = gk_mix((uint64) seed + UINT64CONST(0x9e3779b97f4a7c15));

	for (int j = 0; j < dimension; j++)
	{
		uint32		bits;

		memcpy(&bits, &features[j], sizeof(bits));
		key = gk_mix(key ^ bits) + UINT64CONST(0x9e3779b97f4a7c15);
	}
	return gk_mix(key);
}

/* Adds a row to the sample if its key is among the least. */
static void
draw_row(Measurement *measurement, int64 number, int32 label, const float *features)
{
	const GkClustering *clustering = measurement->clustering;
	Drawn		row = {key_of(features, clustering->dimension, clustering->seed), label, number};

	if (measurement->drawn_count < clustering->sample)
	{
		measurement->drawn[measurement->drawn_count] = row;
		sift_up(measurement->drawn, measurement->drawn_count++);
	}
	else if (comes_after(&measurement->drawn[0], &row))
	{
		measurement->drawn[0] = row;
		sift_down(measurement->drawn, measurement->drawn_count);
	}
}

/* The order of the sample, which does not depend on that of the rows. */
static int
compare_drawn(const void *a, const void *b, void *argument)
{
	return comes_after(a, b) ? 1 : comes_after(b, a) ? -1 : 0;
}

/* Fetches the features of the sample, plain and packed. */
static void
fetch_sample(Measurement *measurement, float *features, double *packed)
{
	int			d = measurement->clustering->dimension;
	int			count = measurement->drawn_count;
	int64	   *numbers = gk_allocate(count, sizeof(int64));

	for (int i = 0; i < count; i++)
		numbers[i] = measurement->drawn[i].row;
	gk_fetch_rows(measurement->clustering->job, numbers, count, features);
	for (int i = 0; i < count; i++)
	{
		for (int j = 0; j < d; j++)
			measurement->row[j] = features[(int64) i * d + j];
		gk_pack_centroid(packed, d, i, measurement->row);
	}
	gk_pack_rest(packed, d, count);
	pfree(numbers);
}

/* The silhouette of a row of the sample from the sums of its distances by label. */
static double
sample_silhouette(const Measurement *measurement, int32 label, const double *sums,
				  const int64 *sizes)
{
	double		least = HUGE_VAL;

	if (sizes[label] == 1)
		return 0.0;
	for (int c = 0; c < measurement->clustering->k; c++)
		if (c != label && sizes[c] > 0)
			least = Min(least, sums[c] / sizes[c]);
	return silhouette_of(sums[label] / (sizes[label] - 1), least);
}

/* The silhouettes of the sample: each row against all others. */
static void
measure_sample(Measurement *measurement, const int64 *sizes)
{
	int			d = measurement->clustering->dimension;
	int			k = measurement->clustering->k;
	int			count = measurement->drawn_count;
	int64		places = GK_GROUPS((int64) count) * GK_GROUP;
	float	   *features = gk_allocate((int64) count * d, sizeof(float));
	double	   *packed = gk_allocate(places * d, sizeof(double));
	double	   *distances2 = gk_allocate(places, sizeof(double));
	double	   *sums = gk_allocate(k, sizeof(double));
	double		total = 0.0;

	fetch_sample(measurement, features, packed);
	for (int i = 0; i < count; i++)
	{
		int32		label = measurement->drawn[i].label;
		double		silhouette;

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			measurement->row[j] = features[(int64) i * d + j];
		gk_distances2(packed, measurement->row, d, count, distances2);
		memset(sums, 0, k * sizeof(double));
		for (int other = 0; other < count; other++)
			sums[measurement->drawn[other].label] += distance_of(measurement, distances2[other]);
		silhouette = sample_silhouette(measurement, label, sums, sizes);
		measurement->quality->silhouettes[label] += silhouette;
		total += silhouette;
	}
	measurement->quality->silhouette = total / count;
	pfree(packed);
	pfree(features);
}

/* The silhouette, of all rows or a sample. */
static void
find_silhouette(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;
	int64	   *sizes = gk_allocate_zero(clustering->k, sizeof(int64));
	int			clusters = 0;

	measurement->drawn = gk_allocate(Min(clustering->sample, quality->rows), sizeof(Drawn));
	for_each_row(measurement, draw_row);
	qsort_interruptible(measurement->drawn, measurement->drawn_count, sizeof(Drawn),
						compare_drawn, NULL);
	for (int i = 0; i < measurement->drawn_count; i++)
		clusters += sizes[measurement->drawn[i].label]++ == 0;
	quality->silhouette_rows = measurement->drawn_count;
	if (clusters >= 2 && clusters < measurement->drawn_count)
		measure_sample(measurement, sizes);
	for (int c = 0; c < clustering->k; c++)
		quality->silhouettes[c] = sizes[c] > 0 && !isnan(quality->silhouette) ?
			quality->silhouettes[c] / sizes[c] : NAN;
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
			: (double) measurement->spread[c] / measurement->distance_scale / quality->sizes[c];
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

/* The nearest other centroid of each label. */
static void
find_nearest(Measurement *measurement)
{
	const GkClustering *clustering = measurement->clustering;
	GkQuality  *quality = measurement->quality;
	int			d = clustering->dimension;

	for (int c = 0; c < clustering->k; c++)
	{
		double		least = HUGE_VAL;

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < d; j++)
			measurement->row[j] = measurement->packed[(int64) c / GK_GROUP * GK_GROUP * d +
													  (int64) j * GK_GROUP + c % GK_GROUP];
		gk_distances2(measurement->packed, measurement->row, d, clustering->k,
					  measurement->distances2);
		quality->nearest[c] = -1;
		for (int other = 0; other < clustering->k; other++)
			if (other != c && quality->sizes[other] > 0 && measurement->distances2[other] < least)
			{
				least = measurement->distances2[other];
				quality->nearest[c] = other;
			}
		quality->separations[c] = quality->nearest[c] < 0 ? NAN : distance_of(measurement, least);
	}
}

/* Turns the sums into figures. */
static void
derive_figures(Measurement *measurement)
{
	GkQuality  *quality = measurement->quality;
	double		within = (double) measurement->within / measurement->square_scale;
	Sum			simplified = 0;
	int64		rows = quality->rows;
	int			clusters = quality->clusters;

	quality->inertia = (double) measurement->inertia / measurement->square_scale;
	quality->total = (double) measurement->total / measurement->square_scale;
	for (int c = 0; c < measurement->clustering->k; c++)
	{
		simplified += measurement->simplified[c];
		quality->simplified_silhouettes[c] = quality->sizes[c] == 0 || clusters < 2 ? NAN
			: (double) measurement->simplified[c] / scale_for(1.0) / quality->sizes[c];
	}
	if (clusters < 2 || clusters >= rows)
		return;
	quality->simplified_silhouette = (double) simplified / scale_for(1.0) / rows;
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

	if ((int64) clustering->sample * d > MAX_SAMPLE_NUMBERS &&
		clustering->rows * d > MAX_SAMPLE_NUMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("sample is too large"),
				 errhint("At most %lld rows of %d features can be compared with one another.",
						 (long long) (MAX_SAMPLE_NUMBERS / d), d)));
	measurement->window = Max(1, WINDOW_NUMBERS / d);
	measurement->numbers = gk_allocate(measurement->window, sizeof(int64));
	measurement->features = gk_allocate(measurement->window * d, sizeof(float));
	measurement->row = gk_allocate(d, sizeof(double));
	measurement->scales = gk_allocate(d, sizeof(double));
	measurement->means = gk_allocate((int64) k * d, sizeof(double));
	measurement->mean = gk_allocate(d, sizeof(double));
	measurement->spread = gk_allocate_zero(k, sizeof(Sum));
	measurement->simplified = gk_allocate_zero(k, sizeof(Sum));
	quality->silhouette = quality->simplified_silhouette = NAN;
	quality->davies_bouldin = quality->calinski_harabasz = NAN;
	quality->sizes = gk_allocate_zero(k, sizeof(int64));
	quality->silhouettes = gk_allocate_zero(k, sizeof(double));
	quality->simplified_silhouettes = gk_allocate_zero(k, sizeof(double));
	quality->nearest = gk_allocate(k, sizeof(int));
	quality->separations = gk_allocate(k, sizeof(double));
}

/* Measures a clustering. */
void
gk_measure(const GkClustering *clustering, GkQuality *quality)
{
	Measurement measurement = {.clustering = clustering,.quality = quality};

	memset(quality, 0, sizeof(*quality));
	begin_measurement(&measurement);
	find_scales(&measurement);
	find_means(&measurement);
	pack_centroids(&measurement);
	for_each_row(&measurement, add_distances);
	find_silhouette(&measurement);
	derive_figures(&measurement);
	find_nearest(&measurement);
}
