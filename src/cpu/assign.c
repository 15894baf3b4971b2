/*
 * Assignment: the nearest centroid of every row, by the filter and, where the filter can't tell,
 * by the definition.
 */
#include <math.h>
#include <string.h>

#include "state.h"
#include "exact.h"

#define MOST_BLOCKS 1024		/* of a chunk */
#define CHUNK_GROUPS 4			/* groups of tiles that a chunk has, if there are enough rows */
#define STRIDE 64				/* blocks whose bounds are looked at together */
#define AHEAD_BYTES ((int64_t) 64 << 10)	/* rows that are prefetched, at most */
#define GROUP_BYTES ((size_t) 256 << 10)	/* rows kept in cache while centroids stream past */
#define NOT_REACHED INT32_MIN	/* the first winner of a block that no new candidate is nearer to */
#define DIRECT_PANELS 4			/* panels of centroids with which rows are read in place, at most */
#define DIRECT_BLOCKS 32		/* blocks that are labelled in place together */
#define TRIED_ROWS 1024			/* rows after which a chunk says whether regions pay */

/* The rows that wait until a tile can be filled with them. */
typedef struct Waiting
{
	int			count;
	int64_t		rows[GK_TILE];
	int32_t		old[GK_TILE];	/* labels before */
} Waiting;

/* The state of a thread. */
typedef struct Worker
{
	GkCpuEngine *engine;
	GkAssignment *assignment;
	int			number;
	int			group;			/* tiles that are filled before the filter runs */
	int			filled;			/* full tiles */
	GkTile	   *tiles;			/* group */
	GkTile	   *doubtful;		/* rows for the definition */
	GkTile	   *near;			/* rows of a region */
	Waiting    *waiting;		/* one a region */
	float	   *waiting_x;		/* of each region: GK_TILE × GK_BLOCK features in turn */
	float	   *block;			/* a block of rows of a region */
	float	   *parts;			/* a block, GK_BLOCK features of a row beside each other */
	bool		use_regions;
	int64_t		sent;			/* rows to regions */
	int64_t		returned;		/* rows for which a region was not enough */
	double		least[GK_TILE]; /* their d² */
	int32_t    *winners;		/* the labels of the chunk, if they don't go to the rows at once */
	int64_t		changed;
	int64_t		block_bytes;	/* of the features */
	int64_t		most_ahead;		/* blocks that are prefetched, at most */
	double		masses[GK_BLOCK];	/* the greatest weight × d², row by row of a block */
	double		distances[GK_BLOCK];	/* the same of weight × d, if weighted */
} Worker;

/* Where the label of a row goes. */
static inline int32_t *
label_place(const Worker *w, int64_t row)
{
	if (w->assignment->keep_nearer)
		return w->winners + row % (MOST_BLOCKS * GK_BLOCK);
	return gk_cpu_labels(w->engine) + row;
}

/* The bounds of a block. */
static inline float *
block_bounds(const GkCpuEngine *engine, int64_t block)
{
	return (float *) engine->per_row.base + block * 2 * GK_BLOCK;
}

/* Writes the label of a row and moves the row between the sums. */
static void
settle_label(Worker *w, int64_t row, int32_t old, int32_t label)
{
	bool		changed = label != old;

	w->changed += changed;
	*label_place(w, row) = label;
	if (w->assignment->add_changed && changed)
		gk_cpu_sums_add_row(w->engine, w->number, row, old, label);
}

/*
 * True if a tile is full, of rows that lie one after the other from the beginning of a block.  Rows
 * that come back from regions have lost their order.
 */
static inline bool
is_run(const Worker *w, const GkTile *tile)
{
	return w->waiting == NULL && tile->count == GK_TILE && tile->rows[0] % GK_BLOCK == 0 &&
		tile->rows[GK_TILE - 1] == tile->rows[0] + GK_TILE - 1;
}

/* Writes the bounds of the rows of a tile. */
static void
settle_bounds(Worker *w, const GkTile *tile)
{
	if (is_run(w, tile))
	{
		float	   *bounds = block_bounds(w->engine, tile->rows[0] / GK_BLOCK);

		memcpy(bounds, tile->upper, GK_BLOCK * sizeof(float));
		memcpy(bounds + GK_BLOCK, tile->lower, GK_BLOCK * sizeof(float));
		memcpy(bounds + 2 * GK_BLOCK, tile->upper + GK_BLOCK, GK_BLOCK * sizeof(float));
		memcpy(bounds + 3 * GK_BLOCK, tile->lower + GK_BLOCK, GK_BLOCK * sizeof(float));
		return;
	}
	for (int i = 0; i < tile->count; i++)
	{
		float	   *bounds = block_bounds(w->engine, tile->rows[i] / GK_BLOCK);

		bounds[tile->rows[i] % GK_BLOCK] = tile->upper[i];
		bounds[GK_BLOCK + tile->rows[i] % GK_BLOCK] = tile->lower[i];
	}
}

/* d² by the definition. */
static double
exact_distance2(const GkCpuEngine *engine, int64_t row, const double *centroid)
{
	const float *x = gk_cpu_block(engine, row / GK_BLOCK) + row % GK_BLOCK;
	double		sum = 0.0;

	for (int j = 0; j < engine->d; j++)
		sum = gk_add_square(sum, x[j * GK_BLOCK], centroid[j]);
	return sum;
}

/* Compares the centroids of a panel whose scores are within the threshold. */
static void
decide_panel(Worker *w, int64_t first, const uint32_t *masks)
{
	const GkPacked *packed = w->assignment->packed;
	GkTile	   *tile = w->doubtful;
	uint32_t	live = tile->count == GK_TILE ? UINT32_MAX : (1u << tile->count) - 1;

	for (int i = 0; i < w->engine->kernels->panel && first + i < packed->count; i++)
		for (uint32_t mask = masks[i] & live; mask != 0; mask &= mask - 1)
		{
			int			lane = __builtin_ctz(mask);
			double		distance2 = exact_distance2(w->engine, tile->rows[lane],
													packed->exact + (first + i) * w->engine->d);

			if (tile->index[lane] < 0 || distance2 < w->least[lane])
			{
				w->least[lane] = distance2;
				tile->index[lane] = (int32_t) (first + i);
			}
		}
}

/*
 * Zeros where a tile has no rows: what lay there may be subnormal as a float, which some processors
 * multiply a hundred times slower.
 */
static void
clear_free_places(const Worker *w, GkTile *tile)
{
	size_t		bytes = (GK_TILE - tile->count) * sizeof(float);

	memset(tile->norm2 + tile->count, 0, bytes);
	for (int j = 0; j < w->engine->d && bytes > 0; j++)
		memset(tile->x + (size_t) j * GK_TILE + tile->count, 0, bytes);
}

/* Finds the labels of the doubtful rows by the definition; false if the engine is closing. */
static bool
compare_doubtful(Worker *w)
{
	GkCpuEngine *engine = w->engine;
	const GkPacked *packed = w->assignment->packed;
	GkTile	   *tile = w->doubtful;
	uint32_t	masks[GK_TILE];

	for (int i = 0; i < tile->count; i++)
	{
		engine->kernels->pack(&packed->filter, tile, i,
							  gk_cpu_block(engine, tile->rows[i] / GK_BLOCK),
							  1u << tile->rows[i] % GK_BLOCK);
		tile->index[i] = -1;
	}
	if (tile->count > 0)
	{
		clear_free_places(w, tile);
		engine->kernels->split(engine->d, tile);
	}
	for (int64_t p = 0; p < packed->panel_count && tile->count > 0; p++)
	{
		engine->kernels->within(engine->d, tile,
								(float *) packed->panels.base + p * packed->panel_floats, masks);
		decide_panel(w, p * engine->kernels->panel, masks);
		if (gk_cpu_stopped(engine))
			return false;
	}
	return true;
}

/* Decides the doubtful rows, unless the engine is closing; there are none then. */
static void
decide(Worker *w)
{
	GkTile	   *tile = w->doubtful;
	bool		found = compare_doubtful(w);

	for (int i = 0; i < tile->count && found; i++)
	{
		settle_label(w, tile->rows[i], tile->old[i], tile->index[i]);
		if (w->assignment->keep_bounds)
		{
			float	   *bounds = block_bounds(w->engine, tile->rows[i] / GK_BLOCK);

			bounds[tile->rows[i] % GK_BLOCK] = INFINITY;
			bounds[GK_BLOCK + tile->rows[i] % GK_BLOCK] = 0.0f;
		}
	}
	tile->count = 0;
}

/* Puts a row of a tile among the doubtful ones. */
static void
doubt(Worker *w, const GkTile *tile, int i)
{
	GkTile	   *doubtful = w->doubtful;

	doubtful->rows[doubtful->count] = tile->rows[i];
	doubtful->old[doubtful->count] = tile->old[i];
	doubtful->threshold[doubtful->count] = tile->threshold[i];
	if (++doubtful->count == GK_TILE)
		decide(w);
}

/* Takes what the filter found for a tile. */
static void
settle(Worker *w, const GkTile *tile)
{
	uint32_t	live = tile->count == GK_TILE ? UINT32_MAX : (1u << tile->count) - 1;
	uint32_t	sure = live & ~tile->flagged;
	uint32_t	write = sure & tile->changed;

	if (w->assignment->keep_bounds)
		settle_bounds(w, tile);
	if (w->assignment->keep_nearer)
		write = sure;
	if (write != 0 && !w->assignment->add_changed && sure == UINT32_MAX && is_run(w, tile))
	{
		memcpy(label_place(w, tile->rows[0]), tile->index, sizeof(tile->index));
		w->changed += __builtin_popcount(tile->changed);
		write = 0;
	}
	for (; write != 0; write &= write - 1)
	{
		int			i = __builtin_ctz(write);

		settle_label(w, tile->rows[i], tile->old[i], tile->index[i]);
	}
	for (uint32_t mask = live & tile->flagged; mask != 0; mask &= mask - 1)
		doubt(w, tile, __builtin_ctz(mask));
}

/* Notes what will be read after a tile: as much as it took to fill it. */
static void
look_ahead(const Worker *w, GkTile *tile)
{
	const GkCpuEngine *engine = w->engine;
	int64_t		first = tile->rows[0] / GK_BLOCK;
	int64_t		next = tile->rows[tile->count - 1] / GK_BLOCK + 1;
	int64_t		blocks = next - first;

	if (blocks > w->most_ahead)
		blocks = w->most_ahead;
	if (blocks > gk_cpu_block_count(engine) - next)
		blocks = gk_cpu_block_count(engine) - next;
	tile->ahead = (const char *) gk_cpu_block(engine, next);
	tile->ahead_bytes = blocks * w->block_bytes;
}

/* Finds the nearest centroids of the rows of the first tiles; false if the engine is closing. */
static bool
run_filter(Worker *w, int count)
{
	const GkKernels *kernels = w->engine->kernels;
	const GkPacked *packed = w->assignment->packed;

	for (int t = 0; t < count; t++)
	{
		look_ahead(w, &w->tiles[t]);
		kernels->split(w->engine->d, &w->tiles[t]);
	}
	for (int64_t p = 0; p < packed->panel_count; p += packed->set_panels)
	{
		int64_t		first = p * kernels->panel;
		int64_t		most = packed->set_panels * kernels->panel;
		int64_t		left = packed->count - first;

		for (int t = 0; t < count; t++)
			kernels->nearest(w->engine->d, &w->tiles[t],
							 (float *) packed->panels.base + p * packed->panel_floats,
							 first, left < most ? left : most);
		if (gk_cpu_stopped(w->engine))
			return false;
	}
	return true;
}

/* Runs the filter over the filled tiles, and empties them, even if it was stopped. */
static void
filter_tiles(Worker *w)
{
	const GkKernels *kernels = w->engine->kernels;
	int			count = w->filled;
	bool		found;

	if (count < w->group && w->tiles[count].count > 0)
		clear_free_places(w, &w->tiles[count++]);
	w->filled = 0;
	found = run_filter(w, count);
	for (int t = 0; t < count; t++)
	{
		if (found)
		{
			kernels->judge(&w->assignment->packed->filter, &w->tiles[t],
						   w->assignment->keep_bounds);
			settle(w, &w->tiles[t]);
		}
		w->tiles[t].count = 0;
	}
}

/* The mask without all but its first `count` bits. */
static uint32_t
first_bits(uint32_t mask, int count)
{
	uint32_t	first = 0;

	for (; count > 0 && mask != 0; count--, mask &= mask - 1)
		first |= mask & -mask;
	return first;
}

/* Puts rows of a block into tiles. */
static void
add_rows(Worker *w, int64_t block, uint32_t mask)
{
	GkCpuEngine *engine = w->engine;

	while (mask != 0 && !gk_cpu_stopped(engine))
	{
		GkTile	   *tile = &w->tiles[w->filled];
		int			room = GK_TILE - tile->count;
		uint32_t	now = room >= GK_BLOCK ? mask : first_bits(mask, room);

		engine->kernels->pack(&w->assignment->packed->filter, tile, tile->count,
							  gk_cpu_block(engine, block), now);
		mask &= ~now;
		if (now == 0xffff)
		{
			for (int i = 0; i < GK_BLOCK; i++)
				tile->rows[tile->count + i] = block * GK_BLOCK + i;
			memcpy(tile->old + tile->count, label_place(w, block * GK_BLOCK),
				   GK_BLOCK * sizeof(int32_t));
			tile->count += GK_BLOCK;
			now = 0;
		}
		for (; now != 0; now &= now - 1)
		{
			int64_t		row = block * GK_BLOCK + __builtin_ctz(now);

			tile->rows[tile->count] = row;
			tile->old[tile->count++] = *label_place(w, row);
		}
		if (tile->count == GK_TILE && ++w->filled == w->group)
			filter_tiles(w);
	}
}

/* Features of a row that waits. */
static inline int
waiting_depth(const GkCpuEngine *engine)
{
	return (engine->d + GK_BLOCK - 1) / GK_BLOCK * GK_BLOCK;
}

/* The features of the rows that wait for a region. */
static inline float *
waiting_rows(const Worker *w, int region)
{
	return w->waiting_x + (size_t) region * GK_TILE * waiting_depth(w->engine);
}

/* Makes a tile of the rows that wait for a region. */
static void
fill_near(Worker *w, int region, const GkFilter *filter)
{
	GkCpuEngine *engine = w->engine;
	Waiting    *waiting = &w->waiting[region];
	GkTile	   *tile = w->near;
	float	   *rows = waiting_rows(w, region);

	for (int half = 0; half < GK_TILE; half += GK_BLOCK)
	{
		for (int j = 0; j < engine->d; j += GK_BLOCK)
			engine->kernels->transpose(w->block + j * GK_BLOCK,
									   rows + (size_t) j * GK_TILE + half * GK_BLOCK, GK_BLOCK);
		engine->kernels->pack(filter, tile, half, w->block, 0xffff);
	}
	tile->count = waiting->count;
	tile->ahead_bytes = 0;
	memcpy(tile->rows, waiting->rows, sizeof(tile->rows));
	memcpy(tile->old, waiting->old, sizeof(tile->old));
	waiting->count = 0;
	if (tile->count < GK_TILE)
		clear_free_places(w, tile);
}

/* Finds the nearest centroid of a list, by the definition, for the rows of the mask. */
static void
decide_near(Worker *w, const GkRegion *region, const int32_t *ids, uint32_t rows)
{
	GkCpuEngine *engine = w->engine;
	const GkPacked *packed = w->assignment->packed;
	GkTile	   *tile = w->near;
	int			width = engine->kernels->panel;
	int32_t		winners[GK_TILE];
	uint32_t	masks[GK_TILE];

	memset(winners, -1, sizeof(winners));
	for (int64_t c = 0; c < region->count && !gk_cpu_stopped(engine); c += width)
	{
		engine->kernels->within(engine->d, tile, (float *) packed->region_panels.base +
								(region->first + c) / width * packed->panel_floats, masks);
		for (int i = 0; i < width && c + i < region->count; i++)
			for (uint32_t mask = masks[i] & rows; mask != 0; mask &= mask - 1)
			{
				int			lane = __builtin_ctz(mask);
				int32_t		id = ids[c + i];
				double		distance2 = exact_distance2(engine, tile->rows[lane],
														packed->exact + (int64_t) id * engine->d);

				if (winners[lane] < 0 || distance2 < w->least[lane] ||
					(distance2 == w->least[lane] && id < winners[lane]))
				{
					w->least[lane] = distance2;
					winners[lane] = id;
				}
			}
	}
	for (; rows != 0; rows &= rows - 1)
	{
		int			lane = __builtin_ctz(rows);

		tile->index[lane] = winners[lane];
		tile->upper[lane] = INFINITY;
		tile->lower[lane] = 0.0f;
	}
}

/* Takes what was found for the rows of a region; those of the mask are compared with all. */
static void
settle_near(Worker *w, uint32_t beyond)
{
	GkTile	   *tile = w->near;

	for (int i = 0; i < tile->count; i++)
	{
		int64_t		block = tile->rows[i] / GK_BLOCK;
		int			place = tile->rows[i] % GK_BLOCK;

		if (beyond >> i & 1)
		{
			add_rows(w, block, 1u << place);
			continue;
		}
		if (w->assignment->keep_bounds)
		{
			block_bounds(w->engine, block)[place] = tile->upper[i];
			block_bounds(w->engine, block)[GK_BLOCK + place] = tile->lower[i];
		}
		if (tile->index[i] != tile->old[i] || w->assignment->keep_nearer)
			settle_label(w, tile->rows[i], tile->old[i], tile->index[i]);
	}
}

/* Compares the rows that wait for a region with its list. */
static void
compare_near(Worker *w, int number)
{
	GkCpuEngine *engine = w->engine;
	const GkPacked *packed = w->assignment->packed;
	const GkRegion *region = (GkRegion *) packed->regions.base + number;
	const int32_t *ids = (int32_t *) packed->region_ids.base + region->first;
	GkTile	   *tile = w->near;
	uint32_t	live;
	uint32_t	doubtful;

	fill_near(w, number, &region->filter);
	live = tile->count == GK_TILE ? UINT32_MAX : (1u << tile->count) - 1;
	engine->kernels->split(engine->d, tile);
	engine->kernels->nearest(engine->d, tile, (float *) packed->region_panels.base +
							 region->first / engine->kernels->panel * packed->panel_floats,
							 0, region->count);
	engine->kernels->judge(&region->filter, tile, true);
	doubtful = live & tile->flagged & ~tile->beyond;
	for (int i = 0; i < tile->count; i++)
		tile->index[i] = ids[tile->index[i]];
	if (doubtful != 0)
		decide_near(w, region, ids, doubtful);
	if (gk_cpu_stopped(engine))
		return;
	w->sent += tile->count;
	w->returned += __builtin_popcount(live & tile->beyond);
	settle_near(w, live & tile->beyond);
	if (w->sent >= TRIED_ROWS && w->returned * 4 > w->sent && !engine->regions_always)
	{
		w->use_regions = false;
		atomic_store_explicit(&w->assignment->regions_fail, true, memory_order_relaxed);
	}
}

/* Lets a row wait for its region; its features lie GK_BLOCK × GK_BLOCK apart in parts. */
static void
send_row(Worker *w, int64_t row, int region, const float *parts)
{
	Waiting    *waiting = &w->waiting[region];
	float	   *to = waiting_rows(w, region) + waiting->count * GK_BLOCK;

	for (int j = 0; j < w->engine->d; j += GK_BLOCK)
		memcpy(to + (size_t) j * GK_TILE, parts + j * GK_BLOCK, GK_BLOCK * sizeof(float));
	waiting->rows[waiting->count] = row;
	waiting->old[waiting->count] = *label_place(w, row);
	if (++waiting->count == GK_TILE)
		compare_near(w, region);
}

/* Guesses the regions of the rows of a block: whose origin is the nearest. */
static void
guess_regions(Worker *w, int64_t block, int32_t *regions)
{
	GkCpuEngine *engine = w->engine;
	const GkPacked *packed = w->assignment->packed;
	GkTile	   *tile = w->near;

	for (int half = 0; half < GK_TILE; half += GK_BLOCK)
		engine->kernels->pack(&packed->filter, tile, half, gk_cpu_block(engine, block), 0xffff);
	tile->ahead_bytes = 0;
	engine->kernels->split(engine->d, tile);
	engine->kernels->nearest(engine->d, tile, packed->origin_panels.base, 0, packed->region_count);
	memcpy(regions, tile->index, GK_BLOCK * sizeof(int32_t));
}

/* The regions of the rows of a block: by their labels, if these are of the same centroids. */
static void
find_regions(Worker *w, int64_t block, int32_t *regions)
{
	const GkPacked *packed = w->assignment->packed;
	const int32_t *region_of = packed->region_of.base;
	const int32_t *labels = label_place(w, block * GK_BLOCK);
	int			rows = gk_cpu_block_rows(w->engine, block);
	bool		known = !w->assignment->keep_nearer;

	for (int i = 0; i < rows && known; i++)
		known = labels[i] >= 0 && labels[i] < packed->count;
	if (!known)
		guess_regions(w, block, regions);
	for (int i = 0; i < rows && known; i++)
		regions[i] = region_of[labels[i]];
}

/* Sends rows of a block to their regions. */
static void
send_rows(Worker *w, int64_t block, uint32_t mask)
{
	GkCpuEngine *engine = w->engine;
	const float *x = gk_cpu_block(engine, block);
	int32_t		regions[GK_BLOCK];
	int			whole = engine->d / GK_BLOCK * GK_BLOCK;

	if (mask == 0)
		return;
	find_regions(w, block, regions);
	for (int j = 0; j < whole; j += GK_BLOCK)
		engine->kernels->transpose(w->parts + j * GK_BLOCK, x + j * GK_BLOCK, GK_BLOCK);
	if (whole < engine->d)
	{
		float		rest[GK_BLOCK * GK_BLOCK] = {0};

		memcpy(rest, x + whole * GK_BLOCK, (engine->d - whole) * GK_BLOCK * sizeof(float));
		engine->kernels->transpose(w->parts + whole * GK_BLOCK, rest, GK_BLOCK);
	}
	for (; mask != 0 && !gk_cpu_stopped(engine); mask &= mask - 1)
	{
		int			i = __builtin_ctz(mask);

		send_row(w, block * GK_BLOCK + i, regions[i], w->parts + i * GK_BLOCK);
	}
}

/* Compares all rows that wait. */
static void
compare_waiting(Worker *w)
{
	int			count = w->waiting == NULL ? 0 : w->assignment->packed->region_count;

	for (int r = 0; r < count && !gk_cpu_stopped(w->engine); r++)
		if (w->waiting[r].count > 0)
			compare_near(w, r);
}

/* Marks the rows of a block that a new candidate may be nearer to; the others get any winner. */
static uint32_t
find_reached(const Worker *w, int64_t block, uint32_t mask)
{
	const double *distance2 = gk_cpu_distance2(w->engine) + block * GK_BLOCK;
	const int32_t *labels = gk_cpu_labels(w->engine) + block * GK_BLOCK;
	int32_t    *winners = label_place(w, block * GK_BLOCK);
	uint32_t	reached = 0;

	for (int i = 0; i < GK_BLOCK; i++)
	{
		winners[i] = 0;
		if (mask >> i & 1)
			reached |= (uint32_t) (distance2[i] > w->assignment->reaches[labels[i]]) << i;
	}
	if (reached == 0)
		winners[0] = NOT_REACHED;
	return reached;
}

/* Which rows of a few blocks must be looked at. */
static void
find_active(Worker *w, int64_t from, int64_t to, uint32_t *masks)
{
	GkCpuEngine *engine = w->engine;
	const GkAssignment *a = w->assignment;
	int64_t		active;

	for (int64_t b = from; b < to; b++)
	{
		masks[b - from] = (1u << gk_cpu_block_rows(engine, b)) - 1;
		if (a->reaches != NULL)
			masks[b - from] = find_reached(w, b, masks[b - from]);
	}
	if (!a->use_bounds)
		return;
	active = engine->kernels->bounds(&a->moves, block_bounds(engine, from),
									 gk_cpu_labels(engine) + from * GK_BLOCK, to - from, masks);
	/* whole blocks are faster than picked rows */
	if (active > (to - from) * GK_BLOCK * 4 / 5)
		for (int64_t b = from; b < to; b++)
			masks[b - from] = (1u << gk_cpu_block_rows(engine, b)) - 1;
}

/* Leaves each row's d² to the centroid of its label. */
static void
measure_block(Worker *w, int64_t block)
{
	GkCpuEngine *engine = w->engine;
	const GkAssignment *a = w->assignment;
	double	   *distance2 = gk_cpu_distance2(engine) + block * GK_BLOCK;
	int32_t    *labels = gk_cpu_labels(engine) + block * GK_BLOCK;
	const int32_t *winners = label_place(w, block * GK_BLOCK);
	double		fresh[GK_BLOCK];

	engine->kernels->own_distances(gk_cpu_block(engine, block), engine->d, a->packed->exact,
								   winners, fresh);
	if (!a->keep_nearer)
	{
		memcpy(distance2, fresh, sizeof(fresh));
		return;
	}
	/* which rows are nearer is hard to predict, so there is no branch */
	for (int i = 0; i < GK_BLOCK; i++)
	{
		bool		nearer = (a->first_label == 0) | (fresh[i] < distance2[i]);

		labels[i] = nearer ? (int32_t) (a->first_label + winners[i]) : labels[i];
		distance2[i] = nearer ? fresh[i] : distance2[i];
	}
	gk_cpu_pad_labels(engine, block);
}

/* Notes the greatest weight × d² and weight × d of a block. */
static void
note_greatest(Worker *w, int64_t block)
{
	GkCpuEngine *engine = w->engine;
	const double *distance2 = gk_cpu_distance2(engine) + block * GK_BLOCK;
	int			rows = gk_cpu_block_rows(engine, block);

	if (!engine->weighted && rows == GK_BLOCK)
	{
		for (int i = 0; i < GK_BLOCK; i++)
			w->masses[i] = distance2[i] > w->masses[i] ? distance2[i] : w->masses[i];
		return;
	}
	for (int i = 0; i < rows; i++)
	{
		double		weight = gk_cpu_weight(engine, block * GK_BLOCK + i);
		double		mass = weight * distance2[i];
		double		distance = weight * sqrt(distance2[i]);

		w->masses[i] = mass > w->masses[i] ? mass : w->masses[i];
		w->distances[i] = distance > w->distances[i] ? distance : w->distances[i];
	}
}

/* Adds what a worker noted to the greatest of all; roots keep the order of d². */
static void
merge_greatest(const Worker *w)
{
	GkAssignment *a = w->assignment;

	pthread_mutex_lock(&a->mutex);
	for (int i = 0; i < GK_BLOCK; i++)
	{
		double		distance = w->engine->weighted ? w->distances[i] : sqrt(w->masses[i]);

		if (w->masses[i] > a->greatest_mass)
			a->greatest_mass = w->masses[i];
		if (distance > a->greatest_distance)
			a->greatest_distance = distance;
	}
	pthread_mutex_unlock(&a->mutex);
}

/* Where the parts of a worker's memory lie. */
typedef struct Layout
{
	int			group;
	int			all_tiles;		/* the group, the doubtful one, and with regions that of one */
	size_t		x_bytes;		/* features of a tile */
	size_t		tile_bytes;		/* the same, and split */
	size_t		tiles;
	size_t		doubtful;
	size_t		features;		/* of the tiles, then of the doubtful one, then of a region's */
	size_t		winners;
	size_t		waiting;		/* headers, features, and two blocks; nothing without regions */
	size_t		waiting_x;
	size_t		block;
	size_t		parts;
	size_t		bytes;
} Layout;

/* Bytes that a part takes, with what follows it. */
static size_t
part_bytes(size_t bytes)
{
	return (bytes + 63) / 64 * 64 + GK_GAP;
}

/* Lays out a worker's memory. */
static Layout
lay_out(const GkCpuEngine *engine, const GkPacked *packed)
{
	size_t		row_bytes = waiting_depth(engine) * sizeof(float);
	Layout		layout;

	layout.x_bytes = (size_t) engine->d * GK_TILE * sizeof(float);
	layout.tile_bytes = layout.x_bytes;
	if (engine->kernels->depth > 1)
		layout.tile_bytes += (size_t) gk_cpu_depth(engine) * GK_TILE * sizeof(float);
	layout.group = 1;
	if (packed->panel_count > packed->set_panels && layout.tile_bytes < GROUP_BYTES)
		layout.group = (int) (GROUP_BYTES / layout.tile_bytes);
	if (layout.group > 64)
		layout.group = 64;
	layout.tiles = part_bytes(sizeof(Worker));
	layout.all_tiles = layout.group + (packed->region_count > 0 ? 2 : 1);
	layout.doubtful = layout.tiles + part_bytes(layout.group * sizeof(GkTile));
	layout.features = layout.doubtful + 2 * part_bytes(sizeof(GkTile));
	layout.winners = layout.features + layout.all_tiles * part_bytes(layout.tile_bytes);
	layout.waiting = layout.winners + part_bytes(MOST_BLOCKS * GK_BLOCK * sizeof(int32_t));
	layout.waiting_x = layout.waiting + part_bytes(packed->region_count * sizeof(Waiting));
	layout.block = layout.waiting_x + part_bytes(packed->region_count * row_bytes * GK_TILE);
	layout.parts = layout.block + (packed->region_count > 0 ? part_bytes(row_bytes * GK_BLOCK) : 0);
	layout.bytes = layout.parts + (packed->region_count > 0 ? part_bytes(row_bytes * GK_BLOCK) : 0);
	layout.bytes = (layout.bytes + 4095) / 4096 * 4096;
	return layout;
}

/* Guards what lies between the parts of a worker's memory. */
static void
guard_gaps(char *memory, const Layout *layout)
{
	gk_cpu_guard_gap(memory + layout->tiles - GK_GAP);
	gk_cpu_guard_gap(memory + layout->doubtful - GK_GAP);
	gk_cpu_guard_gap(memory + layout->features - part_bytes(sizeof(GkTile)) - GK_GAP);
	for (int t = 0; t <= layout->all_tiles; t++)
		gk_cpu_guard_gap(memory + layout->features + t * part_bytes(layout->tile_bytes) - GK_GAP);
	gk_cpu_guard_gap(memory + layout->bytes - GK_GAP);
}

/* Lets no row wait for any region. */
static void
begin_regions(Worker *w, char *memory, const Layout *layout)
{
	int			count = w->assignment->packed->region_count;

	w->sent = w->returned = 0;
	w->use_regions = count > 0 &&
		!atomic_load_explicit(&w->assignment->regions_fail, memory_order_relaxed);
	w->waiting = w->use_regions ? (Waiting *) (memory + layout->waiting) : NULL;
	w->waiting_x = (float *) (memory + layout->waiting_x);
	w->block = (float *) (memory + layout->block);
	w->parts = (float *) (memory + layout->parts);
	for (int r = 0; r < count && w->use_regions; r++)
		w->waiting[r].count = 0;
}

/* Sets up a worker at the beginning of a chunk. */
static Worker *
begin_worker(GkCpuEngine *engine, GkAssignment *assignment, int number)
{
	Layout		layout = lay_out(engine, assignment->packed);
	char	   *memory = (char *) engine->scratch.base + number * layout.bytes;
	Worker	   *w = (Worker *) memory;

	guard_gaps(memory, &layout);
	w->engine = engine;
	w->assignment = assignment;
	w->number = number;
	w->group = layout.group;
	w->filled = 0;
	w->tiles = (GkTile *) (memory + layout.tiles);
	w->doubtful = (GkTile *) (memory + layout.doubtful);
	w->near = (GkTile *) (memory + layout.doubtful + part_bytes(sizeof(GkTile)));
	for (int t = 0; t < layout.all_tiles; t++)
	{
		GkTile	   *tile = t < w->group ? &w->tiles[t] : t == w->group ? w->doubtful : w->near;
		char	   *x = memory + layout.features + t * part_bytes(layout.tile_bytes);

		tile->x = (float *) x;
		tile->split = (float *) (x + layout.x_bytes);
		tile->count = 0;
	}
	w->winners = (int32_t *) (memory + layout.winners);
	begin_regions(w, memory, &layout);
	w->changed = 0;
	w->block_bytes = (int64_t) engine->d * GK_BLOCK * (int64_t) sizeof(float);
	w->most_ahead = AHEAD_BYTES / w->block_bytes + 1;
	memset(w->masses, 0, sizeof(w->masses));
	memset(w->distances, 0, sizeof(w->distances));
	return w;
}

/*
 * True if the filter may read the rows of some blocks in place: there are few centroids, no bounds,
 * and at least half of the rows must be looked at.
 */
static bool
is_direct(const Worker *w, const uint32_t *masks, int64_t blocks)
{
	const GkAssignment *a = w->assignment;
	int64_t		active = 0;

	if (w->engine->kernels->direct == NULL || w->use_regions || a->use_bounds || a->keep_bounds ||
		a->packed->panel_count > DIRECT_PANELS || a->packed->panel_count > a->packed->set_panels)
		return false;
	for (int64_t i = 0; i < blocks && a->reaches != NULL; i++)
		active += __builtin_popcount(masks[i]);
	return a->reaches == NULL || 2 * active >= blocks * GK_BLOCK;
}

/* Takes what was found for two blocks in place; rows in doubt go to the tiles. */
static void
settle_direct(Worker *w, int64_t block, const GkDirectTile *found)
{
	int32_t    *labels = label_place(w, block * GK_BLOCK);
	uint32_t	write = w->assignment->keep_nearer ? ~found->flagged :
		~found->flagged & found->changed;

	if (found->flagged == 0 && !w->assignment->add_changed)
	{
		memcpy(labels, found->index, sizeof(found->index));
		w->changed += __builtin_popcount(write);
		return;
	}
	for (; write != 0; write &= write - 1)
	{
		int			i = __builtin_ctz(write);

		settle_label(w, block * GK_BLOCK + i, labels[i], found->index[i]);
	}
	add_rows(w, block, found->flagged & 0xffff);
	add_rows(w, block + 1, found->flagged >> GK_BLOCK);
}

/* Labels the rows of blocks from .. to - 1 in place, and gives the first block that is left. */
static int64_t
assign_directly(Worker *w, int64_t from, int64_t to)
{
	GkCpuEngine *engine = w->engine;
	const GkPacked *packed = w->assignment->packed;
	int64_t		whole = engine->n / GK_BLOCK < to ? engine->n / GK_BLOCK : to;
	GkDirectTile found[DIRECT_BLOCKS / 2];

	while (whole - from >= 2 && !gk_cpu_stopped(engine))
	{
		int64_t		tiles = (whole - from < DIRECT_BLOCKS ? whole - from : DIRECT_BLOCKS) / 2;

		engine->kernels->direct(&packed->filter, gk_cpu_block(engine, from), tiles,
								packed->panels.base, packed->count,
								label_place(w, from * GK_BLOCK), found);
		for (int64_t t = 0; t < tiles; t++, from += 2)
			settle_direct(w, from, &found[t]);
	}
	return from;
}

/* Assigns the rows of blocks from .. to - 1. */
static void
assign_chunk(GkCpuEngine *engine, void *context, int number, int64_t from, int64_t to)
{
	GkAssignment *assignment = context;
	Worker	   *w = begin_worker(engine, assignment, number);
	uint32_t	masks[STRIDE];

	for (int64_t b = from; b < to; b += STRIDE)
	{
		int64_t		end = b + STRIDE < to ? b + STRIDE : to;
		int64_t		first = b;

		find_active(w, b, end, masks);
		if (is_direct(w, masks, end - b))
			first = assign_directly(w, b, end);
		for (int64_t i = first; i < end; i++)
			if (w->use_regions)
				send_rows(w, i, masks[i - b]);
			else
				add_rows(w, i, masks[i - b]);
		if (gk_cpu_stopped(engine))
			return;
	}
	compare_waiting(w);
	filter_tiles(w);
	decide(w);
	if (gk_cpu_stopped(engine))
		return;
	if (assignment->add_all)
		gk_cpu_sums_add_blocks(engine, number, from, to);
	if (assignment->keep_nearer)
		for (int64_t row = engine->n; row < to * GK_BLOCK; row++)
			*label_place(w, row) = 0;
	for (int64_t b = from; assignment->exact && b < to && !gk_cpu_stopped(engine); b++)
	{
		if (assignment->reaches == NULL || *label_place(w, b * GK_BLOCK) != NOT_REACHED)
			measure_block(w, b);
		note_greatest(w, b);
	}
	if (assignment->exact)
		merge_greatest(w);
	atomic_fetch_add_explicit(&assignment->changed, w->changed, memory_order_relaxed);
}

/* Blocks a chunk: some groups of tiles, so that few of them are partly filled. */
static int64_t
chunk_blocks(const GkCpuEngine *engine, const GkPacked *packed, int group)
{
	int64_t		blocks = gk_cpu_block_count(engine);
	int64_t		tile = GK_TILE / GK_BLOCK;
	int64_t		least = packed->region_count > 0 ? MOST_BLOCKS : CHUNK_GROUPS * group * tile;
	int64_t		share = blocks / ((packed->region_count > 0 ? 3 : 8) * engine->pool.threads);
	int64_t		grain = gk_cpu_grain(engine, blocks,
									 2.0 * GK_BLOCK * engine->d * (double) (packed->count + 4) / 8);

	if (least > share)
		least = share;
	if (grain < least)
		grain = least;
	grain = (grain + tile - 1) / tile * tile;
	return grain < MOST_BLOCKS ? grain : MOST_BLOCKS;
}

/* Assigns all rows; false if memory is short or the engine is closing. */
bool
gk_cpu_assign_rows(GkCpuEngine *engine, GkAssignment *assignment)
{
	int64_t		blocks = gk_cpu_block_count(engine);
	Layout		layout = lay_out(engine, assignment->packed);
	int64_t		grain = chunk_blocks(engine, assignment->packed, layout.group);
	int			workers;

	/* chunks begin where the winners' buffer does */
	while (assignment->keep_nearer && MOST_BLOCKS % grain != 0)
		grain--;
	workers = gk_cpu_workers(engine, (blocks + grain - 1) / grain);
	if (!gk_cpu_array_need(engine, &engine->scratch, workers, layout.bytes))
		return false;
	atomic_init(&assignment->changed, 0);
	atomic_init(&assignment->regions_fail, false);
	assignment->mutex = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
	engine->no_labels = false;
	return gk_cpu_parallel(engine, blocks, grain, 0, assign_chunk, assignment);
}
