/*
 * How many rows of a query each pair of two labels has.
 */
#ifndef GK_LABEL_PAIRS_H
#define GK_LABEL_PAIRS_H

#include "postgres.h"

#include "contingency.h"
#include "source_query.h"

/*
 * Runs a query for two columns, and counts the rows of each pair of labels; rows without one of
 * them do not count.  The contingency's labels are places in the order of the texts.  Raises an
 * error if the type of a label is altered meanwhile (55000), or dropped (42704).
 */
extern void gk_count_labels(const GkSourceQuery *query, GkContingency *contingency);

#endif							/* GK_LABEL_PAIRS_H */
