/*
 * The ends of an engine: closed in the middle of every command, and every call failing.
 */
#ifndef ENGINE_ENDS_H
#define ENGINE_ENDS_H

#include "engine_cases.h"

/* The commands in an order in which they can be run. */
#define COMMANDS 20
extern const GkOperation command_order[COMMANDS];

/*
 * Closes an engine so many milliseconds after command number `last` of the order was submitted, all
 * before it done; gives the seconds that the closing took.
 */
extern double close_in_command(const GkEngineClass *class_of, const Data *data, Feeding feeding,
							   int last, int milliseconds, bool *was_running);

/*
 * Closes an engine that has been given so many batches of 4 MB; gives the seconds that the closing
 * took.
 */
extern double close_spilled(const GkEngineClass *class_of, int64_t batches, Feeding feeding);

/*
 * Runs all commands on an engine, and closes it at the first error, the code of which it gives.
 */
extern GkCode run_until_error(const GkEngineClass *class_of, const Data *data, Feeding feeding);

/* Bytes of devices that the engines of this process hold. */
extern uint64_t bytes_left(const GkEngineClass *class_of);

#endif							/* ENGINE_ENDS_H */
