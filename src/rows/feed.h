/*
 * The feed: the memory of one reading of a source, shared by the processes that read it, and the
 * aggregate _gkmeans_feed() that each of them runs over its share of the rows.
 */
#ifndef GK_FEED_H
#define GK_FEED_H

#include <stdatomic.h>

#include "postgres.h"

#include "storage/dsm.h"

#include "drain.h"
#include "once.h"
#include "ring.h"
#include "shift.h"

/* Up to this many scalar features are single arguments; more come as arrays of GK_PIECE. */
#define GK_MAX_ARGUMENTS 90
#define GK_PIECE 64

#define GK_FEED_KEY_BYTES 12

/* How to read the rows. */
typedef struct GkFeedSpec
{
	bool		weighted;
	bool		nulls_are_errors;
	bool		zero_is_unusable;
	bool		shifting;		/* features that are not exact in float32 may be shifted */
	int			width;			/* scalar features; 0 = the length of the first array */
	const GkFeatureClass *classes;	/* width, or 1 for all elements of the array */
	Oid			id_type;		/* InvalidOid = no ids */
	int			participants;	/* processes that may feed */
	int			processes;		/* that the plan has feed */
	bool		alone;			/* no other process than this one can feed */
	double		expected_bytes; /* of all rows in the ring, by the plan */
	int			columns;		/* of features, in the user's source */
	const char *const *names;	/* and their names */
	const char *weight;			/* the name of the weight column, NULL = none */
} GkFeedSpec;

/* The number of rows that a column made unusable. */
typedef struct GkTroubles
{
	_Atomic int64 nulls;
	_Atomic int64 not_finite;
} GkTroubles;

/* The memory; the arrays and the ring's slots follow. */
typedef struct GkFeed
{
	/* at the same place in every version of the library */
	uint64		magic;
	uint8		key[GK_FEED_KEY_BYTES]; /* random, new for each run of the query */
	int			leader_pid;
	uint64		library;		/* which one the leader has loaded */

	Oid			aggregate;		/* the extension's aggregate, which the query calls */
	bool		nulls_are_errors;
	bool		zero_is_unusable;
	bool		shifting;
	int			width;
	Oid			id_type;
	dsm_handle	ids;
	int			max_participants;
	atomic_int	participants;
	atomic_int	workers;
	_Atomic int64 read;
	_Atomic int64 skipped;
	GkOnce		dimension_known;
	Size		shift;			/* offset, if shifting */
	int			columns;		/* number of feature columns; the weight follows them */
	Size		names;			/* offsets of arrays, columns + 1 */
	Size		troubles;
	_Atomic int64 zeros;		/* rows of zeros, which have no direction */
	GkDrain    *drain;			/* moves batches when told to; NULL = its thread does */
	GkRing		ring;
} GkFeed;

/* Where a feed lies. */
typedef struct GkFeedPlace
{
	GkFeed	   *feed;			/* NULL = nowhere */
	dsm_segment *segment;		/* NULL = in memory of this process */
	Size		bytes;
	Size		ring_bytes;		/* of these, in the ring */
} GkFeedPlace;

/*
 * Creates a feed without rows: in shared memory, or, if this process feeds alone or the server has
 * no more segments, in its own, which costs nothing but the pages that are used.  The caller must
 * store the place where it will be freed.
 */
extern GkFeedPlace gk_feed_create(const GkFeedSpec *spec);

/* Frees a feed. */
extern void gk_feed_free(const GkFeedPlace *place);

/* Resets it for a reading; keeps the shift if it is set. */
extern void gk_feed_reset(GkFeed *feed, dsm_handle ids);

/* True if a segment is the feed with that key and leader. */
extern bool gk_feed_is_ours(const GkFeed *feed, const uint8 *key, int leader_pid);

/* True if the leader of such a feed has the same library as this process. */
extern bool gk_feed_is_known(const GkFeed *feed);

/* Sets the number of features of a row, unless another process has. */
extern void gk_feed_learn_dimension(GkFeed *feed, int dimension);

/* The shift of the features, NULL if they are not shifted. */
extern GkShift *gk_feed_shift(GkFeed *feed);

/* For each column of the source, the weight last: its name, and how many rows it made unusable. */
extern NameData *gk_feed_names(GkFeed *feed);
extern GkTroubles *gk_feed_troubles(GkFeed *feed);

#endif							/* GK_FEED_H */
