/*
 * Passes over all rows by column: range, moments, transform; and by label: statistics and weights.
 */
#include "exact.h"
#include "launch.h"
#include "warp.cuh"

namespace gk
{

/* to += value in global memory. */
static __device__ __forceinline__ void
add_global(int64_t *to, int64_t value)
{
	if (value != 0)
		atomicAdd((unsigned long long *) to, (unsigned long long) value);
}

/* A float as an integer that orders alike. */
static __device__ __forceinline__ uint32_t
ordered(float x)
{
	uint32_t	bits = __float_as_uint(x);

	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/*
 * Maps threads to columns: several threads a column for narrow rows, several columns a thread
 * for wide ones.  A block takes a run of consecutive rows.
 */
struct Columns
{
	__device__ Columns(int64_t rows, int d)
	{
		int			lanes = max(1, (int) blockDim.x / d);
		int64_t		share = (rows + gridDim.x - 1) / gridDim.x;

		first_column = d < (int) blockDim.x ? threadIdx.x % d : threadIdx.x;
		first_row = blockIdx.x * share + (d < (int) blockDim.x ? threadIdx.x / d : 0);
		end_row = min(rows, (blockIdx.x + 1) * share);
		row_step = lanes;
		if (d < (int) blockDim.x && (int) threadIdx.x >= lanes * d)
			first_column = d;
	}

	int			first_column;
	int64_t		first_row;
	int64_t		end_row;
	int64_t		row_step;
};

/* True of whole numbers below 2^22; of greater numbers, it means nothing. */
static __device__ __forceinline__ bool
is_whole(float x)
{
	return __fadd_rn(__fadd_rn(x, 0x1.8p23f), -0x1.8p23f) == x;
}

/*
 * Least and greatest value of each column, and of the weights; *fractions becomes 1 if a value is
 * no whole number.
 */
static __global__ void
range_kernel(const float *features, const double *weights, int64_t rows, int d, uint32_t *least,
			 uint32_t *greatest, unsigned long long *weight_bits, unsigned long long *fractions)
{
	Columns		mine(rows, d);
	Columns		weight_rows(rows, 1);

	for (int j = mine.first_column; j < d; j += blockDim.x)
	{
		uint32_t	low = 0xffffffffu;
		uint32_t	high = 0;
		bool		whole = true;

		for (int64_t row = mine.first_row; row < mine.end_row; row += mine.row_step)
		{
			float		value = features[row * d + j];
			uint32_t	x = ordered(value);

			low = min(low, x);
			high = max(high, x);
			whole &= is_whole(value);
		}
		if (!whole)
			*fractions = 1;
		if (low <= high)
		{
			atomicMin(&least[j], low);
			atomicMax(&greatest[j], high);
		}
	}
	if (weights == nullptr)
		return;
	for (int64_t row = weight_rows.first_row; row < weight_rows.end_row;
		 row += weight_rows.row_step)
	{
		unsigned long long bits = (unsigned long long) __double_as_longlong(weights[row]);

		/* -0 is not above 0 */
		bits = bits == 0x8000000000000000ull ? 0 : bits;
		atomicMin(&weight_bits[0], bits);
		atomicMax(&weight_bits[1], bits);
	}
}

/* Extends the range by a slice. */
void
range_slice(Shard &shard, const Slice &slice, uint32_t *least, uint32_t *greatest,
			unsigned long long *weight_bits, unsigned long long *fractions)
{
	range_kernel<<<blocks_for(shard, (slice.rows + 63) / 64, 8), 256, 0, shard.device->compute>>>
		(slice.features, slice.weights, slice.rows, shard.dimension, least, greatest, weight_bits,
		 fractions);
	GK_LAUNCHED("range_kernel");
}

/* Adds a share of the weights to the moments: the last column of the sums. */
static __device__ __forceinline__ void
add_weight_moments(const double *weights, int64_t rows, int d, const MomentGrid &grid,
				   int64_t *sums)
{
	Columns		mine(rows, 1);
	int64_t		high = 0;
	int64_t		low = 0;
	int64_t		exponents = 0;
	int64_t		nonzero = 0;

	for (int64_t row = mine.first_row; row < mine.end_row; row += mine.row_step)
	{
		double		weight = weights != nullptr ? weights[row] : 1.0;

		high += gk_quantize(weight, grid.weight_scale);
		low += gk_quantize_rest(weight, grid.weight_scale, grid.rest_scale);
		if (weight != 0.0)
		{
			exponents += gk_exponent_double(weight);
			nonzero++;
		}
	}
	add_global(&sums[d], high);
	add_global(&sums[(d + 1) + d], low);
	add_global(&sums[4 * (d + 1) + d], exponents);
	add_global(&sums[5 * (d + 1) + d], nonzero);
}

/*
 * Fixed-point moments, six rows of d + 1 sums: Σz high and low, Σz² high and low, exponents,
 * count of nonzeros; the last column is for the weights.
 */
static __global__ void
moments_kernel(const float *features, const double *weights, int64_t rows, int d, MomentGrid grid,
			   int64_t *sums)
{
	Columns		mine(rows, d);

	for (int j = mine.first_column; j < d; j += blockDim.x)
	{
		double		pivot = grid.pivot[j];
		double		first_scale = grid.first_scales[j];
		double		second_scale = grid.second_scales[j];
		int64_t		total[6] = {};

		for (int64_t row = mine.first_row; row < mine.end_row; row += mine.row_step)
		{
			float		x = features[row * d + j];
			double		z = GK_SUB((double) x, pivot);
			double		z2 = GK_MUL(z, z);

			total[0] += gk_quantize(z, first_scale);
			total[1] += gk_quantize_rest(z, first_scale, grid.rest_scale);
			total[2] += gk_quantize(z2, second_scale);
			total[3] += gk_quantize_rest(z2, second_scale, grid.rest_scale);
			if (x != 0.0f)
			{
				total[4] += gk_exponent(x);
				total[5]++;
			}
		}
		for (int i = 0; i < 6; i++)
			add_global(&sums[i * (d + 1) + j], total[i]);
	}
	add_weight_moments(weights, rows, d, grid, sums);
}

/* Adds a slice to the moments. */
void
moments_slice(Shard &shard, const Slice &slice, const MomentGrid &grid, int64_t *sums)
{
	moments_kernel<<<blocks_for(shard, (slice.rows + 63) / 64, 8), 256, 0, shard.device->compute>>>
		(slice.features, slice.weights, slice.rows, shard.dimension, grid, sums);
	GK_LAUNCHED("moments_kernel");
}

/* Shifts and scales rows in place, and divides them by their norm if asked; 128 rows a block. */
static __global__ void
__launch_bounds__(128)
transform_kernel(float *features, int64_t rows, int d, const double *offset, const double *factor,
				 bool normalize)
{
	__shared__ float x[128][33];
	__shared__ double norms[128];

	for (int64_t first = (int64_t) blockIdx.x * 128; first < rows;
		 first += (int64_t) gridDim.x * 128)
	{
		int			valid = (int) min((int64_t) 128, rows - first);
		double		norm2 = 0.0;

		for (int from = 0; from < d; from += 32)
		{
			int			width = min(32, d - from);

			__syncthreads();
			for (int e = threadIdx.x; e < valid * width; e += 128)
			{
				int			j = from + e % width;
				float	   *at = features + (first + e / width) * d + j;
				float		moved =
					__fadd_rn((float) GK_MUL(GK_SUB((double) *at, offset[j]), factor[j]), 0.0f);

				*at = moved;
				x[e / width][e % width] = moved;
			}
			__syncthreads();
			if (threadIdx.x < valid)
				for (int j = 0; j < width; j++)
				{
					double		value = x[threadIdx.x][j];

					norm2 = GK_ADD(norm2, GK_MUL(value, value));
				}
		}
		if (!normalize)
			continue;
		norms[threadIdx.x] = norm2 > 0.0 ? GK_SQRT(norm2) : 0.0;
		__syncthreads();
		for (int64_t e = threadIdx.x; e < (int64_t) valid * d; e += 128)
		{
			float	   *at = features + first * d + e;
			double		norm = norms[e / d];

			if (norm > 0.0)
				*at = __fadd_rn((float) GK_DIV((double) *at, norm), 0.0f);
		}
	}
}

/* Transforms the rows of a slice. */
void
transform_slice(Shard &shard, const Slice &slice, const double *offset, const double *factor,
				bool normalize)
{
	transform_kernel<<<blocks_for(shard, (slice.rows + 127) / 128, 16), 128, 0,
		shard.device->compute>>>
		(slice.features, slice.rows, shard.dimension, offset, factor, normalize);
	GK_LAUNCHED("transform_kernel");
}

/* Adds up the values of lanes with equal labels, then adds them to the sums. */
template <int COUNT> static __device__ void
add_by_label(int64_t *sums, int32_t label, bool valid, int64_t values[COUNT])
{
	unsigned	lanes = __ballot_sync(0xffffffffu, valid);
	int			lane = threadIdx.x % 32;

	while (lanes != 0)
	{
		int			leader = __ffs(lanes) - 1;
		int32_t		one = __shfl_sync(0xffffffffu, label, leader);
		unsigned	group = __ballot_sync(0xffffffffu, label == one) & lanes;
		bool		in_group = (group >> lane & 1) != 0;

		lanes &= ~group;
		if (__popc(group) == 1)
		{
			if (in_group)
				for (int i = 0; i < COUNT; i++)
					add_global(&sums[(int64_t) one * COUNT + i], values[i]);
			continue;
		}
		for (int i = 0; i < COUNT; i++)
		{
			int64_t		total = in_group ? values[i] : 0;

			total = sum_of_lanes<32>(total);
			if (lane == leader)
				add_global(&sums[(int64_t) one * COUNT + i], total);
		}
	}
}

/*
 * For each cluster: rows; weights, inertia and distance in two limbs each; after all these, the
 * greatest d² as bits.
 */
static __global__ void
statistics_kernel(const double *weights, const double *distance2, const int32_t *labels,
				  int64_t rows, int64_t k, StatisticsGrid grid, int64_t *sums)
{
	int			lane = threadIdx.x % 32;
	int64_t		step = (int64_t) gridDim.x * blockDim.x;
	unsigned long long *radius2 = (unsigned long long *) (sums + k * 7);

	for (int64_t first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x - lane; first < rows;
		 first += step)
	{
		int64_t		row = first + lane;
		bool		valid = row < rows;
		int32_t		label = valid ? labels[row] : -1;
		double		weight = valid && weights != nullptr ? weights[row] : 1.0;
		double		d2 = valid ? distance2[row] : 0.0;
		double		inertia = GK_MUL(weight, d2);
		double		distance = GK_MUL(weight, GK_SQRT(d2));
		unsigned long long bits = (unsigned long long) __double_as_longlong(d2);
		int64_t		values[7];

		values[0] = 1;
		values[1] = gk_quantize(weight, grid.weight_scale);
		values[2] = gk_quantize_rest(weight, grid.weight_scale, grid.rest_scale);
		values[3] = gk_quantize(inertia, grid.inertia_scale);
		values[4] = gk_quantize_rest(inertia, grid.inertia_scale, grid.rest_scale);
		values[5] = gk_quantize(distance, grid.distance_scale);
		values[6] = gk_quantize_rest(distance, grid.distance_scale, grid.rest_scale);
		add_by_label<7>(sums, label, valid, values);
		if (valid && radius2[label] < bits)
			atomicMax(&radius2[label], bits);
	}
}

/* Adds a slice to the statistics of the clusters. */
void
statistics_slice(Shard &shard, const Slice &slice, const StatisticsGrid &grid, int64_t *sums)
{
	statistics_kernel<<<blocks_for(shard, (slice.rows + 255) / 256, 8), 256, 0,
		shard.device->compute>>>
		(slice.weights, shard.distance2.get() + slice.first, shard.labels.get() + slice.first,
		 slice.rows, shard.centroids.count, grid, sums);
	GK_LAUNCHED("statistics_kernel");
}

/* For each label: the weights in two limbs. */
static __global__ void
label_weights_kernel(const double *weights, const int32_t *labels, int64_t rows,
					 const double *scale, bool wide, double rest_scale, int64_t *sums)
{
	int			lane = threadIdx.x % 32;
	int64_t		step = (int64_t) gridDim.x * blockDim.x;

	for (int64_t first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x - lane; first < rows;
		 first += step)
	{
		int64_t		row = first + lane;
		bool		valid = row < rows;
		double		weight = valid && weights != nullptr ? weights[row] : 1.0;
		int64_t		values[2];

		values[0] = gk_quantize(weight, *scale);
		values[1] = wide ? gk_quantize_rest(weight, *scale, rest_scale) : 0;
		add_by_label<2>(sums, valid ? labels[row] : -1, valid, values);
	}
}

/* Adds the weights of a slice's rows to their labels' weights. */
void
label_weights_slice(Shard &shard, const Slice &slice, const Grid &grid, int64_t *sums)
{
	label_weights_kernel<<<blocks_for(shard, (slice.rows + 255) / 256, 8), 256, 0,
		shard.device->compute>>>
		(slice.weights, shard.labels.get() + slice.first, slice.rows,
		 shard.grid_scales.get() + shard.dimension, grid.wide, gk_power_of_two(grid.rest_bits),
		 sums);
	GK_LAUNCHED("label_weights_kernel");
}

}								/* namespace gk */
