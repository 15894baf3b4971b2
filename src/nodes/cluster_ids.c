/*
 * The ids of the rows, brought from the nodes here.
 */
#include "postgres.h"

#include <stdlib.h>

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "cluster_ids.h"
#include "id_texts.h"

/* Ids that come at once from a node: at first, and at most, also by their bytes. */
#define FIRST_IDS 100
#define MOST_IDS 2000
#define MOST_BYTES (16 * 1024 * 1024)

/* What is known of the ids of a node. */
typedef struct NodeIds
{
	int			asked;			/* for so many the last time */
	Size		longest;		/* bytes of a text that came then */
	int64		taken;
	bool		at_end;
} NodeIds;

/* The state of taking ids. */
typedef struct Taker
{
	const GkServerCluster *cluster;
	GkRowIdsWriter *writer;
	Oid			type;
	FmgrInfo	input;			/* of what it is a domain over, if it is one */
	Oid			parameter;
	int32		modifier;
	bool		is_domain;
	void	   *checks;			/* of the domain, once they are known … */
	MemoryContext kept;			/* … in this context */
	MemoryContext context;		/* of the ids of one answer */
	NodeIds    *nodes;
} Taker;

/* The ids of an answer, from their texts. */
static Datum *
read_ids(Taker *taker, int number, int count)
{
	const GkPart *part = &taker->cluster->parts[number];
	NodeIds    *node = &taker->nodes[number];
	Datum	   *ids = palloc((count + 1) * sizeof(Datum));
	int			nest_level = gk_begin_id_texts();

	node->longest = 0;
	for (int i = 0; i < count; i++)
	{
		const char *text = gk_answer_text(taker->cluster->connections, part->connection, i, 0);

		CHECK_FOR_INTERRUPTS();
		node->longest = Max(node->longest, text == NULL ? 0 : strlen(text));
		ids[i] = InputFunctionCall(&taker->input, unconstify(char *, text), taker->parameter,
								   taker->modifier);
	}
	gk_end_id_texts(nest_level);
	return ids;
}

/* Stores an id that a node sent; a domain checks it, also if it is NULL. */
static void
put_id(Taker *taker, int number, int answer_row, Datum id)
{
	const GkPart *part = &taker->cluster->parts[number];
	const GkConnections *connections = taker->cluster->connections;
	bool		is_null = gk_answer_text(connections, part->connection, answer_row, 0) == NULL;
	int64		row = gk_answer_integer(connections, part->connection, answer_row, 1, -1,
										part->rows.read - part->rows.skipped - 1);

	if (taker->is_domain)
		domain_check(id, is_null, taker->type, &taker->checks, taker->kept);
	gk_row_ids_put(taker->writer, id, is_null, Max(taker->cluster->places[number], 0), row);
}

/* Takes the ids of an answer. */
static void
take_answer(Taker *taker, int number)
{
	const GkPart *part = &taker->cluster->parts[number];
	NodeIds    *node = &taker->nodes[number];
	int			count = taker->cluster->connections->links->rows(part->connection->link);
	MemoryContext before = MemoryContextSwitchTo(taker->context);
	Datum	   *ids;

	if (count > node->asked)
		gk_refuse_answer(part->connection);
	ids = read_ids(taker, number, count);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		put_id(taker, number, i, ids[i]);
	}
	MemoryContextSwitchTo(before);
	MemoryContextReset(taker->context);
	node->taken += count;
	node->at_end = count < node->asked;
	if (node->taken > part->rows.read || (node->at_end && node->taken < part->rows.read))
		gk_refuse_answer(part->connection);
}

/* How many ids a node is asked for next; longer ones may follow. */
static int
ids_to_ask(const NodeIds *node)
{
	int			most = node->asked == 0 ? FIRST_IDS : Min(2 * node->asked, MOST_IDS);

	return Max(1, Min(most, MOST_BYTES / (int64) (node->longest + 1)));
}

/* Takes ids from all nodes that have more of them; false if none has. */
static bool
take_more(Taker *taker)
{
	const GkServerCluster *cluster = taker->cluster;
	bool	   *asked = palloc0(cluster->count * sizeof(bool));
	bool		any = false;

	for (int i = 0; i < cluster->count; i++)
	{
		NodeIds    *node = &taker->nodes[i];

		if (node->at_end)
			continue;
		asked[i] = true;
		any = true;
		node->asked = ids_to_ask(node);
		gk_ask(cluster->connections, cluster->parts[i].connection,
			   psprintf("FETCH %d FROM gk_ids", node->asked));
	}
	gk_await(cluster->connections);
	for (int i = 0; i < cluster->count; i++)
		if (asked[i])
			take_answer(taker, i);
	pfree(asked);
	return any;
}

/* Opens the cursors of the ids. */
static void
begin_cursors(const GkServerCluster *cluster)
{
	for (int i = 0; i < cluster->count; i++)
		gk_ask(cluster->connections, cluster->parts[i].connection,
			   "DECLARE gk_ids NO SCROLL CURSOR FOR SELECT * FROM gkmeans.gkmeans_node_ids()");
	gk_await(cluster->connections);
}

/* Closes them: they hold what the ids take on the nodes. */
static void
end_cursors(const GkServerCluster *cluster)
{
	for (int i = 0; i < cluster->count; i++)
		gk_ask(cluster->connections, cluster->parts[i].connection, "CLOSE gk_ids");
	gk_await(cluster->connections);
}

/* Brings the ids of all nodes here. */
GkRowIds *
gk_take_ids(const GkServerCluster *cluster, Oid type, int64 rows, int64 *first_rows, int places)
{
	GkRowIds   *ids = gk_row_ids_create(cluster->job, type, 1);
	int64	   *firsts = malloc(Max(places, 1) * sizeof(int64));
	Taker		taker = {.cluster = cluster,.type = type,.modifier = -1,
	.kept = CurrentMemoryContext};
	Oid			base = getBaseTypeAndTypmod(type, &taker.modifier);
	Oid			function;

	if (firsts == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	memcpy(firsts, first_rows, places * sizeof(int64));
	gk_row_ids_finish(ids, firsts, places);

	taker.writer = gk_row_ids_attach(gk_row_ids_handle(ids), type, 0);
	taker.is_domain = base != type;
	getTypeInputInfo(base, &function, &taker.parameter);
	fmgr_info(function, &taker.input);
	taker.context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans ids",
										  ALLOCSET_DEFAULT_SIZES);
	taker.nodes = palloc0(cluster->count * sizeof(NodeIds));
	begin_cursors(cluster);
	while (take_more(&taker))
		;
	end_cursors(cluster);
	MemoryContextDelete(taker.context);
	gk_row_ids_flush(taker.writer);
	return ids;
}
