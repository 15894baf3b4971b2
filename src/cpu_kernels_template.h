/*
 * The loops of cpu_kernels.h for one instruction set.  The includer defines
 *	GK_KERNELS, GK_KERNELS_NAME, GK_PANEL (points of a panel),
 *	GK_WIDTH (float lanes), V (a vector of them), VI (the same of int32),
 *	v_load, v_store, v_set, v_fnmadd (c - a b), v_fmsub (a b - c), v_min, v_max,
 *	v_take (index, where score < best, id), v_not_above (bits of !(a > b)),
 *	and may define GK_COMPRESS.
 * Nothing is contracted (-ffp-contract=off): what is fused is fused by name.
 */
#include <math.h>
#include <string.h>

#include "cpu_kernels.h"
#include "exact.h"

#define UNROLL(n) UNROLL_(GCC unroll n)
#define UNROLL_(x) _Pragma(#x)

/* Eight lanes, for everything in double; lowered to what the machine has. */
typedef float F8 __attribute__((vector_size(32)));
typedef double D8 __attribute__((vector_size(64)));
typedef int64_t L8 __attribute__((vector_size(64)));
typedef uint64_t U8 __attribute__((vector_size(64)));
typedef uint32_t W8 __attribute__((vector_size(32)));

/* 1.5 × 2^52: adding it rounds to an integer, which is then in the low bits. */
#define ROUNDER 6755399441055744.0

/* Eight floats as doubles. */
static inline __attribute__((always_inline)) D8
load_double(const float *from)
{
	F8			x;

	memcpy(&x, from, sizeof(x));
	return __builtin_convertvector(x, D8);
}

/* rint(value) as integers, |value| <= 2^50. */
static inline __attribute__((always_inline)) L8
to_integer(D8 value)
{
	D8			rounder = (D8) {} + ROUNDER;

	return (L8) (value + rounder) - (L8) rounder;
}

/* What rint() leaves of a value. */
static inline __attribute__((always_inline)) D8
rest_of(D8 value)
{
	D8			rounder = (D8) {} + ROUNDER;

	return value - ((value + rounder) - rounder);
}

/* Puts the rows of the mask into the tile: a whole block by vectors, else row by row. */
static void
pack(const GkFilter *filter, float *x, int position, const float *block, uint32_t mask)
{
	int			d = filter->d;
	const float *center = filter->center;

	if (mask == 0xffff && position % GK_BLOCK == 0)
	{
		V			scale = v_set(filter->scale);

		for (int j = 0; j < d; j++)
			for (int lane = 0; lane < GK_BLOCK; lane += GK_WIDTH)
				v_store(x + j * GK_TILE + position + lane,
						v_fmsub(v_load(block + j * GK_BLOCK + lane), scale, v_set(center[j])));
		return;
	}
#ifdef GK_COMPRESS
	GK_COMPRESS(filter, x + position, block, mask);
#else
	for (; mask != 0; mask &= mask - 1, position++)
	{
		const float *from = block + __builtin_ctz(mask);

		for (int j = 0; j < d; j++)
			x[j * GK_TILE + position] = from[j * GK_BLOCK] * filter->scale - center[j];
	}
#endif
}

/* norm2 of the rows of a tile, Σ x^². */
static void
squares(int d, GkTile *tile)
{
	for (int lane = 0; lane < GK_TILE; lane += GK_WIDTH)
	{
		V			sum = v_set(0.0f);

		for (int j = 0; j < d; j++)
		{
			V			x = v_load(tile->x + j * GK_TILE + lane);

			sum = v_fnmadd(x, x, sum);
		}
		v_store(tile->norm2 + lane, v_set(0.0f) - sum);
	}
}

/* Scores of 2 × GK_WIDTH rows with the first `points` points of a panel. */
static inline __attribute__((always_inline)) void
score(int d, const float *x, const float *panel, const int points, V *left, V *right)
{
	const float *c = panel + GK_PANEL;

	UNROLL(16)
	for (int i = 0; i < points; i++)
		left[i] = right[i] = v_set(panel[i]);
	for (int j = 0; j < d; j++)
	{
		V			x0 = v_load(x);
		V			x1 = v_load(x + GK_WIDTH);

		UNROLL(16)
		for (int i = 0; i < points; i++)
		{
			V			point = v_set(c[i]);

			left[i] = v_fnmadd(x0, point, left[i]);
			right[i] = v_fnmadd(x1, point, right[i]);
		}
		x += GK_TILE;
		c += GK_PANEL;
	}
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

/* Takes the first `points` points of a panel into account. */
static inline __attribute__((always_inline)) void
take_points(int d, const float *x, const float *panel, const int points, int32_t id,
			Found *found0, Found *found1)
{
	V			left[GK_PANEL];
	V			right[GK_PANEL];

	score(d, x, panel, points, left, right);
	UNROLL(16)
	for (int i = 0; i < points; i++)
	{
		take(left[i], id + i, found0);
		take(right[i], id + i, found1);
	}
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

/* What a tile has found so far. */
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

/* The best and the second best score of each row over count points, and the best one's number. */
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
				take_points(d, x, panel, GK_PANEL, id, &found0, &found1);
			else if (left > GK_PANEL / 3)
				take_points(d, x, panel, 2 * GK_PANEL / 3, id, &found0, &found1);
			else
				take_points(d, x, panel, GK_PANEL / 3, id, &found0, &found1);
		}
		store_found(tile, lane, &found0);
		store_found(tile, lane + GK_WIDTH, &found1);
	}
}

/* Decides which labels are sure, and makes thresholds and perhaps bounds of the scores. */
static inline __attribute__((always_inline)) void
judge_tile(const GkFilter *filter, GkTile *tile, const bool keep_bounds)
{
	float		norms[GK_TILE];
	float		grow = 1.0f + (float) (filter->d + 16) * 0x1p-23f;
	float		greatest = filter->greatest_norm;
	float		gamma = filter->gamma;
	uint32_t	sure = 0;
	uint32_t	same = 0;

	for (int i = 0; i < GK_TILE; i++)
		norms[i] = filter->norms[tile->index[i]];
	for (int i = 0; i < GK_TILE; i++)
	{
		float		x = sqrtf(tile->norm2[i] * grow + 0x1p-100f) * (1.0f + 0x1p-20f);
		float		near = (2.0f * x + norms[i]) * (1.0f + 0x1p-10f);
		float		c = near < greatest ? near : greatest;
		float		both = (x + c) * (x + c);
		float		window = gamma * (c * c + 2.0f * x * c) + filter->gamma_double * both +
			0x1p-90f;

		tile->threshold[i] = tile->best[i] + window * 1.001f;
		if (keep_bounds)
		{
			float		error = gamma * both + 0x1p-90f;
			float		upper2 = tile->norm2[i] + 2.0f * tile->best[i] + error;
			float		lower2 = tile->norm2[i] + 2.0f * tile->second[i] - error;
			float		lower = sqrtf(lower2 > 0.0f ? lower2 : 0.0f) * (1.0f - 0x1p-20f);
			float		far = x + norms[i];

			tile->upper[i] = sqrtf(upper2 > 0.0f ? upper2 : 0.0f) * (1.0f + 0x1p-20f);
			tile->lower[i] = near < greatest && far < lower ? far : lower;
		}
		sure |= (uint32_t) (tile->second[i] - tile->best[i] > window * 1.001f) << i;
		same |= (uint32_t) (tile->index[i] == tile->old[i]) << i;
	}
	tile->flagged = ~sure;
	tile->changed = ~same;
}

/* The same, compiled for each case. */
static void
judge(const GkFilter *filter, GkTile *tile, bool keep_bounds)
{
	if (keep_bounds)
		judge_tile(filter, tile, true);
	else
		judge_tile(filter, tile, false);
}

/* The rows whose score with each point of a panel is not above their threshold. */
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
	for (; j < d; j++)
		for (int row = 0; row < GK_BLOCK; row++)
			block[j * GK_BLOCK + row] = rows[(size_t) row * d + j];
}

/* d² of a block to exactly `count` points: 2 × count vectors of sums. */
static inline __attribute__((always_inline)) void
distances_to(const float *block, int d, const double *points, const int count, double *distance2)
{
	D8			low[GK_POINTS_AT_ONCE] = {};
	D8			high[GK_POINTS_AT_ONCE] = {};

	for (int j = 0; j < d; j++)
	{
		D8			x0 = load_double(block + j * GK_BLOCK);
		D8			x1 = load_double(block + j * GK_BLOCK + 8);

		UNROLL(4)
		for (int i = 0; i < count; i++)
		{
			D8			c = (D8) {} + points[(size_t) i * d + j];
			D8			difference0 = x0 - c;
			D8			difference1 = x1 - c;

			low[i] += difference0 * difference0;
			high[i] += difference1 * difference1;
		}
	}
	for (int i = 0; i < count; i++)
	{
		memcpy(distance2 + i * GK_BLOCK, &low[i], sizeof(D8));
		memcpy(distance2 + i * GK_BLOCK + 8, &high[i], sizeof(D8));
	}
}

/* d² of a block to count points, by the definition. */
static void
distances(const float *block, int d, const double *points, int count, double *distance2)
{
	switch (count)
	{
		case 1:
			distances_to(block, d, points, 1, distance2);
			break;
		case 2:
			distances_to(block, d, points, 2, distance2);
			break;
		case 3:
			distances_to(block, d, points, 3, distance2);
			break;
		default:
			distances_to(block, d, points, 4, distance2);
			break;
	}
}

/* d² of each row of a block to the point of its label, by the definition. */
static void
own_distances(const float *block, int d, const double *points, const int32_t *labels,
			  double *distance2)
{
	for (int half = 0; half < GK_BLOCK; half += 8)
	{
		const double *p[8];
		D8			sum = {};

		for (int i = 0; i < 8; i++)
			p[i] = points + (int64_t) labels[half + i] * d;
		for (int j = 0; j < d; j++)
		{
			D8			c = {p[0][j], p[1][j], p[2][j], p[3][j],
							 p[4][j], p[5][j], p[6][j], p[7][j]};
			D8			difference = load_double(block + j * GK_BLOCK + half) - c;

			sum += difference * difference;
		}
		memcpy(distance2 + half, &sum, sizeof(sum));
	}
}

/* Widens least and greatest of each feature by those of the blocks. */
static void
range(const float *block, int64_t blocks, int d, float *least, float *greatest)
{
	for (int j = 0; j < d; j++)
	{
		float		low[GK_BLOCK];
		float		high[GK_BLOCK];

		for (int i = 0; i < GK_BLOCK; i++)
		{
			low[i] = least[j];
			high[i] = greatest[j];
		}
		for (int64_t b = 0; b < blocks; b++)
		{
			const float *x = block + (b * d + j) * GK_BLOCK;

			for (int i = 0; i < GK_BLOCK; i++)
			{
				low[i] = x[i] < low[i] ? x[i] : low[i];
				high[i] = x[i] > high[i] ? x[i] : high[i];
			}
		}
		for (int i = 0; i < GK_BLOCK; i++)
		{
			least[j] = low[i] < least[j] ? low[i] : least[j];
			greatest[j] = high[i] > greatest[j] ? high[i] : greatest[j];
		}
	}
}

/* The sum of the lanes. */
static inline __attribute__((always_inline)) int64_t
total(L8 a)
{
	return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
}

/* Adds the moments of 8 rows of a feature, those that `keep` has bits for. */
static inline __attribute__((always_inline)) void
add_moments(L8 *sums, D8 x, L8 keep, double pivot, double scale, double scale2, double rest)
{
	D8			z = x - pivot;
	D8			first = z * scale;
	D8			second = (z * z) * scale2;
	L8			exponent = (((L8) x >> 52) & 2047) - 1023;
	L8			nonzero = (L8) (x != 0.0) & keep;

	sums[0] += to_integer(first) & keep;
	sums[1] += to_integer(rest_of(first) * rest) & keep;
	sums[2] += to_integer(second) & keep;
	sums[3] += to_integer(rest_of(second) * rest) & keep;
	/* a float's denormals count as -127, as gk_exponent() says */
	exponent = ((exponent < -126) & -127) | ((exponent >= -126) & exponent);
	sums[4] += exponent & nonzero;
	sums[5] -= nonzero;
}

/* Adds blocks to the moments of each feature; `rows` rows of a block count. */
static void
moments(const float *block, int64_t blocks, int rows, int d, const GkMomentSums *m)
{
	L8			keep0;
	L8			keep1;

	for (int i = 0; i < 8; i++)
	{
		keep0[i] = i < rows ? -1 : 0;
		keep1[i] = i + 8 < rows ? -1 : 0;
	}
	for (int j = 0; j < d; j++)
	{
		L8			sums[6] = {};

		for (int64_t b = 0; b < blocks; b++)
		{
			const float *x = block + (b * d + j) * GK_BLOCK;

			add_moments(sums, load_double(x), keep0, m->pivot[j], m->first_scales[j],
						m->second_scales[j], m->rest_scale);
			add_moments(sums, load_double(x + 8), keep1, m->pivot[j], m->first_scales[j],
						m->second_scales[j], m->rest_scale);
		}
		for (int i = 0; i < 6; i++)
			m->sums[j * 6 + i] += total(sums[i]);
	}
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
hash(const float *block, int d, const uint32_t *keys, uint64_t *terms)
{
	U8			sum0 = {};
	U8			sum1 = {};

	for (int j = 0; j < d; j += 2)
	{
		W8			x[4] = {};

		memcpy(&x[0], block + j * GK_BLOCK, sizeof(W8));
		memcpy(&x[1], block + j * GK_BLOCK + 8, sizeof(W8));
		if (j + 1 < d)
		{
			memcpy(&x[2], block + (j + 1) * GK_BLOCK, sizeof(W8));
			memcpy(&x[3], block + (j + 1) * GK_BLOCK + 8, sizeof(W8));
		}
		sum0 += __builtin_convertvector(x[0] + keys[j], U8) *
			__builtin_convertvector(x[2] + keys[j + 1], U8);
		sum1 += __builtin_convertvector(x[1] + keys[j], U8) *
			__builtin_convertvector(x[3] + keys[j + 1], U8);
	}
	memcpy(terms, &sum0, sizeof(sum0));
	memcpy(terms + 8, &sum1, sizeof(sum1));
}

/* One row, times its weight, in fixed point: highs, then lows if the grid is wide. */
static void
quantize(const GkQuantizer *quantizer, const float *row, double weight, bool weighted,
		 int64_t *quantized)
{
	const double *scales = quantizer->scales;
	int			d = quantizer->d;
	int64_t		rounder;
	double		value = ROUNDER;

	memcpy(&rounder, &value, sizeof(rounder));
	for (int j = 0; j < d; j++)
	{
		double		x = row[j * GK_BLOCK];
		double		scaled = (weighted ? weight * x : x) * scales[j] + ROUNDER;

		memcpy(quantized + j, &scaled, sizeof(scaled));
		quantized[j] -= rounder;
	}
	quantized[d] = gk_quantize(weight, scales[d]);
	if (!quantizer->wide)
		return;
	for (int j = 0; j < d; j++)
	{
		double		x = row[j * GK_BLOCK];

		quantized[d + 1 + j] = gk_quantize_rest(weighted ? weight * x : x, scales[j],
												quantizer->rest_scale);
	}
	quantized[2 * d + 1] = gk_quantize_rest(weight, scales[d], quantizer->rest_scale);
}

/* Adds one number of each row to its place; inlined, the numbers would be picked from registers. */
static __attribute__((noinline)) void
add_each(int64_t *const *places, int64_t offset, const int64_t *values, int rows)
{
	if (rows == GK_BLOCK)
	{
		UNROLL(16)
		for (int i = 0; i < GK_BLOCK; i++)
			places[i][offset] += values[i];
		return;
	}
	for (int i = 0; i < rows; i++)
		places[i][offset] += values[i];
}

/* Adds the rows of a block to the sums of their clusters. */
static void
add_block(const GkQuantizer *quantizer, const float *block, const double *weights,
		  const int32_t *labels, int rows, int64_t stride, int64_t *sums)
{
	int			d = quantizer->d;
	double		rest = quantizer->rest_scale;
	int64_t    *places[GK_BLOCK];
	L8			values[2];
	D8			weight[2] = {(D8) {} + 1.0, (D8) {} + 1.0};

	for (int i = 0; i < rows; i++)
		places[i] = sums + labels[i] * stride;
	if (weights != NULL)
		memcpy(weight, weights, rows * sizeof(double));
	for (int j = 0; j <= d; j++)
	{
		D8			x0 = weight[0];
		D8			x1 = weight[1];

		if (j < d)
		{
			x0 *= load_double(block + j * GK_BLOCK);
			x1 *= load_double(block + j * GK_BLOCK + 8);
		}
		x0 *= quantizer->scales[j];
		x1 *= quantizer->scales[j];
		values[0] = to_integer(x0);
		values[1] = to_integer(x1);
		add_each(places, j, (const int64_t *) values, rows);
		if (!quantizer->wide)
			continue;
		values[0] = to_integer(rest_of(x0) * rest);
		values[1] = to_integer(rest_of(x1) * rest);
		add_each(places, d + 1 + j, (const int64_t *) values, rows);
	}
}

/* Adds a quantised row, or many sums, to sums. */
static void
add(int64_t *sums, const int64_t *quantized, int64_t count)
{
	for (int64_t j = 0; j < count; j++)
		sums[j] += quantized[j];
}

/* Takes a quantised row from sums. */
static void
subtract(int64_t *sums, const int64_t *quantized, int64_t count)
{
	for (int64_t j = 0; j < count; j++)
		sums[j] -= quantized[j];
}

const GkKernels GK_KERNELS = {
	.name = GK_KERNELS_NAME,
	.panel = GK_PANEL,
	.pack = pack,
	.squares = squares,
	.nearest = nearest,
	.judge = judge,
	.within = within,
	.bounds = bounds,
	.transpose = transpose,
	.distances = distances,
	.own_distances = own_distances,
	.range = range,
	.moments = moments,
	.transform = transform,
	.hash = hash,
	.quantize = quantize,
	.add_block = add_block,
	.add = add,
	.subtract = subtract
};
