/*
 * The GPUs of the host as the backends share them.
 *
 * A backend takes one of gkmeans.max_gpu_backends slots before it opens the CUDA engine
 * and keeps it to the end of its transaction.  A slot is a heavyweight lock, so a
 * backend that waits for one is seen in pg_locks, can be cancelled, and takes part in deadlock
 * detection; an abort frees it at once.
 */
#ifndef GK_DEVICES_H
#define GK_DEVICES_H

#include "postgres.h"

#include "engine.h"

/* Takes a slot if this transaction has none; waits for gkmeans.queue_timeout, 53300 after that. */
extern void gk_take_slot(void);

/* Whether a slot could be had now without waiting; takes it if so. */
extern bool gk_try_slot(void);

/*
 * After a fit: gives back what the process keeps on its devices if every slot is
 * taken, so that idle sessions do not hold the memory that busy ones need.
 */
extern void gk_give_way(const GkEngineClass *engine_class);

#endif							/* GK_DEVICES_H */
