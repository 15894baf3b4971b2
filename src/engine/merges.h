/*
 * The rules of GK_MERGE: what a union costs, in which order unions come, and the lists of
 * neighbours that a cluster may be united with.
 *
 * A round unites pairs that are each other's cheapest.  Such pairs do not depend on each other, so
 * the order in which threads find them makes no difference.
 *
 * A cluster takes turns among neighbours that cost the same.  Where distances grow from one cluster
 * to the next, each would wait for its neighbour, and a round would unite a single pair.  So if
 * several rounds have united few of those that could be, the next ones are coarser: they leave out
 * the last bits of the costs, more and more of them.
 */
#ifndef GK_MERGES_H
#define GK_MERGES_H

#include <float.h>

#include "neighbours.h"

#ifdef __CUDA_ARCH__
#define GK_ADD_FLOAT(a, b) __fadd_rn((a), (b))
#define GK_SUB_FLOAT(a, b) __fsub_rn((a), (b))
#define GK_MUL_FLOAT(a, b) __fmul_rn((a), (b))
#define GK_DIV_FLOAT(a, b) __fdiv_rn((a), (b))
#define GK_SQRT_FLOAT(a) __fsqrt_rn(a)
#else
#define GK_ADD_FLOAT(a, b) ((a) + (b))
#define GK_SUB_FLOAT(a, b) ((a) - (b))
#define GK_MUL_FLOAT(a, b) ((a) * (b))
#define GK_DIV_FLOAT(a, b) ((a) / (b))
#define GK_SQRT_FLOAT(a) sqrtf(a)
#endif

/* Lanes of a sum of squares: lane j % GK_MERGE_LANES adds feature j, in index order. */
#define GK_MERGE_LANES 8

/* Costs are counted by their leading bits: the bin of a cost is its bits without the others. */
#define GK_COST_SHIFT 19
#define GK_COST_BINS (1 << (31 - GK_COST_SHIFT))

/*
 * Among equal costs, numbers come in an order that has nothing to do with their neighbourhood, and
 * in another one each round: if neighbours on a line were in order, a round could unite but two of
 * them.
 */
#define GK_SPREAD UINT32_C(0x9e3779b1)
#define GK_GATHER UINT32_C(0x0e8b2f51)

/*
 * A round is poor if it has united fewer than one in so many clusters.  After so many poor rounds,
 * exact or equally coarse ones, the next are coarser.
 */
#define GK_FEW_UNIONS 64
#define GK_POOR_EXACT_ROUNDS 32
#define GK_POOR_COARSE_ROUNDS 8

/* Bits that the first coarse round leaves out, those that the next ones add, and the most. */
#define GK_FIRST_COARSE_BITS 16
#define GK_MORE_COARSE_BITS 2
#define GK_MOST_COARSE_BITS 24

/* The key of a union with a cluster: the lesser comes first. */
GK_INLINE uint64_t
gk_union_key(float cost, int32_t number)
{
	uint32_t	bits;

	memcpy(&bits, &cost, sizeof(bits));
	return (uint64_t) bits << 32 | (uint32_t) ((uint32_t) number * GK_SPREAD);
}

/* The number in a key, which must be one. */
GK_INLINE int32_t
gk_union_number(uint64_t key)
{
	return (int32_t) ((uint32_t) key * GK_GATHER);
}

/* The bits of the cost in a key; those of no neighbour are above all others. */
GK_INLINE uint32_t
gk_union_cost_bits(uint64_t key)
{
	return (uint32_t) (key >> 32);
}

/* How exactly a round compares costs. */
typedef struct GkCoarseness
{
	int			bits;			/* that it leaves out */
	int			poor;			/* poor rounds so far that left out as many */
} GkCoarseness;

/* Decides how exact the next round is, if `able` clusters could have united in this one. */
GK_INLINE void
gk_judge_round(GkCoarseness *coarseness, int64_t unions, int64_t able)
{
	bool		exact = coarseness->bits == 0;

	if (unions * GK_FEW_UNIONS >= able)
		return;
	if (++coarseness->poor < (exact ? GK_POOR_EXACT_ROUNDS : GK_POOR_COARSE_ROUNDS))
		return;
	coarseness->poor = 0;
	coarseness->bits += exact ? GK_FIRST_COARSE_BITS : GK_MORE_COARSE_BITS;
	if (coarseness->bits > GK_MOST_COARSE_BITS)
		coarseness->bits = GK_MOST_COARSE_BITS;
}

/*
 * The key of a union as others see it in a round: with the number of the cluster that has the other
 * one as a neighbour.  Each round has another order of numbers.
 */
GK_INLINE uint64_t
gk_round_key(uint32_t cost_bits, int32_t number, int coarse_bits, int round)
{
	uint32_t	order = (uint32_t) number * GK_SPREAD ^ (uint32_t) round * GK_GATHER;

	return (uint64_t) (cost_bits >> coarse_bits << coarse_bits) << 32 | order * GK_SPREAD;
}

/*
 * Which neighbour of a list a cluster would be united with in a round: in turn, those that cost as
 * little as the first, but for the bits that are left out, and at most `limit`.
 */
GK_INLINE int
gk_round_choice(const uint64_t *keys, int coarse_bits, int round, uint32_t limit)
{
	uint32_t	least = gk_union_cost_bits(keys[0]) >> coarse_bits;
	int			equal = 1;

	while (equal < GK_NEIGHBOUR_COUNT && gk_union_cost_bits(keys[equal]) <= limit &&
		   gk_union_cost_bits(keys[equal]) >> coarse_bits == least)
		equal++;
	return round % equal;
}

/* What the union of two clusters costs: more than 0 unless one weighs nothing or d² is 0. */
GK_INLINE float
gk_union_cost(double weight, double other, float distance2)
{
	double		share = GK_DIV(other, GK_ADD(weight, other));
	double		cost = GK_MUL(GK_MUL(weight, share), (double) distance2);

	if (!(weight > 0.0) || !(other > 0.0) || !(distance2 > 0.0f))
		return 0.0f;
	return cost < FLT_MIN ? FLT_MIN : cost < FLT_MAX ? (float) cost : FLT_MAX;
}

/* The sum of the lanes of d². */
GK_INLINE float
gk_sum_merge_lanes(const float *lanes)
{
	float		halves[GK_MERGE_LANES / 2];

	for (int i = 0; i < GK_MERGE_LANES / 2; i++)
		halves[i] = GK_ADD_FLOAT(lanes[i], lanes[i + GK_MERGE_LANES / 2]);
	return GK_ADD_FLOAT(GK_ADD_FLOAT(halves[0], halves[2]), GK_ADD_FLOAT(halves[1], halves[3]));
}

/* d² of the means of two clusters. */
GK_INLINE float
gk_merge_distance2(const float *x, const float *y, int d)
{
	float		lanes[GK_MERGE_LANES] = {0};
	int			j = 0;

	for (; j + GK_MERGE_LANES <= d; j += GK_MERGE_LANES)
		for (int lane = 0; lane < GK_MERGE_LANES; lane++)
			lanes[lane] = gk_add_square_float(lanes[lane], x[j + lane], y[j + lane]);
	for (; j < d; j++)
		lanes[j % GK_MERGE_LANES] = gk_add_square_float(lanes[j % GK_MERGE_LANES], x[j], y[j]);
	return gk_sum_merge_lanes(lanes);
}

/* How far a mean moves to that of a cluster which becomes a part of it. */
GK_INLINE float
gk_merge_share(double weight, double other)
{
	double		sum = GK_ADD(weight, other);

	return sum > 0.0 ? (float) GK_DIV(other, sum) : 0.0f;
}

/* A coordinate of a mean after a union. */
GK_INLINE float
gk_merge_mean(float mine, float other, float share)
{
	return GK_ADD_FLOAT(mine, GK_MUL_FLOAT(share, GK_SUB_FLOAT(other, mine)));
}

/* Takes a key into a list, the least first, unless it is there or all there come first. */
GK_INLINE void
gk_offer_union(uint64_t *keys, uint64_t key)
{
	int			place = GK_NEIGHBOUR_COUNT;

	while (place > 0 && key < keys[place - 1])
		place--;
	if (place == GK_NEIGHBOUR_COUNT || (place > 0 && keys[place - 1] == key))
		return;
	for (int i = GK_NEIGHBOUR_COUNT - 1; i > place; i--)
		keys[i] = keys[i - 1];
	keys[place] = key;
}

/*
 * The bits of the greatest cost that a union can have which is among the first `wanted`, from the
 * numbers of unions by bins; UINT32_MAX - 1 if there are fewer.
 */
GK_INLINE uint32_t
gk_union_limit(const uint32_t *bins, int64_t wanted)
{
	int64_t		found = 0;

	for (uint32_t bin = 0; bin < GK_COST_BINS; bin++)
	{
		found += bins[bin];
		if (found >= wanted)
			return ((bin + 1) << GK_COST_SHIFT) - 1;
	}
	return UINT32_MAX - 1;
}

#endif							/* GK_MERGES_H */
