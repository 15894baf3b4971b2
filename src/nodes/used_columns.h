/*
 * The columns that a source is read for: nodes are asked for no others, which their tables may lack
 * and their role may not read.
 */
#ifndef GK_USED_COLUMNS_H
#define GK_USED_COLUMNS_H

#include "postgres.h"

#include "source.h"
#include "source_text.h"

/* Their names, in the order of the source. */
extern char *gk_used_columns(const GkSource *source);

/* A query of these columns. */
extern char *gk_used_columns_query(const GkSource *source, const GkSourceText *text);

#endif							/* GK_USED_COLUMNS_H */
