/*
 * Rows of few features and few centroids: labels, and the sums of the rows that moved, in one
 * pass that reads each row once.
 *
 * Each warp has tiles of rows of its own in shared memory, two of them, so that one arrives while
 * the other is worked on.  Scores are sums of float32 products.  A row that float32 does not
 * decide is decided by the definition at once.
 */
#include <algorithm>

#include <cuda_pipeline.h>

#include "exact.h"
#include "narrow_decide.cuh"
#include "narrow_sums.cuh"
#include "warp.cuh"

namespace gk
{

#define NARROW_MEMORY (220 << 10)	/* shared memory of a processor, about */

/* The shape for so many features and centroids. */
NarrowShape
narrow_shape(int d, int centroids)
{
	NarrowShape shape;

	shape.parts = (d + 3) / 4;
	shape.tile = centroids <= 4 ? 4 : 8;
	shape.padded = (centroids + shape.tile - 1) / shape.tile * shape.tile;
	return shape;
}

/* Starts the copy of rows to a tile, by a warp. */
static __device__ __forceinline__ void
fetch_tile(const NarrowArguments &a, float *tile, int64_t first, int rows)
{
	const float *from = a.features + first * a.d;
	int			lane = threadIdx.x % 32;
	int			floats = rows * a.d;
	int			at = lane;

	if (a.swap_mask != 0)
		for (; at < floats / 4; at += 32)
		{
			int			row = at * a.inverse >> 20;
			int			part = at - row * a.parts;

			__pipeline_memcpy_async(tile + row * a.d + (part ^ swap_of(a, row)) * 4, from + at * 4,
									16);
		}
	else
	{
		for (; a.aligned && at < floats / 4; at += 32)
			__pipeline_memcpy_async(tile + at * 4, from + at * 4, 16);
		for (at = (a.aligned ? floats / 4 * 4 : 0) + lane; at < floats; at += 32)
			__pipeline_memcpy_async(tile + at, from + at, 4);
	}
}

/* Replaces labels of a tile by the new ones; returns which of the lane's rows changed, as bits. */
static __device__ __forceinline__ unsigned
take_labels(const NarrowArguments &a, int64_t first, int valid, const OwnRows &own,
			const int32_t (&old)[LANE_ROWS])
{
	unsigned	changed = 0;

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
		if (own_row(r) < valid && own.label[r] != old[r])
		{
			a.labels[first + own_row(r)] = own.label[r];
			changed |= 1u << r;
		}
	return changed;
}

/* Lists the rows of a tile to be summed; `lanes`: those with a row that changed. */
static __device__ __forceinline__ void
list_items(const NarrowArguments &a, const NarrowWarp &w, int valid, const OwnRows &own,
		   const int32_t (&old)[LANE_ROWS], const unsigned (&lanes)[LANE_ROWS])
{
	int			listed = 0;

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
	{
		int			row = own_row(r);
		int			at = listed + 2 * __popc(lanes[r] & ((1u << threadIdx.x % 32) - 1));

		if (a.all && row < valid)
			w.items[row] = (uint32_t) own.label[r] << 16 | row;
		if (a.all || lanes[r] == 0)
			continue;
		if (lanes[r] >> threadIdx.x % 32 & 1)
		{
			w.items[at] = (uint32_t) own.label[r] << 16 | row;
			w.items[at + 1] = old[r] < 0 ? NO_ITEM : (uint32_t) old[r] << 16 | ITEM_TAKEN | row;
		}
		listed += 2 * __popc(lanes[r]);
	}
}

/* Stores the labels of the rows of a tile to be summed. */
static __device__ __forceinline__ void
store_labels(const NarrowArguments &a, const NarrowWarp &w, int valid, const OwnRows &own,
			 const int32_t (&old)[LANE_ROWS], unsigned changed)
{
	uint8_t    *labels = labels_of_tile(w) + place_of_label(threadIdx.x % 32);

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
	{
		bool		counts = a.all ? own_row(r) < valid : changed >> r & 1;

		labels[r * 32] = (uint8_t) (counts ? own.label[r] : NO_CLUSTER);
		labels[TILE_ROWS + r * 32] = (uint8_t) (counts && old[r] >= 0 ? old[r] : NO_CLUSTER);
	}
}

/* Adds one value to a sum. */
static __device__ __forceinline__ void
add_value(const NarrowArguments &a, int64_t *to, int64_t value)
{
	if (a.exclusive)
		*to += value;
	else if (a.copies > 0)
		add_sum<true>(to, value);
	else
		add_sum<false>(to, value);
}

/* Adds the listed rows of a tile to the sums: groups of lanes, a column each. */
static __device__ __forceinline__ void
sum_items(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int64_t first,
		  int count)
{
	constexpr int AHEAD = 4;

	for (int column = w.column; column <= a.d; column += w.columns)
	{
		double		scale = __ldg(a.scales + column);

		for (int i = w.group; i < count; i += w.groups * AHEAD)
		{
			uint32_t	items[AHEAD];
			double		values[AHEAD];

#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				int			at = i + u * w.groups;
				int			row;

				items[u] = at < count ? w.items[at] : NO_ITEM;
				row = items[u] == NO_ITEM ? 0 : items[u] & (ITEM_TAKEN - 1);
				values[u] = column < a.d ? feature_of(a, tile, row, column) : 1.0f;
				if (a.weights != nullptr)
					values[u] = GK_MUL(a.weights[first + row], values[u]);
			}
#pragma unroll
			for (int u = 0; u < AHEAD; u++)
			{
				int64_t    *to = w.sums + (int) (items[u] >> 16) * (a.d + 1) + column;
				bool		taken = items[u] & ITEM_TAKEN;
				int64_t		high = quantize(values[u], scale);

				if (items[u] == NO_ITEM)
					continue;
				add_value(a, to, taken ? -high : high);
				if (a.wide)
				{
					int64_t		low = quantize(rest_of(values[u], scale), a.rest_scale);

					add_value(a, to + a.limb, taken ? -low : low);
				}
			}
		}
	}
}

/* Adds the rows of a tile that moved, or all, to the sums. */
template <int D> static __device__ __forceinline__ void
sum_tile(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int64_t first,
		 int valid, const OwnRows &own, const int32_t (&old)[LANE_ROWS], unsigned changed)
{
	unsigned	lanes[LANE_ROWS];
	int			moved = 0;

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
	{
		lanes[r] = __ballot_sync(WARP_LANES, changed >> r & 1);
		moved += __popc(lanes[r]);
	}
	if (D >= PRODUCT_FEATURES && (a.all ? TILE_ROWS : moved) >= a.products_from)
	{
		store_labels(a, w, valid, own, old, changed);
		__syncwarp();
		sum_products(a, w, tile);
		return;
	}
	list_items(a, w, valid, own, old, lanes);
	__syncwarp();
	sum_items(a, w, tile, first, a.all ? valid : 2 * moved);
}

/* Labels of a tile of rows, and the sums of those that moved; how many of the lane's did. */
template <int D, int TILE> static __device__ __forceinline__ unsigned
run_tile(const NarrowArguments &a, const NarrowWarp &w, const float *tile, int64_t first, int valid)
{
	OwnRows own;
	int32_t		old[LANE_ROWS];
	unsigned	changed;

#pragma unroll
	for (int r = 0; r < LANE_ROWS; r++)
	{
		int			row = own_row(r);

		own.best[r] = {NO_SCORE, NO_SCORE, 0};
		old[r] = a.fresh == nullptr && row < valid ? a.labels[first + row] : -1;
	}
	compare_rows<D, TILE>(a, w, tile, &own);
	decide_own<D>(a, w, tile, valid, &own);
	if (a.fresh != nullptr)
	{
#pragma unroll
		for (int r = 0; r < LANE_ROWS; r++)
			if (own_row(r) < valid)
				a.fresh[first + own_row(r)] = own.label[r];
		return 0;
	}
	changed = take_labels(a, first, valid, own, old);
	sum_tile<D>(a, w, tile, first, valid, own, old, changed);
	return __popc(changed);
}

/* Bytes of a block's shared memory for its centroids and sums, and for a warp. */
static __host__ __device__ __forceinline__ int
block_bytes(int packed, int64_t sums)
{
	return (int) ((packed * sizeof(float) + sums * sizeof(int64_t) + 15) / 16 * 16);
}

static __host__ __device__ __forceinline__ int
warp_bytes(int d)
{
	return TILE_ROWS * 2 * (int) (sizeof(uint32_t) + d * sizeof(float));
}

/* Lays out a block's shared memory, with the centroids in it and sums of zero. */
static __device__ __forceinline__ NarrowWarp
open_warp(const NarrowArguments &a, unsigned char *memory)
{
	NarrowWarp	w;
	float	   *packed = (float *) memory;
	int			warp = threadIdx.x / 32;
	int			each = a.limb * (a.wide ? 2 : 1);
	int64_t    *sums;

	w.layout = narrow_layout(a.parts, a.padded);
	w.packed = packed;
	sums = (int64_t *) (packed + w.layout.total);
	w.items = (uint32_t *) (memory + block_bytes(w.layout.total, (int64_t) each * a.copies) +
							warp * warp_bytes(a.d));
	w.tiles = (float *) (w.items + TILE_ROWS * 2);
	w.tile_floats = TILE_ROWS * a.d;
	w.columns = summing_lanes(a.d);
	w.groups = 32 / w.columns;
	w.group = threadIdx.x % 32 / w.columns;
	w.column = threadIdx.x % 32 % w.columns;
	if (w.group >= w.groups)
		w.group = INT32_MAX / 2;
	w.sums = a.copies == 0 ? a.sums : sums;
	if (a.exclusive && w.group < w.groups)
		w.sums += (warp * w.groups + w.group) * each;
	else if (!a.exclusive && a.copies > 1)
		w.sums += warp * each;
	for (int i = threadIdx.x; i < w.layout.total; i += blockDim.x)
		packed[i] = a.packed[i];
	for (int i = threadIdx.x; i < each * a.copies; i += blockDim.x)
		sums[i] = 0;
	__syncthreads();
	return w;
}

/* Adds a block's sums to those of all, and what its warps have counted. */
static __device__ __forceinline__ void
close_block(const NarrowArguments &a, const int64_t *sums, unsigned changes)
{
	int			each = a.limb * (a.wide ? 2 : 1);

	changes = sum_of_lanes<32>(changes);
	if (threadIdx.x % 32 == 0 && changes > 0)
		atomicAdd(&a.counters->changed, (unsigned long long) changes);
	__syncthreads();
	for (int i = threadIdx.x; i < each && a.copies > 0; i += blockDim.x)
	{
		int64_t		sum = 0;

		for (int copy = 0; copy < a.copies; copy++)
			sum += sums[copy * each + i];
		if (sum != 0)
			add_sum<false>(a.sums + i, sum);
	}
}

/* Blocks of a processor that the kernel for rows of D features is made for. */
static __host__ __device__ constexpr int
narrow_blocks(int d)
{
	return d > 8 ? 3 : d > 4 ? 4 : 5;
}

/* Rows of at most D features, in registers, and TILE centroids at a time. */
template <int D, int TILE> static __global__ void
__launch_bounds__(NARROW_WARPS * 32, narrow_blocks(D))
narrow_kernel(NarrowArguments a)
{
	extern __shared__ uint4 narrow_memory[];
	NarrowWarp	w = open_warp(a, (unsigned char *) narrow_memory);
	int			warps = blockDim.x / 32;
	int64_t		step = (int64_t) gridDim.x * warps * TILE_ROWS;
	int64_t		first = ((int64_t) blockIdx.x * warps + threadIdx.x / 32) * TILE_ROWS;
	unsigned	changes = 0;
	int			turn = 0;

	if (first < a.rows)
		fetch_tile(a, w.tiles, first, (int) min((int64_t) TILE_ROWS, a.rows - first));
	__pipeline_commit();
	for (; first < a.rows; first += step)
	{
		int64_t		next = first + step;
		const float *tile = w.tiles + turn * w.tile_floats;

		turn = 1 - turn;
		if (next < a.rows)
			fetch_tile(a, w.tiles + turn * w.tile_floats, next,
					   (int) min((int64_t) TILE_ROWS, a.rows - next));
		__pipeline_commit();
		__pipeline_wait_prior(1);
		__syncwarp();
		changes += run_tile<D, TILE>(a, w, tile, first,
									 (int) min((int64_t) TILE_ROWS, a.rows - first));
		__syncwarp();
	}
	close_block(a, (const int64_t *) (w.packed + w.layout.total), changes);
}

/*
 * How the sums are kept: copies of them in a block's shared memory, if `room` bytes do for them.
 * Without a copy for each warp, there are no products.
 */
static void
choose_copies(NarrowArguments &a, int warps, int64_t room)
{
	int64_t		bytes = (int64_t) a.limb * (a.wide ? 2 : 1) * sizeof(int64_t);
	int			groups = 32 / summing_lanes(a.d);

	a.exclusive = a.fresh == nullptr && bytes * warps * groups <= room;
	if (a.exclusive)
		a.copies = warps * groups;
	else if (a.fresh == nullptr && a.products_from <= TILE_ROWS && bytes * warps <= room)
		a.copies = warps;
	else
	{
		a.copies = a.fresh == nullptr && bytes <= 32 << 10 ? 1 : 0;
		a.products_from = TILE_ROWS + 1;
	}
}

/* Enqueues the kernel. */
template <int D, int TILE> static void
launch_narrow(Shard &shard, NarrowArguments &a)
{
	const void *kernel = (const void *) narrow_kernel<D, TILE>;
	int			packed = narrow_layout(a.parts, a.padded).total;
	int			limbs = a.wide ? 2 : 1;
	int			warps = NARROW_WARPS;
	int			products_from = a.products_from;
	int			per_processor;
	size_t		bytes;
	int64_t		tiles = (a.rows + TILE_ROWS - 1) / TILE_ROWS;

	for (;; warps /= 2)
	{
		a.products_from = products_from;
		choose_copies(a, warps, a.all ? 48 << 10 : NARROW_MEMORY / narrow_blocks(D) -
					  block_bytes(packed, 0) - warps * warp_bytes(a.d));
		bytes = block_bytes(packed, (int64_t) a.limb * limbs * a.copies) +
			warps * warp_bytes(a.d);
		if (bytes <= shard.device->shared_memory || warps == 1)
			break;
	}
	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, warps * 32,
			bytes));
	narrow_kernel<D, TILE>
		<<<blocks_for(shard, (tiles + warps - 1) / warps, per_processor), warps * 32, bytes,
		   shard.device->compute>>>(a);
	GK_LAUNCHED("narrow_kernel");
}

/* Compares fewer centroids at a time if there are few. */
template <int D> static void
choose_tile(Shard &shard, NarrowArguments &a, int tile)
{
	if (tile == 4)
		launch_narrow<D, 4>(shard, a);
	else
		launch_narrow<D, 8>(shard, a);
}

/* Chooses the kernel. */
static void
choose_narrow(Shard &shard, NarrowArguments &a, const NarrowShape &shape)
{
	if (a.d <= 2)
		choose_tile<2>(shard, a, shape.tile);
	else if (a.d <= 4)
		choose_tile<4>(shard, a, shape.tile);
	else if (a.d <= 6)
		choose_tile<6>(shard, a, shape.tile);
	else if (a.d <= 8)
		choose_tile<8>(shard, a, shape.tile);
	else if (a.d <= 12)
		choose_tile<12>(shard, a, shape.tile);
	else
		choose_tile<16>(shard, a, shape.tile);
}

/* Where the parts of rows lie in tiles. */
static void
place_parts(NarrowArguments &a)
{
	int			even = 0;		/* how often two divides the parts */

	a.by_parts = a.d % 4 == 0;
	a.aligned = (uintptr_t) a.features % 16 == 0;
	a.inverse = (1 << 20) / a.parts + 1;
	while ((a.parts >> even) % 2 == 0)
		even++;
	a.swap_shift = 3 - even;
	a.swap_mask = a.by_parts ? (1 << even) - 1 : 0;
}

/*
 * How many rows of a tile must have moved for products to be faster than adding them one by one,
 * as measured on an H200; more than there are: products do not do, or never are.
 */
static int
choose_products(const Shard &shard, const NarrowArguments &a)
{
	int			groups = 32 / summing_lanes(a.d);
	int			rounds = (a.count + 15) / 16 * ((a.parts + 1) / 2);

	if (shard.device->major < 8 || a.weights != nullptr || a.d < PRODUCT_FEATURES ||
		a.count > PRODUCT_CENTROIDS || rounds * groups >= 10)
		return TILE_ROWS + 1;
	return rounds * groups * 5;
}

/* The arguments for a slice, without sums. */
static NarrowArguments
narrow_arguments(const Shard &shard, const Slice &slice, const Centroids &centroids,
				 const NarrowShape &shape)
{
	NarrowArguments a = {};

	a.features = slice.features;
	a.weights = slice.weights;
	a.rows = slice.rows;
	a.d = shard.dimension;
	a.parts = shape.parts;
	a.count = (int) centroids.count;
	a.padded = shape.padded;
	a.packed = centroids.packed.get();
	a.exact = centroids.exact.get();
	a.limb = a.count * (a.d + 1);
	place_parts(a);
	return a;
}

/* True if the kernels here are the fastest for these centroids, as measured on an H200. */
bool
narrow_fits(const Shard &shard, int64_t centroids)
{
	int			d = shard.dimension;

	return centroids <= (d <= 4 ? 256 : d <= 8 ? 128 : d <= 12 ? 64 : d <= 16 ? 40 : 0);
}

/* About how long a row takes, in seconds: an eighth of the peak rate of float32. */
double
narrow_seconds(const Shard &shard, int64_t centroids)
{
	const Speed &speed = shard.device->speed;

	return (double) centroids * (shard.dimension + 8) * 256 / speed.flops +
		shard.dimension * 10.0 / speed.bandwidth;
}

/* Fresh labels of all rows of a slice. */
void
narrow_labels(Shard &shard, const Slice &slice, const Centroids &centroids)
{
	NarrowShape shape = narrow_shape(shard.dimension, (int) centroids.count);
	NarrowArguments a = narrow_arguments(shard, slice, centroids, shape);

	a.fresh = shard.fresh.get();
	choose_narrow(shard, a, shape);
}

/* Replaces the labels of a slice by new ones, and updates the sums. */
void
narrow_step(Shard &shard, const Slice &slice, const Centroids &centroids, const Grid &grid,
			bool all)
{
	NarrowShape shape = narrow_shape(shard.dimension, (int) centroids.count);
	NarrowArguments a = narrow_arguments(shard, slice, centroids, shape);

	a.labels = shard.labels.get() + slice.first;
	a.all = all;
	a.wide = grid.wide;
	a.scales = shard.grid_scales.get();
	a.rest_scale = gk_power_of_two(grid.rest_bits);
	a.sums = shard.sums.get();
	a.counters = shard.counters.get();
	a.products_from = choose_products(shard, a);
	choose_narrow(shard, a, shape);
}

}								/* namespace gk */
