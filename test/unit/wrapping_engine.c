/*
 * An engine around another one.
 */
#include <stdlib.h>

#include "wrapping_engine.h"

static const GkStatus ok = {.code = GK_OK,.device = -1};

/* The wrapping of the next engine. */
static const GkEngineClass *next_class;
static const Meddling *next_meddling;

/* The functions of the engine inside. */
static const GkEngineClass *
class_inside(const WrappingEngine *engine)
{
	return engine->inner->class_of;
}

/* Asks before a call. */
static GkStatus
before(WrappingEngine *engine, const char *call)
{
	return engine->meddling->before == NULL ? ok : engine->meddling->before(engine, call);
}

/* Opens the engine and the one inside. */
static GkStatus
wrapping_open(const GkEngineConfig *config, GkEngine **result)
{
	WrappingEngine *engine = calloc(1, sizeof(WrappingEngine));
	GkStatus	status;

	*result = NULL;
	if (engine == NULL)
		return (GkStatus) {.code = GK_NO_HOST_MEMORY,.device = -1,.where = "calloc"};
	engine->base.class_of = gk_wrapping_engine(next_class, next_meddling);
	engine->meddling = next_meddling;
	status = before(engine, "open");
	if (status.code == GK_OK)
		status = next_class->open(config, &engine->inner);
	if (status.code != GK_OK)
		free(engine);
	else
		*result = &engine->base;
	return status;
}

/* Passes lend_buffer() on. */
static GkStatus
wrapping_lend_buffer(GkEngine *base, void *buffer, size_t bytes)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = before(engine, "lend_buffer");

	return status.code != GK_OK ? status :
		class_inside(engine)->lend_buffer(engine->inner, buffer, bytes);
}

/* Passes set_dimension() on. */
static GkStatus
wrapping_set_dimension(GkEngine *base, int dimension)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = before(engine, "set_dimension");

	return status.code != GK_OK ? status :
		class_inside(engine)->set_dimension(engine->inner, dimension);
}

/* Passes append() on. */
static GkStatus
wrapping_append(GkEngine *base, const GkBatch *batch, uint64_t *ticket)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = before(engine, "append");

	if (status.code == GK_OK)
		status = class_inside(engine)->append(engine->inner, batch, ticket);
	if (status.code == GK_OK && engine->meddling->appended != NULL)
		status = engine->meddling->appended(engine, *ticket);
	return status;
}

/* Passes reclaim() on. */
static GkStatus
wrapping_reclaim(GkEngine *base, uint64_t *ticket)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = class_inside(engine)->reclaim(engine->inner, ticket);

	if (status.code == GK_OK && engine->meddling->reclaimed != NULL)
		status = engine->meddling->reclaimed(engine, *ticket);
	return status;
}

/* Passes clear() on. */
static GkStatus
wrapping_clear(GkEngine *base)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = before(engine, "clear");

	return status.code != GK_OK ? status : class_inside(engine)->clear(engine->inner);
}

/* Passes submit() on. */
static GkStatus
wrapping_submit(GkEngine *base, GkCommand *command)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = before(engine, "submit");

	if (status.code == GK_OK && engine->meddling->submitted != NULL)
		status = engine->meddling->submitted(engine, command);
	if (status.code != GK_OK)
		return status;
	engine->command = command;
	return class_inside(engine)->submit(engine->inner, command);
}

/* Passes wait() on. */
static GkStatus
wrapping_wait(GkEngine *base, int milliseconds)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = class_inside(engine)->wait(engine->inner, milliseconds);

	if (status.code == GK_RUNNING || engine->command == NULL)
		return status;
	if (engine->meddling->ended != NULL)
		status = engine->meddling->ended(engine, status);
	engine->command = NULL;
	return status;
}

/* Passes fetch() on. */
static GkStatus
wrapping_fetch(GkEngine *base, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	WrappingEngine *engine = (WrappingEngine *) base;
	GkStatus	status = before(engine, "fetch");

	if (status.code == GK_OK)
		status = class_inside(engine)->fetch(engine->inner, from, count, labels, distance2);
	if (status.code == GK_OK && engine->meddling->fetched != NULL)
		engine->meddling->fetched(count, labels, distance2);
	return status;
}

/* Passes usage() on. */
static void
wrapping_usage(const GkEngine *base, GkUsage *usage)
{
	const WrappingEngine *engine = (const WrappingEngine *) base;

	class_inside(engine)->usage(engine->inner, usage);
}

/* Closes the engine and the one inside. */
static void
wrapping_close(GkEngine *base)
{
	WrappingEngine *engine = (WrappingEngine *) base;

	if (engine == NULL)
		return;
	class_inside(engine)->close(engine->inner);
	free(engine);
}

/* The class of such engines. */
const GkEngineClass *
gk_wrapping_engine(const GkEngineClass *inner, const Meddling *meddling)
{
	static GkEngineClass class_of = {
		.interface = GK_ENGINE_INTERFACE,
		.open = wrapping_open,
		.lend_buffer = wrapping_lend_buffer,
		.set_dimension = wrapping_set_dimension,
		.append = wrapping_append,
		.reclaim = wrapping_reclaim,
		.clear = wrapping_clear,
		.submit = wrapping_submit,
		.wait = wrapping_wait,
		.fetch = wrapping_fetch,
		.usage = wrapping_usage,
		.close = wrapping_close
	};

	next_class = inner;
	next_meddling = meddling;
	class_of.name = meddling->name;
	return &class_of;
}
