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
#include "source_query.h"

/* Ids that come at once. */
#define IDS_AT_ONCE 10000

/* The state of taking ids. */
typedef struct Taker
{
	const GkServerCluster *cluster;
	GkRowIdsWriter *writer;
	FmgrInfo	input;
	Oid			parameter;
	MemoryContext context;		/* of the ids of one answer */
	int64	   *taken;			/* of each node */
	bool	   *at_end;
} Taker;

/* Stores an id that a node sent. */
static void
put_id(Taker *taker, int number, int answer_row)
{
	const GkPart *part = &taker->cluster->parts[number];
	const GkConnections *connections = taker->cluster->connections;
	const char *text = gk_answer_text(connections, part->connection, answer_row, 0);
	const char *place = gk_answer_text(connections, part->connection, answer_row, 1);
	int64		row = place == NULL ? -2 : pg_strtoint64(place);
	Datum		id;

	if (row < -1 || row >= part->rows.read - part->rows.skipped)
		gk_refuse_answer(part->connection);
	/* a domain may refuse NULL */
	id = InputFunctionCall(&taker->input, unconstify(char *, text), taker->parameter, -1);
	gk_row_ids_put(taker->writer, id, text == NULL,
				   Max(taker->cluster->places[number], 0), row);
}

/* Takes the ids of an answer. */
static void
take_answer(Taker *taker, int number)
{
	const GkPart *part = &taker->cluster->parts[number];
	int			count = taker->cluster->connections->links->rows(part->connection->link);
	MemoryContext before = MemoryContextSwitchTo(taker->context);

	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		put_id(taker, number, i);
	}
	MemoryContextSwitchTo(before);
	MemoryContextReset(taker->context);
	taker->taken[number] += count;
	taker->at_end[number] = count < IDS_AT_ONCE;
	if (taker->taken[number] > part->rows.read ||
		(taker->at_end[number] && taker->taken[number] < part->rows.read))
		gk_refuse_answer(part->connection);
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
		if (taker->at_end[i])
			continue;
		asked[i] = true;
		any = true;
		gk_ask(cluster->connections, cluster->parts[i].connection,
			   psprintf("FETCH %d FROM gk_ids", IDS_AT_ONCE));
	}
	gk_await(cluster->connections);
	for (int i = 0; i < cluster->count; i++)
		if (asked[i])
			take_answer(taker, i);
	return any;
}

/* Takes all ids; the checks of their type may use what others drop. */
static void
take_all(Taker *taker)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		while (take_more(taker))
			;
	}
	PG_CATCH();
	{
		gk_rethrow_as_change(before);
	}
	PG_END_TRY();
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
	Taker		taker = {.cluster = cluster};
	int			nest_level;
	Oid			function;

	if (firsts == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	memcpy(firsts, first_rows, places * sizeof(int64));
	gk_row_ids_finish(ids, firsts, places);

	nest_level = gk_begin_id_texts();
	taker.writer = gk_row_ids_attach(gk_row_ids_handle(ids), type, 0);
	getTypeInputInfo(type, &function, &taker.parameter);
	fmgr_info(function, &taker.input);
	taker.context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans ids",
										  ALLOCSET_DEFAULT_SIZES);
	taker.taken = palloc0(cluster->count * sizeof(int64));
	taker.at_end = palloc0(cluster->count * sizeof(bool));
	begin_cursors(cluster);
	take_all(&taker);
	end_cursors(cluster);
	MemoryContextDelete(taker.context);
	gk_row_ids_flush(taker.writer);
	gk_end_id_texts(nest_level);
	return ids;
}
