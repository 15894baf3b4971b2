/*
 * Portals, such as cursors, that code of another role leaves in the session.
 */
#ifndef GK_PORTALS_H
#define GK_PORTALS_H

#include "postgres.h"

/* Notes which portals there are; returns the number of this note. */
extern uint64 gk_note_portals(void);

/*
 * Drops those that were made since, also where they took the place of others: whoever is the
 * current user when they are fetched from, or when a procedure commits, would run their code.
 */
extern void gk_drop_portals_since(uint64 note);

#endif							/* GK_PORTALS_H */
