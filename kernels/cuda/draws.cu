/*
 * Which rows contain the points that are drawn on their line (GK_DRAW).
 *
 * The line is cut into buckets by the leading bits of the hash.  From where each bucket begins, the
 * points find theirs; the rows of these buckets are listed, and chained by bucket.  Within a chain,
 * which is short, a row begins behind all rows whose hashes are less.
 */
#include "draws.cuh"

namespace gk
{

#define THREADS 256
#define TILE_VALUES (THREADS * 8)	/* that a block adds up */

/* The sum of each tile of values. */
template <typename T> static __global__ void
__launch_bounds__(THREADS)
sums_kernel(const T *values, int64_t count, T *sums)
{
	int64_t		first = (int64_t) blockIdx.x * TILE_VALUES;
	T			sum = 0;
	T			all;

	for (int64_t i = first + threadIdx.x; i < min(count, first + TILE_VALUES); i += THREADS)
		sum += values[i];
	(void) sum_before<THREADS>(sum, &all);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = all;
}

/* Replaces values by the sum of those before; behind the last one comes the sum of all. */
template <typename T> static __global__ void
__launch_bounds__(THREADS)
places_kernel(T *values, int64_t count, const T *sums)
{
	const int	width = TILE_VALUES / THREADS;
	int64_t		first = (int64_t) blockIdx.x * TILE_VALUES + threadIdx.x * width;
	T			mine[width];
	T			sum = 0;
	T			before;
	T			all;

	for (int64_t i = threadIdx.x; i < blockIdx.x; i += THREADS)
		sum += sums[i];
	(void) sum_before<THREADS>(sum, &before);
	sum = 0;
#pragma unroll
	for (int i = 0; i < width; i++)
	{
		mine[i] = first + i < count ? values[first + i] : 0;
		sum += mine[i];
	}
	before += sum_before<THREADS>(sum, &all);
#pragma unroll
	for (int i = 0; i < width; i++)
	{
		if (first + i < count)
			values[first + i] = before;
		before += mine[i];
		if (first + i == count - 1)
			values[count] = before;
	}
}

/* Enqueues both. */
template <typename T> static void
sum_up(Shard &shard, T *values, int64_t count, T *sums)
{
	unsigned	tiles = (unsigned) ((count + TILE_VALUES - 1) / TILE_VALUES);

	if (tiles > 1)
		sums_kernel<<<tiles, THREADS, 0, shard.device->compute>>>(values, count, sums);
	places_kernel<<<tiles, THREADS, 0, shard.device->compute>>>(values, count, sums);
	GK_LAUNCHED("places_kernel");
}

/* Sums that sum_up() needs room for. */
int64_t
draw_tiles(int bits)
{
	return ((INT64_C(1) << bits) + TILE_VALUES - 1) / TILE_VALUES;
}

/* Draws the points, and marks their buckets; the list of rows is empty then. */
static __global__ void
point_kernel(Draw s, Counters *counters)
{
	int64_t		i = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
	int64_t		total = s.begins[INT64_C(1) << s.bits];

	if (i == 0)
		counters->listed = 0;
	if (i < s.count && total > 0)
		draw_point(s, i, total);
}

/* How many rows are in the list. */
static __device__ __forceinline__ int64_t
listed_rows(const Draw &s, const Counters *counters)
{
	return (int64_t) min(counters->listed, (unsigned long long) s.capacity);
}

/* Chains the listed rows by bucket. */
static __global__ void
chain_kernel(Draw s, const Counters *counters)
{
	int64_t		rows = listed_rows(s, counters);
	int64_t		step = (int64_t) gridDim.x * blockDim.x;

	for (int64_t i = (int64_t) blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += step)
		chain_row(s, i);
}

/* Marks the rows that contain points: a warp a point. */
static __global__ void
mark_kernel(Draw s, const Counters *counters)
{
	int64_t		i = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32;

	if (i >= s.count || s.begins[INT64_C(1) << s.bits] <= 0)
		return;
	if (counters->listed > (unsigned long long) s.capacity || !mark_row(s, s.points[i]))
		s.end->is_left = 1;
}

/* Writes the numbers of the drawn rows in the order of the line, and what the draw came to. */
static __global__ void
order_kernel(Draw s, const Counters *counters)
{
	int64_t		rows = listed_rows(s, counters);
	int64_t		step = (int64_t) gridDim.x * blockDim.x;
	int64_t		first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;

	if (first == 0)
	{
		s.end->total = s.begins[INT64_C(1) << s.bits];
		s.end->found = s.drawn[INT64_C(1) << s.bits];
	}
	if (s.end->is_left)
		return;
	for (int64_t i = first; i < rows; i += step)
		place_drawn(s, i);
}

/* Begins with the masses of the buckets: draws the points, and marks the buckets to be listed. */
void
draw_points(Shard &shard, const Draw &draw)
{
	shard.use();
	sum_up(shard, draw.begins, INT64_C(1) << draw.bits, draw.begin_sums);
	point_kernel<<<(unsigned) ((draw.count + THREADS - 1) / THREADS), THREADS, 0,
		shard.device->compute>>>
		(draw, shard.counters.get());
	GK_LAUNCHED("point_kernel");
}

/* Goes on with the list of their rows: finds those that contain points. */
void
find_drawn_rows(Shard &shard, const Draw &draw)
{
	cudaStream_t stream = shard.device->compute;
	const Counters *counters = shard.counters.get();
	int			blocks = blocks_for(shard, (draw.capacity + THREADS - 1) / THREADS, 8);

	shard.use();
	chain_kernel<<<blocks, THREADS, 0, stream>>>(draw, counters);
	GK_LAUNCHED("chain_kernel");
	mark_kernel<<<(unsigned) ((draw.count * 32 + THREADS - 1) / THREADS), THREADS, 0, stream>>>
		(draw, counters);
	GK_LAUNCHED("mark_kernel");
	sum_up(shard, draw.drawn, INT64_C(1) << draw.bits, draw.drawn_sums);
	order_kernel<<<blocks, THREADS, 0, stream>>>(draw, counters);
	GK_LAUNCHED("order_kernel");
}

/* Gathers the features of the drawn rows, also as doubles unless NULL: a block a row. */
static __global__ void
gather_drawn_kernel(Draw s, double *wide)
{
	const float *from = s.features + s.rows[blockIdx.x] * s.d;
	int64_t		to = (int64_t) blockIdx.x * s.d;

	for (int j = threadIdx.x; j < s.d; j += blockDim.x)
	{
		s.drawn_features[to + j] = from[j];
		if (wide != nullptr)
			wide[to + j] = from[j];
	}
}

/* Gathers the features of as many drawn rows as there are. */
void
gather_drawn(Shard &shard, const Draw &draw, int64_t found, double *wide)
{
	shard.use();
	gather_drawn_kernel<<<(unsigned) found, draw.d < 128 ? 32 : 128, 0, shard.device->compute>>>
		(draw, wide);
	GK_LAUNCHED("gather_drawn_kernel");
}

/* Makes doubles of floats. */
static __global__ void
widen_kernel(const float *from, int64_t count, double *to)
{
	int64_t		step = (int64_t) gridDim.x * blockDim.x;

	for (int64_t i = (int64_t) blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
		to[i] = from[i];
}

/* Features as doubles. */
void
widen_features(Shard &shard, const float *from, int64_t count, double *to)
{
	shard.use();
	widen_kernel<<<blocks_for(shard, (count + THREADS - 1) / THREADS, 8), THREADS, 0,
		shard.device->compute>>>
		(from, count, to);
	GK_LAUNCHED("widen_kernel");
}

}								/* namespace gk */
