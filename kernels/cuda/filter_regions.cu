/*
 * The filter by regions: rows are put in the order of their regions, and a block compares 128 rows
 * of one region with the centroids of its list, both minus the region's origin.
 *
 * Norms and rounding errors of rows depend on the origin, so a warp takes them anew while it
 * converts the rows.
 */
#include <algorithm>

#include <cub/block/block_scan.cuh>

#include "epilogue.cuh"
#include "exact.h"
#include "nearer.cuh"
#include "reaches.cuh"
#include "tiles.cuh"
#include "warp.cuh"

namespace gk
{

#define REGION_THREADS 256
#define REGION_PANEL 64			/* centroids at a time */
#define REGION_EIGHTS (REGION_PANEL / 8)
#define REGION_STAGES 3
#define STAGE_VALUES (REGION_PANEL * TILE_COLUMNS)
#define ORDERED_ROWS 4096		/* that a block orders at a time */

/* Where the rows of the regions are, in the slice's order. */
struct RegionPlaces
{
	RegionPlaces(const Shard &shard)
		: regions(shard.regions.count), next(shard.regions.places),
		  starts(next + regions), tiles(starts + regions + 1), left(tiles + regions + 1),
		  flags(left + 1)
	{
	}

	int			regions;
	uint32_t   *next;			/* regions: the number of rows, then the next row's place */
	uint32_t   *starts;			/* regions + 1: the first row's place */
	uint32_t   *tiles;			/* regions + 1: the first of its tiles of rows */
	uint32_t   *left;			/* 1: the number of rows that no region has decided */
	uint32_t   *flags;			/* 1: the number of rows with several candidates, or more */
};

/* How many places there are. */
size_t
region_place_count(int regions)
{
	return 3 * (size_t) regions + 4;
}

/* The most tiles that so many rows have. */
int64_t
region_tile_count(int64_t rows, int regions)
{
	return (rows + BLOCK_ROWS - 1) / BLOCK_ROWS + regions;
}

/*
 * Where the number of rows is that no region has decided, on the device; the number of those with
 * several candidates follows it.
 */
uint32_t *
left_count(const Shard &shard)
{
	return RegionPlaces(shard).left;
}

/* The arguments, with the regions. */
struct RegionArguments : FilterArguments
{
	RegionArguments(const Shard &shard, const FilterArguments &common)
		: FilterArguments(common), places(shard), lists(shard.regions.lists),
		  scales(shard.regions.scales), statistics(shard.regions.statistics),
		  reaches(shard.regions.reaches), common(shard.regions.centers.scale.get()),
		  ids(shard.regions.ids),
		  order(shard.regions.order.get()), left(shard.regions.left.get()),
		  tiles(shard.regions.tiles.get()),
		  flags(shard.regions.flags.get()),
		  capacity((uint32_t) std::min<uint64_t>(shard.regions.flags.capacity(), INT32_MAX)),
		  exact(shard.centroids.exact.get()), counters(shard.counters.get())
	{
		origin = shard.regions.origins;
		centroids = shard.regions.rounded;
		lower = shard.regions.lower;
		slack = shard.regions.slack;
		norm = shard.regions.norm;
		error = shard.regions.error;
	}

	/* The arguments of a region: those of its list take the places of all. */
	__device__ __forceinline__ FilterArguments of(int region, const RegionList &list) const
	{
		FilterArguments its = *this;

		its.origin += (int64_t) region * d;
		its.centroids += (int64_t) list.first * tiles_of(depth) * TILE_COLUMNS;
		its.lower += list.first;
		its.slack += list.first;
		its.norm += list.first;
		its.error += list.first;
		its.scale = scales + region;
		its.count = list.count;
		return its;
	}

	RegionPlaces places;
	const RegionList *lists;
	const CentroidScale *scales;
	RowStatistics *statistics;
	uint32_t   *reaches;
	const CentroidScale *common;	/* the scale of all origins */
	const int32_t *ids;
	int32_t    *order;
	int32_t    *left;
	RegionTile *tiles;
	RegionFlag *flags;
	uint32_t	capacity;		/* of these */
	const double *exact;
	Counters   *counters;
};

/* Keeps the regions of rows, which are in `fresh`. */
static __global__ void
keep_kernel(const int32_t *fresh, int64_t rows, int regions, uint16_t *region_of)
{
	for (int64_t row = (int64_t) blockIdx.x * blockDim.x + threadIdx.x; row < rows;
		 row += (int64_t) gridDim.x * blockDim.x)
		region_of[row] = (uint16_t) max(0, min(fresh[row], regions - 1));
}

/* Keeps the regions of a slice's rows, which are in `fresh`. */
void
keep_regions(Shard &shard, const Slice &slice)
{
	keep_kernel<<<blocks_for(shard, (slice.rows + 1023) / 1024, 8), 256, 0, shard.device->compute>>>
		(shard.fresh.get(), slice.rows, shard.regions.count,
		 shard.regions.region_of.get() + slice.first);
	GK_LAUNCHED("keep_kernel");
}

/* Counts the rows of each region. */
static __global__ void
choose_kernel(RegionArguments a, const uint16_t *region_of)
{
	extern __shared__ uint32_t region_counts[];

	for (int r = threadIdx.x; r < a.places.regions; r += blockDim.x)
		region_counts[r] = 0;
	__syncthreads();
	for (int64_t row = (int64_t) blockIdx.x * blockDim.x + threadIdx.x; row < a.rows;
		 row += (int64_t) gridDim.x * blockDim.x)
	{
		int			region = region_of[row];

		atomicAdd(&region_counts[region], 1u);
		a.fresh[row] = region;
	}
	__syncthreads();
	for (int r = threadIdx.x; r < a.places.regions; r += blockDim.x)
		if (region_counts[r] > 0)
			atomicAdd(&a.places.next[r], region_counts[r]);
}

/* Finds the places of the regions' rows and tiles, from their numbers: one block. */
static __global__ void
__launch_bounds__(MOST_REGIONS)
places_kernel(RegionPlaces places)
{
	typedef cub::BlockScan<uint32_t, MOST_REGIONS> Scan;
	__shared__ typename Scan::TempStorage memory;
	int			r = threadIdx.x;
	uint32_t	count = r < places.regions ? places.next[r] : 0;
	uint32_t	start;
	uint32_t	tile;
	uint32_t	rows;
	uint32_t	tiles;

	Scan(memory).ExclusiveSum(count, start, rows);
	__syncthreads();
	Scan(memory).ExclusiveSum((count + BLOCK_ROWS - 1) / BLOCK_ROWS, tile, tiles);
	if (r < places.regions)
	{
		places.next[r] = places.starts[r] = start;
		places.tiles[r] = tile;
	}
	if (r == 0)
	{
		places.starts[places.regions] = rows;
		places.tiles[places.regions] = tiles;
	}
}

/* The region of a tile of rows. */
static __device__ __forceinline__ int
region_of_tile(const RegionPlaces &places, uint32_t tile)
{
	int			low = 0;
	int			high = places.regions - 1;

	/* the last one that begins with the tile or before; those without rows begin with the next */
	while (low < high)
	{
		int			middle = (low + high + 1) / 2;

		if (__ldg(places.tiles + middle) <= tile)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Lists the tiles of all regions. */
static __device__ __forceinline__ void
list_tiles(const RegionArguments &a)
{
	uint32_t	count = a.places.tiles[a.places.regions];

	for (uint32_t tile = blockIdx.x * REGION_THREADS + threadIdx.x; tile < count;
		 tile += gridDim.x * REGION_THREADS)
	{
		int			region = region_of_tile(a.places, tile);
		uint32_t	from = a.places.starts[region] +
			(tile - a.places.tiles[region]) * BLOCK_ROWS;

		a.tiles[tile] = {region, (int) from,
			(int) min(a.places.starts[region + 1] - from, (uint32_t) BLOCK_ROWS)};
	}
}

/* Orders the rows of a slice by region, and lists their tiles. */
static __global__ void
__launch_bounds__(REGION_THREADS)
order_kernel(RegionArguments a)
{
	constexpr int EACH = ORDERED_ROWS / REGION_THREADS;
	extern __shared__ uint32_t region_counts[];
	int64_t		first = (int64_t) blockIdx.x * ORDERED_ROWS + threadIdx.x;
	int			regions[EACH];

	for (int r = threadIdx.x; r < a.places.regions; r += REGION_THREADS)
		region_counts[r] = 0;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < EACH; i++)
	{
		int64_t		row = first + i * REGION_THREADS;

		regions[i] = row < a.rows ? a.fresh[row] : GK_LEFT;
		if (regions[i] >= 0)
			atomicAdd(&region_counts[regions[i]], 1u);
	}
	__syncthreads();
	for (int r = threadIdx.x; r < a.places.regions; r += REGION_THREADS)
		if (region_counts[r] > 0)
			region_counts[r] = atomicAdd(&a.places.next[r], region_counts[r]);
	__syncthreads();
#pragma unroll
	for (int i = 0; i < EACH; i++)
		if (regions[i] >= 0)
			a.order[atomicAdd(&region_counts[regions[i]], 1u)] =
				(int32_t) (first + i * REGION_THREADS);
	list_tiles(a);
}

/* Puts a slice's rows in the order of their regions, unless they are. */
void
order_rows(Shard &shard, const Slice &slice, const FilterArguments &common)
{
	cudaStream_t stream = shard.device->compute;
	RegionArguments a(shard, common);
	size_t		shared = shard.regions.count * sizeof(uint32_t);
	bool		all = slice.rows == shard.rows;

	if (!shard.regions.left_clear)
		GK_CUDA(cudaMemsetAsync(a.places.left, 0, 2 * sizeof(uint32_t), stream));
	shard.regions.left_clear = false;
	if (all && shard.regions.ordered)
		return;
	GK_CUDA(cudaMemsetAsync(a.places.next, 0, shared, stream));
	choose_kernel<<<blocks_for(shard, (a.rows + 1023) / 1024, 2), 1024, shared, stream>>>
		(a, shard.regions.region_of.get() + slice.first);
	places_kernel<<<1, MOST_REGIONS, 0, stream>>>(a.places);
	order_kernel<<<(unsigned) (a.rows / ORDERED_ROWS + 1), REGION_THREADS, shared, stream>>>(a);
	GK_LAUNCHED("order_rows");
	shard.regions.ordered = all;
}

/* The rows of a block. */
struct RegionRows
{
	float		norm[BLOCK_ROWS];		/* in the scale of the region's centroids */
	float		error[BLOCK_ROWS];
	float		back[BLOCK_ROWS];		/* minus products are multiplied by it */
	float		limit[BLOCK_ROWS];		/* of a flagged row's candidates */
	int32_t		row[BLOCK_ROWS];		/* in the slice; -1 = none */
	uint32_t	flag[BLOCK_ROWS];		/* a flagged row's number in the tile */
	uint32_t	found[BLOCK_ROWS];		/* its candidates */
	uint32_t	flags;					/* flagged rows */
	uint32_t	first_flag;
	uint32_t	reaches[REACHES];		/* rows that need such a reach */
	float		common;					/* from the region's scale to that of all origins */
};

/* A value that is the same in all threads of a block, so that the compiler sees it. */
static __device__ __forceinline__ int
uniform(int value)
{
	return __shfl_sync(0xffffffffu, value, 0);
}

/* The list of a region. */
static __device__ __forceinline__ RegionList
read_list(const RegionList &from)
{
	return {uniform(from.first), uniform(from.count), uniform(from.padded), from.reach};
}

/*
 * A row's values minus the origin, in LANES threads: columns (c LANES + lane) 4 of the thread's
 * chunk c.
 */
template <int CHUNKS> struct RowValues
{
	float4		y[CHUNKS];

	/* A thread's part of |y|². */
	template <typename T> __device__ __forceinline__ T norm2() const
	{
		T			sum = 0;

#pragma unroll
		for (int c = 0; c < CHUNKS; c++)
			sum += square((T) y[c].x) + square((T) y[c].y) + square((T) y[c].z) +
				square((T) y[c].w);
		return sum;
	}
};

/* Subtracts the origin from four values. */
static __device__ __forceinline__ float4
minus(float4 x, float4 p)
{
	return make_float4(x.x - p.x, x.y - p.y, x.z - p.z, x.w - p.w);
}

/* The square of what is lost by rounding two values. */
static __device__ __forceinline__ float
lost_of(float2 y, __half2 rounded)
{
	float2		kept = __half22float2(rounded);

	return square(y.x - kept.x) + square(y.y - kept.y);
}

/*
 * Scales and rounds a row, and stores it as row r of the block's tiles; its bound, as bounds_kernel
 * would have it with this origin.  All lanes of the warp take part.
 */
template <int LANES, int CHUNKS> static __device__ __forceinline__ uint32_t
store_row(const RowValues<CHUNKS> &values, __half *to, int r, int depth)
{
	int			lane = threadIdx.x % LANES;
	float		norm2 = sum_of_lanes<LANES>(values.template norm2<float>());
	float		norm = sqrtf(norm2);
	float		lost2 = 0.0f;
	float		error;
	float		factor;
	uint32_t	code;
	int			exponent;

	/* recomputes squares that may have overflowed a float; the whole warp decides together */
	if (!__all_sync(0xffffffffu, norm2 > 1e-28f && norm2 < 1e36f))
		norm = __double2float_ru(sqrt(sum_of_lanes<LANES>(values.template norm2<double>())));
	norm *= 1.0f + 1.0f / 512;
	/* also if it is NaN */
	code = norm < 1.7e38f ? code_up(norm) : 0x7f80;
	exponent = scale_of_norm(__uint_as_float(code << 16));
	factor = power_of_two(exponent);
#pragma unroll
	for (int c = 0; c < CHUNKS; c++)
	{
		int			j = (c * LANES + lane) * 4;
		float4		y = values.y[c];
		float2		low = {y.x * factor, y.y * factor};
		float2		high = {y.z * factor, y.w * factor};
		__half2		halves[2] = {__float22half2_rn(low), __float22half2_rn(high)};

		lost2 += lost_of(low, halves[0]) + lost_of(high, halves[1]);
		if (j < depth)
			*(uint2 *) (to + j / TILE_COLUMNS * BLOCK_ROWS * TILE_COLUMNS +
						place_of(r, j % TILE_COLUMNS / 8) + j % 8) = *(uint2 *) halves;
	}
	error = sqrtf(sum_of_lanes<LANES>(lost2)) * power_of_two(-exponent) * (1.0f + 1.0f / 512) +
		norm * 0x1p-22f + 0x1p-140f;
	return code << 16 | (code == 0x7f80 ? code : code_up(error));
}

/* Adds a row to what is known of its region's rows. */
static __device__ __forceinline__ void
add_statistics(RowStatistics *statistics, uint32_t code)
{
	float		norm = __uint_as_float(code & 0xffff0000u);

	if (!(norm > 0.0f) || norm > 1e38f)
		return;
	atomicAdd(&statistics->norm_log, (double) log2f(norm));
	atomicAdd(&statistics->error_log, (double) log2f(__uint_as_float(code << 16)));
	atomicAdd(&statistics->count, 1ull);
}

/* Reads and converts the rows of a block, 16 a warp: LANES threads have AHEAD at a time. */
template <int LANES, int CHUNKS, int AHEAD> static __device__ __forceinline__ void
load_rows(const FilterArguments &a, __half *to, RegionRows *shared, RowStatistics *statistics)
{
	constexpr int GROUPS = 32 / LANES;
	bool		aligned = a.d % 4 == 0;
	int			lane = threadIdx.x % LANES;
	int			exponent = a.scale->exponent;

#pragma unroll 1
	for (int first = 0; first < 16; first += GROUPS * AHEAD)
	{
		int			begin = threadIdx.x / 32 * 16 + first + (int) threadIdx.x % 32 / LANES;
		RowValues<CHUNKS> values[AHEAD];

#pragma unroll
		for (int u = 0; u < AHEAD; u++)
		{
			int64_t		row = shared->row[begin + u * GROUPS];

#pragma unroll
			for (int c = 0; c < CHUNKS; c++)
				values[u].y[c] = read_four(row < 0 ? a.origin : a.features + row * a.d,
										   (c * LANES + lane) * 4, a.d, aligned);
		}
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
		{
			int			r = begin + u * GROUPS;
			uint32_t	code;

#pragma unroll
			for (int c = 0; c < CHUNKS; c++)
				values[u].y[c] = minus(values[u].y[c], read_four(a.origin, (c * LANES + lane) * 4,
																 a.d, aligned));
			code = store_row<LANES, CHUNKS>(values[u], to, r, a.depth);
			if (lane == 0)
			{
				RowBound	bound = read_bound(code, exponent);

				shared->norm[r] = bound.norm;
				shared->error[r] = bound.error;
				shared->back[r] = bound.back;
				shared->limit[r] = -INFINITY;
				if (r == 0)
					add_statistics(statistics, code);
			}
		}
	}
}

/* Starts the copy of a tile of the list: some columns of at most 64 centroids. */
static __device__ __forceinline__ void
load_tile(const FilterArguments &a, const RegionList &list, __half *to, int at)
{
	int			tiles = tiles_of(a.depth);
	int			first = at / tiles * REGION_PANEL;
	int			values = min(REGION_PANEL, list.padded - first) * TILE_COLUMNS;
	const __half *source = a.centroids +
		((int64_t) (at % tiles) * list.padded + first) * TILE_COLUMNS;

	for (int i = threadIdx.x * 8; i < values; i += REGION_THREADS * 8)
		copy_16(to + i, source + i);
}

/* Calls finish(sums, column) for each panel of the list, with the products of the block's rows. */
template <typename F> static __device__ __forceinline__ void
multiply_list(const FilterArguments &a, const RegionList &list, const __half *rows, __half *stages,
			  float (&sums)[REGION_EIGHTS][4], F finish)
{
	int			tiles = tiles_of(a.depth);
	int			total = (list.padded + REGION_PANEL - 1) / REGION_PANEL * tiles;

	for (int at = 0; at < total; at++)
	{
		int			tile = at % tiles;
		int			ahead = at + REGION_STAGES - 1;
		int			width = min(TILE_COLUMNS, a.depth - tile * TILE_COLUMNS);

		copy_wait<REGION_STAGES - 2>();
		publish_stores();
		__syncthreads();
		if (ahead < total)
			load_tile(a, list, stages + ahead % REGION_STAGES * STAGE_VALUES, ahead);
		copy_commit();
		multiply_tiles<REGION_PANEL>(sums, rows + tile * BLOCK_ROWS * TILE_COLUMNS,
									 stages + at % REGION_STAGES * STAGE_VALUES, width / 16,
									 tile == 0);
		if (tile == tiles - 1)
			finish(at / tiles * REGION_PANEL + (int) threadIdx.x % 4 * 2);
	}
}

/* Starts the copies of the first tiles. */
static __device__ __forceinline__ void
start_list(const FilterArguments &a, const RegionList &list, __half *stages)
{
	int			total = (list.padded + REGION_PANEL - 1) / REGION_PANEL * tiles_of(a.depth);

	for (int s = 0; s < REGION_STAGES - 1; s++)
	{
		if (s < total)
			load_tile(a, list, stages + s * STAGE_VALUES, s);
		copy_commit();
	}
}

/* Turns the products of a panel into scores; past the list's end they are above every real one. */
static __device__ __forceinline__ void
score_panel(const FilterArguments &a, const RegionList &list, const RegionRows *shared,
			const int r[2], int column, float (&sums)[REGION_EIGHTS][4], float (&least)[1][2])
{
	const float back[2] = {shared->back[r[0]], shared->back[r[1]]};

	make_scores(sums, back, least, [&](int n)
	{
		return column + n * 8 < list.padded ?
			__ldg((const float2 *) (a.lower + column + n * 8)) : make_float2(3.0e38f, 3.0e38f);
	});
}

/* Lists the centroids of a panel that can be nearest to a flagged row of the thread. */
template <int I> static __device__ __forceinline__ void
append_listed(const RegionArguments &all, const RegionList &list, RegionRows *shared, int r,
			  int column, const float (&sums)[REGION_EIGHTS][4])
{
	float		limit = shared->limit[r];
	uint32_t	flag = shared->first_flag + shared->flag[r];

#pragma unroll
	for (int n = 0; n < REGION_EIGHTS; n++)
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (sums[n][I * 2 + i] <= limit && column + n * 8 + i < list.count)
			{
				uint32_t	place = atomicAdd(&shared->found[r], 1u);

				if (place < REGION_CANDIDATES && flag < all.capacity)
					all.flags[flag].candidates[place] =
						__ldg(all.ids + list.first + column + n * 8 + i);
			}
}

/* Lists the candidates of a thread's two rows in a panel, if they are flagged. */
static __device__ __forceinline__ void
append_panel(const RegionArguments &all, const RegionList &list, RegionRows *shared,
			 const int r[2], int column, const float (&sums)[REGION_EIGHTS][4],
			 const float (&least)[1][2])
{
	/* scores may be infinite where a row is left */
	if (isfinite(shared->limit[r[0]]) && least[0][0] <= shared->limit[r[0]])
		append_listed<0>(all, list, shared, r[0], column, sums);
	if (isfinite(shared->limit[r[1]]) && least[0][1] <= shared->limit[r[1]])
		append_listed<1>(all, list, shared, r[1], column, sums);
}

/*
 * An upper bound on the distance between a row and a centroid, from its score: |y - e|² is |y|² and
 * twice what the score is of.
 */
static __device__ __forceinline__ float
distance_of(float norm, float score, float own)
{
	float		norm2 = norm * norm;
	float		distance2 = norm2 + 2.0f * (score + own) + (norm2 + fabsf(score) + own) * 0x1p-18f;

	return sqrtf(fmaxf(distance2, 0.0f)) * (1.0f + 0x1p-18f) + 0x1p-60f;
}

/*
 * The reach that proves that a row with this norm has no nearest centroid outside the list: one
 * so far away is nearer than all that are at least so far from the origin.
 */
static __device__ __forceinline__ float
needed_reach(float norm, float away)
{
	return (norm + away) * (1.0f + 0x1p-10f);
}

/* Labels, flags or leaves row r of the block; true if its candidates are to be listed. */
static __device__ __forceinline__ bool
conclude_row(const FilterArguments &a, const RegionList &list, const int32_t *ids,
			 RegionRows *shared, int r, const Best &best)
{
	RowBound	bound = {shared->norm[r], shared->error[r], 0.0f, shared->back[r]};
	int			row = shared->row[r];
	int			centroid = min(best.centroid, list.count - 1);
	float		own = own_of(a, bound, centroid);
	float		limit = limit_of(best.least, own, row_part(a, bound.norm, bound.error));
	float		away = fminf(bound.norm + __ldg(a.norm + centroid),
							 distance_of(bound.norm, best.least, own));
	float		reach = needed_reach(bound.norm, away);

	if (row < 0)
		return false;
	atomicAdd(&shared->reaches[class_of_reach(reach * shared->common)], 1u);
	if (!isfinite(bound.back) || !(limit < 2.9e38f) || !(reach <= list.reach))
	{
		a.fresh[row] = GK_LEFT;
		return false;
	}
	if (best.second > limit)
	{
		a.fresh[row] = __ldg(ids + centroid);
		return false;
	}
	a.fresh[row] = GK_PENDING;
	shared->flag[r] = atomicAdd(&shared->flags, 1u);
	shared->found[r] = 0;
	shared->limit[r] = limit;
	return true;
}

/* Labels, flags or leaves a thread's two rows; true if candidates are to be listed. */
static __device__ __forceinline__ bool
conclude_both(const FilterArguments &a, const RegionList &list, const int32_t *ids,
			  RegionRows *shared, const int r[2], Best best[2])
{
	bool		flagged = false;

#pragma unroll
	for (int i = 0; i < 2; i++)
	{
		join_four(&best[i]);
		if (threadIdx.x % 4 == 0)
			flagged |= conclude_row(a, list, ids, shared, r[i], best[i]);
	}
	return flagged;
}

/* Adds what reaches the rows of a block need to what those of the region do. */
static __device__ __forceinline__ void
add_reaches(RegionRows *shared, uint32_t *reaches)
{
	for (int i = threadIdx.x; i < REACHES; i += REGION_THREADS)
	{
		if (shared->reaches[i] > 0)
			atomicAdd(&reaches[i], shared->reaches[i]);
		shared->reaches[i] = 0;
	}
}

/* Takes numbers for the flagged rows of a block, by all threads. */
static __device__ __forceinline__ void
take_flags(const RegionArguments &all, RegionRows *shared)
{
	if (threadIdx.x == 0)
		shared->first_flag = atomicAdd(all.places.flags, shared->flags);
	__syncthreads();
}

/*
 * Stores the flagged rows of a block once their candidates are listed, by all threads; leaves those
 * for which there is no room.
 */
static __device__ __forceinline__ void
store_flags(const RegionArguments &all, RegionRows *shared)
{
	__syncthreads();
	for (int r = threadIdx.x; r < BLOCK_ROWS; r += REGION_THREADS)
	{
		uint32_t	flag = shared->first_flag + shared->flag[r];

		if (!isfinite(shared->limit[r]))
			continue;
		if (flag < all.capacity)
		{
			all.flags[flag].row = shared->row[r];
			all.flags[flag].count = (int) min(shared->found[r], REGION_CANDIDATES + 1u);
		}
		if (flag >= all.capacity || shared->found[r] > REGION_CANDIDATES)
			all.fresh[shared->row[r]] = GK_LEFT;
	}
	if (threadIdx.x == 0)
		shared->flags = 0;
}

/* Compares the rows of a tile with the list of their region, and fetches those of the next. */
template <int LANES, int CHUNKS, int AHEAD, typename F> static __device__ __forceinline__ void
compare_tile(const RegionArguments &all, int region, __half *stages, __half *rows,
			 RegionRows *shared, F fetch)
{
	RegionList	list = read_list(all.lists[region]);
	FilterArguments a = all.of(region, list);
	const int32_t *ids = all.ids + list.first;
	const int	r[2] = {row_of_thread(threadIdx.x), row_of_thread(threadIdx.x) + 8};
	float		sums[REGION_EIGHTS][4];
	float		least[1][2];
	Best		best[2] = {{NO_SCORE, NO_SCORE, 0}, {NO_SCORE, NO_SCORE, 0}};
	bool		flagged;

	if (threadIdx.x == 0)
		shared->common = rough_power_of_two(all.common->exponent - a.scale->exponent);
	start_list(a, list, stages);
	load_rows<LANES, CHUNKS, AHEAD>(a, rows, shared, all.statistics + region);
	fetch();
	multiply_list(a, list, rows, stages, sums, [&](int column)
	{
		score_panel(a, list, shared, r, column, sums, least);
		take_panel(sums, least, column, best);
	});
	flagged = uniform(__syncthreads_or(conclude_both(a, list, ids, shared, r, best)));
	add_reaches(shared, all.reaches + region * REACHES);
	if (!flagged)
		return;
	take_flags(all, shared);
	/* the scores of a single panel are still there */
	if (list.padded <= REGION_PANEL)
		append_panel(all, list, shared, r, (int) threadIdx.x % 4 * 2, sums, least);
	else
	{
		start_list(a, list, stages);
		multiply_list(a, list, rows, stages, sums, [&](int column)
		{
			score_panel(a, list, shared, r, column, sums, least);
			append_panel(all, list, shared, r, column, sums, least);
		});
	}
	store_flags(all, shared);
}

/* A thread's row of a tile; -1 = none. */
static __device__ __forceinline__ int32_t
row_of_tile(const RegionArguments &a, const RegionTile &tile)
{
	return (int) threadIdx.x < tile.count ? a.order[tile.from + threadIdx.x] : -1;
}

/* Prefetches a row into the L2 cache. */
static __device__ __forceinline__ void
prefetch_row(const RegionArguments &a, int32_t row)
{
	const char *from = (const char *) (a.features + (int64_t) row * a.d);
	int			bytes = a.d * (int) sizeof(float);

	for (int at = 0; row >= 0 && at < bytes; at += 128)
		asm volatile("prefetch.global.L2 [%0];" :: "l"(from + at));
}

/* Columns of a row up to LANES × CHUNKS × 4. */
template <int LANES, int CHUNKS, int AHEAD> static __global__ void
__launch_bounds__(REGION_THREADS, LANES == 8 ? 3 : LANES == 16 ? 2 : 1)
regions_kernel(RegionArguments a)
{
	extern __shared__ unsigned char region_memory[];
	__half	   *stages = (__half *) (((uintptr_t) region_memory + 1023) / 1024 * 1024);
	__half	   *rows = stages + REGION_STAGES * STAGE_VALUES;
	RegionRows *shared = (RegionRows *) (rows + tiles_of(a.depth) * BLOCK_ROWS * TILE_COLUMNS);
	int			tiles = uniform((int) a.places.tiles[a.places.regions]);
	RegionTile	tile = {};
	int32_t		row = -1;

	/* what a list has too little for a tile remains from before, and must be finite */
	for (int i = threadIdx.x; i < REGION_STAGES * STAGE_VALUES / 8; i += REGION_THREADS)
		((uint4 *) stages)[i] = make_uint4(0, 0, 0, 0);
	for (int i = threadIdx.x; i < REACHES; i += REGION_THREADS)
		shared->reaches[i] = 0;
	if (threadIdx.x == 0)
		shared->flags = 0;
	if ((int) blockIdx.x < tiles)
	{
		tile = a.tiles[blockIdx.x];
		row = row_of_tile(a, tile);
	}
	for (int at = blockIdx.x; at < tiles; at += gridDim.x)
	{
		bool		more = at + (int) gridDim.x < tiles;
		int			region = uniform(tile.region);

		/* all threads are done with the rows before */
		__syncthreads();
		if (threadIdx.x < BLOCK_ROWS)
			shared->row[threadIdx.x] = row;
		__syncthreads();
		if (more)
			tile = a.tiles[at + gridDim.x];
		if (uniform(a.lists[region].count) > 0)
			compare_tile<LANES, CHUNKS, AHEAD>(a, region, stages, rows, shared, [&]()
			{
				row = more ? row_of_tile(a, tile) : -1;
				prefetch_row(a, row);
			});
		else
		{
			if (row >= 0)
				a.fresh[row] = GK_LEFT;
			row = more ? row_of_tile(a, tile) : -1;
		}
	}
	copy_wait<0>();
}

/* Bytes of shared memory for rows of this depth. */
static size_t
region_bytes(int depth)
{
	return 1024 + sizeof(RegionRows) + (REGION_STAGES * STAGE_VALUES +
			(size_t) tiles_of(depth) * BLOCK_ROWS * TILE_COLUMNS) * sizeof(__half);
}

/* True if a block's rows fit its shared memory and the registers. */
bool
filter_regions_fits(const Shard &shard)
{
	return shard.device->major >= 8 && shard.depth <= 768 &&
		region_bytes(shard.depth) <= shard.device->shared_memory;
}

/* Enqueues the kernel. */
template <int LANES, int CHUNKS, int AHEAD> static void
launch(Shard &shard, const RegionArguments &a)
{
	size_t		bytes = region_bytes(a.depth);
	const void *kernel = (const void *) regions_kernel<LANES, CHUNKS, AHEAD>;
	int64_t		tiles = region_tile_count(a.rows, a.places.regions);
	int			per_processor;

	GK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) bytes));
	GK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, REGION_THREADS,
														  bytes));
	regions_kernel<LANES, CHUNKS, AHEAD>
		<<<blocks_for(shard, tiles, per_processor), REGION_THREADS, bytes,
		   shard.device->compute>>>(a);
	GK_LAUNCHED("regions_kernel");
}

/* Fresh labels of the rows of a slice in their order, candidates, or GK_LEFT. */
void
filter_regions(Shard &shard, const FilterArguments &common)
{
	RegionArguments a(shard, common);

	if (a.depth <= 32)
		launch<8, 1, 4>(shard, a);
	else if (a.depth <= 64)
		launch<8, 2, 2>(shard, a);
	else if (a.depth <= 128)
		launch<8, 4, 1>(shard, a);
	else if (a.depth <= 256)
		launch<16, 4, 2>(shard, a);
	else
		launch<32, 6, 1>(shard, a);
}

/* d² of a row and a centroid by the definition. */
static __device__ double
listed_distance(const float *x, const double *c, int d)
{
	double		sum = 0.0;

#pragma unroll 8
	for (int j = 0; j < d; j++)
		sum = gk_add_square(sum, __ldg(x + j), __ldg(c + j));
	return sum;
}

/* Decides among the candidates of flagged rows: four lanes a row. */
static __global__ void
__launch_bounds__(REGION_THREADS)
listed_kernel(RegionArguments a)
{
	constexpr int LANES = 4;
	uint32_t	count = min(*a.places.flags, a.capacity);
	int			lane = threadIdx.x % LANES;
	uint32_t	step = gridDim.x * (REGION_THREADS / LANES);
	uint32_t	first = (blockIdx.x * REGION_THREADS + threadIdx.x) / LANES;

	/* all lanes of a warp stay as long as one has a row */
	for (uint32_t i = first; i - threadIdx.x % 32 / LANES < count; i += step)
	{
		const RegionFlag *flag = &a.flags[min(i, count - 1)];
		int			candidates = flag->count;
		double		best = 0.0;
		int			centroid = INT32_MAX;

		for (int c = lane; c < candidates && candidates <= REGION_CANDIDATES; c += LANES)
		{
			int			its = flag->candidates[c];

			take_nearer(listed_distance(a.features + (int64_t) flag->row * a.d,
										a.exact + (int64_t) its * a.d, a.d), its,
						&best, &centroid);
		}
#pragma unroll
		for (int other = 1; other < LANES; other *= 2)
		{
			double		its = __shfl_xor_sync(0xffffffffu, best, other);
			int			its_centroid = __shfl_xor_sync(0xffffffffu, centroid, other);

			take_nearer(its, its_centroid, &best, &centroid);
		}
		if (lane == 0 && i < count && centroid != INT32_MAX)
			a.fresh[flag->row] = centroid;
	}
}

/* Labels of the rows with several candidates, by the definition. */
void
decide_listed(Shard &shard, const FilterArguments &common)
{
	RegionArguments a(shard, common);

	listed_kernel<<<blocks_for(shard, (a.capacity + 63) / 64, 8), REGION_THREADS, 0,
		shard.device->compute>>>(a);
	GK_LAUNCHED("listed_kernel");
}

/* Lists the rows that are left. */
static __global__ void
left_kernel(RegionArguments a)
{
	for (int64_t row = (int64_t) blockIdx.x * blockDim.x + threadIdx.x; row < a.rows;
		 row += (int64_t) gridDim.x * blockDim.x)
		if (a.fresh[row] == GK_LEFT)
		{
			unsigned	here = __activemask();
			uint32_t	place = take_number(a.places.left);

			a.left[place] = (int32_t) row;
			if ((int) (threadIdx.x % 32) == __ffs(here) - 1)
				atomicAdd(&a.counters->left, (unsigned long long) __popc(here));
		}
}

/* Lists the rows that no region has decided. */
void
list_left(Shard &shard, const FilterArguments &common)
{
	RegionArguments a(shard, common);

	left_kernel<<<blocks_for(shard, (a.rows + 1023) / 1024, 8), 256, 0, shard.device->compute>>>(a);
	GK_LAUNCHED("left_kernel");
}

}								/* namespace gk */
