/*
 * A fit over several servers: their engines, and the cluster engine over them.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "alloc.h"
#include "cluster_engine.h"
#include "cluster_ids.h"
#include "cluster_parts.h"
#include "cluster_rows.h"
#include "column_types.h"
#include "engine_error.h"
#include "host_memory.h"
#include "id_parts.h"
#include "id_texts.h"
#include "node_job.h"
#include "progress.h"
#include "source_columns.h"

/* A text as a literal; NULL of NULL. */
static const char *
literal(const char *text)
{
	return text == NULL ? "NULL" : quote_literal_cstr(text);
}

/*
 * Appends the call that opens an engine on a node.  All numbers have the types of its parameters:
 * no other function of that name may fit better.
 */
static void
append_open(StringInfo text, const GkConnection *connection, const GkSource *source,
			const char *id_type, const GkWork *work)
{
	appendStringInfo(text, "SELECT * FROM gkmeans.gkmeans_node_open(%d, %s, ARRAY[",
					 GK_NODE_PROTOCOL, literal(connection->node->source));
	for (int i = 0; i < source->count; i++)
		appendStringInfo(text, "%s%s", i > 0 ? ", " : "", literal(source->names[i]));
	appendStringInfo(text, "]::pg_catalog.text[], %s, %s, ", literal(source->spec.id_column),
					 literal(id_type));
	appendStringInfo(text, "%s, %s, %s, %.0f::pg_catalog.int8, %.0f::pg_catalog.int8,"
					 " %.0f::pg_catalog.int8)", literal(source->spec.weight_column),
					 source->spec.nulls_are_errors ? "true" : "false",
					 source->by_direction ? "true" : "false",
					 Max(work->k, 1.0), Max(work->starts, 1.0), Max(work->iterations, 1.0));
}

/*
 * The type that nodes convert ids to; NULL if ids stay of the type of their column, whose texts are
 * read here.
 */
static const char *
converted_type(const GkNodeSources *nodes, const GkSource *source)
{
	Oid			type = gk_source_id_type(source);
	Oid			column;

	if (!OidIsValid(type) || (!nodes->of_citus && !gk_converts_ids(source)))
		return NULL;
	column = gk_column_type(source, source->id);
	if (!nodes->of_citus && Max(type, getBaseType(column)) >= FirstNormalObjectId)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("nodes cannot convert ids of type %s to type %s", gk_shown_type(column),
						gk_shown_type(type)),
				 errdetail("Types and casts that were created may be others there."),
				 errhint("Give NULL::%s as the first argument, id_type.",
						 gk_shown_type(column))));
	return gk_type_name(type);
}

/* Opens an engine on a node, whose columns must have these types, if they are not NULL. */
static void
open_part(GkServerCluster *cluster, GkPart *part, const GkSource *source, const char *own,
		  const char *id_type, const GkWork *work)
{
	GkConnection *connection = part->connection;
	const char *columns;
	StringInfoData text;

	initStringInfo(&text);
	append_open(&text, connection, source, id_type, work);
	gk_ask(cluster->connections, connection, text.data);
	gk_await(cluster->connections);

	part->engine = gk_answer_text(cluster->connections, connection, 0, 0);
	part->engine_reason = gk_answer_text(cluster->connections, connection, 0, 1);
	columns = gk_answer_text(cluster->connections, connection, 0, 2);
	if (part->engine == NULL || part->engine_reason == NULL || columns == NULL)
		gk_refuse_answer(part->connection);
	if (own != NULL && strcmp(columns, own) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the columns of the source on node \"%s\" differ from those on this server",
						connection->node->name),
				 errdetail("There: %s. Here: %s.", gk_valid_text(columns), own),
				 errhint("Give the columns the same types, or cast them in the source.")));
	part->engine = gk_valid_text(part->engine);
	part->engine_reason = gk_valid_text(part->engine_reason);
}

/* True if values of this type name objects, which are others in another database. */
static bool
names_objects(Oid type)
{
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
		default:
			return false;
	}
}

/* True if values of this type contain such names. */
static bool
contains_names(Oid type)
{
	ListCell   *cell;

	foreach(cell, gk_id_parts(type))
		if (names_objects(lfirst_oid(cell)))
			return true;
	return false;
}

/* True if values of this type can come here as texts. */
static bool
can_send(const GkNodeSources *nodes, Oid type)
{
	bool		are_named = !nodes->of_citus && !nodes->nodes[0].of_postgres_fdw;

	return gk_can_send_ids(type) && !(are_named && contains_names(type));
}

/* Raises an error if ids could not come here as texts; Citus' workers convert them before. */
static void
check_ids(const GkNodeSources *nodes, const GkSource *source)
{
	const char *argument = source->spec.id_argument;
	Oid			type = gk_source_id_type(source);
	Oid			column;

	if (!OidIsValid(type))
		return;
	column = gk_column_type(source, source->id);
	if (can_send(nodes, type) && (nodes->of_citus || can_send(nodes, column)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 can_send(nodes, column)
			 ? errmsg("ids of type %s cannot be sent from a node", gk_shown_type(type))
			 : errmsg("column \"%s\" of type %s cannot be sent from a node",
					  source->spec.id_column, gk_shown_type(column)),
			 errdetail("Columns of rows, or names of objects, may be others there."),
			 can_send(nodes, column)
			 ? errhint("Give NULL::%s as the first argument, id_type.", gk_shown_type(column))
			 : errhint("Take a column of another type as %s, or set gkmeans.nodes to ''.",
					   argument != NULL ? argument : "id_column")));
}

/* Orders nodes by what they say of themselves. */
static int
compare_databases(const void *left, const void *right, void *arg)
{
	return strcmp((*(GkPart *const *) left)->connection->database,
				  (*(GkPart *const *) right)->connection->database);
}

/*
 * Connects to the nodes, and opens an engine on each, one after the other: fits that wait for a GPU
 * keep those of nodes before it, so all servers must take the nodes in one order, whatever they
 * call them.
 */
GkServerCluster *
gk_cluster_open(GkJob *job, const GkNodeSources *nodes, const GkSource *source, const GkWork *work,
				int lock_timeout)
{
	GkServerCluster *cluster = palloc0(sizeof(GkServerCluster));
	const char *id_type;
	/* Citus has made all tables, and writes a UNION for each shard, also of a view's queries */
	const char *own = nodes->of_citus ? NULL : gk_column_types(source);
	GkPart	  **parts;

	check_ids(nodes, source);
	id_type = converted_type(nodes, source);
	cluster->job = job;
	cluster->connections = gk_connect(job, nodes, lock_timeout);
	cluster->count = nodes->count;
	cluster->parts = palloc0(nodes->count * sizeof(GkPart));
	parts = palloc(nodes->count * sizeof(GkPart *));
	for (int i = 0; i < cluster->count; i++)
	{
		parts[i] = &cluster->parts[i];
		parts[i]->connection = &cluster->connections->all[i];
	}
	qsort_interruptible(parts, cluster->count, sizeof(GkPart *), compare_databases, NULL);
	for (int i = 0; i < cluster->count; i++)
		open_part(cluster, parts[i], source, own, id_type, work);
	pfree(parts);
	return cluster;
}

/* A shift as a node takes it. */
static bytea *
pack_shift(const double *shift, int dimension)
{
	Datum	   *elements = gk_allocate(dimension, sizeof(Datum));
	ArrayType  *array;

	for (int i = 0; i < dimension; i++)
		elements[i] = Float8GetDatum(shift[i]);
	array = construct_array(elements, dimension, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL,
							TYPALIGN_DOUBLE);
	return OidSendFunctionCall(F_ARRAY_SEND, PointerGetDatum(array));
}

/* Lets some nodes read their rows, all at once; `which` NULL means all. */
static void
load_parts(GkServerCluster *cluster, const GkSource *source, const double *shift, int dimension,
		   const bool *which)
{
	bytea	   *packed = shift == NULL ? NULL : pack_shift(shift, dimension);
	const char *statement = psprintf("SELECT * FROM gkmeans.gkmeans_node_load(%d, %s"
									 "::pg_catalog.float8[])", dimension,
									 shift == NULL ? "NULL" : "$1");

	for (int i = 0; i < cluster->count; i++)
		if (which == NULL || which[i])
			gk_prepare_on(cluster->connections, cluster->parts[i].connection, "", statement);
	gk_await(cluster->connections);
	for (int i = 0; i < cluster->count; i++)
		if (which == NULL || which[i])
			gk_ask_prepared(cluster->connections, cluster->parts[i].connection, "",
							packed == NULL ? NULL : VARDATA(packed),
							packed == NULL ? 0 : VARSIZE(packed) - VARHDRSZ);
	gk_await(cluster->connections);
	for (int i = 0; i < cluster->count; i++)
		if (which == NULL || which[i])
			gk_take_rows(cluster, &cluster->parts[i], source);
}

/* Lets some nodes read their rows again, with the shift of all rows. */
static void
load_once_more(GkServerCluster *cluster, const GkSource *source, GkRows *rows, bool *wrong)
{
	const double *shift = rows->shift;
	int			dimension = rows->dimension;
	bool		same = true;

	load_parts(cluster, source, shift, dimension, wrong);
	for (int i = 0; i < cluster->count; i++)
		same = same && (cluster->parts[i].rows.dimension == 0 ||
						cluster->parts[i].rows.dimension == dimension);
	if (!same || !gk_merge_parts(cluster, source, shift, rows, wrong) ||
		rows->dimension != dimension)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the rows of the nodes changed while they were being read"),
				 errhint("Try again.")));
	rows->read_twice = true;
}

/* True if the shift, unless it is that of a model, did not serve the rows; it does now. */
static bool
corrects_shift(const GkSource *source, GkRows *rows)
{
	bool		changed = false;

	if (source->spec.dimension > 0 || rows->least == NULL)
		return false;
	for (int i = 0; i < rows->dimension; i++)
		changed |= gk_shift_adapt(&rows->shift[i], rows->least[i], rows->greatest[i],
								  gk_feature_class(source, i));
	return changed;
}

/*
 * Lets the nodes whose features were shifted otherwise read their rows again, and all of them until
 * the shift serves what they have read, as on one server.
 */
static void
load_again(GkServerCluster *cluster, const GkSource *source, GkRows *rows, bool *wrong)
{
	int			i = 0;

	load_once_more(cluster, source, rows, wrong);
	while (corrects_shift(source, rows))
	{
		gk_check_readings(++i);
		for (int part = 0; part < cluster->count; part++)
			wrong[part] = cluster->parts[part].rows.dimension > 0;
		load_once_more(cluster, source, rows, wrong);
	}
}

/* Numbers the nodes that have rows; the first row of each goes to `first_rows`, and all behind. */
static int
place_parts(GkServerCluster *cluster, GkConnection **nodes, int64 *first_rows)
{
	int			places = 0;
	int64		rows = 0;

	for (int i = 0; i < cluster->count; i++)
	{
		const GkRows *part = &cluster->parts[i].rows;

		cluster->places[i] = -1;
		if (part->read == part->skipped)
			continue;
		cluster->places[i] = places;
		nodes[places] = cluster->parts[i].connection;
		first_rows[places++] = rows;
		rows += part->read - part->skipped;
	}
	first_rows[places] = rows;
	return places;
}

/* Opens the cluster engine over the nodes that have rows, or over the first if none has. */
static GkEngine *
open_engine(GkServerCluster *cluster, GkConnection *const *nodes, const int64 *first_rows,
			int places, const GkWork *work, int dimension)
{
	GkEngineConfig config = {.weighted = work->weighted};
	GkConnection *first = cluster->parts[0].connection;
	GkEngine   *engine;

	cluster->messages = gk_messages_begin(cluster->connections, places > 0 ? nodes : &first,
										  first_rows, Max(places, 1));
	gk_limit_host_memory(&config, 0);
	config.transport = gk_messages_transport(cluster->messages);
	engine = gk_job_open_engine(cluster->job, gk_cluster_engine(), &config);
	if (dimension > 0)
		gk_check(engine->class_of->set_dimension(engine, dimension));
	return engine;
}

/* Reads the rows of the source on all nodes, and opens the cluster engine. */
GkEngine *
gk_cluster_read(GkServerCluster *cluster, const GkSource *source, const GkWork *work,
				bool ids_stay, GkRows *rows)
{
	bool	   *wrong = palloc0(cluster->count * sizeof(bool));
	GkConnection **nodes = palloc(cluster->count * sizeof(GkConnection *));
	int64	   *first_rows = palloc0((cluster->count + 1) * sizeof(int64));
	int			places;

	load_parts(cluster, source, source->spec.shift, source->spec.dimension, NULL);
	if (!gk_merge_parts(cluster, source, NULL, rows, wrong))
		load_again(cluster, source, rows, wrong);
	gk_progress_count(gk_progress_number(), rows->read - rows->skipped);
	cluster->places = palloc(cluster->count * sizeof(int));
	places = place_parts(cluster, nodes, first_rows);
	/* it can take long until all nodes have read their rows */
	gk_source_check_ids(source);
	if (OidIsValid(gk_source_id_type(source)) && !ids_stay)
	{
		rows->ids = gk_take_ids(cluster, gk_source_id_type(source), rows->read, first_rows, places);
		/* the checks of a domain may have changed it */
		gk_source_check_ids(source);
	}
	return open_engine(cluster, nodes, first_rows, places, work, rows->dimension);
}

/* What the exchange with the nodes took so far. */
double
gk_cluster_seconds(const GkServerCluster *cluster)
{
	return gk_cluster_exchange_seconds(gk_job_engine(cluster->job));
}

/* What the nodes did so far. */
GkNodeLine *
gk_cluster_lines(const GkServerCluster *cluster, int *count)
{
	GkNodeLine *lines = palloc0(cluster->count * sizeof(GkNodeLine));

	*count = cluster->count;
	for (int i = 0; i < cluster->count; i++)
	{
		const GkPart *part = &cluster->parts[i];
		GkNodeLine *line = &lines[i];

		line->name = pstrdup(part->connection->node->name);
		line->rows_read = part->rows.read;
		line->rows_skipped = part->rows.skipped;
		line->engine = pstrdup(part->engine);
		line->engine_reason = pstrdup(part->engine_reason);
		line->read_seconds = part->read_seconds;
		if (cluster->places[i] >= 0)
		{
			GkNodeReport report;

			gk_cluster_report(gk_job_engine(cluster->job), cluster->places[i], &report);
			line->compute_seconds = report.seconds;
			line->bytes = report.peak;
			line->sent = report.sent;
			line->received = report.received;
		}
	}
	return lines;
}
