/*
 * The connections of a fit to its nodes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "connections.h"
#include "engine_error.h"
#include "library.h"
#include "seconds.h"

/* The most bytes of a text of an answer; half of what a text here may have. */
#define MOST_TEXT ((size_t) MaxAllocSize / 2)

/* The most bytes of an error of a node that are shown. */
#define MOST_ERROR 100000

/* The longest single wait for the nodes, in milliseconds. */
#define WAIT_MILLISECONDS 10

/* How long a connection may take, unless its parameters say something else. */
#define CONNECT_SECONDS 30

/* Connection parameters that a fit adds, before those of the node … */
static const char *const defaults[][2] = {
	{"fallback_application_name", "gkmeans"},
	{"keepalives", "1"},
	{"keepalives_idle", "30"},
	{"keepalives_interval", "10"},
	{"keepalives_count", "3"},
	{"tcp_user_timeout", "60000"}
};

/* Settings of this session that the rows of a source depend on, besides search_path. */
static const char *const row_settings[] = {
	"DateStyle", "IntervalStyle", "TimeZone", "extra_float_digits", "standard_conforming_strings",
	"bytea_output", "row_security"
};

/* Those of the sessions of postgres_fdw, which leaves the names of pg_catalog unqualified. */
static const char *const postgres_fdw_settings[][2] = {
	{"search_path", "pg_catalog"},
	{"TimeZone", "GMT"},
	{"DateStyle", "ISO"},
	{"IntervalStyle", "postgres"},
	{"extra_float_digits", "3"}
};

/* Those by which the user's text of a source is read; Citus and postgres_fdw write for any. */
static const char *const text_settings[] = {
	"array_nulls", "backslash_quote", "timezone_abbreviations", "transform_null_equals",
	"xmlbinary", "xmloption"
};

/* Settings that keep a node from ending a fit, and let it notice the end of one. */
static const char *const fixed_settings[][2] = {
	{"statement_timeout", "0"},
	{"idle_in_transaction_session_timeout", "0"},
	{"transaction_timeout", "0"},
	{"client_connection_check_interval", "100ms"},
	{"tcp_keepalives_idle", "30"},
	{"tcp_keepalives_interval", "10"},
	{"tcp_keepalives_count", "3"}
};

/* The library of libpq. */
static const GkLinkClass *
load_links(void)
{
	static const GkLinkClass *links = NULL;
	const GkLinkClass *(*link_class) (void);
	const char *reason;

	if (links != NULL)
		return links;
	link_class = (const GkLinkClass *(*) (void))
		gk_library_function("gkmeans_links", "gk_link_class", &reason);
	if (link_class == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("cannot connect to nodes: %s", reason)));
	if (link_class()->interface != GK_LINKS_INTERFACE)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("cannot connect to nodes: gkmeans_links library belongs to another version "
						"of gkmeans")));
	links = link_class();
	return links;
}

/* The release function: ends all connections. */
static void
close_connections(void *resource)
{
	GkConnections *connections = resource;

	for (int i = 0; i < connections->count; i++)
		connections->links->close(connections->all[i].link);
	while (connections->descriptors-- > 0)
		ReleaseExternalFD();
}

/* A copy of a text from a server, if it is one in this encoding; what is too long is cut. */
char *
gk_valid_text(const char *text)
{
	int			length = (int) strnlen(text, MOST_ERROR);

	if (length == MOST_ERROR)
		length = pg_mbcliplen(text, length, length);
	if (!pg_verifymbstr(text, length, true))
		return pstrdup("(not valid in the encoding of this database)");
	return pnstrdup(text, length);
}

/* A message of libpq or a server without its line ends. */
static const char *
one_line(const char *message)
{
	char	   *line = gk_valid_text(message);
	int			length = strlen(line);

	while (length > 0 && line[length - 1] == '\n')
		line[--length] = '\0';
	for (char *c = line; *c != '\0'; c++)
		if (*c == '\n')
			*c = ' ';
	return line;
}

/* The SQLSTATE of an error of a node, as long as it is one of an error; 0 if there is none. */
static int
sqlstate_of(const GkLinkError *error)
{
	const char *state = error->sqlstate;

	if (state == NULL || strlen(state) != 5)
		return 0;
	if (strspn(state, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 ||
		(state[0] == '0' && state[1] >= '0' && state[1] <= '2'))
		return ERRCODE_PROTOCOL_VIOLATION;
	return MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);
}

/* Raises the error of a connection. */
__attribute__((noreturn))
static void
raise_error(const GkConnections *connections, const GkConnection *one, bool connecting)
{
	GkLinkError error;

	connections->links->error(one->link, &error);
	if (sqlstate_of(&error) == 0)
		ereport(ERROR,
				(errcode(connecting ? ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION :
						 ERRCODE_CONNECTION_FAILURE),
				 connecting
				 ? errmsg("could not connect to node \"%s\"", one->node->name)
				 : errmsg("lost the connection to node \"%s\"", one->node->name),
				 errdetail_internal("%s", one_line(error.message))));
	ereport(ERROR,
			(errcode(sqlstate_of(&error)),
			 errmsg("node \"%s\": %s", one->node->name, one_line(error.message)),
			 error.detail != NULL ? errdetail_internal("%s", gk_valid_text(error.detail)) : 0,
			 error.hint != NULL ? errhint("%s", gk_valid_text(error.hint)) : 0,
			 error.context != NULL ? errcontext("%s", gk_valid_text(error.context)) : 0));
}

/* Sends the text of statements. */
void
gk_ask(GkConnections *connections, GkConnection *one, const char *text)
{
	if (!connections->links->query(one->link, text))
		raise_error(connections, one, false);
	one->is_asked = true;
}

/* Prepares a statement. */
void
gk_prepare_on(GkConnections *connections, GkConnection *one, const char *name,
			  const char *statement)
{
	if (!connections->links->prepare(one->link, name, statement))
		raise_error(connections, one, false);
	one->is_asked = true;
}

/* Executes a prepared statement. */
void
gk_ask_prepared(GkConnections *connections, GkConnection *one, const char *statement,
				const void *value, Size bytes)
{
	if (!connections->links->execute(one->link, statement, value, bytes))
		raise_error(connections, one, false);
	one->is_asked = true;
}

/* Sends and receives what is possible without waiting. */
bool
gk_advance(GkConnections *connections, GkConnection *one)
{
	GkLinkState state;

	if (!one->is_asked)
		return true;
	state = connections->links->advance(one->link);
	if (state == GK_LINK_BUSY)
		return false;
	if (state != GK_LINK_READY)
		raise_error(connections, one, false);
	one->is_asked = false;
	return true;
}

/* Waits until one of the nodes can go on, or for this long. */
void
gk_wait_for_nodes(const GkConnections *connections, int milliseconds)
{
	GkLink	  **links = palloc(connections->count * sizeof(GkLink *));

	for (int i = 0; i < connections->count; i++)
		links[i] = connections->all[i].link;
	if (IsUnderPostmaster && !PostmasterIsAlive())
		proc_exit(1);
	pgstat_report_wait_start(PG_WAIT_EXTENSION);
	connections->links->wait(links, connections->count, milliseconds);
	pgstat_report_wait_end();
	pfree(links);
	CHECK_FOR_INTERRUPTS();
}

/* Waits until all nodes that were asked have answered. */
void
gk_await(GkConnections *connections)
{
	for (;;)
	{
		bool		all = true;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < connections->count; i++)
			all &= gk_advance(connections, &connections->all[i]);
		if (all)
			return;
		gk_wait_for_nodes(connections, WAIT_MILLISECONDS);
	}
}

/* A text of an answer. */
const char *
gk_answer_text(const GkConnections *connections, const GkConnection *one, int row, int column)
{
	size_t		bytes;
	const char *text = connections->links->value(one->link, row, column, &bytes);

	if (bytes > MOST_TEXT)
		gk_refuse_answer(one);
	if (text != NULL)
		(void) pg_verifymbstr(text, strlen(text), false);
	return text;
}

/* An integer of an answer. */
int64
gk_answer_integer(const GkConnections *connections, const GkConnection *one, int row, int column,
				  int64 least, int64 most)
{
	const char *text = gk_answer_text(connections, one, row, column);
	char	   *end;
	int64		value;

	if (text == NULL || *text == '\0')
		gk_refuse_answer(one);
	errno = 0;
	value = strtoi64(text, &end, 10);
	if (errno != 0 || *end != '\0' || value < least || value > most)
		gk_refuse_answer(one);
	return value;
}

/* A value of a type in the first row of an answer in binary. */
Datum
gk_answer_value(const GkConnections *connections, const GkConnection *one, int column, Oid type,
				bool *is_null)
{
	StringInfoData buffer;
	const char *value;
	size_t		bytes;
	Oid			function;
	Oid			parameter;

	value = connections->links->value(one->link, 0, column, &bytes);
	*is_null = value == NULL;
	if (value == NULL)
		return (Datum) 0;
	getTypeBinaryInputInfo(type, &function, &parameter);
	initStringInfo(&buffer);
	appendBinaryStringInfo(&buffer, value, (int) bytes);
	return OidReceiveFunctionCall(function, &buffer, parameter, -1);
}

/* How many seconds a node may take to connect. */
static int
connect_seconds(const GkNodeSource *node)
{
	int			seconds = CONNECT_SECONDS;

	for (int i = 0; node->keywords[i] != NULL; i++)
		if (strcmp(node->keywords[i], "connect_timeout") == 0 && atoi(node->values[i]) > 0)
			seconds = Min(atoi(node->values[i]), 3600);
	return seconds;
}

/* Begins to connect to a node. */
static void
begin_connection(GkConnections *connections, GkConnection *one)
{
	const GkNodeSource *node = one->node;
	const char **keywords;
	const char **values;
	int			given = 0;
	int			count = 0;

	while (node->keywords[given] != NULL)
		given++;
	keywords = palloc0((given + lengthof(defaults) + 2) * sizeof(char *));
	values = palloc0((given + lengthof(defaults) + 2) * sizeof(char *));
	for (int i = 0; i < (int) lengthof(defaults); i++)
	{
		keywords[count] = defaults[i][0];
		values[count++] = defaults[i][1];
	}
	for (int i = 0; i < given; i++)
	{
		keywords[count] = node->keywords[i];
		values[count++] = node->values[i];
	}
	keywords[count] = "client_encoding";
	values[count] = GetDatabaseEncodingName();

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg("could not connect to node \"%s\"", node->name),
				 errdetail("There are too many open files on this server."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits.")));
	connections->descriptors++;
	one->link = connections->links->open(keywords, values);
	if (one->link == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
}

/* True if a node is connected; raises an error if that failed, or takes too long. */
static bool
is_connected(GkConnections *connections, GkConnection *one, instr_time begin)
{
	GkLinkState state = connections->links->advance(one->link);

	if (state == GK_LINK_READY)
		return true;
	if (state != GK_LINK_BUSY)
		raise_error(connections, one, true);
	if (gk_seconds_since(begin) > connect_seconds(one->node))
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg("could not connect to node \"%s\"", one->node->name),
				 errdetail("The node did not answer within %d seconds.",
						   connect_seconds(one->node))));
	return false;
}

/* Raises an error if a server let the user in without asking for the password. */
static void
check_password(const GkConnections *connections, const GkConnection *one)
{
	if (one->node->password_required && !connections->links->used_password(one->link))
		ereport(ERROR,
				(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				 errmsg("password is required for node \"%s\"", one->node->name),
				 errdetail("Non-superuser cannot connect if the server does not request a "
						   "password."),
				 errhint("Target server's authentication method must be changed.")));
}

/* Appends a pair of a list of settings. */
static void
append_setting(StringInfo text, const char *name, const char *value)
{
	appendStringInfo(text, "%s(%s, %s)", text->data[text->len - 1] == ' ' ? "" : ", ",
					 quote_literal_cstr(name), quote_literal_cstr(value));
}

/* Appends settings as they are in this session. */
static void
append_copies(StringInfo text, const char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		append_setting(text, names[i], GetConfigOption(names[i], false, false));
}

/* Appends settings that have values of their own. */
static void
append_settings(StringInfo text, const char *const settings[][2], int count)
{
	for (int i = 0; i < count; i++)
		append_setting(text, settings[i][0], settings[i][1]);
}

/* Appends the settings with which a node reads its source. */
static void
append_reading(StringInfo text, const GkNodeSource *node)
{
	if (node->of_postgres_fdw)
	{
		append_settings(text, postgres_fdw_settings, lengthof(postgres_fdw_settings));
		return;
	}
	append_setting(text, "search_path", node->search_path != NULL ? node->search_path
				   : GetConfigOption("search_path", false, false));
	append_copies(text, row_settings, lengthof(row_settings));
	if (node->search_path == NULL)
		append_copies(text, text_settings, lengthof(text_settings));
}

/*
 * Appends the statements that begin a transaction; they lock no table.  Settings that a node does
 * not know are left out: they are those of other versions.
 */
static void
append_begin(StringInfo text, const char *isolation, const GkNodeSource *node, int lock_timeout)
{
	appendStringInfo(text, "BEGIN ISOLATION LEVEL %s READ ONLY; "
					 "SELECT pg_catalog.set_config(v.name, v.value, true) FROM (VALUES ",
					 isolation);
	append_reading(text, node);
	append_setting(text, "lock_timeout", psprintf("%d", lock_timeout));
	append_settings(text, fixed_settings, lengthof(fixed_settings));
	appendStringInfoString(text, ") AS v (name, value)"
						   " WHERE pg_catalog.current_setting(v.name, true) IS NOT NULL; ");
}

/* The statements that begin a session. */
static const char *
beginning(const GkNodeSource *node, int lock_timeout)
{
	StringInfoData text;

	initStringInfo(&text);
	append_begin(&text, "REPEATABLE READ", node, lock_timeout);
	appendStringInfoString(&text,
						   "SELECT e.extversion, COALESCE(o.rolsuper"
						   " OR o.oid OPERATOR(pg_catalog.=) e.extowner"
						   " OR o.rolname OPERATOR(pg_catalog.=) CURRENT_USER, false),"
						   " pg_catalog.format('%s %s %I %I',"
						   " pg_catalog.extract('epoch', pg_catalog.pg_postmaster_start_time()),"
						   " pg_catalog.current_setting('port'), pg_catalog.current_database(),"
						   " SESSION_USER)"
						   " FROM pg_catalog.pg_extension AS e"
						   " LEFT JOIN pg_catalog.pg_namespace AS n"
						   " ON n.nspname OPERATOR(pg_catalog.=) 'gkmeans'"
						   " LEFT JOIN pg_catalog.pg_roles AS o"
						   " ON o.oid OPERATOR(pg_catalog.=) n.nspowner"
						   " WHERE e.extname OPERATOR(pg_catalog.=) 'gkmeans'");
	return text.data;
}

/*
 * True if the session on a node has begun.  It begins as soon as it is connected: the node may end
 * one that does nothing while others are still being connected.
 */
static bool
has_begun(GkConnections *connections, GkConnection *one, instr_time begin)
{
	if (!one->is_connected && is_connected(connections, one, begin))
	{
		one->is_connected = true;
		check_password(connections, one);
		gk_ask(connections, one, beginning(one->node, connections->lock_timeout));
	}
	return one->is_connected && gk_advance(connections, one);
}

/* Waits until the sessions on all nodes have begun. */
static void
begin_sessions(GkConnections *connections)
{
	instr_time	begin;

	INSTR_TIME_SET_CURRENT(begin);
	for (;;)
	{
		bool		all = true;

		for (int i = 0; i < connections->count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			all &= has_begun(connections, &connections->all[i], begin);
		}
		if (all)
			return;
		gk_wait_for_nodes(connections, WAIT_MILLISECONDS);
	}
}

/* Raises an error: what the node sent is not what gkmeans sends. */
void
gk_refuse_answer(const GkConnection *one)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("node \"%s\" sent an invalid answer", one->node->name)));
}

/* Checks the extension on a node, and notes which database it is in. */
static void
check_extension(const GkConnections *connections, GkConnection *one)
{
	const char *version = gk_answer_text(connections, one, 0, 0);
	const char *is_trusted = gk_answer_text(connections, one, 0, 1);
	const char *database = gk_answer_text(connections, one, 0, 2);

	if (version == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("node \"%s\" has no extension \"gkmeans\"", one->node->name),
				 errhint("Run CREATE EXTENSION gkmeans in its database.")));
	if (strcmp(version, GK_EXTENSION_VERSION) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("node \"%s\" has version %s of extension \"gkmeans\", this server has %s",
						one->node->name, gk_valid_text(version), GK_EXTENSION_VERSION),
				 errhint("Install the same version on both, and run ALTER EXTENSION gkmeans "
						 "UPDATE.")));
	if (is_trusted == NULL || database == NULL)
		gk_refuse_answer(one);
	/* its owner decides what the names of functions in it mean */
	if (strcmp(is_trusted, "t") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("schema \"gkmeans\" of node \"%s\" does not belong to the owner of the "
						"extension", one->node->name),
				 errdetail("It was given to another role, or renamed."),
				 errhint("Give it to that role with ALTER SCHEMA gkmeans OWNER TO.")));
	one->database = pstrdup(database);
}

/* The settings that a node is connected to with. */
static const char *
options_of(const GkNodeSource *node)
{
	const char *options = "";

	for (int i = 0; node->keywords[i] != NULL; i++)
		if (strcmp(node->keywords[i], "options") == 0)
			options = node->values[i];
	return options;
}

/* True if two sources, perhaps of megabytes, are the same: all nodes of a list have one. */
static bool
are_same_sources(const char *one, const char *other)
{
	return one == other || strcmp(one, other) == 0;
}

/* True if two nodes would read the same rows, and no source says that they are to be read twice. */
static bool
are_same(const GkConnection *one, const GkConnection *other)
{
	return !one->node->of_postgres_fdw && strcmp(one->database, other->database) == 0 &&
		strcmp(options_of(one->node), options_of(other->node)) == 0 &&
		are_same_sources(one->node->source, other->node->source);
}

/* Raises an error if two nodes of a list are the same. */
static void
check_differences(const GkConnections *connections)
{
	for (int i = 0; i < connections->count; i++)
		for (int j = 0; j < i; j++)
		{
			const GkConnection *one = &connections->all[i];
			const GkConnection *other = &connections->all[j];

			CHECK_FOR_INTERRUPTS();
			if (are_same(one, other))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("nodes \"%s\" and \"%s\" are the same database",
								other->node->name, one->node->name),
						 errdetail("Both would read the same rows."),
						 errhint("Name one of them in gkmeans.nodes.")));
		}
}

/*
 * Ends the transactions on the nodes, and begins others: in one query, after which a pooler finds a
 * session in a transaction, as before.
 */
void
gk_next_transactions(GkConnections *connections)
{
	for (int i = 0; i < connections->count; i++)
	{
		StringInfoData text;

		initStringInfo(&text);
		appendStringInfoString(&text, "COMMIT; ");
		append_begin(&text, "READ COMMITTED", connections->all[i].node, connections->lock_timeout);
		gk_ask(connections, &connections->all[i], text.data);
	}
	gk_await(connections);
}

/* Connects to all nodes, and begins a transaction on each. */
GkConnections *
gk_connect(GkJob *job, const GkNodeSources *nodes, int lock_timeout)
{
	GkConnections *connections = palloc0(sizeof(GkConnections));
	GkRelease  *release;

	connections->links = load_links();
	connections->lock_timeout = lock_timeout;
	connections->all = palloc0(nodes->count * sizeof(GkConnection));
	connections->count = nodes->count;
	release = gk_job_reserve(job, close_connections);
	release->resource = connections;
	for (int i = 0; i < nodes->count; i++)
	{
		/* libpq may have to look up a host, which nothing ends */
		CHECK_FOR_INTERRUPTS();
		connections->all[i].node = &nodes->nodes[i];
		begin_connection(connections, &connections->all[i]);
	}
	begin_sessions(connections);
	for (int i = 0; i < connections->count; i++)
		check_extension(connections, &connections->all[i]);
	check_differences(connections);
	return connections;
}
