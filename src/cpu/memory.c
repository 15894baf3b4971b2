/*
 * Memory of the CPU engine: anonymous mappings, accounted for and limited; and its errors.
 *
 * With GK_HEAP_ARRAYS, for sanitizers and valgrind, it lies on the heap and is no byte larger than
 * asked for, so that they see what is done beyond its end.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#ifndef GK_HEAP_ARRAYS
#define GK_HEAP_ARRAYS
#endif
#else
#define ASAN_POISON_MEMORY_REGION(base, bytes) ((void) (base), (void) (bytes))
#define ASAN_UNPOISON_MEMORY_REGION(base, bytes) ((void) (base), (void) (bytes))
#endif

#define HUGE_PAGE ((size_t) 2 << 20)

/*
 * Arrays up to SMALL bytes lie in mappings of a power of two of bytes.  Some of these are kept when
 * an array is freed, for those to come: new pages took a small fit a tenth of its time.
 */
#define SMALL ((size_t) 1 << 20)
#define SPARE_BYTES ((size_t) 3 << 20)	/* kept in all, at most */
#define MOST_SPARES 32

/* Notes an error; the first one counts. */
void
gk_cpu_fail(GkCpuEngine *engine, GkCode code, const char *where, const char *message)
{
	if (engine->status.code != GK_OK)
		return;
	engine->status = (GkStatus) {.code = code,.device = -1};
	strncpy(engine->status.where, where, sizeof(engine->status.where) - 1);
	strncpy(engine->status.message, message, sizeof(engine->status.message) - 1);
}

/* Notes that memory is short. */
static bool
no_memory(GkCpuEngine *engine, uint64_t needed)
{
	gk_cpu_fail(engine, GK_NO_HOST_MEMORY, "mmap", "out of memory for the rows");
	engine->status.needed = needed;
	engine->status.allowed = engine->host_limit;
	return false;
}

/* Draws what an array grows by from the account that is shared, if there is one. */
static bool
draw(GkCpuEngine *engine, size_t before, size_t after)
{
	if (after <= before || engine->draw_host_memory == NULL ||
		engine->draw_host_memory(after - before))
		return true;
	gk_cpu_fail(engine, GK_HOST_MEMORY_REFUSED, "draw_host_memory", "host memory is refused");
	engine->status.needed = after - before;
	return false;
}

/* Returns what an array, `before` bytes large, has less now. */
static void
give_back(GkCpuEngine *engine, size_t before, size_t after)
{
	if (after < before && engine->return_host_memory != NULL)
		engine->return_host_memory(before - after);
}

#ifdef GK_HEAP_ARRAYS

/* What an array is a multiple of. */
static size_t
page_size(void)
{
	return 1;
}

/* Allocates the array, or changes its size; what is new is 0. */
static bool
place(GkArray *array, size_t bytes)
{
	void	   *target;

	if (posix_memalign(&target, 64, bytes) != 0)
		return false;
	memset(target, 0, bytes);
	if (array->base != NULL)
		memcpy(target, array->base, array->bytes < bytes ? array->bytes : bytes);
	free(array->base);
	array->base = target;
	return true;
}

/* Gives the memory of the array back. */
static void
release(GkArray *array)
{
	free(array->base);
}

#else

/* The size of a page: 4 kB on most machines, 64 kB on some with ARM64. */
static size_t
page_size(void)
{
	return (size_t) sysconf(_SC_PAGESIZE);
}

/* The small mappings that are kept; engines may have threads of their own. */
static struct
{
	pthread_mutex_t mutex;
	GkArray		arrays[MOST_SPARES];
	int			count;
	size_t		bytes;
}			spares = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A mapping that begins at a huge page if it is as large as one; NULL if there is none. */
static void *
map(size_t bytes, int protection)
{
	size_t		slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
	char	   *base = mmap(NULL, bytes + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t		before;

	if (base == MAP_FAILED)
		return NULL;
	if (slack == 0)
		return base;
	before = (HUGE_PAGE - (uintptr_t) base % HUGE_PAGE) % HUGE_PAGE;
	if (before > 0)
		munmap(base, before);
	if (slack > before)
		munmap(base + before + bytes, slack - before);
	return base + before;
}

#ifdef MREMAP_MAYMOVE
/*
 * Makes a mapping larger without copying.  It moves first and grows then, because valgrind
 * takes what a mapping gains by moving for no memory at all.
 */
static bool
remap(GkArray *array, size_t bytes)
{
	for (int attempt = 0; attempt < 8; attempt++)
	{
		char	   *target;

		if (mremap(array->base, array->mapped, bytes, 0) != MAP_FAILED)
			return true;
		target = map(bytes, PROT_NONE);
		if (target == NULL)
			return false;
		if (mremap(array->base, array->mapped, array->mapped, MREMAP_MAYMOVE | MREMAP_FIXED,
				   target) == MAP_FAILED)
		{
			munmap(target, bytes);
			return false;
		}
		array->base = target;
		/* another thread may take this place before the next attempt */
		munmap(target + array->mapped, bytes - array->mapped);
	}
	return false;
}
#else
/* Makes a mapping larger. */
static bool
remap(GkArray *array, size_t bytes)
{
	void	   *target = map(bytes, PROT_READ | PROT_WRITE);

	if (target == NULL)
		return false;
	memcpy(target, array->base, array->bytes);
	munmap(array->base, array->mapped);
	array->base = target;
	return true;
}
#endif

/* Gives the end of a mapping back, unless the system refuses. */
static void
trim(GkArray *array, size_t mapped)
{
	if (munmap((char *) array->base + mapped, array->mapped - mapped) == 0)
		array->mapped = mapped;
}

/* Takes a mapping of this size from those that are kept; NULL if there is none. */
static void *
take_spare(size_t mapped)
{
	void	   *base = NULL;

	pthread_mutex_lock(&spares.mutex);
	for (int i = spares.count - 1; i >= 0 && base == NULL; i--)
		if (spares.arrays[i].mapped == mapped)
		{
			base = spares.arrays[i].base;
			spares.arrays[i] = spares.arrays[--spares.count];
			spares.bytes -= mapped;
		}
	pthread_mutex_unlock(&spares.mutex);
	return base;
}

/* Keeps the mapping of an array, if there is room for it. */
static bool
keep_spare(const GkArray *array)
{
	bool		keep;

	pthread_mutex_lock(&spares.mutex);
	keep = array->mapped <= SMALL && spares.count < MOST_SPARES &&
		spares.bytes + array->mapped <= SPARE_BYTES;
	if (keep)
	{
		spares.arrays[spares.count++] = *array;
		spares.bytes += array->mapped;
	}
	pthread_mutex_unlock(&spares.mutex);
	return keep;
}

/* Gives the memory of the array back. */
static void
release(GkArray *array)
{
	if (!keep_spare(array))
		munmap(array->base, array->mapped);
}

/* The size of the mapping of an array. */
static size_t
mapping_size(size_t bytes)
{
	size_t		size = page_size();

	if (bytes > SMALL)
		return bytes;
	while (size < bytes)
		size *= 2;
	return size;
}

/* Gets pages for bytes that will be written: one by one, they cost more. */
static void
populate(char *from, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
	if (bytes > page_size())
		(void) madvise(from, bytes, MADV_POPULATE_WRITE);
#else
	(void) from;
	(void) bytes;
#endif
}

/* Puts the array into a small mapping; what is new is 0. */
static bool
place_small(GkArray *array, size_t bytes, size_t mapped)
{
	size_t		kept = array->bytes < bytes ? array->bytes : bytes;
	char	   *base = take_spare(mapped);

	if (base != NULL)
		memset(base + kept, 0, bytes - kept);
	else
	{
		base = map(mapped, PROT_READ | PROT_WRITE);
		if (base == NULL)
			return false;
		populate(base, bytes);
	}
	if (array->base != NULL)
	{
		memcpy(base, array->base, kept);
		release(array);
	}
	array->base = base;
	array->mapped = mapped;
	return true;
}

/* Puts the array into a large mapping; what is new is 0. */
static bool
place_large(GkArray *array, size_t mapped)
{
	if (array->base != NULL)
		memset((char *) array->base + array->bytes, 0, array->mapped - array->bytes);
	if (array->mapped > mapped)
		trim(array, mapped);
	if (array->mapped >= mapped)
		return true;
	if (array->base == NULL)
		array->base = map(mapped, PROT_READ | PROT_WRITE);
	else if (!remap(array, mapped))
		return false;
	if (array->base == NULL)
		return false;
	array->mapped = mapped;
#ifdef MADV_HUGEPAGE
	if (mapped >= HUGE_PAGE)
		(void) madvise(array->base, mapped, MADV_HUGEPAGE);
#endif
	return true;
}

/* Maps the array, or changes the size of its mapping; what is new is 0. */
static bool
place(GkArray *array, size_t bytes)
{
	size_t		mapped = mapping_size(bytes);

	if (array->base != NULL && mapped <= SMALL && mapped == array->mapped)
	{
		if (bytes > array->bytes)
			memset((char *) array->base + array->bytes, 0, bytes - array->bytes);
		return true;
	}
	return mapped <= SMALL ? place_small(array, bytes, mapped) : place_large(array, mapped);
}

#endif							/* GK_HEAP_ARRAYS */

/* Gets pages for bytes that will be written, unless the array has them or they are huge. */
void
gk_cpu_array_populate(GkArray *array, size_t from, size_t to)
{
#ifndef GK_HEAP_ARRAYS
	from = from / page_size() * page_size();
	if (array->mapped > SMALL && array->bytes < HUGE_PAGE && to > from)
		populate((char *) array->base + from, to - from);
#else
	(void) array;
	(void) from;
	(void) to;
#endif
}

/* Accounts for `after` bytes in place of `before`. */
static void
account(GkCpuEngine *engine, size_t before, size_t after)
{
	uint64_t	now = atomic_load_explicit(&engine->host_bytes, memory_order_relaxed) -
		before + after;

	atomic_store_explicit(&engine->host_bytes, now, memory_order_relaxed);
	if (now > atomic_load_explicit(&engine->host_peak, memory_order_relaxed))
		atomic_store_explicit(&engine->host_peak, now, memory_order_relaxed);
}

/* Makes the array count × size bytes large, keeping what it holds; new bytes are 0. */
bool
gk_cpu_array_resize(GkCpuEngine *engine, GkArray *array, size_t count, size_t size)
{
	size_t		page = page_size();
	size_t		bytes;
	uint64_t	total;

	if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4)
		return no_memory(engine, UINT64_MAX);
	bytes = (bytes + page - 1) / page * page;
	if (bytes == 0)
		bytes = page;
	if (bytes == array->bytes)
		return true;
	total = atomic_load_explicit(&engine->host_bytes, memory_order_relaxed) - array->bytes + bytes;
	if (bytes > array->bytes && engine->host_limit > 0 && total > engine->host_limit)
		return no_memory(engine, total);
	if (!draw(engine, array->bytes, bytes))
		return false;
	if (!place(array, bytes))
	{
		give_back(engine, bytes, array->bytes);
		return no_memory(engine, total);
	}
	give_back(engine, array->bytes, bytes);
	account(engine, array->bytes, bytes);
	array->bytes = bytes;
	return true;
}

/* Makes the array at least count × size bytes large, with room to grow if it must grow. */
bool
gk_cpu_array_grow(GkCpuEngine *engine, GkArray *array, size_t count, size_t size)
{
	size_t		bytes;
	size_t		room;
	GkStatus	before = engine->status;

	if (__builtin_mul_overflow(count, size, &bytes))
		return no_memory(engine, UINT64_MAX);
	if (bytes <= array->bytes)
		return true;
	room = bytes < ((size_t) 32 << 20) ? bytes : bytes / 8;
	if (gk_cpu_array_resize(engine, array, bytes + room, 1))
		return true;
	engine->status = before;
	return gk_cpu_array_resize(engine, array, bytes, 1);
}

/* Makes any access to the GK_GAP bytes there an error until the array is used again. */
void
gk_cpu_guard_gap(void *gap)
{
	ASAN_POISON_MEMORY_REGION(gap, GK_GAP);
}

/* Makes the array at least count × size bytes large; what it held may be lost. */
bool
gk_cpu_array_need(GkCpuEngine *engine, GkArray *array, size_t count, size_t size)
{
	size_t		bytes;

	if (__builtin_mul_overflow(count, size, &bytes))
		return no_memory(engine, UINT64_MAX);
	ASAN_UNPOISON_MEMORY_REGION(array->base, array->bytes);
	if (array->base != NULL && bytes <= array->bytes)
		return true;
	gk_cpu_array_free(engine, array);
	return gk_cpu_array_resize(engine, array, count, size);
}

/* Gives the memory of an array back. */
void
gk_cpu_array_free(GkCpuEngine *engine, GkArray *array)
{
	if (array->base == NULL)
		return;
	release(array);
	account(engine, array->bytes, 0);
	give_back(engine, array->bytes, 0);
	*array = (GkArray) {0};
}
