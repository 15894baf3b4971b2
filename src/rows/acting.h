/*
 * Roles that could act as the current user, and temporary objects of those that could not.
 */
#ifndef GK_ACTING_H
#define GK_ACTING_H

#include "postgres.h"

/* True if a role could become the current user with SET ROLE, or is it: nothing is kept from it. */
extern bool gk_could_act(Oid role);

/*
 * Raises 42501 if a relation is a temporary one of a caller who could not act as the current user.
 * Names find those of the session, also in a function that is SECURITY DEFINER and in a refit as
 * the owner of a model, where what views, policies and triggers call would run as that role.
 */
extern void gk_check_temporary(Oid relation_id);

/* The same of a type, whose checks and casts would run as that role. */
extern void gk_check_temporary_type(Oid type_id);

#endif							/* GK_ACTING_H */
