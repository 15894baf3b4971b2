/*
 * The ring: batches of rows in shared memory, between the processes that decode
 * rows and the one thread that moves them into the engine.
 *
 * A slot is free, then claimed by a process that fills it, then ready, then taken by the
 * thread, then free again.  Slots are claimed and become ready in any order;
 * a batch gets its sequence number, which identifies it from then on, when its slot is claimed.
 *
 * Nothing of PostgreSQL here: the thread may call everything.
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
	atomic_int	closed;			/* no more slots will be claimed */
	atomic_int	failed;			/* no more slots will be taken; see `failure` */
	GkStatus	failure;
	bool		weighted;
	int			slots;
	size_t		slot_bytes;		/* a multiple of 64 */
	size_t		memory;			/* offset of the slots' memory from the ring */
	GkSlot		slot[GK_MAX_SLOTS];
} GkRing;

/* Initialises an empty ring; the memory of its slots begins `memory` bytes after it. */
extern void gk_ring_init(GkRing *ring, int slots, size_t slot_bytes, size_t memory, bool weighted);

/* How many rows a slot holds. */
extern int64_t gk_ring_capacity(const GkRing *ring, int dimension);

/* Where the features and the weights of a slot lie. */
extern float *gk_ring_features(GkRing *ring, int slot);
extern double *gk_ring_weights(GkRing *ring, int slot, int dimension);

/* Claims a free slot; -1 if none becomes free in time. */
extern int	gk_ring_claim(GkRing *ring, int milliseconds, int64_t *sequence);

/* Marks a claimed slot as filled with this many rows. */
extern void gk_ring_publish(GkRing *ring, int slot, int64_t rows);

/* Takes a ready slot; -1 if none becomes ready in time. */
extern int	gk_ring_take(GkRing *ring, int milliseconds);

/* Returns a taken slot. */
extern void gk_ring_return(GkRing *ring, int slot);

/* Marks the ring as closed: all claimed slots are published, and no more will be claimed. */
extern void gk_ring_close(GkRing *ring);

/* Records the engine's failure; once, by the thread. */
extern void gk_ring_fail(GkRing *ring, const GkStatus *failure);

/* Waits on a semaphore for at most this long; false if it timed out. */
extern bool gk_wait_semaphore(sem_t *semaphore, int milliseconds);

#endif							/* GK_RING_H */
