/*
 * What this server does as a node of another server's fit: it reads its rows into an engine of its
 * own, and carries out the messages of the other server's cluster engine.
 *
 * It does so in the steps of the SQL functions gkmeans_node_…, one transaction for a fit.  All that
 * they hold belongs to the transaction, and is freed at once if one of them fails.  Nothing that a
 * client says is trusted: steps in a wrong order and messages of any bytes are errors.
 */
#ifndef GK_NODE_JOB_H
#define GK_NODE_JOB_H

#include "postgres.h"

#include "utils/tuplestore.h"

#include "choose_engine.h"
#include "reading.h"
#include "shared_labels.h"
#include "source.h"

/* What both servers must understand alike; changes with the steps and the messages. */
#define GK_NODE_PROTOCOL 1

/* What a node is to do. */
typedef struct GkNodeTask
{
	GkSourceSpec source;		/* without dimension and shift */
	bool		by_direction;
	GkWork		work;			/* without rows and dimension */
} GkNodeTask;

/* The engine that a node has opened. */
typedef struct GkNodeEngine
{
	const char *name;
	const char *reason;
	const char *columns;		/* the types of the columns, see gk_column_types() */
} GkNodeEngine;

/*
 * Begins the job of a node, instead of an earlier one; copies what it is to do.  Raises the
 * errors of gk_source_describe() and gk_open_engine().
 */
extern void gk_node_job_begin(const GkNodeTask *task, GkNodeEngine *opened);

/*
 * Reads the rows, instead of those read before: with the dimension and the shift given, or, if the
 * dimension is 0, with those that it finds out.  *seconds is the time that this took.
 */
extern const GkRows *gk_node_job_read(int dimension, const double *shift, double *seconds);

/* Puts the ids of the rows as texts, and their numbers, into a store; once. */
extern void gk_node_job_put_ids(Tuplestorestate *store, TupleDesc descriptor);

/* How rows are labelled. */
typedef struct GkNodeLabelling
{
	const int32 *clusters;		/* count: the cluster of each label of the engine */
	int			count;
	double		(*distance) (double distance2);
} GkNodeLabelling;

/*
 * Leaves the labels of the rows in shared memory, for sessions that know the key; *rows is how
 * many.  Returns the handle of the memory, which outlives the transaction: it is kept until the end
 * of the next one, or gk_node_job_end().  The ids are used up by that.
 */
extern dsm_handle gk_node_job_publish(const pg_uuid_t *key, const GkNodeLabelling *labelling,
									  int64 *rows);

/*
 * Puts those of a key that nobody has taken into a store of three columns, the ids as texts; 55000
 * if this session has not left them.
 */
extern void gk_node_job_put_rest(const pg_uuid_t *key, Tuplestorestate *store,
								 TupleDesc descriptor);

/* Takes a piece of a message. */
extern void gk_node_job_add_piece(const void *piece, Size bytes);

/* Carries out the message. */
extern void gk_node_job_carry_out(void);

/* The next part of the answer, at most so many bytes of it; *bytes is 0 at its end. */
extern const void *gk_node_job_next_part(Size limit, Size *bytes);

/* Ends the job of this node; nothing if there is none. */
extern void gk_node_job_end(void);

#endif							/* GK_NODE_JOB_H */
