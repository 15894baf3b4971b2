/*
 * Reports the errors of an engine as PostgreSQL errors.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "engine_error.h"
#include "host_account.h"

/* Reports a lack of memory: by a limit of gkmeans, or by the system. */
static void
raise_no_memory(const GkStatus *status, const char *setting)
{
	if (status->needed <= status->allowed)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("gkmeans: %s", status->message),
				 status->needed > 0
				 ? errdetail("%s failed for %llu bytes.", status->where,
							 (unsigned long long) status->needed)
				 : errdetail("%s failed.", status->where),
				 errhint("The operating system is out of memory, or limits the memory of a "
						 "process.")));
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("gkmeans: %s", status->message),
			 errdetail("%llu bytes are needed, %llu bytes are allowed.",
					   (unsigned long long) status->needed, (unsigned long long) status->allowed),
			 errhint("The setting \"%s\" limits this memory.", setting)));
}

/* Reports that the fits of all sessions together would exceed their limit. */
static void
raise_refused(const GkStatus *status)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("gkmeans: the fits of all sessions together are out of host memory"),
			 errdetail("%llu bytes more are needed, %llu bytes are held, %llu bytes are allowed.",
					   (unsigned long long) status->needed, (unsigned long long) status->held,
					   (unsigned long long) status->allowed),
			 errhint("gkmeans_sessions() shows who holds it: try again when they are done. "
					 "The setting \"gkmeans.total_host_memory_limit\" limits this memory.")));
}

/* Reports that a device is full because of other users. */
static void
raise_device_full(const GkStatus *status)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("gkmeans: out of memory of GPU %d", status->device),
			 status->needed > 0
			 ? errdetail("%llu bytes are needed, %llu bytes are free.",
						 (unsigned long long) status->needed, (unsigned long long) status->allowed)
			 : errdetail("%s failed.", status->where),
			 errhint("Other processes may hold its memory; \"gkmeans.devices\" names the GPUs to "
					 "use, \"gkmeans.engine\" the engine.")));
}

/* Reports the failure of a device. */
static void
raise_device_error(const GkStatus *status)
{
	ereport(ERROR,
			(errcode(ERRCODE_IO_ERROR),
			 errmsg("gkmeans: %s", status->message),
			 status->device >= 0
			 ? errdetail("%s failed on device %d with error %d.",
						 status->where, status->device, status->native)
			 : errdetail("%s failed.", status->where),
			 status->code == GK_CONTEXT_LOST
			 ? errhint("Reconnect: this session cannot use its devices any more.") : 0));
}

/* Reports what another server sent. */
static void
raise_invalid_answer(const GkStatus *status, const char *how)
{
	/* the name of a server may not have fitted */
	int			length = pg_mbcliplen(status->message, strlen(status->message),
									  sizeof(status->message) - 1);

	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("%.*s", length, status->message),
			 how != NULL ? errdetail("In them, %s.", how) : 0));
}

/* Adds the figures of the account, unless the process that was refused has done so. */
void
gk_add_account(GkStatus *status)
{
	if (status->code != GK_HOST_MEMORY_REFUSED || status->allowed > 0)
		return;
	status->held = gk_host_account_bytes();
	status->allowed = gk_host_account_limit();
}

/* Raises an error unless the status is GK_OK. */
void
gk_check(GkStatus status)
{
	switch (status.code)
	{
		case GK_OK:
			return;
		case GK_NO_DEVICE:
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("gkmeans: %s", status.message)));
			break;
		case GK_NO_DEVICE_MEMORY:
			if (status.native != 0)
				raise_device_full(&status);
			raise_no_memory(&status, "gkmeans.device_memory_limit");
			break;
		case GK_NO_HOST_MEMORY:
			raise_no_memory(&status, "gkmeans.host_memory_limit");
			break;
		case GK_HOST_MEMORY_REFUSED:
			gk_add_account(&status);
			raise_refused(&status);
			break;
		case GK_LIMIT:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("gkmeans: %s", status.message)));
			break;
		case GK_DEVICE_ERROR:
		case GK_CONTEXT_LOST:
			raise_device_error(&status);
			break;
		case GK_INVALID_ANSWER:
			raise_invalid_answer(&status, NULL);
			break;
		case GK_RUNNING:
		case GK_INTERNAL:
			break;
	}
	elog(ERROR, "gkmeans: %s failed: %s", status.where, status.message);
}

/* Raises an error: answers of an engine contradict each other. */
void
gk_contradict(const GkEngine *engine, const char *how)
{
	if (engine->class_of->doubt != NULL)
	{
		GkStatus	status = engine->class_of->doubt(engine);

		raise_invalid_answer(&status, how);
	}
	elog(ERROR, "answers of the gkmeans engine contradict each other: %s", how);
}
