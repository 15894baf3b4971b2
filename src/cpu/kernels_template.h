/*
 * The loops of kernels.h for one instruction set.  The includer defines
 *	GK_KERNELS, GK_KERNELS_NAME, GK_PANEL (centroids of a panel),
 *	GK_WIDTH (float lanes), V (a vector of them), VI (the same of int32),
 *	v_load, v_store, v_set, v_fnmadd (c - a b), v_fmsub (a b - c), v_min, v_max,
 *	v_sqrt, v_if_less (a, b, value where a < b, value elsewhere),
 *	v_take (index, where score < best, id), v_not_above (bits of !(a > b)),
 *	v_differs (bits of a != b), Q (four doubles), turn_4x4 (four Q, rows to columns),
 *	q_sqrt, q_widen (four floats to Q), d_load (GK_WIDTH / 2 floats from memory to doubles),
 *	and may define GK_COMPRESS, GK_TRANSPOSE, GK_TRANSPOSE_8, and GK_FILTER, a header with another
 *	filter.
 * Nothing is contracted (-ffp-contract=off): what is fused is fused by name.
 */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "exact.h"

#define UNROLL(n) UNROLL_(GCC unroll n)
#define UNROLL_(x) _Pragma(#x)

/* As many doubles as a vector has, and what belongs to them. */
#define GK_DOUBLES (GK_WIDTH / 2)
#define GK_PARTS (GK_BLOCK / GK_DOUBLES)

typedef int32_t I __attribute__((vector_size(GK_DOUBLES * 4)));
typedef uint32_t W __attribute__((vector_size(GK_DOUBLES * 4)));
typedef double D __attribute__((vector_size(GK_DOUBLES * 8)));
typedef uint64_t U __attribute__((vector_size(GK_DOUBLES * 8)));

/* Four lanes, for what is done row by row; in memory they need not be aligned. */
typedef float F4 __attribute__((vector_size(16)));
typedef uint64_t U4 __attribute__((vector_size(32)));
typedef float F4InMemory __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t U4InMemory __attribute__((vector_size(32), aligned(8), may_alias));
typedef double QInMemory __attribute__((vector_size(32), aligned(8), may_alias));

/* 1.5 × 2^52: adding it rounds to an integer, which is then in the low bits. */
#define ROUNDER 6755399441055744.0
#define ROUNDER_BITS INT64_C(0x4338000000000000)

/* Four floats as doubles. */
static inline __attribute__((always_inline)) Q
load_four(const float *from)
{
	return q_widen(*(const F4InMemory *) from);
}

/* Puts one feature of a block into the tile, and takes its squares from the sums. */
static inline __attribute__((always_inline)) void
pack_feature(const float *block, V scale, float origin, float *x, V *sums)
{
	UNROLL(4)
	for (int i = 0; i < GK_BLOCK / GK_WIDTH; i++)
	{
		V			moved = v_fmsub(v_load(block + i * GK_WIDTH), scale, v_set(origin));

		sums[i] = v_fnmadd(moved, moved, sums[i]);
		v_store(x + i * GK_WIDTH, moved);
	}
}

/* Puts a whole block into the tile, and the norm2 of its rows: two sums make that twice as fast. */
static inline __attribute__((always_inline)) void
pack_block(const GkFilter *filter, GkTile *tile, int position, const float *block)
{
	const float *origin = filter->origin;
	float	   *x = tile->x + position;
	V			scale = v_set(filter->scale);
	V			even[GK_BLOCK / GK_WIDTH] = {};
	V			odd[GK_BLOCK / GK_WIDTH] = {};
	int			d = filter->d;
	int			j = 0;

	for (; j + 2 <= d; j += 2, x += 2 * GK_TILE, block += 2 * GK_BLOCK)
	{
		pack_feature(block, scale, origin[j], x, even);
		pack_feature(block + GK_BLOCK, scale, origin[j + 1], x + GK_TILE, odd);
	}
	if (j < d)
		pack_feature(block, scale, origin[j], x, even);
	for (int i = 0; i < GK_BLOCK / GK_WIDTH; i++)
		v_store(tile->norm2 + position + i * GK_WIDTH, v_set(0.0f) - (even[i] + odd[i]));
}

/* Puts the rows of the mask into the tile: a whole block by vectors, else row by row. */
static void
pack(const GkFilter *filter, GkTile *tile, int position, const float *block, uint32_t mask)
{
	if (mask == 0xffff && position % GK_BLOCK == 0)
	{
		pack_block(filter, tile, position, block);
		return;
	}
#ifdef GK_COMPRESS
	GK_COMPRESS(filter, tile, position, block, mask);
#else
	for (; mask != 0; mask &= mask - 1, position++)
	{
		const float *from = block + __builtin_ctz(mask);
		float		sum = 0.0f;

		for (int j = 0; j < filter->d; j++)
		{
			float		x = from[j * GK_BLOCK] * filter->scale - filter->origin[j];

			sum += x * x;
			tile->x[j * GK_TILE + position] = x;
		}
		tile->norm2[position] = sum;
	}
#endif
}

/* The best and the second best scores of some rows, and the best one's number. */
typedef struct Found
{
	V			best;
	V			second;
	VI			index;
} Found;

/* Takes one more score into account. */
static inline __attribute__((always_inline)) void
take(V value, int32_t id, Found *found)
{
	found->index = v_take(found->index, value, found->best, id);
	found->second = v_min(found->second, v_max(value, found->best));
	found->best = v_min(found->best, value);
}

/* Fetches part number p of count of the memory that the next tile will read. */
static inline void
prefetch(const GkTile *tile, int64_t p, int64_t count)
{
	int64_t		part = (tile->ahead_bytes / count + 63) / 64 * 64;
	const char *from = tile->ahead + p * part;
	const char *end = tile->ahead + tile->ahead_bytes;

	for (int64_t i = 0; i < part && from + i < end; i += 64)
		__builtin_prefetch(from + i, 0, 2);
}

/* The state of a tile. */
static inline __attribute__((always_inline)) Found
load_found(const GkTile *tile, int lane)
{
	return (Found) {v_load(tile->best + lane), v_load(tile->second + lane),
		vi_load(tile->index + lane)};
}

/* Leaves in a tile what has been found. */
static inline __attribute__((always_inline)) void
store_found(GkTile *tile, int lane, const Found *found)
{
	v_store(tile->best + lane, found->best);
	v_store(tile->second + lane, found->second);
	vi_store(tile->index + lane, found->index);
}

/*
 * A window for the norm2 of a row: slope × norm2 + least.  It is wider than that of
 * judge_closely(): with C = G, the greatest norm, C² + 2 X C <= 2 G² + X² and
 * (X + C)² <= 2 (G² + X²), so neither norms nor roots are needed.
 */
typedef struct WideWindow
{
	V			slope;
	V			least;
} WideWindow;

/* The window of a filter. */
static inline WideWindow
wide_window(const GkFilter *filter)
{
	float		grow = 1.0f + (float) (filter->d + 16) * 0x1p-23f;
	float		greatest2 = filter->greatest_norm * filter->greatest_norm;
	float		twice = 2.0f * filter->gamma_double;

	return (WideWindow) {
		.slope = v_set((filter->gamma + twice) * grow * 1.01f),
		.least = v_set(((2.0f * filter->gamma + twice) * greatest2 + 0x1p-89f) * 1.01f)
	};
}

#ifdef GK_FILTER
#include GK_FILTER
#else
#define GK_DEPTH 1
#define GK_SPLIT_ERROR 0.0f

/* Nothing to do: rows are multiplied as they are. */
static void
split(int d, GkTile *tile)
{
	(void) d;
	(void) tile;
}

/* Packs up to GK_PANEL centroids into a panel. */
static void
fill(int d, const double *centroids, int count, double scale, const float *origin, float *panel)
{
	for (int i = 0; i < GK_PANEL; i++)
	{
		const double *c = centroids + (size_t) i * d;
		double		sum = 0.0;

		for (int j = 0; j < d; j++)
		{
			double		moved = i < count ? c[j] * scale - origin[j] : 0.0;

			panel[(j + 1) * GK_PANEL + i] = (float) moved;
			sum += moved * moved;
		}
		panel[i] = i < count ? (float) (sum / 2) : INFINITY;
	}
}

/* Scores of 2 × GK_WIDTH rows with the first `centroids` centroids of a panel. */
static inline __attribute__((always_inline)) void
score(int d, const float *x, const float *panel, const int centroids, V *left, V *right)
{
	const float *c = panel + GK_PANEL;

	UNROLL(16)
	for (int i = 0; i < centroids; i++)
		left[i] = right[i] = v_set(panel[i]);
	for (int j = 0; j < d; j++)
	{
		V			x0 = v_load(x);
		V			x1 = v_load(x + GK_WIDTH);

		UNROLL(16)
		for (int i = 0; i < centroids; i++)
		{
			V			centroid = v_set(c[i]);

			left[i] = v_fnmadd(x0, centroid, left[i]);
			right[i] = v_fnmadd(x1, centroid, right[i]);
		}
		x += GK_TILE;
		c += GK_PANEL;
	}
}

/* Takes the first `centroids` centroids of a panel into account. */
static inline __attribute__((always_inline)) void
take_centroids(int d, const float *x, const float *panel, const int centroids, int32_t id,
			   Found *found0, Found *found1)
{
	V			left[GK_PANEL];
	V			right[GK_PANEL];

	score(d, x, panel, centroids, left, right);
	UNROLL(16)
	for (int i = 0; i < centroids; i++)
	{
		take(left[i], id + i, found0);
		take(right[i], id + i, found1);
	}
}

/* Each row's best and second best score over count centroids, and the number of the best. */
static void
nearest(int d, GkTile *tile, const float *panels, int64_t first, int64_t count)
{
	size_t		stride = (size_t) GK_PANEL * (d + 1);
	int64_t		panel_count = (count + GK_PANEL - 1) / GK_PANEL;

	for (int lane = 0; lane < GK_TILE; lane += 2 * GK_WIDTH)
	{
		const float *x = tile->x + lane;
		Found		found0 = {v_set(INFINITY), v_set(INFINITY), {}};
		Found		found1 = found0;

		if (first > 0)
		{
			found0 = load_found(tile, lane);
			found1 = load_found(tile, lane + GK_WIDTH);
		}
		for (int64_t p = 0; p < panel_count; p++)
		{
			const float *panel = panels + p * stride;
			int64_t		left = count - p * GK_PANEL;
			int32_t		id = (int32_t) (first + p * GK_PANEL);

			if (lane == 0)
				prefetch(tile, p, panel_count);
			if (left > 2 * GK_PANEL / 3)
				take_centroids(d, x, panel, GK_PANEL, id, &found0, &found1);
			else if (left > GK_PANEL / 3)
				take_centroids(d, x, panel, 2 * GK_PANEL / 3, id, &found0, &found1);
			else
				take_centroids(d, x, panel, GK_PANEL / 3, id, &found0, &found1);
		}
		store_found(tile, lane, &found0);
		store_found(tile, lane + GK_WIDTH, &found1);
	}
}

/* The rows whose score with each centroid of a panel is not above their threshold. */
static void
within(int d, const GkTile *tile, const float *panel, uint32_t *masks)
{
	memset(masks, 0, GK_PANEL * sizeof(uint32_t));
	for (int lane = 0; lane < GK_TILE; lane += 2 * GK_WIDTH)
	{
		V			left[GK_PANEL];
		V			right[GK_PANEL];
		V			threshold0 = v_load(tile->threshold + lane);
		V			threshold1 = v_load(tile->threshold + lane + GK_WIDTH);

		score(d, tile->x + lane, panel, GK_PANEL, left, right);
		UNROLL(16)
		for (int i = 0; i < GK_PANEL; i++)
			masks[i] |= v_not_above(left[i], threshold0) << lane |
				v_not_above(right[i], threshold1) << (lane + GK_WIDTH);
	}
}

/* Some rows in place, and what is known of them. */
typedef struct Direct
{
	const float *x;
	int64_t		apart;			/* floats from the first GK_WIDTH rows to the others */
	Found		found[2];
	V			norm2[2];		/* negative */
} Direct;

/* Takes some centroids of a panel into account, and the norms if it is the first panel. */
static inline __attribute__((always_inline)) void
take_in_place(const GkFilter *filter, const float *panel, const int centroids, int32_t id,
			  const bool is_first, Direct *rows)
{
	const float *x = rows->x;
	const float *c = panel + GK_PANEL;
	V			scale = v_set(filter->scale);
	V			left[GK_PANEL];
	V			right[GK_PANEL];

	UNROLL(16)
	for (int i = 0; i < centroids; i++)
		left[i] = right[i] = v_set(panel[i]);
	for (int j = 0; j < filter->d; j++, x += GK_BLOCK, c += GK_PANEL)
	{
		V			origin = v_set(filter->origin[j]);
		V			x0 = v_fmsub(v_load(x), scale, origin);
		V			x1 = v_fmsub(v_load(x + rows->apart), scale, origin);

		if (is_first)
		{
			rows->norm2[0] = v_fnmadd(x0, x0, rows->norm2[0]);
			rows->norm2[1] = v_fnmadd(x1, x1, rows->norm2[1]);
		}
		UNROLL(16)
		for (int i = 0; i < centroids; i++)
		{
			V			centroid = v_set(c[i]);

			left[i] = v_fnmadd(x0, centroid, left[i]);
			right[i] = v_fnmadd(x1, centroid, right[i]);
		}
	}
	UNROLL(16)
	for (int i = 0; i < centroids; i++)
	{
		take(left[i], id + i, &rows->found[0]);
		take(right[i], id + i, &rows->found[1]);
	}
}

/* Takes the first `count` centroids of a panel, or all of them, into account. */
static inline __attribute__((always_inline)) void
take_panel(const GkFilter *filter, const float *panel, int64_t count, int32_t id,
		   const bool is_first, Direct *rows)
{
	if (count > 2 * GK_PANEL / 3)
		take_in_place(filter, panel, GK_PANEL, id, is_first, rows);
	else if (count > GK_PANEL / 3)
		take_in_place(filter, panel, 2 * GK_PANEL / 3, id, is_first, rows);
	else
		take_in_place(filter, panel, GK_PANEL / 3, id, is_first, rows);
}

/* Leaves what was found for GK_WIDTH rows from `lane` on. */
static inline __attribute__((always_inline)) void
leave_found(const WideWindow *window, const Found *found, V negative2, int lane,
			   const int32_t *old, GkDirectTile *tile)
{
	V			wide = window->least - negative2 * window->slope;

	vi_store(tile->index + lane, found->index);
	tile->flagged |= v_not_above(found->second - found->best, wide) << lane;
	tile->changed |= v_differs(found->index, vi_load(old + lane)) << lane;
}

/* Finds the best and the second best scores of some rows, and the norms. */
static inline __attribute__((always_inline)) void
find_in_place(const GkFilter *filter, const float *panels, int64_t count, Direct *rows)
{
	size_t		stride = (size_t) GK_PANEL * (filter->d + 1);

	take_panel(filter, panels, count, 0, true, rows);
	for (int64_t first = GK_PANEL; first < count; first += GK_PANEL)
		take_panel(filter, panels + first / GK_PANEL * stride, count - first, (int32_t) first,
				   false, rows);
}

/* Labels of whole tiles, whose rows are read in place. */
static void
direct(const GkFilter *filter, const float *blocks, int64_t tiles, const float *panels,
	   int64_t count, const int32_t *old, GkDirectTile *found)
{
	const Found none = {v_set(INFINITY), v_set(INFINITY), {}};
	WideWindow	window = wide_window(filter);
	int64_t		floats = (int64_t) filter->d * GK_BLOCK;

	for (int64_t t = 0; t < tiles; t++, blocks += 2 * floats, old += GK_TILE)
	{
		found[t].flagged = found[t].changed = 0;
		for (int lane = 0; lane < GK_TILE; lane += 2 * GK_WIDTH)
		{
			Direct		rows = {
				.x = blocks + lane / GK_BLOCK * floats + lane % GK_BLOCK,
				.apart = GK_WIDTH < GK_BLOCK ? GK_WIDTH : floats,
				.found = {none, none}
			};

			find_in_place(filter, panels, count, &rows);
			for (int i = 0; i < 2; i++)
				leave_found(&window, &rows.found[i], rows.norm2[i], lane + i * GK_WIDTH, old,
							&found[t]);
		}
	}
}

#define GK_DIRECT direct
#endif

/* Flags the rows whose second best score is within the window, and notes whose label changed. */
static inline __attribute__((always_inline)) void
flag(GkTile *tile, int lane, V window)
{
	V			gap = v_load(tile->second + lane) - v_load(tile->best + lane);

	tile->flagged |= v_not_above(gap, window) << lane;
	tile->changed |= v_differs(vi_load(tile->index + lane), vi_load(tile->old + lane)) << lane;
}

/* Bounds of some rows; the lower ones are at most `far`. */
static inline __attribute__((always_inline)) void
make_bounds(GkTile *tile, int lane, V far, V error)
{
	V			norm2 = v_load(tile->norm2 + lane);
	V			upper2 = norm2 + 2.0f * v_load(tile->best + lane) + error;
	V			lower2 = norm2 + 2.0f * v_load(tile->second + lane) - error;
	V			zero = v_set(0.0f);

	v_store(tile->upper + lane, v_sqrt(v_max(upper2, zero)) * (1.0f + 0x1p-20f));
	v_store(tile->lower + lane, v_min(far, v_sqrt(v_max(lower2, zero)) * (1.0f - 0x1p-20f)));
}

/* Decides which labels are sure, and makes thresholds and perhaps bounds of the scores. */
static inline __attribute__((always_inline)) void
judge_closely(const GkFilter *filter, GkTile *tile, const bool keep_bounds)
{
	float		norms[GK_TILE];
	float		grow = 1.0f + (float) (filter->d + 16) * 0x1p-23f;
	V			greatest = v_set(filter->greatest_norm);

	for (int i = 0; i < GK_TILE; i++)
		norms[i] = filter->norms[tile->index[i]];
	tile->flagged = tile->changed = tile->beyond = 0;
	for (int lane = 0; lane < GK_TILE; lane += GK_WIDTH)
	{
		V			norm = v_load(norms + lane);
		V			x = v_sqrt(v_load(tile->norm2 + lane) * grow + 0x1p-100f) * (1.0f + 0x1p-20f);
		V			near = (2.0f * x + norm) * (1.0f + 0x1p-10f);
		V			c = v_min(near, greatest);
		V			both = (x + c) * (x + c);
		V			window = filter->gamma * (c * c + 2.0f * x * c) + filter->gamma_double * both +
			0x1p-90f;

		window *= 1.001f;
		v_store(tile->threshold + lane, v_load(tile->best + lane) + window);
		flag(tile, lane, window);
		tile->beyond |= v_not_above(v_set(filter->reach), near) << lane;
		if (keep_bounds)
			make_bounds(tile, lane, v_if_less(near, greatest, x + norm, v_set(INFINITY)),
						filter->gamma * both + 0x1p-90f);
	}
}

/* Flags the rows that the wide window leaves in doubt, and notes whose label changed. */
static inline void
judge_widely(const GkFilter *filter, GkTile *tile)
{
	WideWindow	window = wide_window(filter);

	tile->flagged = tile->changed = 0;
	for (int lane = 0; lane < GK_TILE; lane += GK_WIDTH)
		flag(tile, lane, v_load(tile->norm2 + lane) * window.slope + window.least);
}

/* Decides which labels are sure; looks closely only if it must. */
static void
judge(const GkFilter *filter, GkTile *tile, bool keep_bounds)
{
	if (keep_bounds)
	{
		judge_closely(filter, tile, true);
		return;
	}
	judge_widely(filter, tile);
	if (tile->flagged != 0)
		judge_closely(filter, tile, false);
}

/* Moves the bounds along with the centroids; keeps the rows that they do not settle. */
static int64_t
bounds(const GkMoves *moves, float *values, const int32_t *labels, int64_t blocks,
	   uint32_t *masks)
{
	const float *deltas = moves->deltas;
	float		greatest = moves->greatest;
	float		second = moves->second;
	int32_t		greatest_mover = moves->greatest_mover;
	int64_t		count = 0;

	for (int64_t b = 0; b < blocks; b++, values += 2 * GK_BLOCK, labels += GK_BLOCK)
	{
		uint32_t	active = 0;

		for (int i = 0; i < GK_BLOCK; i++)
		{
			float		upper = (values[i] + deltas[labels[i]]) * (1.0f + 0x1p-21f);
			float		lower = (values[GK_BLOCK + i] -
								 (labels[i] == greatest_mover ? second : greatest)) *
				(1.0f - 0x1p-21f);

			lower = lower > 0.0f ? lower : 0.0f;
			values[i] = upper;
			values[GK_BLOCK + i] = lower;
			active |= (uint32_t) !(upper * (1.0f + 0x1p-18f) < lower) << i;
		}
		masks[b] &= active;
		count += __builtin_popcount(masks[b]);
	}
	return count;
}

/* Makes a block of GK_BLOCK rows that lie one after the other. */
static void
transpose(float *block, const float *rows, int d)
{
	int			j = 0;

#ifdef GK_TRANSPOSE
	for (; j + 16 <= d; j += 16)
		GK_TRANSPOSE(block + j * GK_BLOCK, rows + j, d);
#endif
#ifdef GK_TRANSPOSE_8
	for (; j + 8 <= d; j += 8)
		for (int row = 0; row < GK_BLOCK; row += 8)
			GK_TRANSPOSE_8(block + j * GK_BLOCK + row, rows + (size_t) row * d + j, d);
#endif
	for (; j < d; j++)
		for (int row = 0; row < GK_BLOCK; row++)
			block[j * GK_BLOCK + row] = rows[(size_t) row * d + j];
}

/* d² of a block to exactly `count` centroids. */
static inline __attribute__((always_inline)) void
distances_to(const float *block, int d, const double *centroids, const int count, double *distance2)
{
	D			sums[GK_CENTROIDS_AT_ONCE][GK_PARTS] = {};

	for (int j = 0; j < d; j++)
	{
		UNROLL(8)
		for (int part = 0; part < GK_PARTS; part++)
		{
			D			x = d_load(block + j * GK_BLOCK + part * GK_DOUBLES);

			UNROLL(4)
			for (int i = 0; i < count; i++)
			{
				D			difference = x - centroids[(size_t) i * d + j];

				sums[i][part] += difference * difference;
			}
		}
	}
	memcpy(distance2, sums, count * GK_BLOCK * sizeof(double));
}

/* d² of a block to count centroids, by the definition. */
static void
distances(const float *block, int d, const double *centroids, int count, double *distance2)
{
	switch (count)
	{
		case 1:
			distances_to(block, d, centroids, 1, distance2);
			break;
		case 2:
			distances_to(block, d, centroids, 2, distance2);
			break;
		case 3:
			distances_to(block, d, centroids, 3, distance2);
			break;
		default:
			distances_to(block, d, centroids, 4, distance2);
			break;
	}
}

/* Distances of GK_MERGE, of a block to exactly `count` points. */
static inline __attribute__((always_inline)) void
spans_to(const float *block, int d, const float *points, const int count, float *distances)
{
	V			sums[GK_CENTROIDS_AT_ONCE][GK_BLOCK / GK_WIDTH] = {};

	for (int j = 0; j < d; j++)
	{
		UNROLL(4)
		for (int part = 0; part < GK_BLOCK / GK_WIDTH; part++)
		{
			V			x = v_load(block + j * GK_BLOCK + part * GK_WIDTH);

			UNROLL(4)
			for (int i = 0; i < count; i++)
			{
				V			difference = x - v_set(points[(size_t) i * d + j]);

				sums[i][part] += difference * difference;
			}
		}
	}
	memcpy(distances, sums, count * GK_BLOCK * sizeof(float));
}

/* The same of up to GK_CENTROIDS_AT_ONCE points. */
static void
spans(const float *block, int d, const float *points, int count, float *distances)
{
	if (count == GK_CENTROIDS_AT_ONCE)
	{
		spans_to(block, d, points, GK_CENTROIDS_AT_ONCE, distances);
		return;
	}
	for (int i = 0; i < count; i++)
		spans_to(block, d, points + (size_t) i * d, 1, distances + i * GK_BLOCK);
}

/* Takes the d² of a block's rows to a point where it is less, or the point is the first. */
static void
take_nearer(const double *fresh, int32_t label, double *distance2, int32_t *labels)
{
	UNROLL(8)
	for (int part = 0; part < GK_PARTS; part++)
	{
		D			new;
		D			old;
		I			before;
		U			nearer;
		I			narrow;

		memcpy(&new, fresh + part * GK_DOUBLES, sizeof(new));
		memcpy(&old, distance2 + part * GK_DOUBLES, sizeof(old));
		memcpy(&before, labels + part * GK_DOUBLES, sizeof(before));
		nearer = label == 0 ? ~(U) {} : (U) (new < old);
		narrow = __builtin_convertvector(nearer, I);
		old = (D) ((nearer & (U) new) | (~nearer & (U) old));
		before = (narrow & label) | (~narrow & before);
		memcpy(distance2 + part * GK_DOUBLES, &old, sizeof(old));
		memcpy(labels + part * GK_DOUBLES, &before, sizeof(before));
	}
}

/* The square roots of GK_BLOCK × count numbers. */
static void
roots(double *values, int count)
{
	for (int i = 0; i < count * GK_BLOCK; i += 4)
	{
		QInMemory  *four = (QInMemory *) (values + i);

		*four = q_sqrt(*four);
	}
}

/* d² of each row of a block to the centroid of its label, by the definition. */
static void
own_distances(const float *block, int d, const double *centroids, const int32_t *labels,
			  double *distance2)
{
	for (int row = 0; row < GK_BLOCK; row += 4)
	{
		const double *p[4];
		Q			sum = {};
		int			j = 0;

		for (int i = 0; i < 4; i++)
			p[i] = centroids + (int64_t) labels[row + i] * d;
		for (; j + 4 <= d; j += 4)
		{
			Q			c[4];

			UNROLL(4)
			for (int i = 0; i < 4; i++)
				c[i] = *(const QInMemory *) (p[i] + j);
			turn_4x4(c);
			UNROLL(4)
			for (int i = 0; i < 4; i++)
			{
				Q			difference = load_four(block + (j + i) * GK_BLOCK + row) - c[i];

				sum += difference * difference;
			}
		}
		for (; j < d; j++)
		{
			Q			c = {p[0][j], p[1][j], p[2][j], p[3][j]};
			Q			difference = load_four(block + j * GK_BLOCK + row) - c;

			sum += difference * difference;
		}
		memcpy(distance2 + row, &sum, sizeof(sum));
	}
}

/* How far ahead of itself a pass over one feature of some blocks fetches, in floats. */
static inline int64_t
fetch_distance(int64_t blocks, int d)
{
	return d <= 1024 ? blocks * d * GK_BLOCK : 0;
}

/* The least (or the greatest) of the lanes of a block's rows, in halves. */
static inline __attribute__((always_inline)) float
extreme(const V *parts, const bool least)
{
	float		lanes[GK_BLOCK];

	memcpy(lanes, parts, sizeof(lanes));
	for (int width = GK_BLOCK / 2; width > 0; width /= 2)
		for (int i = 0; i < width; i++)
		{
			bool		other = least ? lanes[i + width] < lanes[i] : lanes[i + width] > lanes[i];

			lanes[i] = other ? lanes[i + width] : lanes[i];
		}
	return lanes[0];
}

/* Widens least and greatest of each feature by those of the blocks. */
static void
range(const float *block, int64_t blocks, int d, float *least, float *greatest)
{
	int64_t		ahead = fetch_distance(blocks, d);

	for (int j = 0; j < d; j++)
	{
		V			low[GK_BLOCK / GK_WIDTH];
		V			high[GK_BLOCK / GK_WIDTH];

		UNROLL(4)
		for (int i = 0; i < GK_BLOCK / GK_WIDTH; i++)
		{
			low[i] = v_set(least[j]);
			high[i] = v_set(greatest[j]);
		}
		for (int64_t b = 0; b < blocks; b++)
		{
			const float *x = block + (b * d + j) * GK_BLOCK;

			__builtin_prefetch(x + ahead);
			UNROLL(4)
			for (int i = 0; i < GK_BLOCK / GK_WIDTH; i++)
			{
				low[i] = v_min(v_load(x + i * GK_WIDTH), low[i]);
				high[i] = v_max(v_load(x + i * GK_WIDTH), high[i]);
			}
		}
		least[j] = extreme(low, true);
		greatest[j] = extreme(high, false);
	}
}

/*
 * Sums of a feature: the four limbs with ROUNDER's bits in every term, exponents with their
 * bias, and how many are not zero, negative.
 */
typedef struct MomentLanes
{
	U			limbs[4];
	I			exponents;
	I			nonzero;
} MomentLanes;

/* Adds some rows of a feature; without `all`, those that keep has bits for. */
static inline __attribute__((always_inline)) void
add_moments(MomentLanes *lanes, const float *from, const bool all, I keep, double pivot,
			double scale, double scale2, double rest)
{
	D			z = d_load(from) - pivot;
	D			values[2] = {z * scale, (z * z) * scale2};
	I			bits;

	memcpy(&bits, from, sizeof(bits));
	UNROLL(2)
	for (int i = 0; i < 2; i++)
	{
		D			high = values[i] + ROUNDER;
		D			low = (values[i] - (high - ROUNDER)) * rest + ROUNDER;
		U			mask = (U) __builtin_convertvector(keep, U);

		lanes->limbs[2 * i] += all ? (U) high : (U) high & mask;
		lanes->limbs[2 * i + 1] += all ? (U) low : (U) low & mask;
	}
	if (!all)
		bits &= keep;
	lanes->exponents += (bits >> 23) & 255;
	lanes->nonzero += bits != 0;
}

/* Moments of one feature over blocks, added to its six sums. */
static inline __attribute__((always_inline)) void
feature_moments(const float *block, int64_t blocks, const int rows, int d, int j,
				const GkMomentSums *m)
{
	MomentLanes lanes = {};
	int64_t    *sums = m->sums + j * 6;
	int64_t		nonzero = 0;
	int64_t		ahead = fetch_distance(blocks, d);

	for (int64_t b = 0; b < blocks; b++)
	{
		const float *x = block + (b * d + j) * GK_BLOCK;

		__builtin_prefetch(x + ahead);
		UNROLL(2)
		for (int part = 0; part < GK_PARTS; part++)
		{
			I			keep = {};

			for (int i = 0; rows < GK_BLOCK && i < GK_DOUBLES; i++)
				keep[i] = part * GK_DOUBLES + i < rows ? -1 : 0;
			add_moments(&lanes, x + part * GK_DOUBLES, rows == GK_BLOCK, keep, m->pivot[j],
						m->first_scales[j], m->second_scales[j], m->rest_scale);
		}
	}
	for (int i = 0; i < GK_DOUBLES; i++)
	{
		nonzero -= lanes.nonzero[i];
		sums[4] += lanes.exponents[i];
	}
	for (int limb = 0; limb < 4; limb++)
	{
		uint64_t	sum = -(uint64_t) (blocks * rows) * ROUNDER_BITS;

		for (int i = 0; i < GK_DOUBLES; i++)
			sum += lanes.limbs[limb][i];
		sums[limb] += (int64_t) sum;
	}
	/* the exponent field of a zero is 0, as that of a denormal, which counts as -127 */
	sums[4] -= 127 * nonzero;
	sums[5] += nonzero;
}

/* Adds at most 2^20 blocks to the moments of each feature; `rows` rows of a block count. */
static void
moments(const float *block, int64_t blocks, int rows, int d, const GkMomentSums *m)
{
	for (int j = 0; j < d; j++)
		if (rows == GK_BLOCK)
			feature_moments(block, blocks, GK_BLOCK, d, j, m);
		else
			feature_moments(block, blocks, rows, d, j, m);
}

/* Moves and scales a block, then divides rows by their norms if asked to. */
static void
transform(float *block, int d, const double *offset, const double *factor, bool normalize)
{
	double		norm2[GK_BLOCK] = {0};

	for (int j = 0; j < d; j++)
		for (int i = 0; i < GK_BLOCK; i++)
		{
			double		moved = (double) block[j * GK_BLOCK + i] - offset[j];
			float		x = (float) (moved * factor[j]) + 0.0f;

			block[j * GK_BLOCK + i] = x;
			norm2[i] += (double) x * (double) x;
		}
	if (!normalize)
		return;
	for (int i = 0; i < GK_BLOCK; i++)
		norm2[i] = norm2[i] > 0.0 ? sqrt(norm2[i]) : 1.0;
	for (int j = 0; j < d; j++)
		for (int i = 0; i < GK_BLOCK; i++)
			block[j * GK_BLOCK + i] = (float) ((double) block[j * GK_BLOCK + i] / norm2[i]) + 0.0f;
}

/* The sums of the gk_hash_term of each row of a block. */
static void
hash(const float *block, int d, uint64_t *terms)
{
	U			sums[GK_PARTS] = {};
	uint64_t	key = GK_HASH_KEY;

	for (int j = 0; j < d; j += 2, key += GK_HASH_KEY)
		UNROLL(8)
		for (int part = 0; part < GK_PARTS; part++)
		{
			W			even;
			W			odd = {};
			U			word;

			memcpy(&even, block + j * GK_BLOCK + part * GK_DOUBLES, sizeof(W));
			if (j + 1 < d)
				memcpy(&odd, block + (j + 1) * GK_BLOCK + part * GK_DOUBLES, sizeof(W));
			word = (__builtin_convertvector(odd, U) << 32 | __builtin_convertvector(even, U)) + key;
			GK_MIX(word);
			sums[part] += word;
		}
	memcpy(terms, sums, sizeof(sums));
}

/*
 * *sums += sign × what four doubles hold above ROUNDER, sign = 1 or -1.  Sums wrap if their grid is
 * too fine: a coordinator may ask for anything.
 */
static inline __attribute__((always_inline)) void
add_four(int64_t *sums, Q value, const int sign)
{
	U4			number = (U4) value - ROUNDER_BITS;

	*(U4InMemory *) sums += sign > 0 ? number : -number;
}

/* The high limb of four scaled values, above ROUNDER. */
static inline __attribute__((always_inline)) Q
high_limb(Q value)
{
	return value + ROUNDER;
}

/* The low limb of the same. */
static inline __attribute__((always_inline)) Q
low_limb(Q value, double rest)
{
	return (value - (high_limb(value) - ROUNDER)) * rest + ROUNDER;
}

/* Adds to a sum, which wraps likewise. */
static inline void
add_number(int64_t *sum, int64_t number)
{
	*sum = (int64_t) ((uint64_t) *sum + (uint64_t) number);
}

/* Adds one column of up to four rows, the low limbs if asked for. */
static inline __attribute__((always_inline)) void
add_column(const GkQuantizer *quantizer, int64_t *const *places, int rows, int j, Q value)
{
	U4			high = (U4) high_limb(value) - ROUNDER_BITS;
	U4			low = (U4) low_limb(value, quantizer->rest_scale) - ROUNDER_BITS;

	for (int i = 0; i < rows; i++)
	{
		add_number(&places[i][j], high[i]);
		if (quantizer->wide)
			add_number(&places[i][quantizer->d + 1 + j], low[i]);
	}
}

/* Adds four features of up to four rows. */
static inline __attribute__((always_inline)) void
add_square(const GkQuantizer *quantizer, int64_t *const *places, int rows, int j,
		   const Q values[4])
{
	Q			limbs[4];

	UNROLL(4)
	for (int i = 0; i < 4; i++)
		limbs[i] = high_limb(values[i]);
	turn_4x4(limbs);
	UNROLL(4)
	for (int i = 0; i < rows; i++)
		add_four(places[i] + j, limbs[i], 1);
	if (!quantizer->wide)
		return;
	UNROLL(4)
	for (int i = 0; i < 4; i++)
		limbs[i] = low_limb(values[i], quantizer->rest_scale);
	turn_4x4(limbs);
	UNROLL(4)
	for (int i = 0; i < rows; i++)
		add_four(places[i] + quantizer->d + 1 + j, limbs[i], 1);
}

/* Adds up to four rows, four features at a time, to the sums of their clusters. */
static inline __attribute__((always_inline)) void
add_four_rows(const GkQuantizer *quantizer, const float *block, Q weight,
			  int64_t *const *places, const int rows)
{
	const double *scales = quantizer->scales;
	int			d = quantizer->d;
	int			j = 0;

	for (; j + 4 <= d; j += 4)
	{
		Q			values[4];

		UNROLL(4)
		for (int i = 0; i < 4; i++)
			values[i] = weight * load_four(block + (j + i) * GK_BLOCK) * scales[j + i];
		add_square(quantizer, places, rows, j, values);
	}
	for (; j < d; j++)
		add_column(quantizer, places, rows, j,
				   weight * load_four(block + j * GK_BLOCK) * scales[j]);
	add_column(quantizer, places, rows, d, weight * scales[d]);
}

/* Adds the rows of a block to the sums of their clusters. */
static void
add_block(const GkQuantizer *quantizer, const float *block, const double *weights,
		  const int32_t *labels, int rows, int64_t stride, int64_t *sums)
{
	for (int row = 0; row < rows; row += 4)
	{
		int			count = rows - row < 4 ? rows - row : 4;
		int64_t    *places[4];
		double		weight[4] = {1.0, 1.0, 1.0, 1.0};
		Q			w;

		for (int i = 0; i < count; i++)
			places[i] = sums + labels[row + i] * stride;
		if (weights != NULL)
			memcpy(weight, weights + row, count * sizeof(double));
		memcpy(&w, weight, sizeof(w));
		if (count == 4)
			add_four_rows(quantizer, block + row, w, places, 4);
		else
			add_four_rows(quantizer, block + row, w, places, count);
	}
}

/* Four rows' squares to feature j of their centroids, scaled. */
static inline __attribute__((always_inline)) Q
scaled_square(const float *block, int j, Q c, Q weight, double scale)
{
	Q			difference = load_four(block + j * GK_BLOCK) - c;

	return weight * (difference * difference) * scale;
}

/* Adds the squares of up to four rows to their centroids, four features at a time. */
static inline __attribute__((always_inline)) void
add_four_squares(const GkQuantizer *quantizer, const float *block, Q weight,
				 const double *const *p, int64_t *const *places, const int rows)
{
	const double *scales = quantizer->scales;
	int			d = quantizer->d;
	int			j = 0;

	for (; j + 4 <= d; j += 4)
	{
		Q			values[4];

		UNROLL(4)
		for (int i = 0; i < 4; i++)
			values[i] = *(const QInMemory *) (p[i] + j);
		turn_4x4(values);
		UNROLL(4)
		for (int i = 0; i < 4; i++)
			values[i] = scaled_square(block, j + i, values[i], weight, scales[j + i]);
		add_square(quantizer, places, rows, j, values);
	}
	for (; j < d; j++)
	{
		Q			c = {p[0][j], p[1][j], p[2][j], p[3][j]};

		add_column(quantizer, places, rows, j, scaled_square(block, j, c, weight, scales[j]));
	}
	add_column(quantizer, places, rows, d, weight * scales[d]);
}

/* Adds the squares of up to four rows to their centroids. */
static void
add_squares(const GkQuantizer *quantizer, const float *block, const double *weights,
			const double *const *centroids, int rows, int64_t *const *sums)
{
	const double *p[4];
	double		weight[4] = {1.0, 1.0, 1.0, 1.0};
	Q			w;

	for (int i = 0; i < 4; i++)
		p[i] = centroids[i < rows ? i : 0];
	if (weights != NULL)
		memcpy(weight, weights, rows * sizeof(double));
	memcpy(&w, weight, sizeof(w));
	if (rows == 4)
		add_four_squares(quantizer, block, w, p, sums, 4);
	else
		add_four_squares(quantizer, block, w, p, sums, rows);
}

/* Takes a number from some sums and adds it to others; either may be NULL. */
static inline __attribute__((always_inline)) void
move_number(double value, int64_t *from, int64_t *to)
{
	int64_t		number;

	memcpy(&number, &value, sizeof(number));
	number -= ROUNDER_BITS;
	if (from != NULL)
		*from -= number;
	if (to != NULL)
		*to += number;
}

/* The same with four numbers. */
static inline __attribute__((always_inline)) void
move_four(Q value, int64_t *from, int64_t *to)
{
	if (from != NULL)
		add_four(from, value, -1);
	if (to != NULL)
		add_four(to, value, 1);
}

/* Moves the high or the low limbs of a row. */
static inline __attribute__((always_inline)) void
move_limbs(const GkQuantizer *quantizer, const float *row, double weight, const bool low,
		   int64_t *from, int64_t *to)
{
	const double *scales = quantizer->scales;
	double		rest = quantizer->rest_scale;
	int			d = quantizer->d;
	int			j = 0;

	for (; j + 4 <= d; j += 4)
	{
		const float *x = row + j * GK_BLOCK;
		F4			four = {x[0], x[GK_BLOCK], x[2 * GK_BLOCK], x[3 * GK_BLOCK]};
		Q			value = weight * q_widen(four) * *(const QInMemory *) (scales + j);

		move_four(low ? low_limb(value, rest) : high_limb(value),
				  from == NULL ? NULL : from + j, to == NULL ? NULL : to + j);
	}
	for (; j <= d; j++)
	{
		double		value = (j < d ? weight * row[j * GK_BLOCK] : weight) * scales[j];
		double		high = value + ROUNDER;

		move_number(low ? (value - (high - ROUNDER)) * rest + ROUNDER : high,
					from == NULL ? NULL : from + j, to == NULL ? NULL : to + j);
	}
}

/* Moves a row, times its weight, from one cluster's sums to another's; either may be NULL. */
static void
move(const GkQuantizer *quantizer, const float *row, double weight, int64_t *from, int64_t *to)
{
	int64_t		lows = quantizer->d + 1;

	move_limbs(quantizer, row, weight, false, from, to);
	if (quantizer->wide)
		move_limbs(quantizer, row, weight, true, from == NULL ? NULL : from + lows,
				   to == NULL ? NULL : to + lows);
}

/* Adds four rows to their tallies; only the first `rows` of them count. */
static inline __attribute__((always_inline)) void
tally_four(const GkTallyScales *scales, const double *distance2, Q weight, const int32_t *labels,
		   const int rows, GkTally *tallies)
{
	Q			d2 = *(const QInMemory *) distance2;
	Q			inertia = weight * d2 * scales->inertia;
	Q			distance = weight * q_sqrt(d2) * scales->distance;
	Q			limbs[4] = {
		high_limb(inertia), low_limb(inertia, scales->rest),
		high_limb(distance), low_limb(distance, scales->rest)
	};

	turn_4x4(limbs);
	UNROLL(4)
	for (int i = 0; i < rows; i++)
	{
		GkTally    *tally = &tallies[labels[i]];

		tally->size++;
		add_four(tally->sums, limbs[i], 1);
		tally->radius2 = distance2[i] > tally->radius2 ? distance2[i] : tally->radius2;
	}
}

/* Adds rows to their labels' tallies. */
static void
tally(const GkTallyScales *scales, const double *distance2, const double *weights,
	  const int32_t *labels, int rows, GkTally *tallies)
{
	Q			weight = (Q) {} + 1.0;
	int			row = 0;

	for (; row + 4 <= rows; row += 4)
	{
		if (weights != NULL)
			weight = *(const QInMemory *) (weights + row);
		tally_four(scales, distance2 + row, weight, labels + row, 4, tallies);
	}
	if (row == rows)
		return;
	for (int i = 0; weights != NULL && i < rows - row; i++)
		weight[i] = weights[row + i];
	tally_four(scales, distance2 + row, weight, labels + row, rows - row, tallies);
}

/* Adds sums to sums. */
static void
add(int64_t *sums, const int64_t *others, int64_t count)
{
	for (int64_t j = 0; j < count; j++)
		add_number(&sums[j], others[j]);
}

const GkKernels GK_KERNELS = {
	.name = GK_KERNELS_NAME,
	.panel = GK_PANEL,
	.depth = GK_DEPTH,
	.split_error = GK_SPLIT_ERROR,
	.fill = fill,
	.split = split,
	.pack = pack,
	.nearest = nearest,
	.judge = judge,
	.direct = GK_DIRECT,
	.within = within,
	.bounds = bounds,
	.transpose = transpose,
	.distances = distances,
	.spans = spans,
	.take_nearer = take_nearer,
	.roots = roots,
	.own_distances = own_distances,
	.range = range,
	.moments = moments,
	.transform = transform,
	.hash = hash,
	.add_block = add_block,
	.add_squares = add_squares,
	.move = move,
	.tally = tally,
	.add = add
};
