/*
 * Commands that name a table.
 *
 * A schema is renamed without waiting for anybody, so a name may mean another table whenever it is
 * looked up, and that table's views, rules and triggers would run as the caller.  PostgreSQL says
 * what it has found whenever it looks up, also when it does so again, and before anything of it is
 * rewritten, planned or run.
 */
#ifndef GK_CHECKED_COMMAND_H
#define GK_CHECKED_COMMAND_H

#include "postgres.h"

#include "executor/spi.h"
#include "nodes/parsenodes.h"

/* A command, and what raises an error if its names do not mean what they should. */
typedef struct GkCheckedCommand
{
	const char *text;
	void		(*check_query) (const Query *query, const void *context);	/* not rewritten */
	/* of any table that is emptied, also by triggers of another one */
	void		(*check_truncated) (Oid relation_id, const void *context);
	const void *context;
} GkCheckedCommand;

/* Lets commands be checked; once, from _PG_init. */
extern void gk_install_checks(void);

/*
 * Prepares and executes a command; returns the plan, and the code that SPI returned.  SPI must be
 * connected.  40001 if another session has altered what is altered.
 */
extern SPIPlanPtr gk_execute_checked(const GkCheckedCommand *command, int options, int count,
									 Oid *types, Datum *values, const char *nulls, int *code);

#endif							/* GK_CHECKED_COMMAND_H */
