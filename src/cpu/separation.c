/*
 * How far rows are from the points of their own group and of the nearest other one, on the CPU
 * engine.
 */
#include <math.h>
#include <string.h>

#include "state.h"

#define TILE_BLOCKS 4
#define TILE_ROWS (TILE_BLOCKS * GK_BLOCK)

/* The command, and what does not change over it. */
typedef struct Separation
{
	const GkCommand *command;
	int64_t		points;
	bool		single;			/* each group is one point: roots can wait for the least */
	int64_t		before;			/* rows of the first block that come before those asked for */
	float	   *blocks;			/* TILE_BLOCKS for each worker; NULL: those of the engine */
} Separation;

/* Some blocks of rows. */
typedef struct Tile
{
	const float *blocks[TILE_BLOCKS];
	int			count;
	int32_t		labels[TILE_ROWS];	/* -1 = no row that was asked for */
	double		sum[TILE_ROWS];	/* over the points of a group so far */
	double		own[TILE_ROWS];
	double		other[TILE_ROWS];
} Tile;

/* Makes a block of the caller's rows; behind the last one are copies of it. */
static void
make_block(const GkCpuEngine *engine, const GkCommand *command, int64_t first, float *block)
{
	for (int i = 0; i < GK_BLOCK; i++)
	{
		int64_t		row = first + i < command->separation.count ? first + i
			: command->separation.count - 1;
		const float *features = command->separation.features + row * engine->d;

		for (int j = 0; j < engine->d; j++)
			block[j * GK_BLOCK + i] = features[j];
	}
}

/* Begins a tile of so many blocks, `block` the first of them. */
static void
begin_tile(const GkCpuEngine *engine, const Separation *separation, int worker, int64_t block,
		   int count, Tile *tile)
{
	const GkCommand *command = separation->command;
	int64_t		first_block = command->separation.first / GK_BLOCK;

	tile->count = count;
	for (int b = 0; b < count; b++)
	{
		float	   *own = separation->blocks == NULL ? NULL : separation->blocks +
			((size_t) worker * TILE_BLOCKS + b) * GK_BLOCK * engine->d;

		if (own != NULL)
			make_block(engine, command, (block + b) * GK_BLOCK, own);
		tile->blocks[b] = own != NULL ? own : gk_cpu_block(engine, first_block + block + b);
	}
	for (int i = 0; i < count * GK_BLOCK; i++)
	{
		int64_t		row = block * GK_BLOCK + i - separation->before;

		tile->labels[i] = row >= 0 && row < command->separation.count
			? command->separation.labels[row] : -1;
		tile->sum[i] = tile->own[i] = 0.0;
		tile->other[i] = INFINITY;
	}
}

/* Ends a group of so many points for the rows of a block. */
static void
end_group(Tile *tile, int b, int64_t group, int64_t size)
{
	const int32_t *labels = tile->labels + b * GK_BLOCK;
	double	   *sum = tile->sum + b * GK_BLOCK;
	double	   *other = tile->other + b * GK_BLOCK;

	for (int i = 0; i < GK_BLOCK; i++)
		if (labels[i] == group)
		{
			tile->own[b * GK_BLOCK + i] = sum[i];
			sum[i] = INFINITY;
		}
	for (int i = 0; i < GK_BLOCK && size > 1; i++)
		sum[i] /= (double) size;
	for (int i = 0; i < GK_BLOCK; i++)
	{
		other[i] = sum[i] < other[i] ? sum[i] : other[i];
		sum[i] = 0.0;
	}
}

/* Adds distances of a block to the points from number `point` on; the group after them. */
static int64_t
add_points(const GkCommand *command, Tile *tile, int b, const double *distances, int64_t point,
		   int count, int64_t group)
{
	const int64_t *ends = command->separation.ends;
	double	   *sum = tile->sum + b * GK_BLOCK;

	for (int i = 0; i < count; i++)
	{
		for (int r = 0; r < GK_BLOCK; r++)
			sum[r] += distances[i * GK_BLOCK + r];
		if (point + i + 1 == ends[group])
		{
			end_group(tile, b, group, group == 0 ? ends[0] : ends[group] - ends[group - 1]);
			group++;
		}
	}
	return group;
}

/* Makes distances of so many times GK_BLOCK d². */
static void
make_distances(const GkCpuEngine *engine, bool cosine, double *values, int count)
{
	if (!cosine)
		engine->kernels->roots(values, count);
	for (int i = 0; i < count * GK_BLOCK && cosine; i++)
		values[i] *= 0.5;
}

/* Compares a tile with all points; false if the engine is closing. */
static bool
compare_tile(GkCpuEngine *engine, const Separation *separation, Tile *tile)
{
	const GkCommand *command = separation->command;
	int64_t		group = 0;

	for (int64_t p = 0; p < separation->points; p += GK_CENTROIDS_AT_ONCE)
	{
		int			count = separation->points - p < GK_CENTROIDS_AT_ONCE
			? (int) (separation->points - p) : GK_CENTROIDS_AT_ONCE;
		int64_t		next = group;

		if (gk_cpu_stopped(engine))
			return false;
		for (int b = 0; b < tile->count; b++)
		{
			double		distances[GK_CENTROIDS_AT_ONCE * GK_BLOCK];

			engine->kernels->distances(tile->blocks[b], engine->d,
									   command->separation.points + p * engine->d, count,
									   distances);
			if (!separation->single)
				make_distances(engine, command->separation.cosine, distances, count);
			next = add_points(command, tile, b, distances, p, count, group);
		}
		group = next;
	}
	return true;
}

/* Compares a tile with the single points of its own groups. */
static void
compare_own(const GkCpuEngine *engine, const Separation *separation, Tile *tile)
{
	for (int b = 0; b < tile->count; b++)
	{
		int32_t		labels[GK_BLOCK];

		for (int i = 0; i < GK_BLOCK; i++)
			labels[i] = tile->labels[b * GK_BLOCK + i] < 0 ? 0 : tile->labels[b * GK_BLOCK + i];
		engine->kernels->own_distances(tile->blocks[b], engine->d,
									   separation->command->separation.points, labels,
									   tile->own + b * GK_BLOCK);
	}
}

/* The distances of a tile; false if the engine is closing. */
static bool
measure_tile(GkCpuEngine *engine, const Separation *separation, Tile *tile)
{
	bool		cosine = separation->command->separation.cosine;

	if (separation->single && separation->command->separation.other == NULL)
	{
		if (gk_cpu_stopped(engine))
			return false;
		compare_own(engine, separation, tile);
	}
	else if (!compare_tile(engine, separation, tile))
		return false;
	if (separation->single)
	{
		make_distances(engine, cosine, tile->own, tile->count);
		make_distances(engine, cosine, tile->other, tile->count);
	}
	return true;
}

/* Measures the rows of some blocks. */
static void
separation_chunk(GkCpuEngine *engine, void *context, int worker, int64_t from, int64_t to)
{
	const Separation *separation = context;
	const GkCommand *command = separation->command;
	Tile		tile;

	for (int64_t block = from; block < to; block += TILE_BLOCKS)
	{
		begin_tile(engine, separation, worker, block,
				   to - block < TILE_BLOCKS ? (int) (to - block) : TILE_BLOCKS, &tile);
		if (!measure_tile(engine, separation, &tile))
			return;
		for (int i = 0; i < tile.count * GK_BLOCK; i++)
		{
			int64_t		row = block * GK_BLOCK + i - separation->before;

			if (tile.labels[i] < 0)
				continue;
			command->separation.own[row] = tile.own[i];
			if (command->separation.other != NULL)
				command->separation.other[row] = tile.other[i];
		}
	}
}

/* How far rows are from their own group of points, and from the nearest other one. */
void
gk_cpu_run_separation(GkCpuEngine *engine, GkCommand *command)
{
	int64_t		groups = command->separation.groups;
	Separation	separation = {.command = command,.points = command->separation.ends[groups - 1]};
	int64_t		blocks;

	separation.single = separation.points == groups;
	if (command->separation.features == NULL)
		separation.before = command->separation.first % GK_BLOCK;
	blocks = (separation.before + command->separation.count + GK_BLOCK - 1) / GK_BLOCK;
	if (command->separation.features != NULL)
	{
		if (!gk_cpu_array_need(engine, &engine->scratch, gk_cpu_workers(engine, blocks),
							   (size_t) TILE_BLOCKS * GK_BLOCK * engine->d * sizeof(float)))
			return;
		separation.blocks = engine->scratch.base;
	}
	gk_cpu_for_each(engine, blocks, 4.0 * GK_BLOCK * engine->d * separation.points,
					separation_chunk, &separation);
}
