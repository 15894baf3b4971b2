/*
 * How many rows of a query each pair of two labels has.
 *
 * The settings that show a label as it is are set between batches of rows only: the query itself
 * runs under those of its user.  Labels wait for that, so their types must stay what they are.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "alloc.h"
#include "id_parts.h"
#include "id_texts.h"
#include "label_numbers.h"
#include "label_pairs.h"
#include "source_columns.h"

#define BATCH_ROWS 4096

/* The longest labels of a row: both become one tuple, with a header. */
#define MOST_BYTES (MaxAllocSize - 1024)

/* A column of labels. */
typedef struct LabelColumn
{
	const char *name;
	Oid			type;
	List	   *parts;			/* see gk_id_parts() */
	GkLabelNumbers *numbers;
} LabelColumn;

/* An entry of the hash table. */
typedef struct Pair
{
	int32		labels[2];		/* key: their numbers */
	int64		rows;
} Pair;

/* Where the rows go. */
typedef struct PairReceiver
{
	DestReceiver receiver;		/* must be first */
	MemoryContext context;
	LabelColumn columns[2];
	uint64		seed;			/* of the hashes: whoever orders the rows chooses the numbers */
	HTAB	   *pairs;
	Tuplestorestate *batch;		/* rows whose labels have no numbers yet */
	int			count;			/* of them */
	TupleTableSlot *slot;
} PairReceiver;

/* Counts a row. */
static void
count_pair(PairReceiver *pairs, TupleTableSlot *slot)
{
	int32		key[2];
	uint64		hash;
	bool		found;
	Pair	   *pair;

	slot_getallattrs(slot);
	if (slot->tts_isnull[0] || slot->tts_isnull[1])
		return;
	for (int side = 0; side < 2; side++)
		key[side] = gk_label_number(pairs->columns[side].numbers, slot->tts_values[side]);
	hash = hash_bytes_extended((const unsigned char *) key, sizeof(key), pairs->seed);
	pair = hash_search_with_hash_value(pairs->pairs, key, (uint32) hash, HASH_ENTER, &found);
	if (!found)
		pair->rows = 0;
	pair->rows++;
}

/* Counts the rows of the batch. */
static void
count_batch(PairReceiver *pairs)
{
	int			nest_level = gk_begin_id_texts();

	for (int side = 0; side < 2; side++)
		gk_check_id_parts(pairs->columns[side].type, pairs->columns[side].parts,
						  pairs->columns[side].name);
	while (tuplestore_gettupleslot(pairs->batch, true, false, pairs->slot))
	{
		CHECK_FOR_INTERRUPTS();
		count_pair(pairs, pairs->slot);
	}
	gk_end_id_texts(nest_level);
	tuplestore_clear(pairs->batch);
	pairs->count = 0;
}

/* Makes room for rows. */
static void
start_pairs(DestReceiver *self, int operation, TupleDesc descriptor)
{
	PairReceiver *pairs = (PairReceiver *) self;
	MemoryContext old_context = MemoryContextSwitchTo(pairs->context);

	pairs->batch = tuplestore_begin_heap(false, false, work_mem);
	pairs->slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(descriptor), &TTSOpsMinimalTuple);
	MemoryContextSwitchTo(old_context);
}

/* Raises an error if the labels of a row are too long to wait. */
static void
check_lengths(TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	if (heap_compute_data_size(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull) >
		MOST_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the labels of a row have more than %zu bytes", (Size) MOST_BYTES),
				 errhint("Use md5() of the labels.")));
}

/* Takes a row. */
static bool
receive_pair(TupleTableSlot *slot, DestReceiver *self)
{
	PairReceiver *pairs = (PairReceiver *) self;
	MemoryContext old_context = MemoryContextSwitchTo(pairs->context);

	check_lengths(slot);
	tuplestore_puttupleslot(pairs->batch, slot);
	if (++pairs->count == BATCH_ROWS)
		count_batch(pairs);
	MemoryContextSwitchTo(old_context);
	return true;
}

/* Counts the last rows. */
static void
shutdown_pairs(DestReceiver *self)
{
	PairReceiver *pairs = (PairReceiver *) self;
	MemoryContext old_context = MemoryContextSwitchTo(pairs->context);

	count_batch(pairs);
	ExecDropSingleTupleTableSlot(pairs->slot);
	tuplestore_end(pairs->batch);
	MemoryContextSwitchTo(old_context);
}

/* The receiver goes with its memory context. */
static void
destroy_pairs(DestReceiver *self)
{
}

/* The order of a contingency. */
static int
compare_shared(const void *a, const void *b, void *argument)
{
	const GkShared *left = a;
	const GkShared *right = b;

	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	return (left->to > right->to) - (left->to < right->to);
}

/* Lists the pairs. */
static void
list_pairs(PairReceiver *pairs, GkContingency *contingency)
{
	const int32 *from = gk_label_places(pairs->columns[0].numbers);
	const int32 *to = gk_label_places(pairs->columns[1].numbers);
	HASH_SEQ_STATUS search;
	Pair	   *pair;

	contingency->shared = gk_allocate(hash_get_num_entries(pairs->pairs), sizeof(GkShared));
	hash_seq_init(&search, pairs->pairs);
	while ((pair = hash_seq_search(&search)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		contingency->shared[contingency->count++] =
			(GkShared) {from[pair->labels[0]], to[pair->labels[1]], pair->rows};
	}
	qsort_interruptible(contingency->shared, contingency->count, sizeof(GkShared), compare_shared,
						NULL);
}

/* Describes the column of a label; what a look at the source said before may not hold any more. */
static LabelColumn
describe_column(const TargetEntry *entry)
{
	LabelColumn column = {.name = entry->resname,.type = exprType((const Node *) entry->expr)};

	column.parts = gk_id_parts(column.type);
	/* the planner may have called what drops it */
	if (!OidIsValid(linitial_oid(column.parts)))
		gk_refuse_change();
	column.numbers = gk_label_numbers_create(column.type);
	return column;
}

void
gk_count_labels(const GkSourceQuery *query, GkContingency *contingency)
{
	const List *targets = query->plan->planTree->targetlist;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "pairs of labels",
												  ALLOCSET_DEFAULT_SIZES);
	bool		is_changed;
	HASHCTL		control = {.keysize = 2 * sizeof(int32),.entrysize = sizeof(Pair),.hcxt = context};
	PairReceiver pairs = {
		.receiver = {receive_pair, start_pairs, shutdown_pairs, destroy_pairs, DestNone},
		.context = context,
		.columns = {describe_column(linitial_node(TargetEntry, targets)),
		describe_column(lsecond_node(TargetEntry, targets))},
		.pairs = hash_create("pairs of labels", 1024, &control,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT)
	};

	(void) pg_strong_random(&pairs.seed, sizeof(pairs.seed));
	(void) gk_query_push_snapshot(query, &is_changed);
	gk_query_run(query, NULL, &pairs.receiver);
	PopActiveSnapshot();
	list_pairs(&pairs, contingency);
	for (int side = 0; side < 2; side++)
		gk_label_numbers_drop(pairs.columns[side].numbers);
	MemoryContextDelete(context);
}
