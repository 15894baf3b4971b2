/*
 * GPU slots: how the backends share the GPUs of the host.
 *
 * A backend takes one of gkmeans.max_gpu_backends slots before it opens the CUDA engine
 * and keeps it to the end of its transaction.  A slot is a heavyweight lock: pg_locks shows it,
 * and an abort frees it at once.  Waiting backends form a queue, which is a lock as well: its
 * holder gets the next free slot.
 */
#ifndef GK_GPU_SLOTS_H
#define GK_GPU_SLOTS_H

#include "postgres.h"

#include "engine.h"

/* Takes a slot if this transaction has none; error 53300 after gkmeans.queue_timeout. */
extern void gk_take_slot(void);

/* Takes a slot if that is possible without waiting; false if not. */
extern bool gk_try_slot(void);

/* True if this transaction has a slot. */
extern bool gk_has_slot(void);

/* Releases a slot that turned out not to be needed. */
extern void gk_return_slot(void);

/*
 * Call before opening devices.  At most max_gpu_backends sessions keep devices open between
 * transactions; the others release them at transaction end.
 */
extern void gk_note_opening(const GkEngineClass *engine_class);

#endif							/* GK_GPU_SLOTS_H */
