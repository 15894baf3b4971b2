/*
 * A module for tests: the settings gkmeans.fault_at, the number of the engine call that fails,
 * gkmeans.vectors, the vectors that scoring uses, and gkmeans.no_parameters, which lets libpq lack
 * memory for its list of parameters; locks and segments that are not those of a fit, but look like
 * them; a server without shared memory left; numerics as fits convert them; cursors that are left
 * open; and subtransactions that cannot begin.
 */
#include "postgres.h"

#include <dlfcn.h>
#include <limits.h>

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/portal.h"

#include "choose_engine.h"
#include "fault_engine.h"
#include "library_id.h"
#include "numeric_value.h"
#include "shared_progress.h"
#include "sql_function.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

GK_SQL_FUNCTION(gkmeans_fail_to_begin);
GK_SQL_FUNCTION(gkmeans_forge_lock);
GK_SQL_FUNCTION(gkmeans_forge_segment);
GK_SQL_FUNCTION(gkmeans_leave_cursor);
GK_SQL_FUNCTION(gkmeans_numeric_value);
GK_SQL_FUNCTION(gkmeans_raise_silently);
GK_SQL_FUNCTION(gkmeans_take_shared_memory);

static int	fault_at = 0;
static char *vectors = NULL;
static bool no_parameters = false;

/* In the place of libpq's function, for libraries that are loaded after this one. */
PGDLLEXPORT void *PQconndefaults(void);
void *
PQconndefaults(void)
{
	void	   *libpq = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
	void	   *(*function) (void) = libpq == NULL ? NULL : dlsym(libpq, "PQconndefaults");

	return no_parameters || function == NULL ? NULL : function();
}

/* The engine class, or the one that fails. */
static const GkEngineClass *
with_fault(const GkEngineClass *engine_class)
{
	return fault_at == 0 ? engine_class : gk_fault_engine(engine_class, fault_at, GK_DEVICE_ERROR);
}

/* Defines the settings, and offers gkmeans the engine that fails. */
void
_PG_init(void)
{
	void	  **wrap = find_rendezvous_variable(GK_WRAP_ENGINE);

	DefineCustomIntVariable("gkmeans.fault_at",
							"Number of the engine call that is made to fail, for tests.",
							"0 means none.",
							&fault_at, 0, 0, INT_MAX,
							PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
	*wrap = (void *) with_fault;
	DefineCustomStringVariable("gkmeans.vectors",
							   "Vectors that rows are compared with centroids by, for tests.",
							   "NULL means the widest.",
							   &vectors, NULL,
							   PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
	*find_rendezvous_variable("gkmeans_vectors") = &vectors;
	DefineCustomBoolVariable("gkmeans.no_parameters",
							 "Whether libpq has no memory for its list of parameters, for tests.",
							 NULL,
							 &no_parameters, false,
							 PGC_SUSET, GUC_NOT_IN_SAMPLE | GUC_NO_SHOW_ALL, NULL, NULL, NULL);
}

/* SQL: takes the lock of a fit whose segment has this handle, until the transaction ends. */
Datum
gkmeans_forge_lock(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag;

	GK_SET_PROGRESS_TAG(tag, (dsm_handle) PG_GETARG_INT64(0));
	(void) LockAcquire(&tag, ShareLock, false, true);
	PG_RETURN_VOID();
}

/*
 * SQL: makes a segment of so many bytes, for the life of the session, and returns its handle.  It
 * begins as that of a fit of this process; the rest of it are ones.
 */
Datum
gkmeans_forge_segment(PG_FUNCTION_ARGS)
{
	int			bytes = PG_GETARG_INT32(0);
	dsm_segment *segment = dsm_create(bytes, 0);
	GkSharedProgress *shared = dsm_segment_address(segment);

	dsm_pin_mapping(segment);
	memset(shared, 1, bytes);
	if (bytes >= (int) offsetof(GkSharedProgress, database))
	{
		shared->library = gk_library_id(sizeof(*shared));
		shared->pid = PG_GETARG_INT32(1);
	}
	PG_RETURN_INT64(dsm_segment_handle(segment));
}

/* SQL: opens a cursor for a query, pins it as PL/Perl and PL/Python do, and leaves it so. */
Datum
gkmeans_leave_cursor(PG_FUNCTION_ARGS)
{
	SPIPlanPtr	plan;

	SPI_connect();
	plan = SPI_prepare(text_to_cstring(PG_GETARG_TEXT_PP(0)), 0, NULL);
	PinPortal(SPI_cursor_open(NULL, plan, NULL, NULL, false));
	SPI_finish();
	PG_RETURN_VOID();
}

/* Raises an error where the next subtransaction begins, as Citus does if it is cancelled there. */
static void
fail_to_begin(SubXactEvent event, SubTransactionId own, SubTransactionId parent, void *argument)
{
	if (event != SUBXACT_EVENT_START_SUB)
		return;
	UnregisterSubXactCallback(fail_to_begin, argument);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("a subtransaction could not begin")));
}

/* SQL: lets the next subtransaction fail to begin. */
Datum
gkmeans_fail_to_begin(PG_FUNCTION_ARGS)
{
	RegisterSubXactCallback(fail_to_begin, NULL);
	PG_RETURN_VOID();
}

/* SQL: a numeric as fits convert it to double precision. */
Datum
gkmeans_numeric_value(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(gk_numeric_value(PG_GETARG_DATUM(0)));
}

/* SQL: an error without a message: that a table is missing, or of data. */
Datum
gkmeans_raise_silently(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(PG_GETARG_BOOL(0) ? ERRCODE_UNDEFINED_TABLE : ERRCODE_DATA_EXCEPTION)));
	PG_RETURN_NULL();
}

/* SQL: takes the shared memory that the server has left, until it is restarted. */
Datum
gkmeans_take_shared_memory(PG_FUNCTION_ARGS)
{
	while (ShmemAllocNoError(1) != NULL)
		CHECK_FOR_INTERRUPTS();
	PG_RETURN_VOID();
}
