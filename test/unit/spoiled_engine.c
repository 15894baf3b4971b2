/*
 * An engine that errs on purpose.
 */
#include "engine_drive.h"
#include "spoiled_engine.h"
#include "wrapping_engine.h"

const int	gk_spoils[SPOILS] = {
	GK_RANGE, GK_MOMENTS, GK_CANDIDATES, GK_POTENTIALS, GK_MASSES, GK_ENTRIES, GK_DRAW,
	GK_LABEL_WEIGHTS, GK_ROWS, GK_COMPARE, GK_STEP, GK_RELOCATE, GK_FARTHEST, GK_ASSIGN,
	GK_STATISTICS, GK_SQUARES, GK_SEPARATION, GK_MERGE, GK_GET_CENTROIDS, SPOIL_LABELS,
	SPOIL_DISTANCES, SPOIL_SUMS, SPOIL_ROW_WEIGHTS, SPOIL_ROW_LABELS
};

/* What to spoil. */
static int	spoiled;

/* An iteration has begun ahead of centroids that rest. */
static bool is_ahead;

/* An output of a command, NULL if it has none. */
static void *
output_of(GkCommand *c)
{
	switch (c->operation)
	{
		case GK_RANGE:
			return c->range.greatest;
		case GK_MOMENTS:
			return &c->moments.second->low;
		case GK_CANDIDATES:
			return &c->candidates.greatest;
		case GK_POTENTIALS:
			return c->potentials.potentials;
		case GK_MASSES:
			return c->masses.buckets;
		case GK_ENTRIES:
			return &c->entries.entries->hash;
		case GK_DRAW:
			return &c->draw.total;
		case GK_LABEL_WEIGHTS:
			return &c->label_weights.weights->low;
		case GK_MERGE:
			return c->merge.costs;
		case GK_ROWS:
			return c->rows.features;
		case GK_COMPARE:
			return c->compare.order;
		case GK_STEP:
			return &c->step.changed;
		case GK_RELOCATE:
			return &c->relocate.shift2;
		case GK_FARTHEST:
			return &c->farthest.entries->hash;
		case GK_ASSIGN:
			return &c->assign.greatest_distance;
		case GK_STATISTICS:
			return &c->statistics.distance->low;
		case GK_SQUARES:
			return c->squares.sums;
		case GK_SEPARATION:
			return c->separation.other != NULL ? c->separation.other : c->separation.own;
		case GK_GET_CENTROIDS:
			return c->get_centroids.centroids;
		default:
			return NULL;
	}
}

/* An output that a command writes only if asked to, NULL if it is not the one to spoil. */
static void *
optional_output_of(GkCommand *c)
{
	if (spoiled == SPOIL_SUMS && c->operation == GK_STEP)
		return c->step.sums;
	if (spoiled == SPOIL_ROW_WEIGHTS && c->operation == GK_ROWS)
		return c->rows.weights;
	if (spoiled == SPOIL_ROW_LABELS && c->operation == GK_ROWS)
		return c->rows.labels;
	return NULL;
}

/* Does what an engine does that begins an iteration before the one before it has ended. */
static void
step_ahead(WrappingEngine *engine)
{
	const GkCommand *c = engine->command;
	bool		is_step = c->operation == GK_STEP && c->step.more > 0;
	GkCommand	again = {.operation = GK_STEP};

	if (!is_step && c->operation != GK_CENTROIDS)
		return;
	if (is_step && is_ahead && spoiled == SPOIL_AHEAD)
		run(engine->inner, &again);
	is_ahead = is_step && c->step.changed > 0 && c->step.empty == 0 && c->step.tolerance > 0.0 &&
		c->step.shift2 <= c->step.tolerance;
	/* brings the labels up to date with the centroids, which stay */
	again = (GkCommand) {.operation = GK_ASSIGN};
	if (is_ahead)
		run(engine->inner, &again);
}

/* Makes iterations ahead, or changes a bit of a command's answer. */
static GkStatus
ended(WrappingEngine *engine, GkStatus status)
{
	uint8_t    *output = (int) engine->command->operation == spoiled
		? output_of(engine->command) : optional_output_of(engine->command);

	if (status.code == GK_OK && output != NULL)
		*output ^= 1;
	if (status.code == GK_OK && (spoiled == SPOIL_NOTHING || spoiled == SPOIL_AHEAD))
		step_ahead(engine);
	return status;
}

/* Changes a bit of the last row. */
static void
fetched(int64_t count, int32_t *labels, double *distance2)
{
	if (spoiled == SPOIL_LABELS && labels != NULL && count > 0)
		labels[count - 1] ^= 1;
	if (spoiled == SPOIL_DISTANCES && distance2 != NULL && count > 0)
		*(uint8_t *) &distance2[count - 1] ^= 1;
}

/* The class of such engines; one in a process. */
const GkEngineClass *
gk_spoiled_engine(const GkEngineClass *inner, int what)
{
	static const Meddling meddling = {.name = "spoiled",.ended = ended,.fetched = fetched};

	spoiled = what;
	return gk_wrapping_engine(inner, &meddling);
}
