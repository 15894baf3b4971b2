/*
 * The servers that gkmeans.nodes names for a source.
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "miscadmin.h"

#include "acting.h"
#include "citus_sources.h"
#include "foreign_servers.h"
#include "node_sources.h"
#include "partition_sources.h"
#include "settings.h"
#include "source_columns.h"

/*
 * Raises an error if nodes were named by someone who could not act as the current user.  Whoever
 * calls a function that is SECURITY DEFINER, or owns the database of a superuser's session, must
 * not choose where its source is sent and whose rows it gets.
 */
static void
check_setter(void)
{
	Oid			user = GetUserId();

	if (gk_could_act(gk_nodes_setter()) || (user == GetOuterUserId() && !superuser()))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("role \"%s\" cannot use the nodes that another role has named",
					GetUserNameFromId(user, false)),
			 errdetail("gkmeans.nodes was set by a role that cannot SET ROLE \"%s\".",
					   GetUserNameFromId(user, false)),
			 errhint("Set gkmeans.nodes for the function, with ALTER FUNCTION ... SET, "
					 "or in this session.")));
}

/* The foreign servers of a list, each with the source as it is. */
static const GkNodeSources *
named_servers(const List *names, const char *source)
{
	GkNodeSources *list = palloc0(sizeof(GkNodeSources));
	ListCell   *cell;

	list->nodes = palloc0(list_length(names) * sizeof(GkNodeSource));
	foreach(cell, names)
		gk_foreign_server_node(get_foreign_server_oid(lfirst(cell), false), source,
							   &list->nodes[list->count++]);
	gk_sort_nodes(list);
	return list;
}

/* The nodes that have the rows of a source. */
static const GkNodeSources *
find_nodes(const GkSource *source, const char **reason)
{
	const GkNodeSources *list = gk_citus_node_sources(source, reason);

	if (list == NULL && *reason == NULL)
		list = gk_partition_node_sources(source, reason);
	if (list == NULL && *reason == NULL)
		*reason = "the rows of the source are on this server";
	return list;
}

/* The nodes that gkmeans.nodes means for a source. */
const GkNodeSources *
gk_node_sources(const GkSource *source, const char **reason)
{
	bool		automatic;
	List	   *names = gk_named_nodes(&automatic);

	*reason = NULL;
	if (automatic)
		return find_nodes(source, reason);
	if (names == NIL)
		return NULL;
	check_setter();
	return named_servers(names, source->spec.source);
}
