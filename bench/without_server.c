/*
 * What src/fit calls of a server, for programs without one.
 */
#include "without_server.h"

#include "common/hashfn.h"
#include "miscadmin.h"

volatile sig_atomic_t InterruptPending = false;
MemoryContext CurrentMemoryContext = NULL;

/* Ends the program. */
static void
give_up(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(1);
}

void
ProcessInterrupts(void)
{
}

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	void	   *memory = malloc(size);

	if (memory == NULL)
		give_up("out of memory");
	return memory;
}

void *
repalloc_huge(void *pointer, Size size)
{
	void	   *memory = realloc(pointer, size);

	if (memory == NULL)
		give_up("out of memory");
	return memory;
}

void
pfree(void *pointer)
{
	free(pointer);
}

Size
mul_size(Size a, Size b)
{
	Size		product;

	if (__builtin_mul_overflow(a, b, &product))
		give_up("requested size overflows");
	return product;
}

bool
errstart(int level, const char *domain)
{
	return true;
}

bool
errstart_cold(int level, const char *domain)
{
	return true;
}

int
errmsg_internal(const char *format,...)
{
	va_list		arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	return 0;
}

void
errfinish(const char *file, int line, const char *function)
{
	give_up("");
}

/* Only drawing at random has a table of rows, and no program without a server asks for that. */
HTAB *
hash_create(const char *name, long count, const HASHCTL *control, int flags)
{
	give_up("there are no hash tables without a server");
	return NULL;
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	give_up("there are no hash tables without a server");
	return NULL;
}

void
hash_destroy(HTAB *table)
{
	give_up("there are no hash tables without a server");
}

uint32
hash_bytes(const unsigned char *key, int length)
{
	give_up("there are no hash tables without a server");
	return 0;
}
