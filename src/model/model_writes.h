/*
 * Commands that change a model.
 *
 * SQL names a table, and while a command waits or is planned, its name may come to mean another
 * one: a schema can be renamed without a lock on its tables.  What is written is written to the
 * table that was opened, or the command fails.
 */
#ifndef GK_MODEL_WRITES_H
#define GK_MODEL_WRITES_H

#include "postgres.h"

/* The quoted and qualified name that a model has now. */
extern char *gk_quoted_model_name(Oid relation_id);

/*
 * Runs a command that changes rows of a model, which the transaction has locked, by its quoted
 * name; SPI must be connected, and has the result.  Raises 55000 if a rule replaced the command, so
 * that SPI did not return what was expected, or if the name came to mean another table.
 */
extern void gk_change_model(Oid relation_id, const char *command, int expected, int count,
							Oid *types, Datum *values);

/*
 * Makes a definition that of a model: ALTER TABLE, after a lock against all others.  SPI must be
 * connected.  Raises 55000 if the name of the model came to mean another table.
 */
extern void gk_set_model_definition(Oid relation_id, const char *definition);

#endif							/* GK_MODEL_WRITES_H */
