/*
 * Rows in an engine of their own.
 *
 * A search of a sample finds where the centroids belong in a fraction of the steps that one of all
 * rows takes.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "alloc.h"
#include "choose_engine.h"
#include "draw.h"
#include "engine_error.h"
#include "pilot.h"

/* The start number of these draws; no fit has that many starts. */
#define PILOT_START (PG_UINT32_MAX - 1)

/* Rows that are appended to an engine at once. */
#define BATCH_ROWS 4096

/* Waits until the engine has read what was appended. */
static void
wait_for(GkEngine *engine, uint64 ticket)
{
	uint64		reclaimed = 0;

	while (reclaimed < ticket)
	{
		CHECK_FOR_INTERRUPTS();
		gk_check(engine->class_of->reclaim(engine, &reclaimed));
		if (reclaimed < ticket)
			pg_usleep(50L);
	}
}

/* Appends rows to an engine. */
void
gk_append_rows(GkEngine *engine, const float *features, int64 count, int dimension)
{
	uint64_t	ticket = 0;

	for (int64 first = 0; first < count; first += BATCH_ROWS)
	{
		GkBatch		batch = {.rows = Min(BATCH_ROWS, count - first)};

		CHECK_FOR_INTERRUPTS();
		batch.features = features + first * dimension;
		gk_check(engine->class_of->append(engine, &batch, &ticket));
	}
	wait_for(engine, ticket);
}

/* Draws rows, and opens an engine with them. */
int64
gk_open_pilot(GkJob *job, const GkFitSpec *spec, double greatest_weight, int64 count,
			  GkJob *pilot)
{
	GkDrawer	drawer = {.job = job,.rows = spec->rows,.seed = (uint64) spec->seed,
	.start = PILOT_START};
	GkWork		work = {.rows = count,.dimension = spec->dimension,.k = spec->k,
	.starts = spec->n_init,.iterations = spec->max_iter};
	int64	   *rows = gk_allocate(count, sizeof(int64));
	float	   *features = gk_allocate(count * spec->dimension, sizeof(float));
	const char *reason;
	GkEngine   *engine;

	count = gk_draw_rows(&drawer, GK_MASS_WEIGHT, greatest_weight, count, rows, NULL);
	gk_fetch_rows(job, rows, count, features);
	/* an engine takes no negative zero, which scaling may have made */
	for (int64 i = 0; i < count * spec->dimension; i++)
		features[i] += 0.0f;
	engine = gk_open_engine(pilot, &work, &reason);
	gk_check(engine->class_of->set_dimension(engine, spec->dimension));
	gk_append_rows(engine, features, count, spec->dimension);
	pfree(features);
	pfree(rows);
	return count;
}
