/*
 * The commands of the cluster engine about the rows as they are, and of seeding.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cluster_state.h"
#include "exact.h"

/* No sum of masses is greater. */
#define GREATEST_MASS (INT64_C(1) << 62)

/* Takes the number of rows of a peer. */
static GkRoundProgress
take_seal(GkClusterEngine *engine, GkPeer *peer)
{
	const GkTransport *transport = engine->transport;
	int64_t		rows = gk_read_integer(&peer->reader, 0, GK_MAX_ROWS);

	if (transport->rows != NULL && rows != transport->rows(transport->context, peer->number))
		return GK_BAD;
	peer->rows = peer->report.rows = rows;
	return GK_DONE;
}

/* Numbers the rows. */
static GkRoundProgress
finish_seal(GkClusterEngine *engine)
{
	int64_t		rows = 0;

	for (int i = 0; i < engine->transport->nodes; i++)
	{
		engine->peers[i].first = engine->first_rows[i] = rows;
		rows += engine->peers[i].rows;
		if (rows > GK_MAX_ROWS)
			return gk_cluster_fail(engine, gk_status_error(GK_LIMIT, "seal", "too many rows"));
	}
	engine->first_rows[engine->transport->nodes] = rows;
	engine->n = engine->command->seal.rows = rows;
	return GK_DONE;
}

/* GK_SEAL: asks every node, even one without rows. */
GkStatus
gk_begin_seal(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_SEAL,.is_common = true,.take = take_seal,.finish = finish_seal
	};

	(void) command;
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].asked = true;
	return gk_begin_round(engine, &round);
}

/* Takes the ranges of a peer. */
static GkRoundProgress
take_range(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	const float *least = gk_read_floats(&peer->reader, 2 * engine->d);
	double		least_weight = gk_read_double(&peer->reader, 0.0, DBL_MAX);
	double		greatest_weight = gk_read_double(&peer->reader, least_weight, DBL_MAX);

	if (!peer->reader.good)
		return GK_BAD;
	for (int j = 0; j < engine->d; j++)
	{
		const float *greatest = least + engine->d;

		if (engine->is_first || least[j] < c->range.least[j])
			c->range.least[j] = least[j];
		if (engine->is_first || greatest[j] > c->range.greatest[j])
			c->range.greatest[j] = greatest[j];
	}
	if (engine->is_first || least_weight < c->range.least_weight)
		c->range.least_weight = least_weight;
	if (engine->is_first || greatest_weight > c->range.greatest_weight)
		c->range.greatest_weight = greatest_weight;
	return GK_DONE;
}

/* GK_RANGE. */
GkStatus
gk_begin_range(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {.operation = GK_RANGE,.is_common = true,.take = take_range};

	command->range.least_weight = command->range.greatest_weight = 1.0;
	return gk_ask_all(engine, &round);
}

/* Writes the grids of the moments. */
static void
write_moments(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;
	int			d = peer->engine->d;

	gk_message_copy(message, c->moments.pivot, d, sizeof(double));
	gk_message_copy(message, c->moments.first_exponents, d, sizeof(int));
	gk_message_copy(message, c->moments.second_exponents, d, sizeof(int));
	gk_message_integer(message, c->moments.weight_exponent);
	gk_message_integer(message, c->moments.rest_bits);
}

/* Adds the moments of a peer. */
static GkRoundProgress
take_moments(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	int			d = engine->d;
	const int64_t *first = gk_read_array(&peer->reader, 2 * d, sizeof(int64_t));
	const int64_t *second = gk_read_array(&peer->reader, 2 * d, sizeof(int64_t));
	const int64_t *exponent_sum = gk_read_array(&peer->reader, d + 1, sizeof(int64_t));
	const int64_t *nonzero = gk_read_integers(&peer->reader, d + 1, 0, peer->rows);
	const int64_t *weight = gk_read_array(&peer->reader, 2, sizeof(int64_t));

	if (!peer->reader.good)
		return GK_BAD;
	gk_add_integers((int64_t *) c->moments.first, first, 2 * d);
	gk_add_integers((int64_t *) c->moments.second, second, 2 * d);
	gk_add_integers(c->moments.exponent_sum, exponent_sum, d + 1);
	gk_add_integers(c->moments.nonzero, nonzero, d + 1);
	gk_add_integers((int64_t *) &c->moments.weight, weight, 2);
	return GK_DONE;
}

/* GK_MOMENTS. */
GkStatus
gk_begin_moments(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_MOMENTS,.is_common = true,.write = write_moments,.take = take_moments
	};
	int			d = engine->d;

	memset(command->moments.first, 0, d * sizeof(GkSum));
	memset(command->moments.second, 0, d * sizeof(GkSum));
	memset(command->moments.exponent_sum, 0, (d + 1) * sizeof(int64_t));
	memset(command->moments.nonzero, 0, (d + 1) * sizeof(int64_t));
	memset(&command->moments.weight, 0, sizeof(GkSum));
	return gk_ask_all(engine, &round);
}

/* Writes a transformation. */
static void
write_transform(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_copy(message, c->transform.offset, peer->engine->d, sizeof(double));
	gk_message_copy(message, c->transform.factor, peer->engine->d, sizeof(double));
	gk_message_integer(message, c->transform.normalize);
}

/* GK_TRANSFORM. */
GkStatus
gk_begin_transform(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_TRANSFORM,.is_common = true,.write = write_transform
	};

	(void) command;
	return gk_ask_all(engine, &round);
}

/* Writes candidates. */
static void
write_candidates(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->candidates.first_label);
	gk_message_integer(message, c->candidates.count);
	gk_message_copy(message, c->candidates.candidates, c->candidates.count * peer->engine->d,
					sizeof(double));
}

/* Takes the greatest weight × d² of a peer. */
static GkRoundProgress
take_candidates(GkClusterEngine *engine, GkPeer *peer)
{
	double		greatest = gk_read_double(&peer->reader, 0.0, DBL_MAX);

	if (greatest > engine->command->candidates.greatest)
		engine->command->candidates.greatest = greatest;
	return GK_DONE;
}

/* GK_CANDIDATES. */
GkStatus
gk_begin_candidates(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_CANDIDATES,.is_common = true,.write = write_candidates,
		.take = take_candidates
	};

	command->candidates.greatest = 0.0;
	return gk_ask_all(engine, &round);
}

/* Writes trial candidates. */
static void
write_potentials(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->potentials.count);
	gk_message_integer(message, c->potentials.exponent);
	gk_message_copy(message, c->potentials.trials,
					(int64_t) c->potentials.count * peer->engine->d, sizeof(double));
}

/* Adds sums of masses; false if they are not valid. */
static bool
add_masses(GkReader *reader, int64_t count, int64_t *to)
{
	const int64_t *from = gk_read_integers(reader, count, 0, GREATEST_MASS);

	for (int64_t i = 0; from != NULL && i < count; i++)
	{
		if (from[i] > GREATEST_MASS - to[i])
			return false;
		to[i] += from[i];
	}
	return from != NULL;
}

/* Adds the potentials of a peer. */
static GkRoundProgress
take_potentials(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;

	return add_masses(&peer->reader, c->potentials.count, c->potentials.potentials)
		? GK_DONE : GK_BAD;
}

/* GK_POTENTIALS. */
GkStatus
gk_begin_potentials(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_POTENTIALS,.is_common = true,.write = write_potentials,
		.take = take_potentials
	};

	memset(command->potentials.potentials, 0, command->potentials.count * sizeof(int64_t));
	return gk_ask_all(engine, &round);
}

/* Writes what is to be summed by buckets. */
static void
write_masses(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->masses.mass);
	gk_message_integer(message, c->masses.exponent);
	gk_message_integer(message, c->masses.bits);
}

/* Adds the buckets of a peer, whose sum over all is a sum of masses, too. */
static GkRoundProgress
take_masses(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	int64_t		count = INT64_C(1) << c->masses.bits;
	int64_t		total = 0;

	if (!add_masses(&peer->reader, count, c->masses.buckets))
		return GK_BAD;
	for (int64_t i = 0; i < count; i++)
	{
		if (c->masses.buckets[i] > GREATEST_MASS - total)
			return GK_BAD;
		total += c->masses.buckets[i];
	}
	return GK_DONE;
}

/* GK_MASSES. */
GkStatus
gk_begin_masses(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_MASSES,.is_common = true,.write = write_masses,.take = take_masses
	};

	memset(command->masses.buckets, 0, sizeof(int64_t) << command->masses.bits);
	return gk_ask_all(engine, &round);
}

/* Writes which rows are to be listed. */
static void
write_entries(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->entries.mass);
	gk_message_integer(message, c->entries.exponent);
	gk_message_integer(message, c->entries.bits);
	gk_message_integer(message, peer->at);
	gk_message_integer(message, c->entries.capacity);
	gk_message_copy(message, c->entries.wanted, INT64_C(1) << c->entries.bits, 1);
}

/* True if entry i of a list is valid: in order, of a wanted bucket, with a mass. */
static bool
is_valid_entry(const GkCommand *c, const GkEntry *entries, int64_t i, int64_t from, int64_t next)
{
	return entries[i].row >= (i > 0 ? entries[i - 1].row + 1 : from) && entries[i].row < next &&
		entries[i].mass > 0 && entries[i].mass <= GREATEST_MASS &&
		c->entries.wanted[gk_hash_bucket(entries[i].hash, c->entries.bits)];
}

/*
 * Appends the entries of a peer, unless those of the peers before it are not all there, or there
 * is no room: the next command goes on there.
 */
static GkRoundProgress
take_entries(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	int64_t		count = gk_read_integer(&peer->reader, 0, c->entries.capacity);
	int64_t		next = gk_read_integer(&peer->reader, peer->at, peer->rows);
	const GkEntry *entries = gk_read_array(&peer->reader, count, sizeof(GkEntry));

	if (!peer->reader.good || (next < peer->rows && count < c->entries.capacity))
		return GK_BAD;
	for (int64_t i = 0; i < count; i++)
	{
		if (!is_valid_entry(c, entries, i, peer->at, next))
			return GK_BAD;
		if (c->entries.next < engine->n)
			continue;
		if (c->entries.count == c->entries.capacity)
		{
			c->entries.next = peer->first + entries[i].row;
			continue;
		}
		c->entries.entries[c->entries.count] = (GkEntry) {
			.row = peer->first + entries[i].row,.hash = entries[i].hash,.mass = entries[i].mass
		};
		c->entries.count++;
	}
	if (c->entries.next == engine->n && next < peer->rows)
		c->entries.next = peer->first + next;
	return GK_DONE;
}

/* GK_ENTRIES: asks all at once, from the row on that the command begins with. */
GkStatus
gk_begin_entries(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_ENTRIES,.write = write_entries,.take = take_entries
	};

	command->entries.count = 0;
	command->entries.next = engine->n;
	gk_split_range(engine, command->entries.from, engine->n - command->entries.from);
	return gk_begin_round(engine, &round);
}

/* GK_DRAW: left to the caller, who sees the rows of all nodes as one line. */
GkStatus
gk_begin_cluster_draw(GkClusterEngine *engine, GkCommand *command)
{
	(void) engine;
	command->draw.found = -1;
	command->draw.total = 0;
	return gk_status_ok();
}

/* Writes how many labels there are. */
static void
write_label_weights(GkMessage *message, GkPeer *peer)
{
	gk_message_integer(message, peer->engine->state.labels);
}

/* Adds the weights of the labels of a peer, none of which can be negative, not even by overflow. */
static GkRoundProgress
take_label_weights(GkClusterEngine *engine, GkPeer *peer)
{
	int64_t		count = engine->state.labels;
	GkSum	   *to = engine->command->label_weights.weights;
	const GkSum *from = gk_read_array(&peer->reader, count, sizeof(GkSum));
	int			rest_bits = engine->wide ? engine->rest_bits : 0;

	for (int64_t i = 0; from != NULL && i < count; i++)
	{
		gk_add_integers((int64_t *) &to[i], (const int64_t *) &from[i], 2);
		if (gk_sum_value(from[i].high, from[i].low, rest_bits) < 0.0 ||
			gk_sum_value(to[i].high, to[i].low, rest_bits) < 0.0)
			return GK_BAD;
	}
	return from != NULL ? GK_DONE : GK_BAD;
}

/* GK_LABEL_WEIGHTS. */
GkStatus
gk_begin_label_weights(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_LABEL_WEIGHTS,.is_common = true,.write = write_label_weights,
		.take = take_label_weights
	};

	memset(command->label_weights.weights, 0, command->label_weights.count * sizeof(GkSum));
	return gk_ask_all(engine, &round);
}
