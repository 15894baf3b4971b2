/*
 * Sums of the rows of a tile as products of whole numbers, in the tensor cores: a matrix that says
 * which rows join (1) or leave (-1) which clusters, times a byte of the rows' values in fixed
 * point.  Nothing is rounded.
 */
#ifndef GK_NARROW_SUMS_CUH
#define GK_NARROW_SUMS_CUH

#ifndef __CUDACC__
#error "for device code alone"
#endif

#include "exact.h"
#include "narrow.cuh"
#include "sums.cuh"

namespace gk
{

#define SUM_BYTES 7				/* of a value in fixed point, as rounded_bits() gives it */
#define SUM_ZERO (ROUNDED_ZERO & ((UINT64_C(1) << SUM_BYTES * 8) - 1))
#define NO_CLUSTER 0x7f			/* the label of a row that is not to be summed */

/* The labels of a tile's rows in bytes: new ones, then previous ones. */
static __device__ __forceinline__ uint8_t *
labels_of_tile(const NarrowWarp &w)
{
	return (uint8_t *) w.items;
}

/*
 * Where row `lane` of 32 has its byte.  Lane t of the four of a column has rows t, t + 4, … of
 * the 32, which so lie together.
 */
static __device__ __forceinline__ int
place_of_label(int lane)
{
	return lane % 4 * 8 + lane / 4;
}

/* 1 in each byte that equals the label; all are less than 128. */
static __device__ __forceinline__ uint32_t
equal_bytes(uint32_t bytes, uint32_t label)
{
	return ((0x80808080u - (bytes ^ label * 0x01010101u)) >> 7) & 0x01010101u;
}

/* The bytes of four words, by their place in the word. */
static __device__ __forceinline__ void
transpose(const uint32_t (&words)[4], uint32_t (&bytes)[4])
{
	uint32_t	low[2];
	uint32_t	high[2];

#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		low[i] = __byte_perm(words[2 * i], words[2 * i + 1], 0x5140);
		high[i] = __byte_perm(words[2 * i], words[2 * i + 1], 0x7362);
	}
	bytes[0] = __byte_perm(low[0], low[1], 0x5410);
	bytes[1] = __byte_perm(low[0], low[1], 0x7632);
	bytes[2] = __byte_perm(high[0], high[1], 0x5410);
	bytes[3] = __byte_perm(high[0], high[1], 0x7632);
}

/* sums += a × b, 16 × 8 × 32. */
static __device__ __forceinline__ void
multiply_bytes(int32_t (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
				 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
	/* a GPU that could do more may run what was built for an older one */
	for (int i = 0; i < 4; i++)
		asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32 "
					 "{%0,%1}, {%2}, {%3}, {%0,%1};"
					 : "+r"(sums[i % 2 * 2]), "+r"(sums[i % 2 * 2 + 1])
					 : "r"(a[i]), "r"(i < 2 ? b0 : b1));
#endif
}

/* One column of a tile, of which a lane has every fourth row. */
struct TileColumn
{
	const float *even;			/* rows t, t + 8, … */
	const float *odd;			/* rows t + 4, t + 12, … */
	int			apart;			/* floats between every fourth row */
	double		scale;
	bool		rest;			/* the second limb */

	__device__ __forceinline__ TileColumn(const NarrowArguments &a, const float *tile, int j,
										  bool second)
		: apart(4 * a.d), scale(__ldg(a.scales + j)), rest(second)
	{
		int			row = threadIdx.x % 4;

		/* parts lie the same way in every eighth row */
		even = tile + row * a.d + ((j >> 2 ^ swap_of(a, row)) << 2 | (j & 3));
		odd = tile + row * a.d + ((j >> 2 ^ swap_of(a, row + 4)) << 2 | (j & 3));
	}

	/* The bytes of eight rows of 32: four, and four. */
	__device__ __forceinline__ void read(const NarrowArguments &a, int step,
										 uint32_t (&bytes)[SUM_BYTES][2]) const
	{
#pragma unroll
		for (int half = 0; half < 2; half++)
		{
			uint32_t	low[4];
			uint32_t	high[4];
			uint32_t	parts[2][4];

#pragma unroll
			for (int i = 0; i < 4; i++)
			{
				double		value = (i % 2 == 0 ? even : odd)[(step * 8 + half * 4 + i) * apart];
				uint64_t	bits = rest ? rounded_bits(rest_of(value, scale), a.rest_scale) :
					rounded_bits(value, scale);

				low[i] = (uint32_t) bits;
				high[i] = (uint32_t) (bits >> 32);
			}
			transpose(low, parts[0]);
			transpose(high, parts[1]);
#pragma unroll
			for (int b = 0; b < SUM_BYTES; b++)
				bytes[b][half] = parts[b / 4][b % 4];
		}
	}
};

/* The sums of 16 clusters and 8 columns. */
struct ProductSums
{
	int32_t		bytes[SUM_BYTES][4];	/* at most 128 rows × 255 */
	int32_t		rows[4];				/* that joined less those that left */

	__device__ __forceinline__ void clear()
	{
#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			rows[i] = 0;
#pragma unroll
			for (int b = 0; b < SUM_BYTES; b++)
				bytes[b][i] = 0;
		}
	}

	/* Adds 32 rows; `joined`, `left`: their labels. */
	__device__ __forceinline__ void add(bool all, uint2 joined, uint2 left, uint32_t cluster,
										const uint32_t (&values)[SUM_BYTES][2])
	{
		uint32_t	which[4];

#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			uint32_t	its = cluster + i % 2 * 8;

			which[i] = equal_bytes(i < 2 ? joined.x : joined.y, its);
			if (!all)
				which[i] += equal_bytes(i < 2 ? left.x : left.y, its) * 0xffu;
		}
		multiply_bytes(rows, which, 0x01010101u, 0x01010101u);
#pragma unroll
		for (int b = 0; b < SUM_BYTES; b++)
			multiply_bytes(bytes[b], which, values[b][0], values[b][1]);
	}

	/* The sum of a cluster's values. */
	__device__ __forceinline__ int64_t value(int i) const
	{
		int32_t		low = bytes[0][i] + bytes[1][i] * 256;
		int32_t		middle = bytes[2][i] + bytes[3][i] * 256;
		int32_t		high = bytes[4][i] + bytes[5][i] * 256 + bytes[6][i] * 65536;

		return low + (int64_t) middle * 65536 + (int64_t) high * (INT64_C(1) << 32) -
			rows[i] * (int64_t) SUM_ZERO;
	}
};

/*
 * Adds the sums of 16 clusters and 8 columns to those of the warp.  Each of these belongs to one
 * lane, so no atomic operations are needed.
 */
static __device__ __forceinline__ void
add_products(const NarrowArguments &a, const NarrowWarp &w, const ProductSums &sums, int from,
			 int span, bool rest)
{
	int			copy = threadIdx.x / 32 * (a.exclusive ? w.groups : 1);
	int			column = span + threadIdx.x % 4 * 2;
	/* the compiler sees that these are in shared memory */
	int64_t    *all = (int64_t *) (w.packed + w.layout.total) +
		copy * a.limb * (a.wide ? 2 : 1) + (rest ? a.limb : 0);

#pragma unroll
	for (int i = 0; i < 4; i++)
	{
		int			cluster = from + i / 2 * 8 + threadIdx.x % 32 / 4;
		int64_t    *to = all + cluster * (a.d + 1);

		if (cluster < a.count && column + i % 2 < a.d)
			to[column + i % 2] += sums.value(i);
		if (cluster < a.count && column + i % 2 == 0)
		{
			double		scale = __ldg(a.scales + a.d);

			to[a.d] += sums.rows[i] *
				(rest ? quantize(rest_of(1.0, scale), a.rest_scale) : quantize(1.0, scale));
		}
	}
}

/* Adds the rows of a tile whose labels are in labels_of_tile() to the sums of the warp. */
static __device__ __forceinline__ void
sum_products(const NarrowArguments &a, const NarrowWarp &w, const float *tile)
{
	const uint8_t *labels = labels_of_tile(w) + threadIdx.x % 4 * 8;
	int			lane = threadIdx.x % 32;

	for (int from = 0; from < a.count; from += 16)
		for (int part = 0; part < a.parts; part += 2)
			for (int rest = 0; rest <= a.wide; rest++)
			{
				TileColumn	column(a, tile, min(part * 4 + lane / 4, a.d - 1), rest);
				ProductSums sums;

				sums.clear();
#pragma unroll 1
				for (int step = 0; step < LANE_ROWS; step++)
				{
					uint2		joined = *(const uint2 *) (labels + step * 32);
					uint2		left = *(const uint2 *) (labels + TILE_ROWS + step * 32);
					uint32_t	values[SUM_BYTES][2];

					column.read(a, step, values);
					sums.add(a.all, joined, left, from + lane / 4, values);
				}
				add_products(a, w, sums, from, part * 4, rest);
			}
}

}								/* namespace gk */

#endif							/* GK_NARROW_SUMS_CUH */
