/*
 * Arrays of any length: the size is checked, and may exceed 1 GB.  Sorting can be cancelled.
 */
#ifndef GK_ALLOC_H
#define GK_ALLOC_H

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

/* The order of two integers. */
static inline int
gk_compare_integers(const void *a, const void *b, void *argument)
{
	int			left = *(const int *) a;
	int			right = *(const int *) b;

	return (left > right) - (left < right);
}

/* Sorts integers. */
static inline void
gk_sort_integers(int *numbers, int64 count)
{
	qsort_interruptible(numbers, count, sizeof(int), gk_compare_integers, NULL);
}

#endif							/* GK_ALLOC_H */
