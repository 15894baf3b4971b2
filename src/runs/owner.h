/*
 * Acting as the owner of a model.
 */
#ifndef GK_OWNER_H
#define GK_OWNER_H

#include "postgres.h"

#include "utils/relcache.h"

/* The user and settings to restore. */
typedef struct GkOwner
{
	Oid			caller;
	int			security_context;
	int			nest_level;		/* of the settings */
	bool		is_other;		/* the caller is not the owner */
	uint64		portals;		/* if so, the note of those of the caller … */
	CommandId	command;		/* … and the number of the first command */
} GkOwner;

/*
 * Raises 42501 unless the current user has the privileges of the owner of a table.  If they are
 * different roles, the owner becomes the current user in a security-restricted operation, as in
 * REFRESH MATERIALIZED VIEW. An error ends that too, with its (sub)transaction.
 */
extern void gk_begin_as_owner(Relation relation, GkOwner *owner);

/*
 * Becomes the previous user again.  Portals that the other one left are dropped, and objects that
 * he made in the temporary schema are an error (42501); after an error both end with the
 * (sub)transaction.
 */
extern void gk_end_as_owner(const GkOwner *owner);

/* The same around opening a model to change it, with ShareUpdateExclusiveLock. */
extern void gk_open_as_owner(Oid relation_id, Relation *relation, GkOwner *owner);

/* The same, with AccessShareLock: for rows that nobody else changes. */
extern Relation gk_open_as_owner_at_once(Oid relation_id, GkOwner *owner);

/* Ends both. */
extern void gk_close_as_owner(Relation relation, const GkOwner *owner);

#endif							/* GK_OWNER_H */
