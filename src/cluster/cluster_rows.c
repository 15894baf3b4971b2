/*
 * The commands of the cluster engine about single rows.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cluster_state.h"

/* Bytes of features that a window of compared pairs takes. */
#define WINDOW_BYTES (INT64_C(16) << 20)

/* Writes the rows that are wanted of a peer. */
void
gk_write_wanted(GkMessage *message, GkPeer *peer)
{
	const GkClusterEngine *engine = peer->engine;
	const GkWantedRows *wanted = &engine->wanted;
	const int32_t *owners = engine->owners.base;
	int64_t    *rows;

	gk_message_integer(message, wanted->asked);
	gk_message_integer(message, peer->count);
	rows = gk_message_add(message, peer->count, sizeof(int64_t));
	for (int64_t i = 0; rows != NULL && i < wanted->count; i++)
		if (owners[i] == peer->number)
			*rows++ = wanted->rows[i] - peer->first;
}

/* True if rows can have these labels. */
bool
gk_are_labels_of_rows(const GkClusterEngine *engine, const int32_t *labels, int64_t count)
{
	const uint8_t *has_rows = engine->has_rows.base;
	bool		good = true;

	for (int64_t i = 0; engine->counted && labels != NULL && i < count; i++)
		good &= has_rows[labels[i]];
	return good;
}

/* Puts the rows of a peer to their places, a piece of them. */
GkRoundProgress
gk_take_wanted(GkClusterEngine *engine, GkPeer *peer)
{
	const GkWantedRows *wanted = &engine->wanted;
	const int32_t *owners = engine->owners.base;
	int			asked = wanted->asked;
	int			d = engine->d;
	int64_t		count = peer->count;
	int32_t		most = engine->state.labels > 0 ? (int32_t) (engine->state.labels - 1) : -1;
	const float *features = gk_read_floats(&peer->reader, count * d);
	const double *weights = asked & GK_ASK_WEIGHTS
		? gk_read_doubles(&peer->reader, count, DBL_MAX) : NULL;
	const int32_t *labels = asked & GK_ASK_LABELS
		? gk_read_numbers(&peer->reader, count, 0, most) : NULL;

	if (!peer->reader.good || !gk_are_labels_of_rows(engine, labels, count))
		return GK_BAD;
	for (int64_t i = 0, at = 0; i < wanted->count; i++)
	{
		if (owners[i] != peer->number)
			continue;
		memcpy(wanted->features + i * d, features + at * d, d * sizeof(float));
		if (weights != NULL)
			wanted->weights[i] = weights[at];
		if (labels != NULL)
			wanted->labels[i] = labels[at];
		at++;
	}
	return GK_DONE;
}

/* Asks the peers that have the wanted rows. */
static GkStatus
ask_for_wanted(GkClusterEngine *engine, const GkRound *round)
{
	const GkWantedRows *wanted = &engine->wanted;
	GkStatus	status = gk_room_need(&engine->memory, &engine->owners, wanted->count,
									  sizeof(int32_t));
	int32_t    *owners = engine->owners.base;

	if (status.code != GK_OK)
		return status;
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].count = 0;
	for (int64_t i = 0; i < wanted->count; i++)
	{
		owners[i] = gk_peer_of(engine, wanted->rows[i]);
		engine->peers[owners[i]].count++;
	}
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].asked = engine->peers[i].count > 0;
	return gk_begin_round(engine, round);
}

/* Fetches rows into the rooms of the engine. */
GkStatus
gk_fetch_wanted(GkClusterEngine *engine, const int64_t *rows, int64_t count, int asked,
				const GkRound *round)
{
	GkMemory   *memory = &engine->memory;
	GkStatus	status = gk_room_need(memory, &engine->features, count,
									  engine->d * sizeof(float));

	if (status.code == GK_OK)
		status = gk_room_need(memory, &engine->weights, count, sizeof(double));
	if (status.code == GK_OK && (asked & GK_ASK_LABELS) != 0)
		status = gk_room_need(memory, &engine->labels, count, sizeof(int32_t));
	if (status.code != GK_OK)
		return status;
	engine->wanted = (GkWantedRows) {
		.rows = rows,.count = count,.asked = asked,.features = engine->features.base,
		.weights = engine->weights.base,.labels = engine->labels.base
	};
	return ask_for_wanted(engine, round);
}

/* The order of two rows that were fetched, by their bits. */
int
gk_compare_wanted(const GkClusterEngine *engine, int64_t row, int64_t other)
{
	const float *features = engine->features.base;
	const double *weights = engine->weights.base;
	uint64_t	left_weight;
	uint64_t	right_weight;

	for (int j = 0; j < engine->d; j++)
	{
		uint32_t	left;
		uint32_t	right;

		memcpy(&left, features + row * engine->d + j, sizeof(float));
		memcpy(&right, features + other * engine->d + j, sizeof(float));
		if (left != right)
			return left < right ? -1 : 1;
	}
	memcpy(&left_weight, weights + row, sizeof(double));
	memcpy(&right_weight, weights + other, sizeof(double));
	return (left_weight > right_weight) - (left_weight < right_weight);
}

/* GK_ROWS. */
GkStatus
gk_begin_rows(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_ROWS,.write = gk_write_wanted,.take = gk_take_wanted
	};

	engine->wanted = (GkWantedRows) {
		.rows = command->rows.rows,.count = command->rows.count,
		.asked = (command->rows.weights != NULL ? GK_ASK_WEIGHTS : 0) |
			(command->rows.labels != NULL ? GK_ASK_LABELS : 0),
		.features = command->rows.features,.weights = command->rows.weights,
		.labels = command->rows.labels
	};
	return ask_for_wanted(engine, &round);
}

/* Writes the pairs of which a peer has both rows. */
static void
write_compare(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;
	const int32_t *owners = peer->engine->pair_owners.base;
	int64_t    *rows;
	int64_t    *others;

	gk_message_integer(message, peer->count);
	rows = gk_message_add(message, peer->count, sizeof(int64_t));
	others = gk_message_add(message, peer->count, sizeof(int64_t));
	for (int64_t i = 0; others != NULL && i < c->compare.count; i++)
		if (owners[i] == peer->number)
		{
			*rows++ = c->compare.rows[i] - peer->first;
			*others++ = c->compare.others[i] - peer->first;
		}
}

/* Takes the order of the pairs of a peer. */
static GkRoundProgress
take_compare(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	const int32_t *owners = engine->pair_owners.base;
	const int8_t *order = gk_read_array(&peer->reader, peer->count, 1);

	if (order == NULL)
		return GK_BAD;
	for (int64_t i = 0; i < c->compare.count; i++)
	{
		if (owners[i] != peer->number)
			continue;
		if (*order < -1 || *order > 1)
			return GK_BAD;
		c->compare.order[i] = *order++;
	}
	return GK_DONE;
}

/*
 * Goes through the pairs of a window, from engine->at on, whose rows lie on two nodes: lists the
 * rows, or compares those that were listed and fetched.  A row that repeats from pair to pair is
 * listed once.  Returns how many are listed; *end is the pair behind the window.
 */
static int64_t
walk_window(GkClusterEngine *engine, bool compare, int64_t most, int64_t *end)
{
	const GkCommand *c = engine->command;
	const int32_t *owners = engine->pair_owners.base;
	int64_t    *rows = engine->numbers.base;
	int64_t		count = 0;
	int64_t		other = -1;
	int64_t		i;

	for (i = engine->at; i < c->compare.count && count + 2 <= most; i++)
	{
		int64_t		row = count;

		if (owners[i] >= 0)
			continue;
		rows[count++] = c->compare.rows[i];
		if (other < 0 || rows[other] != c->compare.others[i])
		{
			other = count++;
			rows[other] = c->compare.others[i];
		}
		if (compare)
			c->compare.order[i] = (int8_t) gk_compare_wanted(engine, row, other);
	}
	*end = i;
	return count;
}

/* Compares the pairs of a window, and begins the next one. */
static GkRoundProgress
finish_window(GkClusterEngine *engine)
{
	static const GkRound round = {
		.operation = GK_ROWS,.write = gk_write_wanted,.take = gk_take_wanted,
		.finish = finish_window
	};
	int64_t		pairs = engine->command->compare.count;
	int64_t		most = 2 + WINDOW_BYTES / (engine->d * (int64_t) sizeof(float));
	int64_t		end;
	int64_t		count;
	GkStatus	status;

	if (most > 2 * pairs + 2)
		most = 2 * pairs + 2;
	if (engine->phase == 1)
	{
		(void) walk_window(engine, true, most, &end);
		engine->at = end;
	}
	engine->phase = 1;
	status = gk_room_need(&engine->memory, &engine->numbers, most, sizeof(int64_t));
	if (status.code != GK_OK)
		return gk_cluster_fail(engine, status);
	count = walk_window(engine, false, most, &end);
	if (count == 0)
		return GK_DONE;
	status = gk_fetch_wanted(engine, engine->numbers.base, count, GK_ASK_WEIGHTS, &round);
	return status.code == GK_OK ? GK_MORE : gk_cluster_fail(engine, status);
}

/* GK_COMPARE: a node compares rows of its own; the others are fetched, a window at a time. */
GkStatus
gk_begin_compare(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_COMPARE,.write = write_compare,.take = take_compare,
		.finish = finish_window
	};
	int64_t		count = command->compare.count;
	GkStatus	status = gk_room_need(&engine->memory, &engine->pair_owners, count,
									  sizeof(int32_t));
	int32_t    *owners = engine->pair_owners.base;

	if (status.code != GK_OK)
		return status;
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].count = 0;
	for (int64_t i = 0; i < count; i++)
	{
		owners[i] = gk_peer_of(engine, command->compare.rows[i]);
		if (owners[i] != gk_peer_of(engine, command->compare.others[i]))
			owners[i] = -1;
		else
			engine->peers[owners[i]].count++;
	}
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].asked = engine->peers[i].count > 0;
	return gk_begin_round(engine, &round);
}

/* Writes rows and points whose distances are asked for. */
static void
write_separation(GkMessage *message, GkPeer *peer)
{
	const GkClusterEngine *engine = peer->engine;
	const GkCommand *c = engine->command;
	int64_t		groups = c->separation.groups;
	int64_t		before = c->separation.features != NULL ? peer->at
		: peer->first + peer->at - c->separation.first;

	gk_message_integer(message, c->separation.features == NULL);
	gk_message_integer(message, c->separation.cosine);
	gk_message_integer(message, c->separation.other != NULL ? GK_ASK_OTHERS : 0);
	gk_message_integer(message, c->separation.features == NULL ? peer->at : 0);
	gk_message_integer(message, peer->count);
	gk_message_integer(message, groups);
	gk_message_copy(message, c->separation.ends, groups, sizeof(int64_t));
	gk_message_copy(message, c->separation.points, c->separation.ends[groups - 1] * engine->d,
					sizeof(double));
	gk_message_copy(message, c->separation.labels + before, peer->count, sizeof(int32_t));
	if (c->separation.features != NULL)
		gk_message_copy(message, c->separation.features + before * engine->d,
						peer->count * engine->d, sizeof(float));
}

/* Takes the distances of the rows of a peer. */
static GkRoundProgress
take_separation(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	const double *own = gk_read_array(&peer->reader, peer->count, sizeof(double));
	const double *other = c->separation.other == NULL ? NULL
		: gk_read_array(&peer->reader, peer->count, sizeof(double));
	int64_t		before = c->separation.features != NULL ? peer->at
		: peer->first + peer->at - c->separation.first;

	if (!peer->reader.good)
		return GK_BAD;
	for (int64_t i = 0; i < peer->count; i++)
		if (!(own[i] >= 0.0) || (other != NULL && !(other[i] >= 0.0)))
			return GK_BAD;
	memcpy(c->separation.own + before, own, peer->count * sizeof(double));
	if (other != NULL)
		memcpy(c->separation.other + before, other, peer->count * sizeof(double));
	return GK_DONE;
}

/* Gives rows or points of the caller to all peers that have rows, about as many to each. */
static void
share_out(GkClusterEngine *engine, int64_t count)
{
	int64_t		peers = 0;
	int64_t		given = 0;

	for (int i = 0; i < engine->transport->nodes; i++)
		peers += engine->peers[i].rows > 0;
	for (int i = 0; i < engine->transport->nodes; i++)
	{
		GkPeer	   *peer = &engine->peers[i];

		peer->at = given;
		peer->count = peer->rows > 0 ? (count - given) / peers : 0;
		peer->asked = peer->count > 0;
		given += peer->count;
		peers -= peer->rows > 0;
	}
}

/* GK_SEPARATION: a node measures rows of its own, or a share of those of the caller. */
GkStatus
gk_begin_separation(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_SEPARATION,.write = write_separation,.take = take_separation
	};

	if (command->separation.features == NULL)
		gk_split_range(engine, command->separation.first, command->separation.count);
	else
		share_out(engine, command->separation.count);
	return gk_begin_round(engine, &round);
}

/* Writes clusters that are merged. */
static void
write_merge(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->merge.count);
	gk_message_integer(message, c->merge.wanted);
	gk_message_integer(message, c->merge.spherical);
	gk_message_copy(message, c->merge.points, c->merge.count * peer->engine->d, sizeof(float));
	gk_message_copy(message, c->merge.weights, c->merge.count, sizeof(double));
}

/* True if unions are such as the command makes; at least one: else whoever asks would go on. */
static bool
are_unions(const GkCommand *c, const int32_t *into, const int32_t *rounds, const float *costs)
{
	int64_t		found = 0;

	for (int64_t i = 0; i < c->merge.count; i++)
	{
		bool		is_union = into[i] >= 0;

		if (into[i] >= i || (rounds[i] >= 0) != is_union || !(costs[i] >= 0.0f))
			return false;
		found += is_union;
	}
	return found > 0 || c->merge.count == 1;
}

/* Takes the unions that a peer has found. */
static GkRoundProgress
take_merge(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	int64_t		count = c->merge.count;
	const int32_t *into = gk_read_numbers(&peer->reader, count, -1, (int32_t) (count - 1));
	const int32_t *rounds = gk_read_numbers(&peer->reader, count, -1, (int32_t) (count - 1));
	const float *costs = gk_read_array(&peer->reader, count, sizeof(float));

	if (!peer->reader.good || !are_unions(c, into, rounds, costs))
		return GK_BAD;
	memcpy(c->merge.into, into, count * sizeof(int32_t));
	memcpy(c->merge.rounds, rounds, count * sizeof(int32_t));
	memcpy(c->merge.costs, costs, count * sizeof(float));
	return GK_DONE;
}

/* GK_MERGE: one of the nodes that have rows does it. */
GkStatus
gk_begin_cluster_merge(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_MERGE,.write = write_merge,.take = take_merge
	};

	(void) command;
	share_out(engine, 1);
	return gk_begin_round(engine, &round);
}

/* Writes which labels and d² are fetched. */
void
gk_write_fetch(GkMessage *message, GkPeer *peer)
{
	gk_message_integer(message, peer->engine->wanted.asked);
	gk_message_integer(message, peer->at);
	gk_message_integer(message, peer->count);
}

/* Takes the labels and d² of a peer. */
GkRoundProgress
gk_take_fetch(GkClusterEngine *engine, GkPeer *peer)
{
	const GkWantedRows *wanted = &engine->wanted;
	int64_t		before = peer->first + peer->at - engine->at;
	int32_t		most = (int32_t) (engine->state.labels - 1);
	const int32_t *labels = wanted->asked & GK_ASK_LABELS
		? gk_read_numbers(&peer->reader, peer->count, most < 0 ? -1 : 0, most) : NULL;
	const double *distance2 = wanted->asked & GK_ASK_DISTANCES
		? gk_read_doubles(&peer->reader, peer->count, DBL_MAX) : NULL;

	if (!peer->reader.good || !gk_are_labels_of_rows(engine, labels, peer->count))
		return GK_BAD;
	if (labels != NULL)
		memcpy(wanted->labels + before, labels, peer->count * sizeof(int32_t));
	if (distance2 != NULL)
		memcpy(wanted->weights + before, distance2, peer->count * sizeof(double));
	return GK_DONE;
}
