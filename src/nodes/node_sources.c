/*
 * The servers that gkmeans.nodes names for a source.
 */
#include "postgres.h"

#include "foreign/foreign.h"

#include "citus_sources.h"
#include "foreign_servers.h"
#include "node_sources.h"
#include "partition_sources.h"
#include "settings.h"

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
find_nodes(const char *source, const char **reason)
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
gk_node_sources(const char *source, const char **reason)
{
	bool		automatic;
	List	   *names = gk_named_nodes(&automatic);

	*reason = NULL;
	if (automatic)
		return find_nodes(source, reason);
	return names == NIL ? NULL : named_servers(names, source);
}
