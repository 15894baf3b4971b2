/*
 * The ring: batches of rows in shared memory.
 */
#define _GNU_SOURCE 1

#include <errno.h>
#include <time.h>

#include "ring.h"

enum
{
	SLOT_FREE,
	SLOT_CLAIMED,
	SLOT_READY,
	SLOT_TAKEN
};

/* Initialises an empty ring. */
void
gk_ring_init(GkRing *ring, int slots, size_t slot_bytes, size_t memory, bool weighted)
{
	sem_init(&ring->free_slots, 1, slots);
	sem_init(&ring->ready_slots, 1, 0);
	atomic_init(&ring->claimed, 0);
	atomic_init(&ring->dimension, 0);
	atomic_init(&ring->closed, 0);
	atomic_init(&ring->failed, 0);
	ring->weighted = weighted;
	ring->slots = slots;
	ring->slot_bytes = slot_bytes;
	ring->memory = memory;
	for (int i = 0; i < slots; i++)
		atomic_init(&ring->slot[i].state, SLOT_FREE);
}

/* How many rows a slot holds; the weights follow the features, at a multiple of 8. */
int64_t
gk_ring_capacity(const GkRing *ring, int dimension)
{
	size_t		row = dimension * sizeof(float) + (ring->weighted ? sizeof(double) : 0);

	return (ring->slot_bytes - sizeof(double)) / row;
}

/* Where the features of a slot lie. */
float *
gk_ring_features(GkRing *ring, int slot)
{
	return (float *) ((char *) ring + ring->memory + slot * ring->slot_bytes);
}

/* Where the weights of a slot lie. */
double *
gk_ring_weights(GkRing *ring, int slot, int dimension)
{
	size_t		features = gk_ring_capacity(ring, dimension) * dimension * sizeof(float);

	return (double *) ((char *) gk_ring_features(ring, slot) + (features + 7) / 8 * 8);
}

/* Waits on a semaphore for at most this long; false if it timed out. */
bool
gk_wait_semaphore(sem_t *semaphore, int milliseconds)
{
	struct timespec until;

	if (sem_trywait(semaphore) == 0)
		return true;
	if (milliseconds == 0)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long) milliseconds * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return sem_clockwait(semaphore, CLOCK_MONOTONIC, &until) == 0;
}

/* Moves some slot from one state to another; -1 if there is none. */
static int
move_slot(GkRing *ring, int from, int to)
{
	for (int i = 0; i < ring->slots; i++)
	{
		int			expected = from;

		if (atomic_load_explicit(&ring->slot[i].state, memory_order_relaxed) == from &&
			atomic_compare_exchange_strong(&ring->slot[i].state, &expected, to))
			return i;
	}
	return -1;
}

/* Claims a free slot; -1 if none becomes free in time. */
int
gk_ring_claim(GkRing *ring, int milliseconds, int64_t *sequence)
{
	int			slot;

	if (!gk_wait_semaphore(&ring->free_slots, milliseconds))
		return -1;
	/* the semaphore guarantees a free slot, but another claim may take it during a scan */
	while ((slot = move_slot(ring, SLOT_FREE, SLOT_CLAIMED)) < 0)
		;
	*sequence = atomic_fetch_add(&ring->claimed, 1);
	ring->slot[slot].sequence = *sequence;
	return slot;
}

/* Marks a claimed slot as filled. */
void
gk_ring_publish(GkRing *ring, int slot, int64_t rows)
{
	ring->slot[slot].rows = rows;
	atomic_store(&ring->slot[slot].state, SLOT_READY);
	sem_post(&ring->ready_slots);
}

/* Takes a ready slot; -1 if none becomes ready in time. */
int
gk_ring_take(GkRing *ring, int milliseconds)
{
	if (!gk_wait_semaphore(&ring->ready_slots, milliseconds))
		return -1;
	return move_slot(ring, SLOT_READY, SLOT_TAKEN);
}

/* Returns a taken slot. */
void
gk_ring_return(GkRing *ring, int slot)
{
	atomic_store(&ring->slot[slot].state, SLOT_FREE);
	sem_post(&ring->free_slots);
}

/* Marks the ring as closed, and wakes the thread. */
void
gk_ring_close(GkRing *ring)
{
	atomic_store(&ring->closed, 1);
	sem_post(&ring->ready_slots);
}

/* Records the engine's failure. */
void
gk_ring_fail(GkRing *ring, const GkStatus *failure)
{
	ring->failure = *failure;
	atomic_store(&ring->failed, 1);
}
