/*
 * Scores of a tile of rows in float32: each lane finds the best two scores of its rows.
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
add_feature(const float *values, const float (&y)[LANE_ROWS], float (&sums)[LANE_ROWS][TILE])
{
#pragma unroll
	for (int c = 0; c < TILE; c += 4)
	{
		float4		four = *(const float4 *) (values + c);

#pragma unroll
		for (int r = 0; r < LANE_ROWS; r++)
		{
			sums[r][c] = fmaf(y[r], four.x, sums[r][c]);
			sums[r][c + 1] = fmaf(y[r], four.y, sums[r][c + 1]);
			sums[r][c + 2] = fmaf(y[r], four.z, sums[r][c + 2]);
			sums[r][c + 3] = fmaf(y[r], four.w, sums[r][c + 3]);
		}
	}
}

/* The place in the tile of row r of a lane. */
static __device__ __forceinline__ int
own_row(int r)
{
	return r * 32 + threadIdx.x % 32;
}

/* Four features of a lane's four rows, feature by feature. */
static __device__ __forceinline__ void
spread(const float4 (&x)[LANE_ROWS], float (&y)[4][LANE_ROWS])
{
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
	{
		y[0][r] = x[r].x;
		y[1][r] = x[r].y;
		y[2][r] = x[r].z;
		y[3][r] = x[r].w;
	}
}

/* What a lane finds out about its rows. */
struct OwnRows
{
	Best		best[LANE_ROWS];
	float		norm2[LANE_ROWS];
	int32_t		label[LANE_ROWS];
};

/* The first values of the sums of a tile of centroids: |e|²/2. */
template <int TILE> static __device__ __forceinline__ void
start_sums(const float *lower, float (&sums)[LANE_ROWS][TILE])
{
#pragma unroll
	for (int c = 0; c < TILE; c += 4)
	{
		float4		four = *(const float4 *) (lower + c);

#pragma unroll
		for (int r = 0; r < LANE_ROWS; r++)
		{
			sums[r][c] = four.x;
			sums[r][c + 1] = four.y;
			sums[r][c + 2] = four.z;
			sums[r][c + 3] = four.w;
		}
	}
}

/* A lane's rows less the origin, scaled, and their squared norms. */
template <int D> static __device__ __forceinline__ void
read_rows(const NarrowArguments &a, const NarrowWarp &w, const float *tile,
		  float (&y)[(D + 3) / 4][4][LANE_ROWS], OwnRows *own)
{
	float		factor = ((const NarrowBound *) w.packed)->factor;
	int			swap = swap_of(a, threadIdx.x % 32);

#pragma unroll
	for (int part = 0; part < (D + 3) / 4; part++)
	{
		float4		origin = *(const float4 *) (w.packed + w.layout.origin + part * 4);
		float4		x[LANE_ROWS];

#pragma unroll
		for (int r = 0; r < LANE_ROWS; r++)
			x[r] = read_part(a, tile + own_row(r) * a.d, part, swap, factor, origin);
		spread(x, y[part]);
	}
#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
	{
		own->norm2[r] = 0.0f;
#pragma unroll
		for (int j = 0; j < D; j++)
			own->norm2[r] = fmaf(y[j / 4][j % 4][r], y[j / 4][j % 4][r], own->norm2[r]);
	}
}

/* Compares rows of at most D features, which stay in registers, with TILE centroids at a time. */
template <int D, int TILE> static __device__ __forceinline__ void
compare_rows(const NarrowArguments &a, const NarrowWarp &w, const float *tile, OwnRows *own)
{
	float		y[(D + 3) / 4][4][LANE_ROWS];

	read_rows<D>(a, w, tile, y, own);
	for (int at = 0; at < a.padded; at += TILE)
	{
		const float *values = w.packed + w.layout.values + at;
		float		sums[LANE_ROWS][TILE];

		start_sums(w.packed + w.layout.lower + at, sums);
#pragma unroll
		for (int j = 0; j < D; j++)
			add_feature(values + j / 4 * w.layout.part + j % 4 * a.padded, y[j / 4][j % 4], sums);
#pragma unroll
		for (int r = 0; r < LANE_ROWS; r++)
#pragma unroll
			for (int c = 0; c < TILE; c++)
				take_score(&own->best[r], sums[r][c], at + c);
	}
}

}								/* namespace gk */

#endif							/* GK_NARROW_SCORES_CUH */
