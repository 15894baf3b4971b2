/*
 * Labels that stay on the nodes: the sessions of Citus write them there.
 *
 * Each node leaves its labels in shared memory.  The command that writes them selects from the
 * source once more, so that Citus sends it to the workers, and looks up the labels of the ids
 * there.  What it has not found, because the source has changed meanwhile, comes here as the rest.
 * So the labels are those of the rows that were read, and Citus commits them as all that it writes.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "cluster_labels.h"
#include "cluster_parts.h"
#include "id_texts.h"

/* Labels that come at once. */
#define LABELS_AT_ONCE 10000

/* The key that the labels are looked up by, as a text. */
static char *
key_text(const pg_uuid_t *key)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(key)));
}

/* An integer of the first row of the answer of a node. */
static int64
take_integer(const GkServerCluster *cluster, const GkPart *part, int column, int64 most)
{
	return gk_answer_integer(cluster->connections, part->connection, 0, column, 0, most);
}

/* Has the nodes leave their labels in shared memory. */
void
gk_cluster_share_labels(GkServerCluster *cluster, const int32 *clusters, int64 count,
						bool by_cosine)
{
	StringInfoData list;
	int64	   *handles = palloc(cluster->count * sizeof(int64));

	if (!pg_strong_random(&cluster->key, sizeof(cluster->key)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	initStringInfo(&list);
	for (int64 i = 0; i < count; i++)
		appendStringInfo(&list, "%s%d", i > 0 ? "," : "", clusters[i]);
	for (int i = 0; i < cluster->count; i++)
		gk_ask(cluster->connections, cluster->parts[i].connection,
			   psprintf("SELECT * FROM gkmeans.gkmeans_node_publish('%s'::pg_catalog.uuid,"
						" '{%s}'::pg_catalog.int4[], %s)",
						key_text(&cluster->key), list.data, by_cosine ? "true" : "false"));
	gk_await(cluster->connections);
	for (int i = 0; i < cluster->count; i++)
	{
		handles[i] = take_integer(cluster, &cluster->parts[i], 0, PG_UINT32_MAX);
		if (take_integer(cluster, &cluster->parts[i], 1, PG_INT64_MAX) !=
			cluster->parts[i].rows.read)
			gk_refuse_answer(cluster->parts[i].connection);
	}
	cluster->handles = handles;
}

/* Ends the transactions of the nodes, whose labels last as long as the next ones. */
void
gk_cluster_finish(GkServerCluster *cluster)
{
	gk_next_transactions(cluster->connections);
}

/* The statement that brings the next labels of the rest. */
static const char *
fetch_statement(void)
{
	return psprintf("FETCH %d FROM gk_rest", LABELS_AT_ONCE);
}

/* Has all nodes look for their rest at once, and send the first labels of it. */
static void
begin_rest(GkServerCluster *cluster)
{
	for (int i = 0; i < cluster->count; i++)
		gk_ask(cluster->connections, cluster->parts[i].connection,
			   psprintf("DECLARE gk_rest NO SCROLL CURSOR FOR"
						" SELECT * FROM gkmeans.gkmeans_node_rest('%s'::pg_catalog.uuid); %s",
						key_text(&cluster->key), fetch_statement()));
	gk_await(cluster->connections);
}

/* Has the nodes drop their labels. */
static void
drop_labels(GkServerCluster *cluster)
{
	for (int i = 0; i < cluster->count; i++)
		gk_ask(cluster->connections, cluster->parts[i].connection,
			   "SELECT gkmeans.gkmeans_node_close()");
	gk_await(cluster->connections);
}

/*
 * An id as the functions that look labels up take it: of the very type that they have, for no other
 * function of their names may fit better.  There are such for a few types; others need a row.
 */
static const char *
id_argument(const char *id, Oid type)
{
	bool		has_function = type == INT4OID || type == INT8OID || type == UUIDOID ||
		type == TEXTOID;

	return psprintf(has_function ? "s.%s" : "ROW(s.%s)", id);
}

/* What to select the labels from on the nodes. */
char *
gk_shared_labels(const GkServerCluster *cluster, const char *source, const char *id_column,
				 Oid id_type)
{
	pg_uuid_t	no_key = {0};
	const char *id = quote_identifier(id_column);
	StringInfoData arguments;

	initStringInfo(&arguments);
	appendStringInfoString(&arguments, "'{");
	for (int i = 0; cluster != NULL && i < cluster->count; i++)
		appendStringInfo(&arguments, "%s" INT64_FORMAT, i > 0 ? "," : "", cluster->handles[i]);
	appendStringInfo(&arguments, "}'::pg_catalog.int8[], '%s'::pg_catalog.uuid, %s",
					 key_text(cluster != NULL ? &cluster->key : &no_key),
					 id_argument(id, id_type));
	return psprintf("(SELECT s.%s AS id, gkmeans._gkmeans_label_cluster(%s) AS cluster_id,"
					" gkmeans._gkmeans_label_distance(%s) AS distance FROM %s AS s"
					" WHERE gkmeans._gkmeans_label_exists(%s)) AS l",
					id, arguments.data, arguments.data, source, arguments.data);
}

/* The state of taking the rest. */
typedef struct Taker
{
	const GkServerCluster *cluster;
	FmgrInfo	input;
	Oid			parameter;
	GkTakeLabel take;
	void	   *context;
	int64		rest;			/* of all nodes */
} Taker;

/* A value of an answer; NULL becomes *is_null. */
static Datum
take_value(Taker *taker, const GkPart *part, int row, int column, bool *is_null)
{
	const char *text = gk_answer_text(taker->cluster->connections, part->connection, row, column);

	*is_null = text == NULL;
	if (text == NULL)
		return (Datum) 0;
	if (column == 0)
		return InputFunctionCall(&taker->input, unconstify(char *, text), taker->parameter, -1);
	if (column == 1)
		return Int32GetDatum(gk_answer_integer(taker->cluster->connections, part->connection, row,
											   column, PG_INT32_MIN, PG_INT32_MAX));
	return DirectFunctionCall1(float8in, CStringGetDatum(text));
}

/* Takes the labels of an answer; how many. */
static int
take_answer(Taker *taker, const GkPart *part)
{
	int			count = taker->cluster->connections->links->rows(part->connection->link);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans label",
													  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(row_context);

	for (int i = 0; i < count; i++)
	{
		Datum		values[3];
		bool		nulls[3];

		CHECK_FOR_INTERRUPTS();
		for (int j = 0; j < 3; j++)
			values[j] = take_value(taker, part, i, j, &nulls[j]);
		taker->take(taker->context, values, nulls);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(row_context);
	return count;
}

/* Takes the rest of a node, whose first labels have come. */
static void
take_part(Taker *taker, const GkPart *part)
{
	const GkServerCluster *cluster = taker->cluster;
	int			count = take_answer(taker, part);
	int64		taken = count;

	while (count == LABELS_AT_ONCE && taken <= part->rows.read)
	{
		gk_ask(cluster->connections, part->connection, fetch_statement());
		gk_await(cluster->connections);
		count = take_answer(taker, part);
		taken += count;
	}
	if (taken > part->rows.read)
		gk_refuse_answer(part->connection);
	taker->rest += taken;
}

/* Takes the labels of which nobody has made use. */
void
gk_cluster_take_rest(GkServerCluster *cluster, Oid id_type, int64 selected, GkTakeLabel take,
					 void *context)
{
	Taker		taker = {.cluster = cluster,.take = take,.context = context};
	int			nest_level = gk_begin_id_texts();
	int64		read = 0;
	Oid			function;

	getTypeInputInfo(id_type, &function, &taker.parameter);
	fmgr_info(function, &taker.input);
	begin_rest(cluster);
	for (int i = 0; i < cluster->count; i++)
	{
		take_part(&taker, &cluster->parts[i]);
		read += cluster->parts[i].rows.read;
	}
	drop_labels(cluster);
	gk_end_id_texts(nest_level);
	if (selected + taker.rest != read)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the rows of the source changed while their labels were being written"),
				 errdetail("Of %lld rows, %lld were labelled on the nodes, and %lld here.",
						   (long long) read, (long long) selected, (long long) taker.rest),
				 errhint("Repeat the statement.")));
}
