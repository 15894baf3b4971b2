/*
 * Products of pairs by the instructions that the filters use, for the check of the tensor cores.
 */
#include <cstring>

#include "filter.cuh"
#include "wgmma.cuh"

namespace gk
{

#define PAIRS 64				/* of a block */
#define PANEL 128				/* centroids that a row is multiplied with */
#define PAIR_THREADS 128

/* Copies a tile of 64 columns of a block's rows or centroids, in the filters' layout. */
static __device__ void
load_pairs(__half *to, const __half *from, int depth, int first)
{
	int			parts = min(TILE_COLUMNS, depth - first) / 8;

	for (int e = threadIdx.x; e < PAIRS * parts; e += PAIR_THREADS)
		*(uint4 *) (to + place_of(e / parts, e % parts)) =
			*(const uint4 *) (from + (int64_t) (e / parts) * depth + first + e % parts * 8);
}

/* Two values of a row or centroid in a tile. */
static __device__ __forceinline__ uint32_t
two_of(const __half *tile, int row, int column)
{
	return *(const uint32_t *) (tile + place_of(row, column / 8) + column % 8);
}

/* A warp's 16 rows times their 16 centroids, by mma.sync. */
static __device__ void
multiply_warp(float (&sums)[2][4], const __half *rows, const __half *centroids, int steps)
{
	int			at = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;

	for (int step = 0; step < steps; step++)
	{
		int			column = step * 16 + threadIdx.x % 4 * 2;
		uint32_t	a[4] = {two_of(rows, at, column), two_of(rows, at + 8, column),
			two_of(rows, at, column + 8), two_of(rows, at + 8, column + 8)};

		for (int n = 0; n < 2; n++)
		{
			uint32_t	b[2] = {two_of(centroids, at + n * 8, column),
				two_of(centroids, at + n * 8, column + 8)};

			multiply(sums[n], a, b);
		}
	}
}

/* Products of pairs by mma.sync: a block has 64. */
static __global__ void
__launch_bounds__(PAIR_THREADS)
warp_kernel(const __half *a, const __half *b, int depth, float *products)
{
	__shared__ alignas(1024) __half rows[PAIRS * TILE_COLUMNS];
	__shared__ alignas(1024) __half centroids[PAIRS * TILE_COLUMNS];
	int64_t		first = (int64_t) blockIdx.x * PAIRS;
	float		sums[2][4] = {};

	for (int from = 0; from < depth; from += TILE_COLUMNS)
	{
		__syncthreads();
		load_pairs(rows, a + first * depth, depth, from);
		load_pairs(centroids, b + first * depth, depth, from);
		__syncthreads();
		multiply_warp(sums, rows, centroids, min(TILE_COLUMNS, depth - from) / 16);
	}
	for (int n = 0; n < 2; n++)
		for (int i = 0; i < 2; i++)
			if (threadIdx.x % 32 / 4 == threadIdx.x % 4 * 2 + i)
				products[first + threadIdx.x / 32 * 16 + n * 8 + threadIdx.x % 32 / 4] =
					sums[n][n * 2 + i];
}

/* A thread's share of a tile of rows, times a tile of centroids, by wgmma from registers. */
template <int N> static __device__ __forceinline__ void
multiply_registers(float (&sums)[N][4], const __half *rows, const __half *centroids, int steps,
				   bool first)
{
#ifdef HAS_WGMMA
	int			at = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;

	for (int step = 0; step < steps; step++)
	{
		int			column = step * 16 + threadIdx.x % 4 * 2;
		uint32_t	a[4] = {two_of(rows, at, column), two_of(rows, at + 8, column),
			two_of(rows, at, column + 8), two_of(rows, at + 8, column + 8)};

		start_products();
		multiply(sums, a, describe_low(shared_address(centroids)) + step * 2,
				 !first || step > 0);
		commit_products();
		wait_products<0>();
	}
#endif
}

/* Products of pairs by wgmma, which has the rows in shared memory or in registers. */
template <bool REGISTERS> static __global__ void
__launch_bounds__(PAIR_THREADS)
warpgroup_kernel(const __half *a, const __half *b, int depth, float *products)
{
#ifdef HAS_WGMMA
	__shared__ alignas(1024) __half rows[PAIRS * TILE_COLUMNS];
	__shared__ alignas(1024) __half centroids[PANEL * TILE_COLUMNS];
	int64_t		first = (int64_t) blockIdx.x * PAIRS;
	float		sums[PANEL / 8][4];

	/* half of the centroids are none */
	for (int e = threadIdx.x; e < PANEL * TILE_COLUMNS; e += PAIR_THREADS)
		centroids[e] = __float2half(0.0f);
	for (int from = 0; from < depth; from += TILE_COLUMNS)
	{
		int			steps = min(TILE_COLUMNS, depth - from) / 16;

		__syncthreads();
		load_pairs(rows, a + first * depth, depth, from);
		load_pairs(centroids, b + first * depth, depth, from);
		publish_stores();
		__syncthreads();
		if (REGISTERS)
			multiply_registers(sums, rows, centroids, steps, from == 0);
		else
			multiply_tile(sums, describe(rows), describe(centroids), steps, from == 0);
		wait_products<0>();
	}
#pragma unroll
	for (int n = 0; n < PAIRS / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
		{
			int			row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 * 8;

			if (row == n * 8 + (int) threadIdx.x % 4 * 2 + i % 2)
				products[first + row] = sums[n][i];
		}
#endif
}

/* Device memory for the products of some pairs. */
struct PairMemory
{
	PairMemory(int depth, int64_t pairs)
	{
		GK_CUDA(cudaMalloc(&data, pairs * (2 * depth * sizeof(__half) + sizeof(float))));
	}
	~PairMemory() { (void) cudaFree(data); }

	void	   *data = nullptr;
};

/* True if there are kernels of warpgroups for a device, which is current. */
bool
has_warpgroups(const Device &device)
{
	cudaFuncAttributes attributes;

	GK_CUDA(cudaFuncGetAttributes(&attributes, (const void *) warpgroup_kernel<false>));
	/* built for another device, the kernel is empty */
	return device.major == 9 && attributes.sharedSizeBytes > 0;
}

/*
 * Products of pairs of 16-bit rows and centroids, as the tensor cores compute them; false if no
 * filter computes them so on this device.
 */
bool
multiply_pairs(const Device &device, const uint16_t *a, const uint16_t *b, int depth, int64_t pairs,
			   Products by, float *products)
{
	auto		kernel = by == BY_WARPS ? warp_kernel :
		by == BY_WARPGROUPS ? warpgroup_kernel<false> : warpgroup_kernel<true>;
	size_t		bytes = pairs * depth * sizeof(__half);

	if (by != BY_WARPS && !device.warpgroups)
		return false;
	GK_CUDA(cudaSetDevice(device.ordinal));

	PairMemory	memory(depth, pairs);
	__half	   *rows = (__half *) memory.data;
	__half	   *centroids = rows + pairs * depth;
	float	   *results = (float *) (centroids + pairs * depth);

	GK_CUDA(cudaMemcpyAsync(rows, a, bytes, cudaMemcpyHostToDevice, device.compute));
	GK_CUDA(cudaMemcpyAsync(centroids, b, bytes, cudaMemcpyHostToDevice, device.compute));
	kernel<<<(unsigned) (pairs / PAIRS), PAIR_THREADS, 0, device.compute>>>
		(rows, centroids, depth, results);
	GK_LAUNCHED("multiply_pairs");
	GK_CUDA(cudaMemcpyAsync(products, results, pairs * sizeof(float), cudaMemcpyDeviceToHost,
							device.compute));
	GK_CUDA(cudaStreamSynchronize(device.compute));
	return true;
}

}								/* namespace gk */

/*
 * For tests: multiply_pairs() on an open device. 1 if the products were computed, 0 if not.
 */
extern "C" __attribute__((visibility("default"))) int
gk_cuda_multiply(int ordinal, const uint16_t *a, const uint16_t *b, int depth, int64_t pairs,
				 int by, float *products)
{
	gk::Device *device = gk::find_device(ordinal);

	try
	{
		return device != nullptr &&
			gk::multiply_pairs(*device, a, b, depth, pairs, (gk::Products) by, products);
	}
	catch (const gk::Failure &)
	{
		return 0;
	}
}
