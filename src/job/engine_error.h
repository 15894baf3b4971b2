/*
 * What goes wrong in an engine, as an error of PostgreSQL.
 */
#ifndef GK_ENGINE_ERROR_H
#define GK_ENGINE_ERROR_H

#include "postgres.h"

#include "engine.h"

/* Raises an error unless the status is GK_OK: SQLSTATE, DETAIL and HINT by its code. */
extern void gk_check(GkStatus status);

#endif							/* GK_ENGINE_ERROR_H */
