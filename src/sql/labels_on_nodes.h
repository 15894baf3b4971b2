/*
 * Labels that stay on the nodes of a fit, because the workers of Citus write them there.
 */
#ifndef GK_LABELS_ON_NODES_H
#define GK_LABELS_ON_NODES_H

#include "postgres.h"

#include "fit_call.h"

/*
 * True if the workers of Citus can write the labels table of a call themselves: that asks for
 * nothing else of the labels, and the rows of both are in the same places.
 */
extern bool gk_labels_can_stay(const GkCall *call);

/* Has the nodes leave their labels, as the call describes them, for those that write them. */
extern void gk_share_labels(GkCall *call);

/* Says how they are written. */
extern void gk_use_shared_labels(GkCall *call, GkLabelsInput *input);

#endif							/* GK_LABELS_ON_NODES_H */
