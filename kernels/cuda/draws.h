/*
 * A draw of rows on the device (GK_DRAW), in its scratch memory.
 */
#ifndef GK_DRAWS_H
#define GK_DRAWS_H

#include "launch.h"

namespace gk
{

/* A draw of few rows has so many bits at most. */
#define FEW_BITS 11

/* A point of the line. */
struct DrawnPoint
{
	int64_t		bucket;
	int64_t		rest;			/* how far behind the beginning of the bucket */
};

/* What a draw comes to. */
struct DrawEnd
{
	int64_t		total;			/* the mass of all rows */
	int64_t		found;			/* rows */
	int			is_left;		/* not 0: it could not be made here */
	unsigned long long greatest;	/* bits of the greatest weight × d² (draws_few.cu) */
};

/* A draw. */
struct Draw
{
	int64_t		count;			/* of points */
	uint64_t	seed;
	uint32_t	start;
	uint32_t	round;
	int			bits;			/* of the number of buckets */
	int64_t		capacity;		/* of the list */
	int			d;
	const float *features;		/* of all rows */
	const double *weights;		/* of all rows, NULL if not weighted */

	/*
	 * These come first, and are to be zero: so many bytes.  If few rows are drawn from, all but the
	 * last are in shared memory.
	 */
	uint64_t	zeros;
	int64_t    *begins;			/* buckets + 1: the masses, then where each begins */
	int32_t    *drawn;			/* buckets + 1: rows drawn, then how many before each */
	uint8_t    *wanted;			/* buckets: 1 = there is a point */
	int32_t    *chains;			/* buckets: 1 + the row of the list that came last; 0 = none */
	DrawEnd    *end;

	int64_t    *begin_sums;		/* draw_tiles() */
	int32_t    *drawn_sums;		/* draw_tiles() */
	DrawnPoint *points;			/* count */
	Listed	   *list;			/* capacity: the rows of the wanted buckets */
	int32_t    *next;			/* capacity: the row before in the chain, -1 = none */
	int		   *is_drawn;		/* capacity */
	int64_t    *rows;			/* count: those drawn, in the order of the line */
	float	   *drawn_features;	/* count × d */
};

int64_t		draw_tiles(int bits);
void		draw_points(Shard &shard, const Draw &draw);
void		find_drawn_rows(Shard &shard, const Draw &draw);
void		gather_drawn(Shard &shard, const Draw &draw, int64_t found, double *wide);
void		draw_few(Shard &shard, const Slice &slice, const Draw &draw, const Mass &mass);
void		compare_few(Shard &shard, const Draw &draw, int64_t first_label);
void		widen_features(Shard &shard, const float *from, int64_t count, double *to);

}								/* namespace gk */

#endif							/* GK_DRAWS_H */
