/*
 * The arithmetic that defines a result: shared by every engine and the fit layer.
 *
 * Each function is a fixed sequence of IEEE 754 double operations, none of
 * them fused, or of integer operations; so host and device give the same bits.
 * Host files that include this are compiled with -ffp-contract=off.
 *
 * The rule of the labels: a row's label is the centroid with the least
 * d² = Σ (x - c)², x the stored float32, c double, summed in double in index
 * order, ties to the lowest id.  Sums over rows are integers (fixed point), so
 * they do not depend on the order of the rows.
 */
#ifndef GK_EXACT_H
#define GK_EXACT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define GK_INLINE static __host__ __device__ __forceinline__
#else
#define GK_INLINE static inline
#endif

#ifdef __CUDA_ARCH__
#define GK_ADD(a, b) __dadd_rn((a), (b))
#define GK_SUB(a, b) __dsub_rn((a), (b))
#define GK_MUL(a, b) __dmul_rn((a), (b))
#define GK_DIV(a, b) __ddiv_rn((a), (b))
#define GK_SQRT(a) __dsqrt_rn(a)
#else
#define GK_ADD(a, b) ((a) + (b))
#define GK_SUB(a, b) ((a) - (b))
#define GK_MUL(a, b) ((a) * (b))
#define GK_DIV(a, b) ((a) / (b))
#define GK_SQRT(a) sqrt(a)
#endif

/* True if a number is finite as a real: what is a little above FLT_MAX rounds to it. */
GK_INLINE bool
gk_is_real(double value)
{
	return isfinite((float) value);
}

/* The next partial sum of d²: sum + (x - c)². */
GK_INLINE double
gk_add_square(double sum, float x, double c)
{
	double		difference = GK_SUB((double) x, c);

	return GK_ADD(sum, GK_MUL(difference, difference));
}

/* The next partial sum of a distance of GK_MERGE, in float: sum + (x - y)². */
GK_INLINE float
gk_add_square_float(float sum, float x, float y)
{
#ifdef __CUDA_ARCH__
	float		difference = __fsub_rn(x, y);

	return __fadd_rn(sum, __fmul_rn(difference, difference));
#else
	float		difference = x - y;

	return sum + difference * difference;
#endif
}

/* 2^exponent as a double, -1022 <= exponent <= 1023. */
GK_INLINE double
gk_power_of_two(int exponent)
{
	uint64_t	bits = (uint64_t) (exponent + 1023) << 52;
	double		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Fixed point: rint(value × scale), scale a power of two, |result| <= 2^50. */
GK_INLINE int64_t
gk_quantize(double value, double scale)
{
#ifdef __CUDA_ARCH__
	return __double2ll_rn(__dmul_rn(value, scale));
#else
	return (int64_t) rint(value * scale);
#endif
}

/* The second limb: what gk_quantize() rounded away, on a grid finer by rest_scale. */
GK_INLINE int64_t
gk_quantize_rest(double value, double scale, double rest_scale)
{
	double		scaled = GK_MUL(value, scale);

	return gk_quantize(GK_SUB(scaled, rint(scaled)), rest_scale);
}

/* A two-limb sum as the nearest double of high × 2^rest_bits + low. */
GK_INLINE double
gk_sum_value(int64_t high, int64_t low, int rest_bits)
{
	return (double) ((__int128) high * ((__int128) 1 << rest_bits) + low);
}

/* The value of a two-limb sum on a grid of this exponent. */
GK_INLINE double
gk_grid_value(int64_t high, int64_t low, int exponent, int rest_bits)
{
	return ldexp(gk_sum_value(high, low, rest_bits), -exponent - rest_bits);
}

/*
 * One coordinate of a centroid: sum and weight as gk_sum_value() gave them,
 * divided once; exponents of their grids.
 */
GK_INLINE double
gk_centroid(double sum, double weight, int sum_exponent, int weight_exponent)
{
	return ldexp(GK_DIV(sum, weight), weight_exponent - sum_exponent);
}

/*
 * What the sums of a cluster are divided by for a direction: a power of two near its weight.  Rows
 * that a scale makes zeros add to the weight alone, and so change no bit of the direction; without
 * that they would go to and fro between clusters that are as near.
 */
GK_INLINE double
gk_direction_weight(double weight)
{
	return gk_power_of_two(ilogb(weight));
}

/*
 * What a coordinate of a cluster's mean adds to `between` of an update: its square to the origin
 * of the grid less that to the new centroid.  Their sum in index order times the cluster's weight
 * is the cluster's part.
 */
GK_INLINE double
gk_gain(double mean, double origin, double centroid)
{
	double		to_origin = GK_SUB(mean, origin);
	double		to_centroid = GK_SUB(mean, centroid);

	return GK_SUB(GK_MUL(to_origin, to_origin), GK_MUL(to_centroid, to_centroid));
}

/* Lanes of a sum of doubles: a fixed order that 256 threads can follow. */
#define GK_LANES 256

/* The sum of one lane: every GK_LANES-th of count values, from number `lane` on. */
GK_INLINE double
gk_lane_sum(const double *values, int64_t count, int lane)
{
	double		sum = 0.0;

	for (int64_t i = lane; i < count; i += GK_LANES)
		sum = GK_ADD(sum, values[i]);
	return sum;
}

/* The sum of count values in that order on one thread: lanes, then halves. */
GK_INLINE double
gk_ordered_sum(const double *values, int64_t count)
{
	double		lanes[GK_LANES];

	for (int lane = 0; lane < GK_LANES; lane++)
		lanes[lane] = gk_lane_sum(values, count, lane);
	for (int width = GK_LANES / 2; width > 0; width /= 2)
		for (int lane = 0; lane < width; lane++)
			lanes[lane] = GK_ADD(lanes[lane], lanes[lane + width]);
	return lanes[0];
}

/* floor(log2 |x|) as the exponent field says (denormals: -127). */
GK_INLINE int
gk_exponent(float x)
{
	uint32_t	bits;

	memcpy(&bits, &x, sizeof(bits));
	return (int) ((bits >> 23) & 255) - 127;
}

/* The same for a weight. */
GK_INLINE int
gk_exponent_double(double x)
{
	uint64_t	bits;

	memcpy(&bits, &x, sizeof(bits));
	return (int) ((bits >> 52) & 2047) - 1023;
}

/*
 * Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that mixes all bits of x,
 * an unsigned 64-bit variable or a vector of them.
 */
#define GK_MIX(x) \
	((x) ^= (x) >> 30, \
	 (x) *= UINT64_C(0xbf58476d1ce4e5b9), \
	 (x) ^= (x) >> 27, \
	 (x) *= UINT64_C(0x94d049bb133111eb), \
	 (x) ^= (x) >> 31)

/* The same for a value. */
GK_INLINE uint64_t
gk_mix(uint64_t x)
{
	GK_MIX(x);
	return x;
}

/*
 * The hash of a row gives it a position that does not depend on the order of the rows.  Features
 * 2i and 2i + 1 form a word: their bits (the first one low, 0 for a missing last one) plus (i +
 * 1) × GK_HASH_KEY. The mixed words are added modulo 2^64.  Mixing is a bijection, so no value
 * of a feature hides another feature.  Different rows may still share a hash: their bits
 * distinguish them.
 */
#define GK_HASH_KEY UINT64_C(0x9e3779b97f4a7c15)

/* The bits of a hash that count; tests leave some out, so that different rows share hashes. */
#ifndef GK_HASH_MASK
#define GK_HASH_MASK UINT64_MAX
#endif

/* The contribution of features 2i and 2i + 1 to the row hash. */
GK_INLINE uint64_t
gk_hash_term(uint32_t even, uint32_t odd, uint32_t i)
{
	return gk_mix(((uint64_t) odd << 32 | even) + ((uint64_t) i + 1) * GK_HASH_KEY);
}

/* The hash of a row from the sum of its terms; weight_bits is 0 if not weighted. */
GK_INLINE uint64_t
gk_hash_finish(uint64_t terms, uint64_t weight_bits)
{
	return gk_mix(gk_mix(terms) + weight_bits * GK_HASH_KEY) & GK_HASH_MASK;
}

/* The bucket of a hash among 2^bits: its leading bits. */
GK_INLINE uint64_t
gk_hash_bucket(uint64_t hash, int bits)
{
	return bits == 0 ? 0 : hash >> (64 - bits);
}

#endif							/* GK_EXACT_H */
