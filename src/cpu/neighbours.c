/*
 * The nearest neighbours of points among each other, on the CPU engine.
 */
#include <math.h>
#include <string.h>

#include "state.h"
#include "neighbours.h"

/* Points that are compared with a block while both are in the cache. */
#define TILE_POINTS 256

/* The points, as they come and in blocks, and their lists. */
typedef struct Neighbours
{
	const float *points;
	int64_t		count;
	const float *blocks;
	uint64_t   *keys;
} Neighbours;

/* Puts points into blocks; behind the last one are copies of it. */
static void
pack_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Neighbours *neighbours = context;
	float	   *blocks = engine->scratch.base;

	(void) worker;
	for (int64_t i = from * GK_BLOCK; i < to * GK_BLOCK && !gk_cpu_stopped(engine); i++)
	{
		int64_t		last = neighbours->count - 1;
		const float *point = neighbours->points + (i < last ? i : last) * engine->d;
		float	   *place = blocks + i / GK_BLOCK * GK_BLOCK * engine->d + i % GK_BLOCK;

		for (int j = 0; j < engine->d; j++)
			place[j * GK_BLOCK] = point[j];
	}
}

/* The neighbours of the points of a block so far. */
typedef struct Lists
{
	uint64_t	keys[GK_BLOCK][GK_NEIGHBOUR_COUNT];
	float		limits[GK_BLOCK];	/* no neighbour beyond this belongs there */
} Lists;

/* Offers a point to the lists of a block, from its distances to it. */
static void
offer_point(Lists *lists, const float *distances, int64_t block, int64_t point)
{
	int			near = 0;

	for (int r = 0; r < GK_BLOCK; r++)
		near |= distances[r] <= lists->limits[r];
	for (int r = 0; r < GK_BLOCK && near != 0; r++)
	{
		if (block * GK_BLOCK + r == point)
			continue;
		gk_offer_neighbour(lists->keys[r],
						   gk_neighbour_key(distances[r], point, block * GK_BLOCK + r));
		lists->limits[r] = gk_neighbour_distance(lists->keys[r][GK_NEIGHBOUR_COUNT - 1]);
	}
}

/* Empty lists. */
static void
clear_lists(Lists *lists)
{
	for (int r = 0; r < GK_BLOCK; r++)
	{
		for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
			lists->keys[r][i] = GK_NO_NEIGHBOUR;
		lists->limits[r] = INFINITY;
	}
}

/*
 * Finds the neighbours of the points of a block; false if the engine is closing.  It begins with
 * the block itself: where points come in the order of their places, others would each be nearer
 * than all before.
 */
static bool
compare_block(GkCpuEngine *engine, const Neighbours *neighbours, int64_t block, Lists *lists)
{
	const float *mine = neighbours->blocks + block * GK_BLOCK * engine->d;
	int64_t		groups = (neighbours->count + GK_CENTROIDS_AT_ONCE - 1) / GK_CENTROIDS_AT_ONCE;
	int64_t		own = block * GK_BLOCK / GK_CENTROIDS_AT_ONCE;

	for (int64_t i = 0; i < groups; i++)
	{
		int64_t		p = (own + i) % groups * GK_CENTROIDS_AT_ONCE;
		int64_t		left = neighbours->count - p;
		int			count = left < GK_CENTROIDS_AT_ONCE ? (int) left : GK_CENTROIDS_AT_ONCE;
		float		distances[GK_CENTROIDS_AT_ONCE * GK_BLOCK];

		if (p % TILE_POINTS == 0 && gk_cpu_stopped(engine))
			return false;
		engine->kernels->spans(mine, engine->d, neighbours->points + p * engine->d, count,
							   distances);
		for (int i = 0; i < count; i++)
			offer_point(lists, distances + i * GK_BLOCK, block, p + i);
	}
	return true;
}

/* Finds the neighbours of the points of some blocks. */
static void
neighbours_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Neighbours *neighbours = context;

	(void) worker;
	for (int64_t block = from; block < to; block++)
	{
		int64_t		left = neighbours->count - block * GK_BLOCK;
		Lists		lists;

		clear_lists(&lists);
		if (!compare_block(engine, neighbours, block, &lists))
			return;
		memcpy(neighbours->keys + block * GK_BLOCK * GK_NEIGHBOUR_COUNT, lists.keys,
			   (left < GK_BLOCK ? left : GK_BLOCK) * sizeof(lists.keys[0]));
	}
}

/* Lists the neighbours of points among each other, by gk_neighbour_key(). */
bool
gk_cpu_list_neighbours(GkCpuEngine *engine, const float *points, int64_t count, uint64_t *keys)
{
	int64_t		blocks = (count + GK_BLOCK - 1) / GK_BLOCK;
	Neighbours	neighbours = {.points = points,.count = count,.keys = keys};

	if (!gk_cpu_array_need(engine, &engine->scratch, blocks,
						   (size_t) GK_BLOCK * engine->d * sizeof(float)) ||
		!gk_cpu_for_each(engine, blocks, 8.0 * GK_BLOCK * engine->d, pack_chunk, &neighbours))
		return false;
	neighbours.blocks = engine->scratch.base;
	return gk_cpu_for_each(engine, blocks, 2.0 * GK_BLOCK * engine->d * count, neighbours_chunk,
						   &neighbours);
}
