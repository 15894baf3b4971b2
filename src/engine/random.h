/*
 * Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011).
 *
 * A draw depends only on the seed and on its place in the algorithm, not on earlier draws.
 */
#ifndef GK_RANDOM_H
#define GK_RANDOM_H

#include <stdint.h>

#include "exact.h"

/* Ten rounds over a counter of four words with a key of two. */
GK_INLINE void
gk_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t result[4])
{
	uint32_t	key_0 = key[0];
	uint32_t	key_1 = key[1];

	for (int i = 0; i < 4; i++)
		result[i] = counter[i];
	for (int round = 0; round < 10; round++)
	{
		uint64_t	product_0 = (uint64_t) UINT32_C(0xD2511F53) * result[0];
		uint64_t	product_1 = (uint64_t) UINT32_C(0xCD9E8D57) * result[2];
		uint32_t	first = (uint32_t) (product_1 >> 32) ^ result[1] ^ key_0;
		uint32_t	third = (uint32_t) (product_0 >> 32) ^ result[3] ^ key_1;

		result[0] = first;
		result[1] = (uint32_t) product_1;
		result[2] = third;
		result[3] = (uint32_t) product_0;
		key_0 += UINT32_C(0x9E3779B9);
		key_1 += UINT32_C(0xBB67AE85);
	}
}

/* 64 random bits for draw number `draw` of round `round` of start `start`. */
GK_INLINE uint64_t
gk_random_bits(uint64_t seed, uint32_t start, uint32_t round, uint64_t draw)
{
	uint32_t	counter[4] = {(uint32_t) draw, (uint32_t) (draw >> 32), round, start};
	uint32_t	key[2] = {(uint32_t) seed, (uint32_t) (seed >> 32)};
	uint32_t	result[4];

	gk_philox(counter, key, result);
	return (uint64_t) result[1] << 32 | result[0];
}

/* A random integer 0 .. limit - 1. */
GK_INLINE uint64_t
gk_random_below(uint64_t limit, uint64_t seed, uint32_t start, uint32_t round, uint64_t draw)
{
	unsigned __int128 bits = gk_random_bits(seed, start, round, draw);

	return (uint64_t) ((bits * limit) >> 64);
}

#endif							/* GK_RANDOM_H */
