/*
 * The ring: batches of rows in shared memory, between the processes that decode
 * rows and the one thread that moves them into the engine.
 *
 * A slot is free, then claimed by a process that fills it, then ready, then taken by the
 * thread, then free again.  Slots are claimed and become ready in any order;
 * the sequence number of a batch, given with the claim, names it for good.
 *
 * Nothing of PostgreSQL here: the thread may use all of it.
 */
#ifndef GK_RING_H
#define GK_RING_H

#include <semaphore.h>
#include <stdatomic.h>

#include "engine.h"

#define GK_MAX_SLOTS 256

typedef struct GkSlot
{
	_Alignas(64) atomic_int state;
	int64_t		sequence;
	int64_t		rows;
} GkSlot;

typedef struct GkRing
{
	sem_t		free_slots;
	sem_t		ready_slots;
	_Alignas(64) atomic_int_fast64_t claimed;	/* batches so far; the next sequence number */
	atomic_int	dimension;		/* 0 until the first row is seen */
	atomic_int	closed;			/* nobody claims any more */
	atomic_int	failed;			/* `failure` says why nobody takes any more */
	GkStatus	failure;
	bool		weighted;
	int			slots;
	size_t		slot_bytes;		/* a multiple of 64 */
	size_t		memory;			/* where the slots' memory begins, from the ring */
	GkSlot		slot[GK_MAX_SLOTS];
} GkRing;

/* Makes an empty ring; the memory of its slots begins `memory` bytes after it. */
extern void gk_ring_init(GkRing *ring, int slots, size_t slot_bytes, size_t memory, bool weighted);

/* How many rows a slot holds. */
extern int64_t gk_ring_capacity(const GkRing *ring, int dimension);

/* Where the features and the weights of a slot lie. */
extern float *gk_ring_features(GkRing *ring, int slot);
extern double *gk_ring_weights(GkRing *ring, int slot, int dimension);

/* Claims a free slot; -1 if there is none for so long. */
extern int	gk_ring_claim(GkRing *ring, int milliseconds, int64_t *sequence);

/* Says that a claimed slot is filled with so many rows. */
extern void gk_ring_publish(GkRing *ring, int slot, int64_t rows);

/* Takes a ready slot; -1 if there is none for so long. */
extern int	gk_ring_take(GkRing *ring, int milliseconds);

/* Gives a taken slot back. */
extern void gk_ring_return(GkRing *ring, int slot);

/* Says that all claimed slots are published, and no more will be. */
extern void gk_ring_close(GkRing *ring);

/* Says that the engine failed; once, by the thread. */
extern void gk_ring_fail(GkRing *ring, const GkStatus *failure);

/* Waits on a semaphore for so long; false if in vain. */
extern bool gk_wait_semaphore(sem_t *semaphore, int milliseconds);

#endif							/* GK_RING_H */
