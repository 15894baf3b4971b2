/*
 * The GPUs of the host as the backends share them: slots, and the list of devices.
 */
#include "postgres.h"

#include "catalog/pg_extension.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "devices.h"
#include "engines.h"
#include "job.h"
#include "settings.h"

/* The slots are objects of this number in no database: no extension has it. */
#define SLOT_OBJECT ((Oid) 1)

PG_FUNCTION_INFO_V1(gkmeans_devices);

/* The lock that is slot number `slot`. */
static LOCKTAG
slot_tag(int slot)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, ExtensionRelationId, SLOT_OBJECT, slot);
	return tag;
}

/* Whether this transaction has a slot. */
static bool
has_slot(void)
{
	for (int slot = 0; slot < gk_max_gpu_backends; slot++)
	{
		LOCKTAG		tag = slot_tag(slot);

#if PG_VERSION_NUM >= 170000
		if (LockHeldByMe(&tag, ExclusiveLock, false))
#else
		if (LockHeldByMe(&tag, ExclusiveLock))
#endif
			return true;
	}
	return false;
}

/* Whether a slot could be had now without waiting; takes it if so. */
bool
gk_try_slot(void)
{
	if (gk_max_gpu_backends == 0 || has_slot())
		return true;
	for (int slot = 0; slot < gk_max_gpu_backends; slot++)
	{
		LOCKTAG		tag = slot_tag(slot);

		if (LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL)
			return true;
	}
	return false;
}

/* Waits for a slot; false when gkmeans.queue_timeout has passed. */
static bool
wait_for_slot(void)
{
	MemoryContext context = CurrentMemoryContext;
	LOCKTAG		tag = slot_tag(MyProcPid % gk_max_gpu_backends);
	int			nest_level = NewGUCNestLevel();
	char		timeout[16];
	volatile bool taken = true;

	snprintf(timeout, sizeof(timeout), "%d", gk_queue_timeout_ms);
	(void) set_config_option("lock_timeout", timeout, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
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
		taken = false;
	}
	PG_END_TRY();
	AtEOXact_GUC(true, nest_level);
	return taken;
}

/* Takes a slot if this transaction has none. */
void
gk_take_slot(void)
{
	if (gk_try_slot())
		return;

	/* the transaction ends with this error, so nothing goes on with a lock half taken */
	if (!wait_for_slot())
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
				 errmsg("no GPU slot became free within gkmeans.queue_timeout"),
				 errdetail("All %d slots of gkmeans.max_gpu_backends are taken.",
						   gk_max_gpu_backends),
				 errhint("Try again later, or set gkmeans.engine to cpu.")));
}

/* Whether another backend wants the slot of this transaction, or would find none free. */
static bool
slots_are_short(void)
{
	for (int slot = 0; slot < gk_max_gpu_backends; slot++)
	{
		LOCKTAG		tag = slot_tag(slot);
		LockAcquireResult result = LockAcquire(&tag, ExclusiveLock, false, true);

		if (result == LOCKACQUIRE_NOT_AVAIL)
			continue;
		LockRelease(&tag, ExclusiveLock, false);
		if (result == LOCKACQUIRE_OK)
			return false;
		if (LockHasWaiters(&tag, ExclusiveLock, false))
			return true;
	}
	return true;
}

/* After a fit: gives back what the process keeps on its devices if others need it. */
void
gk_give_way(const GkEngineClass *engine_class)
{
	if (engine_class->release_process != NULL && gk_max_gpu_backends > 0 && gk_live_jobs() == 0 &&
		slots_are_short())
		engine_class->release_process();
}

/* SQL: the GPUs of the host. */
Datum
gkmeans_devices(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	GkDevice	devices[GK_MAX_DEVICES];
	int			count = 0;
	const char *reason;
	const GkEngineClass *engine_class;
	GkStatus	status;

	InitMaterializedSRF(fcinfo, 0);
	engine_class = gk_cuda_class(&reason);
	if (engine_class == NULL)
		return (Datum) 0;
	status = engine_class->list_devices(devices, GK_MAX_DEVICES, &count);
	if (status.code == GK_NO_DEVICE)
		return (Datum) 0;
	gk_check(status);
	for (int i = 0; i < Min(count, GK_MAX_DEVICES); i++)
	{
		const GkDevice *device = &devices[i];
		Datum		values[6];
		bool		nulls[6] = {0};

		values[0] = Int32GetDatum(device->number);
		values[1] = CStringGetTextDatum(device->name);
		values[2] = CStringGetTextDatum(psprintf("%d.%d", device->major, device->minor));
		values[3] = Int64GetDatum((int64) device->total_bytes);
		values[4] = Int64GetDatum((int64) device->free_bytes);
		nulls[4] = !device->open;
		values[5] = Int64GetDatum((int64) device->own_bytes);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
