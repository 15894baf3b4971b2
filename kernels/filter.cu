/*
 * The filter: for each row of a tile the least and second least of lower - y·e over all points,
 * by 16-bit products with float accumulation in the tensor cores.
 *
 * Rows whose gap is wider than what the filter may err (points.cu) have their label. For the others a
 * second run of the same kernel over those rows alone lists the points that can be
 * nearest; exact.cu decides among them.
 *
 * A block has 128 rows at a time, 16 a warp, and all the points of a tile for each.  In shared
 * memory, rows and points lie in pieces of 64 values (128 bytes), the eight 16-byte parts of a piece
 * in an order that depends on the row: what wgmma calls the 128-byte swizzle.
 */
#include <algorithm>
#include <cmath>

#include "kernels.cuh"

namespace gk
{

#define FILTER_ROWS 128
#define FILTER_THREADS 256
#define FILTER_STEP 64			/* values of a piece */
#define FILTER_CANDIDATES 4
#define NO_SCORE 3.2e38f

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#endif

struct FilterArguments
{
	const float *features;
	const float *center;
	const uint32_t *bounds;
	int64_t		rows;
	int			d;
	int			depth;

	const __half *points;
	const float *lower;
	const float *slack;
	const float *norm;
	const float *error;
	const PointScale *scale;
	int			count;			/* of points */
	int			tiles;			/* of points */
	int			stages;			/* 2 or 3 */

	const int32_t *labels;		/* what the labels were, NULL if that is no help */
	int32_t    *fresh;
	uint32_t   *flag_count;
	uint32_t	flag_capacity;
	int64_t    *flag_rows;
	float	   *flag_limits;
	uint32_t   *candidate_counts;
	int32_t    *candidates;
	Counters   *counters;
};

/* What a thread knows of a row: least, second, which. */
struct Best
{
	float		least;
	float		second;
	int			point;
};

/* Copies 16 bytes from global to shared memory, without waiting where the device can. */
static __device__ __forceinline__ void
copy_16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
	uint32_t	address = (uint32_t) __cvta_generic_to_shared(to);

	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(from));
#else
	*(uint4 *) to = *(const uint4 *) from;
#endif
}

static __device__ __forceinline__ void
copy_commit()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;");
#endif
}

template <int N> static __device__ __forceinline__ void
copy_wait()
{
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" :: "n"(N));
#endif
}

/* Where the part of 8 values lies in a piece. */
static __device__ __forceinline__ int
place_of(int row, int part)
{
	return row * FILTER_STEP + (part ^ (row & 7)) * 8;
}

#ifdef HAS_WGMMA

/* Describes pieces to wgmma: 1024 bytes from 8 rows to the next 8, 128-byte swizzle. */
static __device__ __forceinline__ uint64_t
describe(const __half *pieces)
{
	uint64_t	address = (uint64_t) __cvta_generic_to_shared(pieces);

	return (address & 0x3ffff) >> 4 | UINT64_C(1) << 16 | UINT64_C(64) << 32 | UINT64_C(1) << 62;
}

#define FOUR(n) "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
#define SIXTEEN(n) FOUR(n), FOUR(n + 1), FOUR(n + 2), FOUR(n + 3)

/* sums (+)= 64 rows × 64 points, 16 deep. */
static __device__ __forceinline__ void
multiply(float (&sums)[8][4], uint64_t a, uint64_t b, int more)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
				 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
				 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
				 "%32, %33, p, 1, 1, 0, 0;\n}"
				 : SIXTEEN(0), SIXTEEN(4) : "l"(a), "l"(b), "r"(more));
}

/* sums (+)= 64 rows × 128 points, 16 deep. */
static __device__ __forceinline__ void
multiply(float (&sums)[16][4], uint64_t a, uint64_t b, int more)
{
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
				 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
				 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
				 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
				 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
				 "%64, %65, p, 1, 1, 0, 0;\n}"
				 : SIXTEEN(0), SIXTEEN(4), SIXTEEN(8), SIXTEEN(12) : "l"(a), "l"(b), "r"(more));
}

/* What was stored to shared memory is seen by wgmma after this and a barrier. */
static __device__ __forceinline__ void
publish_stores()
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Multiplies a piece of rows and points, `steps` × 16 deep. */
template <int POINTS> static __device__ __forceinline__ void
multiply_pieces(float (&sums)[POINTS / 8][4], const __half *rows, const __half *points, int steps, bool first)
{
	uint64_t	a = describe(rows + threadIdx.x / 128 * 64 * FILTER_STEP);
	uint64_t	b = describe(points);

	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
	if (steps == FILTER_STEP / 16)
	{
		multiply(sums, a, b, !first);
		multiply(sums, a + 2, b + 2, 1);
		multiply(sums, a + 4, b + 4, 1);
		multiply(sums, a + 6, b + 6, 1);
	}
	else
		for (int step = 0; step < steps; step++)
			multiply(sums, a + step * 2, b + step * 2, !first || step > 0);
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
	asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#else

/* Four 8×8 matrices from shared memory. */
static __device__ __forceinline__ void
load_matrices(uint32_t *to, const __half *from)
{
	uint32_t	address = (uint32_t) __cvta_generic_to_shared(from);

	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
				 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address));
}

/* sum += a × b, 16 × 8 × 16. */
static __device__ __forceinline__ void
multiply(float *sum, const uint32_t *a, const uint32_t *b)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
				 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
	for (int i = 0; i < 2; i++)
		asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
					 "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
					 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
					 : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}

static __device__ __forceinline__ void
publish_stores()
{
}

/* Multiplies a piece of rows and points, `steps` × 16 deep. */
template <int POINTS> static __device__ __forceinline__ void
multiply_pieces(float (&sums)[POINTS / 8][4], const __half *rows, const __half *points, int steps, bool first)
{
	int			lane = threadIdx.x % 32;
	int			row = threadIdx.x / 32 * 16 + (lane & 15);
	int			point = (lane & 7) + ((lane >> 4) << 3);

	if (first)
#pragma unroll
		for (int n = 0; n < POINTS / 8; n++)
			sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
#pragma unroll
	for (int step = 0; step < FILTER_STEP / 16; step++)
	{
		uint32_t	a[4];

		if (step >= steps)
			break;
		load_matrices(a, rows + place_of(row, step * 2 + (lane >> 4)));
#pragma unroll
		for (int n = 0; n < POINTS / 16; n++)
		{
			uint32_t	b[4];

			load_matrices(b, points + place_of(n * 16 + point, step * 2 + ((lane >> 3) & 1)));
			multiply(sums[n * 2], a, b);
			multiply(sums[n * 2 + 1], a, b + 2);
		}
	}
}

#endif

/* What is kept of each row in shared memory. */
struct RowShared
{
	float		norm[FILTER_ROWS];		/* in the points' scale */
	float		error[FILTER_ROWS];
	float		factor[FILTER_ROWS];	/* rows are multiplied by it … */
	float		back[FILTER_ROWS];		/* … and minus products by this; NaN = can't be decided */
	float		limit[FILTER_ROWS];
	int64_t		row[FILTER_ROWS];		/* in the tile; -1 = none */
};

/* Reads what is known of the rows of a block. */
template <bool SECOND> static __device__ void
start_rows(const FilterArguments &a, RowShared *shared, int64_t first, int64_t count)
{
	for (int r = threadIdx.x; r < FILTER_ROWS; r += FILTER_THREADS)
	{
		int64_t		at = first + r;
		bool		valid = at < count;
		int64_t		row = !valid ? -1 : SECOND ? a.flag_rows[at] : at;
		uint32_t	code = valid ? a.bounds[row] : 0;
		float		norm = __uint_as_float(code & 0xffff0000u);
		int			exponent = scale_of_norm(norm);
		int			difference = a.scale->exponent - exponent;
		bool		usable = norm == 0.0f || (difference >= -60 && difference <= 60);
		float		unit = ldexpf(1.0f, a.scale->exponent);

		shared->row[r] = row;
		shared->norm[r] = norm * unit;
		shared->error[r] = __uint_as_float(code << 16) * unit;
		shared->factor[r] = norm == 0.0f ? 0.0f : ldexpf(1.0f, exponent);
		shared->back[r] = !usable ? __int_as_float(0x7fc00000) :
			norm == 0.0f ? 0.0f : -ldexpf(1.0f, difference);
		shared->limit[r] = SECOND && valid ? a.flag_limits[at] : -3.4e38f;
	}
}

/* Four features of a row, minus the centre, times the row's factor, as 16-bit. */
static __device__ __forceinline__ uint2
convert(float4 x, float4 p, float factor)
{
	__half2		low = __floats2half2_rn((x.x - p.x) * factor, (x.y - p.y) * factor);
	__half2		high = __floats2half2_rn((x.z - p.z) * factor, (x.w - p.w) * factor);
	uint2		both;

	both.x = *(uint32_t *) &low;
	both.y = *(uint32_t *) &high;
	return both;
}

/* Four values of a row from column j on; 0 past the end. */
static __device__ __forceinline__ float4
read_four(const float *row, int j, int d, bool aligned)
{
	float4		x = make_float4(0, 0, 0, 0);

	if (aligned)
	{
		if (j < d)
			x = __ldg((const float4 *) (row + j));
		return x;
	}
	if (j < d)
		x.x = __ldg(row + j);
	if (j + 1 < d)
		x.y = __ldg(row + j + 1);
	if (j + 2 < d)
		x.z = __ldg(row + j + 2);
	if (j + 3 < d)
		x.w = __ldg(row + j + 3);
	return x;
}

/* Converts columns from .. from + width - 1 of the block's rows into pieces in shared memory. */
template <int UNROLL> static __device__ __forceinline__ void
load_rows(const FilterArguments &a, const RowShared *shared, __half *to, int from, int width)
{
	bool		aligned = a.d % 4 == 0;
	int			quads = width / 4;
	int			all = FILTER_ROWS * quads;
	uint32_t	inverse = 0xffffffffu / quads + 1;	/* at / quads is the high half of at × inverse */

	for (int e = threadIdx.x; e < all; e += FILTER_THREADS * UNROLL)
	{
		float4		x[UNROLL];
		float4		p[UNROLL];

#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			int			at = e + u * FILTER_THREADS;
			int			r = (int) __umulhi((uint32_t) at, inverse);
			int			j = from + (at - r * quads) * 4;

			x[u] = p[u] = make_float4(0, 0, 0, 0);
			if (at < all && shared->row[r] >= 0)
			{
				x[u] = read_four(a.features + shared->row[r] * a.d, j, a.d, aligned);
				p[u] = read_four(a.center, j, a.d, aligned);
			}
		}
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			int			at = e + u * FILTER_THREADS;
			int			r = (int) __umulhi((uint32_t) at, inverse);
			int			j = (at - r * quads) * 4;

			if (at < all)
				*(uint2 *) (to + j / FILTER_STEP * FILTER_ROWS * FILTER_STEP +
							place_of(r, j % FILTER_STEP / 8) + j % 8) = convert(x[u], p[u], shared->factor[r]);
		}
	}
}

/* Starts to bring the next rows nearer. */
static __device__ __forceinline__ void
prefetch_rows(const FilterArguments &a, int64_t first)
{
	const char *from = (const char *) (a.features + first * a.d);
	int64_t		bytes = min((int64_t) FILTER_ROWS, a.rows - first) * a.d * (int64_t) sizeof(float);

	for (int64_t at = threadIdx.x * 128; at < bytes; at += FILTER_THREADS * 128)
		asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at));
}

/* Starts the copy of one piece of points. */
template <int POINTS> static __device__ __forceinline__ void
load_points(const FilterArguments &a, __half *to, int tile, int from)
{
	int			width = min(FILTER_STEP, a.depth - from) / 8;
	const __half *source = a.points + (int64_t) tile * POINTS * a.depth + from;

#pragma unroll
	for (int i = 0; i < POINTS * (FILTER_STEP / 8) / FILTER_THREADS; i++)
	{
		int			at = i * FILTER_THREADS + threadIdx.x;
		int			point = at / (FILTER_STEP / 8);
		int			part = at % (FILTER_STEP / 8);

		if (part < width)
			copy_16(to + place_of(point, part), source + (int64_t) point * a.depth + part * 8);
	}
}

/* Which piece of the points comes next. */
struct Cursor
{
	int			tile;
	int			chunk;

	__device__ __forceinline__ void step(int chunks)
	{
		if (++chunk == chunks)
		{
			chunk = 0;
			tile++;
		}
	}
};

/* How much a row's part of the bound is, and how much the point's own. */
static __device__ __forceinline__ float
row_part(const FilterArguments &a, const RowShared *shared, int r)
{
	float		norm = shared->norm[r];
	float		error = shared->error[r];

	return a.scale->lambda * norm * norm * 0.5f + a.scale->mu * error * error * 0.5f +
		norm * norm * ((float) a.d * 0x1p-50f);
}

static __device__ __forceinline__ float
own_part(const FilterArguments &a, const RowShared *shared, int r, int point)
{
	return a.slack[point] + shared->error[r] * a.norm[point] + shared->norm[r] * a.error[point];
}

/*
 * A score above which no point can be nearest, from the score of the point that was nearest:
 * most points then need no second look.
 */
static __device__ void
start_scores(const FilterArguments &a, const RowShared *shared, const __half *rows, const int r[2], Best best[2])
{
	int			lane = threadIdx.x % 32;

	for (int i = 0; i < 2; i++)
	{
		int64_t		row = shared->row[r[i]];
		int			point = row >= 0 ? a.labels[row] : -1;
		float		sum = 0.0f;

		if (point >= 0 && point < a.count)
			for (int part = lane % 4; part < a.depth / 8; part += 4)
			{
				uint4		x = *(const uint4 *) (rows + part / 8 * FILTER_ROWS * FILTER_STEP + place_of(r[i], part % 8));
				uint4		c = __ldg((const uint4 *) (a.points + (int64_t) point * a.depth + part * 8));
				const __half2 *left = (const __half2 *) &x;
				const __half2 *right = (const __half2 *) &c;

#pragma unroll
				for (int j = 0; j < 4; j++)
				{
					float2		u = __half22float2(left[j]);
					float2		v = __half22float2(right[j]);

					sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
				}
			}
		sum += __shfl_xor_sync(0xffffffffu, sum, 1);
		sum += __shfl_xor_sync(0xffffffffu, sum, 2);
		if (point >= 0 && point < a.count)
		{
			float		score = fmaf(sum, shared->back[r[i]], a.lower[point]);
			float		limit = score + 1.0625f * (own_part(a, shared, r[i], point) + row_part(a, shared, r[i])) +
				fabsf(score) * 0x1p-16f;

			if (limit < NO_SCORE)
				best[i].second = limit;
		}
	}
}

/* Turns the sums of one row into scores; gives the least. */
template <int POINTS, int I> static __device__ __forceinline__ float
make_scores(const FilterArguments &a, float (&sums)[POINTS / 8][4], float back, int column)
{
	float		least = NO_SCORE;

#pragma unroll
	for (int n = 0; n < POINTS / 8; n++)
	{
		float2		lower = __ldg((const float2 *) (a.lower + column + n * 8));

		sums[n][I * 2] = fmaf(sums[n][I * 2], back, lower.x);
		sums[n][I * 2 + 1] = fmaf(sums[n][I * 2 + 1], back, lower.y);
		least = fminf(least, fminf(sums[n][I * 2], sums[n][I * 2 + 1]));
	}
	return least;
}

/* Takes the scores of one row into what is known of it. */
template <int POINTS, int I> static __device__ __forceinline__ void
take_scores(const float (&sums)[POINTS / 8][4], int column, Best *best)
{
#pragma unroll
	for (int n = 0; n < POINTS / 8; n++)
#pragma unroll
		for (int i = 0; i < 2; i++)
		{
			float		score = sums[n][I * 2 + i];

			best->second = fminf(best->second, fmaxf(best->least, score));
			if (score < best->least)
				best->point = column + n * 8 + i;
			best->least = fminf(best->least, score);
		}
}

/* Lists the points that can be nearest to a row. */
template <int POINTS, int I> static __device__ __forceinline__ void
list_candidates(const FilterArguments &a, const float (&sums)[POINTS / 8][4], int column, float limit, int64_t flag)
{
#pragma unroll
	for (int n = 0; n < POINTS / 8; n++)
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (sums[n][I * 2 + i] <= limit)
			{
				uint32_t	place = atomicAdd(&a.candidate_counts[flag], 1u);

				if (place < FILTER_CANDIDATES)
					a.candidates[flag * FILTER_CANDIDATES + place] = column + n * 8 + i;
			}
}

/* Joins what two threads know of a row. */
static __device__ __forceinline__ void
join(Best *best, float least, float second, int point)
{
	best->second = fminf(fminf(best->second, second), fmaxf(best->least, least));
	if (least < best->least)
		best->point = point;
	best->least = fminf(best->least, least);
}

/* Labels a row, or flags it. */
static __device__ void
conclude(const FilterArguments &a, const RowShared *shared, int r, Best best)
{
	float		part = row_part(a, shared, r);
	float		own = own_part(a, shared, r, best.point);
	float		limit = best.least + own + part;
	int64_t		row = shared->row[r];

	limit += (fabsf(best.least) + own + part) * 0x1p-19f;
	if (isfinite(shared->back[r]) && isfinite(limit) && best.second > limit)
	{
		a.fresh[row] = best.point;
		return;
	}
	a.fresh[row] = GK_PENDING;
	atomicAdd(&a.counters->flagged, 1ull);
	/* not a number, or infinite: nothing is known */
	if (isfinite(shared->back[r]) && isfinite(limit))
	{
		uint32_t	place = atomicAdd(a.flag_count, 1u);

		if (place < a.flag_capacity)
		{
			a.flag_rows[place] = row;
			a.flag_limits[place] = limit;
			a.candidate_counts[place] = 0;
		}
	}
}

/* Takes the products with a whole tile of points. */
template <int POINTS, bool SECOND> static __device__ __forceinline__ void
take_tile(const FilterArguments &a, const RowShared *shared, float (&sums)[POINTS / 8][4], int tile,
		  const int r[2], int64_t first, Best best[2])
{
	int			column = tile * POINTS + threadIdx.x % 4 * 2;
	float		least[2];

	least[0] = make_scores<POINTS, 0>(a, sums, shared->back[r[0]], column);
	least[1] = make_scores<POINTS, 1>(a, sums, shared->back[r[1]], column);
	if (SECOND)
	{
		if (least[0] <= shared->limit[r[0]])
			list_candidates<POINTS, 0>(a, sums, column, shared->limit[r[0]], first + r[0]);
		if (least[1] <= shared->limit[r[1]])
			list_candidates<POINTS, 1>(a, sums, column, shared->limit[r[1]], first + r[1]);
	}
	else
	{
		if (least[0] < best[0].second)
			take_scores<POINTS, 0>(sums, column, &best[0]);
		if (least[1] < best[1].second)
			take_scores<POINTS, 1>(sums, column, &best[1]);
	}
}

/* Joins what the four threads of a row know, and labels it. */
static __device__ __forceinline__ void
conclude_rows(const FilterArguments &a, const RowShared *shared, const int r[2], Best best[2])
{
#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		for (int other = 1; other < 4; other *= 2)
			join(&best[i], __shfl_xor_sync(0xffffffffu, best[i].least, other),
				 __shfl_xor_sync(0xffffffffu, best[i].second, other),
				 __shfl_xor_sync(0xffffffffu, best[i].point, other));
		if (threadIdx.x % 4 == 0 && shared->row[r[i]] >= 0)
			conclude(a, shared, r[i], best[i]);
	}
}

/*
 * With STAYS the rows lie in shared memory while the points stream by, else both stream.  SECOND is
 * the run over the flagged rows.  Points of which all pieces fit the stages are loaded once.
 */
template <int POINTS, bool STAYS, bool SECOND> static __global__ void
__launch_bounds__(FILTER_THREADS, POINTS == 64 && STAYS ? 3 : 2)
filter_kernel(FilterArguments a)
{
	extern __shared__ unsigned char memory[];
	unsigned char *start = (unsigned char *) (((uintptr_t) memory + 1023) / 1024 * 1024);
	__half	   *stages = (__half *) start;
	__half	   *rows = stages + a.stages * POINTS * FILTER_STEP;
	int			chunks = (a.depth + FILTER_STEP - 1) / FILTER_STEP;
	int			total = a.tiles * chunks;
	RowShared  *shared = (RowShared *) (rows + (STAYS ? chunks : 2) * FILTER_ROWS * FILTER_STEP);
	const int	r[2] = {(int) threadIdx.x / 32 * 16 + (int) threadIdx.x % 32 / 4,
		(int) threadIdx.x / 32 * 16 + (int) threadIdx.x % 32 / 4 + 8};
	bool		once = total <= a.stages;
	int64_t		count = SECOND ? min(*a.flag_count, a.flag_capacity) : a.rows;
	int64_t		step = (int64_t) gridDim.x * FILTER_ROWS;

	for (int64_t first = (int64_t) blockIdx.x * FILTER_ROWS; first < count; first += step)
	{
		bool		load = !once || first == (int64_t) blockIdx.x * FILTER_ROWS;
		float		sums[POINTS / 8][4];
		Best		best[2] = {{NO_SCORE, NO_SCORE, 0}, {NO_SCORE, NO_SCORE, 0}};
		Cursor		now = {0, 0};
		Cursor		next = {0, 0};
		int			stage = 0;
		int			next_stage = 0;

		__syncthreads();
		start_rows<SECOND>(a, shared, first, count);
		for (int s = 0; s < (once ? total : a.stages - 1); s++)
		{
			if (load && s < total)
				load_points<POINTS>(a, stages + s * POINTS * FILTER_STEP, next.tile, next.chunk * FILTER_STEP);
			next.step(chunks);
			copy_commit();
		}
		next_stage = a.stages - 1;
		__syncthreads();
		if (STAYS)
			load_rows<4>(a, shared, rows, 0, a.depth);
		if (!SECOND && first + step < count)
			prefetch_rows(a, first + step);
		if (STAYS && !SECOND && a.labels != nullptr)
		{
			__syncthreads();
			start_scores(a, shared, rows, r, best);
		}
		for (int it = 0; it < total; it++)
		{
			int			width = min(FILTER_STEP, a.depth - now.chunk * FILTER_STEP);
			__half	   *piece = rows + (STAYS ? now.chunk : it % 2) * FILTER_ROWS * FILTER_STEP;

			if (once || a.stages == 2)
				copy_wait<0>();
			else
				copy_wait<1>();
			if (!STAYS)
				load_rows<4>(a, shared, piece, now.chunk * FILTER_STEP, width);
			publish_stores();
			__syncthreads();
			if (!once && it + a.stages - 1 < total)
			{
				load_points<POINTS>(a, stages + next_stage * POINTS * FILTER_STEP, next.tile, next.chunk * FILTER_STEP);
				next.step(chunks);
			}
			copy_commit();
			multiply_pieces<POINTS>(sums, piece, stages + stage * POINTS * FILTER_STEP, width / 16, now.chunk == 0);
			if (now.chunk == chunks - 1)
				take_tile<POINTS, SECOND>(a, shared, sums, now.tile, r, first, best);
			now.step(chunks);
			stage = stage + 1 == a.stages ? 0 : stage + 1;
			next_stage = next_stage + 1 == a.stages ? 0 : next_stage + 1;
		}
		if (!SECOND)
			conclude_rows(a, shared, r, best);
	}
}

/* Bytes of shared memory that a kernel of this kind needs. */
static size_t
shared_bytes(int points, bool stays, int depth, int stages)
{
	size_t		pieces = stays ? (depth + FILTER_STEP - 1) / FILTER_STEP : 2;

	return 1024 + sizeof(RowShared) +
		(pieces * FILTER_ROWS + (size_t) stages * points) * FILTER_STEP * sizeof(__half);
}

/* Enqueues one kernel. */
template <int POINTS, bool STAYS, bool SECOND> static void
launch_kernel(Shard &shard, const FilterArguments &a)
{
	size_t		bytes = shared_bytes(POINTS, STAYS, a.depth, a.stages);
	const void *kernel = (const void *) filter_kernel<POINTS, STAYS, SECOND>;
	int			per_processor;

	GK_CUDA(cudaFuncSetAttribute, kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes);
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor, &per_processor, kernel, FILTER_THREADS, bytes);
	filter_kernel<POINTS, STAYS, SECOND>
		<<<blocks_for(shard, (a.rows + FILTER_ROWS - 1) / FILTER_ROWS, per_processor), FILTER_THREADS,
		   bytes, shard.device->compute>>>(a);
	GK_LAUNCHED("filter_kernel");
}

/* Enqueues both runs. */
template <int POINTS, bool STAYS> static void
launch_filter(Shard &shard, FilterArguments &a)
{
	size_t		most = shard.device->shared_memory;

	/* two stages where that lets two blocks share a processor, or one fit it at all */
	a.stages = (shared_bytes(POINTS, STAYS, a.depth, 3) + 1024) * 2 <= most + 1024 ||
		((shared_bytes(POINTS, STAYS, a.depth, 2) + 1024) * 2 > most + 1024 &&
		 shared_bytes(POINTS, STAYS, a.depth, 3) <= most) ? 3 : 2;
	launch_kernel<POINTS, STAYS, false>(shard, a);
	launch_kernel<POINTS, STAYS, true>(shard, a);
}

/* Chooses how the rows get into shared memory. */
template <int POINTS> static void
choose_filter(Shard &shard, FilterArguments &a)
{
	size_t		most = shard.device->shared_memory;

	a.tiles = (a.count + POINTS - 1) / POINTS;
	if (a.tiles < 3)
		a.labels = nullptr;
	if (shared_bytes(POINTS, true, a.depth, 2) <= most && (a.depth <= 256 || a.tiles > 2))
		launch_filter<POINTS, true>(shard, a);
	else
		launch_filter<POINTS, false>(shard, a);
}

/* Memory for tiles of so many rows. */
void
reserve_filter(Shard &shard, int64_t tile_rows)
{
	shard.flag_capacity = (uint32_t) std::max<int64_t>(tile_rows / 4, 1024);
	shard.fresh.reserve(shard, tile_rows);
	shard.flag_count.reserve(shard, 1);
	shard.flag_rows.reserve(shard, shard.flag_capacity);
	shard.flag_limits.reserve(shard, shard.flag_capacity);
	shard.flag_candidate_counts.reserve(shard, shard.flag_capacity);
	shard.flag_candidates.reserve(shard, (int64_t) shard.flag_capacity * FILTER_CANDIDATES);
}

/* About how long a row takes. */
double
filter_seconds(const Shard &shard, int64_t points)
{
	double		padded = (double) ((points + 63) / 64 * 64);

	return padded * (shard.depth + 16) * 2 / 2e14 + shard.dimension * 4 / 2e12;
}

/* Fresh labels of a tile, GK_PENDING where the filter can't decide; `labelled`: labels are of these points. */
void
filter_tile(Shard &shard, const Tile &tile, const Points &points, bool labelled)
{
	FilterArguments a;

	a.features = tile.features;
	a.center = shard.center.get();
	a.bounds = shard.bounds.get() + tile.first;
	a.rows = tile.rows;
	a.d = shard.dimension;
	a.depth = shard.depth;
	a.points = points.rounded.get();
	a.lower = points.lower.get();
	a.slack = points.slack.get();
	a.norm = points.norm.get();
	a.error = points.error.get();
	a.scale = points.scale.get();
	a.count = (int) points.count;
	a.labels = labelled ? shard.labels.get() + tile.first : nullptr;
	a.fresh = shard.fresh.get();
	a.flag_count = shard.flag_count.get();
	a.flag_capacity = shard.flag_capacity;
	a.flag_rows = shard.flag_rows.get();
	a.flag_limits = shard.flag_limits.get();
	a.candidate_counts = shard.flag_candidate_counts.get();
	a.candidates = shard.flag_candidates.get();
	a.counters = shard.counters.get();
	GK_CUDA(cudaMemsetAsync, a.flag_count, 0, sizeof(uint32_t), shard.device->compute);
	/* 64 points a tile also where a processor has 64 kB */
	if (points.count <= 64 || shard.device->shared_memory < (90 << 10))
		choose_filter<64>(shard, a);
	else
		choose_filter<128>(shard, a);
}

}								/* namespace gk */
