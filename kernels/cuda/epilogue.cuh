/*
 * The epilogue of the filters that multiply a block's rows with panels of centroids: from
 * products to scores, from scores to a row's best two, and from these to its label or a flag.
 *
 * Accumulators have the layout of wgmma and mma.sync: a thread holds two rows, 8 apart, and two
 * of every eight centroids; four threads share a row.
 */
#ifndef GK_EPILOGUE_CUH
#define GK_EPILOGUE_CUH

#include "filter.cuh"

namespace gk
{

/* The first of a thread's two rows; the other is 8 rows on. */
static __device__ __forceinline__ int
row_of_thread(int thread)
{
	return thread / 32 * 16 + thread % 32 / 4;
}

/* The part of the bound that depends on both row and centroid. */
static __device__ __forceinline__ float
own_of(const FilterArguments &a, const RowBound &bound, int centroid)
{
	return own_part(bound.norm, bound.error, __ldg(a.slack + centroid), __ldg(a.norm + centroid),
					__ldg(a.error + centroid));
}

/* sum + the products of eight values of a row and a centroid. */
static __device__ __forceinline__ float
add_products(const uint4 &row, const uint4 &centroid, float sum)
{
	const __half2 *left = (const __half2 *) &row;
	const __half2 *right = (const __half2 *) &centroid;

#pragma unroll
	for (int j = 0; j < 4; j++)
	{
		float2		u = __half22float2(left[j]);
		float2		v = __half22float2(right[j]);

		sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
	}
	return sum;
}

/*
 * Upper bound on the winning score of a row, from the score of one centroid; four threads have a
 * part of the product each.
 */
static __device__ __forceinline__ float
start_limit(const FilterArguments &a, float sum, int centroid, const RowBound &bound)
{
	sum += __shfl_xor_sync(0xffffffffu, sum, 1);
	sum += __shfl_xor_sync(0xffffffffu, sum, 2);
	return first_limit(fmaf(sum, bound.back, __ldg(a.lower + centroid)),
					   own_of(a, bound, centroid), row_part(a, bound.norm, bound.error));
}

/*
 * Upper bound on the winning score of row r of tiles of ROWS rows, from the score of the
 * centroid that was nearest, computed outside the tensor cores: most centroids then need no
 * further work.
 */
template <int ROWS> static __device__ __forceinline__ float
start_score(const FilterArguments &a, const __half *rows, int r, int centroid,
			const RowBound &bound)
{
	int			lane = threadIdx.x % 32;
	bool		known = centroid >= 0 && centroid < a.count;
	float		sum = 0.0f;
	float		limit;

	for (int part = lane % 4; known && part < a.depth / 8; part += 4)
	{
		uint4		x = *(const uint4 *) (rows + part / 8 * ROWS * TILE_COLUMNS +
										  place_of(r, part % 8));
		uint4		c = __ldg((const uint4 *) (a.centroids +
											   place_of_centroid(a.depth, centroid, part * 8)));

		sum = add_products(x, c, sum);
	}
	limit = start_limit(a, sum, known ? centroid : 0, bound);
	return known && limit < NO_SCORE ? limit : NO_SCORE;
}

/*
 * Turns the products of a panel of EIGHTS × 8 centroids into scores; the least of each of PARTS
 * parts of them, for both rows.  lower_at(n): lower bounds of the thread's centroids of eight n.
 */
template <int EIGHTS, int PARTS, typename F> static __device__ __forceinline__ void
make_scores(float (&sums)[EIGHTS][4], const float (&back)[2], float (&least)[PARTS][2], F lower_at)
{
#pragma unroll
	for (int n = 0; n < EIGHTS; n++)
	{
		float2		lower = lower_at(n);

#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			float	   *part = &least[n / (EIGHTS / PARTS)][i];

			sums[n][i * 2] = fmaf(sums[n][i * 2], back[i], lower.x);
			sums[n][i * 2 + 1] = fmaf(sums[n][i * 2 + 1], back[i], lower.y);
			if (n % (EIGHTS / PARTS) == 0)
				*part = fminf(sums[n][i * 2], sums[n][i * 2 + 1]);
			else
				*part = fminf(*part, fminf(sums[n][i * 2], sums[n][i * 2 + 1]));
		}
	}
}

/* Merges the scores of row I into its best two or three; only the parts that can matter. */
template <int I, int EIGHTS, int PARTS, typename B> static __device__ __forceinline__ void
take_scores(const float (&sums)[EIGHTS][4], const float (&least)[PARTS][2], int column, B *best)
{
#pragma unroll
	for (int part = 0; part < PARTS; part++)
		if (least[part][I] < bar_of(*best))
#pragma unroll
			for (int n = part * (EIGHTS / PARTS); n < (part + 1) * (EIGHTS / PARTS); n++)
#pragma unroll
				for (int i = 0; i < 2; i++)
					take_score(best, sums[n][I * 2 + i], column + n * 8 + i);
}

/* The least of all parts. */
template <int I, int PARTS> static __device__ __forceinline__ float
least_of(const float (&least)[PARTS][2])
{
	float		halves[(PARTS + 1) / 2][2];

	if constexpr (PARTS == 1)
		return least[0][I];
	else
	{
#pragma unroll
		for (int part = 0; part < PARTS / 2; part++)
			halves[part][I] = fminf(least[part][I], least[part + PARTS / 2][I]);
		return least_of<I>(halves);
	}
}

/* Merges the scores of a panel into the best two or three of a thread's two rows. */
template <int EIGHTS, int PARTS, typename B> static __device__ __forceinline__ void
take_panel(const float (&sums)[EIGHTS][4], const float (&least)[PARTS][2], int column, B best[2])
{
	if (least_of<0>(least) < bar_of(best[0]))
		take_scores<0>(sums, least, column, &best[0]);
	if (least_of<1>(least) < bar_of(best[1]))
		take_scores<1>(sums, least, column, &best[1]);
}

/*
 * Labels or flags the two rows of four threads, by the first of them.  row_at(i): the row's number,
 * -1 if there is none; bound_at(i): its bound.
 */
template <typename B, typename F, typename G> static __device__ __forceinline__ void
conclude_rows(const FilterArguments &a, B best[2], F row_at, G bound_at)
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		int64_t		row = row_at(i);

		join_four(&best[i]);
		if (threadIdx.x % 4 == 0 && row >= 0)
		{
			RowBound	bound = bound_at(i);
			float		own = own_of(a, bound, best[i].centroid);

			conclude(a, row, best[i],
					 limit_of(best[i].least, own, row_part(a, bound.norm, bound.error)),
					 bound.back);
		}
	}
}

}								/* namespace gk */

#endif							/* GK_EPILOGUE_CUH */
