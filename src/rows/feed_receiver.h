/*
 * The receiver of a query whose rows this process alone feeds.
 */
#ifndef GK_FEED_RECEIVER_H
#define GK_FEED_RECEIVER_H

#include "postgres.h"

#include "tcop/dest.h"

#include "feed.h"

/*
 * A receiver for rows of the columns that the aggregate of the feed takes as arguments, its ticket
 * included; what it allocates lies in the context.
 */
extern DestReceiver *gk_feed_receiver(GkFeed *feed, MemoryContext context);

/* Flushes what was received to shared memory, after the query. */
extern void gk_feed_receiver_end(DestReceiver *receiver);

#endif							/* GK_FEED_RECEIVER_H */
