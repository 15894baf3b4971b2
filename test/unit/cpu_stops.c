/*
 * Stops of the CPU engine, planned by a test: replaces src/cpu/stop.c.
 */
#include "cpu_stops.h"
#include "state.h"

static _Atomic(GkCpuEngine *) planned;
static atomic_llong looks;

/* True if the engine is closing, or a planned stop says so. */
bool
gk_cpu_stopped(GkCpuEngine *engine)
{
	if (atomic_load_explicit(&engine->pool.stop, memory_order_relaxed))
		return true;
	return atomic_load_explicit(&planned, memory_order_relaxed) == engine &&
		atomic_fetch_sub_explicit(&looks, 1, memory_order_relaxed) <= 1;
}

/* Plans a stop, or cancels the plan. */
int64_t
plan_cpu_stop(GkEngine *engine, int64_t look)
{
	int64_t		left = atomic_exchange(&looks, look);

	atomic_store(&planned, look > 0 ? (GkCpuEngine *) engine : NULL);
	return left > 0 ? left : 0;
}
