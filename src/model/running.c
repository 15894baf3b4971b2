/*
 * Whether a run that is recorded as running still does.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_subscription_rel.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/fmgroids.h"

#include "running.h"

/* The run of this session: its own lock would not keep it from taking another. */
static Oid	own_relation = InvalidOid;
static int	own_version = 0;

/* The lock of a run; pg_locks shows the model and, but for multiples of 65536, the version. */
static void
set_tag(LOCKTAG *tag, Oid relation_id, int version)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationRelationId, relation_id,
					   (uint16) version);
}

/* An error that ends the transaction takes the locks of the session away. */
static void
forget_own(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT)
		own_relation = InvalidOid;
}

/* Takes the lock for the session. */
void
gk_begin_running(Oid relation_id, int version)
{
	static bool registered = false;
	LOCKTAG		tag;

	if (!registered)
		RegisterXactCallback(forget_own, NULL);
	registered = true;
	set_tag(&tag, relation_id, version);
	(void) LockAcquire(&tag, ExclusiveLock, true, false);
	own_relation = relation_id;
	own_version = version;
}

/* Keeps it for this transaction alone. */
void
gk_end_running(Oid relation_id, int version)
{
	LOCKTAG		tag;

	set_tag(&tag, relation_id, version);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	(void) LockRelease(&tag, ExclusiveLock, true);
	own_relation = InvalidOid;
}

/* True if a subscription writes to the table: its runs may be those of another server. */
static bool
is_subscribed(Oid relation_id)
{
	Relation	subscriptions = table_open(SubscriptionRelRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	bool		found;

	ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relation_id));
	scan = systable_beginscan(subscriptions, SubscriptionRelSrrelidSrsubidIndexId, true, NULL, 1,
							  &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(subscriptions, AccessShareLock);
	return found;
}

/* True if somebody holds it, or perhaps does on another server. */
bool
gk_is_running(Oid relation_id, int version)
{
	LOCKTAG		tag;

	if (RecoveryInProgress() || (relation_id == own_relation && version == own_version))
		return true;
	set_tag(&tag, relation_id, version);
	if (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	(void) LockRelease(&tag, ShareLock, false);
	return is_subscribed(relation_id);
}
