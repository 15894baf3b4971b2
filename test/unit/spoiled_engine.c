/*
 * An engine that errs on purpose.
 */
#include <stdlib.h>

#include "spoiled_engine.h"

const int	gk_spoils[SPOILS] = {
	GK_RANGE, GK_MOMENTS, GK_CANDIDATES, GK_POTENTIALS, GK_MASSES, GK_ENTRIES, GK_LABEL_WEIGHTS,
	GK_ROWS, GK_STEP, GK_RELOCATE, GK_FARTHEST, GK_ASSIGN, GK_STATISTICS, GK_GET_CENTROIDS,
	SPOIL_LABELS, SPOIL_DISTANCES
};

static const GkEngineClass *inner_class;
static int	spoiled;

typedef struct SpoiledEngine
{
	GkEngine	base;
	GkEngine   *inner;
	GkCommand  *command;
} SpoiledEngine;

/* The engine inside. */
static GkEngine *
inner_of(const GkEngine *base)
{
	return ((const SpoiledEngine *) base)->inner;
}

/* An output of a command, NULL if it has none. */
static void *
output_of(GkCommand *c)
{
	switch (c->operation)
	{
		case GK_RANGE:
			return c->u.range.greatest;
		case GK_MOMENTS:
			return &c->u.moments.second->low;
		case GK_CANDIDATES:
			return &c->u.candidates.greatest;
		case GK_POTENTIALS:
			return c->u.potentials.potentials;
		case GK_MASSES:
			return c->u.masses.buckets;
		case GK_ENTRIES:
			return &c->u.entries.entries->hash;
		case GK_LABEL_WEIGHTS:
			return &c->u.label_weights.weights->low;
		case GK_ROWS:
			return c->u.rows.features;
		case GK_STEP:
			return &c->u.step.changed;
		case GK_RELOCATE:
			return &c->u.relocate.shift2;
		case GK_FARTHEST:
			return &c->u.farthest.entries->hash;
		case GK_ASSIGN:
			return &c->u.assign.greatest_distance;
		case GK_STATISTICS:
			return &c->u.statistics.distance->low;
		case GK_GET_CENTROIDS:
			return c->u.get_centroids.centroids;
		default:
			return NULL;
	}
}

/* Opens the engine inside. */
static GkStatus
spoiled_open(const GkEngineConfig *config, GkEngine **result)
{
	SpoiledEngine *engine = calloc(1, sizeof(SpoiledEngine));
	GkStatus	status = inner_class->open(config, &engine->inner);

	engine->base.class_of = gk_spoiled_engine(inner_class, spoiled);
	*result = &engine->base;
	return status;
}

/* lend_buffer() of the engine inside. */
static GkStatus
spoiled_lend_buffer(GkEngine *base, void *buffer, size_t bytes)
{
	return inner_class->lend_buffer(inner_of(base), buffer, bytes);
}

/* set_dimension() of the engine inside. */
static GkStatus
spoiled_set_dimension(GkEngine *base, int dimension)
{
	return inner_class->set_dimension(inner_of(base), dimension);
}

/* append() of the engine inside. */
static GkStatus
spoiled_append(GkEngine *base, const GkBatch *batch, uint64_t *ticket)
{
	return inner_class->append(inner_of(base), batch, ticket);
}

/* reclaim() of the engine inside. */
static GkStatus
spoiled_reclaim(GkEngine *base, uint64_t *ticket)
{
	return inner_class->reclaim(inner_of(base), ticket);
}

/* clear() of the engine inside. */
static GkStatus
spoiled_clear(GkEngine *base)
{
	return inner_class->clear(inner_of(base));
}

/* Passes a command on, and remembers it. */
static GkStatus
spoiled_submit(GkEngine *base, GkCommand *command)
{
	((SpoiledEngine *) base)->command = command;
	return inner_class->submit(inner_of(base), command);
}

/* Waits, and changes a bit of the answer. */
static GkStatus
spoiled_wait(GkEngine *base, int milliseconds)
{
	SpoiledEngine *engine = (SpoiledEngine *) base;
	GkStatus	status = inner_class->wait(engine->inner, milliseconds);

	if (status.code == GK_OK && engine->command != NULL)
	{
		if ((int) engine->command->operation == spoiled)
			*(uint8_t *) output_of(engine->command) ^= 1;
		engine->command = NULL;
	}
	return status;
}

/* Fetches, and changes a bit of the last row. */
static GkStatus
spoiled_fetch(GkEngine *base, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	GkStatus	status = inner_class->fetch(inner_of(base), from, count, labels, distance2);

	if (spoiled == SPOIL_LABELS && labels != NULL && count > 0)
		labels[count - 1] ^= 1;
	if (spoiled == SPOIL_DISTANCES && distance2 != NULL && count > 0)
		*(uint8_t *) &distance2[count - 1] ^= 1;
	return status;
}

/* usage() of the engine inside. */
static void
spoiled_usage(const GkEngine *base, GkUsage *usage)
{
	inner_class->usage(inner_of(base), usage);
}

/* Closes the engine inside. */
static void
spoiled_close(GkEngine *base)
{
	if (base == NULL)
		return;
	inner_class->close(inner_of(base));
	free(base);
}

/* The class of such engines; one in a process. */
const GkEngineClass *
gk_spoiled_engine(const GkEngineClass *inner, int what)
{
	static const GkEngineClass class_of = {
		.name = "spoiled",
		.open = spoiled_open,
		.lend_buffer = spoiled_lend_buffer,
		.set_dimension = spoiled_set_dimension,
		.append = spoiled_append,
		.reclaim = spoiled_reclaim,
		.clear = spoiled_clear,
		.submit = spoiled_submit,
		.wait = spoiled_wait,
		.fetch = spoiled_fetch,
		.usage = spoiled_usage,
		.close = spoiled_close
	};

	inner_class = inner;
	spoiled = what;
	return &class_of;
}
