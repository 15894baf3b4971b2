/*
 * The commands of the iteration.  The nodes give the sums of their rows; the update is made here,
 * and the centroids that moved go out with the next command that uses them.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cluster_state.h"
#include "update.h"

/* The most that a value of a row may be on the grid. */
#define GREATEST_VALUE 0x1p52

/* What finish functions are at. */
enum
{
	MOVE_ROWS,
	UPDATE,
	MOVE_BACK
};

/* The number of integers in one limb of the sums. */
static int64_t
limb_of(const GkClusterEngine *engine)
{
	return engine->k * (engine->d + 1);
}

/* The sums that a step adds up: those of the caller, or the own ones. */
static int64_t *
step_sums(const GkClusterEngine *engine)
{
	int64_t    *sums = engine->command->step.sums;

	return sums != NULL ? sums : engine->sums.base;
}

/* How centroids are made of the sums. */
static GkUpdate
describe_update(const GkClusterEngine *engine)
{
	return (GkUpdate) {
		.dimension = engine->d,.spherical = engine->spherical,
		.grid = {
			.wide = engine->wide,.rest_bits = engine->wide ? engine->rest_bits : 0,
			.exponents = engine->exponents.base,.origin = engine->origin.base
		}
	};
}

/* The sums of a cluster; the second limbs, NULL if there are none. */
static int64_t *
highs_of(const GkClusterEngine *engine, int64_t cluster)
{
	return (int64_t *) engine->sums.base + cluster * (engine->d + 1);
}
static int64_t *
lows_of(const GkClusterEngine *engine, int64_t cluster)
{
	return engine->wide ? highs_of(engine, cluster) + limb_of(engine) : NULL;
}

/* True if a cluster has no weight. */
static bool
is_empty(const GkClusterEngine *engine, int64_t cluster)
{
	GkUpdate	update = describe_update(engine);

	return !(gk_update_value(&update, highs_of(engine, cluster), lows_of(engine, cluster),
							 engine->d) > 0.0);
}

/* Writes the grid. */
static void
write_grid(GkMessage *message, GkPeer *peer)
{
	const GkGrid *grid = &peer->engine->command->grid;

	gk_message_integer(message, grid->wide);
	gk_message_integer(message, grid->rest_bits);
	gk_message_copy(message, grid->exponents, peer->engine->d + 1, sizeof(int));
	gk_message_copy(message, grid->origin, peer->engine->d, sizeof(double));
}

/* GK_GRID: kept here, too. */
GkStatus
gk_begin_grid(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {.operation = GK_GRID,.is_common = true,.write = write_grid};
	const GkGrid *grid = &command->grid;
	GkStatus	status = gk_room_need(&engine->memory, &engine->exponents, engine->d + 1,
									  sizeof(int));

	if (status.code == GK_OK)
		status = gk_room_need(&engine->memory, &engine->origin, engine->d, sizeof(double));
	if (status.code != GK_OK)
		return status;
	memcpy(engine->exponents.base, grid->exponents, (engine->d + 1) * sizeof(int));
	memcpy(engine->origin.base, grid->origin, engine->d * sizeof(double));
	engine->wide = grid->wide;
	engine->rest_bits = grid->rest_bits;
	engine->sums_own = false;
	return gk_ask_all(engine, &round);
}

/* Writes all centroids. */
static void
write_centroids(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->centroids.spherical);
	gk_message_integer(message, c->centroids.k);
	gk_message_copy(message, c->centroids.centroids, c->centroids.k * peer->engine->d,
					sizeof(double));
}

/* GK_CENTROIDS: kept here, too. */
GkStatus
gk_begin_centroids(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_CENTROIDS,.is_common = true,.write = write_centroids
	};
	int64_t		k = command->centroids.k;
	int			d = engine->d;
	GkStatus	status;

	if (k < 1 || k > GK_MAX_CLUSTERS)
		return gk_status_error(GK_LIMIT, "centroids", "too many clusters");
	status = gk_room_need(&engine->memory, &engine->centroids, k * d, sizeof(double));
	if (status.code == GK_OK)
		status = gk_room_need(&engine->memory, &engine->moved, k, 1);
	if (status.code == GK_OK)
		status = gk_room_need(&engine->memory, &engine->shifts, k, 2 * sizeof(double));
	if (status.code == GK_OK)
		status = gk_room_need(&engine->memory, &engine->mean, d, 2 * sizeof(double));
	if (status.code != GK_OK)
		return status;
	memcpy(engine->centroids.base, command->centroids.centroids, k * d * sizeof(double));
	memset(engine->moved.base, 0, k);
	engine->k = k;
	engine->spherical = command->centroids.spherical;
	engine->sums_own = false;
	return gk_ask_all(engine, &round);
}

/* Writes the centroids that the nodes do not have yet. */
static void
write_moves(GkMessage *message, GkPeer *peer)
{
	const GkClusterEngine *engine = peer->engine;
	const uint8_t *moved = engine->moved.base;
	const double *centroids = engine->centroids.base;
	int			d = engine->d;
	int64_t		count = 0;
	int32_t    *clusters;
	double	   *fresh;

	for (int64_t c = 0; c < engine->k; c++)
		count += moved[c];
	gk_message_integer(message, count);
	clusters = gk_message_add(message, count, sizeof(int32_t));
	fresh = gk_message_add(message, count * d, sizeof(double));
	for (int64_t c = 0; c < engine->k && fresh != NULL; c++)
		if (moved[c])
		{
			*clusters++ = (int32_t) c;
			memcpy(fresh, centroids + c * d, d * sizeof(double));
			fresh += d;
		}
}

/* Begins a round whose message brings the centroids that moved: with these, nodes forget d². */
static GkStatus
ask_with_moves(GkClusterEngine *engine, const GkRound *round)
{
	GkStatus	status = gk_ask_all(engine, round);

	if (memchr(engine->moved.base, 1, engine->k) != NULL)
		engine->state.distances = false;
	memset(engine->moved.base, 0, engine->k);
	return status;
}

/* Writes a step. */
static void
write_step(GkMessage *message, GkPeer *peer)
{
	const GkClusterEngine *engine = peer->engine;
	const GkCommand *c = engine->command;

	gk_message_integer(message, c->step.sums != NULL ? c->step.changes : engine->sums_own);
	write_moves(message, peer);
}

/* Sets the sums to 0, a piece of them. */
static GkRoundProgress
clear_sums(GkClusterEngine *engine)
{
	int64_t		all = limb_of(engine) * (engine->wide ? 2 : 1);
	int64_t		count = all - engine->at < GK_PIECE ? all - engine->at : GK_PIECE;

	memset(step_sums(engine) + engine->at, 0, count * sizeof(int64_t));
	engine->at += count;
	return engine->at < all ? GK_MORE : GK_DONE;
}

/* Reads the answer to a step. */
static GkRoundProgress
begin_step_answer(GkClusterEngine *engine, GkPeer *peer)
{
	int64_t		changed = gk_read_integer(&peer->reader, 0, peer->rows);
	int64_t		width = engine->d + 1;

	peer->count = gk_read_integer(&peer->reader, 0, engine->k);
	peer->clusters = gk_read_numbers(&peer->reader, peer->count, 0, (int32_t) (engine->k - 1));
	peer->sums = gk_read_array(&peer->reader, peer->count * width * (engine->wide ? 2 : 1),
							   sizeof(int64_t));
	peer->at = 0;
	peer->begun = true;
	engine->command->step.changed += changed;
	return peer->reader.good ? GK_MORE : GK_BAD;
}

/* Adds the sums of a peer, a piece of them. */
static GkRoundProgress
take_step(GkClusterEngine *engine, GkPeer *peer)
{
	int64_t		width = engine->d + 1;
	int64_t    *sums = step_sums(engine);
	int64_t		end;

	if (engine->phase == 0)
	{
		engine->phase += clear_sums(engine) == GK_DONE;
		return GK_MORE;
	}
	if (!peer->begun)
		return begin_step_answer(engine, peer);
	end = peer->at + 1 + GK_PIECE / width;
	for (; peer->at < peer->count && peer->at < end; peer->at++)
	{
		int64_t    *to = sums + peer->clusters[peer->at] * width;
		const int64_t *from = peer->sums + peer->at * width;

		gk_add_integers(to, from, width);
		if (engine->wide)
			gk_add_integers(to + limb_of(engine), from + peer->count * width, width);
	}
	return peer->at < peer->count ? GK_MORE : GK_DONE;
}

/* Makes the new centroid of a cluster; notes whether it differs. */
static void
update_cluster(GkClusterEngine *engine, const GkUpdate *update, int64_t cluster)
{
	size_t		bytes = engine->d * sizeof(double);
	double	   *centroid = (double *) engine->centroids.base + cluster * engine->d;
	double	   *mean = engine->mean.base;
	double	   *old = mean + engine->d;
	double	   *shifts = engine->shifts.base;

	memcpy(old, centroid, bytes);
	shifts[cluster] = gk_update_centroid(update, highs_of(engine, cluster),
										 lows_of(engine, cluster), mean, centroid,
										 &shifts[engine->k + cluster]);
	if (memcmp(old, centroid, bytes) != 0)
		((uint8_t *) engine->moved.base)[cluster] = 1;
}

/* Makes new centroids, a piece of them. */
static GkRoundProgress
update_centroids(GkClusterEngine *engine, double *shift2, double *between)
{
	GkUpdate	update = describe_update(engine);
	int64_t		end = engine->at + 1 + GK_PIECE / engine->d;

	for (; engine->at < engine->k && engine->at < end; engine->at++)
		update_cluster(engine, &update, engine->at);
	if (engine->at < engine->k)
		return GK_MORE;
	*shift2 = gk_ordered_sum(engine->shifts.base, engine->k);
	*between = gk_ordered_sum((double *) engine->shifts.base + engine->k, engine->k);
	return GK_DONE;
}

/* After the sums of all peers: the caller's affair, or new centroids unless clusters are empty. */
static GkRoundProgress
finish_step(GkClusterEngine *engine)
{
	GkCommand  *c = engine->command;

	if (c->step.sums != NULL)
		return GK_DONE;
	if (engine->phase == 1)
	{
		engine->phase = 2;
		engine->at = 0;
		engine->sums_own = true;
		for (int64_t i = 0; i < engine->k; i++)
			c->step.empty += is_empty(engine, i);
	}
	if (c->step.empty == 0)
		return update_centroids(engine, &c->step.shift2, &c->step.between);
	for (int64_t i = 0; i < engine->k && c->step.is_empty != NULL; i++)
		c->step.is_empty[i] = is_empty(engine, i);
	return GK_DONE;
}

/* GK_STEP: whole sums unless the nodes gave theirs before, then what changed. */
GkStatus
gk_begin_step(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_STEP,.is_common = true,.write = write_step,.take = take_step,
		.finish = finish_step
	};
	bool		changes;
	GkStatus	status = gk_room_need(&engine->memory, &engine->sums, limb_of(engine),
									  (engine->wide ? 2 : 1) * sizeof(int64_t));

	command->step.changed = command->step.empty = command->step.earlier = 0;
	command->step.shift2 = command->step.between = 0.0;
	if (status.code != GK_OK || engine->n == 0)
		return status;
	engine->sums_own = engine->sums_own && engine->given && command->step.sums == NULL;
	changes = engine->sums_own;
	status = ask_with_moves(engine, &round);
	/* those of the caller are cleared even if they are changes */
	engine->phase = changes;
	engine->sums_own = false;
	return status;
}

/* GK_MOVE: the nodes get them with the next command that uses them. */
GkStatus
gk_begin_move(GkClusterEngine *engine, GkCommand *command)
{
	size_t		bytes = engine->d * sizeof(double);
	uint8_t    *moved = engine->moved.base;

	for (int64_t c = 0; c < engine->k; c++)
	{
		double	   *centroid = (double *) engine->centroids.base + c * engine->d;
		const double *fresh = command->move.centroids + c * engine->d;

		moved[c] |= memcmp(centroid, fresh, bytes) != 0;
		memcpy(centroid, fresh, bytes);
	}
	return gk_status_ok();
}

/* Adds a value, or (sign -1) takes it away; false if it is too large for the grid. */
static bool
add_value(const GkClusterEngine *engine, int64_t cluster, int j, double value, int sign)
{
	double		scale = gk_power_of_two(((const int *) engine->exponents.base)[j]);
	int64_t    *lows = lows_of(engine, cluster);
	int64_t		high;
	int64_t		low;

	if (!(fabs(value * scale) <= GREATEST_VALUE))
		return false;
	high = sign * gk_quantize(value, scale);
	gk_add_integers(highs_of(engine, cluster) + j, &high, 1);
	low = sign * gk_quantize_rest(value, scale, gk_power_of_two(engine->rest_bits));
	if (lows != NULL)
		gk_add_integers(lows + j, &low, 1);
	return true;
}

/* Adds row i of those that were fetched to the sums of a cluster, or takes it away. */
static bool
add_row(const GkClusterEngine *engine, int64_t i, int64_t cluster, int sign)
{
	const float *x = (const float *) engine->features.base + i * engine->d;
	double		weight = ((const double *) engine->weights.base)[i];
	bool		good = add_value(engine, cluster, engine->d, weight, sign);

	for (int j = 0; j < engine->d; j++)
		good = good && add_value(engine, cluster, j, weight * x[j], sign);
	return good;
}

/* Moves rows of a relocation to their clusters, or back, a piece of them. */
static GkRoundProgress
move_rows(GkClusterEngine *engine, bool back)
{
	const GkCommand *c = engine->command;
	const int32_t *labels = engine->labels.base;
	int64_t		end = engine->at + 1 + GK_PIECE / 8 / engine->d;

	for (; engine->at < c->relocate.count && engine->at < end; engine->at++)
	{
		int64_t		own = labels[engine->at];
		int64_t		other = c->relocate.clusters[engine->at];

		if (own >= engine->k || !add_row(engine, engine->at, own, back ? 1 : -1) ||
			!add_row(engine, engine->at, other, back ? -1 : 1))
			return GK_BAD;
	}
	return engine->at < c->relocate.count ? GK_MORE : GK_DONE;
}

/* The update of a step with rows lent to its empty clusters; the sums are as before then. */
static GkRoundProgress
finish_relocate(GkClusterEngine *engine)
{
	GkCommand  *c = engine->command;
	GkRoundProgress progress = engine->phase == UPDATE
		? update_centroids(engine, &c->relocate.shift2, &c->relocate.between)
		: move_rows(engine, engine->phase == MOVE_BACK);

	if (progress != GK_DONE)
		return progress;
	engine->at = 0;
	if (engine->phase == MOVE_BACK)
	{
		engine->sums_own = true;
		return GK_DONE;
	}
	engine->phase++;
	return GK_MORE;
}

/* GK_RELOCATE: the nodes tell the rows that move. */
GkStatus
gk_begin_relocate(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_ROWS,.write = gk_write_wanted,.take = gk_take_wanted,
		.finish = finish_relocate
	};

	command->relocate.shift2 = command->relocate.between = 0.0;
	engine->sums_own = false;
	return gk_fetch_wanted(engine, command->relocate.rows, command->relocate.count,
						   GK_ASK_WEIGHTS | GK_ASK_LABELS, &round);
}

/* GK_DISTANCES. */
GkStatus
gk_begin_distances(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_DISTANCES,.is_common = true,.write = write_moves
	};

	(void) command;
	return ask_with_moves(engine, &round);
}

/* Takes how many labels changed, and the greatest distances. */
static GkRoundProgress
take_assign(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	int64_t		changed = gk_read_integer(&peer->reader, 0, peer->rows);
	double		greatest = gk_read_double(&peer->reader, 0.0, DBL_MAX);
	double		greatest_distance = gk_read_double(&peer->reader, 0.0, DBL_MAX);

	c->assign.changed += changed;
	if (greatest > c->assign.greatest)
		c->assign.greatest = greatest;
	if (greatest_distance > c->assign.greatest_distance)
		c->assign.greatest_distance = greatest_distance;
	return GK_DONE;
}

/* GK_ASSIGN. */
GkStatus
gk_begin_assign(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_ASSIGN,.is_common = true,.write = write_moves,.take = take_assign
	};

	command->assign.changed = 0;
	command->assign.greatest = command->assign.greatest_distance = 0.0;
	return ask_with_moves(engine, &round);
}

/* Writes the grids of the statistics. */
static void
write_statistics(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->statistics.inertia_exponent);
	gk_message_integer(message, c->statistics.distance_exponent);
	gk_message_integer(message, c->statistics.rest_bits);
}

/* True if the sizes of the clusters are those of so many rows. */
static bool
add_up_to(const int64_t *sizes, int64_t k, int64_t rows)
{
	for (int64_t i = 0; i < k; i++)
	{
		if (sizes[i] > rows)
			return false;
		rows -= sizes[i];
	}
	return rows == 0;
}

/* Adds the statistics of a peer. */
static GkRoundProgress
take_statistics(GkClusterEngine *engine, GkPeer *peer)
{
	GkCommand  *c = engine->command;
	int64_t		k = engine->k;
	const int64_t *sizes = gk_read_integers(&peer->reader, k, 0, peer->rows);
	const int64_t *weights = gk_read_array(&peer->reader, 2 * k, sizeof(int64_t));
	const int64_t *inertia = gk_read_array(&peer->reader, 2 * k, sizeof(int64_t));
	const int64_t *distance = gk_read_array(&peer->reader, 2 * k, sizeof(int64_t));
	const double *radius2 = gk_read_doubles(&peer->reader, k, DBL_MAX);

	if (!peer->reader.good || !add_up_to(sizes, k, peer->rows))
		return GK_BAD;
	gk_add_integers(c->statistics.sizes, sizes, k);
	gk_add_integers((int64_t *) c->statistics.weights, weights, 2 * k);
	gk_add_integers((int64_t *) c->statistics.inertia, inertia, 2 * k);
	gk_add_integers((int64_t *) c->statistics.distance, distance, 2 * k);
	for (int64_t i = 0; i < k; i++)
		if (radius2[i] > c->statistics.radius2[i])
			c->statistics.radius2[i] = radius2[i];
	return GK_DONE;
}

/* Notes which labels have rows. */
static GkRoundProgress
finish_statistics(GkClusterEngine *engine)
{
	uint8_t    *has_rows = engine->has_rows.base;

	for (int64_t i = 0; i < engine->k; i++)
		has_rows[i] = engine->command->statistics.sizes[i] > 0;
	engine->counted = true;
	return GK_DONE;
}

/* GK_STATISTICS. */
GkStatus
gk_begin_statistics(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_STATISTICS,.is_common = true,.write = write_statistics,
		.take = take_statistics,.finish = finish_statistics
	};
	int64_t		k = engine->k;
	GkStatus	status = gk_room_need(&engine->memory, &engine->has_rows, k, 1);

	if (status.code != GK_OK)
		return status;
	memset(command->statistics.sizes, 0, k * sizeof(int64_t));
	memset(command->statistics.weights, 0, k * sizeof(GkSum));
	memset(command->statistics.inertia, 0, k * sizeof(GkSum));
	memset(command->statistics.distance, 0, k * sizeof(GkSum));
	memset(command->statistics.radius2, 0, k * sizeof(double));
	return gk_ask_all(engine, &round);
}

/* Writes the grids of the squares. */
static void
write_squares(GkMessage *message, GkPeer *peer)
{
	const GkCommand *c = peer->engine->command;

	gk_message_integer(message, c->squares.rest_bits);
	gk_message_copy(message, c->squares.exponents, peer->engine->d + 1, sizeof(int));
	write_moves(message, peer);
}

/* Adds the squares of a peer, a piece of them. */
static GkRoundProgress
take_squares(GkClusterEngine *engine, GkPeer *peer)
{
	int64_t		all = 2 * limb_of(engine);
	int64_t		count;

	if (!peer->begun)
	{
		peer->sums = gk_read_array(&peer->reader, all, sizeof(int64_t));
		peer->at = 0;
		peer->begun = true;
		return peer->reader.good ? GK_MORE : GK_BAD;
	}
	count = all - peer->at < GK_PIECE ? all - peer->at : GK_PIECE;
	gk_add_integers(engine->command->squares.sums + peer->at, peer->sums + peer->at, count);
	peer->at += count;
	return peer->at < all ? GK_MORE : GK_DONE;
}

/* GK_SQUARES. */
GkStatus
gk_begin_squares(GkClusterEngine *engine, GkCommand *command)
{
	static const GkRound round = {
		.operation = GK_SQUARES,.is_common = true,.write = write_squares,.take = take_squares
	};

	memset(command->squares.sums, 0, 2 * limb_of(engine) * sizeof(int64_t));
	engine->sums_own = false;
	return ask_with_moves(engine, &round);
}

/* GK_GET_CENTROIDS: they are here. */
GkStatus
gk_begin_get_centroids(GkClusterEngine *engine, GkCommand *command)
{
	memcpy(command->get_centroids.centroids, engine->centroids.base,
		   (size_t) engine->k * engine->d * sizeof(double));
	return gk_status_ok();
}
