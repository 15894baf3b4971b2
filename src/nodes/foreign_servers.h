/*
 * Foreign servers of postgres_fdw as nodes.
 */
#ifndef GK_FOREIGN_SERVERS_H
#define GK_FOREIGN_SERVERS_H

#include "postgres.h"

#include "node_list.h"

/*
 * Fills in a node for a foreign server of postgres_fdw that the current user has USAGE on and a
 * user mapping for; errors as of gk_node_sources().
 */
extern void gk_foreign_server_node(Oid server, const char *source, GkNodeSource *node);

#endif							/* GK_FOREIGN_SERVERS_H */
