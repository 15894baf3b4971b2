/*
 * A value in shared memory that exactly one of several processes sets.
 */
#ifndef GK_ONCE_H
#define GK_ONCE_H

#include <stdatomic.h>

#include "postgres.h"

#include "miscadmin.h"

/* Lies in shared memory; 0 is GK_UNSET. */
typedef atomic_int GkOnce;

enum
{
	GK_UNSET,
	GK_SETTING,
	GK_SET
};

/* True if it is set. */
static inline bool
gk_once_is_set(GkOnce *once)
{
	return atomic_load(once) == GK_SET;
}

/* True: the caller sets it, then calls gk_once_end().  False: another process has set it. */
static inline bool
gk_once_begin(GkOnce *once)
{
	int			unset = GK_UNSET;

	if (atomic_compare_exchange_strong(once, &unset, GK_SETTING))
		return true;
	while (!gk_once_is_set(once))
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10);
	}
	return false;
}

/* Marks it as set. */
static inline void
gk_once_end(GkOnce *once)
{
	atomic_store(once, GK_SET);
}

#endif							/* GK_ONCE_H */
