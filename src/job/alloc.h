/*
 * Arrays of any length: the size is checked, and may exceed 1 GB.
 */
#ifndef GK_MEMORY_H
#define GK_MEMORY_H

#include "postgres.h"

#include "storage/shmem.h"
#include "utils/memutils.h"

/* Room for `count` elements in the current memory context. */
static inline void *
gk_allocate(int64 count, Size size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, mul_size((Size) Max(count, 1), size));
}

/* The same, zeroed. */
static inline void *
gk_allocate_zero(int64 count, Size size)
{
	void	   *memory = gk_allocate(count, size);

	memset(memory, 0, (Size) Max(count, 1) * size);
	return memory;
}

#endif							/* GK_MEMORY_H */
