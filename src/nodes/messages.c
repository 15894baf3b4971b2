/*
 * Messages to the nodes and their answers: the transport of the cluster engine over connections.
 *
 * A message goes in pieces of 2 MB, the last of which the node is to run; so does the answer.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "message.h"
#include "messages.h"

/* The most bytes of a message in one statement: the sums of 1024 clusters of 128 features fit. */
#define PIECE_BYTES ((size_t) 2048 * 1024)

/* The statements that bring messages to a node, and answers back. */
static const char *const statements[][2] = {
	{"gk_put", "SELECT gkmeans.gkmeans_node_put($1::pg_catalog.bytea)"},
	{"gk_run", "SELECT gkmeans.gkmeans_node_run($1::pg_catalog.bytea)"},
	{"gk_take", "SELECT gkmeans.gkmeans_node_take()"}
};

/* The state of a node. */
typedef enum Stage
{
	SILENT,						/* nothing */
	PUTTING,					/* it takes a piece of the message */
	RUNNING,					/* it carries out the message, and sends the begin of the answer */
	TAKING						/* it sends another part of the answer */
} Stage;

/* The message to a node, and its answer. */
typedef struct Exchange
{
	GkConnection *connection;
	Stage		stage;
	const char *message;
	size_t		bytes;
	size_t		sent;
	const char *answer;
	char	   *parts;			/* where the parts of an answer are put together */
	Size		room;
	Size		answer_bytes;	/* of the whole answer */
	Size		received;
	int64		rows;			/* that the node has said that it has */
} Exchange;

struct GkMessages
{
	GkTransport transport;
	GkConnections *connections;
	MemoryContext context;
	Exchange   *exchanges;
};

/* Sends the next piece. */
static void
send_piece(GkMessages *messages, Exchange *exchange)
{
	size_t		rest = exchange->bytes - exchange->sent;
	size_t		piece = Min(rest, PIECE_BYTES);

	exchange->stage = piece < rest ? PUTTING : RUNNING;
	gk_ask_prepared(messages->connections, exchange->connection,
					piece < rest ? "gk_put" : "gk_run", exchange->message + exchange->sent, piece);
	exchange->sent += piece;
}

/* GkTransport.send */
static GkStatus
send_message(void *context, int node, const void *message, size_t bytes)
{
	GkMessages *messages = context;
	Exchange   *exchange = &messages->exchanges[node];

	if (exchange->stage != SILENT)
		elog(ERROR, "node \"%s\" has a message already", exchange->connection->node->name);
	exchange->message = message;
	exchange->bytes = bytes;
	exchange->sent = 0;
	exchange->received = 0;
	send_piece(messages, exchange);
	return (GkStatus) {.code = GK_OK,.device = -1};
}

/* Adds a part to the answer. */
static void
add_part(GkMessages *messages, Exchange *exchange, const char *part, size_t bytes)
{
	Size		needed = exchange->received + bytes;

	if (part == NULL || bytes > exchange->answer_bytes - exchange->received ||
		(bytes == 0 && exchange->received < exchange->answer_bytes))
		gk_refuse_answer(exchange->connection);
	if (needed > exchange->room)
	{
		/* not more than twice of what has come, whatever the node announces */
		Size		room = Min(Max(2 * needed, 1024), Max(exchange->answer_bytes, needed));

		exchange->parts = exchange->parts == NULL
			? MemoryContextAllocHuge(messages->context, room)
			: repalloc_huge(exchange->parts, room);
		exchange->room = room;
	}
	if (bytes > 0)
		memcpy(exchange->parts + exchange->received, part, bytes);
	exchange->received = needed;
	exchange->answer = exchange->parts;
}

/* The size of an answer, which its header tells. */
static Size
answer_size(const Exchange *exchange, const char *part, size_t bytes)
{
	GkHeader	header;

	if (part == NULL || bytes < sizeof(header))
		gk_refuse_answer(exchange->connection);
	memcpy(&header, part, sizeof(header));
	if (gk_header_fault(&header) != NULL || header.bytes > MaxAllocHugeSize)
		gk_refuse_answer(exchange->connection);
	return header.bytes;
}

/* Takes the begin of an answer, or another part of it. */
static void
take_part(GkMessages *messages, Exchange *exchange)
{
	size_t		bytes;
	const char *part = messages->connections->links->value(exchange->connection->link, 0, 0,
														   &bytes);

	if (exchange->stage == RUNNING)
		exchange->answer_bytes = answer_size(exchange, part, bytes);
	if (exchange->stage != RUNNING || bytes != exchange->answer_bytes ||
		TYPEALIGN(sizeof(uint64), (uintptr_t) part) != (uintptr_t) part)
	{
		add_part(messages, exchange, part, bytes);
		return;
	}
	/* a whole answer stays where libpq has put it, until the next message */
	exchange->answer = part;
	exchange->received = bytes;
}

/* Goes on with a node as far as possible without waiting; true if its answer is complete. */
static bool
go_on(GkMessages *messages, Exchange *exchange)
{
	while (exchange->stage != SILENT && gk_advance(messages->connections, exchange->connection))
	{
		if (exchange->stage == PUTTING)
		{
			send_piece(messages, exchange);
			continue;
		}
		take_part(messages, exchange);
		if (exchange->received == exchange->answer_bytes)
		{
			exchange->stage = SILENT;
			return true;
		}
		exchange->stage = TAKING;
		gk_ask_prepared(messages->connections, exchange->connection, "gk_take", NULL, 0);
	}
	return false;
}

/* The node whose answer is complete; -1 if there is none yet. */
static int
complete_node(GkMessages *messages)
{
	for (int i = 0; i < messages->transport.nodes; i++)
		if (go_on(messages, &messages->exchanges[i]))
			return i;
	return -1;
}

/* GkTransport.receive: serves interrupts, and raises the errors of nodes. */
static GkStatus
receive_answer(void *context, int milliseconds, int *node, const void **answer, size_t *bytes)
{
	GkMessages *messages = context;
	GkStatus	status = {.code = GK_RUNNING,.device = -1};

	CHECK_FOR_INTERRUPTS();
	*node = complete_node(messages);
	if (*node < 0 && milliseconds > 0)
	{
		gk_wait_for_nodes(messages->connections, milliseconds);
		*node = complete_node(messages);
	}
	if (*node < 0)
		return status;
	*answer = messages->exchanges[*node].answer;
	*bytes = messages->exchanges[*node].received;
	status.code = GK_OK;
	return status;
}

/* GkTransport.name */
static const char *
name_of_node(void *context, int node)
{
	return ((GkMessages *) context)->exchanges[node].connection->node->name;
}

/* GkTransport.rows */
static int64_t
rows_of_node(void *context, int node)
{
	return ((GkMessages *) context)->exchanges[node].rows;
}

/* GkTransport.end: the connections end with the job. */
static void
end_messages(void *context)
{
	GkMessages *messages = context;

	for (int i = 0; i < messages->transport.nodes; i++)
		messages->exchanges[i].stage = SILENT;
}

/* Prepares the nodes for messages. */
static void
prepare_statements(GkConnections *connections, GkConnection *const *nodes, int count)
{
	for (int i = 0; i < (int) lengthof(statements); i++)
	{
		for (int node = 0; node < count; node++)
			gk_prepare_on(connections, nodes[node], statements[i][0], statements[i][1]);
		gk_await(connections);
	}
}

/* Makes the transport to some of the connections. */
GkMessages *
gk_messages_begin(GkConnections *connections, GkConnection *const *nodes, const int64 *first_rows,
				  int count)
{
	GkMessages *messages = palloc0(sizeof(GkMessages));

	prepare_statements(connections, nodes, count);
	messages->connections = connections;
	messages->context = CurrentMemoryContext;
	messages->exchanges = palloc0(count * sizeof(Exchange));
	for (int i = 0; i < count; i++)
	{
		messages->exchanges[i].connection = nodes[i];
		messages->exchanges[i].rows = first_rows[i + 1] - first_rows[i];
	}
	messages->transport = (GkTransport) {.context = messages,.nodes = count,.send = send_message,
		.receive = receive_answer,.name = name_of_node,.rows = rows_of_node,.end = end_messages};
	return messages;
}

/* What the cluster engine takes. */
const GkTransport *
gk_messages_transport(const GkMessages *messages)
{
	return &messages->transport;
}
