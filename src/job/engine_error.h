/*
 * Reports the errors of an engine as PostgreSQL errors.
 */
#ifndef GK_ENGINE_ERROR_H
#define GK_ENGINE_ERROR_H

#include "postgres.h"

#include "engine.h"

/* Raises an error unless the status is GK_OK: SQLSTATE, DETAIL and HINT by its code. */
extern void gk_check(GkStatus status);

#endif							/* GK_ENGINE_ERROR_H */
