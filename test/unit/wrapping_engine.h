/*
 * An engine around another one: it passes every call on, and lets hooks change it.
 */
#ifndef WRAPPING_ENGINE_H
#define WRAPPING_ENGINE_H

#include "engine.h"

/* The state of an engine that the hooks see. */
typedef struct WrappingEngine
{
	GkEngine	base;
	const struct Meddling *meddling;
	GkEngine   *inner;
	GkCommand  *command;		/* the current one */
	int64_t		calls;			/* from here on for the hooks */
	bool		reclaim_fails;
	uint64_t	ticket;
} WrappingEngine;

/* The hooks; NULL: none. */
typedef struct Meddling
{
	const char *name;			/* of the engine */

	/* Before a call other than reclaim() and wait(), which is passed on only if it is GK_OK. */
	GkStatus	(*before) (WrappingEngine *engine, const char *call);

	/* Before a submit(), which is passed on only if it is GK_OK. */
	GkStatus	(*submitted) (WrappingEngine *engine, const GkCommand *command);

	/* After an append() or a reclaim() that went well. */
	GkStatus	(*appended) (WrappingEngine *engine, uint64_t ticket);
	GkStatus	(*reclaimed) (WrappingEngine *engine, uint64_t ticket);

	/* After the current command has ended. */
	GkStatus	(*ended) (WrappingEngine *engine, GkStatus status);

	/* After a fetch() that went well. */
	void		(*fetched) (int64_t count, int32_t *labels, double *distance2);
} Meddling;

/* The class of such engines; they open as the last call said. */
extern const GkEngineClass *gk_wrapping_engine(const GkEngineClass *inner,
												const Meddling *meddling);

#endif							/* WRAPPING_ENGINE_H */
