/*
 * The servers of foreign tables as nodes.
 */
#ifndef GK_PARTITION_SOURCES_H
#define GK_PARTITION_SOURCES_H

#include "postgres.h"

#include "node_list.h"
#include "source.h"

/*
 * The servers that have the rows of a source, as gk_node_sources() returns them; *reason stays NULL
 * if the source reads no foreign table.
 */
extern const GkNodeSources *gk_partition_node_sources(const GkSource *source, const char **reason);

#endif							/* GK_PARTITION_SOURCES_H */
