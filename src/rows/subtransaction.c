/*
 * What may fail without ending the transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "subtransaction.h"

/*
 * Ends the subtransactions above a level, after an error: one that could not begin can only be
 * aborted together with the next, and what began it did not end it.
 */
static void
end_above(int level)
{
	if (GetCurrentTransactionNestLevel() > level)
		AbortCurrentTransaction();
	while (GetCurrentTransactionNestLevel() > level)
		RollbackAndReleaseCurrentSubTransaction();
}

/* Tries a function in a subtransaction. */
ErrorData *
gk_try(GkAttempt attempt, void *argument, bool is_kept)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;
	int			level;

	BeginInternalSubTransaction(NULL);
	level = GetCurrentTransactionNestLevel();
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		attempt(argument);
		if (is_kept)
			ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		end_above(level);
	}
	PG_END_TRY();
	if (error != NULL || !is_kept)
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/* The same for what is not needed. */
void
gk_try_without_need(GkAttempt attempt, void *argument, bool is_kept)
{
	ErrorData  *error = gk_try(attempt, argument, is_kept);

	if (error != NULL && (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
						  error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN))
		ReThrowError(error);
}
