/*
 * Connections to PostgreSQL servers, through libpq.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <libpq-fe.h>

#include "links.h"

/* Room in a local socket: for the largest piece of a message. */
#define LOCAL_SOCKET_BYTES (2048 * 1024)

struct GkLink
{
	PGconn	   *connection;
	bool		connecting;
	PostgresPollingStatusType polling;	/* while connecting */
	bool		asked;			/* a query is under way */
	bool		unsent;			/* … and not all of it was sent */
	PGresult   *result;			/* the last one, or the first that is an error */
};

/* True if libpq has a connection parameter of this name. */
static bool
is_known(const PQconninfoOption *options, const char *keyword)
{
	for (; options->keyword != NULL; options++)
		if (strcmp(options->keyword, keyword) == 0)
			return true;
	return false;
}

/* Begins to connect with those parameters that libpq has; NULL if there is no memory. */
static PGconn *
start_connecting(const char *const *keywords, const char *const *values)
{
	PQconninfoOption *options = PQconndefaults();
	PGconn	   *connection = NULL;
	const char **known;
	int			room = 1;
	int			count = 0;

	while (keywords[room - 1] != NULL)
		room++;
	known = calloc(2 * (size_t) room, sizeof(char *));
	/* with fewer parameters it would be a connection to another server */
	if (options != NULL && known != NULL)
	{
		for (int i = 0; keywords[i] != NULL; i++)
			if (is_known(options, keywords[i]))
			{
				known[count] = keywords[i];
				known[room + count++] = values[i];
			}
		connection = PQconnectStartParams(known, known + room, 0);
	}
	PQconninfoFree(options);
	free(known);
	return connection;
}

/* Drops what a server says beside its results. */
static void
ignore_notice(void *arg, const PGresult *notice)
{
}

/* Begins to connect. */
static GkLink *
open_link(const char *const *keywords, const char *const *values)
{
	GkLink	   *link = calloc(1, sizeof(GkLink));

	if (link == NULL)
		return NULL;
	link->connection = start_connecting(keywords, values);
	if (link->connection == NULL)
	{
		free(link);
		return NULL;
	}
	PQsetNoticeReceiver(link->connection, ignore_notice, NULL);
	link->connecting = true;
	link->polling = PGRES_POLLING_WRITING;
	return link;
}

/* Forgets the last result, and notes whether a query was sent. */
static bool
begin_query(GkLink *link, int sent)
{
	PQclear(link->result);
	link->result = NULL;
	link->asked = sent == 1;
	link->unsent = link->asked;
	return link->asked;
}

/* Sends the text of one or more statements. */
static bool
send_query(GkLink *link, const char *text)
{
	return begin_query(link, PQsendQuery(link->connection, text));
}

/* Prepares a statement. */
static bool
prepare(GkLink *link, const char *name, const char *statement)
{
	return begin_query(link, PQsendPrepare(link->connection, name, statement, 0, NULL));
}

/* Executes a prepared statement. */
static bool
execute(GkLink *link, const char *statement, const void *value, size_t bytes)
{
	const char *values[1] = {value};
	int			lengths[1] = {(int) bytes};
	int			formats[1] = {1};

	return begin_query(link, PQsendQueryPrepared(link->connection, statement, value != NULL ? 1 : 0,
												 values, lengths, formats, 1));
}

/*
 * Makes room in a local socket for a piece of a message, if the system allows it: whoever waits for
 * room is woken many times for each.  TCP makes room by itself.
 */
static void
widen(int socket)
{
	struct sockaddr_storage address;
	socklen_t	length = sizeof(address);
	int			bytes = LOCAL_SOCKET_BYTES;

	if (getsockname(socket, (struct sockaddr *) &address, &length) == 0 &&
		address.ss_family == AF_UNIX)
		(void) setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* True if a result is an error. */
static bool
is_error(const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	return result != NULL && status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK &&
		status != PGRES_EMPTY_QUERY;
}

/* Goes on connecting. */
static GkLinkState
go_on_connecting(GkLink *link)
{
	struct pollfd socket = {.fd = PQsocket(link->connection),
		.events = link->polling == PGRES_POLLING_READING ? POLLIN : POLLOUT};

	if (PQstatus(link->connection) == CONNECTION_BAD)
		return GK_LINK_LOST;
	/* libpq may wait if it is asked too early */
	if (socket.fd >= 0 && poll(&socket, 1, 0) == 0)
		return GK_LINK_BUSY;
	link->polling = PQconnectPoll(link->connection);
	if (link->polling == PGRES_POLLING_FAILED)
		return GK_LINK_LOST;
	if (link->polling != PGRES_POLLING_OK)
		return GK_LINK_BUSY;
	link->connecting = false;
	widen(PQsocket(link->connection));
	return PQsetnonblocking(link->connection, 1) == 0 ? GK_LINK_READY : GK_LINK_LOST;
}

/* Keeps a result: the last one, or the first error. */
static void
keep_result(GkLink *link, PGresult *result)
{
	if (is_error(link->result))
	{
		PQclear(result);
		return;
	}
	PQclear(link->result);
	link->result = result;
}

/* What is known at the end of an answer. */
static GkLinkState
end_answer(GkLink *link)
{
	link->asked = false;
	if (PQstatus(link->connection) == CONNECTION_BAD)
		return GK_LINK_LOST;
	return is_error(link->result) ? GK_LINK_REFUSED : GK_LINK_READY;
}

/* Sends and receives what is possible without waiting. */
static GkLinkState
advance(GkLink *link)
{
	if (link->connecting)
		return go_on_connecting(link);
	if (!link->asked)
		return PQstatus(link->connection) == CONNECTION_BAD ? GK_LINK_LOST : GK_LINK_READY;
	if (link->unsent)
		link->unsent = PQflush(link->connection) == 1;
	if (PQconsumeInput(link->connection) == 0 && !is_error(link->result))
	{
		/* what the server said before it left explains more than that it left */
		PGresult   *last = PQisBusy(link->connection) ? NULL : PQgetResult(link->connection);

		if (last != NULL)
			keep_result(link, last);
		return GK_LINK_LOST;
	}
	while (!PQisBusy(link->connection))
	{
		PGresult   *result = PQgetResult(link->connection);
		bool		is_copy;

		if (result == NULL)
			return end_answer(link);
		/* nobody asked for a copy, which would never end */
		is_copy = PQresultStatus(result) == PGRES_COPY_IN ||
			PQresultStatus(result) == PGRES_COPY_OUT || PQresultStatus(result) == PGRES_COPY_BOTH;
		keep_result(link, result);
		if (is_copy)
			return GK_LINK_LOST;
	}
	return GK_LINK_BUSY;
}

/* Waits until one of the links can go on. */
static void
wait_for(GkLink *const *links, int count, int milliseconds)
{
	struct pollfd *sockets = calloc(count > 0 ? count : 1, sizeof(struct pollfd));

	if (sockets == NULL)
	{
		(void) poll(NULL, 0, milliseconds);
		return;
	}
	for (int i = 0; i < count; i++)
	{
		const GkLink *link = links[i];

		sockets[i].fd = link->connecting || link->asked ? PQsocket(link->connection) : -1;
		if (link->connecting)
			sockets[i].events = link->polling == PGRES_POLLING_READING ? POLLIN : POLLOUT;
		else
			sockets[i].events = link->unsent ? POLLIN | POLLOUT : POLLIN;
	}
	(void) poll(sockets, count, milliseconds);
	free(sockets);
}

/* How many rows the last result has. */
static int
count_rows(const GkLink *link)
{
	return link->result == NULL ? 0 : PQntuples(link->result);
}

/* A value of the last result. */
static const char *
get_value(const GkLink *link, int row, int column, size_t *bytes)
{
	if (bytes != NULL)
		*bytes = 0;
	if (row >= count_rows(link) || column >= PQnfields(link->result) ||
		PQgetisnull(link->result, row, column))
		return NULL;
	if (bytes != NULL)
		*bytes = PQgetlength(link->result, row, column);
	return PQgetvalue(link->result, row, column);
}

/* Why a link is refused or lost. */
static void
get_error(const GkLink *link, GkLinkError *error)
{
	const PGresult *result = is_error(link->result) ? link->result : NULL;

	memset(error, 0, sizeof(*error));
	if (result != NULL)
	{
		error->sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
		error->message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
		error->detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
		error->hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
		error->context = PQresultErrorField(result, PG_DIAG_CONTEXT);
		if (error->message == NULL)
			error->message = PQresultErrorMessage(result);
	}
	if (error->message == NULL || error->message[0] == '\0')
		error->message = PQerrorMessage(link->connection);
	if (error->message[0] == '\0')
		error->message = "the connection was closed unexpectedly";
}

/* True if the server has asked for the password. */
static bool
used_password(const GkLink *link)
{
	return PQconnectionUsedPassword(link->connection) != 0;
}

/* Ends the connection. */
static void
close_link(GkLink *link)
{
	if (link == NULL)
		return;
	PQclear(link->result);
	PQfinish(link->connection);
	free(link);
}

static const GkLinkClass link_class = {
	.interface = GK_LINKS_INTERFACE,
	.open = open_link,
	.query = send_query,
	.prepare = prepare,
	.execute = execute,
	.advance = advance,
	.wait = wait_for,
	.rows = count_rows,
	.value = get_value,
	.error = get_error,
	.used_password = used_password,
	.close = close_link
};

/* The functions of the library. */
__attribute__((visibility("default")))
const GkLinkClass *
gk_link_class(void)
{
	return &link_class;
}
