/*
 * Stops of the CPU engine that a test has planned.
 */
#ifndef CPU_STOPS_H
#define CPU_STOPS_H

#include "engine.h"

/*
 * From now on, this engine's check number `look` for being closed, and all later ones, answer
 * yes; 0 cancels the plan.  Returns how many checks the previous plan was still waiting for, 0
 * if it has stopped a command.  Only one engine at a time has a plan.
 */
extern int64_t plan_cpu_stop(GkEngine *engine, int64_t look);

#endif							/* CPU_STOPS_H */
