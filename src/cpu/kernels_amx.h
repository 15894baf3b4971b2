/*
 * The filter with AMX: products of rows and centroids that are split into two bfloat16 each.
 *
 * A panel holds 32 halved norms, then for each 32 features four tiles of 16 centroids: the high and
 * the low parts of the first 16 centroids, and those of the others.  Rows are split likewise,
 * feature 2i beside feature 2i + 1, as the instruction wants its second factor.
 */
#ifndef GK_KERNELS_AMX_H
#define GK_KERNELS_AMX_H

/* Features of a product, and bytes of a tile of such products. */
#define GK_DEPTH 32
#define AMX_TILE 1024
#define AMX_ROW 64
#define GK_DIRECT NULL

/*
 * What splitting adds to the window, as a share of X C: high + low parts are off by 2^-16, and low
 * times low is less than 2^-16.
 */
#define GK_SPLIT_ERROR (3.1f * 0x1p-16f)

/* The shapes of the tiles, as LDTILECFG wants them: all of 16 rows of 64 bytes. */
typedef struct AmxConfig
{
	uint8_t		palette;
	uint8_t		start_row;
	uint8_t		reserved[14];
	uint16_t	row_bytes[16];
	uint8_t		rows[16];
} AmxConfig;

static const AmxConfig amx_config __attribute__((aligned(64))) = {
	.palette = 1,
	.row_bytes = {AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW, AMX_ROW},
	.rows = {16, 16, 16, 16, 16, 16, 16, 16}
};

/* Floats rounded to bfloat16, which are floats too; infinities and NaNs stay what they are. */
static inline __attribute__((always_inline)) __m512i
round_to_bfloat16(__m512 x)
{
	__m512i		bits = _mm512_castps_si512(x);
	__m512i		odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));

	bits = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
	return _mm512_and_si512(bits, _mm512_set1_epi32((int) 0xffff0000));
}

/* Pairs of bfloat16: the first ones low, the second ones high. */
static inline __attribute__((always_inline)) __m512i
pair(__m512i low, __m512i high)
{
	return _mm512_or_si512(_mm512_srli_epi32(low, 16), high);
}

/* Writes a pair of features of 16 rows: their high parts, and a tile later their low ones. */
static inline __attribute__((always_inline)) void
split_pair(__m512 even, __m512 odd, char *to)
{
	__m512i		high0 = round_to_bfloat16(even);
	__m512i		high1 = round_to_bfloat16(odd);
	__m512i		low0 = round_to_bfloat16(even - _mm512_castsi512_ps(high0));
	__m512i		low1 = round_to_bfloat16(odd - _mm512_castsi512_ps(high1));

	_mm512_store_si512(to, pair(high0, high1));
	_mm512_store_si512(to + AMX_TILE, pair(low0, low1));
}

/* Splits the rows of a tile; features beyond the last one are 0. */
static void
split(int d, GkTile *tile)
{
	char	   *to = (char *) tile->split;

	for (int j = 0; j < d; j += GK_DEPTH, to += 4 * AMX_TILE)
		for (int p = 0; p < GK_DEPTH / 2; p++)
			for (int half = 0; half < 2; half++)
			{
				const float *x = tile->x + (size_t) (j + 2 * p) * GK_TILE + half * GK_WIDTH;
				__m512		zero = _mm512_setzero_ps();

				split_pair(j + 2 * p < d ? v_load(x) : zero,
						   j + 2 * p + 1 < d ? v_load(x + GK_TILE) : zero,
						   to + half * 2 * AMX_TILE + p * AMX_ROW);
			}
}

/* The nearest bfloat16 of a float, as a float. */
static inline float
nearest_bfloat16(float x)
{
	uint32_t	bits;

	memcpy(&bits, &x, sizeof(bits));
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* Its 16 bits. */
static inline uint16_t
bfloat16_bits(float x)
{
	uint32_t	bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t) (bits >> 16);
}

/* Packs up to GK_PANEL centroids into a panel. */
static void
fill(int d, const double *centroids, int count, double scale, const float *origin, float *panel)
{
	uint16_t   *tiles = (uint16_t *) (panel + GK_PANEL);
	int			depth = (d + GK_DEPTH - 1) / GK_DEPTH * GK_DEPTH;

	memset(tiles, 0, (size_t) depth * GK_PANEL * sizeof(float));
	for (int i = 0; i < GK_PANEL; i++)
	{
		const double *c = centroids + (size_t) i * d;
		uint16_t   *to = tiles + i / 16 * AMX_TILE + i % 16 * GK_DEPTH;
		double		sum = 0.0;

		for (int j = 0; j < d && i < count; j++)
		{
			double		moved = c[j] * scale - origin[j];
			float		high = nearest_bfloat16((float) moved);
			uint16_t   *place = to + (size_t) (j / GK_DEPTH) * 2 * AMX_TILE + j % GK_DEPTH;

			place[0] = bfloat16_bits(high);
			place[AMX_TILE / 2] = bfloat16_bits(nearest_bfloat16((float) moved - high));
			sum += moved * moved;
		}
		panel[i] = i < count ? (float) (sum / 2) : INFINITY;
	}
}

/*
 * The products of the rows of a tile with the centroids of a panel: row by row of 32 centroids,
 * those with 32 rows.  Tiles 0 to 3 are sums, 4 and 5 centroids, 6 and 7 rows.
 */
static inline __attribute__((always_inline)) void
multiply(int d, const GkTile *tile, const float *panel, float *products)
{
	const char *c = (const char *) (panel + GK_PANEL);
	const char *x = (const char *) tile->split;

	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (int j = 0; j < d; j += GK_DEPTH, c += 4 * AMX_TILE, x += 4 * AMX_TILE)
	{
		_tile_loadd(4, c, AMX_ROW);
		_tile_loadd(5, c + 2 * AMX_TILE, AMX_ROW);
		_tile_loadd(6, x + AMX_TILE, AMX_ROW);
		_tile_loadd(7, x + 3 * AMX_TILE, AMX_ROW);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
		_tile_loadd(6, x, AMX_ROW);
		_tile_loadd(7, x + 2 * AMX_TILE, AMX_ROW);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
		_tile_loadd(4, c + AMX_TILE, AMX_ROW);
		_tile_loadd(5, c + 3 * AMX_TILE, AMX_ROW);
		_tile_dpbf16ps(0, 4, 6);
		_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, products, 2 * AMX_ROW);
	_tile_stored(1, products + 16, 2 * AMX_ROW);
	_tile_stored(2, products + 16 * GK_TILE, 2 * AMX_ROW);
	_tile_stored(3, products + 16 * GK_TILE + 16, 2 * AMX_ROW);
}

/* Takes centroids into account whose products are known. */
static inline __attribute__((always_inline)) void
take_products(const float *products, const float *panel, int count, int32_t id, Found *found0,
			  Found *found1)
{
	for (int i = 0; i < count; i++)
	{
		V			half = v_set(panel[i]);

		take(half - v_load(products + i * GK_TILE), id + i, found0);
		take(half - v_load(products + i * GK_TILE + GK_WIDTH), id + i, found1);
	}
}

/* Each row's best and second best score over count centroids, and the number of the best. */
static void
nearest(int d, GkTile *tile, const float *panels, int64_t first, int64_t count)
{
	size_t		stride = (size_t) GK_PANEL * ((d + GK_DEPTH - 1) / GK_DEPTH * GK_DEPTH + 1);
	int64_t		panel_count = (count + GK_PANEL - 1) / GK_PANEL;
	float		products[GK_PANEL * GK_TILE] __attribute__((aligned(64)));
	Found		found0 = {v_set(INFINITY), v_set(INFINITY), {}};
	Found		found1 = found0;

	if (first > 0)
	{
		found0 = load_found(tile, 0);
		found1 = load_found(tile, GK_WIDTH);
	}
	_tile_loadconfig(&amx_config);
	for (int64_t p = 0; p < panel_count; p++)
	{
		const float *panel = panels + p * stride;
		int64_t		left = count - p * GK_PANEL;

		prefetch(tile, p, panel_count);
		multiply(d, tile, panel, products);
		take_products(products, panel, left < GK_PANEL ? (int) left : GK_PANEL,
					  (int32_t) (first + p * GK_PANEL), &found0, &found1);
	}
	_tile_release();
	store_found(tile, 0, &found0);
	store_found(tile, GK_WIDTH, &found1);
}

/* The rows whose score with each centroid of a panel is not above their threshold. */
static void
within(int d, const GkTile *tile, const float *panel, uint32_t *masks)
{
	float		products[GK_PANEL * GK_TILE] __attribute__((aligned(64)));
	V			threshold0 = v_load(tile->threshold);
	V			threshold1 = v_load(tile->threshold + GK_WIDTH);

	_tile_loadconfig(&amx_config);
	multiply(d, tile, panel, products);
	_tile_release();
	for (int i = 0; i < GK_PANEL; i++)
	{
		V			half = v_set(panel[i]);

		masks[i] = v_not_above(half - v_load(products + i * GK_TILE), threshold0) |
			v_not_above(half - v_load(products + i * GK_TILE + GK_WIDTH), threshold1) << GK_WIDTH;
	}
}

#endif							/* GK_KERNELS_AMX_H */
