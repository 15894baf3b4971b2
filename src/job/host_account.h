/*
 * The account of host memory that the fits of all sessions of the server share.
 *
 * It lies in PostgreSQL's shared memory: all databases share it, a standby has one too, and it
 * is empty after a crash.  What a session has drawn is returned when the session ends.
 */
#ifndef GK_HOST_ACCOUNT_H
#define GK_HOST_ACCOUNT_H

#include "postgres.h"

/*
 * Before an engine is opened: attaches to the account, and sets the limit for this session.  If
 * the server has no shared memory left, that is an error (53200) if the limit is `demanded`;
 * else the session keeps an account of its own, with a warning.
 */
extern void gk_host_account_open(uint64 limit, bool demanded);

/* Draws bytes; false if all sessions together would exceed the limit.  Any thread may call it. */
extern bool gk_host_account_draw(uint64_t bytes);

/* Returns bytes that were drawn.  Any thread may call it. */
extern void gk_host_account_return(uint64_t bytes);

/* Bytes that all sessions hold, and the limit of this session. */
extern uint64 gk_host_account_bytes(void);
extern uint64 gk_host_account_limit(void);

/*
 * The session of entry `number`, from 0, and the bytes that it holds; pid is 0 where the entry is
 * free.  False past the last entry.
 */
extern bool gk_host_account_entry(int number, int *pid, uint64 *bytes);

#endif							/* GK_HOST_ACCOUNT_H */
