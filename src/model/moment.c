/*
 * Tells if what a function read before is what it would read now.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "tcop/pquery.h"
#include "utils/snapmgr.h"

#include "moment.h"

struct GkMoment
{
	Oid			user;			/* whose privileges were checked */
	LocalTransactionId transaction;
	SubTransactionId subtransaction;	/* owns the lock, and its changes may be undone */
	CommandId	command;
	TransactionId xmin;
	TransactionId xmax;
	uint32		count;			/* transactions in progress … */
	int32		subcount;		/* … and subtransactions */
	TransactionId running[FLEXIBLE_ARRAY_MEMBER];
};

/* This transaction. */
static LocalTransactionId
this_transaction(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProc->vxid.lxid;
#else
	return MyProc->lxid;
#endif
}

/* The active snapshot; after a commit PL/pgSQL may check a domain before there is one. */
Snapshot
gk_active_snapshot(void)
{
	EnsurePortalSnapshotExists();
	return GetActiveSnapshot();
}

/* How many subtransactions a snapshot lists: the copy of one that overflowed has only a number. */
static int32
listed_subtransactions(Snapshot snapshot)
{
	return snapshot->subxip != NULL ? snapshot->subxcnt : 0;
}

/* Records what the active snapshot sees. */
GkMoment *
gk_note_moment(void)
{
	Snapshot	snapshot = gk_active_snapshot();
	int32		subcount = listed_subtransactions(snapshot);
	int			count = snapshot->xcnt + subcount;
	GkMoment   *moment = palloc(offsetof(GkMoment, running) + count * sizeof(TransactionId));

	moment->user = GetUserId();
	moment->transaction = this_transaction();
	moment->subtransaction = GetCurrentSubTransactionId();
	moment->command = snapshot->curcid;
	moment->xmin = snapshot->xmin;
	moment->xmax = snapshot->xmax;
	moment->count = snapshot->xcnt;
	moment->subcount = subcount;
	if (snapshot->xcnt > 0)
		memcpy(moment->running, snapshot->xip, snapshot->xcnt * sizeof(TransactionId));
	if (subcount > 0)
		memcpy(moment->running + snapshot->xcnt, snapshot->subxip,
			   subcount * sizeof(TransactionId));
	return moment;
}

/* True if the active snapshot still sees the same. */
bool
gk_is_same_moment(const GkMoment *moment)
{
	Snapshot	snapshot = gk_active_snapshot();
	int32		subcount = listed_subtransactions(snapshot);

	return moment->user == GetUserId() && moment->transaction == this_transaction() &&
		moment->subtransaction == GetCurrentSubTransactionId() &&
		moment->command == snapshot->curcid &&
		moment->xmin == snapshot->xmin && moment->xmax == snapshot->xmax &&
		moment->count == snapshot->xcnt && moment->subcount == subcount &&
		(snapshot->xcnt == 0 ||
		 memcmp(moment->running, snapshot->xip, snapshot->xcnt * sizeof(TransactionId)) == 0) &&
		(subcount == 0 ||
		 memcmp(moment->running + snapshot->xcnt, snapshot->subxip,
				subcount * sizeof(TransactionId)) == 0);
}
