/*
 * The nearest neighbours of points among each other, on the CPU engine.
 */
#include <math.h>

#include "state.h"
#include "neighbours.h"

/* Points that are compared with a block while both are in the cache. */
#define TILE_POINTS 256

/* The command, and the points in blocks. */
typedef struct Neighbours
{
	const GkCommand *command;
	const float *blocks;
} Neighbours;

/* Puts points into blocks; behind the last one are copies of it. */
static void
pack_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const GkCommand *command = context;
	float	   *blocks = engine->scratch.base;

	(void) worker;
	for (int64_t i = from * GK_BLOCK; i < to * GK_BLOCK && !gk_cpu_stopped(engine); i++)
	{
		int64_t		last = command->neighbours.count - 1;
		const float *point = command->neighbours.points + (i < last ? i : last) * engine->d;
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
		gk_offer_neighbour(lists->keys[r], gk_neighbour_key(distances[r], point));
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

/* Finds the neighbours of the points of a block; false if the engine is closing. */
static bool
compare_block(GkCpuEngine *engine, const Neighbours *neighbours, int64_t block, Lists *lists)
{
	const GkCommand *command = neighbours->command;
	const float *mine = neighbours->blocks + block * GK_BLOCK * engine->d;

	for (int64_t p = 0; p < command->neighbours.count; p += GK_CENTROIDS_AT_ONCE)
	{
		int64_t		left = command->neighbours.count - p;
		int			count = left < GK_CENTROIDS_AT_ONCE ? (int) left : GK_CENTROIDS_AT_ONCE;
		float		distances[GK_CENTROIDS_AT_ONCE * GK_BLOCK];

		if (p % TILE_POINTS == 0 && gk_cpu_stopped(engine))
			return false;
		engine->kernels->spans(mine, engine->d, command->neighbours.points + p * engine->d, count,
							   distances);
		for (int i = 0; i < count; i++)
			offer_point(lists, distances + i * GK_BLOCK, block, p + i);
	}
	return true;
}

/* Gives the list of a point to the caller. */
static void
write_list(const GkCommand *command, int64_t place, const uint64_t *keys)
{
	int32_t    *neighbours = command->neighbours.neighbours + place * GK_NEIGHBOUR_COUNT;
	float	   *distances = command->neighbours.distances + place * GK_NEIGHBOUR_COUNT;

	for (int i = 0; i < GK_NEIGHBOUR_COUNT; i++)
	{
		neighbours[i] = gk_neighbour_number(keys[i]);
		distances[i] = gk_neighbour_distance(keys[i]);
	}
}

/* Finds the neighbours of the points of some blocks. */
static void
neighbours_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Neighbours *neighbours = context;
	const GkCommand *command = neighbours->command;
	int64_t		first = command->neighbours.first;
	int64_t		end = first + command->neighbours.wanted;

	(void) worker;
	for (int64_t block = first / GK_BLOCK + from; block < first / GK_BLOCK + to; block++)
	{
		Lists		lists;

		clear_lists(&lists);
		if (!compare_block(engine, neighbours, block, &lists))
			return;
		for (int r = 0; r < GK_BLOCK; r++)
		{
			int64_t		point = block * GK_BLOCK + r;

			if (point >= first && point < end)
				write_list(command, point - first, lists.keys[r]);
		}
	}
}

/* The neighbours of points. */
void
gk_cpu_run_neighbours(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		blocks = (command->neighbours.count + GK_BLOCK - 1) / GK_BLOCK;
	int64_t		first = command->neighbours.first / GK_BLOCK;
	int64_t		end = command->neighbours.first + command->neighbours.wanted;
	Neighbours	neighbours = {.command = command};

	if (!gk_cpu_array_need(engine, &engine->scratch, blocks,
						   (size_t) GK_BLOCK * engine->d * sizeof(float)) ||
		!gk_cpu_for_each(engine, blocks, 8.0 * GK_BLOCK * engine->d, pack_chunk, command))
		return;
	neighbours.blocks = engine->scratch.base;
	gk_cpu_for_each(engine, (end + GK_BLOCK - 1) / GK_BLOCK - first,
					2.0 * GK_BLOCK * engine->d * command->neighbours.count, neighbours_chunk,
					&neighbours);
}
