/*
 * The clusters of a version as rows.
 */
#ifndef GK_CLUSTERS_H
#define GK_CLUSTERS_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "model.h"

/* Puts one row for every cluster of a head row into a result, with or without its name. */
extern void gk_put_model_clusters(Relation relation, TupleTableSlot *slot, ReturnSetInfo *result,
								  bool with_names);

#endif							/* GK_CLUSTERS_H */
