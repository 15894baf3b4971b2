/*
 * The models that a session keeps unpacked between statements.
 *
 * The head rows are scanned at every reading, so the result is what the snapshot sees.  Only the
 * unpacking is saved, if the row is physically the same.
 */
#include "postgres.h"

#include "access/relation.h"
#include "lib/ilist.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "storage/itemptr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "model_cache.h"
#include "settings.h"

/* One unpacked version, and the identity of its row. */
typedef struct Entry
{
	dlist_node	node;			/* most recently used first */
	GkModel    *model;
	Oid			file;			/* pg_class.relfilenode */
	ItemPointerData place;
	TransactionId writer;
	CommandId	command;		/* of the writer: TRUNCATE in one transaction may keep the file */
	int			pins;
	bool		stale;			/* to be freed when the last pin is gone */
	Size		bytes;
} Entry;

/* A use of an entry, which ends with a memory context. */
typedef struct Pin
{
	MemoryContextCallback callback;
	Entry	   *entry;
} Pin;

static dlist_head entries = DLIST_STATIC_INIT(entries);
static Size total_bytes = 0;

/* Frees an entry. */
static void
free_entry(Entry *entry)
{
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
	if (entry->pins == 0 && entry->stale)
		free_entry(entry);
	trim();
}

/* The invalidation callback: entries of the relation, or all entries, may be stale. */
static void
invalidate(Datum argument, Oid relation_id)
{
	dlist_mutable_iter iterator;

	dlist_foreach_modify(iterator, &entries)
	{
		Entry	   *entry = dlist_container(Entry, node, iterator.cur);

		if (OidIsValid(relation_id) && entry->model->relation != relation_id)
			continue;
		entry->stale = true;
		if (entry->pins == 0)
			free_entry(entry);
	}
}

/* The transaction that wrote a row. */
static TransactionId
writer_of(TupleTableSlot *slot)
{
	bool		is_null;

	return DatumGetTransactionId(slot_getsysattr(slot, MinTransactionIdAttributeNumber, &is_null));
}

/* The command of that transaction. */
static CommandId
command_of(TupleTableSlot *slot)
{
	bool		is_null;

	return DatumGetCommandId(slot_getsysattr(slot, MinCommandIdAttributeNumber, &is_null));
}

/* The entry of a row; NULL if there is none. */
static Entry *
find_entry(Relation relation, TupleTableSlot *slot)
{
	TransactionId writer = writer_of(slot);
	CommandId	command = command_of(slot);
	dlist_iter	iterator;

	dlist_foreach(iterator, &entries)
	{
		Entry	   *entry = dlist_container(Entry, node, iterator.cur);

		if (!entry->stale && entry->model->relation == RelationGetRelid(relation) &&
			entry->file == relation->rd_rel->relfilenode &&
			ItemPointerEquals(&entry->place, &slot->tts_tid) && entry->writer == writer &&
			entry->command == command)
			return entry;
	}
	return NULL;
}

/* Unpacks a row into a new entry. */
static Entry *
make_entry(Relation relation, TupleTableSlot *slot)
{
	static bool watching = false;
	GkModel    *model = gk_unpack_model(relation, slot, CurrentMemoryContext);
	Entry	   *entry;

	if (!watching)
		CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	watching = true;
	entry = MemoryContextAllocZero(CacheMemoryContext, sizeof(Entry));
	MemoryContextSetParent(model->context, CacheMemoryContext);
	entry->model = model;
	entry->file = relation->rd_rel->relfilenode;
	entry->place = slot->tts_tid;
	entry->writer = writer_of(slot);
	entry->command = command_of(slot);
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

/* Reads a version of a model. */
const GkModel *
gk_read_model(Oid relation_id, int version, MemoryContext context)
{
	Pin		   *place = MemoryContextAlloc(context, sizeof(Pin));
	Relation	relation = gk_open_model(relation_id);
	GkHeads    *heads = gk_begin_heads(relation);
	TupleTableSlot *slot = gk_head(heads);
	Entry	   *entry;

	gk_find_head_or_fail(heads, relation, version);
	entry = find_entry(relation, slot);
	if (entry == NULL)
		entry = make_entry(relation, slot);
	else
		dlist_move_head(&entries, &entry->node);
	pin(entry, place, context);
	gk_end_heads(heads);
	relation_close(relation, NoLock);
	trim();
	return entry->model;
}
