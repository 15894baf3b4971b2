/*
 * The filter if all centroids fit the shared memory of a block: each warp loads rows from global
 * memory, straight into registers or by way of shared memory, independently of other warps.  So it
 * is bound by reading the rows.
 *
 * A warp holds 16 rows for each of its TILES. The products of mma.sync are m16n8k16.  Thread t
 * of the four of a row holds columns 4t .. 4t + 3 of each 16, of rows and centroids alike,
 * instead of the columns that PTX specifies: the order within a sum is free.
 */
#include <algorithm>

#include <cuda_pipeline.h>

#include "exact.h"
#include "filter.cuh"
#include "nearer.cuh"

namespace gk
{

#define RESIDENT_THREADS 256
#define RESIDENT_BYTES (100 << 10)	/* two blocks a processor */

/* The centroids in a block's shared memory: values, then their bounds. */
struct ResidentCentroids
{
	const uint2 *values;		/* [step][8 centroids][lane]: four columns of a centroid */
	const float *lower;
	const float *slack;
	const float *norm;
	const float *error;
	const float *origin;		/* depth */
};

/* The centroids that a block compares: a whole number of the kernel's steps. */
static __host__ __device__ int
resident_count(int centroids, int step)
{
	return (centroids + step - 1) / step * step;
}

/* Shared memory of a block. */
static size_t
resident_bytes(int centroids, int columns)
{
	return (size_t) centroids * (columns * sizeof(__half) + 4 * sizeof(float)) +
		columns * sizeof(float);
}

/* Copies the centroids and their bounds into shared memory. */
static __device__ ResidentCentroids
load_centroids(const FilterArguments &a, int centroids, int columns, unsigned char *memory)
{
	uint2	   *values = (uint2 *) memory;
	float	   *lower = (float *) (values + centroids * columns / 4);
	float	   *slack = lower + centroids;
	float	   *norm = slack + centroids;
	float	   *error = norm + centroids;
	float	   *origin = error + centroids;

	for (int e = threadIdx.x; e < centroids * columns / 4; e += RESIDENT_THREADS)
	{
		int			quad = e % 4;
		int			centroid = e / 4 % centroids;
		int			step = e / 4 / centroids;

		/* 8 centroids × 4 threads of a row are the 32 lanes */
		values[(step * centroids + centroid) * 4 + quad] =
			*(const uint2 *) (a.centroids +
							  place_of_centroid(a.depth, centroid, step * 16 + quad * 4));
	}
	for (int i = threadIdx.x; i < centroids; i += RESIDENT_THREADS)
	{
		lower[i] = a.lower[i];
		slack[i] = a.slack[i];
		norm[i] = a.norm[i];
		error[i] = a.error[i];
	}
	for (int j = threadIdx.x; j < columns; j += RESIDENT_THREADS)
		origin[j] = j < a.d ? a.origin[j] : 0.0f;
	__syncthreads();
	return {values, lower, slack, norm, error, origin};
}

/*
 * A warp's rows: row i of a thread is 8 i + lane / 4.  Past the end, they are the last row of all.
 */
template <int STEPS, int TILES> struct WarpRows
{
	uint32_t	values[TILES][STEPS][4];
	uint32_t	codes[TILES * 2];	/* of their bounds */
	float		back[TILES * 2];

	__device__ __forceinline__ void read(const FilterArguments &a,
										 const ResidentCentroids &centroids, int64_t first);
	/* value_at(i, c): four columns of step c of row i of the thread; codes are there */
	template <typename F> __device__ __forceinline__ void
	convert_rows(const FilterArguments &a, const ResidentCentroids &centroids, F value_at);

private:
	template <bool ALIGNED> __device__ __forceinline__ void
	load(const FilterArguments &a, int64_t first, float4 (&x)[TILES * 2][STEPS]);
};

/* Loads rows and the codes of their bounds; ALIGNED: rows are whole parts of 16 bytes. */
template <int STEPS, int TILES> template <bool ALIGNED> __device__ __forceinline__ void
WarpRows<STEPS, TILES>::load(const FilterArguments &a, int64_t first,
							 float4 (&x)[TILES * 2][STEPS])
{
	const float *from = a.features + first * a.d;
	const uint32_t *bounds = a.bounds + first;
	int			last = (int) min((int64_t) TILES * 16, a.rows - first) - 1;
	int			column = threadIdx.x % 4 * 4;

#pragma unroll
	for (int i = 0; i < TILES * 2; i++)
	{
		int			row = min(i * 8 + (int) threadIdx.x % 32 / 4, last);

		codes[i] = __ldg(bounds + row);
#pragma unroll
		for (int c = 0; c < STEPS; c++)
			x[i][c] = read_four(from + row * a.d, c * 16 + column, a.d, ALIGNED);
	}
}

/* Rounds rows to 16 bits. */
template <int STEPS, int TILES> template <typename F> __device__ __forceinline__ void
WarpRows<STEPS, TILES>::convert_rows(const FilterArguments &a, const ResidentCentroids &centroids,
									 F value_at)
{
	int			column = threadIdx.x % 4 * 4;

#pragma unroll
	for (int i = 0; i < TILES * 2; i++)
	{
		RowBound	bound = read_bound(codes[i], a.scale->exponent);

		back[i] = bound.back;
#pragma unroll
		for (int c = 0; c < STEPS; c++)
		{
			float4		p = *(const float4 *) (centroids.origin + c * 16 + column);
			uint2		both = convert(value_at(i, c), p, bound.factor);

			values[i / 2][c][i % 2] = both.x;
			values[i / 2][c][i % 2 + 2] = both.y;
		}
	}
}

/* Reads rows, as 16-bit values. */
template <int STEPS, int TILES> __device__ __forceinline__ void
WarpRows<STEPS, TILES>::read(const FilterArguments &a, const ResidentCentroids &centroids,
							 int64_t first)
{
	float4		x[TILES * 2][STEPS];

	if (a.d % 4 == 0)
		load<true>(a, first, x);
	else
		load<false>(a, first, x);
	convert_rows(a, centroids, [&](int i, int c) { return x[i][c]; });
}

/* The next 16 rows of a warp, on their way to shared memory: parts of four columns. */
template <int STEPS> struct RowsAhead
{
	static constexpr int PARTS = STEPS * 4;		/* of a row */

	float4	   *parts;			/* of all rows */
	uint32_t	codes[2];		/* of the bounds of this thread's rows */

	__device__ __forceinline__ explicit RowsAhead(void *memory)
		: parts((float4 *) memory + threadIdx.x / 32 * (16 * PARTS))
	{
	}

	/* Where a part of a row lies: next to what other lanes copy and read at the same time. */
	static __device__ __forceinline__ int
	place_of(int row, int part)
	{
		return (row / 8 * STEPS + part / 4) * 32 + row % 8 * 4 + part % 4;
	}

	/* Starts to copy a part of a row. */
	__device__ __forceinline__ void
	fetch_part(const FilterArguments &a, int64_t first, int last, int row, int part) const
	{
		const float *from = a.features + (first + min(row, last)) * a.d;
		bool		there = part * 4 < a.d;

		__pipeline_memcpy_async(parts + place_of(row, part), there ? from + part * 4 : from, 16,
								there ? 0 : 16);
	}

	/* Starts to copy rows: each lane what it will read; past the end, the last row of all. */
	__device__ __forceinline__ void fetch(const FilterArguments &a, int64_t first)
	{
		int			last = (int) min((int64_t) 16, a.rows - first) - 1;
		int			lane = threadIdx.x % 32;

		/* all lanes have read what was here */
		__syncwarp();
		if (last >= 0)
		{
#pragma unroll
			for (int i = 0; i < 2; i++)
				codes[i] = __ldg(a.bounds + first + min(i * 8 + lane / 4, last));
#pragma unroll
			for (int u = 0; u < PARTS / 2; u++)
				fetch_part(a, first, last, u / STEPS * 8 + lane / 4, u % STEPS * 4 + lane % 4);
		}
		__pipeline_commit();
	}

	/* Waits for the rows, and rounds them to 16 bits. */
	__device__ __forceinline__ void take(const FilterArguments &a,
										 const ResidentCentroids &centroids,
										 WarpRows<STEPS, 1> *rows)
	{
		int			lane = threadIdx.x % 32;

		__pipeline_wait_prior(0);
		__syncwarp();
		rows->codes[0] = codes[0];
		rows->codes[1] = codes[1];
		rows->convert_rows(a, centroids, [&](int i, int c)
						   { return parts[place_of(i * 8 + lane / 4, c * 4 + lane % 4)]; });
	}
};

/* Prefetches a warp's next rows into the L2 cache. */
template <int ROWS> static __device__ __forceinline__ void
prefetch_next(const FilterArguments &a, int64_t first)
{
	const char *from = (const char *) (a.features + first * a.d);
	int			bytes = first < a.rows ? (int) min((int64_t) ROWS, a.rows - first) * a.d *
		(int) sizeof(float) : 0;

#pragma unroll 1
	for (int at = threadIdx.x % 32 * 128; at < bytes; at += 32 * 128)
		asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at));
}

/* Compares a warp's rows with 8 × EIGHTS centroids from `at` on. */
template <int STEPS, int TILES, int EIGHTS> static __device__ __forceinline__ void
compare(const WarpRows<STEPS, TILES> &rows, const ResidentCentroids &centroids, int count, int at,
		Best (&best)[TILES * 2])
{
	int			lane = threadIdx.x % 32;
	float		sums[TILES][EIGHTS][4];

#pragma unroll
	for (int m = 0; m < TILES; m++)
#pragma unroll
		for (int n = 0; n < EIGHTS; n++)
			sums[m][n][0] = sums[m][n][1] = sums[m][n][2] = sums[m][n][3] = 0.0f;
#pragma unroll
	for (int c = 0; c < STEPS; c++)
#pragma unroll
		for (int n = 0; n < EIGHTS; n++)
		{
			uint2		both = centroids.values[(c * count + at + n * 8) * 4 + lane];
			uint32_t	b[2] = {both.x, both.y};

#pragma unroll
			for (int m = 0; m < TILES; m++)
				multiply(sums[m][n], rows.values[m][c], b);
		}
#pragma unroll
	for (int n = 0; n < EIGHTS; n++)
	{
		int			centroid = at + n * 8 + lane % 4 * 2;
		float2		lower = *(const float2 *) (centroids.lower + centroid);

#pragma unroll
		for (int i = 0; i < TILES * 2; i++)
		{
			take_score(&best[i], fmaf(sums[i / 2][n][i % 2 * 2], rows.back[i], lower.x), centroid);
			take_score(&best[i], fmaf(sums[i / 2][n][i % 2 * 2 + 1], rows.back[i], lower.y),
					   centroid + 1);
		}
	}
}

/* Labels or flags a warp's rows, each thread a quarter of those that its four threads share. */
template <bool EXACT, int TILES> static __device__ __forceinline__ void
conclude_rows(const FilterArguments &a, const ResidentCentroids &centroids, int64_t first,
			  Best (&best)[TILES * 2])
{
	int			mine = threadIdx.x % 4;

#pragma unroll
	for (int i = 0; i < TILES * 2; i++)
		join_four<EXACT>(&best[i]);
#pragma unroll
	for (int from = 0; from < TILES * 2; from += 4)
	{
		Best		one = best[from];
		int64_t		row = first + (from + mine) * 8 + threadIdx.x % 32 / 4;

#pragma unroll
		for (int i = 1; i < 4 && from + i < TILES * 2; i++)
			if (mine == i)
				one = best[from + i];
		if (from + mine < TILES * 2 && row < a.rows)
		{
			RowBound	bound = read_bound(__ldg(a.bounds + row), a.scale->exponent);
			float		own = own_part(bound.norm, bound.error, centroids.slack[one.centroid],
									   centroids.norm[one.centroid], centroids.error[one.centroid]);

			if (EXACT)
				one.second = INFINITY;
			conclude(a, row, one, limit_of(one.least, own, row_part(a, bound.norm, bound.error)),
					 bound.back);
		}
	}
}

/*
 * STEPS × 16 columns, TILES × 16 rows a warp, EIGHTS × 8 centroids at a time: for more centroids
 * than few_kernel takes.
 */
template <int STEPS, int TILES, int EIGHTS> static __global__ void
__launch_bounds__(RESIDENT_THREADS, 2)
resident_kernel(FilterArguments a, int count)
{
	extern __shared__ uint4 resident_memory[];
	ResidentCentroids centroids =
		load_centroids(a, count, STEPS * 16, (unsigned char *) resident_memory);
	constexpr int ROWS = TILES * 16;
	bool		exact = a.scale->exact != 0;
	int64_t		step = (int64_t) gridDim.x * (RESIDENT_THREADS / 32) * ROWS;

	for (int64_t first = ((int64_t) blockIdx.x * (RESIDENT_THREADS / 32) + threadIdx.x / 32) * ROWS;
		 first < a.rows; first += step)
	{
		WarpRows<STEPS, TILES> rows;
		Best		best[TILES * 2];

		rows.read(a, centroids, first);
		prefetch_next<ROWS>(a, first + step);
#pragma unroll
		for (int i = 0; i < TILES * 2; i++)
			best[i] = {NO_SCORE, NO_SCORE, 0};
		for (int at = 0; at < count; at += EIGHTS * 8)
			compare<STEPS, TILES, EIGHTS>(rows, centroids, count, at, best);
		if (exact)
			conclude_rows<true, TILES>(a, centroids, first, best);
		else
			conclude_rows<false, TILES>(a, centroids, first, best);
	}
}

/*
 * Of few centroids, a thread keeps all scores of its two rows: first it finds the least, then it
 * counts those above the limit.  That takes two operations of a score less than the best two do,
 * and more of them at the full rate.
 */
#define FEW_EIGHTS 16			/* of centroids, at most */
#define DECIDED_EIGHTS 4		/* the same if a warp decides rows itself … */
#define DECIDED_ROWS 2			/* … of 16 so many, at most: others are left to flagged.cu */
#define NUMBER_MASK 127			/* of a score: which of them it is */
#define COUNT_SCALE 0x1p24f

/* A score with a number in its last bits. */
static __device__ __forceinline__ float
with_number(float score, uint32_t number, uint32_t mask)
{
	return __uint_as_float((__float_as_uint(score) & ~mask) | number);
}

/* The scores of two rows and all centroids, and the least of each row, with its number. */
template <int EIGHTS> struct FewScores
{
	static constexpr int ALL = EIGHTS * 8;

	float		scores[EIGHTS][4];
	float		least[2];		/* with the centroid's number: of equal scores, the first */

	template <int STEPS> __device__ __forceinline__ void
	multiply_rows(const WarpRows<STEPS, 1> &rows, const ResidentCentroids &centroids);
	__device__ __forceinline__ void find_least(const float (&back)[2],
											   const ResidentCentroids &centroids, uint32_t mask);
	__device__ __forceinline__ float above(int row, float limit) const;

	/* The centroid of a least score. */
	static __device__ __forceinline__ int centroid_of(float score)
	{
		return (int) min(__float_as_uint(score) & NUMBER_MASK, (uint32_t) ALL - 1);
	}
};

/* The products. */
template <int EIGHTS> template <int STEPS> __device__ __forceinline__ void
FewScores<EIGHTS>::multiply_rows(const WarpRows<STEPS, 1> &rows, const ResidentCentroids &centroids)
{
#pragma unroll
	for (int n = 0; n < EIGHTS; n++)
		scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0.0f;
#pragma unroll
	for (int c = 0; c < STEPS; c++)
#pragma unroll
		for (int n = 0; n < EIGHTS; n++)
		{
			uint2		both = centroids.values[(c * ALL + n * 8) * 4 + threadIdx.x % 32];
			uint32_t	b[2] = {both.x, both.y};

			multiply(scores[n], rows.values[0][c], b);
		}
}

/* Turns products into scores; finds the least of each row.  `mask` is NUMBER_MASK. */
template <int EIGHTS> __device__ __forceinline__ void
FewScores<EIGHTS>::find_least(const float (&back)[2], const ResidentCentroids &centroids,
							  uint32_t mask)
{
	int			quarter = threadIdx.x % 4;

	least[0] = least[1] = NO_SCORE;
#pragma unroll
	for (int n = 0; n < EIGHTS; n++)
	{
		float2		lower = *(const float2 *) (centroids.lower + n * 8 + quarter * 2);

#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			scores[n][i] = fmaf(scores[n][i], back[i / 2], i % 2 == 0 ? lower.x : lower.y);
			least[i / 2] = fminf(least[i / 2], with_number(scores[n][i], n * 8 + i % 2, mask));
		}
	}
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		least[i] = __uint_as_float(__float_as_uint(least[i]) | quarter << 1);
#pragma unroll
		for (int other = 1; other < 4; other *= 2)
			least[i] = fminf(least[i], __shfl_xor_sync(0xffffffffu, least[i], other));
	}
}

/* The number of a row's scores above a limit; less if that is not sure, or a score is NaN. */
template <int EIGHTS> __device__ __forceinline__ float
FewScores<EIGHTS>::above(int row, float limit) const
{
	float		from = -__fmul_ru(limit, COUNT_SCALE);
	float		counts[2] = {0.0f, 0.0f};

#pragma unroll
	for (int n = 0; n < EIGHTS; n++)
#pragma unroll
		for (int i = 0; i < 2; i++)
			counts[i] += __saturatef(fmaf(scores[n][row * 2 + i], COUNT_SCALE, from));
	return counts[0] + counts[1];
}

/*
 * Labels or flags the two rows of four threads: the first two threads have one each.  If few rows
 * of a warp are to be flagged, decide(row) labels them instead, called by all lanes.
 */
template <int STEPS, int EIGHTS, typename F> static __device__ __forceinline__ void
conclude_few(const FilterArguments &a, const ResidentCentroids &centroids,
			 const WarpRows<STEPS, 1> &rows, const FewScores<EIGHTS> &scores, int64_t first,
			 int few, F decide)
{
	int			mine = threadIdx.x % 2;
	int64_t		row = first + mine * 8 + threadIdx.x % 32 / 4;
	bool		valid = threadIdx.x % 4 < 2 && row < a.rows;
	float		least = mine == 0 ? scores.least[0] : scores.least[1];
	RowBound	bound = read_bound(mine == 0 ? rows.codes[0] : rows.codes[1],
									   a.scale->exponent);
	int			centroid = FewScores<EIGHTS>::centroid_of(least);
	float		own = own_part(bound.norm, bound.error, centroids.slack[centroid],
							   centroids.norm[centroid], centroids.error[centroid]);
	/* the score without its number can be greater, even if it is nearly 0 */
	float		limit = limit_of(fmaf(fabsf(least), 0x1p-15f, least) + 0x1p-142f, own,
								 row_part(a, bound.norm, bound.error));
	float		other = __shfl_xor_sync(0xffffffffu, limit, 1);
	float		counts[2];
	bool		decided;
	unsigned	open;

#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		counts[i] = scores.above(i, mine == i ? limit : other);
		counts[i] += __shfl_xor_sync(0xffffffffu, counts[i], 1);
		counts[i] += __shfl_xor_sync(0xffffffffu, counts[i], 2);
	}
	decided = a.scale->exact != 0 ||
		(mine == 0 ? counts[0] : counts[1]) == FewScores<EIGHTS>::ALL - 1;
	open = few == 0 ? 0 : __ballot_sync(0xffffffffu, valid && !a.approximate &&
										!(decided && is_usable(limit, bound.back)));
	if (__popc(open) > few)
		open = 0;
	if (valid && !(open >> threadIdx.x % 32 & 1))
		conclude(a, row, Best{least, decided ? INFINITY : -INFINITY, centroid}, limit, bound.back);
	for (; open != 0; open &= open - 1)
		decide((__ffs(open) - 1) % 2 * 8 + (__ffs(open) - 1) / 4);
}

/*
 * STEPS × 16 columns, 16 rows a warp, at most EIGHTS × 8 centroids.  `mask` is NUMBER_MASK: a
 * constant would take two operations with another.
 */
template <int STEPS, int EIGHTS> static __global__ void
__launch_bounds__(RESIDENT_THREADS, 2)
few_kernel(FilterArguments a, int mask)
{
	extern __shared__ uint4 resident_memory[];
	CentroidScale scale = *a.scale;
	ResidentCentroids centroids =
		load_centroids(a, EIGHTS * 8, STEPS * 16, (unsigned char *) resident_memory);
	int64_t		step = (int64_t) gridDim.x * (RESIDENT_THREADS / 32) * 16;

	a.scale = &scale;			/* stays in registers */
	for (int64_t first = ((int64_t) blockIdx.x * (RESIDENT_THREADS / 32) + threadIdx.x / 32) * 16;
		 first < a.rows; first += step)
	{
		WarpRows<STEPS, 1> rows;
		FewScores<EIGHTS> scores;

		rows.read(a, centroids, first);
		prefetch_next<16>(a, first + step);
		scores.multiply_rows(rows, centroids);
		scores.find_least(rows.back, centroids, mask);
		conclude_few(a, centroids, rows, scores, first, 0, [](int) {});
	}
}

/* Copies exact centroids to shared memory, a double apart, so that lanes do not meet in a bank. */
static __device__ __forceinline__ void
load_exact(const FilterArguments &a, double *exact)
{
	for (int e = threadIdx.x; e < a.count * a.d; e += RESIDENT_THREADS)
		exact[e / a.d * (a.d + 1) + e % a.d] = a.exact[e];
}

/* The label of a row by the definition: each lane has a centroid, of at most 32. */
template <int STEPS> static __device__ __forceinline__ int
decide_row(const FilterArguments &a, const RowsAhead<STEPS> &rows, const double *exact, int row)
{
	int			centroid = min((int) threadIdx.x % 32, a.count - 1);
	const double *c = exact + centroid * (a.d + 1);
	double		sum = 0.0;

	for (int j = 0; j < a.d; j += 4)
	{
		float4		x = rows.parts[RowsAhead<STEPS>::place_of(row, j / 4)];

		sum = gk_add_square(sum, x.x, c[j]);
		sum = gk_add_square(sum, x.y, c[j + 1]);
		sum = gk_add_square(sum, x.z, c[j + 2]);
		sum = gk_add_square(sum, x.w, c[j + 3]);
	}
#pragma unroll
	for (int other = 16; other > 0; other /= 2)
	{
		double		its = __shfl_xor_sync(0xffffffffu, sum, other);
		int			its_centroid = __shfl_xor_sync(0xffffffffu, centroid, other);

		take_nearer(its, its_centroid, &sum, &centroid);
	}
	return centroid;
}

/* Where what streamed_kernel has in shared memory begins: first the rows. */
template <int STEPS, int EIGHTS> struct StreamedMemory
{
	static constexpr bool DECIDES = EIGHTS <= DECIDED_EIGHTS;
	static constexpr int EXACT = RESIDENT_THREADS / 32 * 16 * STEPS * 16 * (int) sizeof(float);
	static constexpr int CENTROIDS = EXACT +
		(DECIDES ? EIGHTS * 8 * (STEPS * 16 + 1) * (int) sizeof(double) : 0);
};

/*
 * The same for rows of whole parts of 16 bytes, which come by way of shared memory: so more of them
 * are on their way.  Where reading them takes longest, a warp decides a few of its rows itself.
 */
template <int STEPS, int EIGHTS> static __global__ void
__launch_bounds__(RESIDENT_THREADS, 2)
streamed_kernel(FilterArguments a, int mask)
{
	using Memory = StreamedMemory<STEPS, EIGHTS>;
	extern __shared__ uint4 resident_memory[];
	unsigned char *memory = (unsigned char *) resident_memory;
	double	   *exact = (double *) (memory + Memory::EXACT);
	CentroidScale scale = *a.scale;
	RowsAhead<STEPS> ahead(memory);
	ResidentCentroids centroids;
	int64_t		step = (int64_t) gridDim.x * (RESIDENT_THREADS / 32) * 16;
	int64_t		first = ((int64_t) blockIdx.x * (RESIDENT_THREADS / 32) + threadIdx.x / 32) * 16;

	ahead.fetch(a, first);
	if (Memory::DECIDES)
		load_exact(a, exact);
	centroids = load_centroids(a, EIGHTS * 8, STEPS * 16, memory + Memory::CENTROIDS);
	a.scale = &scale;			/* stays in registers */
	for (; first < a.rows; first += step)
	{
		WarpRows<STEPS, 1> rows;
		FewScores<EIGHTS> scores;

		ahead.take(a, centroids, &rows);
		scores.multiply_rows(rows, centroids);
		if (!Memory::DECIDES)
			ahead.fetch(a, first + step);
		scores.find_least(rows.back, centroids, mask);
		conclude_few(a, centroids, rows, scores, first, Memory::DECIDES ? DECIDED_ROWS : 0,
					 [&](int row)
		{
			int			label = decide_row(a, ahead, exact, row);

			if (threadIdx.x % 32 == 0)
				a.fresh[first + row] = label;
		});
		if (Memory::DECIDES)
			ahead.fetch(a, first + step);
	}
}

/*
 * Enqueues one of the kernels with its second argument; `count`: centroids that it compares,
 * `rows`: of a block, `more`: bytes of shared memory besides the centroids.
 */
static void
launch(Shard &shard, const FilterArguments &a, void (*kernel) (FilterArguments, int), int second,
	   int count, int columns, int rows, size_t more = 0)
{
	size_t		bytes = resident_bytes(count, columns) + more;
	int			per_processor;

	GK_CUDA(cudaFuncSetAttribute((const void *) kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
								 (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, (const void *) kernel,
			RESIDENT_THREADS, bytes));
	kernel<<<blocks_for(shard, (a.rows + rows - 1) / rows, per_processor), RESIDENT_THREADS, bytes,
		shard.device->compute>>>(a, second);
	GK_LAUNCHED("filter_resident");
}

/* Enqueues the kernel for few centroids. */
template <int STEPS, int EIGHTS> static void
launch_few(Shard &shard, const FilterArguments &a)
{
	constexpr int ROWS = RESIDENT_THREADS / 32 * 16;
	constexpr int MORE = StreamedMemory<STEPS, EIGHTS>::CENTROIDS;

	if (a.d % 4 == 0 && (uintptr_t) a.features % 16 == 0 && shard.device->major >= 8 &&
		resident_bytes(EIGHTS * 8, STEPS * 16) + MORE <= shard.device->shared_memory)
		launch(shard, a, streamed_kernel<STEPS, EIGHTS>, NUMBER_MASK, EIGHTS * 8, STEPS * 16, ROWS,
			   MORE);
	else
		launch(shard, a, few_kernel<STEPS, EIGHTS>, NUMBER_MASK, EIGHTS * 8, STEPS * 16, ROWS);
}

/* Chooses the kernel for the centroids. */
template <int STEPS, int TILES, int EIGHTS> static void
choose_centroids(Shard &shard, const FilterArguments &a)
{
	int			count = resident_count(a.count, EIGHTS * 8);

	if (a.count <= 16)
		launch_few<STEPS, 2>(shard, a);
	else if (a.count <= 32)
		launch_few<STEPS, 4>(shard, a);
	else if (a.count <= 64)
		launch_few<STEPS, 8>(shard, a);
	else if (a.count <= 104)
		launch_few<STEPS, 13>(shard, a);
	else if (a.count <= FEW_EIGHTS * 8)
		launch_few<STEPS, FEW_EIGHTS>(shard, a);
	else
		launch(shard, a, resident_kernel<STEPS, TILES, EIGHTS>, count, count, STEPS * 16,
			   RESIDENT_THREADS / 32 * TILES * 16);
}

/* True if rows fit registers and centroids fit shared memory. */
bool
filter_resident_fits(const Shard &shard, int64_t centroids)
{
	size_t		most = std::min<size_t>(RESIDENT_BYTES, shard.device->shared_memory);
	int			columns = (shard.depth + 31) / 32 * 32;

	return columns <= 128 && centroids <= 4096 &&
		resident_bytes(resident_count((int) centroids, 64), columns) <= most;
}

/* Fresh labels or flags of all rows of a panel. */
void
filter_resident(Shard &shard, const FilterArguments &a)
{
	if (a.depth <= 16)
		choose_centroids<1, 4, 2>(shard, a);
	else if (a.depth <= 32)
		choose_centroids<2, 2, 4>(shard, a);
	else if (a.depth <= 64)
		choose_centroids<4, 1, 8>(shard, a);
	else if (a.depth <= 96)
		choose_centroids<6, 1, 8>(shard, a);
	else
		choose_centroids<8, 1, 8>(shard, a);
}

}								/* namespace gk */
