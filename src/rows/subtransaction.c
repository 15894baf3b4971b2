/*
 * What may fail without ending the transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "subtransaction.h"

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
	}
	PG_CATCH();
	{
		/* one within this could not begin, and ends only with the transaction */
		if (GetCurrentTransactionNestLevel() != level)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	/* one that could not be released cannot be rolled back: that error is not caught */
	if (error != NULL || !is_kept)
		RollbackAndReleaseCurrentSubTransaction();
	else
		ReleaseCurrentSubTransaction();
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
