/*
 * The means of the clusters of a clustering: of all rows alike, whatever their weights.
 *
 * An engine without weights has them from one iteration.  Otherwise the rows are gone through
 * twice: for the range of each cluster, and for sums on a grid that is as fine as this range
 * allows.  Sums are integers, so the order of the rows does not matter.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "alloc.h"
#include "draw.h"
#include "exact.h"
#include "means.h"

/* Numbers that are fetched from the engine at once. */
#define WINDOW_NUMBERS (1 << 20)

/* Bits of the range of a cluster in a sum: with 24 more, they leave room for all rows. */
#define VALUE_BITS 62

/* A sum of integers: the same in any order. */
typedef int128 Sum;

StaticAssertDecl(__alignof__(Sum) <= MAXIMUM_ALIGNOF, "palloc aligns no more");

/* The rows under way. */
typedef struct Pass
{
	const GkClustering *clustering;
	GkSample   *sample;
	int64		window;			/* rows at a time */
	int64	   *numbers;
	int32	   *labels;
	float	   *features;		/* window × dimension */
	bool	   *has_rows;		/* k */
	float	   *least;			/* k × dimension */
	float	   *greatest;
	double	   *scales;			/* k × dimension: powers of two */
	Sum		   *sums;			/* k × dimension */
} Pass;

/* Uses one row. */
typedef void (*UseRow) (Pass *pass, int64 number, int32 label, const float *features);

/* Goes through all rows that count. */
static void
for_each_row(Pass *pass, UseRow use)
{
	const GkClustering *clustering = pass->clustering;
	int			d = clustering->dimension;

	for (int64 from = 0; from < clustering->rows; from += pass->window)
	{
		int64		count = Min(pass->window, clustering->rows - from);

		for (int64 i = 0; i < count; i++)
			pass->numbers[i] = from + i;
		gk_fetch_rows(clustering->job, pass->numbers, count, pass->features);
		gk_read_labels(clustering, from, count, pass->labels);
		for (int64 i = 0; i < count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (pass->labels[i] >= 0)
				use(pass, from + i, pass->labels[i], pass->features + i * d);
		}
	}
}

/* Widens the range of a cluster by a row. */
static void
widen(Pass *pass, int64 number, int32 label, const float *features)
{
	int			d = pass->clustering->dimension;
	float	   *least = pass->least + (int64) label * d;
	float	   *greatest = pass->greatest + (int64) label * d;

	gk_count_row(pass->sample, label, features);
	if (!pass->has_rows[label])
	{
		memcpy(least, features, d * sizeof(float));
		memcpy(greatest, features, d * sizeof(float));
		pass->has_rows[label] = true;
		return;
	}
	for (int j = 0; j < d; j++)
	{
		least[j] = Min(least[j], features[j]);
		greatest[j] = Max(greatest[j], features[j]);
	}
}

/* A value on the grid of its cluster; one that int64 cannot hold has no bits below the grid. */
static inline Sum
on_grid(double value)
{
	return fabs(value) < 0x1p62 ? (Sum) (int64) rint(value) : (Sum) value;
}

/* Adds a row to the sums of its cluster. */
static void
add_features(Pass *pass, int64 number, int32 label, const float *features)
{
	int			d = pass->clustering->dimension;
	const double *scales = pass->scales + (int64) label * d;
	Sum		   *sums = pass->sums + (int64) label * d;

	gk_offer_row(pass->sample, number, label, features);
	for (int j = 0; j < d; j++)
		sums[j] += on_grid(features[j] * scales[j]);
}

/* The power of two by which values up to a limit have VALUE_BITS bits; 0 for equal ones. */
static double
scale_for(double limit)
{
	return limit > 0.0 ? gk_power_of_two(Min(VALUE_BITS - 1 - gk_exponent_double(limit), 1000))
		: 0.0;
}

/* Room for the passes. */
static void
begin_passes(const GkClustering *clustering, GkSample *sample, Pass *pass)
{
	int			d = clustering->dimension;
	int64		places = (int64) clustering->k * d;

	pass->clustering = clustering;
	pass->sample = sample;
	pass->window = Max(1, Min(WINDOW_NUMBERS / d, clustering->rows));
	pass->numbers = gk_allocate(pass->window, sizeof(int64));
	pass->labels = gk_allocate(pass->window, sizeof(int32));
	pass->features = gk_allocate(pass->window * d, sizeof(float));
	pass->has_rows = gk_allocate_zero(clustering->k, sizeof(bool));
	pass->least = gk_allocate_zero(places, sizeof(float));
	pass->greatest = gk_allocate_zero(places, sizeof(float));
	pass->scales = gk_allocate(places, sizeof(double));
	pass->sums = gk_allocate_zero(places, sizeof(Sum));
}

/* Frees it. */
static void
end_passes(Pass *pass)
{
	pfree(pass->numbers);
	pfree(pass->labels);
	pfree(pass->features);
	pfree(pass->has_rows);
	pfree(pass->least);
	pfree(pass->greatest);
	pfree(pass->scales);
	pfree(pass->sums);
}

/* A sum of numbers by how many they are, rounded once, so that equal means have the same bits. */
static double
quotient(Sum sum, int64 count)
{
	uint128		rest = sum < 0 ? -(uint128) sum : (uint128) sum;
	uint64		high = (uint64) (rest >> 64);
	uint128		digits;
	int			shift;

	if (sum == 0)
		return 0.0;
	shift = 126 - (high > 0 ? 64 + pg_leftmost_one_pos64(high)
				   : pg_leftmost_one_pos64((uint64) rest));
	rest <<= shift;
	digits = rest / count;
	/* without what is left, the digits might seem to lie half-way between two doubles */
	if (digits * count < rest)
		digits |= 1;
	return (sum < 0 ? -1.0 : 1.0) * ldexp((double) digits, -shift);
}

/* The mean of a feature in a cluster. */
static double
mean_at(const Pass *pass, int64 place, int64 size)
{
	double		least = pass->least[place];
	double		greatest = pass->greatest[place];

	if (size == 0 || least == greatest)
		return least;
	return Max(least, Min(greatest, quotient(pass->sums[place], size) / pass->scales[place]));
}

/* Sets the scale of each sum by the range of the feature in the cluster. */
static void
set_scales(Pass *pass)
{
	int			d = pass->clustering->dimension;

	for (int64 c = 0; c < pass->clustering->k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int64 i = c * d; i < (c + 1) * d; i++)
			pass->scales[i] = scale_for((double) pass->greatest[i] - pass->least[i]);
	}
}

/* Finds the means by going through the rows. */
void
gk_find_means(const GkClustering *clustering, const int64 *sizes, GkSample *sample, double *means)
{
	int			d = clustering->dimension;
	Pass		pass;

	begin_passes(clustering, sample, &pass);
	for_each_row(&pass, widen);
	gk_choose_rows(sample);
	set_scales(&pass);
	for_each_row(&pass, add_features);
	for (int64 c = 0; c < clustering->k; c++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int64 i = c * d; i < (c + 1) * d; i++)
			means[i] = mean_at(&pass, i, sizes[c]);
	}
	end_passes(&pass);
}

/* Finds the means by one iteration of the engine, which labels the rows as well. */
void
gk_find_means_by_engine(const GkClustering *clustering, double *means)
{
	GkCommand	step = {.operation = GK_STEP};
	GkCommand	get = {.operation = GK_GET_CENTROIDS};

	gk_run(clustering->job, &step);
	if (step.step.empty > 0)
	{
		GkCommand	update = {.operation = GK_RELOCATE};

		gk_run(clustering->job, &update);
	}
	get.get_centroids.centroids = means;
	gk_run(clustering->job, &get);
}
