/*
 * Foreign servers of postgres_fdw as nodes.
 */
#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/syscache.h"

#include "foreign_servers.h"

/* Raises an error unless the current user may use a server. */
static void
check_usage(const ForeignServer *server)
{
#if PG_VERSION_NUM >= 160000
	AclResult	result = object_aclcheck(ForeignServerRelationId, server->serverid, GetUserId(),
										 ACL_USAGE);
#else
	AclResult	result = pg_foreign_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);
#endif

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FOREIGN_SERVER, server->servername);
}

/* Raises the error that a server is gone, which nothing locks. */
static void
refuse_dropped(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("the foreign server of a node was dropped meanwhile")));
}

/* Raises an error unless a server is one of postgres_fdw, which has checked its options. */
static void
check_wrapper(const ForeignServer *server)
{
	ForeignDataWrapper *wrapper = GetForeignDataWrapperExtended(server->fdwid, FDW_MISSING_OK);

	if (wrapper == NULL)
		refuse_dropped();
	if (strcmp(wrapper->fdwname, "postgres_fdw") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("foreign server \"%s\" cannot be a node", server->servername),
				 errdetail("It is one of \"%s\", not of \"postgres_fdw\".", wrapper->fdwname),
				 errhint("Set gkmeans.nodes to foreign servers of postgres_fdw.")));
}

/* Finds a server that may be a node. */
static ForeignServer *
find_server(Oid server_id)
{
	ForeignServer *server = GetForeignServerExtended(server_id, FSV_MISSING_OK);

	if (server == NULL)
		refuse_dropped();
	check_usage(server);
	check_wrapper(server);
	return server;
}

/* True if a server has a mapping for a user; InvalidOid is PUBLIC. */
static bool
has_mapping(const ForeignServer *server, Oid user)
{
	return SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(user),
								 ObjectIdGetDatum(server->serverid));
}

/* The mapping of the current user. */
static UserMapping *
find_mapping(const ForeignServer *server)
{
	/* where there is none, PostgreSQL looks up the server for its error message */
	if (!has_mapping(server, GetUserId()) && !has_mapping(server, InvalidOid) &&
		GetForeignServerExtended(server->serverid, FSV_MISSING_OK) == NULL)
		refuse_dropped();
	return GetUserMapping(GetUserId(), server->serverid);
}

/* True if a user mapping allows credentials other than a password in it. */
static bool
password_required(const UserMapping *mapping)
{
	ListCell   *cell;

	if (superuser())
		return false;
	foreach(cell, mapping->options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, "password_required") == 0)
			return defGetBoolean(option);
	}
	return true;
}

/* Adds options to the parameters of a connection; those that are none are left out later. */
static int
add_options(const List *options, const char **keywords, const char **values, int count)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst(cell);

		keywords[count] = option->defname;
		values[count++] = defGetString(option);
	}
	return count;
}

/* Raises an error if a password is missing that must not come from elsewhere. */
static void
check_password(const GkNodeSource *node, int count)
{
	if (!node->password_required)
		return;
	for (int i = 0; i < count; i++)
		if (strcmp(node->keywords[i], "password") == 0 && node->values[i][0] != '\0')
			return;
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg("password is required for node \"%s\"", node->name),
			 errdetail("Non-superusers must provide a password in the user mapping.")));
}

/* Fills in a node for a foreign server. */
void
gk_foreign_server_node(Oid server_id, const char *source, GkNodeSource *node)
{
	ForeignServer *server = find_server(server_id);
	UserMapping *mapping = find_mapping(server);
	const char **keywords;
	const char **values;
	int			room;
	int			count;

	room = list_length(server->options) + list_length(mapping->options) + 1;
	keywords = palloc0(room * sizeof(char *));
	values = palloc0(room * sizeof(char *));
	count = add_options(server->options, keywords, values, 0);
	count = add_options(mapping->options, keywords, values, count);
	node->name = server->servername;
	node->keywords = keywords;
	node->values = values;
	node->source = source;
	node->password_required = password_required(mapping);
	check_password(node, count);
}
