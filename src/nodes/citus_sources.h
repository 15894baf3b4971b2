/*
 * Citus' workers as nodes.
 */
#ifndef GK_CITUS_SOURCES_H
#define GK_CITUS_SOURCES_H

#include "postgres.h"

#include "node_list.h"
#include "source.h"

/*
 * The workers that have the rows of a source, as gk_node_sources() returns them; *reason stays NULL
 * if the source is none of Citus' tables.
 */
extern const GkNodeSources *gk_citus_node_sources(const GkSource *source, const char **reason);

/*
 * True if Citus would have each worker insert its own rows, were this command run: one INSERT that
 * selects from tables of Citus.  Nothing of that question stays, no lock either.  SPI must be
 * connected.
 */
extern bool gk_citus_inserts_on_workers(const char *insert);

#endif							/* GK_CITUS_SOURCES_H */
