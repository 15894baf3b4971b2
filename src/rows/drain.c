/*
 * The drain: moves ready batches from the ring into the engine.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drain.h"

/* How long the thread sleeps when it has nothing to do, in milliseconds. */
#define IDLE_MILLISECONDS 100
/* The same while the engine is still reading slots, which must be returned to the ring. */
#define PENDING_MILLISECONDS 1

/* What is moved on demand at once, in bytes of rows: it is still in the cache of who decoded it. */
#define BATCH_BYTES ((size_t) 64 << 10)

/* How often to look whether the engine has read the last slots before pausing, and for how long. */
#define LOOKS 200
#define PAUSE_NANOSECONDS 50000

struct GkDrain
{
	GkRing	   *ring;
	GkEngine   *engine;
	pthread_t	thread;
	bool		has_thread;
	size_t		moved;			/* bytes of rows, on demand */
	atomic_int	stop;
	sem_t		finished;
	GkStatus	status;
	int64_t		rows;
	GkRowCount	count;
	void		(*complete) (GkStatus *status);
	int64_t    *first_rows;		/* by sequence number */
	int64_t		batches;		/* the greatest sequence number + 1 */
	int64_t		allocated;
	bool		has_dimension;
	int			looks;			/* at the engine, for the last slots */
	int			pending;		/* appended, not yet reclaimed: in order of append */
	int			pending_slots[GK_MAX_SLOTS];
	uint64_t	pending_tickets[GK_MAX_SLOTS];
};

/* A status with a message. */
static GkStatus
failure(GkCode code, const char *where, const char *message)
{
	GkStatus	status = {.code = code, .device = -1};

	snprintf(status.where, sizeof(status.where), "%s", where);
	snprintf(status.message, sizeof(status.message), "%s", message);
	return status;
}

/* Records the engine's number of the first row of a batch. */
static GkStatus
note_first_row(GkDrain *drain, int64_t sequence)
{
	if (sequence >= drain->allocated)
	{
		int64_t		wanted = sequence * 2 + 64;
		int64_t    *larger = realloc(drain->first_rows, wanted * sizeof(int64_t));

		if (larger == NULL)
			return failure(GK_NO_HOST_MEMORY, "realloc", "out of memory for a source's batches");
		drain->first_rows = larger;
		drain->allocated = wanted;
	}
	drain->first_rows[sequence] = drain->rows;
	if (sequence >= drain->batches)
		drain->batches = sequence + 1;
	return (GkStatus) {.code = GK_OK};
}

/* Returns the slots that the engine has read. */
static GkStatus
reclaim_slots(GkDrain *drain)
{
	uint64_t	ticket;
	int			done = 0;
	GkStatus	status;

	if (drain->pending == 0)
		return (GkStatus) {.code = GK_OK};
	status = drain->engine->class_of->reclaim(drain->engine, &ticket);
	if (status.code != GK_OK)
		return status;
	while (done < drain->pending && drain->pending_tickets[done] <= ticket)
		gk_ring_return(drain->ring, drain->pending_slots[done++]);
	drain->pending -= done;
	memmove(drain->pending_slots, drain->pending_slots + done, drain->pending * sizeof(int));
	memmove(drain->pending_tickets, drain->pending_tickets + done,
			drain->pending * sizeof(uint64_t));
	return status;
}

/* Passes a batch with rows to the engine. */
static GkStatus
append_slot(GkDrain *drain, int slot)
{
	GkRing	   *ring = drain->ring;
	int			dimension = atomic_load(&ring->dimension);
	const GkEngineClass *engine_class = drain->engine->class_of;
	GkBatch		batch;
	GkStatus	status;

	if (!drain->has_dimension)
	{
		status = engine_class->set_dimension(drain->engine, dimension);
		if (status.code != GK_OK)
			return status;
		drain->has_dimension = true;
	}
	batch.rows = ring->slot[slot].rows;
	batch.features = gk_ring_features(ring, slot);
	batch.weights = ring->weighted ? gk_ring_weights(ring, slot, dimension) : NULL;
	if (drain->rows + batch.rows > GK_MAX_ROWS)
		return failure(GK_LIMIT, "append", "the source has too many rows");
	status = engine_class->append(drain->engine, &batch, &drain->pending_tickets[drain->pending]);
	if (status.code != GK_OK)
		return status;
	drain->pending_slots[drain->pending++] = slot;
	drain->moved += batch.rows * dimension * sizeof(float);
	drain->rows += batch.rows;
	drain->count.set(drain->count.fit, drain->rows);
	return status;
}

/* Moves one ready batch. */
static GkStatus
drain_slot(GkDrain *drain, int slot)
{
	GkStatus	status = note_first_row(drain, drain->ring->slot[slot].sequence);

	if (status.code != GK_OK)
		return status;
	if (drain->ring->slot[slot].rows > 0)
		return append_slot(drain, slot);
	gk_ring_return(drain->ring, slot);
	return status;
}

/* Lets a moment pass between two looks at the engine. */
static void
pause_between_looks(int looks)
{
	struct timespec pause = {0, PAUSE_NANOSECONDS};

	if (looks < LOOKS)
		sched_yield();
	else
		nanosleep(&pause, NULL);
}

/* Moves batches until the closed ring is empty and the engine has read them all. */
static GkStatus
move_batches(GkDrain *drain)
{
	GkStatus	status = {.code = GK_OK};
	int			looks = 0;

	while (status.code == GK_OK && !atomic_load(&drain->stop))
	{
		bool		closed = atomic_load(&drain->ring->closed);
		int			slot = gk_ring_take(drain->ring, closed ? 0 : drain->pending > 0 ?
										PENDING_MILLISECONDS : IDLE_MILLISECONDS);

		if (slot >= 0)
			status = drain_slot(drain, slot);
		else if (closed && drain->pending == 0)
			break;
		else if (closed)
			pause_between_looks(looks++);
		if (status.code == GK_OK)
			status = reclaim_slots(drain);
	}
	return status;
}

/* Notes how moving went; the feeders see a failure. */
static void
note_status(GkDrain *drain, GkStatus status)
{
	drain->status = status;
	if (status.code == GK_OK)
		return;
	drain->complete(&drain->status);
	gk_ring_fail(drain->ring, &drain->status);
}

/* The thread's main function: moves all batches. */
static void *
drain_main(void *argument)
{
	GkDrain    *drain = argument;

	note_status(drain, move_batches(drain));
	sem_post(&drain->finished);
	return NULL;
}

/* Starts the thread with all signals blocked. */
static GkStatus
start_thread(GkDrain *drain)
{
	sigset_t	all;
	sigset_t	before;
	int			error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&drain->thread, NULL, drain_main, drain);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0)
		return failure(GK_NO_HOST_MEMORY, "pthread_create", "could not start a thread");
	drain->has_thread = true;
	return (GkStatus) {.code = GK_OK};
}

/* Begins with an empty ring. */
GkStatus
gk_drain_start(GkRing *ring, GkEngine *engine, GkRowCount count,
			   void (*complete) (GkStatus *status), bool on_demand, GkDrain **result)
{
	GkDrain    *drain = calloc(1, sizeof(GkDrain));
	GkStatus	status = {.code = GK_OK};

	*result = NULL;
	if (drain == NULL)
		return failure(GK_NO_HOST_MEMORY, "calloc", "out of memory for a thread");
	drain->ring = ring;
	drain->engine = engine;
	drain->count = count;
	drain->complete = complete;
	sem_init(&drain->finished, 0, 0);
	if (!on_demand)
		status = start_thread(drain);
	if (status.code != GK_OK)
		free(drain);
	else
		*result = drain;
	return status;
}

/* How many bytes of rows a batch should have at most. */
size_t
gk_drain_at_once(const GkDrain *drain)
{
	return drain->has_thread ? 0 : BATCH_BYTES;
}

/* Moves the batches that are ready, or lets a thread go on. */
void
gk_drain_move(GkDrain *drain)
{
	GkStatus	status = {.code = GK_OK};
	int			slot;

	if (drain->has_thread || drain->status.code != GK_OK)
		return;
	if (drain->moved >= GK_THREAD_BYTES)
		status = start_thread(drain);
	else
		while (status.code == GK_OK && (slot = gk_ring_take(drain->ring, 0)) >= 0)
			status = drain_slot(drain, slot);
	if (status.code == GK_OK && !drain->has_thread)
		status = reclaim_slots(drain);
	if (status.code != GK_OK)
		note_status(drain, status);
}

/* Waits until a closed ring is empty, or moving fails. */
bool
gk_drain_wait(GkDrain *drain, int milliseconds)
{
	gk_drain_move(drain);
	if (drain->has_thread)
		return gk_wait_semaphore(&drain->finished, milliseconds);
	if (drain->status.code != GK_OK || drain->pending == 0)
		return true;
	pause_between_looks(drain->looks++);
	return false;
}

/* How the moving ended. */
GkStatus
gk_drain_status(const GkDrain *drain)
{
	return drain->status;
}

/* How many rows went into the engine. */
int64_t
gk_drain_rows(const GkDrain *drain)
{
	return drain->rows;
}

/* Hands over the numbers of the batches' first rows. */
int64_t *
gk_drain_first_rows(GkDrain *drain, int64_t *count)
{
	int64_t    *first_rows = drain->first_rows;

	*count = drain->batches;
	drain->first_rows = NULL;
	return first_rows;
}

/* Stops and joins the thread, if there is one, and frees the drain. */
void
gk_drain_stop(GkDrain *drain)
{
	atomic_store(&drain->stop, 1);
	sem_post(&drain->ring->ready_slots);
	if (drain->has_thread)
		pthread_join(drain->thread, NULL);
	sem_destroy(&drain->finished);
	free(drain->first_rows);
	free(drain);
}
