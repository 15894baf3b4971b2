/*
 * The definition: d² in double, summed in index order, one thread a sum.
 */
#include <algorithm>

#include "exact.h"
#include "exact_tile.cuh"
#include "filter.h"
#include "launch.h"
#include "nearer.cuh"
#include "warp.cuh"

namespace gk
{

/* Raises a maximum of doubles >= 0, held as bits; one atomic operation per warp. */
static __device__ void
raise_maximum(unsigned long long *to, double value)
{
	value = greatest_of_warp(value);
	if (threadIdx.x % 32 == 0 && value > 0.0)
		atomicMax(to, (unsigned long long) __double_as_longlong(value));
}

/* d² by the definition. */
static __device__ double
exact_distance(const float *x, const double *c, int d)
{
	double		sum = 0.0;

	if (d % 2 == 0)
#pragma unroll 8
		for (int j = 0; j < d; j += 2)
		{
			float2		two = __ldg((const float2 *) (x + j));
			double2		centroid = __ldg((const double2 *) (c + j));

			sum = gk_add_square(sum, two.x, centroid.x);
			sum = gk_add_square(sum, two.y, centroid.y);
		}
	else
#pragma unroll 8
		for (int j = 0; j < d; j++)
			sum = gk_add_square(sum, x[j], c[j]);
	return sum;
}

/* Decides among the few candidates of a flagged row: eight lanes a row, several candidates each. */
static __global__ void
candidates_kernel(const float *features, int d, const double *centroids, const uint32_t *flag_count,
				  uint32_t capacity, const int64_t *flag_rows, const uint32_t *candidate_counts,
				  const int32_t *candidates, int32_t *fresh, uint32_t *open_count,
				  Counters *counters)
{
	constexpr int LANES = 8;
	uint32_t	flags = min(*flag_count, capacity);
	int			lane = threadIdx.x % LANES;
	int64_t		step = (int64_t) gridDim.x * blockDim.x / LANES;
	unsigned	group = ((1u << LANES) - 1) << (threadIdx.x % 32 / LANES * LANES);

	if (blockIdx.x == 0 && threadIdx.x == 0)
		atomicMax(&counters->flagged, (unsigned long long) *flag_count);
	for (int64_t flag = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / LANES; flag < flags;
		 flag += step)
	{
		uint32_t	count = candidate_counts[flag];
		int64_t		row = flag_rows[flag];
		double		best = 0.0;
		int			centroid = INT32_MAX;

		if (count == 0 || count > FILTER_CANDIDATES)
		{
			if (lane == 0)
				atomicAdd(open_count, 1u);
			continue;
		}
		for (int c = lane; c < count; c += LANES)
		{
			int			its = candidates[flag * FILTER_CANDIDATES + c];

			take_nearer(exact_distance(features + row * d, centroids + (int64_t) its * d, d), its,
						&best, &centroid);
		}
		for (int other = 1; other < LANES; other *= 2)
		{
			double		its = __shfl_xor_sync(group, best, other);
			int			its_centroid = __shfl_xor_sync(group, centroid, other);

			take_nearer(its, its_centroid, &best, &centroid);
		}
		if (lane == 0)
			fresh[row] = centroid;
	}
}

/* The most rows that a block of pending_kernel scans at a time. */
#define PENDING_ROWS 2048

/* Products of a row between checks for the engine being closed. */
#define LOOK_PRODUCTS (1 << 20)

/* The first centroid with the least d² among those that COUNT threads have found. */
template <int COUNT> static __device__ __forceinline__ int
nearest_of(const double (&least)[COUNT], const int (&which)[COUNT])
{
	double		best = least[0];
	int			centroid = which[0];

	for (int q = 1; q < COUNT; q++)
	{
		double		its = least[q];
		int			its_centroid = which[q];

		if (its_centroid != INT32_MAX && (its < best || (its == best && its_centroid < centroid)))
		{
			best = its;
			centroid = its_centroid;
		}
	}
	return centroid;
}

/* Reads a flag of the host, the same for all threads of a block. */
static __device__ __forceinline__ bool
is_set(const volatile int *flag, int *shared)
{
	if (threadIdx.x == 0)
		*shared = *flag;
	__syncthreads();
	return *shared != 0;
}

/* Lists the pending ones of `span` rows, by all threads; their number ends in *found. */
static __device__ __forceinline__ void
list_pending(const int32_t *fresh, int64_t first, int64_t rows, int span, int *pending, int *found)
{
	__syncthreads();
	if (threadIdx.x == 0)
		*found = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < span && first + i < rows; i += 256)
		if (fresh[first + i] == GK_PENDING)
			pending[atomicAdd(found, 1)] = i;
	__syncthreads();
}

/* Chooses the next 16 of the pending rows, by all threads: their positions, or -1. */
static __device__ __forceinline__ void
choose_pending(int64_t first, const int *pending, int from, int found, int64_t *places)
{
	__syncthreads();
	if (threadIdx.x < 16)
		places[threadIdx.x] = from + threadIdx.x < found ? first + pending[from + threadIdx.x] : -1;
	__syncthreads();
}

/* Stores the nearest centroid among a thread's share of them for its four rows. */
template <int WIDTH> static __device__ __forceinline__ void
store_nearest(const double best[4], const int centroid[4], double (*least)[WIDTH],
			  int (*which)[WIDTH])
{
	for (int i = 0; i < 4; i++)
	{
		least[threadIdx.x / WIDTH * 4 + i][threadIdx.x % WIDTH] = best[i];
		which[threadIdx.x / WIDTH * 4 + i][threadIdx.x % WIDTH] = centroid[i];
	}
}

/*
 * Decides pending rows, if any, among all centroids: a block scans `span` rows at a time.  Once
 * the engine is being closed, they get arbitrary labels.
 */
static __global__ void
__launch_bounds__(256)
pending_kernel(const float *features, int64_t rows, int d, const double *centroids, int64_t count,
			   const uint32_t *flag_count, uint32_t capacity, int span, const volatile int *stop,
			   int32_t *fresh)
{
	constexpr int width = 64;
	int			look = max(LOOK_PRODUCTS / d / width, 1) * width;
	__shared__ int stopped;
	__shared__ ExactTile<width> tile;
	__shared__ int pending[PENDING_ROWS];
	__shared__ int found;
	__shared__ int64_t places[16];
	__shared__ double least[16][width];
	__shared__ int which[16][width];

	/* the second is the number of open rows */
	if (flag_count[0] <= capacity && flag_count[1] == 0)
		return;
	for (int64_t first = (int64_t) blockIdx.x * span; first < rows;
		 first += (int64_t) gridDim.x * span)
	{
		list_pending(fresh, first, rows, span, pending, &found);
		for (int from = 0; from < found; from += 16)
		{
			int			p = threadIdx.x % width;
			double		best[4];
			int			centroid[4] = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};

			choose_pending(first, pending, from, found, places);
			for (int64_t first_centroid = 0; first_centroid < count; first_centroid += width)
			{
				double		sums[4];

				if (first_centroid % look == 0 && is_set(stop, &stopped))
					break;
				tile.run(features, places, centroids, first_centroid, count, d, sums);
				for (int i = 0; i < 4 && first_centroid + p < count; i++)
					if (centroid[i] == INT32_MAX || sums[i] < best[i])
					{
						best[i] = sums[i];
						centroid[i] = (int) (first_centroid + p);
					}
			}
			store_nearest<width>(best, centroid, least, which);
			__syncthreads();
			if (threadIdx.x < 16 && places[threadIdx.x] >= 0)
				fresh[places[threadIdx.x]] = stopped ? 0 :
					nearest_of(least[threadIdx.x], which[threadIdx.x]);
		}
	}
}

/* Decides the rows that the filter has left open. */
void
decide_flagged(Shard &shard, const Slice &slice, const Centroids &centroids)
{
	cudaStream_t stream = shard.device->compute;
	uint32_t	capacity = shard.flag_capacity;
	int64_t		share = slice.rows / (4 * shard.device->processors) / 16 * 16;
	int			span = (int) std::clamp<int64_t>(share, 16, PENDING_ROWS);

	candidates_kernel<<<blocks_for(shard, (slice.rows / 4 + 15) / 16, 16), 128, 0, stream>>>
		(slice.features, shard.dimension, centroids.exact.get(), shard.flag_count.get(), capacity,
		 shard.flag_rows.get(), shard.flag_candidate_counts.get(), shard.flag_candidates.get(),
		 shard.fresh.get(), shard.flag_count.get() + 1, shard.counters.get());
	pending_kernel<<<blocks_for(shard, (slice.rows + span - 1) / span, 4), 256, 0, stream>>>
		(slice.features, slice.rows, shard.dimension, centroids.exact.get(), centroids.count,
		 shard.flag_count.get(), capacity, span, shard.stop_flag, shard.fresh.get());
	GK_LAUNCHED("decide_flagged");
}

/* Rows, the centroids of their labels, and where their d² goes. */
struct DistanceArguments
{
	const float *features;
	const double *weights;
	int64_t		rows;
	int			d;
	const double *centroids;
	const int32_t *fresh;		/* NULL: the labels; with one centroid: 0 */
	int32_t    *labels;
	double	   *distance2;
	int64_t		first_label;
	bool		forget;
	bool		one;
	Counters   *counters;
};

/* Stores the d² of a row. */
template <DistanceUse USE> static __device__ void
take_distance(const DistanceArguments &a, int64_t row, int32_t label, double sum, double *greatest,
			  double *greatest_distance, unsigned *changed)
{
	double		weight = a.weights != nullptr ? a.weights[row] : 1.0;

	if (USE == USE_DISTANCES)
		a.distance2[row] = sum;
	if (USE == USE_ASSIGN)
	{
		a.distance2[row] = sum;
		*changed += a.labels[row] != label;
		a.labels[row] = label;
		*greatest = fmax(*greatest, GK_MUL(weight, sum));
		*greatest_distance = fmax(*greatest_distance, GK_MUL(weight, GK_SQRT(sum)));
	}
	if (USE == USE_CANDIDATES)
	{
		double		now = a.distance2[row];

		if (a.forget || sum < now)
		{
			a.distance2[row] = now = sum;
			a.labels[row] = (int32_t) (a.first_label + label);
		}
		*greatest = fmax(*greatest, GK_MUL(weight, now));
	}
}

/* Copies `width` features of a block's rows, from column `from` on, into shared memory. */
static __device__ __forceinline__ void
load_stage(const DistanceArguments &a, int64_t first, int valid, int from, int width,
		   float (*x)[STEP + 1])
{
	if (width == STEP)
#pragma unroll 16
		for (int e = threadIdx.x; e < valid * STEP; e += 128)
			x[e / STEP][e % STEP] = a.features[(first + e / STEP) * a.d + from + e % STEP];
	else
		for (int e = threadIdx.x; e < valid * width; e += 128)
			x[e / width][e % width] = a.features[(first + e / width) * a.d + from + e % width];
}

/* d² between each row and the centroid of its label: one thread a row, 128 rows a block. */
template <DistanceUse USE> static __global__ void
__launch_bounds__(128)
distance_kernel(DistanceArguments a)
{
	__shared__ float x[128][STEP + 1];
	double		greatest = 0.0;
	double		greatest_distance = 0.0;
	unsigned	changed = 0;

	for (int64_t first = (int64_t) blockIdx.x * 128; first < a.rows;
		 first += (int64_t) gridDim.x * 128)
	{
		int64_t		row = first + threadIdx.x;
		int			valid = (int) min((int64_t) 128, a.rows - first);
		int32_t		label = row >= a.rows || a.one ? 0 :
			a.fresh != nullptr ? a.fresh[row] : a.labels[row];
		const double *c = a.centroids + (int64_t) label * a.d;
		double		sum = 0.0;

		for (int from = 0; from < a.d; from += STEP)
		{
			int			width = min(STEP, a.d - from);

			__syncthreads();
			load_stage(a, first, valid, from, width, x);
			__syncthreads();
			if (row < a.rows && a.d % 2 == 0)
#pragma unroll 8
				for (int j = 0; j < width; j += 2)
				{
					double2		both = __ldg((const double2 *) (c + from + j));

					sum = gk_add_square(sum, x[threadIdx.x][j], both.x);
					sum = gk_add_square(sum, x[threadIdx.x][j + 1], both.y);
				}
			else if (row < a.rows)
				for (int j = 0; j < width; j++)
					sum = gk_add_square(sum, x[threadIdx.x][j], c[from + j]);
		}
		if (row < a.rows)
			take_distance<USE>(a, row, label, sum, &greatest, &greatest_distance, &changed);
	}
	raise_maximum(&a.counters->greatest, greatest);
	raise_maximum(&a.counters->greatest_distance, greatest_distance);
	changed = sum_of_lanes<32>(changed);
	if (threadIdx.x % 32 == 0 && changed > 0)
		atomicAdd(&a.counters->changed, (unsigned long long) changed);
}

/* d² between the rows of a slice and the centroids of their labels. */
void
label_distances(Shard &shard, const Slice &slice, const Centroids &centroids, DistanceUse use,
				int64_t first_label, bool forget)
{
	cudaStream_t stream = shard.device->compute;
	int			blocks = blocks_for(shard, (slice.rows + 127) / 128, 12);
	DistanceArguments a;

	a.features = slice.features;
	a.weights = slice.weights;
	a.rows = slice.rows;
	a.d = shard.dimension;
	a.centroids = centroids.exact.get();
	a.one = centroids.count == 1;
	a.fresh = use == USE_DISTANCES || a.one ? nullptr : shard.fresh.get();
	a.labels = shard.labels.get() + slice.first;
	a.distance2 = shard.distance2.get() + slice.first;
	a.first_label = first_label;
	a.forget = forget;
	a.counters = shard.counters.get();
	if (use == USE_DISTANCES)
		distance_kernel<USE_DISTANCES><<<blocks, 128, 0, stream>>>(a);
	else if (use == USE_ASSIGN)
		distance_kernel<USE_ASSIGN><<<blocks, 128, 0, stream>>>(a);
	else
		distance_kernel<USE_CANDIDATES><<<blocks, 128, 0, stream>>>(a);
	GK_LAUNCHED("distance_kernel");
}

/* Potentials of 8 trials at a time. */
static __global__ void
__launch_bounds__(256)
potentials_kernel(const float *features, const double *weights, const double *distance2,
				  int64_t rows, int d, const double *trials, int count, double scale, int64_t *sums)
{
	constexpr int width = 8;
	__shared__ ExactTile<width> tile;
	__shared__ int64_t places[128];
	int			p = threadIdx.x % width;
	int			group = threadIdx.x / width;

	for (int first_trial = 0; first_trial < count; first_trial += width)
	{
		int64_t		total = 0;

		for (int64_t first = (int64_t) blockIdx.x * 128; first < rows;
			 first += (int64_t) gridDim.x * 128)
		{
			double		d2[4];

			__syncthreads();
			if (threadIdx.x < 128)
				places[threadIdx.x] = first + threadIdx.x < rows ? first + threadIdx.x : -1;
			__syncthreads();
			tile.run(features, places, trials, first_trial, count, d, d2);
			for (int i = 0; i < 4; i++)
			{
				int64_t		row = first + group * 4 + i;

				if (row >= rows)
					continue;
				if (!(d2[i] < distance2[row]))
					d2[i] = distance2[row];
				total += gk_quantize(GK_MUL(weights != nullptr ? weights[row] : 1.0, d2[i]), scale);
			}
		}
		/* lanes of one trial are `width` apart */
		total = sum_of_lanes<32 / width, width>(total);
		if (threadIdx.x % 32 < width && first_trial + p < count && total != 0)
			atomicAdd((unsigned long long *) &sums[first_trial + p], (unsigned long long) total);
	}
}

/* Adds a slice's rows to the potentials of the trials. */
void
potentials_slice(Shard &shard, const Slice &slice, const double *trials, int count, double scale,
				 int64_t *sums)
{
	potentials_kernel<<<blocks_for(shard, (slice.rows + 127) / 128, 8), 256, 0,
		shard.device->compute>>>
		(slice.features, slice.weights, shard.distance2.get() + slice.first, slice.rows,
		 shard.dimension, trials, count, scale, sums);
	GK_LAUNCHED("potentials_kernel");
}

/* Points that a thread of separation_kernel takes at a time. */
#define SEPARATION_POINTS 8

/* What a row has found so far among the groups of points. */
struct SeparationState
{
	double		sum = 0.0;			/* over the points of this group */
	double		own = 0.0;
	double		other = INFINITY;
	int64_t		group = 0;
	int64_t		begin = 0;			/* its first point */
	int64_t		end;				/* and the one after its last */

	/* Takes the next point: its distance, or d² where a group is one point. */
	__device__ __forceinline__ void take(const Separation &s, int64_t point, int32_t label,
										 double distance)
	{
		double		mean;

		sum = GK_ADD(sum, distance);
		if (point + 1 < end)
			return;
		mean = s.single ? sum : GK_DIV(sum, (double) (end - begin));
		if (group == label)
			own = sum;
		else
			other = mean < other ? mean : other;
		sum = 0.0;
		begin = end;
		if (++group < s.groups)
			end = __ldg((const long long *) s.ends + group);
	}
};

/* A distance from its square. */
static __device__ __forceinline__ double
separation_distance(bool cosine, double distance2)
{
	return cosine ? GK_MUL(0.5, distance2) : GK_SQRT(distance2);
}

/*
 * Distances to the points of the own group and of the nearest other one: a thread has a row, and
 * goes through the points in their order.  They are anything once the engine is being closed.
 */
static __global__ void
__launch_bounds__(128)
separation_kernel(const float *features, int64_t rows, int d, Separation s, const int32_t *labels,
				  double *own, double *other, const volatile int *stop)
{
	int64_t		look = max(LOOK_PRODUCTS / d / SEPARATION_POINTS, 1) * SEPARATION_POINTS;
	__shared__ float x[128][STEP + 1];
	__shared__ double c[STEP][SEPARATION_POINTS];
	__shared__ int stopped;

	for (int64_t first = (int64_t) blockIdx.x * 128; first < rows;
		 first += (int64_t) gridDim.x * 128)
	{
		int64_t		row = first + threadIdx.x;
		int32_t		label = row < rows ? labels[row] : -1;
		SeparationState state;

		state.end = s.ends[0];
		for (int64_t point = 0; point < s.points; point += SEPARATION_POINTS)
		{
			double		sums[SEPARATION_POINTS] = {};

			if (point % look == 0 && is_set(stop, &stopped))
				break;
			for (int from = 0; from < d; from += STEP)
			{
				int			width = min(STEP, d - from);

				__syncthreads();
				for (int e = threadIdx.x; e < 128 * STEP && (point == 0 || d > STEP); e += 128)
				{
					int			r = e / STEP;
					int			j = e % STEP;

					x[r][j] = first + r < rows && j < width ?
						features[(first + r) * d + from + j] : 0.0f;
				}
				for (int e = threadIdx.x; e < SEPARATION_POINTS * STEP; e += 128)
				{
					int			q = e / STEP;
					int			j = e % STEP;

					c[j][q] = point + q < s.points && j < width ?
						s.at[(point + q) * d + from + j] : 0.0;
				}
				__syncthreads();
				for (int j = 0; j < width; j++)
#pragma unroll
					for (int q = 0; q < SEPARATION_POINTS; q++)
						sums[q] = gk_add_square(sums[q], x[threadIdx.x][j], c[j][q]);
			}
#pragma unroll
			for (int q = 0; q < SEPARATION_POINTS; q++)
				if (point + q < s.points)
					state.take(s, point + q, label, s.single ? sums[q] :
							   separation_distance(s.cosine, sums[q]));
		}
		if (row < rows)
		{
			own[row] = s.single ? separation_distance(s.cosine, state.own) : state.own;
			other[row] = s.single ? separation_distance(s.cosine, state.other) : state.other;
		}
		__syncthreads();
	}
}

/* Measures some rows against the points. */
void
separation_slice(Shard &shard, const float *features, int64_t rows, const Separation &separation,
				 const int32_t *labels, double *own, double *other)
{
	separation_kernel<<<blocks_for(shard, (rows + 127) / 128, 8), 128, 0, shard.device->compute>>>
		(features, rows, shard.dimension, separation, labels, own, other, shard.stop_flag);
	GK_LAUNCHED("separation_kernel");
}

}								/* namespace gk */
