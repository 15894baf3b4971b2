/*
 * The worst case of the bound on the error of tensor cores: a search over products of 16-bit
 * values, by hill climbing from the pairs that are worst in theory and from random ones of mixed
 * exponents, with cancellation and with values that only a sticky bit would see.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_accumulation.h"
#include "engine_cases.h"
#include "tap.h"

#define PAIRS 1024

/* A search: pairs, their changed versions, and their errors. */
typedef struct Search
{
	const Probe *probe;
	int			depth;
	int			by;				/* warps, warpgroups, or these with rows in registers */
	uint16_t   *a;				/* PAIRS × depth */
	uint16_t   *b;
	uint16_t   *next_a;
	uint16_t   *next_b;
	double		errors[PAIRS];	/* in 2^-24 of the norms */
	float		products[PAIRS];
} Search;

/* ±(1 + fraction / 1024) × 2^exponent in 16 bits, -14 <= exponent <= 15. */
static uint16_t
half_bits(int exponent, int fraction, bool negative)
{
	return (uint16_t) ((negative ? 0x8000 : 0) | (exponent + 15) << 10 | fraction);
}

/* The values of all 16 bits. */
static double values[65536];

/* Fills in the values. */
static void
make_values(void)
{
	for (int bits = 0; bits < 65536; bits++)
	{
		int			exponent = bits >> 10 & 31;
		double		value = exponent == 0 ? ldexp(bits & 1023, -24)
			: ldexp(1024 + (bits & 1023), exponent - 25);

		values[bits] = bits & 0x8000 ? -value : value;
	}
}

/* A number from 0 to count - 1. */
static int
random_below(int count)
{
	return (int) (random_bits() % (uint64_t) count);
}

/* A random value. */
static uint16_t
random_half(int exponents, bool positive)
{
	return half_bits(-random_below(exponents), random_below(1024), !positive && random_below(2));
}

/* Sets factors whose product is just below 2^-shift, or just below -2^-shift. */
static void
set_below(uint16_t *a, uint16_t *b, int shift, bool negative)
{
	int			exponent = -(shift + 2) / 2;

	*a = half_bits(exponent, 1023, negative);
	*b = half_bits(-shift - 2 - exponent, 1023, false);
}

/* The pair to begin with: the worst for n products a step and some guard bits, or random. */
static void
make_pair(Search *s, int pair)
{
	uint16_t   *a = s->a + (size_t) pair * s->depth;
	uint16_t   *b = s->b + (size_t) pair * s->depth;
	int			n = 1 << pair % 6;
	int			guard_bits = pair / 6 % 4;
	int			exponents = 1 + pair % 15;

	for (int j = 0; j < s->depth; j++)
	{
		if (pair >= PAIRS / 2)
		{
			a[j] = random_half(exponents, pair % 2);
			b[j] = random_half(exponents, pair % 2);
		}
		else if (j == 0)
			a[j] = b[j] = half_bits(0, 0, false);
		else
			set_below(&a[j], &b[j], j % n == n - 1 ? 23 : 23 + guard_bits, false);
	}
}

/* Changes one column of a pair. */
static void
change(Search *s, uint16_t *a, uint16_t *b)
{
	int			j = random_below(s->depth);
	int			other = random_below(s->depth);

	switch (random_below(6))
	{
		case 0:
			a[j] = random_half(15, false);
			break;
		case 1:
			b[j] = random_half(15, false);
			break;
		case 2:
			set_below(&a[j], &b[j], 18 + random_below(9), random_below(4) == 0);
			break;
		case 3:
			a[j] = a[other];
			b[j] = b[other];
			break;
		case 4:
			a[j] ^= (uint16_t) (1 << random_below(10));
			break;
		default:
			a[j] ^= 0x8000;
	}
}

/* The error of a product, in 2^-24 of the norms of its factors. */
static double
error_of(const uint16_t *a, const uint16_t *b, int depth, float product)
{
	double		sum = 0.0;
	double		left = 0.0;
	double		right = 0.0;

	for (int j = 0; j < depth; j++)
	{
		double		x = values[a[j]];
		double		y = values[b[j]];

		sum += x * y;
		left += x * x;
		right += y * y;
	}
	return left == 0.0 || right == 0.0 ? 0.0
		: fabs(sum - (double) product) / sqrt(left * right) * 0x1p24;
}

/* One round: changes each pair, and keeps the change if the error grows. */
static bool
climb(Search *s)
{
	size_t		columns = (size_t) PAIRS * s->depth;

	memcpy(s->next_a, s->a, columns * sizeof(uint16_t));
	memcpy(s->next_b, s->b, columns * sizeof(uint16_t));
	for (int pair = 0; pair < PAIRS; pair++)
		for (int i = 1 + random_below(3); i > 0; i--)
			change(s, s->next_a + (size_t) pair * s->depth, s->next_b + (size_t) pair * s->depth);
	if (!s->probe->multiply(0, s->next_a, s->next_b, s->depth, PAIRS, s->by, s->products))
		return false;
	for (int pair = 0; pair < PAIRS; pair++)
	{
		size_t		at = (size_t) pair * s->depth;
		double		error = error_of(s->next_a + at, s->next_b + at, s->depth, s->products[pair]);

		if (error <= s->errors[pair])
			continue;
		s->errors[pair] = error;
		memcpy(s->a + at, s->next_a + at, s->depth * sizeof(uint16_t));
		memcpy(s->b + at, s->next_b + at, s->depth * sizeof(uint16_t));
	}
	return true;
}

/* The greatest error of all pairs. */
static double
greatest_error(const Search *s)
{
	double		greatest = 0.0;

	for (int pair = 0; pair < PAIRS; pair++)
		greatest = fmax(greatest, s->errors[pair]);
	return greatest;
}

/* Searches for the worst products of some depth; they must come near the bound, not above it. */
static void
search(Search *s, const char *what, double bound, double least, int rounds)
{
	double		first;
	double		worst;
	bool		there;

	for (int pair = 0; pair < PAIRS; pair++)
	{
		make_pair(s, pair);
		s->errors[pair] = 0.0;
	}
	there = s->probe->multiply(0, s->a, s->b, s->depth, PAIRS, s->by, s->products);
	for (int pair = 0; pair < PAIRS && there; pair++)
		s->errors[pair] = error_of(s->a + (size_t) pair * s->depth,
								   s->b + (size_t) pair * s->depth, s->depth, s->products[pair]);
	first = greatest_error(s);
	for (int round = 0; round < rounds && there; round++)
		there = climb(s);
	worst = greatest_error(s);
	if (!there && s->by)
		printf("# this GPU's filters do not multiply by warpgroups\n");
	else
		ok(there && worst <= bound && worst >= least,
		   "products by %s, depth %d: worst error %.1f × 2^-24 (%.1f before the search), "
		   "bound %.1f, ratio %.3f", what, s->depth, worst, first, bound, worst / bound);
}

/* Makes the pairs of a search. */
static Search
start_search(const Probe *probe, int depth, int by)
{
	size_t		bytes = (size_t) PAIRS * depth * sizeof(uint16_t);

	return (Search) {.probe = probe,.depth = depth,.by = by,
		.a = malloc(bytes),.b = malloc(bytes),.next_a = malloc(bytes),.next_b = malloc(bytes)};
}

/* Frees the pairs of a search. */
static void
end_search(Search *s)
{
	free(s->a);
	free(s->b);
	free(s->next_a);
	free(s->next_b);
}

/* Searches for the products of a GPU with the greatest error. */
void
search_worst_products(const Probe *probe, int rounds)
{
	static const int depths[] = {16, 64, 128, 512, 2048};
	static const char *const kinds[] = {"warps", "warpgroups", "warpgroups, rows in registers"};
	double		factor = probe->pretend_error(1.0);

	make_values();
	for (int by = 0; by < 3; by++)
		for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++)
		{
			Search		s = start_search(probe, depths[i], by);

			/* no known tensor core loses less than 0.59 a column */
			search(&s, kinds[by], factor * (depths[i] + 16) + 8,
				   0.5 * depths[i], rounds);
			end_search(&s);
		}
}

/* A model of a tensor core: products a step, guard bits. */
static int	model_n;
static int	model_guard_bits;

/* The sum of a step: products from .. from + model_n - 1 and the sum before. */
static double
add_step(const uint16_t *a, const uint16_t *b, int from, double sum)
{
	double		terms[33];
	int			exponent = sum == 0.0 ? -1000 : ilogb(sum);
	double		unit;
	double		total = 0.0;

	terms[model_n] = sum;
	for (int j = 0; j < model_n; j++)
	{
		double		x = values[a[from + j]];
		double		y = values[b[from + j]];
		int			its = x == 0.0 || y == 0.0 ? -1000 : ilogb(x) + ilogb(y);

		terms[j] = x * y;
		exponent = its > exponent ? its : exponent;
	}
	unit = ldexp(1.0, exponent - 23 - model_guard_bits);
	for (int j = 0; j <= model_n; j++)
		total += trunc(terms[j] / unit) * unit;
	if (total == 0.0)
		return 0.0;
	unit = ldexp(1.0, ilogb(total) - 23);
	return trunc(total / unit) * unit;
}

/* Products of pairs as the model makes them. */
static int
multiply_by_model(int device, const uint16_t *a, const uint16_t *b, int depth, int64_t pairs,
				  int by, float *products)
{
	(void) device;
	(void) by;
	for (int64_t pair = 0; pair < pairs; pair++)
	{
		double		sum = 0.0;

		for (int from = 0; from < depth; from += model_n)
			sum = add_step(a + pair * depth, b + pair * depth, from, sum);
		products[pair] = (float) sum;
	}
	return 1;
}

/*
 * The same search in models of the tensor cores of V100, T4, A100 and H100, and of two
 * hypothetical ones, against the bound of docs/filter.md itself: it holds and is nearly
 * reached.
 */
void
search_models(int rounds)
{
	static const int models[][2] = {{4, 0}, {4, 1}, {8, 1}, {16, 2}, {1, 0}, {32, 0}};
	static const Probe probe = {.multiply = multiply_by_model};

	make_values();
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
	{
		Search		s = start_search(&probe, 64, 0);
		double		bound;
		char		what[64];

		model_n = models[i][0];
		model_guard_bits = models[i][1];
		bound = 2.0 * ((model_n - 1) * ldexp(1.0, -model_guard_bits) + 1) / model_n * s.depth;
		snprintf(what, sizeof(what), "a model of %d products a step and %d guard bits", model_n,
				 model_guard_bits);
		search(&s, what, bound * (1 + 0x1p-12), 0.9 * bound, rounds);
		end_search(&s);
	}
}
