/*
 * The account of host memory that the fits of all sessions of the server share.
 *
 * PostgreSQL reserves some shared memory for requests after server start.  The account takes a
 * few kilobytes of it, as contrib/pg_prewarm does for its state, so that nothing has to be
 * preloaded.  It records the sum, which is compared with the limit, and an entry for each
 * session, which gkmeans_sessions() shows and which is returned when the session ends.  Where
 * little of that space is left, as after a transaction with very many locks, it has fewer entries.
 */
#include "postgres.h"

#include <stdatomic.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "host_account.h"

/* If more sessions than this hold memory, the others are counted but not shown. */
#define MAX_ENTRIES 1000

/* The bytes that one session has drawn; free if pid is 0. */
typedef struct Entry
{
	atomic_int	pid;
	atomic_ullong bytes;
} Entry;

typedef struct Account
{
	atomic_ullong bytes;		/* the sum of the sessions */
	int			count;			/* of the entries */
	Entry		entries[FLEXIBLE_ARRAY_MEMBER];
} Account;

/* Used by a session alone if the server has no shared memory left. */
static Account own_account;
static Entry own_entry;

static Account *account = &own_account;
static Entry *entry = &own_entry;	/* of this session */
static uint64 session_limit = 0;

/* At process exit: returns all that this session still holds. */
static void
leave(int code, Datum arg)
{
	gk_host_account_return(atomic_load(&entry->bytes));
	atomic_store(&entry->pid, 0);
}

/* Finds the account with this many entries in shared memory, or makes it; an error without room. */
static Account *
make_account(int count)
{
	Size		size = add_size(offsetof(Account, entries), mul_size(count, sizeof(Entry)));
	bool		found;
	Account    *shared;

	/* the name distinguishes the accounts of different versions of the library */
	shared = ShmemInitStruct(psprintf("gkmeans host memory, %zu bytes", size), size, &found);
	if (!found)
	{
		memset(shared, 0, size);
		shared->count = count;
	}
	return shared;
}

/* The same; NULL if there is no room. */
static Account *
try_account(int count)
{
	MemoryContext context = CurrentMemoryContext;
	Account    *volatile shared = NULL;

	PG_TRY();
	{
		shared = make_account(count);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_OUT_OF_MEMORY)
			PG_RE_THROW();
		FlushErrorState();
		FreeErrorData(error);
		/* the error has reset the count of held interrupts, which the lock's release decrements */
		HOLD_INTERRUPTS();
	}
	PG_END_TRY();
	return shared;
}

/*
 * The account in shared memory, with as many entries as there is room for; NULL if there is none.
 * Such memory is never returned, so what did not fit once does not fit later, and all sessions
 * come to the same account.
 */
static Account *
find_account(void)
{
	int			count = Min(MaxBackends, MAX_ENTRIES);
	Account    *shared;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	while ((shared = try_account(count)) == NULL && count > 0)
		count /= 2;
	LWLockRelease(AddinShmemInitLock);
	return shared;
}

/* Says that there is none: as an error, or as a warning, once in a session. */
static void
report_missing(bool demanded)
{
	static bool warned = false;

	if (warned && !demanded)
		return;
	warned = true;
	ereport(demanded ? ERROR : WARNING,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("no shared memory for the sum of the host memory of all sessions"),
			 demanded ? errdetail("gkmeans.total_host_memory_limit limits that sum.") :
			 errdetail("Fits of this session count only their own memory."),
			 errhint("Locks have taken it for good. Raise \"max_locks_per_transaction\", and "
					 "restart the server.")));
}

/* A free entry for this session, or a private one if there is none. */
static Entry *
take_entry(void)
{
	for (int i = 0; i < account->count; i++)
	{
		int			none = 0;

		if (atomic_compare_exchange_strong(&account->entries[i].pid, &none, MyProcPid))
			return &account->entries[i];
	}
	return &own_entry;
}

/* Attaches to the account, unless that is done or a fit is drawing from the private one. */
static void
attach(bool demanded)
{
	Account    *shared;

	if (account != &own_account || atomic_load(&own_account.bytes) > 0)
		return;
	shared = find_account();
	if (shared == NULL)
	{
		report_missing(demanded);
		return;
	}
	account = shared;
	entry = take_entry();
	on_shmem_exit(leave, 0);
}

/* Attaches to the account, and sets the limit. */
void
gk_host_account_open(uint64 limit, bool demanded)
{
	attach(demanded);
	session_limit = limit;
}

/* Draws bytes, unless all sessions together would exceed the limit. */
bool
gk_host_account_draw(uint64_t bytes)
{
	unsigned long long held = atomic_load(&account->bytes);

	do
	{
		if (bytes > session_limit || held > session_limit - bytes)
			return false;
	}
	while (!atomic_compare_exchange_weak(&account->bytes, &held, held + bytes));
	atomic_fetch_add(&entry->bytes, bytes);
	return true;
}

/* Returns bytes that were drawn. */
void
gk_host_account_return(uint64_t bytes)
{
	atomic_fetch_sub(&entry->bytes, bytes);
	atomic_fetch_sub(&account->bytes, bytes);
}

/* Bytes that all sessions hold. */
uint64
gk_host_account_bytes(void)
{
	return atomic_load(&account->bytes);
}

/* The limit of this session. */
uint64
gk_host_account_limit(void)
{
	return session_limit;
}

/* The session of an entry and what it holds; false past the last entry. */
bool
gk_host_account_entry(int number, int *pid, uint64 *bytes)
{
	attach(false);
	if (number >= account->count)
		return false;
	*pid = atomic_load(&account->entries[number].pid);
	*bytes = atomic_load(&account->entries[number].bytes);
	return true;
}
