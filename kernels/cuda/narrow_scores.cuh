/*
 * Scores of a tile of rows in float32: groups of lanes share rows, and then every lane has the
 * best two scores of rows of its own.
 */
#ifndef GK_NARROW_SCORES_CUH
#define GK_NARROW_SCORES_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "filter.cuh"
#include "narrow.cuh"

namespace gk
{

/* True for the lane that speaks for a row: of eight lanes, two have the same. */
template <int LANES> static __device__ __forceinline__ bool
speaks()
{
	return threadIdx.x % LANES < GROUP_ROWS;
}

/* Four features of a row less the origin, scaled; `row` is where it begins. */
static __device__ __forceinline__ float4
read_part(const NarrowArguments &a, const float *row, int part, int swap, float factor,
		  float4 origin)
{
	float4		x = make_float4(0, 0, 0, 0);

	if (a.by_parts)
		x = *(const float4 *) (row + (part ^ swap) * 4);
	else
	{
		row += part * 4;
		if (part * 4 < a.d)
			x.x = row[0];
		if (part * 4 + 1 < a.d)
			x.y = row[1];
		if (part * 4 + 2 < a.d)
			x.z = row[2];
		if (part * 4 + 3 < a.d)
			x.w = row[3];
	}
	return make_float4(fmaf(x.x, factor, -origin.x), fmaf(x.y, factor, -origin.y),
					   fmaf(x.z, factor, -origin.z), fmaf(x.w, factor, -origin.w));
}

/* sums[r][c] += y[r] × value c of a feature of a tile of centroids. */
template <int TILE> static __device__ __forceinline__ void
add_feature(const float *values, const float (&y)[GROUP_ROWS], float (&sums)[GROUP_ROWS][TILE])
{
#pragma unroll
	for (int c = 0; c < TILE; c += 4)
	{
		float4		four = *(const float4 *) (values + c);

#pragma unroll
		for (int r = 0; r < GROUP_ROWS; r++)
		{
			sums[r][c] = fmaf(y[r], four.x, sums[r][c]);
			sums[r][c + 1] = fmaf(y[r], four.y, sums[r][c + 1]);
			sums[r][c + 2] = fmaf(y[r], four.z, sums[r][c + 2]);
			sums[r][c + 3] = fmaf(y[r], four.w, sums[r][c + 3]);
		}
	}
}

/* Adds up sums of two lanes: each keeps ROWS of the 2 × ROWS rows. */
template <int ROWS, int BIT, int COUNT> static __device__ __forceinline__ void
halve(float (&sums)[GROUP_ROWS][COUNT])
{
	bool		upper = threadIdx.x & BIT;

#pragma unroll
	for (int r = 0; r < ROWS; r++)
#pragma unroll
		for (int c = 0; c < COUNT; c++)
		{
			float		given = upper ? sums[r][c] : sums[r + ROWS][c];
			float		kept = upper ? sums[r + ROWS][c] : sums[r][c];

			sums[r][c] = kept + __shfl_xor_sync(WARP_LANES, given, BIT);
		}
}

/* Adds up the sums of a group of lanes: each lane keeps those of its own rows, the first ones. */
template <int LANES, int COUNT> static __device__ __forceinline__ void
share_out(float (&sums)[GROUP_ROWS][COUNT])
{
	if constexpr (LANES >= 2)
		halve<2, 1>(sums);
	if constexpr (LANES >= 4)
		halve<1, 2>(sums);
	if constexpr (LANES >= 8)
#pragma unroll
		for (int c = 0; c < COUNT; c++)
			sums[0][c] += __shfl_xor_sync(WARP_LANES, sums[0][c], 4);
}

/* The place in the tile of row r of those that a lane has after share_out(). */
template <int LANES> static __device__ __forceinline__ int
own_row(int r)
{
	int			lane = threadIdx.x % 32;
	int			number = LANES == 1 ? r : LANES == 2 ? lane % 2 * 2 + r :
		lane % 2 * 2 + lane / 2 % 2;

	return number * (32 / LANES) + lane / LANES;
}

/* Four features of the group's four rows, feature by feature. */
static __device__ __forceinline__ void
spread(const float4 (&x)[GROUP_ROWS], float (&y)[4][GROUP_ROWS])
{
#pragma unroll
	for (int r = 0; r < GROUP_ROWS; r++)
	{
		y[0][r] = x[r].x;
		y[1][r] = x[r].y;
		y[2][r] = x[r].z;
		y[3][r] = x[r].w;
	}
}

/* What a lane finds out about its own rows. */
template <int LANES> struct OwnRows
{
	static constexpr int COUNT = LANES < GROUP_ROWS ? GROUP_ROWS / LANES : 1;

	Best		best[COUNT];
	float		norm2[COUNT];
	int32_t		label[COUNT];

	/* Merges the scores of a tile of centroids. */
	template <int TILE> __device__ __forceinline__ void
	take(const float (&sums)[GROUP_ROWS][TILE], int at)
	{
#pragma unroll
		for (int r = 0; r < COUNT; r++)
#pragma unroll
			for (int c = 0; c < TILE; c++)
				take_score(&best[r], sums[r][c], at + c);
	}
};

/* The first values of the sums of a tile of centroids: |e|²/2 in one lane of a group. */
template <int LANES, int TILE> static __device__ __forceinline__ void
start_sums(const float *lower, float (&sums)[GROUP_ROWS][TILE])
{
	bool		first = threadIdx.x % LANES == 0;

#pragma unroll
	for (int c = 0; c < TILE; c += 4)
	{
		float4		four = *(const float4 *) (lower + c);

#pragma unroll
		for (int r = 0; r < GROUP_ROWS; r++)
		{
			sums[r][c] = first ? four.x : 0.0f;
			sums[r][c + 1] = first ? four.y : 0.0f;
			sums[r][c + 2] = first ? four.z : 0.0f;
			sums[r][c + 3] = first ? four.w : 0.0f;
		}
	}
}

/* The squared norms of the rows so far. */
static __device__ __forceinline__ void
add_squares(const float (&y)[GROUP_ROWS], float (&norm2)[GROUP_ROWS][1])
{
#pragma unroll
	for (int r = 0; r < GROUP_ROWS; r++)
		norm2[r][0] = fmaf(y[r], y[r], norm2[r][0]);
}

/* Compares rows of at most D features, which stay in registers, with all centroids. */
template <int D, int LANES, int TILE> static __device__ __forceinline__ void
compare_short(const NarrowArguments &a, const NarrowWarp &w, const float *tile,
			  OwnRows<LANES> *own)
{
	static_assert(LANES == 1, "a lane has whole rows");
	int			lane = threadIdx.x % 32;
	int			swap = swap_of(a, lane);
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		norm2[GROUP_ROWS][1] = {};
	float		y[(D + 3) / 4][4][GROUP_ROWS];

#pragma unroll
	for (int part = 0; part < (D + 3) / 4; part++)
	{
		float4		origin = *(const float4 *) (w.packed + w.layout.origin + part * 4);
		float4		x[GROUP_ROWS];

#pragma unroll
		for (int r = 0; r < GROUP_ROWS; r++)
			x[r] = read_part(a, tile + (r * 32 + lane) * a.d, part, swap, factor, origin);
		spread(x, y[part]);
	}
#pragma unroll
	for (int j = 0; j < D; j++)
		add_squares(y[j / 4][j % 4], norm2);
	for (int at = 0; at < a.padded; at += TILE)
	{
		const float *values = w.packed + w.layout.values + at;
		float		sums[GROUP_ROWS][TILE];

		start_sums<LANES>(w.packed + w.layout.lower + at, sums);
#pragma unroll
		for (int j = 0; j < D; j++)
			add_feature(values + j / 4 * w.layout.part + j % 4 * a.padded, y[j / 4][j % 4], sums);
		own->take(sums, at);
	}
#pragma unroll
	for (int r = 0; r < GROUP_ROWS; r++)
		own->norm2[r] = norm2[r][0];
}

/* Compares rows, part by part, with all centroids. */
template <int LANES, int TILE> static __device__ __forceinline__ void
compare_long(const NarrowArguments &a, const NarrowWarp &w, const float *tile,
			 OwnRows<LANES> *own)
{
	int			lane = threadIdx.x % 32;
	int			swap = swap_of(a, lane / LANES);
	float		factor = ((const NarrowBound *) w.packed)->factor;
	float		norm2[GROUP_ROWS][1] = {};

	for (int at = 0; at < a.padded; at += TILE)
	{
		float		sums[GROUP_ROWS][TILE];

		start_sums<LANES>(w.packed + w.layout.lower + at, sums);
		for (int part = lane % LANES; part < a.parts; part += LANES)
		{
			const float *values = w.packed + w.layout.values + part * w.layout.part + at;
			float4		origin = *(const float4 *) (w.packed + w.layout.origin + part * 4);
			float4		x[GROUP_ROWS];
			float		y[4][GROUP_ROWS];

#pragma unroll
			for (int r = 0; r < GROUP_ROWS; r++)
				x[r] = read_part(a, tile + (r * (32 / LANES) + lane / LANES) * a.d, part, swap,
								 factor, origin);
			spread(x, y);
#pragma unroll
			for (int i = 0; i < 4; i++)
			{
				if (at == 0)
					add_squares(y[i], norm2);
				add_feature(values + i * a.padded, y[i], sums);
			}
		}
		share_out<LANES>(sums);
		own->take(sums, at);
	}
	share_out<LANES>(norm2);
#pragma unroll
	for (int r = 0; r < OwnRows<LANES>::COUNT; r++)
		own->norm2[r] = norm2[r][0];
}

}								/* namespace gk */

#endif							/* GK_NARROW_SCORES_CUH */
