/*
 * The rounds of a command: messages to the nodes, and their answers, taken in the order of nodes.
 */
#include <stdio.h>
#include <string.h>

#include "cluster_state.h"

/* Bytes of the names of nodes in a message. */
#define MOST_NAMES 170

/* Notes an error of the command. */
GkRoundProgress
gk_cluster_fail(GkClusterEngine *engine, GkStatus status)
{
	engine->status = status;
	return GK_BAD;
}

/* The peer that has a row. */
int
gk_peer_of(const GkClusterEngine *engine, int64_t row)
{
	int			low = 0;
	int			high = engine->transport->nodes;

	while (high - low > 1)
	{
		int			middle = low + (high - low) / 2;

		if (engine->first_rows[middle] <= row)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Lets each peer take its part of a range of rows. */
void
gk_split_range(GkClusterEngine *engine, int64_t first, int64_t count)
{
	for (int i = 0; i < engine->transport->nodes; i++)
	{
		GkPeer	   *peer = &engine->peers[i];
		int64_t		from = first - peer->first;
		int64_t		to = from + count;

		from = from < 0 ? 0 : from > peer->rows ? peer->rows : from;
		to = to < 0 ? 0 : to > peer->rows ? peer->rows : to;
		peer->at = from;
		peer->count = to - from;
		peer->asked = peer->count > 0;
	}
}

/* Writes a message, or only a header. */
static void
write_message(GkMessage *message, void *context)
{
	GkPeer	   *peer = context;
	const GkRound *round = peer->engine->round;

	if (round->write != NULL)
		round->write(message, peer);
}

/* Sends a message to a peer. */
static GkStatus
send_message(GkClusterEngine *engine, GkPeer *peer, const GkMessage *message)
{
	peer->answer = NULL;
	peer->begun = false;
	peer->report.sent += message->used;
	engine->unanswered++;
	return engine->transport->send(engine->transport->context, peer->number, message->room.base,
								   message->used);
}

/* Begins a round with the peers that are `asked`. */
GkStatus
gk_begin_round(GkClusterEngine *engine, const GkRound *round)
{
	GkHeader	header = {
		.magic = GK_MESSAGE_MAGIC,.order = GK_MESSAGE_ORDER,.version = GK_MESSAGE_VERSION,
		.operation = round->operation,.sequence = ++engine->sequence,.dimension = engine->d,
		.centroids = engine->centroids_before
	};
	GkMessage  *written = NULL;
	GkStatus	status = gk_status_ok();

	engine->round = round;
	engine->next = 0;
	engine->unanswered = 0;
	engine->slowest_before += engine->slowest;
	engine->slowest = 0.0;
	for (int i = 0; i < engine->transport->nodes && status.code == GK_OK; i++)
	{
		GkPeer	   *peer = &engine->peers[i];

		if (!peer->asked)
			continue;
		if (written == NULL || !round->is_common)
		{
			written = round->is_common ? &engine->common : &peer->message;
			status = gk_message_write(written, &header, write_message, peer);
		}
		if (status.code == GK_OK)
			status = send_message(engine, peer, written);
	}
	return status;
}

/* Begins a round with all peers that have rows. */
GkStatus
gk_ask_all(GkClusterEngine *engine, const GkRound *round)
{
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].asked = engine->peers[i].rows > 0;
	return gk_begin_round(engine, round);
}

/* Refuses the answer of a peer. */
static GkRoundProgress
refuse_answer(GkClusterEngine *engine, int node)
{
	const GkTransport *transport = engine->transport;

	return gk_cluster_fail(engine, gk_status_error(GK_INVALID_ANSWER, "receive",
												   "node \"%s\" sent an invalid answer",
												   transport->name(transport->context, node)));
}

/* The status of answers that contradict each other, of which nobody knows which is false. */
GkStatus
gk_cluster_doubt(const GkEngine *base)
{
	const GkTransport *transport = ((const GkClusterEngine *) base)->transport;
	char		names[MOST_NAMES] = "";
	size_t		used = 0;

	for (int i = 0; i < transport->nodes; i++)
	{
		const char *name = transport->name(transport->context, i);

		if (i > 0 && used + strlen(name) + sizeof(", \"\" and others") > sizeof(names))
		{
			snprintf(names + used, sizeof(names) - used, " and others");
			break;
		}
		used += snprintf(names + used, sizeof(names) - used, "%s\"%s\"", i > 0 ? ", " : "", name);
		if (used >= sizeof(names))
			break;
	}
	return gk_status_error(GK_INVALID_ANSWER, "receive",
						   "answers of node%s %s contradict each other",
						   transport->nodes > 1 ? "s" : "", names);
}

/* True if a peer can have taken that long and held so much. */
static bool
is_possible_work(const GkHeader *header)
{
	/* 26 days, and 2 PB: sums over peers fit as well */
	const uint64_t most = INT64_MAX >> 12;

	return header->nanoseconds <= most && header->held <= most && header->peak <= most;
}

/* Notes what the header of an answer tells about the work of a peer. */
static void
note_work(GkClusterEngine *engine, GkPeer *peer, const GkHeader *header)
{
	double		seconds = 1e-9 * (double) header->nanoseconds;

	peer->report.received += header->bytes;
	peer->report.seconds += seconds;
	peer->report.bytes = header->held;
	peer->report.peak = header->peak;
	if (seconds > engine->slowest)
		engine->slowest = seconds;
}

/* Receives an answer, and checks its header. */
static GkRoundProgress
receive_answer(GkClusterEngine *engine, int milliseconds)
{
	const GkTransport *transport = engine->transport;
	const void *answer = NULL;
	size_t		bytes = 0;
	int			node = -1;
	GkStatus	status = transport->receive(transport->context, milliseconds, &node, &answer,
											&bytes);
	GkHeader	header;
	GkPeer	   *peer;

	if (status.code == GK_RUNNING)
		return GK_MORE;
	if (status.code != GK_OK)
		return gk_cluster_fail(engine, status);
	if (node < 0 || node >= transport->nodes || !engine->peers[node].asked ||
		engine->peers[node].answer != NULL)
	{
		status = gk_status_error(GK_INTERNAL, "receive", "a node answered that was not asked");
		return gk_cluster_fail(engine, status);
	}
	peer = &engine->peers[node];
	if (bytes < sizeof(GkHeader))
		return refuse_answer(engine, node);
	memcpy(&header, answer, sizeof(GkHeader));
	if (gk_header_fault(&header) != NULL || header.operation != engine->round->operation ||
		header.sequence != engine->sequence || header.dimension != engine->d ||
		header.bytes != bytes || !is_possible_work(&header))
		return refuse_answer(engine, node);
	peer->answer = answer;
	peer->reader = gk_reader_begin(answer, bytes);
	note_work(engine, peer, &header);
	engine->unanswered--;
	return GK_MORE;
}

/* The peer whose answer is to be taken next, NULL if all were taken. */
static GkPeer *
next_peer(GkClusterEngine *engine)
{
	while (engine->next < engine->transport->nodes && !engine->peers[engine->next].asked)
		engine->next++;
	return engine->next < engine->transport->nodes ? &engine->peers[engine->next] : NULL;
}

/* Takes a piece of the answer of a peer. */
static GkRoundProgress
take_answer(GkClusterEngine *engine, GkPeer *peer)
{
	GkRoundProgress progress = engine->round->take == NULL ? GK_DONE
		: engine->round->take(engine, peer);

	if (progress == GK_MORE)
		return progress;
	if (progress == GK_BAD && engine->status.code != GK_OK)
		return progress;
	if (progress == GK_BAD || !gk_reader_end(&peer->reader))
		return refuse_answer(engine, peer->number);
	engine->is_first = false;
	engine->next++;
	return GK_MORE;
}

/* Does the next piece of the command. */
GkRoundProgress
gk_go_on(GkClusterEngine *engine, int milliseconds)
{
	GkPeer	   *peer = next_peer(engine);
	GkRoundProgress progress;

	if (peer != NULL && peer->answer != NULL)
		return take_answer(engine, peer);
	if (engine->unanswered > 0)
		return receive_answer(engine, milliseconds);
	if (engine->round->finish == NULL)
		return GK_DONE;
	progress = engine->round->finish(engine);
	if (progress == GK_BAD && engine->status.code == GK_OK)
		engine->status = gk_cluster_doubt(&engine->base);
	return progress;
}
