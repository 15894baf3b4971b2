/*
 * Draws of few rows (GK_DRAW): one block finds the rows that contain the points, and one kernel
 * compares all rows with these.  The kernels of other draws would be shorter here than their
 * launches.
 */
#include "draws.cuh"
#include "hashes.cuh"
#include "warp.cuh"

namespace gk
{

#define FINDERS 1024			/* threads of the block */
#define FEW_BUCKETS (1 << FEW_BITS)
#define READ_AT_ONCE 4			/* rows of a thread */
#define COMPARED_ROWS 128		/* by a block */
#define COMPARED_AT_ONCE 8		/* drawn rows that a thread compares its row with */
#define COMPARED_COLUMNS 32		/* in shared memory at a time */

/* The buckets, and how many rows are listed. */
struct FewBuckets
{
	int64_t		begins[FEW_BUCKETS + 1];
	int32_t		drawn[FEW_BUCKETS + 1];
	int32_t		chains[FEW_BUCKETS];
	uint32_t	listed;
	int32_t		is_left;
	uint8_t		wanted[FEW_BUCKETS];
};

/* Zeroes the buckets. */
static __device__ __forceinline__ void
clear_buckets(FewBuckets *buckets)
{
	for (size_t i = threadIdx.x; i < sizeof(FewBuckets) / sizeof(uint32_t); i += FINDERS)
		((uint32_t *) buckets)[i] = 0;
}

/* Adds the masses of the rows to their buckets. */
static __device__ __forceinline__ void
add_masses(const Draw &s, const RowArguments &a, const Mass &mass)
{
	for (int64_t first = threadIdx.x; first < a.rows; first += FINDERS * READ_AT_ONCE)
	{
		int64_t		masses[READ_AT_ONCE];
		uint32_t	heads[READ_AT_ONCE];

#pragma unroll
		for (int i = 0; i < READ_AT_ONCE; i++)
		{
			int64_t		row = first + i * FINDERS;

			masses[i] = row < a.rows ? mass_of(a, mass, row) : 0;
			heads[i] = row < a.rows ? a.hash_heads[row] : 0;
		}
#pragma unroll
		for (int i = 0; i < READ_AT_ONCE; i++)
			if (masses[i] != 0)
				atomicAdd((unsigned long long *)
						  &s.begins[gk_hash_bucket((uint64_t) heads[i] << 32, s.bits)],
						  (unsigned long long) masses[i]);
	}
}

/* Replaces the values of buckets by the sum of those before; behind the last comes that of all. */
template <typename T> static __device__ void
sum_up_buckets(T *values, int count)
{
	const int	width = FEW_BUCKETS / FINDERS;
	int			first = threadIdx.x * width;
	T			mine[width];
	T			sum = 0;
	T			all;

#pragma unroll
	for (int i = 0; i < width; i++)
	{
		mine[i] = first + i < count ? values[first + i] : 0;
		sum += mine[i];
	}
	sum = sum_before<FINDERS>(sum, &all);
#pragma unroll
	for (int i = 0; i < width; i++)
	{
		if (first + i < count)
			values[first + i] = sum;
		sum += mine[i];
	}
	if (threadIdx.x == 0)
		values[count] = all;
	__syncthreads();
}

/* Lists those of 32 rows that are wanted: a warp does it. */
static __device__ __forceinline__ void
list_wanted(const Draw &s, const RowArguments &a, const Mass &mass, int64_t first, bool can,
			uint32_t *listed)
{
	int64_t		row = first + threadIdx.x % 32;
	int64_t		mine = can ? mass_of(a, mass, row) : 0;
	uint64_t	hash;

	can = mine > 0;
	if (!__any_sync(0xffffffffu, can))
		return;
	hash = hash_wanted(a, first, __ballot_sync(0xffffffffu, can));
	if (can)
	{
		uint32_t	place = atomicAdd(listed, 1u);

		if (place < s.capacity)
			s.list[place] = {row, hash, mine, 0.0};
	}
}

/* Lists the rows of the wanted buckets. */
static __device__ __forceinline__ void
list_rows(const Draw &s, const RowArguments &a, const Mass &mass, uint32_t *listed)
{
	int			lane = threadIdx.x % 32;

	for (int64_t first = threadIdx.x - lane; first < a.rows; first += FINDERS * READ_AT_ONCE)
	{
		bool		can[READ_AT_ONCE];

#pragma unroll
		for (int i = 0; i < READ_AT_ONCE; i++)
		{
			int64_t		row = first + i * FINDERS + lane;
			uint32_t	head = row < a.rows ? a.hash_heads[row] : 0;

			can[i] = row < a.rows && s.wanted[gk_hash_bucket((uint64_t) head << 32, s.bits)] != 0;
		}
#pragma unroll
		for (int i = 0; i < READ_AT_ONCE; i++)
			if (__any_sync(0xffffffffu, can[i]))
				list_wanted(s, a, mass, first + i * FINDERS, can[i], listed);
	}
}

/* Finds the rows that contain the points; returns how many, or -1 if it cannot tell. */
static __device__ __forceinline__ int64_t
find_rows(const Draw &s, FewBuckets *buckets)
{
	int64_t		rows = min((int64_t) buckets->listed, s.capacity);

	for (int64_t i = threadIdx.x; i < rows; i += FINDERS)
		chain_row(s, i);
	__syncthreads();
	if (buckets->listed > s.capacity)
		return -1;
	for (int64_t i = threadIdx.x / 32; i < s.count; i += FINDERS / 32)
		if (!mark_row(s, s.points[i]))
			buckets->is_left = 1;
	__syncthreads();
	if (buckets->is_left)
		return -1;
	sum_up_buckets(s.drawn, 1 << s.bits);
	for (int64_t i = threadIdx.x; i < rows; i += FINDERS)
		place_drawn(s, i);
	__syncthreads();
	return s.drawn[1 << s.bits];
}

/* Draws rows: one block. */
static __global__ void
__launch_bounds__(FINDERS)
few_kernel(Draw s, RowArguments a, Mass mass)
{
	__shared__ FewBuckets buckets;
	int64_t		found = 0;
	int64_t		total;

	s.begins = buckets.begins;
	s.drawn = buckets.drawn;
	s.wanted = buckets.wanted;
	s.chains = buckets.chains;
	clear_buckets(&buckets);
	__syncthreads();
	add_masses(s, a, mass);
	__syncthreads();
	sum_up_buckets(s.begins, 1 << s.bits);
	total = s.begins[1 << s.bits];
	for (int64_t i = threadIdx.x; i < s.count && total > 0; i += FINDERS)
		draw_point(s, i, total);
	__syncthreads();
	if (total > 0)
	{
		list_rows(s, a, mass, &buckets.listed);
		__syncthreads();
		found = find_rows(s, &buckets);
	}
	for (int64_t i = threadIdx.x; i < found * s.d; i += FINDERS)
		s.drawn_features[i] = s.features[s.rows[i / s.d] * s.d + i % s.d];
	if (threadIdx.x == 0)
		*s.end = {total, found < 0 ? 0 : found, found < 0, 0};
}

/* Draws rows of a slice that has all, with the heads of their hashes; gathers their features. */
void
draw_few(Shard &shard, const Slice &slice, const Draw &draw, const Mass &mass)
{
	few_kernel<<<1, FINDERS, 0, shard.device->compute>>>(draw, row_arguments(shard, slice), mass);
	GK_LAUNCHED("few_kernel");
}

/* Some columns of a block's rows and of those that they are compared with. */
struct ComparedColumns
{
	float		x[COMPARED_ROWS][COMPARED_COLUMNS + 1];
	double		c[COMPARED_COLUMNS][COMPARED_AT_ONCE];

	/* Loads columns `from` to from + width - 1: of the rows too, unless they are there. */
	__device__ __forceinline__ void load(const Draw &s, int64_t first, int64_t rows,
										 int64_t first_drawn, int64_t drawn, int from, int width,
										 bool with_rows)
	{
		for (int e = threadIdx.x; with_rows && e < COMPARED_ROWS * COMPARED_COLUMNS;
			 e += COMPARED_ROWS)
		{
			int			r = e / COMPARED_COLUMNS;
			int			j = e % COMPARED_COLUMNS;

			x[r][j] = first + r < rows && j < width ?
				s.features[(first + r) * s.d + from + j] : 0.0f;
		}
		for (int e = threadIdx.x; e < COMPARED_AT_ONCE * COMPARED_COLUMNS; e += COMPARED_ROWS)
		{
			int64_t		q = first_drawn + e / COMPARED_COLUMNS;
			int			j = e % COMPARED_COLUMNS;

			c[j][e / COMPARED_COLUMNS] = q < drawn && j < width ?
				s.drawn_features[q * s.d + from + j] : 0.0;
		}
	}
};

/* The nearest drawn row of a thread's row, and d². */
struct NearestDrawn
{
	double		distance2;
	int64_t		number;
};

/* Finds it by the definition. */
static __device__ __forceinline__ NearestDrawn
find_nearest(const Draw &s, ComparedColumns *columns, int64_t first, int64_t rows, int64_t drawn)
{
	NearestDrawn nearest = {INFINITY, 0};

	for (int64_t from = 0; from < drawn; from += COMPARED_AT_ONCE)
	{
		double		sums[COMPARED_AT_ONCE] = {};

		for (int column = 0; column < s.d; column += COMPARED_COLUMNS)
		{
			int			width = min(COMPARED_COLUMNS, s.d - column);

			__syncthreads();
			columns->load(s, first, rows, from, drawn, column, width,
						  from == 0 || s.d > COMPARED_COLUMNS);
			__syncthreads();
			for (int j = 0; j < width; j++)
#pragma unroll
				for (int q = 0; q < COMPARED_AT_ONCE; q++)
					sums[q] = gk_add_square(sums[q], columns->x[threadIdx.x][j],
											columns->c[j][q]);
		}
#pragma unroll
		for (int q = 0; q < COMPARED_AT_ONCE; q++)
			if (from + q < drawn && sums[q] < nearest.distance2)
				nearest = {sums[q], from + q};
	}
	return nearest;
}

/* Compares all rows with those drawn, if any are, and notes the greatest weight × d². */
static __global__ void
__launch_bounds__(COMPARED_ROWS)
compare_few_kernel(Draw s, int64_t rows, int64_t first_label, int32_t *labels, double *distance2)
{
	__shared__ ComparedColumns columns;
	int64_t		first = (int64_t) blockIdx.x * COMPARED_ROWS;
	int64_t		row = first + threadIdx.x;
	int64_t		drawn = s.end->found;
	double		greatest = 0.0;
	NearestDrawn nearest;

	if (drawn == 0)
		return;
	nearest = find_nearest(s, &columns, first, rows, drawn);
	if (row < rows)
	{
		double		now = distance2[row];

		if (first_label == 0 || nearest.distance2 < now)
		{
			distance2[row] = now = nearest.distance2;
			labels[row] = (int32_t) (first_label + nearest.number);
		}
		greatest = GK_MUL(s.weights != nullptr ? s.weights[row] : 1.0, now);
	}
	greatest = greatest_of_warp(greatest);
	if (threadIdx.x % 32 == 0 && greatest > 0.0)
		atomicMax(&s.end->greatest, (unsigned long long) __double_as_longlong(greatest));
}

/* Compares all rows with those that draw_few() has drawn. */
void
compare_few(Shard &shard, const Draw &draw, int64_t first_label)
{
	compare_few_kernel<<<(unsigned) ((shard.rows + COMPARED_ROWS - 1) / COMPARED_ROWS),
		COMPARED_ROWS, 0, shard.device->compute>>>
		(draw, shard.rows, first_label, shard.labels.get(), shard.distance2.get());
	GK_LAUNCHED("compare_few_kernel");
}

}								/* namespace gk */
