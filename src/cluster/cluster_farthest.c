/*
 * GK_FARTHEST of the cluster engine.
 *
 * Each node lists its farthest rows in order.  The lists are merged by d² and hash; where rows of
 * several nodes have both in common, their bits decide.  Then one row of each group of equal rows
 * is fetched, which is nearly always one of each node.
 */
#include <float.h>
#include <math.h>

#include "cluster_state.h"

/* A row of the lists. */
typedef struct Item
{
	GkEntry		entry;			/* its row is counted over all nodes */
	bool		equal;			/* to the bits of the one before it, on the same node */
	int64_t		fetched;		/* its number among the rows that were fetched, if it is not */
} Item;

/* A row of the lists by its number. */
static Item *
item_at(const GkClusterEngine *engine, int64_t i)
{
	return (Item *) engine->entries.base + i;
}

/* True if an item comes before another by d² and hash. */
static bool
comes_before(const Item *item, const Item *other)
{
	if (item->entry.distance2 != other->entry.distance2)
		return item->entry.distance2 > other->entry.distance2;
	return item->entry.hash < other->entry.hash;
}

/* Writes how many rows are asked for. */
static void
write_farthest(GkMessage *message, GkPeer *peer)
{
	gk_message_integer(message, peer->engine->command->farthest.count);
}

/* True if a list is what a node may say. */
static bool
is_valid_list(const GkPeer *peer, const GkEntry *entries, const uint8_t *equal, int64_t found)
{
	for (int64_t i = 0; i < found; i++)
	{
		const GkEntry *before = &entries[i - 1];

		if (entries[i].row < 0 || entries[i].row >= peer->rows || equal[i] > (i > 0) ||
			!(entries[i].distance2 >= 0.0 && entries[i].distance2 <= DBL_MAX))
			return false;
		if (i > 0 && (entries[i].distance2 > before->distance2 ||
					  (entries[i].distance2 == before->distance2 &&
					   entries[i].hash < before->hash)))
			return false;
		if (equal[i] && (entries[i].distance2 != before->distance2 ||
						 entries[i].hash != before->hash))
			return false;
	}
	return true;
}

/* Takes the list of a peer. */
static GkRoundProgress
take_farthest(GkClusterEngine *engine, GkPeer *peer)
{
	int64_t		most = engine->command->farthest.count;
	int64_t		found = gk_read_integer(&peer->reader, 0, most < peer->rows ? most : peer->rows);
	const GkEntry *entries = gk_read_array(&peer->reader, found, sizeof(GkEntry));
	const uint8_t *equal = gk_read_array(&peer->reader, found, 1);
	GkStatus	status;

	if (!peer->reader.good || !is_valid_list(peer, entries, equal, found))
		return GK_BAD;
	status = gk_room_need(&engine->memory, &engine->entries, engine->entry_count + found,
						  sizeof(Item));
	if (status.code != GK_OK)
		return gk_cluster_fail(engine, status);
	for (int64_t i = 0; i < found; i++)
	{
		Item	   *item = item_at(engine, engine->entry_count + i);

		*item = (Item) {.entry = entries[i],.equal = equal[i]};
		item->entry.row += peer->first;
		item->entry.mass = 0;
	}
	engine->entry_count += found;
	peer->list_end = engine->entry_count;
	return GK_DONE;
}

/* Goes to the beginning of all lists; peer->at is the next of each, peer->list_end behind it. */
static void
rewind_lists(GkClusterEngine *engine)
{
	int64_t		begin = 0;

	for (int i = 0; i < engine->transport->nodes; i++)
	{
		GkPeer	   *peer = &engine->peers[i];

		if (peer->list_end < begin)
			peer->list_end = begin;
		peer->at = begin;
		begin = peer->list_end;
	}
}

/*
 * Finds the next rows that have d² and hash in common: of each peer those from peer->at to
 * peer->run_end - 1.  Returns how many peers have such rows.
 */
static int
find_run(GkClusterEngine *engine)
{
	const Item *first = NULL;
	int			peers = 0;

	for (int i = 0; i < engine->transport->nodes; i++)
	{
		const GkPeer *peer = &engine->peers[i];

		if (peer->at < peer->list_end &&
			(first == NULL || comes_before(item_at(engine, peer->at), first)))
			first = item_at(engine, peer->at);
	}
	for (int i = 0; i < engine->transport->nodes && first != NULL; i++)
	{
		GkPeer	   *peer = &engine->peers[i];

		peer->run_end = peer->at;
		while (peer->run_end < peer->list_end &&
			   !comes_before(first, item_at(engine, peer->run_end)))
			peer->run_end++;
		peers += peer->run_end > peer->at;
	}
	return peers;
}

/* Lists the first row of each group of equal rows in a run of several peers. */
static int64_t
list_run(GkClusterEngine *engine, int64_t *rows, int64_t count)
{
	for (int i = 0; i < engine->transport->nodes; i++)
	{
		GkPeer	   *peer = &engine->peers[i];

		for (int64_t at = peer->at; at < peer->run_end; at++)
		{
			Item	   *item = item_at(engine, at);

			if (item->equal)
				continue;
			item->fetched = count;
			rows[count++] = item->entry.row;
		}
	}
	return count;
}

/* Passes over a run; returns how many rows it has. */
static int64_t
skip_run(GkClusterEngine *engine)
{
	int64_t		count = 0;

	for (int i = 0; i < engine->transport->nodes; i++)
	{
		GkPeer	   *peer = &engine->peers[i];

		count += peer->run_end - peer->at;
		peer->at = peer->run_end;
	}
	return count;
}

/* Lists the rows whose bits decide among the farthest. */
static int64_t
list_ties(GkClusterEngine *engine)
{
	int64_t		wanted = engine->command->farthest.count;
	int64_t		passed = 0;
	int64_t		count = 0;
	int			peers;

	rewind_lists(engine);
	while (passed < wanted && (peers = find_run(engine)) > 0)
	{
		if (peers > 1)
			count = list_run(engine, engine->numbers.base, count);
		passed += skip_run(engine);
	}
	return count;
}

/* The peer whose next group of equal rows comes first in a run; of equal ones the first peer. */
static GkPeer *
first_in_run(GkClusterEngine *engine, bool compare)
{
	GkPeer	   *first = NULL;

	for (int i = 0; i < engine->transport->nodes; i++)
	{
		GkPeer	   *peer = &engine->peers[i];

		if (peer->at == peer->run_end)
			continue;
		if (first == NULL ||
			(compare && gk_compare_wanted(engine, item_at(engine, peer->at)->fetched,
										  item_at(engine, first->at)->fetched) < 0))
			first = peer;
	}
	return first;
}

/* Gives a run out, in order. */
static void
give_run(GkClusterEngine *engine, bool compare)
{
	GkCommand  *c = engine->command;
	GkPeer	   *peer;

	while ((peer = first_in_run(engine, compare)) != NULL)
		do
		{
			if (c->farthest.found < c->farthest.count)
				c->farthest.entries[c->farthest.found++] = item_at(engine, peer->at)->entry;
			peer->at++;
		} while (peer->at < peer->run_end && item_at(engine, peer->at)->equal);
}

/* Merges the lists. */
static GkRoundProgress
give_farthest(GkClusterEngine *engine)
{
	GkCommand  *c = engine->command;
	int			peers;

	rewind_lists(engine);
	while (c->farthest.found < c->farthest.count && (peers = find_run(engine)) > 0)
		give_run(engine, peers > 1);
	return GK_DONE;
}

/* After all lists: fetches the rows whose bits decide, if any. */
static GkRoundProgress
finish_lists(GkClusterEngine *engine)
{
	static const GkRound round = {
		.operation = GK_ROWS,.write = gk_write_wanted,.take = gk_take_wanted,
		.finish = give_farthest
	};
	GkStatus	status = gk_room_need(&engine->memory, &engine->numbers, engine->entry_count,
									  sizeof(int64_t));
	int64_t		count;

	if (status.code != GK_OK)
		return gk_cluster_fail(engine, status);
	count = list_ties(engine);
	if (count == 0)
		return give_farthest(engine);
	status = gk_fetch_wanted(engine, engine->numbers.base, count, GK_ASK_WEIGHTS, &round);
	return status.code == GK_OK ? GK_MORE : gk_cluster_fail(engine, status);
}

/* GK_FARTHEST. */
GkStatus
gk_begin_farthest(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_FARTHEST,.is_common = true,.write = write_farthest,
		.take = take_farthest,.finish = finish_lists
	};

	command->farthest.found = 0;
	engine->entry_count = 0;
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].list_end = 0;
	if (command->farthest.count < 1)
		return gk_status_ok();
	return gk_ask_all(engine, &round);
}
