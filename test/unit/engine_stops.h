/*
 * Commands that are stopped wherever they can notice, and what becomes of the engine.
 */
#ifndef ENGINE_STOPS_H
#define ENGINE_STOPS_H

#include "engine_cases.h"

/*
 * Makes look number `look` of the commands to come find the engine closing, and those after it; 0
 * takes the plan back. Gives how many looks of an earlier plan were still to come.
 */
typedef int64_t (*StopPlan) (GkEngine *engine, int64_t look);

/* What is stopped, and how. */
typedef struct Stopper
{
	const GkEngineClass *tested;
	StopPlan	plan;
	const GkEngineClass *oracle;	/* never stopped */
	Feeding		feeding;
	int64_t		first;			/* each of so many looks is a stop once, … */
	int64_t		others;			/* … and so many by chance of those after them */
	int64_t		stops;			/* out: how often a command was stopped */
	int64_t		refused;		/* out: how often one was refused afterwards */
} Stopper;

/* Stops every command on the data; does the engine afterwards do as one that was never stopped? */
extern bool stop_everywhere(Stopper *stopper, const Data *data);

/* Stops random commands on random data at random looks for so many seconds. */
extern bool stop_at_random(Stopper *stopper, double seconds);

#endif							/* ENGINE_STOPS_H */
