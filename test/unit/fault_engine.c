/*
 * An engine that fails on purpose, in one of its calls.
 *
 * Calls are counted from open on, except those that cannot fail and waits that return
 * GK_RUNNING. Of the reclaims only the one that returns a batch counts, with the number after
 * its append's: the number of reclaims varies, and the count must be the same in every run.
 */
#include <string.h>

#include "fault_engine.h"
#include "wrapping_engine.h"

/* What is so near above a local variable is on the stack. */
#define STACK_BYTES (4 << 20)

static const GkStatus ok = {.code = GK_OK,.device = -1};

/* The call that fails, and how. */
static int64_t fail_at;
static GkCode fail_code;

/* The status of an injected failure. */
static GkStatus
fault(const char *where)
{
	GkStatus	status = {.code = fail_code,.device = -1};

	strncpy(status.where, where, sizeof(status.where) - 1);
	strcpy(status.message, "injected fault");
	return status;
}

/* Counts a call; true if it is the one to fail. */
static bool
strikes(WrappingEngine *engine)
{
	return ++engine->calls == fail_at;
}

/* Fails a call if its turn has come. */
static GkStatus
before(WrappingEngine *engine, const char *call)
{
	return strikes(engine) ? fault(call) : ok;
}

/*
 * Refuses a command that has an array on the stack: after an error, an engine may write to it until
 * it is closed.
 */
static GkStatus
submitted(WrappingEngine *engine, const GkCommand *command)
{
	uintptr_t	here = (uintptr_t) &engine;
	uintptr_t	words[sizeof(GkCommand) / sizeof(uintptr_t)];
	GkStatus	status = {.code = GK_INTERNAL,.device = -1,.where = "submit",
	.message = "a command has an array on the stack"};

	memcpy(words, command, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i] > here && words[i] - here < STACK_BYTES)
			return status;
	return ok;
}

/* Counts the reclaim that returns this batch. */
static GkStatus
appended(WrappingEngine *engine, uint64_t ticket)
{
	if (strikes(engine))
	{
		engine->reclaim_fails = true;
		engine->ticket = ticket;
	}
	return ok;
}

/* Fails the reclaim of the batch whose reclaim is to fail. */
static GkStatus
reclaimed(WrappingEngine *engine, uint64_t ticket)
{
	if (!engine->reclaim_fails || ticket < engine->ticket)
		return ok;
	engine->reclaim_fails = false;
	return fault("reclaim");
}

/* Fails the end of a command if its turn has come. */
static GkStatus
ended(WrappingEngine *engine, GkStatus status)
{
	return strikes(engine) ? fault("wait") : status;
}

/* The class of such engines; one in a process. */
const GkEngineClass *
gk_fault_engine(const GkEngineClass *inner, int64_t call, GkCode code)
{
	static const Meddling meddling = {
		.name = "fault",
		.before = before,
		.submitted = submitted,
		.appended = appended,
		.reclaimed = reclaimed,
		.ended = ended
	};

	fail_at = call;
	fail_code = code;
	return gk_wrapping_engine(inner, &meddling);
}
