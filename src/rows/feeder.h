/*
 * A process's share of the rows of a source: the transition state of the feed.
 */
#ifndef GK_FEEDER_H
#define GK_FEEDER_H

#include "postgres.h"

#include "fmgr.h"

#include "decode.h"
#include "feed.h"
#include "row_ids.h"

/* Arguments of the transition function. */
enum
{
	GK_STATE,
	GK_TICKET,
	GK_ID,
	GK_WEIGHT,
	GK_FIRST_FEATURE
};

/* One process's share: the transition state. */
typedef struct GkFeeder
{
	GkFeed	   *feed;			/* NULL: ended, everything is in shared memory */
	MemoryContext context;
	int64		read;
	int64		skipped;
	int64		zeros;			/* skipped for having no direction */
	int64	   *nulls;			/* rows skipped for each column and the weight; may be NULL */
	int64	   *not_finite;
	int			dimension;
	bool		scalars;		/* every column is a scalar, one feature */
	bool		reals;			/* … all of type real */
	bool		weighted;
	GkElement	weight_element;
	GkRowIdsWriter *ids;		/* NULL = no ids */
	Oid			id_type;

	/* the batch that is being filled */
	int			slot;			/* -1 = none */
	int64		sequence;
	int64		rows;
	int64		capacity;
	float	   *features;
	double	   *weights;

	/* while shifting */
	bool		shifting;
	const double *shift;		/* NULL = not yet known: rows are held */
	double	   *values;			/* the row, and its range so far */
	double	   *least;
	double	   *greatest;
	double	   *held;			/* rows of the batch, not yet shifted */
	int64		held_limit;

	const char *last_data;		/* address of the previous row's array */
	int64		distance;		/* from one row of a page to the next */
	int			count;
	GkColumn	columns[FLEXIBLE_ARRAY_MEMBER];
} GkFeeder;

/* Allocates what depends on the dimension. */
extern void gk_feeder_set_dimension(GkFeeder *feeder, int dimension);

/* Adds a row, the arguments of the transition function, to the batch; false if it is unusable. */
extern bool gk_feeder_take_row(GkFeeder *feeder, FunctionCallInfo fcinfo);

/* Determines the shift of the held rows. */
extern void gk_feeder_settle_shift(GkFeeder *feeder, bool at_end);

/* Hands the batch over. */
extern void gk_feeder_publish(GkFeeder *feeder);

#endif							/* GK_FEEDER_H */
