/*
 * When a command of the CPU engine is to end: alone in a file, so that a test can put
 * another answer in its place.
 */
#include "state.h"

/* True if the engine is closing. */
bool
gk_cpu_stopped(GkCpuEngine *engine)
{
	return atomic_load_explicit(&engine->pool.stop, memory_order_relaxed);
}
