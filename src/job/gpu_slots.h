/*
 * The GPUs of the host as the backends share them.
 *
 * A backend takes one of gkmeans.max_gpu_backends slots before it opens the CUDA engine
 * and keeps it to the end of its transaction.  A slot is a heavyweight lock: it is seen in
 * pg_locks, and an abort frees it at once.  Those that wait for one form a queue, a lock as
 * well: who has it gets the slot that is free first.
 */
#ifndef GK_DEVICES_H
#define GK_DEVICES_H

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
 * Before devices are opened: they are given back at the end of the transaction, unless the session
 * is one of as many as there are slots, which keep theirs: idle sessions beyond do not hold the
 * memory that busy ones need.
 */
extern void gk_note_opening(const GkEngineClass *engine_class);

#endif							/* GK_DEVICES_H */
