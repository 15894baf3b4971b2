/*
 * Functions of the extension that its queries call.
 */
#ifndef GK_OWN_FUNCTION_H
#define GK_OWN_FUNCTION_H

#include "postgres.h"

/* The extension's own function of a name, even if others have that name. */
extern Oid	gk_own_function(const char *name);

/* Its name, qualified and quoted; raises 42883 if others have dropped it. */
extern char *gk_own_function_name(Oid function);

/*
 * Raises 42725 unless what a call of that name was resolved to is the extension's own function, and
 * 42883 if others have dropped it.
 */
extern void gk_check_own_function(Oid called, const char *name);

#endif							/* GK_OWN_FUNCTION_H */
