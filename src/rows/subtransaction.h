/*
 * What may fail without ending the transaction.
 */
#ifndef GK_SUBTRANSACTION_H
#define GK_SUBTRANSACTION_H

#include "postgres.h"

/* A function to be tried in a subtransaction. */
typedef void (*GkAttempt) (void *argument);

/*
 * Tries a function, whose effects and locks are kept or not.  Returns its error, in the current
 * memory context, or NULL.
 */
extern ErrorData *gk_try(GkAttempt attempt, void *argument, bool is_kept);

/* The same for what is not needed: raises the error only if it ends the statement or session. */
extern void gk_try_without_need(GkAttempt attempt, void *argument, bool is_kept);

#endif							/* GK_SUBTRANSACTION_H */
