/*
 * The servers that gkmeans.nodes names for a source.
 */
#ifndef GK_NODE_SOURCES_H
#define GK_NODE_SOURCES_H

#include "postgres.h"

#include "node_list.h"
#include "source.h"

/*
 * The nodes that gkmeans.nodes means for a source, in the current memory context.  NULL if this
 * server is to read the rows itself: the setting is empty, and *reason is NULL; or it is "auto",
 * and *reason says in one line why the source cannot be divided.  Errors: a server of a list that
 * does not exist (42704), or that the user may not use (42501, 42704 without a user mapping); a
 * list that another role has set (42501).
 * Connects to nothing.
 */
extern const GkNodeSources *gk_node_sources(const GkSource *source, const char **reason);

#endif							/* GK_NODE_SOURCES_H */
