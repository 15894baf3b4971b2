/*
 * Whether a run that is recorded as running still does.
 *
 * A run holds a lock of its own, across its transactions, as long as its session lives: nothing
 * that is written down could say that a session is gone.
 */
#ifndef GK_RUNNING_H
#define GK_RUNNING_H

#include "postgres.h"

/* Takes that lock for the session; an error that ends a transaction ends it as well. */
extern void gk_begin_running(Oid relation_id, int version);

/* Gives it back when the transaction ends. */
extern void gk_end_running(Oid relation_id, int version);

/* True if somebody holds it, or perhaps does: on a standby, and in a table of a subscription. */
extern bool gk_is_running(Oid relation_id, int version);

#endif							/* GK_RUNNING_H */
