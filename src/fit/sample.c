/*
 * A sample of the rows of a fit, independent of their order in the source.
 */
#include "postgres.h"

#include "alloc.h"
#include "draw.h"
#include "sample.h"

/* The start number of these draws; no fit has that many starts. */
#define SAMPLE_START PG_UINT32_MAX

/* Draws rows by weight. */
int64
gk_sample_rows(GkJob *job, const GkFitSpec *spec, const GkFit *fit, int64 count, int64 *rows)
{
	GkDrawer	drawer = {.job = job,.rows = spec->rows,.seed = (uint64) spec->seed,
	.start = SAMPLE_START};

	if (spec->rows > count)
		return gk_draw_rows(&drawer, GK_MASS_WEIGHT, fit->model.greatest_weight, count, rows,
							NULL);
	for (int64 i = 0; i < spec->rows; i++)
		rows[i] = i;
	return spec->rows;
}

/* What puts rows in order: their features. */
typedef struct Features
{
	const float *values;
	int			dimension;
} Features;

/* The order of two rows, by their features. */
static int
compare_rows(const void *a, const void *b, void *argument)
{
	const Features *features = argument;
	const float *left = features->values + (int64) *(const int *) a * features->dimension;
	const float *right = features->values + (int64) *(const int *) b * features->dimension;

	for (int j = 0; j < features->dimension; j++)
		if (left[j] != right[j])
			return left[j] < right[j] ? -1 : 1;
	return 0;
}

/* Puts rows in an order of their own: sums over them are rounded, and depend on it. */
static void
sort_rows(float *features, int32 *places, int count, int d)
{
	Features	unsorted = {.dimension = d};
	float	   *values = gk_allocate((int64) count * d, sizeof(float));
	int32	   *places_before = gk_allocate(count, sizeof(int32));
	int		   *order = gk_allocate(count, sizeof(int));

	memcpy(values, features, (Size) count * d * sizeof(float));
	memcpy(places_before, places, (Size) count * sizeof(int32));
	for (int i = 0; i < count; i++)
		order[i] = i;
	unsorted.values = values;
	qsort_interruptible(order, count, sizeof(int), compare_rows, &unsorted);
	for (int i = 0; i < count; i++)
	{
		memcpy(features + (int64) i * d, values + (int64) order[i] * d, d * sizeof(float));
		places[i] = places_before[order[i]];
	}
	pfree(values);
	pfree(places_before);
	pfree(order);
}

/* The features of rows, and the places of their clusters. */
void
gk_sample_features(GkJob *job, const GkFitSpec *spec, const GkFit *fit, const int64 *rows,
				   int count, float *features, int32 *places)
{
	GkCommand	command = {.operation = GK_ROWS};

	command.rows.rows = rows;
	command.rows.count = count;
	command.rows.features = features;
	command.rows.labels = places;
	gk_run(job, &command);
	for (int i = 0; i < count; i++)
		places[i] = gk_place_of_label(fit->model.place_of_label, places[i]);
	sort_rows(features, places, count, spec->dimension);
}
