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
#include "scalars.h"

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
	GkFeed	   *feed;			/* NULL: ended, everything is in the feed */
	MemoryContext context;
	int64		read;
	int64		skipped;
	int64		zeros;			/* skipped for having no direction */
	int64	   *nulls;			/* rows skipped for each column and the weight; may be NULL */
	int64	   *not_finite;
	int			dimension;
	GkScalars  *scalars;		/* every column is one feature; NULL = arrays */
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
	int64		limit;			/* rows after which it is handed over */
	float	   *features;
	double	   *weights;

	/* rows that are decoded to doubles are held, and rounded many at a time; see lanes.h */
	bool		shifting;
	double	   *held;			/* NULL = rows are decoded into the batch */
	int64		held_limit;
	int64		rounded;		/* rows of the batch before those that are held */
	bool		shift_known;
	double	   *shift;
	double	   *least;			/* while shifting, the ranges so far */
	double	   *greatest;

	const char *last_data;		/* address of the previous row's array */
	int64		distance;		/* from one row of a page to the next */
	int			count;
	GkColumn	columns[FLEXIBLE_ARRAY_MEMBER];
} GkFeeder;

/* Allocates what depends on the dimension. */
extern void gk_feeder_set_dimension(GkFeeder *feeder, int dimension);

/* Adds a row, the arguments of the transition function, to the batch; false if it is unusable. */
extern bool gk_feeder_take_row(GkFeeder *feeder, FunctionCallInfo fcinfo);

/* Hands the batch over; `at_end` if no more rows follow. */
extern void gk_feeder_publish(GkFeeder *feeder, bool at_end);

#endif							/* GK_FEEDER_H */
