/*
 * Hashes of rows, masses by hash, and lists of wanted rows.
 */
#include "exact.h"
#include "hashes.cuh"
#include "launch.h"
#include "warp.cuh"

namespace gk
{

/* Gathers the values of some rows, one block a row. */
template <typename T> static __global__ void
gather_kernel(const T *values, int width, const int64_t *rows, T *to)
{
	int64_t		row = rows[blockIdx.x];

	for (int j = threadIdx.x; j < width; j += blockDim.x)
		to[(int64_t) blockIdx.x * width + j] = values[row * width + j];
}

/* Gathers the values of some rows, `width` each. */
template <typename T> void
gather_rows(Shard &shard, const T *values, int width, const int64_t *rows, int64_t count, T *to)
{
	shard.use();
	gather_kernel<<<(unsigned) count, width < 128 ? 32 : 128, 0, shard.device->compute>>>
		(values, width, rows, to);
	GK_LAUNCHED("gather_kernel");
}

template void gather_rows(Shard &, const float *, int, const int64_t *, int64_t, float *);
template void gather_rows(Shard &, const double *, int, const int64_t *, int64_t, double *);
template void gather_rows(Shard &, const int32_t *, int, const int64_t *, int64_t, int32_t *);

/* The rows of a slice. */
RowArguments
row_arguments(Shard &shard, const Slice &slice)
{
	RowArguments a;

	a.features = slice.features;
	a.weights = slice.weights;
	a.distance2 = shard.distance2.get() == nullptr ? nullptr : shard.distance2.get() + slice.first;
	a.rows = slice.rows;
	a.first = slice.first;
	a.d = shard.dimension;
	a.hash_heads = shard.hash_heads.get() == nullptr ? nullptr :
		shard.hash_heads.get() + slice.first;
	a.heads_valid = a.hash_heads != nullptr && shard.hash_heads_valid;
	a.width = 1;
	while (a.width < 32 && a.width * 4 <= a.d)
		a.width *= 2;
	return a;
}

/* Keeps the leading bits of the hashes: 32 rows a warp. */
static __global__ void
heads_kernel(RowArguments a)
{
	int64_t		step = (int64_t) gridDim.x * blockDim.x;

	for (int64_t first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x / 32 * 32;
		 first < a.rows; first += step)
		(void) head_of_hash(a, first);
}

/* Keeps the leading bits of the hashes of a slice's rows, for which there is room. */
void
hash_slice(Shard &shard, const Slice &slice)
{
	heads_kernel<<<blocks_for(shard, (slice.rows + 63) / 64, 16), 64, 0, shard.device->compute>>>
		(row_arguments(shard, slice));
	GK_LAUNCHED("heads_kernel");
}

/* Masses by bucket: 32 rows a warp. */
static __global__ void
masses_kernel(RowArguments a, Mass mass, int bits, int64_t *buckets)
{
	int			lane = threadIdx.x % 32;
	int64_t		step = (int64_t) gridDim.x * blockDim.x;
	int64_t		total = 0;

	for (int64_t first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x - lane; first < a.rows;
		 first += step)
	{
		int64_t		row = first + lane;
		int64_t		mine = row < a.rows ? mass_of(a, mass, row) : 0;
		uint64_t	hash;

		if (bits == 0)
		{
			total += mine;
			continue;
		}
		hash = head_of_hash(a, first);
		if (mine != 0)
			atomicAdd((unsigned long long *) &buckets[gk_hash_bucket(hash, bits)],
					  (unsigned long long) mine);
	}
	if (bits != 0)
		return;
	total = sum_of_lanes<32>(total);
	if (lane == 0)
		atomicAdd((unsigned long long *) buckets, (unsigned long long) total);
}

/* Adds the masses of a slice's rows to their buckets. */
void
masses_slice(Shard &shard, const Slice &slice, const Mass &mass, int bits, int64_t *buckets)
{
	masses_kernel<<<blocks_for(shard, (slice.rows + 255) / 256, 8), 256, 0, shard.device->compute>>>
		(row_arguments(shard, slice), mass, bits, buckets);
	GK_LAUNCHED("masses_kernel");
}

/* Lists the wanted rows, in no particular order. */
static __global__ void
list_kernel(RowArguments a, Wanted wanted, Listed *list, uint64_t capacity, Counters *counters)
{
	int			lane = threadIdx.x % 32;
	int64_t		step = (int64_t) gridDim.x * blockDim.x;

	for (int64_t first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x - lane; first < a.rows;
		 first += step)
	{
		int64_t		row = first + lane;
		bool		can = row < a.rows;
		uint64_t	key = can && wanted.buckets == nullptr ?
			(uint64_t) __double_as_longlong(a.distance2[row]) : 0;
		int64_t		mass = 0;
		uint64_t	hash;

		if (can && wanted.buckets != nullptr)
		{
			mass = mass_of(a, wanted.mass, row);
			can = mass > 0;
		}
		else if (can)
			can = (a.weights == nullptr || a.weights[row] > 0.0) &&
				(wanted.only_equal ? key == wanted.key : key >= wanted.key);
		if (can && wanted.buckets != nullptr && a.heads_valid)
			can = wanted.buckets[gk_hash_bucket((uint64_t) a.hash_heads[row] << 32,
												wanted.bits)] != 0;
		if (!__any_sync(0xffffffffu, can))
			continue;
		hash = hash_wanted(a, first, __ballot_sync(0xffffffffu, can));
		if (can && wanted.buckets != nullptr)
			can = wanted.buckets[gk_hash_bucket(hash, wanted.bits)] != 0;
		else if (can)
			can = wanted.only_equal ? hash == wanted.hash_limit :
				key > wanted.key || hash <= wanted.hash_limit;
		if (can)
		{
			unsigned long long place = atomicAdd(&counters->listed, 1ull);

			if (place < capacity)
			{
				list[place].row = a.first + row;
				list[place].hash = hash;
				list[place].mass = mass;
				list[place].distance2 = __longlong_as_double((long long) key);
			}
		}
	}
}

/* Lists the wanted rows of a slice; counters->listed is their number. */
void
list_slice(Shard &shard, const Slice &slice, const Wanted &wanted, Listed *list, uint64_t capacity)
{
	list_kernel<<<blocks_for(shard, (slice.rows + 255) / 256, 8), 256, 0, shard.device->compute>>>
		(row_arguments(shard, slice), wanted, list, capacity, shard.counters.get());
	GK_LAUNCHED("list_kernel");
}

/* Counts rows by some bits of their key. */
static __global__ void
histogram_kernel(RowArguments a, Digit digit, unsigned long long *counts)
{
	__shared__ unsigned found[DIGIT_VALUES];
	int			lane = threadIdx.x % 32;
	int64_t		step = (int64_t) gridDim.x * blockDim.x;

	for (int i = threadIdx.x; i < DIGIT_VALUES; i += blockDim.x)
		found[i] = 0;
	__syncthreads();
	for (int64_t first = (int64_t) blockIdx.x * blockDim.x + threadIdx.x - lane; first < a.rows;
		 first += step)
	{
		int64_t		row = first + lane;
		bool		can = row < a.rows && (a.weights == nullptr || a.weights[row] > 0.0);
		uint64_t	key = can ? (uint64_t) __double_as_longlong(a.distance2[row]) : 0;
		int			bin;
		unsigned	group;

		if (digit.of_hash)
		{
			can = can && key == digit.distance;
			if (!__any_sync(0xffffffffu, can))
				continue;
			key = hash_rows(a.features, a.weights, first, a.rows, a.d, a.width);
		}
		else
			key <<= 1;
		if (digit.known < 64)
		{
			can = can && key >> digit.known == digit.prefix;
			key &= (UINT64_C(1) << digit.known) - 1;
		}
		bin = can ? (int) (key >> digit.shift) : -1;
		group = __match_any_sync(0xffffffffu, bin);
		if (can && lane == __ffs(group) - 1)
			atomicAdd(&found[bin], (unsigned) __popc(group));
	}
	__syncthreads();
	for (int i = threadIdx.x; i < DIGIT_VALUES; i += blockDim.x)
		if (found[i] > 0)
			atomicAdd(&counts[i], (unsigned long long) found[i]);
}

/* Counts a slice's rows by some bits of d² or, if d² is known, of the hash. */
void
histogram_slice(Shard &shard, const Slice &slice, const Digit &digit, unsigned long long *counts)
{
	histogram_kernel<<<blocks_for(shard, (slice.rows + 1023) / 1024, 2), 1024, 0,
		shard.device->compute>>>
		(row_arguments(shard, slice), digit, counts);
	GK_LAUNCHED("histogram_kernel");
}

/* Loads the kernels that list the farthest rows and gather them. */
void
load_lists()
{
	cudaFuncAttributes attributes;

	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) histogram_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) list_kernel));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) gather_kernel<float>));
	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) gather_kernel<int32_t>));
}

/* The order of a row and another one: a warp a pair. */
static __global__ void
compare_kernel(const float *features, const double *weights, int d, const RowPair *pairs,
			   int64_t count, const float *others, const double *other_weights, int8_t *order)
{
	int			lane = threadIdx.x % 32;
	int64_t		step = (int64_t) gridDim.x * blockDim.x / 32;

	for (int64_t i = ((int64_t) blockIdx.x * blockDim.x + threadIdx.x) / 32; i < count; i += step)
	{
		RowPair		pair = pairs[i];
		int			result = 0;

		for (int base = 0; base < d && result == 0; base += 32)
		{
			int			j = base + lane;
			uint32_t	left = j < d ? __float_as_uint(features[pair.row * d + j]) : 0;
			uint32_t	right = j < d ? __float_as_uint(others[pair.other * d + j]) : 0;
			unsigned	differing = __ballot_sync(0xffffffffu, left != right);

			if (differing != 0)
				result = __shfl_sync(0xffffffffu, left < right ? -1 : 1, __ffs(differing) - 1);
		}
		if (result == 0 && weights != nullptr)
		{
			uint64_t	left = (uint64_t) __double_as_longlong(weights[pair.row]);
			uint64_t	right = (uint64_t) __double_as_longlong(other_weights[pair.other]);

			result = (left > right) - (left < right);
		}
		if (lane == 0)
			order[i] = (int8_t) result;
	}
}

/* Compares resident rows with others that have been copied to the device. */
void
compare_pairs(Shard &shard, const RowPair *pairs, int64_t count, const float *others,
			  const double *other_weights, int8_t *order)
{
	compare_kernel<<<blocks_for(shard, (count + 7) / 8, 8), 256, 0, shard.device->compute>>>
		(shard.device_features(), shard.weighted ? shard.device_weights() : nullptr,
		 shard.dimension, pairs, count, others, other_weights, order);
	GK_LAUNCHED("compare_kernel");
}

}								/* namespace gk */
