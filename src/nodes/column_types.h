/*
 * The types of the columns of a source, which all nodes must have alike.
 */
#ifndef GK_COLUMN_TYPES_H
#define GK_COLUMN_TYPES_H

#include "postgres.h"

#include "source.h"

/*
 * The types of the features, the weight and the ids, as a text to compare.  Where a UNION converts
 * some of its rows, the types that these have are in it.  55000 if one of them was dropped.
 */
extern const char *gk_column_types(const GkSource *source);

/* True if the ids get another type than their column has, so that values are converted. */
extern bool gk_converts_ids(const GkSource *source);

#endif							/* GK_COLUMN_TYPES_H */
