/*
 * Reports the errors of an engine as PostgreSQL errors.
 */
#ifndef GK_ENGINE_ERROR_H
#define GK_ENGINE_ERROR_H

#include "postgres.h"

#include "engine.h"

/*
 * Adds the figures of the account of host memory to a status that it refused, so that a process
 * that has not opened the account can raise it.  Any thread may call it.
 */
extern void gk_add_account(GkStatus *status);

/* Raises an error unless the status is GK_OK: SQLSTATE, DETAIL and HINT by its code. */
extern void gk_check(GkStatus status);

/*
 * Raises an error: answers of an engine contradict each other.  `how` goes on a sentence: "fewer
 * rows are listed than were summed".
 */
__attribute__((noreturn))
extern void gk_contradict(const GkEngine *engine, const char *how);

#endif							/* GK_ENGINE_ERROR_H */
