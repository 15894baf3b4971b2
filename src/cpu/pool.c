/*
 * Threads of the CPU engine: one leads, it runs a command from beginning to end; the
 * others join it inside gk_cpu_parallel().  The caller of the engine only waits, so it stays
 * interruptible.  Small commands run on the caller, at once.
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

typedef struct Start
{
	GkCpuEngine *engine;
	int			worker;
} Start;

/* How many CPUs this process may use. */
static int
available_threads(void)
{
#ifdef CPU_COUNT
	cpu_set_t	set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return CPU_COUNT(&set);
#endif
	long		online = sysconf(_SC_NPROCESSORS_ONLN);

	return online > 1024 ? 1024 : online < 1 ? 1 : (int) online;
}

/* Makes a pool that has no thread yet; its leader runs commands by `execute`. */
GkStatus
gk_cpu_pool_init(GkPool *pool, int threads, int max_threads, GkExecuteFunction execute)
{
	GkStatus	status = {.code = GK_OK,.device = -1};
	pthread_condattr_t attributes;

	pool->execute = execute;
	pool->threads = threads > 0 ? threads : available_threads();
	if (max_threads > 0 && pool->threads > max_threads)
		pool->threads = max_threads;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->wake, NULL);
	pthread_cond_init(&pool->idle, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->finished, &attributes);
	pthread_condattr_destroy(&attributes);
	atomic_init(&pool->done, true);
	atomic_init(&pool->stop, false);
	atomic_init(&pool->next, 0);
	return status;
}

/* True if the threads are to end. */
static inline bool
is_closing(GkPool *pool)
{
	return atomic_load_explicit(&pool->stop, memory_order_relaxed);
}

/* Does chunks until none is left. */
static void
do_chunks(GkCpuEngine *engine, int worker, GkChunkFunction function, void *context, int64_t count,
		  int64_t grain)
{
	while (!gk_cpu_stopped(engine))
	{
		int64_t		from = atomic_fetch_add_explicit(&engine->pool.next, grain,
													 memory_order_relaxed);

		if (from >= count)
			break;
		function(engine, context, worker, from, from + grain < count ? from + grain : count);
	}
}

/* How many threads can take part in so many chunks: workers have lesser numbers. */
int
gk_cpu_workers(const GkCpuEngine *engine, int64_t chunks)
{
	return chunks < engine->pool.threads ? (int) chunks : engine->pool.threads;
}

/*
 * Does items 0 .. count - 1 in chunks of `grain` on at most `limit` threads (0: all), and no more
 * than there are chunks.  False if the engine is closing; then some may not be done.
 */
bool
gk_cpu_parallel(GkCpuEngine *engine, int64_t count, int64_t grain, int limit,
				GkChunkFunction function, void *context)
{
	GkPool	   *pool = &engine->pool;
	bool		help = pool->started > 1 && pool->useful > 1 && limit != 1 && count > grain;
	int			workers = gk_cpu_workers(engine, (count + grain - 1) / grain);

	atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
	if (help)
	{
		pthread_mutex_lock(&pool->mutex);
		pool->function = function;
		pool->context = context;
		pool->count = count;
		pool->grain = grain;
		pool->limit = workers < pool->useful ? workers : pool->useful;
		pool->limit = limit > 0 && limit < pool->limit ? limit : pool->limit;
		pool->open = true;
		pool->generation++;
		pthread_cond_broadcast(&pool->wake);
		pthread_mutex_unlock(&pool->mutex);
	}
	do_chunks(engine, 0, function, context, count, grain);
	if (help)
	{
		pthread_mutex_lock(&pool->mutex);
		pool->open = false;
		while (pool->active > 0)
			pthread_cond_wait(&pool->idle, &pool->mutex);
		pthread_mutex_unlock(&pool->mutex);
	}
	return !gk_cpu_stopped(engine);
}

/* The chunk size at which a chunk takes about a millisecond if an item takes `work` flops. */
int64_t
gk_cpu_grain(const GkCpuEngine *engine, int64_t count, double work)
{
	double		grain = 1e-3 * GK_THREAD_FLOPS / (work + 1);
	double		share = (double) count / (8.0 * engine->pool.threads);

	if (grain > share)
		grain = share;
	return grain < 1 ? 1 : (int64_t) grain;
}

/* The same on all threads, for items of `work` flops each. */
bool
gk_cpu_for_each(GkCpuEngine *engine, int64_t count, double work, GkChunkFunction function,
				void *context)
{
	return gk_cpu_parallel(engine, count, gk_cpu_grain(engine, count, work), 0, function, context);
}

/* Runs commands until the end; with the mutex held. */
static void
lead(GkCpuEngine *engine)
{
	GkPool	   *pool = &engine->pool;

	while (!is_closing(pool))
	{
		GkCommand  *command = pool->command;

		if (command == NULL)
		{
			pthread_cond_wait(&pool->wake, &pool->mutex);
			continue;
		}
		pthread_mutex_unlock(&pool->mutex);
		pool->execute(engine, command);
		pthread_mutex_lock(&pool->mutex);
		pool->command = NULL;
		atomic_store(&pool->done, true);
		pthread_cond_signal(&pool->finished);
	}
}

/* Joins jobs until the end; with the mutex held. */
static void
help(GkCpuEngine *engine, int worker)
{
	GkPool	   *pool = &engine->pool;
	uint64_t	seen = 0;

	while (!is_closing(pool))
	{
		GkChunkFunction function = pool->function;
		void	   *context = pool->context;
		int64_t		count = pool->count;
		int64_t		grain = pool->grain;

		if (!pool->open || pool->generation == seen || worker >= pool->limit)
		{
			pthread_cond_wait(&pool->wake, &pool->mutex);
			continue;
		}
		seen = pool->generation;
		pool->active++;
		pthread_mutex_unlock(&pool->mutex);
		do_chunks(engine, worker, function, context, count, grain);
		pthread_mutex_lock(&pool->mutex);
		if (--pool->active == 0)
			pthread_cond_signal(&pool->idle);
	}
}

/* A pool thread. */
static void *
thread_main(void *argument)
{
	Start		start = *(Start *) argument;
	GkPool	   *pool = &start.engine->pool;

	free(argument);
	/* whoever created it may round in another way, or flush subnormal numbers to zero */
	(void) fesetenv(FE_DFL_ENV);
	pthread_mutex_lock(&pool->mutex);
	if (start.worker == 0)
		lead(start.engine);
	else
		help(start.engine, start.worker);
	pthread_mutex_unlock(&pool->mutex);
	return NULL;
}

/* Starts threads, up to so many if there can be; false if there is none. */
static bool
start_threads(GkCpuEngine *engine, int threads)
{
	GkPool	   *pool = &engine->pool;
	sigset_t	all;
	sigset_t	before;

	if (pool->started >= threads)
		return true;
	if (pool->ids == NULL)
		pool->ids = malloc(pool->threads * sizeof(pthread_t));
	if (pool->ids == NULL)
		return pool->started > 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (pool->started < threads)
	{
		Start	   *start = malloc(sizeof(Start));

		if (start == NULL)
			break;
		*start = (Start) {engine, pool->started};
		if (pthread_create(&pool->ids[pool->started], NULL, thread_main, start) != 0)
		{
			free(start);
			break;
		}
		pool->started++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pool->started > 0;
}

/* Gives a command to the leader, for so many threads. */
GkStatus
gk_cpu_pool_submit(GkCpuEngine *engine, GkCommand *command, int threads)
{
	GkPool	   *pool = &engine->pool;
	GkStatus	status = {.code = GK_OK,.device = -1};

	if (!start_threads(engine, threads))
	{
		gk_cpu_fail(engine, GK_NO_HOST_MEMORY, "pthread_create", "could not start a thread");
		return engine->status;
	}
	pthread_mutex_lock(&pool->mutex);
	atomic_store(&pool->done, false);
	pool->command = command;
	pool->useful = threads;
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->mutex);
	return status;
}

/* Waits for the command; false if it goes on. */
bool
gk_cpu_pool_wait(GkPool *pool, int milliseconds)
{
	struct timespec until;

	for (int i = 0; i < 200; i++)
		if (atomic_load(&pool->done))
			return true;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += milliseconds / 1000;
	until.tv_nsec += (long) (milliseconds % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&pool->mutex);
	while (!atomic_load(&pool->done))
		if (pthread_cond_timedwait(&pool->finished, &pool->mutex, &until) != 0)
			break;
	pthread_mutex_unlock(&pool->mutex);
	return atomic_load(&pool->done);
}

/* Ends the threads, a command that runs included. */
void
gk_cpu_pool_close(GkCpuEngine *engine)
{
	GkPool	   *pool = &engine->pool;

	pthread_mutex_lock(&pool->mutex);
	atomic_store(&pool->stop, true);
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->mutex);
	for (int i = 0; i < pool->started; i++)
		pthread_join(pool->ids[i], NULL);
	free(pool->ids);
	pthread_cond_destroy(&pool->finished);
	pthread_cond_destroy(&pool->idle);
	pthread_cond_destroy(&pool->wake);
	pthread_mutex_destroy(&pool->mutex);
}
