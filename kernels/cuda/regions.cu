/*
 * Regions on the device: their origins, and the lists of centroids near them.
 */
#include <cmath>

#include <cub/block/block_scan.cuh>

#include "accumulation.h"
#include "centroids.cuh"
#include "reaches.cuh"
#include "region_norms.cuh"

namespace gk
{

#define REGION_THREADS 256

/* A warp's d² between two rows, roughly. */
static __device__ __forceinline__ float
rough_distance2(const float *a, const float *b, int d)
{
	float		sum = 0.0f;

	for (int j = threadIdx.x % 32; j < d; j += 32)
		sum += square(a[j] - b[j]);
	return sum_of_lanes<32>(sum);
}

/* Copies rows of a slice that are far apart. */
static __global__ void
sample_kernel(const float *features, int64_t rows, int d, Sample sample)
{
	for (int64_t i = (int64_t) blockIdx.x * blockDim.x + threadIdx.x;
		 i < (int64_t) sample.count * d;
		 i += (int64_t) gridDim.x * blockDim.x)
		sample.rows[i] = features[rows * (i / d) / sample.count * d + i % d];
}

/* Takes a sample of a slice's rows. */
void
take_sample(Shard &shard, const Slice &slice, const Sample &sample)
{
	sample_kernel<<<4 * shard.device->processors, 256, 0, shard.device->compute>>>
		(slice.features, slice.rows, shard.dimension, sample);
	GK_LAUNCHED("sample_kernel");
}

/* How far some rows are from the nearest other than them and from all: a row of blocks for each. */
static __global__ void
__launch_bounds__(REGION_THREADS)
gaps_kernel(Sample sample, int d, Gap *gaps)
{
	int			warps = gridDim.y * (REGION_THREADS / 32);
	int			its = (int) ((int64_t) sample.count * blockIdx.x / gridDim.x);
	float		least = INFINITY;
	float		sum = 0.0f;

	for (int i = blockIdx.y * (REGION_THREADS / 32) + threadIdx.x / 32; i < sample.count;
		 i += warps)
	{
		float		distance2 = rough_distance2(sample.rows + (int64_t) i * d,
												sample.rows + (int64_t) its * d, d);

		least = i == its || distance2 == 0.0f ? least : fminf(least, distance2);
		sum += distance2;
	}
	if (threadIdx.x % 32 > 0)
		return;
	/* inverted, the least is the greatest, and 0 is more than all */
	atomicMax(&gaps[blockIdx.x].nearest, ~__float_as_uint(least));
	atomicAdd(&gaps[blockIdx.x].sum2, sum);
}

/* Measures the gaps around some rows of the sample; they are 0 before. */
void
measure_gaps(Shard &shard, const Sample &sample, Gap *gaps, int count)
{
	gaps_kernel<<<dim3(count, 16), REGION_THREADS, 0, shard.device->compute>>>
		(sample, shard.dimension, gaps);
	GK_LAUNCHED("gaps_kernel");
}

/* The row of the sample that is a seed. */
static __device__ __forceinline__ const float *
seed_of(const Sample &sample, int i, int d)
{
	return sample.rows + (i == 0 ? 0 : (int64_t) (sample.farthest[i] & 0xffffffffu)) * d;
}

/*
 * Takes seeds from .. to - 1 into account for the nearest seed of each row, and offers the farthest
 * row of each block: a warp a row.
 */
static __global__ void
__launch_bounds__(REGION_THREADS)
nearest_seed_kernel(Sample sample, int d, int from, int to)
{
	__shared__ unsigned long long most;

	if (threadIdx.x == 0)
		most = 0;
	__syncthreads();
	for (int i = blockIdx.x + threadIdx.x / 32 * gridDim.x; i < sample.count;
		 i += gridDim.x * (REGION_THREADS / 32))
	{
		float		least = from > 0 ? sample.nearest2[i] : INFINITY;
		int			region = from > 0 ? sample.regions[i] : 0;

#pragma unroll 4
		for (int s = from; s < to; s++)
		{
			float		distance2 = rough_distance2(sample.rows + (int64_t) i * d,
													seed_of(sample, s, d), d);

			region = distance2 < least ? s : region;
			least = fminf(distance2, least);
		}
		if (threadIdx.x % 32 == 0)
		{
			sample.regions[i] = (uint16_t) region;
			sample.nearest2[i] = least;
			atomicMax(&most, (unsigned long long) __float_as_uint(least) << 32 | (uint32_t) i);
		}
	}
	__syncthreads();
	if (threadIdx.x == 0)
		sample.offers[blockIdx.x] = most;
}

/* Takes seeds from .. to - 1 into account for the nearest seed of each row. */
void
find_nearest_seeds(Shard &shard, const Sample &sample, int from, int to)
{
	nearest_seed_kernel<<<SEED_OFFERS, REGION_THREADS, 0, shard.device->compute>>>
		(sample, shard.dimension, from, to);
	GK_LAUNCHED("nearest_seed_kernel");
}

/* d² between the rows that can be seeds: a block for each. */
static __global__ void
__launch_bounds__(REGION_THREADS)
between_kernel(Sample sample, int d)
{
	const float *its = sample.rows + (int64_t) (sample.offers[blockIdx.x] & 0xffffffffu) * d;

	for (int i = threadIdx.x / 32; i < SEED_OFFERS; i += REGION_THREADS / 32)
	{
		float		distance2 =
			rough_distance2(its, sample.rows + (int64_t) (sample.offers[i] & 0xffffffffu) * d, d);

		if (threadIdx.x % 32 == 0)
			sample.between[blockIdx.x * SEED_OFFERS + i] = distance2;
	}
}

/* The greatest of the threads' numbers, by a block of SEED_OFFERS. */
static __device__ __forceinline__ unsigned long long
greatest_of_offers(unsigned long long mine)
{
	__shared__ unsigned long long greatest[SEED_OFFERS / 32];

#pragma unroll
	for (int other = 16; other > 0; other /= 2)
		mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, other));
	/* all threads are done with those before */
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		greatest[threadIdx.x / 32] = mine;
	__syncthreads();
	for (int i = 0; i < SEED_OFFERS / 32; i++)
		mine = max(mine, greatest[i]);
	return mine;
}

/*
 * Picks the next seeds, at most `most` in all, among the rows that blocks have offered: each as far
 * as can be from those before, until only rows are left that are much nearer, for which others may
 * have been better.
 */
static __global__ void
__launch_bounds__(SEED_OFFERS)
pick_kernel(Sample sample, int count, int most)
{
	unsigned long long offer = sample.offers[threadIdx.x];
	float		distance2 = __uint_as_float((uint32_t) (offer >> 32));
	float		first = 0.0f;

	for (; count < most; count++)
	{
		unsigned long long best = greatest_of_offers(
			(unsigned long long) __float_as_uint(distance2) << 32 | threadIdx.x);
		float		its = __uint_as_float((uint32_t) (best >> 32));
		int			which = (int) (best & 0xffffffffu);

		first = fmaxf(first, its);
		if (!(its > 0.0f) || its * 2.0f < first)
			break;
		if ((int) threadIdx.x == which)
			sample.farthest[count] =
				(unsigned long long) __float_as_uint(its) << 32 | (uint32_t) offer;
		distance2 = fminf(distance2, sample.between[which * SEED_OFFERS + threadIdx.x]);
	}
	if (threadIdx.x == 0)
		sample.farthest[0] = (unsigned long long) count;
}

/* Picks the next seeds after `count`, at most `most` in all. */
void
pick_seeds(Shard &shard, const Sample &sample, int count, int most)
{
	between_kernel<<<SEED_OFFERS, REGION_THREADS, 0, shard.device->compute>>>
		(sample, shard.dimension);
	pick_kernel<<<1, SEED_OFFERS, 0, shard.device->compute>>>(sample, count, most);
	GK_LAUNCHED("pick_seeds");
}

/* Copies the seeds as origins. */
static __global__ void
origins_kernel(Sample sample, int d, float *origins)
{
	const float *seed = seed_of(sample, blockIdx.x, d);

	for (int j = threadIdx.x; j < d; j += blockDim.x)
		origins[(int64_t) blockIdx.x * d + j] = seed[j];
}

/* How far the rows of the sample are from the origins of their regions: a warp a row. */
static __global__ void
__launch_bounds__(REGION_THREADS)
own_origin_kernel(Sample sample, int d, const float *origins)
{
	int			its = (blockIdx.x * REGION_THREADS + threadIdx.x) / 32;
	float		distance2;

	if (its >= sample.count)
		return;
	distance2 = rough_distance2(sample.rows + (int64_t) its * d,
								origins + (int64_t) sample.regions[its] * d, d);
	if (threadIdx.x % 32 == 0)
		sample.nearest2[its] = distance2;
}

/* Makes the mean of a region's rows of the sample its origin, if there are any: a block. */
static __global__ void
__launch_bounds__(REGION_THREADS)
center_kernel(Sample sample, int d, float *origins, double *centers)
{
	extern __shared__ double center_sums[];
	__shared__ int found;
	int			lane = threadIdx.x % 32;

	for (int j = threadIdx.x; j < d; j += REGION_THREADS)
		center_sums[j] = 0.0;
	if (threadIdx.x == 0)
		found = 0;
	__syncthreads();
	for (int first = threadIdx.x / 32 * 32; first < sample.count; first += REGION_THREADS)
	{
		int			i = first + lane;
		unsigned	own = __ballot_sync(0xffffffffu, i < sample.count &&
										sample.regions[i] == blockIdx.x);

		if (lane == 0 && own != 0)
			atomicAdd(&found, __popc(own));
		for (; own != 0; own &= own - 1)
		{
			int64_t		row = first + __ffs((int) own) - 1;

			for (int j = lane; j < d; j += 32)
				atomicAdd(&center_sums[j], (double) sample.rows[row * d + j]);
		}
	}
	__syncthreads();
	for (int j = threadIdx.x; j < d; j += REGION_THREADS)
	{
		int64_t		at = (int64_t) blockIdx.x * d + j;
		float		value = found > 0 ? (float) (center_sums[j] / found) : origins[at];

		origins[at] = centers[at] = isfinite(value) ? value : 0.0f;
	}
}

/* Sets the origins of the regions: the means of the sampled rows that are nearest to a seed. */
void
set_region_origins(Shard &shard, const Sample &sample)
{
	cudaStream_t stream = shard.device->compute;
	const Regions &r = shard.regions;
	int			d = shard.dimension;
	int			blocks = (sample.count + REGION_THREADS / 32 - 1) / (REGION_THREADS / 32);

	origins_kernel<<<r.count, 128, 0, stream>>>(sample, d, r.origins);
	center_kernel<<<r.count, REGION_THREADS, d * sizeof(double), stream>>>
		(sample, d, r.origins, r.centers.exact.get());
	own_origin_kernel<<<blocks, REGION_THREADS, 0, stream>>>(sample, d, r.origins);
	GK_LAUNCHED("set_region_origins");
}

/* Upper bounds of the norms of all centroids in the spaces of all regions. */
static __global__ void
__launch_bounds__(REGION_THREADS)
region_norms_kernel(NormArguments a)
{
	measure_norms(a, blockIdx.x);
}

/* Finds how far the centroids are for which a region's origin is the nearest. */
static __global__ void
share_out_kernel(const float *norms, int regions, int64_t count, float *radii)
{
	constexpr int PARTS = REGION_THREADS / 32;
	__shared__ float least[PARTS][32];
	__shared__ int which[PARTS][32];
	int			lane = threadIdx.x % 32;
	int			part = threadIdx.x / 32;
	int64_t		c = (int64_t) blockIdx.x * 32 + lane;
	float		best = INFINITY;
	int			region = 0;

#pragma unroll 4
	for (int r = part; r < regions && c < count; r += PARTS)
	{
		float		norm = norms[(int64_t) r * count + c];

		region = norm < best ? r : region;
		best = fminf(norm, best);
	}
	least[part][lane] = best;
	which[part][lane] = region;
	__syncthreads();
	if (part > 0 || c >= count)
		return;
	for (int i = 1; i < PARTS; i++)
		if (least[i][lane] < best)
		{
			best = least[i][lane];
			region = which[i][lane];
		}
	/* norms are not negative, so their bits are in their order */
	atomicMax((int *) &radii[region], __float_as_int(best));
}

/* The two least norms of a region, by a block: the least is mostly that of the origin itself. */
static __device__ float
second_norm(const float *norms, int64_t count)
{
	__shared__ float least[REGION_THREADS];
	__shared__ float second[REGION_THREADS];
	float		one = INFINITY;
	float		two = INFINITY;

	for (int64_t c = threadIdx.x; c < count; c += REGION_THREADS)
	{
		two = fminf(two, fmaxf(one, norms[c]));
		one = fminf(one, norms[c]);
	}
	least[threadIdx.x] = one;
	second[threadIdx.x] = two;
	for (int step = REGION_THREADS / 2; step > 0; step /= 2)
	{
		__syncthreads();
		if ((int) threadIdx.x < step)
		{
			float		other = least[threadIdx.x + step];

			second[threadIdx.x] = fminf(fminf(second[threadIdx.x], second[threadIdx.x + step]),
										fmaxf(least[threadIdx.x], other));
			least[threadIdx.x] = fminf(least[threadIdx.x], other);
		}
	}
	__syncthreads();
	return second[0];
}

/* The arguments of the kernels that make lists. */
struct ListArguments
{
	explicit ListArguments(Shard &shard)
		: exact(shard.centroids.exact.get()), count(shard.centroids.count), d(shard.dimension),
		  depth(shard.depth), gamma(accumulation_bound(shard.device->accumulation, shard.depth)),
		  most(shard.regions.most), room((uint32_t) shard.regions.room),
		  origins(shard.regions.origins),
		  norms(shard.regions.norms), radii(shard.regions.radii),
		  limits(shard.regions.limits), lists(shard.regions.lists), scales(shard.regions.scales),
		  statistics(shard.regions.statistics), reaches(shard.regions.reaches),
		  common(shard.regions.centers.scale.get()), used(shard.regions.used),
		  left(left_count(shard)),
		  ids(shard.regions.ids), rounded(shard.regions.rounded),
		  lower(shard.regions.lower), slack(shard.regions.slack),
		  norm(shard.regions.norm), error(shard.regions.error)
	{
	}

	const double *exact;
	int64_t		count;
	int			d;
	int			depth;
	double		gamma;
	int			most;
	uint32_t	room;
	const float *origins;
	const float *norms;
	float	   *radii;
	float	   *limits;
	RegionList *lists;
	CentroidScale *scales;
	RowStatistics *statistics;
	uint32_t   *reaches;
	const CentroidScale *common;	/* the scale of all origins */
	uint32_t   *used;
	uint32_t   *left;			/* 2: as left_count() */
	int32_t    *ids;
	__half	   *rounded;
	float	   *lower;
	float	   *slack;
	float	   *norm;
	float	   *error;
};

/* Finds room for the list of a region; none for one that is too long. */
static __device__ RegionList
place_list(const ListArguments &a, int count, float greatest, float least, float limit)
{
	int			padded = (count + LIST_STEP - 1) / LIST_STEP * LIST_STEP;
	/* rows are about half as far as the limit: their scale must not be very different */
	int			exponent = scale_of_norm(fmaxf(greatest, fminf(limit, 1e37f) * 0x1p-8f));
	CentroidScale *scale = &a.scales[blockIdx.x];
	RegionList	list = {0, 0, 0, 0.0f};
	uint32_t	first;

	if (padded > a.most || !(greatest < 1e37f))
		return list;
	first = atomicAdd(a.used, (uint32_t) padded);
	if (first + padded > a.room)
		return list;
	*scale = {};
	scale->exponent = exponent;
	list.first = (int) first;
	list.count = count;
	list.padded = padded;
	list.reach = INFINITY;
	if (count < a.count)
		list.reach = __double2float_rd(ldexp(fmin((double) least, 3.4e38) * (1.0 - 0x1p-18) -
											 0x1p-118, exponent));
	return list;
}

/* Rows that are left are compared with all centroids, at so many times the cost. */
#define COST_OF_LEFT 2

/* Of what rows of a sample need, others need so much. */
#define SAMPLED_MARGIN (1.0f + 1.0f / 32)

/*
 * The limit of a region's list that costs least: a longer list leaves fewer rows, as far as rows
 * have said what they need.  By a block; NaN if none have.
 */
static __device__ float
cheapest_limit(const ListArguments &a, const float *norms)
{
	typedef cub::BlockScan<uint32_t, REGION_THREADS> Scan;
	__shared__ typename Scan::TempStorage memory;
	constexpr int EACH = REACHES / REGION_THREADS;
	__shared__ uint32_t near[REACHES];
	__shared__ unsigned long long least;
	const uint32_t *reaches = a.reaches + (int64_t) blockIdx.x * REACHES;
	float		scale = rough_power_of_two(a.common->exponent);
	int			first = threadIdx.x * EACH;
	uint32_t	rows[EACH];
	uint32_t	listed[EACH];
	uint32_t	all;

	if (threadIdx.x == 0)
		least = ~0ull;
	for (int i = 0; i < EACH; i++)
	{
		rows[i] = reaches[first + i];
		near[first + i] = 0;
	}
	__syncthreads();
	for (int64_t c = threadIdx.x; c < a.count; c += REGION_THREADS)
		atomicAdd(&near[class_of_reach(norms[c] * scale)], 1u);
	Scan(memory).InclusiveSum(rows, rows, all);
	__syncthreads();
	for (int i = 0; i < EACH; i++)
		listed[i] = near[first + i];
	Scan(memory).InclusiveSum(listed, listed);
	for (int i = 0; i < EACH; i++)
		if (all > 0 && listed[i] > 0 && listed[i] <= (uint32_t) a.most)
		{
			unsigned long long cost = (unsigned long long) all * ((listed[i] + 63) / 64 * 64) +
				(unsigned long long) (all - rows[i]) * COST_OF_LEFT * (unsigned long long) a.count;

			/* of equals, the shortest */
			atomicMin(&least, cost * REACHES + (unsigned) (first + i));
		}
	__syncthreads();
	return least == ~0ull ? __int_as_float(0x7fc00000) :
		reach_of_class((int) (least % REACHES)) / scale;
}

/*
 * How far from the origin centroids of the list may be: as far as is cheapest or, if rows have not
 * said what they need since the list before, as far as then.  As long as they have said nothing, as
 * far as rows can need it that are no farther from their centroid than neighbours from each other.
 */
static __device__ float
limit_of_list(const ListArguments &a, const float *norms, bool tight)
{
	float		radius = a.radii[blockIdx.x];
	float		before = a.limits[blockIdx.x];
	float		limit = cheapest_limit(a, norms);
	float		second = second_norm(norms, a.count);

	if (tight)
		return radius + second;
	if (isnan(limit))
		return before > 0.0f ? before : 3.0f * radius + 2.0f * second;
	/* all threads have read it */
	if (threadIdx.x == 0)
		a.limits[blockIdx.x] = limit;
	return limit;
}

/* Lists the centroids of a region: a block. */
static __global__ void
__launch_bounds__(REGION_THREADS)
list_kernel(ListArguments a, bool tight)
{
	const float *norms = a.norms + (int64_t) blockIdx.x * a.count;
	__shared__ int found;
	__shared__ int greatest;
	__shared__ int least;
	__shared__ RegionList list;
	float		limit = limit_of_list(a, norms, tight);

	if (threadIdx.x == 0)
	{
		found = greatest = 0;
		least = __float_as_int(INFINITY);
	}
	__syncthreads();
	for (int64_t c = threadIdx.x; c < a.count; c += REGION_THREADS)
		if (norms[c] <= limit)
		{
			atomicAdd(&found, 1);
			atomicMax(&greatest, __float_as_int(norms[c]));
		}
		else
			atomicMin(&least, __float_as_int(norms[c]));
	__syncthreads();
	if (threadIdx.x == 0)
	{
		list = place_list(a, found, __int_as_float(greatest), __int_as_float(least),
						  limit);
		a.lists[blockIdx.x] = list;
		found = 0;
	}
	__syncthreads();
	for (int64_t c = threadIdx.x; c < a.count && list.count > 0; c += REGION_THREADS)
		if (norms[c] <= limit)
			a.ids[list.first + atomicAdd(&found, 1)] = (int32_t) c;
	for (int i = list.count + threadIdx.x; i < list.padded; i += REGION_THREADS)
		a.ids[list.first + i] = 0;
	/* rows without a list will not say it again */
	for (int i = threadIdx.x; i < REACHES && list.count > 0; i += REGION_THREADS)
		a.reaches[(int64_t) blockIdx.x * REACHES + i] = 0;
}

/* Rounds the centroids of a list to 16 bits: one warp a centroid. */
static __global__ void
__launch_bounds__(REGION_THREADS)
round_list_kernel(ListArguments a)
{
	RegionList	list = a.lists[blockIdx.x];
	const float *origin = a.origins + (int64_t) blockIdx.x * a.d;
	int			warps = gridDim.y * (REGION_THREADS / 32);
	CentroidScale *scale = &a.scales[blockIdx.x];
	double		factor = list.count > 0 ? ldexp(1.0, scale->exponent) : 0.0;

	for (int i = blockIdx.y * (REGION_THREADS / 32) + threadIdx.x / 32; i < list.padded;
		 i += warps)
	{
		const double *c =
			i < list.count ? a.exact + (int64_t) a.ids[list.first + i] * a.d : nullptr;
		__half	   *rounded = a.rounded + (int64_t) list.first * tiles_of(a.depth) * TILE_COLUMNS;

		round_centroid(c, origin, a.d, a.depth, factor, a.gamma, [&](int j)
		{
			return rounded + (int64_t) (j / TILE_COLUMNS * list.padded) * TILE_COLUMNS +
				place_of(i, j % TILE_COLUMNS / 8) + j % 8;
		}, [&](double length, double missed)
		{
			store_bounds(list.first + i, length, missed, 1.0, a.norm, a.error, scale);
		});
	}
}

/* The mean of logarithms, or a guess if there are none. */
static __device__ double
mean_log(double sum, double count, double guess)
{
	return count > 0.0 ? sum / count : guess;
}

/* The quotients of the split, from the rows of the region, or from its centroids. */
static __device__ void
choose_split(const CentroidScale &scale, const RowStatistics &rows, double *lambda, double *mu)
{
	double		count = (double) rows.count;
	double		norm = mean_log(scale.norm_log, scale.weight, 0.0);
	double		error = mean_log(scale.error_log, scale.weight, norm - 12.0);
	double		row_norm = mean_log(rows.norm_log + count * scale.exponent, count, norm);
	double		row_error = mean_log(rows.error_log + count * scale.exponent, count,
									 row_norm - 12.0);

	*lambda = safe_power(error - row_norm);
	*mu = safe_power(norm - row_error);
}

/* The lower bounds of |e|²/2 of a list; clears what the filter and the next lists count. */
static __global__ void
__launch_bounds__(REGION_THREADS)
lower_list_kernel(ListArguments a)
{
	RegionList	list = a.lists[blockIdx.x];
	CentroidScale *scale = &a.scales[blockIdx.x];
	const RowStatistics rows = a.statistics[blockIdx.x];
	double		lambda;
	double		mu;

	if (blockIdx.x == 0 && threadIdx.x < 2)
		a.left[threadIdx.x] = 0;
	if (blockIdx.x == 0 && threadIdx.x == 0)
		*a.used = 0;
	if (list.count == 0)
		return;
	choose_split(*scale, rows, &lambda, &mu);
	for (int i = threadIdx.x; i < list.padded; i += REGION_THREADS)
	{
		int64_t		at = list.first + i;

		if (i < list.count)
			bound_centroid(a.norm[at], a.error[at], lambda, mu, a.d, &a.lower[at], &a.slack[at]);
		else
		{
			a.lower[at] = 3.0e38f;
			a.slack[at] = 0.0f;
		}
	}
	/* all threads have read them */
	__syncthreads();
	if (threadIdx.x == 0)
	{
		scale->lambda = __double2float_ru(lambda);
		scale->mu = __double2float_ru(mu);
		a.statistics[blockIdx.x] = {};
	}
}

/* Raises radii to the nearest centroid, whatever origin is nearest to that: a block a region. */
static __global__ void
__launch_bounds__(REGION_THREADS)
least_radius_kernel(ListArguments a)
{
	const float *norms = a.norms + (int64_t) blockIdx.x * a.count;
	__shared__ int least;

	if (threadIdx.x == 0)
		least = __float_as_int(INFINITY);
	__syncthreads();
	for (int64_t c = threadIdx.x; c < a.count; c += REGION_THREADS)
		atomicMin(&least, __float_as_int(norms[c]));
	__syncthreads();
	if (threadIdx.x == 0)
		a.radii[blockIdx.x] = fmaxf(a.radii[blockIdx.x], __int_as_float(least));
}

/*
 * Says what reach the rows of the sample need: their centroid is about as far as the radius, mostly
 * at a right angle to the row.
 */
static __global__ void
reaches_kernel(ListArguments a, Sample sample)
{
	int			i = blockIdx.x * blockDim.x + threadIdx.x;
	int			region;
	float		reach;

	if (i >= sample.count)
		return;
	region = sample.regions[i];
	reach = sqrtf(sample.nearest2[i]) + hypotf(sqrtf(sample.nearest2[i]), a.radii[region]);
	reach *= SAMPLED_MARGIN;
	atomicAdd(&a.reaches[region * REACHES +
						 class_of_reach(reach * rough_power_of_two(a.common->exponent))], 1u);
}

/* Takes what reach the rows of the sample need, from the centroids as they are measured. */
void
sample_reaches(Shard &shard, const Sample &sample)
{
	cudaStream_t stream = shard.device->compute;
	ListArguments a(shard);
	int			regions = shard.regions.count;

	GK_CUDA(cudaMemsetAsync(a.radii, 0, regions * sizeof(float), stream));
	share_out_kernel<<<(unsigned) ((a.count + 31) / 32), REGION_THREADS, 0, stream>>>
		(a.norms, regions, a.count, a.radii);
	least_radius_kernel<<<regions, REGION_THREADS, 0, stream>>>(a);
	reaches_kernel<<<(sample.count + 255) / 256, 256, 0, stream>>>(a, sample);
	GK_LAUNCHED("reaches_kernel");
}

/* Measures how far all centroids are from all origins. */
void
measure_regions(Shard &shard)
{
	NormArguments a(shard);

	shard.use();
	region_norms_kernel<<<(unsigned) a.blocks(), REGION_THREADS, 0, shard.device->compute>>>(a);
	GK_LAUNCHED("measure_regions");
}

/* Lists and rounds the centroids of all regions; `tight`: in lists that are too short. */
void
list_regions(Shard &shard, bool tight)
{
	cudaStream_t stream = shard.device->compute;
	ListArguments a(shard);
	int			regions = shard.regions.count;

	list_kernel<<<regions, REGION_THREADS, 0, stream>>>(a, tight);
	round_list_kernel<<<dim3(regions, regions < 64 ? 16 : 4), REGION_THREADS, 0, stream>>>(a);
	lower_list_kernel<<<regions, REGION_THREADS, 0, stream>>>(a);
	GK_LAUNCHED("list_regions");
	shard.regions.left_clear = true;
}

}								/* namespace gk */
