/*
 * The error of the tensor cores: what the filter assumes, and what a device shows.
 *
 * A tensor core adds N products and an accumulator at a time.  It aligns them to the largest,
 * truncates each below 2^-(23 + G) of it (G guard bits), adds them, and truncates the sum to 24
 * bits.  A sum of D products has an error below F × D × 2^-24 of the product of the norms, F = 2
 * ((N - 1) 2^-G + 1) / N: docs/filter.md has the proof.
 */
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "accumulation.h"
#include "cuda/launch.h"
#include "exact.h"

namespace gk
{

/* Above F for N >= 4 even if sums kept 23 bits (G = -1), fewer than on any known GPU. */
#define SAFE_FACTOR 5.0

/* The products that are checked: pairs of a row and a centroid with this many columns. */
#define CHECK_PAIRS 64
#define CHECK_DEPTH 256

/*
 * The part of a bound that the errors seen may reach.  The worst pairs show 0.995 of what F
 * allows, so a device that passes has an F below the factor, for each of the factors here.
 */
#define CHECK_SHARE 0.9

/* For tests: the check multiplies the errors that it sees by this. */
static std::atomic<double> pretended{1.0};

/* A factor above F for the generations whose tensor cores have been studied; 0 for others. */
static double
factor_of(int major)
{
	switch (major)
	{
		case 7:					/* N 4, G 1: F 1.25 */
			return 4.0;
		case 8:					/* N 8, G 1: F 1.125 */
			return 1.5;
		case 9:					/* N 16, G 2: F 0.594 */
		case 10:
		case 12:
			return 1.0;
		default:
			return 0.0;
	}
}

/* The error of a product over the norms of its factors. */
double
accumulation_bound(double factor, int depth)
{
	return (factor * (depth + 16) + 8) * 0x1p-24;
}

/* The bits of ±(1 + fraction / 1024) × 2^exponent in 16 bits, -14 <= exponent <= 15. */
static uint16_t
half_bits(int exponent, int fraction, bool negative)
{
	return (uint16_t) ((negative ? 0x8000 : 0) | (exponent + 15) << 10 | fraction);
}

/* The value of normal 16 bits, or 0. */
static double
half_value(uint16_t bits)
{
	double		value = std::ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25);

	return (bits & 0x7fff) == 0 ? 0.0 : bits & 0x8000 ? -value : value;
}

/* Sets factors whose product is just below 2^-shift, 20 <= shift <= 26. */
static void
set_below(uint16_t *a, uint16_t *b, int shift)
{
	int			exponent = -(shift + 2) / 2;

	*a = half_bits(exponent, 1023, false);
	*b = half_bits(-shift - 2 - exponent, 1023, false);
}

/*
 * The worst pair for a tensor core with N products a step and G guard bits: the sum stays 1;
 * almost all of each further product is lost in alignment, or, for one product a step, in the
 * truncation of the sum.
 */
static void
worst_pair(int n, int guard_bits, uint16_t *a, uint16_t *b)
{
	a[0] = b[0] = half_bits(0, 0, false);
	for (int j = 1; j < CHECK_DEPTH; j++)
		set_below(&a[j], &b[j], j % n == n - 1 ? 23 : 23 + guard_bits);
}

/* A pair of random values of mixed size; of one sign if `same`. */
static void
random_pair(uint64_t seed, int exponents, bool same, uint16_t *a, uint16_t *b)
{
	for (int j = 0; j < CHECK_DEPTH; j++)
	{
		uint64_t	bits = gk_mix(seed + (uint64_t) j * UINT64_C(0x9e3779b97f4a7c15));
		int			left = (int) (bits >> 8 & 0xff) % exponents;
		int			right = (int) (bits >> 16 & 0xff) % exponents;

		a[j] = half_bits(-left, (int) (bits >> 24 & 1023), !same && (bits & 1));
		b[j] = half_bits(-right, (int) (bits >> 36 & 1023), !same && (bits & 2));
	}
}

/* The pairs of the check: the worst for each N and G that a GPU may have, then random ones. */
static void
make_pairs(uint16_t *a, uint16_t *b)
{
	int			pair = 0;

	for (int n = 1; n <= 32; n *= 2)
		for (int guard_bits = -2; guard_bits <= 3; guard_bits++, pair++)
			worst_pair(n, guard_bits, a + pair * CHECK_DEPTH, b + pair * CHECK_DEPTH);
	for (; pair < CHECK_PAIRS; pair++)
		random_pair((uint64_t) pair, 1 + pair % 15, pair % 2 == 0, a + pair * CHECK_DEPTH,
					b + pair * CHECK_DEPTH);
}

/* The error of a product, in 2^-24 of the norms of its factors. */
static double
error_of(const uint16_t *a, const uint16_t *b, float product)
{
	double		sum = 0.0;
	double		left = 0.0;
	double		right = 0.0;

	for (int j = 0; j < CHECK_DEPTH; j++)
	{
		double		x = half_value(a[j]);
		double		y = half_value(b[j]);

		sum += x * y;
		left += x * x;
		right += y * y;
	}
	return std::fabs(sum - product) / std::sqrt(left * right) * 0x1p24;
}

/* The greatest error in the products of a device; NaN counts as infinite. */
static double
measure(const Device &device)
{
	std::vector<uint16_t> a(CHECK_PAIRS * CHECK_DEPTH);
	std::vector<uint16_t> b(CHECK_PAIRS * CHECK_DEPTH);
	std::vector<float> products(CHECK_PAIRS);
	double		greatest = 0.0;

	make_pairs(a.data(), b.data());
	for (Products by : {BY_WARPS, BY_WARPGROUPS, BY_REGISTERS})
	{
		if (!multiply_pairs(device, a.data(), b.data(), CHECK_DEPTH, CHECK_PAIRS, by,
							products.data()))
			continue;
		for (int i = 0; i < CHECK_PAIRS; i++)
		{
			double		error = error_of(&a[i * CHECK_DEPTH], &b[i * CHECK_DEPTH], products[i]);

			greatest = error <= greatest ? greatest : std::isnan(error) ? INFINITY : error;
		}
	}
	return greatest;
}

/* The factor for a device. */
double
check_accumulation(const Device &device)
{
	double		error = measure(device) * pretended;

	for (double factor : {factor_of(device.major), SAFE_FACTOR})
		if (factor > 0.0 &&
			error <= CHECK_SHARE * accumulation_bound(factor, CHECK_DEPTH) * 0x1p24)
			return factor;
	return INFINITY;
}

}								/* namespace gk */

/*
 * For tests: checks of devices opened from now on multiply the errors by this.  Returns the
 * factor of device 0's bound, 0 if it is not open.
 */
extern "C" __attribute__((visibility("default"))) double
gk_cuda_pretend_error(double times)
{
	gk::Device *device = gk::find_device(0);

	gk::pretended = times;
	return device != nullptr ? device->accumulation : 0.0;
}
