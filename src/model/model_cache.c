/*
 * The models that a session keeps unpacked between statements.
 *
 * The result is what the snapshot sees.  If the row that was deployed is physically the same, and
 * an index keeps others from being deployed beside it, this row alone is looked at; otherwise the
 * head rows are scanned, and only the unpacking is saved.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "lib/ilist.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "storage/bufmgr.h"
#include "storage/itemptr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "model_cache.h"
#include "settings.h"

/* More bytes than the expression and the predicate of a model's own index have. */
#define MOST_STORED 4096

/* The entries of one model: element of a hash table. */
typedef struct Versions
{
	Oid			relation;		/* the key */
	dlist_head	entries;		/* most recently used first */
} Versions;

/* One unpacked version, and the identity of its row. */
typedef struct Entry
{
	dlist_node	node;			/* among all entries, most recently used first */
	dlist_node	version;		/* among those of its model */
	Versions   *versions;		/* NULL = stale: freed when the last pin is gone */
	GkModel    *model;
	Oid			file;			/* pg_class.relfilenode */
	ItemPointerData place;
	TransactionId writer;
	CommandId	command;		/* of the writer: TRUNCATE in one transaction may keep the file */
	TransactionId guarded_by;	/* who wrote the index that keeps others from being deployed beside
								 * it; invalid without such an index, or if it is not deployed */
	int			pins;
	Size		bytes;
} Entry;

/* A use of an entry, which ends with a memory context. */
typedef struct Pin
{
	MemoryContextCallback callback;
	Entry	   *entry;
} Pin;

static HTAB *models = NULL;
static dlist_head entries = DLIST_STATIC_INIT(entries);
static Size total_bytes = 0;
static uint64 invalidations = 0;

/* The entries of a model; NULL if there are none. */
static Versions *
find_versions(Oid relation_id)
{
	return models == NULL ? NULL : hash_search(models, &relation_id, HASH_FIND, NULL);
}

/* Takes an entry from those of its model, so that it is not found again. */
static void
hide(Entry *entry)
{
	Versions   *versions = entry->versions;

	if (versions == NULL)
		return;
	entry->versions = NULL;
	dlist_delete(&entry->version);
	if (dlist_is_empty(&versions->entries))
		(void) hash_search(models, &versions->relation, HASH_REMOVE, NULL);
}

/* Frees an entry. */
static void
free_entry(Entry *entry)
{
	hide(entry);
	dlist_delete(&entry->node);
	total_bytes -= entry->bytes;
	MemoryContextDelete(entry->model->context);
	pfree(entry);
}

/* Frees the least recently used entries until the rest is within the limit. */
static void
trim(void)
{
	Size		limit = (Size) gk_model_cache_size_kb * 1024;
	dlist_node *node = dlist_is_empty(&entries) ? NULL : dlist_tail_node(&entries);

	while (node != NULL && total_bytes > limit)
	{
		Entry	   *entry = dlist_container(Entry, node, node);

		node = dlist_has_prev(&entries, node) ? dlist_prev_node(&entries, node) : NULL;
		if (entry->pins == 0)
			free_entry(entry);
	}
}

/* A memory context's callback: ends a use. */
static void
unpin(void *argument)
{
	Entry	   *entry = ((Pin *) argument)->entry;

	entry->pins--;
	if (entry->pins == 0 && entry->versions == NULL)
		free_entry(entry);
	trim();
}

/* Frees an entry when nobody uses it any more. */
static void
discard(Entry *entry)
{
	hide(entry);
	if (entry->pins == 0)
		free_entry(entry);
}

/* The invalidation callback: entries of the relation, or all entries, may be stale. */
static void
invalidate(Datum argument, Oid relation_id)
{
	Versions   *versions;
	dlist_mutable_iter iterator;

	invalidations++;
	if (!OidIsValid(relation_id))
	{
		dlist_foreach_modify(iterator, &entries)
			discard(dlist_container(Entry, node, iterator.cur));
		return;
	}
	/* they go with the last of their entries */
	while ((versions = find_versions(relation_id)) != NULL)
		discard(dlist_head_element(Entry, version, &versions->entries));
}

/* The transaction that wrote a row. */
static TransactionId
writer_of(TupleTableSlot *slot)
{
	bool		is_null;

	return DatumGetTransactionId(slot_getsysattr(slot, MinTransactionIdAttributeNumber, &is_null));
}

/* The command that wrote a row; the field may stand for two if it was deleted there, too. */
static CommandId
command_of_header(HeapTupleHeader header)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header))
		? HeapTupleHeaderGetCmin(header) : HeapTupleHeaderGetRawCommandId(header);
}

/* The same of a row in a slot. */
static CommandId
command_of(TupleTableSlot *slot)
{
	bool		is_null;

	if (TTS_IS_BUFFERTUPLE(slot))
		return command_of_header(((BufferHeapTupleTableSlot *) slot)->base.tuple->t_data);
	return DatumGetCommandId(slot_getsysattr(slot, MinCommandIdAttributeNumber, &is_null));
}

/* The entry of a row; NULL if there is none. */
static Entry *
find_entry(Relation relation, TupleTableSlot *slot)
{
	TransactionId writer = writer_of(slot);
	CommandId	command = command_of(slot);
	Versions   *versions = find_versions(RelationGetRelid(relation));
	dlist_iter	iterator;

	if (versions == NULL)
		return NULL;
	dlist_foreach(iterator, &versions->entries)
	{
		Entry	   *entry = dlist_container(Entry, version, iterator.cur);

		if (entry->file == relation->rd_rel->relfilenode &&
			ItemPointerEquals(&entry->place, &slot->tts_tid) && entry->writer == writer &&
			entry->command == command)
			return entry;
	}
	return NULL;
}

/*
 * An expression or a predicate of an index, as it is stored: nothing of it is evaluated.  NULL for
 * a long one, which is none of those of the model, and would take the reader's time.
 */
static Node *
stored_node(HeapTuple index, AttrNumber attribute)
{
	bool		is_null;
	Datum		stored = SysCacheGetAttr(INDEXRELID, index, attribute, &is_null);

	return is_null || toast_raw_datum_size(stored) > MOST_STORED ? NULL
		: stringToNode(TextDatumGetCString(stored));
}

/* True if an index is unique, on ((true)) WHERE deployed: so one row is deployed at most. */
static bool
allows_one_deployed(HeapTuple tuple)
{
	Form_pg_index index = (Form_pg_index) GETSTRUCT(tuple);
	List	   *keys;
	Node	   *predicate;

	if (!index->indisunique || !index->indisvalid || !index->indimmediate ||
		index->indnkeyatts != 1 || index->indkey.values[0] != 0)
		return false;
	keys = (List *) stored_node(tuple, Anum_pg_index_indexprs);
	predicate = stored_node(tuple, Anum_pg_index_indpred);
	return keys != NIL && IsA(linitial(keys), Const) && !((Const *) linitial(keys))->constisnull &&
		predicate != NULL && IsA(predicate, Var) &&
		((Var *) predicate)->varattno == GK_MODEL_DEPLOYED;
}

/*
 * The transaction that wrote such an index, invalid if there is none; dropping it would make the
 * entries stale.
 */
static TransactionId
find_guard(Relation relation)
{
	List	   *indexes = RelationGetIndexList(relation);
	ListCell   *cell;
	TransactionId found = InvalidTransactionId;

	foreach(cell, indexes)
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(cell)));

		CHECK_FOR_INTERRUPTS();
		if (!HeapTupleIsValid(tuple))
			continue;
		if (!TransactionIdIsValid(found) && allows_one_deployed(tuple))
			found = HeapTupleHeaderGetXmin(tuple->t_data);
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
	return found;
}

/* True if a head row is deployed. */
static bool
is_deployed(TupleTableSlot *slot)
{
	bool		is_null;
	Datum		deployed = slot_getattr(slot, GK_MODEL_DEPLOYED, &is_null);

	return !is_null && DatumGetBool(deployed);
}

/* Makes the hash table; once. */
static void
begin_cache(void)
{
	HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(Versions)};

	if (models != NULL)
		return;
	control.hcxt = CacheMemoryContext;
	models = hash_create("gkmeans models", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
}

/* Adds an entry to those of its model. */
static void
add_to_model(Entry *entry)
{
	bool		found;

	entry->versions = hash_search(models, &entry->model->relation, HASH_ENTER, &found);
	if (!found)
		dlist_init(&entry->versions->entries);
	dlist_push_head(&entry->versions->entries, &entry->version);
}

/* Unpacks a row into a new entry. */
static Entry *
make_entry(Relation relation, TupleTableSlot *slot)
{
	GkModel    *model = gk_unpack_model(relation, slot, CurrentMemoryContext);
	uint64		before;
	TransactionId guarded_by = InvalidTransactionId;
	Entry	   *entry;

	begin_cache();
	before = invalidations;
	if (relation->rd_rel->relam == HEAP_TABLE_AM_OID && is_deployed(slot))
		guarded_by = find_guard(relation);
	entry = MemoryContextAllocZero(CacheMemoryContext, sizeof(Entry));
	entry->model = model;
	add_to_model(entry);
	MemoryContextSetParent(model->context, CacheMemoryContext);
	entry->file = relation->rd_rel->relfilenode;
	entry->place = slot->tts_tid;
	entry->writer = writer_of(slot);
	entry->command = command_of(slot);
	/* the index may have been dropped while it was looked at */
	entry->guarded_by = invalidations == before ? guarded_by : InvalidTransactionId;
	entry->bytes = MemoryContextMemAllocated(model->context, true);
	total_bytes += entry->bytes;
	dlist_push_head(&entries, &entry->node);
	return entry;
}

/* Uses an entry as long as a memory context lives. */
static void
pin(Entry *entry, Pin *place, MemoryContext context)
{
	place->entry = entry;
	place->callback.func = unpin;
	place->callback.arg = place;
	entry->pins++;
	MemoryContextRegisterResetCallback(context, &place->callback);
}

/* True if the row of an entry is there and visible.  The table may be shorter than it was. */
static bool
is_there(Relation relation, const Entry *entry)
{
	HeapTupleData tuple = {.t_self = entry->place};
	Buffer		buffer;
	bool		same;

	if (ItemPointerGetBlockNumber(&entry->place) >= RelationGetNumberOfBlocks(relation) ||
		!heap_fetch(relation, GetActiveSnapshot(), &tuple, &buffer, false))
		return false;
	same = HeapTupleHeaderGetRawXmin(tuple.t_data) == entry->writer &&
		command_of_header(tuple.t_data) == entry->command;
	ReleaseBuffer(buffer);
	return same;
}

/* The entry of the deployed version if it is known without a scan; NULL if it is not. */
static Entry *
find_deployed(Relation relation)
{
	Versions   *versions = find_versions(RelationGetRelid(relation));
	dlist_iter	iterator;

	if (versions == NULL)
		return NULL;
	dlist_foreach(iterator, &versions->entries)
	{
		Entry	   *entry = dlist_container(Entry, version, iterator.cur);

		/* a snapshot that is older than the index may see others deployed */
		if (TransactionIdIsValid(entry->guarded_by) &&
			!XidInMVCCSnapshot(entry->guarded_by, GetActiveSnapshot()) &&
			entry->file == relation->rd_rel->relfilenode && is_there(relation, entry))
			return entry;
	}
	return NULL;
}

/* The entry of a version, after a scan of the head rows. */
static Entry *
scan_for_entry(Relation relation, int version)
{
	GkHeads    *heads = gk_begin_heads(relation);
	Entry	   *entry;

	gk_find_head_or_fail(heads, relation, version);
	entry = find_entry(relation, gk_head(heads));
	if (entry == NULL)
		entry = make_entry(relation, gk_head(heads));
	gk_end_heads(heads);
	return entry;
}

/* Reads a version of a model. */
const GkModel *
gk_read_model(Oid relation_id, int version, MemoryContext context)
{
	Pin		   *place = MemoryContextAlloc(context, sizeof(Pin));
	Relation	relation = gk_open_model_table(relation_id);
	Entry	   *entry;

	/* a change of the table would have made its entries stale */
	if (find_versions(relation_id) == NULL)
		gk_check_model(relation);
	gk_check_model_reader(relation);
	entry = version == 0 ? find_deployed(relation) : NULL;
	if (entry == NULL)
		entry = scan_for_entry(relation, version);
	dlist_move_head(&entries, &entry->node);
	dlist_move_head(&entry->versions->entries, &entry->version);
	pin(entry, place, context);
	relation_close(relation, NoLock);
	trim();
	return entry->model;
}
