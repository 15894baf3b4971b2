/*
 * Finds out whether an output column of a query is made of a column of a table.
 */
#ifndef GK_SOURCE_ORIGINS_H
#define GK_SOURCE_ORIGINS_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * True if one of some output columns of an analysed query, counted from 1, is that column of a
 * table, of a partition, a child or a parent of it, or is computed from it.
 */
extern bool gk_are_made_of(const Query *query, const int *outputs, int count, Oid relation_id,
						   const char *column);

#endif							/* GK_SOURCE_ORIGINS_H */
