/*
 * The definition: d² in double, summed in index order, one thread a sum.
 */
#include <algorithm>

#include "exact.h"
#include "exact_tile.cuh"
#include "filter.h"
#include "launch.h"
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

/* Products of a row between checks for the engine being closed. */
#define LOOK_PRODUCTS (1 << 20)

/* Reads a flag of the host, the same for all threads of a block. */
static __device__ __forceinline__ bool
is_set(const volatile int *flag, int *shared)
{
	if (threadIdx.x == 0)
		*shared = *flag;
	__syncthreads();
	return *shared != 0;
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

/* Rows of a block of distance_kernel, and columns of them in shared memory at a time. */
#define PAIRED_ROWS 128
#define PAIRED_COLUMNS 8

/*
 * Some columns of a block's rows and of the centroids of their labels, permuted so that neither
 * threads that write columns of some rows nor those that read one column meet in a bank.
 */
struct PairedColumns
{
	float		x[PAIRED_ROWS][PAIRED_COLUMNS];
	double		c[PAIRED_ROWS][PAIRED_COLUMNS];
	int32_t		labels[PAIRED_ROWS];

	__device__ __forceinline__ float &row(int r, int j)
	{
		return x[r][j ^ (r / 4 % PAIRED_COLUMNS)];
	}

	__device__ __forceinline__ double &centroid(int r, int j)
	{
		return c[r][j ^ (r / 2 % PAIRED_COLUMNS)];
	}
};

/* Columns on their way to shared memory: a thread has one column of every 16th row. */
struct PairedAhead
{
	static constexpr int AT_ONCE = PAIRED_ROWS / PAIRED_COLUMNS;

	float		x[PAIRED_ROWS / AT_ONCE];
	double		c[PAIRED_ROWS / AT_ONCE];

	/* Reads the columns from `from` on; past the end, anything. */
	__device__ __forceinline__ void read(const DistanceArguments &a, const PairedColumns &columns,
										 int64_t first, int from)
	{
		int			j = min(from + (int) threadIdx.x % PAIRED_COLUMNS, a.d - 1);
		int			group = threadIdx.x / PAIRED_COLUMNS;

#pragma unroll
		for (int u = 0; u < PAIRED_ROWS / AT_ONCE; u++)
		{
			int			r = u * AT_ONCE + group;

			x[u] = a.features[min(first + r, a.rows - 1) * a.d + j];
			c[u] = __ldg(a.centroids + (int64_t) columns.labels[r] * a.d + j);
		}
	}

	__device__ __forceinline__ void write(PairedColumns *to) const
	{
#pragma unroll
		for (int u = 0; u < PAIRED_ROWS / AT_ONCE; u++)
		{
			int			r = u * AT_ONCE + threadIdx.x / PAIRED_COLUMNS;

			to->row(r, threadIdx.x % PAIRED_COLUMNS) = x[u];
			to->centroid(r, threadIdx.x % PAIRED_COLUMNS) = c[u];
		}
	}
};

/* d² of a thread's row, whose columns all fit shared memory at once. */
static __device__ __forceinline__ double
short_distance(const DistanceArguments &a, PairedColumns *columns, int64_t first, int valid)
{
	double		sum = 0.0;

	for (int e = threadIdx.x; e < valid * a.d; e += PAIRED_ROWS)
	{
		columns->row(e / a.d, e % a.d) = a.features[first * a.d + e];
		columns->centroid(e / a.d, e % a.d) =
			__ldg(a.centroids + (int64_t) columns->labels[e / a.d] * a.d + e % a.d);
	}
	__syncthreads();
	for (int j = 0; j < a.d; j++)
		sum = gk_add_square(sum, columns->row(threadIdx.x, j), columns->centroid(threadIdx.x, j));
	return sum;
}

/* d² of a thread's row: the next columns are read while those before are added up. */
static __device__ __forceinline__ double
long_distance(const DistanceArguments &a, PairedColumns *columns, int64_t first)
{
	PairedAhead ahead;
	double		sum = 0.0;

	ahead.read(a, *columns, first, 0);
	for (int from = 0; from < a.d; from += PAIRED_COLUMNS)
	{
		__syncthreads();
		ahead.write(columns);
		__syncthreads();
		if (from + PAIRED_COLUMNS < a.d)
			ahead.read(a, *columns, first, from + PAIRED_COLUMNS);
#pragma unroll
		for (int j = 0; j < PAIRED_COLUMNS; j++)
			if (from + j < a.d)
				sum = gk_add_square(sum, columns->row(threadIdx.x, j),
									columns->centroid(threadIdx.x, j));
	}
	return sum;
}

/*
 * d² between each row and the centroid of its label: one thread a row, 128 rows a block.  Both pass
 * through shared memory: a thread by itself would read a few bytes here and there.
 */
template <DistanceUse USE> static __global__ void
__launch_bounds__(PAIRED_ROWS, 6)
distance_kernel(DistanceArguments a)
{
	__shared__ PairedColumns columns;
	double		greatest = 0.0;
	double		greatest_distance = 0.0;
	unsigned	changed = 0;

	for (int64_t first = (int64_t) blockIdx.x * PAIRED_ROWS; first < a.rows;
		 first += (int64_t) gridDim.x * PAIRED_ROWS)
	{
		int64_t		row = first + threadIdx.x;
		int			valid = (int) min((int64_t) PAIRED_ROWS, a.rows - first);
		int32_t		label = row >= a.rows || a.one ? 0 :
			a.fresh != nullptr ? a.fresh[row] : a.labels[row];
		double		sum;

		/* all threads are done with the rows before */
		__syncthreads();
		columns.labels[threadIdx.x] = label;
		__syncthreads();
		sum = a.d <= PAIRED_COLUMNS ? short_distance(a, &columns, first, valid) :
			long_distance(a, &columns, first);
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
	int			blocks = blocks_for(shard, (slice.rows + PAIRED_ROWS - 1) / PAIRED_ROWS, 12);
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
		distance_kernel<USE_DISTANCES><<<blocks, PAIRED_ROWS, 0, stream>>>(a);
	else if (use == USE_ASSIGN)
		distance_kernel<USE_ASSIGN><<<blocks, PAIRED_ROWS, 0, stream>>>(a);
	else
		distance_kernel<USE_CANDIDATES><<<blocks, PAIRED_ROWS, 0, stream>>>(a);
	GK_LAUNCHED("distance_kernel");
}

/* Loads the kernel of distances. */
void
load_distances()
{
	cudaFuncAttributes attributes;

	GK_CUDA(cudaFuncGetAttributes(&attributes,
								  (const void *) distance_kernel<USE_DISTANCES>));
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

/* The state of a row on its way through the groups of points. */
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

/* Feature from + j of a row, or 0 beyond the rows or the `width` features. */
template <typename T> static __device__ __forceinline__ T
value_at(const T *values, int64_t row, int64_t rows, int d, int from, int j, int width)
{
	return row < rows && j < width ? values[row * d + from + j] : (T) 0;
}

/* Adds the squares of a row's next features less those of the points. */
static __device__ __forceinline__ void
add_squares(const float *x, const double (*c)[SEPARATION_POINTS], int width, double *sums)
{
	for (int j = 0; j < width; j++)
#pragma unroll
		for (int q = 0; q < SEPARATION_POINTS; q++)
			sums[q] = gk_add_square(sums[q], x[j], c[j][q]);
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
					x[e / STEP][e % STEP] = value_at(features, first + e / STEP, rows, d, from,
													 e % STEP, width);
				for (int e = threadIdx.x; e < SEPARATION_POINTS * STEP; e += 128)
					c[e % STEP][e / STEP] = value_at(s.at, point + e / STEP, s.points, d, from,
													 e % STEP, width);
				__syncthreads();
				add_squares(x[threadIdx.x], c, width, sums);
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
