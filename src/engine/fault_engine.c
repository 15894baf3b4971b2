/*
 * An engine that fails on purpose: passes every call on to another engine, but fails
 * one of them.  Calls are counted from open on; what can't fail is not counted, and neither is
 * a wait that says GK_RUNNING.  Of the reclaims one counts for each batch, the one that gives it
 * back, and its number follows that of the append: how many it takes is a matter of chance, and the
 * numbers must be the same in every run.
 */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* What the next engine will do; one class in a process, set by gk_fault_engine(). */
static const GkEngineClass *inner_class;
static int64_t fail_at;
static GkCode fail_code;

typedef struct FaultEngine
{
	GkEngine	base;
	GkEngine   *inner;
	int64_t		calls;
	int64_t		fail_at;
	GkCode		code;
	bool		submitted;		/* a command is on its way: its end counts */
	bool		reclaim_fails;	/* once it comes to this ticket */
	uint64_t	ticket;
} FaultEngine;

/* The status of an injected failure. */
static GkStatus
fault(GkCode code, const char *where)
{
	GkStatus	status = {.code = code,.device = -1};

	strncpy(status.where, where, sizeof(status.where) - 1);
	strcpy(status.message, "injected fault");
	return status;
}

/* Counts a call; true if it is the one to fail. */
static bool
strikes(FaultEngine *engine)
{
	return ++engine->calls == engine->fail_at;
}

/* Opens the engine inside, unless this call is to fail. */
static GkStatus
fault_open(const GkEngineConfig *config, GkEngine **result)
{
	FaultEngine *engine = calloc(1, sizeof(FaultEngine));
	GkStatus	status;

	*result = NULL;
	if (engine == NULL)
		return fault(GK_NO_HOST_MEMORY, "calloc");
	engine->base.class_of = gk_fault_engine(inner_class, fail_at, fail_code);
	engine->fail_at = fail_at;
	engine->code = fail_code;
	if (strikes(engine))
		status = fault(engine->code, "open");
	else
		status = inner_class->open(config, &engine->inner);
	if (status.code != GK_OK)
		free(engine);
	else
		*result = &engine->base;
	return status;
}

/* lend_buffer() of the engine inside, unless this call is to fail. */
static GkStatus
fault_lend_buffer(GkEngine *base, void *buffer, size_t bytes)
{
	FaultEngine *engine = (FaultEngine *) base;

	if (strikes(engine))
		return fault(engine->code, "lend_buffer");
	return engine->inner->class_of->lend_buffer(engine->inner, buffer, bytes);
}

/* set_dimension() of the engine inside, unless this call is to fail. */
static GkStatus
fault_set_dimension(GkEngine *base, int dimension)
{
	FaultEngine *engine = (FaultEngine *) base;

	if (strikes(engine))
		return fault(engine->code, "set_dimension");
	return engine->inner->class_of->set_dimension(engine->inner, dimension);
}

/* append() of the engine inside, unless this call is to fail. */
static GkStatus
fault_append(GkEngine *base, const GkBatch *batch, uint64_t *ticket)
{
	FaultEngine *engine = (FaultEngine *) base;

	GkStatus	status;

	if (strikes(engine))
		return fault(engine->code, "append");
	status = engine->inner->class_of->append(engine->inner, batch, ticket);
	if (status.code == GK_OK && strikes(engine))
	{
		engine->reclaim_fails = true;
		engine->ticket = *ticket;
	}
	return status;
}

/* reclaim() of the engine inside, unless it gives back the batch of which that is to fail. */
static GkStatus
fault_reclaim(GkEngine *base, uint64_t *ticket)
{
	FaultEngine *engine = (FaultEngine *) base;

	GkStatus	status = engine->inner->class_of->reclaim(engine->inner, ticket);

	if (status.code != GK_OK || !engine->reclaim_fails || *ticket < engine->ticket)
		return status;
	engine->reclaim_fails = false;
	return fault(engine->code, "reclaim");
}

/* clear() of the engine inside, unless this call is to fail. */
static GkStatus
fault_clear(GkEngine *base)
{
	FaultEngine *engine = (FaultEngine *) base;

	if (strikes(engine))
		return fault(engine->code, "clear");
	return engine->inner->class_of->clear(engine->inner);
}

/* submit() of the engine inside, unless this call is to fail. */
static GkStatus
fault_submit(GkEngine *base, GkCommand *command)
{
	FaultEngine *engine = (FaultEngine *) base;

	if (strikes(engine))
		return fault(engine->code, "submit");
	engine->submitted = true;
	return engine->inner->class_of->submit(engine->inner, command);
}

/* wait() of the engine inside; only the end of a command counts as a call. */
static GkStatus
fault_wait(GkEngine *base, int milliseconds)
{
	FaultEngine *engine = (FaultEngine *) base;
	GkStatus	status = engine->inner->class_of->wait(engine->inner, milliseconds);

	if (status.code == GK_RUNNING || !engine->submitted)
		return status;
	engine->submitted = false;
	return strikes(engine) ? fault(engine->code, "wait") : status;
}

/* fetch() of the engine inside, unless this call is to fail. */
static GkStatus
fault_fetch(GkEngine *base, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	FaultEngine *engine = (FaultEngine *) base;

	if (strikes(engine))
		return fault(engine->code, "fetch");
	return engine->inner->class_of->fetch(engine->inner, from, count, labels, distance2);
}

/* usage() of the engine inside; it counts as no call. */
static void
fault_usage(const GkEngine *base, GkUsage *usage)
{
	const FaultEngine *engine = (const FaultEngine *) base;

	engine->inner->class_of->usage(engine->inner, usage);
}

/* Closes the engine inside; this never fails. */
static void
fault_close(GkEngine *base)
{
	FaultEngine *engine = (FaultEngine *) base;

	if (engine == NULL)
		return;
	engine->inner->class_of->close(engine->inner);
	free(engine);
}

/* The class of engines of the class `inner` of which the call of this number fails. */
const GkEngineClass *
gk_fault_engine(const GkEngineClass *inner, int64_t call, GkCode code)
{
	static const GkEngineClass class_of = {
		.name = "fault",
		.open = fault_open,
		.lend_buffer = fault_lend_buffer,
		.set_dimension = fault_set_dimension,
		.append = fault_append,
		.reclaim = fault_reclaim,
		.clear = fault_clear,
		.submit = fault_submit,
		.wait = fault_wait,
		.fetch = fault_fetch,
		.usage = fault_usage,
		.close = fault_close
	};

	inner_class = inner;
	fail_at = call;
	fail_code = code;
	return &class_of;
}
