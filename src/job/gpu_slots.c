/*
 * GPU slots: how the backends share the GPUs of the host.
 */
#include "postgres.h"

#include "catalog/pg_extension.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "gpu_slots.h"
#include "job.h"
#include "seconds.h"
#include "settings.h"

/*
 * Slots are advisory locks, which a standby can take too.  Users' advisory locks belong to a
 * database, these to none.  Number 0 is the queue, held by whoever is first in it; the slots
 * follow.
 */
#define QUEUE 0
#define SLOT_KIND 3

/* The locks of the sessions that keep devices open between fits; as many as slots. */
#define KEEPER_KIND 4

/* How often the first of the queue looks for a free slot, in milliseconds. */
#define POLL_MILLISECONDS 10

/* The lock of this number. */
static LOCKTAG
lock_tag(int number, int kind)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, InvalidOid, ExtensionRelationId, number, kind);
	return tag;
}

/* True if this session or its transaction has a lock. */
static bool
held_by_me(LOCKTAG tag)
{
#if PG_VERSION_NUM >= 170000
	return LockHeldByMe(&tag, ExclusiveLock, false);
#else
	return LockHeldByMe(&tag, ExclusiveLock);
#endif
}

/* Takes a lock for the transaction if that is possible without waiting. */
static LockAcquireResult
try_lock(int number, LOCKMODE mode)
{
	LOCKTAG		tag = lock_tag(number, SLOT_KIND);
	ResourceOwner owner = CurrentResourceOwner;
	LockAcquireResult result;

	CurrentResourceOwner = CurTransactionResourceOwner;
	result = LockAcquire(&tag, mode, false, true);
	CurrentResourceOwner = owner;
	return result;
}

/* Releases a lock of the transaction. */
static void
unlock(int number, LOCKMODE mode)
{
	LOCKTAG		tag = lock_tag(number, SLOT_KIND);
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = CurTransactionResourceOwner;
	(void) LockRelease(&tag, mode, false);
	CurrentResourceOwner = owner;
}

/* The slot this transaction holds, even if max_gpu_backends was lowered below it; 0 if none. */
static int
own_slot(void)
{
	for (int slot = 1; slot <= GK_MAX_GPU_BACKENDS; slot++)
		if (held_by_me(lock_tag(slot, SLOT_KIND)))
			return slot;
	return 0;
}

/* True if this transaction has a slot. */
bool
gk_has_slot(void)
{
	return own_slot() > 0;
}

/* Releases this transaction's slot, if it has one; not that of an outer transaction. */
void
gk_return_slot(void)
{
	int			slot = own_slot();

	if (slot > 0)
		unlock(slot, ExclusiveLock);
}

/* Takes any free slot. */
static bool
take_free_slot(void)
{
	for (int slot = 1; slot <= gk_max_gpu_backends; slot++)
		if (try_lock(slot, ExclusiveLock) != LOCKACQUIRE_NOT_AVAIL)
			return true;
	return false;
}

/* Takes a slot if one is free and nobody is waiting; false if not. */
bool
gk_try_slot(void)
{
	bool		taken;

	if (gk_max_gpu_backends == 0 || gk_has_slot())
		return true;
	if (try_lock(QUEUE, ShareLock) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	taken = take_free_slot();
	unlock(QUEUE, ShareLock);
	return taken;
}

/* Waits to become first in the queue; false when gkmeans.queue_timeout has passed. */
static bool
wait_in_queue(void)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	LOCKTAG		tag = lock_tag(QUEUE, SLOT_KIND);
	int			nest_level = NewGUCNestLevel();
	char		timeout[16];
	volatile bool first = true;

	snprintf(timeout, sizeof(timeout), "%d", gk_queue_timeout_ms);
	gk_set_locally("lock_timeout", timeout);
	CurrentResourceOwner = CurTransactionResourceOwner;
	PG_TRY();
	{
		(void) LockAcquire(&tag, ExclusiveLock, false, false);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		FlushErrorState();
		first = false;
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
	AtEOXact_GUC(true, nest_level);
	return first;
}

/*
 * PID of the slot's holder; 0 if it is free or held by a prepared transaction, whose lock still
 * names the preparing backend.
 */
static int
holder_of(int slot)
{
	LOCKTAG		tag = lock_tag(slot, SLOT_KIND);
	VirtualTransactionId *holders = GetLockConflicts(&tag, ExclusiveLock, NULL);
	PGPROC	   *process;
	LocalTransactionId transaction;

	if (!VirtualTransactionIdIsValid(holders[0]))
		return 0;
#if PG_VERSION_NUM >= 170000
	process = ProcNumberGetProc(holders[0].procNumber);
	transaction = process == NULL ? InvalidLocalTransactionId : process->vxid.lxid;
#else
	process = BackendIdGetProc(holders[0].backendId);
	transaction = process == NULL ? InvalidLocalTransactionId : process->lxid;
#endif
	return transaction == holders[0].localTransactionId ? process->pid : 0;
}

/* True if a process waits for a lock of this one, directly or not; `seen` lists those visited. */
static bool
waits_for_me(int pid, List **seen)
{
	ArrayType  *blockers;
	bool		waits = pid == MyProcPid;

	if (list_member_int(*seen, pid))
		return false;
	*seen = lappend_int(*seen, pid);
	blockers = DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids, Int32GetDatum(pid)));
	for (int i = 0; i < ArrayGetNItems(ARR_NDIM(blockers), ARR_DIMS(blockers)) && !waits; i++)
		waits = waits_for_me(((int32 *) ARR_DATA_PTR(blockers))[i], seen);
	return waits;
}

/* Raises an error if no slot can become free before this transaction ends. */
static void
check_deadlock(void)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans deadlock check",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	bool		all_wait = true;

	for (int slot = 1; slot <= gk_max_gpu_backends && all_wait; slot++)
	{
		List	   *seen = NIL;

		all_wait = waits_for_me(holder_of(slot), &seen);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
	if (!all_wait)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail("Every backend that has a GPU slot waits for a lock of this one.")));
}

/*
 * Waits for a slot; false when gkmeans.queue_timeout has passed.
 *
 * The first in the queue polls for a free slot, because a process can wait for one lock only.
 * PostgreSQL's deadlock detector does not see that wait, so this function checks for deadlocks.
 */
static bool
wait_for_slot(void)
{
	instr_time	begin;
	instr_time	checked;
	bool		taken;

	INSTR_TIME_SET_CURRENT(begin);
	checked = begin;
	if (!wait_in_queue())
		return false;
	while (!(taken = take_free_slot()))
	{
		if (gk_queue_timeout_ms > 0 && gk_seconds_since(begin) * 1000 >= gk_queue_timeout_ms)
			break;
		if (gk_seconds_since(checked) * 1000 >= DeadlockTimeout)
		{
			check_deadlock();
			INSTR_TIME_SET_CURRENT(checked);
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 POLL_MILLISECONDS, PG_WAIT_LOCK | LOCKTAG_ADVISORY);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	unlock(QUEUE, ExclusiveLock);
	return taken;
}

/* Takes a slot if this transaction has none. */
void
gk_take_slot(void)
{
	if (gk_try_slot())
		return;

	/* this error ends the transaction, so a lock half taken does no harm */
	if (!wait_for_slot())
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
				 errmsg("no GPU slot became free within gkmeans.queue_timeout"),
				 errdetail("All %d slots of gkmeans.max_gpu_backends are taken.",
						   gk_max_gpu_backends),
				 errhint("Try again later, or set gkmeans.engine to cpu.")));
}

/* The class that this session has opened devices with, and its number among the keepers. */
static const GkEngineClass *opened_class = NULL;
static int	keeper = 0;

/* True if this session may keep its devices open; DISCARD ALL ends that. */
static bool
is_keeper(void)
{
	return gk_max_gpu_backends == 0 || (keeper > 0 && held_by_me(lock_tag(keeper, KEEPER_KIND)));
}

/* After a transaction and its jobs: releases the devices unless the session may keep them. */
static void
give_way(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	const GkEngineClass *engine_class = opened_class;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !isTopLevel || engine_class == NULL)
		return;
	if (engine_class->release_process == NULL || gk_live_jobs() > 0 || is_keeper())
		return;
	opened_class = NULL;
	engine_class->release_process();
}

/* Makes the session a keeper if there are fewer keepers than slots. */
static void
become_keeper(void)
{
	if (keeper > gk_max_gpu_backends && is_keeper())
	{
		LOCKTAG		tag = lock_tag(keeper, KEEPER_KIND);

		(void) LockRelease(&tag, ExclusiveLock, true);
	}
	for (keeper = 1; keeper <= gk_max_gpu_backends; keeper++)
	{
		LOCKTAG		tag = lock_tag(keeper, KEEPER_KIND);

		if (LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL)
			return;
	}
	keeper = 0;
}

/* Call before opening devices: makes sure that they are released in time. */
void
gk_note_opening(const GkEngineClass *engine_class)
{
	static bool registered = false;

	if (!registered)
		RegisterResourceReleaseCallback(give_way, NULL);
	registered = true;
	opened_class = engine_class;
	if (gk_max_gpu_backends > 0 && (keeper > gk_max_gpu_backends || !is_keeper()))
		become_keeper();
}
