/*
 * Arrays of any length: the size is checked, and may exceed 1 GB.  Cancels end zeroing and sorting.
 */
#ifndef GK_ALLOC_H
#define GK_ALLOC_H

#include "postgres.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

/* Bytes between two looks at interrupts. */
#define GK_ZEROED_AT_ONCE ((Size) 1 << 24)

/* Room for `count` elements in the current memory context. */
static inline void *
gk_allocate(int64 count, Size size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, mul_size((Size) Max(count, 1), size));
}

/* The same, zeroed, which can be cancelled. */
static inline void *
gk_allocate_zero(int64 count, Size size)
{
	char	   *memory = gk_allocate(count, size);
	Size		bytes = (Size) Max(count, 1) * size;

	for (Size from = 0; from < bytes; from += GK_ZEROED_AT_ONCE)
	{
		CHECK_FOR_INTERRUPTS();
		memset(memory + from, 0, Min(bytes - from, GK_ZEROED_AT_ONCE));
	}
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
