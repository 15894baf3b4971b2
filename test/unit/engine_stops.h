/*
 * Stops commands wherever they can notice, and tests the engine afterwards.
 */
#ifndef ENGINE_STOPS_H
#define ENGINE_STOPS_H

#include "engine_cases.h"

/*
 * From now on, check number `look` and all later ones find the engine closing; 0 cancels the
 * plan.  Returns how many checks an earlier plan was still waiting for.  Or, instead of a check,
 * call number `look` of a library fails.
 */
typedef int64_t (*StopPlan) (GkEngine *engine, int64_t look);

/* What is stopped, and how. */
typedef struct Stopper
{
	const GkEngineClass *tested;
	StopPlan	plan;
	GkCode		code;			/* what a stopped command reports; GK_OK stands for GK_INTERNAL */
	const GkEngineClass *oracle;	/* never stopped */
	Feeding		feeding;
	int64_t		first;			/* each of this many checks is a stop once, … */
	int64_t		others;			/* … and this many random later ones */
	int64_t		stops;			/* out: how often a command was stopped */
	int64_t		refused;		/* out: how often one was refused afterwards */
} Stopper;

/* Stops every command on the data; the engine must then behave as if it had never been stopped. */
extern bool stop_everywhere(Stopper *stopper, const Data *data);

/* Stops random commands on random data at random checks for this many seconds. */
extern bool stop_at_random(Stopper *stopper, double seconds);

#endif							/* ENGINE_STOPS_H */
