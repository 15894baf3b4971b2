/*
 * The CPU engine where the system refuses: each call for memory or a thread fails in turn, and
 * pages are larger than usual.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine_compare.h"
#include "engine_ends.h"
#include "reference_engine.h"
#include "tap.h"

/* Address space that the engine may keep for later engines. */
#define SPARE_BYTES ((int64_t) 4 << 20)

typedef enum Call
{
	MAP,
	REMAP,
	UNMAP,
	THREAD,
	ALLOCATE,
	CALLS
} Call;

static const char *const call_names[CALLS] = {"mmap", "mremap", "munmap", "pthread_create",
	"aligned_alloc"};

static size_t page = 4096;
static atomic_long counts[CALLS];
static atomic_long mapped;		/* bytes */
static char *latest;			/* the mapping made last */
static char *latest_end;
static bool overrun = false;	/* more was moved into it than it holds */
static Call failing;
static long failing_at = 0;		/* the number of a call, from 1; 0 = none */
static bool failing_on = false;	/* later calls fail, too */

/* A function of the C library. */
#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

/* Counts a call; true if it is to fail. */
static bool
refuse(Call call)
{
	long		number = atomic_fetch_add(&counts[call], 1) + 1;

	return failing_at > 0 && call == failing &&
		(number == failing_at || (failing_on && number > failing_at));
}

/* Bytes as whole pages. */
static size_t
whole(size_t bytes)
{
	return (bytes + page - 1) / page * page;
}

/* True, with the system's reason, if no page begins there. */
static bool
is_bad(const void *address)
{
	if ((uintptr_t) address % page == 0)
		return false;
	errno = EINVAL;
	return true;
}

/* In the place of the C library's. */
long
sysconf(int name)
{
	return name == _SC_PAGESIZE ? (long) page : REAL(sysconf) (name);
}

/* The same: a mapping that begins at such a page. */
void *
mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
	size_t		size = whole(bytes);
	char	   *base;
	size_t		before;

	if (refuse(MAP))
	{
		errno = ENOMEM;
		return MAP_FAILED;
	}
	base = REAL(mmap) (address, size + page, protection, flags, file, offset);
	if (base == MAP_FAILED)
		return base;
	before = whole((uintptr_t) base) - (uintptr_t) base;
	if (before > 0)
		REAL(munmap) (base, before);
	REAL(munmap) (base + before + size, page - before);
	atomic_fetch_add(&mapped, size);
	latest = base + before;
	latest_end = latest + size;
	return latest;
}

/* The same: whole pages go. */
int
munmap(void *address, size_t bytes)
{
	if (is_bad(address))
		return -1;
	if (refuse(UNMAP))
	{
		errno = ENOMEM;
		return -1;
	}
	atomic_fetch_sub(&mapped, whole(bytes));
	if ((char *) address > latest && (char *) address < latest_end)
		latest_end = address;
	return REAL(munmap) (address, whole(bytes));
}

/* The same: whole pages move. */
void *
mremap(void *address, size_t before, size_t after, int flags, ...)
{
	va_list		arguments;
	void	   *target;
	void	   *moved;

	va_start(arguments, flags);
	target = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
	va_end(arguments);
	if (is_bad(address) || is_bad(target))
		return MAP_FAILED;
	if (refuse(REMAP))
	{
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (target != NULL && (char *) target + whole(after) > latest_end)
		overrun = true;
	moved = REAL(mremap) (address, whole(before), whole(after), flags, target);
	/* at a fixed place, what was reserved there goes */
	if (moved != MAP_FAILED)
		atomic_fetch_sub(&mapped, whole(before));
	if (moved != MAP_FAILED && target == NULL)
		atomic_fetch_add(&mapped, whole(after));
	return moved;
}

/* The same. */
int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main) (void *),
			   void *argument)
{
	return refuse(THREAD) ? EAGAIN : REAL(pthread_create) (thread, attributes, main, argument);
}

/* The same. */
void *
aligned_alloc(size_t alignment, size_t bytes)
{
	return refuse(ALLOCATE) ? NULL : REAL(aligned_alloc) (alignment, bytes);
}

/* Begins to count; that call fails, and perhaps all that follow. */
static void
plan_fault(Call call, long number, bool on)
{
	for (int i = 0; i < CALLS; i++)
		atomic_store(&counts[i], 0);
	failing = call;
	failing_on = on;
	failing_at = number;
}

/* Appends the rows in batches, so that arrays grow, and seals them, so that they shrink. */
static GkCode
append_in_batches(const Data *data, GkEngineConfig config)
{
	GkEngine   *engine;
	GkBatch		batch = {.rows = 1000,.features = data->x,.weights = data->w};
	GkCommand	seal = {.operation = GK_SEAL};
	GkStatus	status = gk_cpu_engine()->open(&config, &engine);

	if (status.code != GK_OK)
		return status.code;
	status = engine->class_of->set_dimension(engine, data->d);
	if (status.code == GK_OK)
		status = append_until(engine, &batch, data->n);
	if (status.code == GK_OK)
		status = run_one(engine, &seal);
	engine->class_of->close(engine);
	return status.code;
}

/* All commands of an engine, up to the first error. */
static GkCode
run_commands(const Data *data)
{
	GkCode		code = append_in_batches(data, (GkEngineConfig) {.weighted = true,.threads = 3});

	return code != GK_OK ? code :
		run_until_error(gk_cpu_engine(), data, (Feeding) {.threads = 3});
}

/* Each call of a kind fails in turn: the engine answers, or says that memory is short. */
static void
test_faults(Call call, bool on)
{
	Data		data = make_data(BLOBS, 300000, 6, 20, true, false, false);
	long		before;
	int			failed = 0;
	int			wrong = 0;
	int			leaks = 0;
	long		calls;

	overrun = false;
	plan_fault(call, 0, false);
	(void) run_commands(&data);
	calls = atomic_load(&counts[call]);
	before = atomic_load(&mapped);
	for (long number = 1; number <= calls; number++)
	{
		GkCode		code;

		plan_fault(call, number, on);
		code = run_commands(&data);
		failed += code == GK_NO_HOST_MEMORY;
		wrong += code != GK_OK && code != GK_NO_HOST_MEMORY;
		plan_fault(call, 0, false);
		if (atomic_load(&mapped) > before + SPARE_BYTES)
		{
			leaks++;
			before = atomic_load(&mapped);
		}
	}
	printf("# %s%s: %ld calls, %d errors\n", call_names[call], on ? " from there on" : "", calls,
		   failed);
	ok(calls > 0 && wrong == 0, "%s fails%s: answers, or memory is short", call_names[call],
	   on ? " from there on" : "");
	ok(call == UNMAP || leaks == 0, "no address space is left");
	ok(!overrun, "and nothing else is overwritten");
	free_data(&data);
}

/* An engine that cannot be opened blames the system, not a limit. */
static void
test_open(void)
{
	GkEngineConfig config = {.threads = 1};
	GkEngine   *engine;
	GkStatus	status;

	plan_fault(ALLOCATE, 1, false);
	status = gk_cpu_engine()->open(&config, &engine);
	plan_fault(ALLOCATE, 0, false);
	ok(engine == NULL && status.code == GK_NO_HOST_MEMORY && status.needed <= status.allowed,
	   "an engine that cannot be opened blames the system");
}

/* A fit is that of the reference engine. */
static void
test_answer(const char *name, int64_t batch)
{
	Comparison	comparison = {.tested = gk_cpu_engine(),.oracle = gk_reference_engine()};
	Data		data = make_data(BLOBS, 20011, 33, 20, true, false, false);
	Feeding		feeding = {.threads = 2,.batch = batch};

	snprintf(comparison.where, sizeof(comparison.where), "%s", name);
	compare_fit(&comparison, &data, feeding, 3);
	ok(!comparison.differs, "%s", name);
	free_data(&data);
}

/* With larger pages, arrays grow and shrink as with others. */
static void
test_pages(size_t bytes)
{
	page = bytes;
	test_answer("large pages", 1000);
	test_answer("large pages, odd batches", 777);
	ok(atomic_load(&mapped) <= SPARE_BYTES, "no address space is left");
	page = 4096;
}

int
main(void)
{
	random_seed(9);
	test_pages(65536);
	for (Call call = 0; call < ALLOCATE; call++)
		for (int on = 0; on < (call == UNMAP ? 1 : 2); on++)
			test_faults(call, on);
	test_open();
	test_answer("after faults", 1000);
	return done_testing();
}
