/*
 * A node's inside: shared by the files that make it, seen by nobody else.
 */
#ifndef GK_NODE_STATE_H
#define GK_NODE_STATE_H

#include "engine_state.h"
#include "message.h"
#include "node.h"

/* No centroid or candidate is farther from 0 in any direction: squares of distances stay finite. */
#define GK_FARTHEST_CENTROID 0x1p130

struct GkNode
{
	GkEngine   *engine;
	int			d;
	int64_t		n;
	GkMemory	memory;

	/* the message */
	GkRoom		put;
	size_t		put_bytes;
	GkHeader	header;
	GkReader	reader;
	uint64_t	sequence;		/* of the last message */
	bool		running;

	/* its commands, one after the other */
	GkCommand	move;
	GkCommand	command;
	GkCommand	compare;
	GkCommand	range;
	GkCommand  *current;
	int			asked;			/* GK_ASK_… of these operations */
	int64_t		from;			/* of GK_FETCH */
	int64_t		count;
	uint64_t	begin;			/* nanoseconds */

	/* the answer; the engine writes into it */
	GkMessage	answer;
	int64_t    *integers;		/* single numbers of the answer, known at the end */
	double	   *doubles;
	int32_t    *clusters;		/* of GK_STEP: room for k */
	int32_t    *labels;			/* of GK_FETCH, as below; NULL: not asked for */
	double	   *distance2;
	uint8_t    *equal;			/* of GK_FARTHEST */

	/* what is known of the engine */
	GkState		state;
	int64_t		k;				/* centroids before the message */
	bool		sealed;
	GkRoom		ranges;			/* float: d least, d greatest */
	double		least_weight;
	double		greatest_weight;
	bool		wide;
	bool		grid_fits;		/* no sum can overflow on it, as the rows are */
	GkRoom		exponents;		/* int, d + 1: of the grid */
	double		greatest_mass;	/* of the d² in the engine; infinite if unknown */
	double		greatest_distance;
	GkRoom		centroids;		/* double, state.centroids × d: as they are in the engine */
	GkRoom		pairs;			/* int64: of the comparison of farthest rows */
};

/* node_requests.c: reads the command of a message; what is wrong with it, NULL if nothing is. */
extern const char *gk_node_read(GkNode *node);

/* Finds out whether the grid fits the rows. */
extern void gk_node_check_grid(GkNode *node);

/* node_answers.c */
extern void gk_node_write_answer(GkMessage *message, void *node);
extern void gk_node_finish_answer(GkNode *node);

#endif							/* GK_NODE_STATE_H */
