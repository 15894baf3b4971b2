/*
 * Stops of the CPU engine that a test has planned.
 */
#ifndef CPU_STOPS_H
#define CPU_STOPS_H

#include "engine.h"

/*
 * Look number `look` of this engine's commands to come at whether it is closing finds it so, and so
 * do those after it; 0 takes the plan back.  Gives how many looks of the plan before were still
 * to come, 0 if it has stopped a command.  One engine at a time has a plan.
 */
extern int64_t plan_cpu_stop(GkEngine *engine, int64_t look);

#endif							/* CPU_STOPS_H */
