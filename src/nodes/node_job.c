/*
 * What this server does as a node of another server's fit.
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "alloc.h"
#include "column_types.h"
#include "engine_error.h"
#include "host_memory.h"
#include "id_texts.h"
#include "node.h"
#include "node_job.h"
#include "seconds.h"
#include "source_columns.h"

/* A Port begins alike without these, whose headers need not be installed. */
#undef ENABLE_GSS
#undef USE_OPENSSL
#include "libpq/libpq-be.h"

/* Labels fetched from the engine at once. */
#define LABELS_AT_ONCE 16384

/* Freed memory that a session keeps: the copies of one piece of a message, and of its answer. */
#define KEPT_BYTES (16 * 1024 * 1024)

/* Room in a local socket: for the largest part of an answer. */
#define LOCAL_SOCKET_BYTES (2048 * 1024)

/* The job of this node. */
typedef struct NodeJob
{
	GkJob	   *job;
	Oid			user;			/* whose privileges count */
	GkNodeTask	task;
	GkTextSettings settings;	/* by which its source is read */
	const char *encoding;		/* in which the other server reads what this one sends */
	const char *columns;		/* of the source, as they were when the node was opened */
	GkSource   *source;			/* of the rows */
	GkRows		rows;
	bool		has_read;
	GkNode	   *node;			/* NULL before the first message */
	const char *answer;			/* to the last message, NULL = none */
	Size		answer_bytes;
	Size		given;			/* bytes of it that were taken */
	bool		in_step;		/* a step is under way, or has failed */
} NodeJob;

static NodeJob *current = NULL;

/* The release function; the engine is closed by then. */
static void
forget(void *resource)
{
	gk_node_close(((NodeJob *) resource)->node);
	current = NULL;
}

/*
 * Raises an error where a step cannot be: a step that fails must end the transaction, which frees
 * all that the node holds.
 */
static void
check_step(void)
{
	PreventCommandIfParallelMode("a step of a gkmeans node");
	if (GetCurrentTransactionNestLevel() > 1)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("a step of a gkmeans node cannot be in a subtransaction")));
	if (current != NULL && current->in_step)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another step of this gkmeans node is under way")));
}

/* Raises the error that a step is not due. */
static void
refuse_step(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this step of a gkmeans node is not due"),
			 errdetail_internal("%s", detail)));
}

/* Begins a step of a node that is open; returns the memory context before. */
static MemoryContext
begin_step(void)
{
	check_step();
	if (current == NULL)
		refuse_step("This session is not the node of a fit: gkmeans_node_open() comes first.");
	if (current->user != GetUserId())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("this gkmeans node was opened by another role")));
	current->in_step = true;
	return MemoryContextSwitchTo(gk_job_context(current->job));
}

/* Ends a step that succeeded. */
static void
end_step(MemoryContext before)
{
	current->in_step = false;
	MemoryContextSwitchTo(before);
}

/* A copy of a text, NULL of NULL. */
static const char *
copy_text(const char *text)
{
	return text == NULL ? NULL : pstrdup(text);
}

/* Copies what a node is to do. */
static GkNodeTask
copy_task(const GkNodeTask *task)
{
	GkNodeTask	copy = *task;
	ListCell   *cell;

	copy.source.source = copy_text(task->source.source);
	copy.source.id_column = copy_text(task->source.id_column);
	copy.source.weight_column = copy_text(task->source.weight_column);
	copy.source.features = NIL;
	foreach(cell, task->source.features)
		copy.source.features = lappend(copy.source.features, pstrdup(lfirst(cell)));
	return copy;
}

/* Describes the source of this node. */
static GkSource *
describe_source(const GkSourceSpec *spec, bool by_direction)
{
	GkSource   *source = gk_source_describe(spec);
	Oid			id_type = gk_source_id_type(source);

	if (by_direction)
		gk_source_by_direction(source);
	if (OidIsValid(id_type) && !gk_can_send_ids(id_type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ids of type %s cannot be sent from a node", gk_shown_type(id_type)),
				 errhint("Take an id_column of another type, or set gkmeans.nodes to ''.")));
	return source;
}

/*
 * Lets this session keep the memory of messages that it frees, as far as it is not large: it would
 * come back page by page for each message.
 */
static void
keep_freed_memory(void)
{
#ifdef M_TRIM_THRESHOLD
	(void) mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
	(void) mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
#endif
}

/*
 * Makes room for an answer in a local socket, if the system allows it: a session that waits for
 * room is woken many times.  TCP makes room by itself.
 */
static void
widen_socket(void)
{
	int			bytes = LOCAL_SOCKET_BYTES;

	if (MyProcPort != NULL && MyProcPort->laddr.addr.ss_family == AF_UNIX)
		(void) setsockopt(MyProcPort->sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* Sets that encoding again, if functions of the source have set another. */
static void
restore_encoding(void)
{
	if (strcmp(pg_get_client_encoding_name(), current->encoding) != 0)
		SetConfigOption("client_encoding", current->encoding, PGC_USERSET, PGC_S_SESSION);
}

/* Begins the job of a node, instead of an earlier one. */
void
gk_node_job_begin(const GkNodeTask *task, GkNodeEngine *opened)
{
	MemoryContext before = CurrentMemoryContext;
	GkRelease  *release;
	GkSource   *source;
	GkWork	   *work;
	GkJob	   *job;

	gk_node_job_end();
	keep_freed_memory();
	widen_socket();
	job = gk_job_begin_in_transaction();
	MemoryContextSwitchTo(gk_job_context(job));
	release = gk_job_reserve(job, forget);
	current = palloc0(sizeof(NodeJob));
	release->resource = current;
	current->job = job;
	current->user = GetUserId();
	current->in_step = true;
	current->task = copy_task(task);
	current->settings = gk_text_settings();
	current->encoding = pg_get_client_encoding_name();
	current->task.source.settings = &current->settings;
	work = &current->task.work;

	source = describe_source(&current->task.source, task->by_direction);
	opened->columns = current->columns = gk_column_types(source);
	if (gk_engine_depends_on_work())
		gk_source_estimate(source, &work->rows, &work->dimension);
	opened->name = gk_open_engine(job, work, &opened->reason)->class_of->name;
	restore_encoding();
	end_step(before);
}

/* Drops the rows of an earlier reading. */
static void
drop_rows(void)
{
	GkEngine   *engine = gk_job_engine(current->job);

	if (!current->has_read)
		return;
	current->has_read = false;
	gk_rows_release(&current->rows);
	gk_check(engine->class_of->clear(engine));
}

/*
 * Describes the source of this node as it is now, unless its rows are to be read again by the plan
 * that there is.  Rows that were read are read again by the same snapshot.
 */
static void
describe_again(void)
{
	GkSourceSpec spec = current->task.source;
	char	   *read_by = NULL;

	if (current->source != NULL && IsolationUsesXactSnapshot())
	{
		if (gk_source_is_current(current->source))
			return;
		read_by = current->source->read_by;
	}
	spec.of_node = true;
	current->source = describe_source(&spec, current->task.by_direction);
	current->source->read_by = read_by;
	/* the other server has compared these with those of the other nodes */
	if (strcmp(gk_column_types(current->source), current->columns) != 0)
		gk_refuse_change();
}

/* Reads the rows. */
const GkRows *
gk_node_job_read(int dimension, const double *shift, double *seconds)
{
	MemoryContext before = begin_step();
	instr_time	begin;

	if (current->node != NULL)
		refuse_step("The rows of this node are already in use.");
	INSTR_TIME_SET_CURRENT(begin);
	drop_rows();
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	MemoryContextSwitchTo(gk_job_context(current->job));
	describe_again();
	gk_source_shift(current->source, dimension, shift);
	gk_source_read(current->source, current->job, gk_job_engine(current->job), &current->rows);
	SPI_finish();
	restore_encoding();
	current->has_read = true;
	*seconds = gk_seconds_since(begin);
	end_step(before);
	return &current->rows;
}

/* Puts the ids of the rows into a store, with the settings that their texts need. */
static void
put_ids(GkRowIds *ids, Oid type, Tuplestorestate *store, TupleDesc descriptor)
{
	int			nest_level = gk_begin_id_texts();
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "gkmeans id",
													  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(row_context);
	Oid			output;
	bool		is_varlena;
	int64		row;
	Datum		id;
	Datum		values[2];
	bool		nulls[2] = {0};

	getTypeOutputInfo(type, &output, &is_varlena);
	while (gk_row_ids_next(ids, &id, &nulls[0], &row))
	{
		CHECK_FOR_INTERRUPTS();
		values[0] = nulls[0] ? (Datum) 0
			: CStringGetTextDatum(OidOutputFunctionCall(output, id));
		values[1] = Int64GetDatum(row);
		tuplestore_putvalues(store, descriptor, values, nulls);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(row_context);
	gk_end_id_texts(nest_level);
}

/* Raises an error unless the ids of the rows are there, and are what they were when read. */
static void
check_ids(void)
{
	if (!current->has_read || current->rows.ids == NULL)
		refuse_step("There are no ids, or they were taken before.");
	gk_source_check_ids(current->source);
}

/* Puts the ids of the rows as texts, and their numbers, into a store. */
void
gk_node_job_put_ids(Tuplestorestate *store, TupleDesc descriptor)
{
	MemoryContext before = begin_step();

	check_ids();
	put_ids(current->rows.ids, current->rows.id_type, store, descriptor);
	gk_rows_release(&current->rows);
	end_step(before);
}

/* Raises the error of a status; what the node refuses is a fault of the client. */
static void
check_message(GkStatus status)
{
	if (status.code == GK_INTERNAL && strcmp(status.where, "node") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg_internal("%s", status.message)));
	gk_check(status);
}

/* A window on the engine's labels. */
typedef struct Window
{
	const GkNodeLabelling *labelling;
	int64		rows;			/* of the engine */
	int64		from;
	int64		count;
	int32		labels[LABELS_AT_ONCE];
	double		distances2[LABELS_AT_ONCE];
} Window;

/* The label of a row of the engine; -1 = it is not there. */
static void
find_label(Window *window, int64 row, GkSharedLabel *label)
{
	int32		engine_label;

	label->has_cluster = row >= 0;
	if (row < 0)
		return;
	if (row < window->from || row >= window->from + window->count)
	{
		window->from = row - row % LABELS_AT_ONCE;
		window->count = Min(window->rows - window->from, LABELS_AT_ONCE);
		check_message(gk_node_fetch(current->node, window->labelling->count, window->from,
									window->count, window->labels, window->distances2));
	}
	engine_label = window->labels[row - window->from];
	if (engine_label < 0 || engine_label >= window->labelling->count)
		elog(ERROR, "a label that no cluster has");
	label->cluster = window->labelling->clusters[engine_label];
	label->distance = window->labelling->distance(window->distances2[row - window->from]);
}

/* The bytes that the ids take: those of a type of any length are counted. */
static Size
count_id_bytes(GkRows *rows)
{
	Size		bytes = 0;
	Datum		id;
	bool		is_null;
	int64		row;

	if (get_typlen(rows->id_type) > 0)
		return rows->read * gk_shared_id_bytes(rows->id_type, (Datum) 0, false);
	while (gk_row_ids_next(rows->ids, &id, &is_null, &row))
	{
		CHECK_FOR_INTERRUPTS();
		bytes += gk_shared_id_bytes(rows->id_type, id, is_null);
	}
	gk_row_ids_rewind(rows->ids);
	return bytes;
}

/* The memory of one row. */
static MemoryContext
label_context(void)
{
	return AllocSetContextCreate(CurrentMemoryContext, "gkmeans label", ALLOCSET_SMALL_SIZES);
}

/* Leaves the labels in shared memory. */
static void
share_labels(const pg_uuid_t *key, const GkNodeLabelling *labelling)
{
	GkRows	   *rows = &current->rows;
	Window	   *window = palloc0(sizeof(Window));
	MemoryContext row_context = label_context();
	MemoryContext before;
	GkSharedLabel label;
	Datum		id;
	bool		is_null;
	int64		row;

	window->labelling = labelling;
	window->rows = rows->read - rows->skipped;
	gk_shared_labels_create(rows->id_type, rows->read, count_id_bytes(rows), key);
	before = MemoryContextSwitchTo(row_context);
	while (gk_row_ids_next(rows->ids, &id, &is_null, &row))
	{
		CHECK_FOR_INTERRUPTS();
		find_label(window, row, &label);
		gk_shared_labels_add(id, is_null, &label);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(before);
}

/* Leaves the labels of the rows in shared memory. */
dsm_handle
gk_node_job_publish(const pg_uuid_t *key, const GkNodeLabelling *labelling, int64 *rows)
{
	MemoryContext before = begin_step();

	check_ids();
	if (current->node == NULL && current->rows.read > current->rows.skipped)
		refuse_step("The rows of this node have no labels.");
	share_labels(key, labelling);
	*rows = current->rows.read;
	gk_rows_release(&current->rows);
	end_step(before);
	return gk_shared_labels_publish();
}

/* Raises an error unless this session has left the labels of that key. */
static void
check_labels(const pg_uuid_t *key)
{
	if (!gk_shared_labels_are(key))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this session of a gkmeans node does not have the labels of the fit"),
				 errdetail("It is not the session that left them, or has dropped them since."),
				 errhint("A pooler between the servers must keep to a session until the end of a "
						 "transaction.")));
}

/* Puts the labels that nobody has taken into a store. */
void
gk_node_job_put_rest(const pg_uuid_t *key, Tuplestorestate *store, TupleDesc descriptor)
{
	int			nest_level = gk_begin_id_texts();
	MemoryContext row_context = label_context();
	MemoryContext before = MemoryContextSwitchTo(row_context);
	uint64		place = 0;
	GkSharedLabel label;
	Oid			type;
	Oid			output;
	bool		is_varlena;
	Datum		values[3];
	bool		nulls[3];

	check_labels(key);
	while (gk_shared_labels_rest(&place, &type, &values[0], &nulls[0], &label))
	{
		CHECK_FOR_INTERRUPTS();
		/* the labels outlive the transaction, which may have kept the type */
		if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("the type of the ids has been dropped")));
		getTypeOutputInfo(type, &output, &is_varlena);
		if (!nulls[0])
			values[0] = CStringGetTextDatum(OidOutputFunctionCall(output, values[0]));
		nulls[1] = nulls[2] = !label.has_cluster;
		values[1] = Int32GetDatum(label.cluster);
		values[2] = Float8GetDatum(label.distance);
		tuplestore_putvalues(store, descriptor, values, nulls);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(row_context);
	gk_end_id_texts(nest_level);
}

/* Makes what carries out the messages. */
static void
open_node(void)
{
	const GkRows *rows = &current->rows;
	GkEngineConfig limits = {0};
	GkNodeConfig config = {.engine = gk_job_engine(current->job),.dimension = rows->dimension,
	.rows = rows->read - rows->skipped};

	if (!current->has_read || rows->dimension == 0)
		refuse_step("This node has no rows.");
	gk_check_shifted(current->source, rows);
	gk_limit_host_memory(&limits, 0);
	config.draw_host_memory = limits.draw_host_memory;
	config.return_host_memory = limits.return_host_memory;
	gk_check(gk_node_open(&config, &current->node));
}

/* Takes a piece of a message. */
void
gk_node_job_add_piece(const void *piece, Size bytes)
{
	MemoryContext before = begin_step();

	if (current->node == NULL)
		open_node();
	current->answer = NULL;
	check_message(gk_node_put(current->node, piece, bytes));
	end_step(before);
}

/* Waits for the answer. */
static GkStatus
wait_for_node(void *argument, int milliseconds)
{
	return gk_node_wait(argument, milliseconds);
}

/* Carries out the message. */
void
gk_node_job_carry_out(void)
{
	MemoryContext before = begin_step();

	if (current->node == NULL)
		refuse_step("There is no message.");
	check_message(gk_node_submit(current->node));
	gk_wait(wait_for_node, current->node);
	current->answer = gk_node_answer(current->node, &current->answer_bytes);
	current->given = 0;
	end_step(before);
}

/* The next part of the answer. */
const void *
gk_node_job_next_part(Size limit, Size *bytes)
{
	MemoryContext before = begin_step();
	const char *part = current->answer;

	if (part == NULL)
		refuse_step("There is no answer.");
	part += current->given;
	*bytes = Min(limit, current->answer_bytes - current->given);
	current->given += *bytes;
	end_step(before);
	return part;
}

/* Ends the job of this node. */
void
gk_node_job_end(void)
{
	check_step();
	gk_shared_labels_drop();
	if (current != NULL)
		gk_job_end(current->job);
}
