/*
 * Commands that name a table: what the name means is checked before anything of it runs.
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "executor/spi.h"
#include "parser/analyze.h"

#include "checked_command.h"

/* How the server's messages about a row that was altered meanwhile begin, in any language. */
#define CONCURRENTLY "tuple concurrently "

static post_parse_analyze_hook_type next_analyse_hook;
static object_access_hook_type next_access_hook;

/* The command that runs; the innermost, where triggers run others. */
static const GkCheckedCommand *running;

/* Checks a command that was analysed, perhaps once more. */
static void
check_analysed(ParseState *state, Query *query, JumbleState *jumble)
{
	/* triggers and functions that it calls have commands of their own */
	if (running != NULL && running->check_query != NULL && state->p_sourcetext != NULL &&
		strcmp(state->p_sourcetext, running->text) == 0)
		running->check_query(query, running->context);
	if (next_analyse_hook != NULL)
		next_analyse_hook(state, query, jumble);
}

/* Checks a table that is to be emptied. */
static void
check_accessed(ObjectAccessType access, Oid class_id, Oid object_id, int part, void *arg)
{
	if (access == OAT_TRUNCATE && running != NULL && running->check_truncated != NULL)
		running->check_truncated(object_id, running->context);
	if (next_access_hook != NULL)
		next_access_hook(access, class_id, object_id, part, arg);
}

/* Lets commands be checked. */
void
gk_install_checks(void)
{
	next_analyse_hook = post_parse_analyze_hook;
	post_parse_analyze_hook = check_analysed;
	next_access_hook = object_access_hook;
	object_access_hook = check_accessed;
}

/* Prepares and executes a command; returns the plan. */
static SPIPlanPtr
execute(const GkCheckedCommand *command, int options, int count, Oid *types, Datum *values,
		const char *nulls, int *code)
{
	SPIPlanPtr	plan = SPI_prepare_cursor(command->text, count, types, options);

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", command->text,
			 SPI_result_code_string(SPI_result));
	*code = SPI_execute_plan(plan, values, nulls, false, 0);
	return plan;
}

/*
 * Raises the current error again, but as 40001 an internal one about a row of the catalogs that
 * another session has altered meanwhile: a GRANT does not wait for who has locked the table.
 */
static void
rethrow(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (error->sqlerrcode != ERRCODE_INTERNAL_ERROR || error->message == NULL ||
		strncmp(error->message, CONCURRENTLY, strlen(CONCURRENTLY)) != 0)
		PG_RE_THROW();
	FlushErrorState();
	error->sqlerrcode = ERRCODE_T_R_SERIALIZATION_FAILURE;
	error->detail = psprintf(_("Privileges or other properties were altered meanwhile: %s."),
							 error->message);
	error->message = pstrdup(_("could not serialize access due to concurrent update"));
	error->hint = pstrdup(_("Try again."));
	ReThrowError(error);
}

/* The same, checked. */
SPIPlanPtr
gk_execute_checked(const GkCheckedCommand *command, int options, int count, Oid *types,
				   Datum *values, const char *nulls, int *code)
{
	const GkCheckedCommand *outer = running;
	MemoryContext before = CurrentMemoryContext;
	SPIPlanPtr	volatile plan = NULL;

	running = command;
	PG_TRY();
	{
		plan = execute(command, options, count, types, values, nulls, code);
	}
	PG_CATCH();
	{
		running = outer;
		rethrow(before);
	}
	PG_END_TRY();
	running = outer;
	return plan;
}
