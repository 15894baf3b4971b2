/*
 * A sample of the rows of a fit, independent of their order in the source.
 */
#include "postgres.h"

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
		return gk_draw_rows(&drawer, GK_MASS_WEIGHT, fit->model.greatest_weight, count, rows);
	for (int64 i = 0; i < spec->rows; i++)
		rows[i] = i;
	return spec->rows;
}

/* The features of rows, and the places of their clusters. */
void
gk_sample_features(GkJob *job, const GkFit *fit, const int64 *rows, int64 count, float *features,
				   int32 *places)
{
	GkCommand	command = {.operation = GK_ROWS};

	command.rows.rows = rows;
	command.rows.count = count;
	command.rows.features = features;
	command.rows.labels = places;
	gk_run(job, &command);
	for (int64 i = 0; i < count; i++)
		places[i] = fit->model.place_of_label[places[i]];
}
