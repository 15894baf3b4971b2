/*
 * The receiver of a query whose rows this process alone feeds.
 *
 * It stands for the aggregate where another planner than PostgreSQL's plans the query, which would
 * send the aggregate elsewhere: Citus.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "nodes/makefuncs.h"
#include "utils/memutils.h"

#include "feed_receiver.h"
#include "share.h"

typedef struct Receiver
{
	DestReceiver head;
	GkFeed	   *feed;
	MemoryContext context;
	MemoryContext row_context;	/* reset with every row */
	FmgrInfo	function;		/* tells the types of the arguments, and nothing else */
	FunctionCallInfo call;
	GkFeeder   *feeder;			/* NULL before the first row */
} Receiver;

/* A call with arguments of those types, after its state. */
static Node *
make_call(TupleDesc columns)
{
	List	   *arguments = list_make1(makeNullConst(INTERNALOID, -1, InvalidOid));

	for (int i = 0; i < columns->natts; i++)
		arguments = lappend(arguments, makeNullConst(TupleDescAttr(columns, i)->atttypid, -1,
													 InvalidOid));
	return (Node *) makeFuncExpr(InvalidOid, INTERNALOID, arguments, InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/* Learns the types of the columns. */
static void
begin_receiving(DestReceiver *self, int operation, TupleDesc columns)
{
	Receiver   *receiver = (Receiver *) self;
	MemoryContext before = MemoryContextSwitchTo(receiver->context);
	int			count = GK_TICKET + columns->natts;

	receiver->row_context = AllocSetContextCreate(receiver->context, "gkmeans row",
												  ALLOCSET_DEFAULT_SIZES);
	receiver->function.fn_expr = make_call(columns);
	receiver->call = palloc0(SizeForFunctionCallInfo(count));
	InitFunctionCallInfoData(*receiver->call, &receiver->function, count, InvalidOid, NULL, NULL);
	receiver->call->args[GK_STATE].isnull = true;
	MemoryContextSwitchTo(before);
}

/* Takes a row. */
static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;
	NullableDatum *arguments = receiver->call->args + GK_TICKET;
	MemoryContext before;

	slot_getallattrs(slot);
	for (int i = 0; i < slot->tts_nvalid; i++)
		arguments[i] = (NullableDatum) {slot->tts_values[i], slot->tts_isnull[i]};
	MemoryContextReset(receiver->row_context);
	before = MemoryContextSwitchTo(receiver->row_context);
	if (receiver->feeder == NULL)
		receiver->feeder = gk_share_begin(receiver->feed, receiver->call, receiver->context);
	gk_share_take(receiver->feeder, receiver->call);
	MemoryContextSwitchTo(before);
	return true;
}

/* Nothing is left to do: gk_feed_receiver_end() does it. */
static void
ignore(DestReceiver *self)
{
}

/* A receiver for the rows of a reading. */
DestReceiver *
gk_feed_receiver(GkFeed *feed, MemoryContext context)
{
	Receiver   *receiver = MemoryContextAllocZero(context, sizeof(Receiver));

	receiver->head.receiveSlot = receive_row;
	receiver->head.rStartup = begin_receiving;
	receiver->head.rShutdown = ignore;
	receiver->head.rDestroy = ignore;
	receiver->head.mydest = DestNone;
	receiver->feed = feed;
	receiver->context = context;
	return &receiver->head;
}

/* Flushes what was received. */
void
gk_feed_receiver_end(DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;

	if (receiver->feeder != NULL)
		gk_share_end(receiver->feeder);
	MemoryContextDelete(receiver->row_context);
}
