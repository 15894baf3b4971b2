/*
 * The ends of an engine: closed in the middle of every command, and every call failing.
 */
#ifndef ENGINE_ENDS_H
#define ENGINE_ENDS_H

#include "engine_cases.h"

/* The commands in an order in which they can be run. */
#define COMMANDS GK_OPERATIONS
extern const GkOperation command_order[COMMANDS];

/* Inputs and room for outputs of every command. */
typedef struct Room
{
	const Data *data;
	double	   *centroids;		/* the second one is as the first: a cluster will be empty */
	double	   *moved;			/* k × d: others */
	double	   *ones;			/* d */
	double	   *zeros;			/* d */
	int		   *exponents;		/* d + 1, all 0 */
	uint8_t    *wanted;			/* of every bucket, all 1 */
	uint8_t    *is_empty;		/* k */
	int64_t		entries;		/* rows that a list has room for */
	int64_t    *row;			/* 1, which is 0 */
	int64_t    *pairs;			/* entries, all 0: a row is compared with itself */
	int32_t    *groups;			/* n, all 0 */
	double	   *weights;		/* n: 1 each */
	int64_t    *ends;			/* k: of groups of one centroid each */
	int64_t    *cluster;		/* 1, which is 1 */
	size_t		bytes;			/* of each output */
	void	   *out[5];
} Room;

extern Room make_room(const Data *data);
extern void free_room(Room *room);

/* A command with its inputs, on all centroids or candidates, or on a few. */
extern GkCommand fill_command(GkOperation operation, Room *room, bool many);

/* Sets the number of features and appends all rows at once. */
extern GkStatus append_all(GkEngine *engine, const Data *data);

/* Runs a command to its end, good or bad. */
extern GkStatus run_one(GkEngine *engine, GkCommand *command);

/*
 * Closes an engine this many milliseconds after command number `last` of the order was
 * submitted, with all earlier ones done; returns the seconds that closing took.
 */
extern double close_in_command(const GkEngineClass *class_of, const Data *data, Feeding feeding,
							   int last, int milliseconds, bool *was_running);

/*
 * Closes an engine after this many batches of 4 MB; returns the seconds that closing took.
 */
extern double close_spilled(const GkEngineClass *class_of, int64_t batches, Feeding feeding);

/*
 * Runs all commands on an engine, and closes it at the first error, the code of which it gives.
 */
extern GkCode run_until_error(const GkEngineClass *class_of, const Data *data, Feeding feeding);

/* Bytes of devices that the engines of this process hold. */
extern uint64_t bytes_left(const GkEngineClass *class_of);

#endif							/* ENGINE_ENDS_H */
