/*
 * Lists of the nearest neighbours of points among each other while they grow: keys that order them
 * by distance and by how far on their number is.  Of many equal points, each thus has others as its
 * neighbours.
 */
#ifndef GK_NEIGHBOURS_H
#define GK_NEIGHBOURS_H

#include "engine.h"
#include "exact.h"

/* No neighbour: behind all others. */
#define GK_NO_NEIGHBOUR UINT64_MAX

/* The key of a neighbour of a point: the lesser comes first. */
GK_INLINE uint64_t
gk_neighbour_key(float distance2, int64_t number, int64_t point)
{
	uint32_t	bits;

	memcpy(&bits, &distance2, sizeof(bits));
	return (uint64_t) bits << 32 | ((uint64_t) (number - point) & 0x7fffffff);
}

/* The number in a key of a neighbour of a point, if there is one. */
GK_INLINE int32_t
gk_neighbour_number(uint64_t key, int64_t point)
{
	return (int32_t) ((key + (uint64_t) point) & 0x7fffffff);
}

/* The distance in a key; infinite if there is no neighbour. */
GK_INLINE float
gk_neighbour_distance(uint64_t key)
{
	uint32_t	bits = (uint32_t) (key >> 32);
	float		distance2;

	memcpy(&distance2, &bits, sizeof(distance2));
	return key == GK_NO_NEIGHBOUR ? (float) INFINITY : distance2;
}

/* Takes a key into a list of GK_NEIGHBOUR_COUNT, the least first, unless all there come first. */
GK_INLINE void
gk_offer_neighbour(uint64_t *keys, uint64_t key)
{
	if (key >= keys[GK_NEIGHBOUR_COUNT - 1])
		return;
	for (int i = GK_NEIGHBOUR_COUNT - 1; i > 0; i--)
		keys[i] = key < keys[i - 1] ? keys[i - 1] : key < keys[i] ? key : keys[i];
	keys[0] = key < keys[0] ? key : keys[0];
}

#endif							/* GK_NEIGHBOURS_H */
