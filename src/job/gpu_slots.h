/*
 * GPU slots: how the backends share the GPUs of the host.
 *
 * A backend takes one of gkmeans.max_gpu_backends slots before it opens the CUDA engine
 * and keeps it to the end of its transaction.  A slot is a heavyweight lock: it is seen in
 * pg_locks, and an abort frees it at once.  Those that wait for one form a queue, a lock as
 * well: who has it gets the slot that is free first.
 */
#ifndef GK_GPU_SLOTS_H
#define GK_GPU_SLOTS_H

#include "postgres.h"

#include "engine.h"

/* Takes a slot if this transaction has none; waits for gkmeans.queue_timeout, 53300 after that. */
extern void gk_take_slot(void);

/* Whether a slot could be had now without waiting; takes it if so. */
extern bool gk_try_slot(void);

/* Whether this transaction has a slot. */
extern bool gk_has_slot(void);

/* Gives back a slot that was taken for nothing. */
extern void gk_return_slot(void);

/*
 * Call before opening devices.  At most max_gpu_backends sessions keep devices open between
 * transactions; the others release them at transaction end.
 */
extern void gk_note_opening(const GkEngineClass *engine_class);

#endif							/* GK_GPU_SLOTS_H */
