/*
 * Tells if what a function read before is what it would read now.
 *
 * A function's state can outlive a statement (an expression of PL/pgSQL keeps it for the
 * transaction), so what it read of a table holds only as long as it would see the same rows.
 */
#ifndef GK_MOMENT_H
#define GK_MOMENT_H

#include "postgres.h"

#include "utils/snapshot.h"

/* The active snapshot. */
extern Snapshot gk_active_snapshot(void);

/* A record of what the active snapshot sees; lies in the memory context current when made. */
typedef struct GkMoment GkMoment;

/* Records it. */
extern GkMoment *gk_note_moment(void);

/* True if the active snapshot still sees the same, for the same user in the same subtransaction. */
extern bool gk_is_same_moment(const GkMoment *moment);

#endif							/* GK_MOMENT_H */
