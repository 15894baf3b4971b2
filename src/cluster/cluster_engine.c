/*
 * The cluster engine: its class, and the commands.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster_state.h"

/* Rows whose labels and d² are fetched at a time. */
#define FETCH_ROWS (INT64_C(1) << 18)

/* How long a fetch waits between looks. */
#define FETCH_MILLISECONDS 10

/* The function that begins each command. */
static const GkBeginCommand beginnings[GK_OPERATIONS] = {
	[GK_SEAL] = gk_begin_seal,
	[GK_RANGE] = gk_begin_range,
	[GK_MOMENTS] = gk_begin_moments,
	[GK_TRANSFORM] = gk_begin_transform,
	[GK_GRID] = gk_begin_grid,
	[GK_CANDIDATES] = gk_begin_candidates,
	[GK_POTENTIALS] = gk_begin_potentials,
	[GK_MASSES] = gk_begin_masses,
	[GK_ENTRIES] = gk_begin_entries,
	[GK_DRAW] = gk_begin_cluster_draw,
	[GK_LABEL_WEIGHTS] = gk_begin_label_weights,
	[GK_MERGE] = gk_begin_cluster_merge,
	[GK_ROWS] = gk_begin_rows,
	[GK_COMPARE] = gk_begin_compare,
	[GK_CENTROIDS] = gk_begin_centroids,
	[GK_STEP] = gk_begin_step,
	[GK_MOVE] = gk_begin_move,
	[GK_RELOCATE] = gk_begin_relocate,
	[GK_DISTANCES] = gk_begin_distances,
	[GK_FARTHEST] = gk_begin_farthest,
	[GK_ASSIGN] = gk_begin_assign,
	[GK_STATISTICS] = gk_begin_statistics,
	[GK_SQUARES] = gk_begin_squares,
	[GK_SEPARATION] = gk_begin_separation,
	[GK_GET_CENTROIDS] = gk_begin_get_centroids
};

/* Milliseconds on a monotonic clock. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

/* Begins to measure what rounds take besides the engines of the nodes. */
static void
begin_exchange(GkClusterEngine *engine)
{
	engine->begun = now();
	engine->slowest = engine->slowest_before = 0.0;
}

/* Ends measuring. */
static void
end_exchange(GkClusterEngine *engine)
{
	double		seconds = 1e-3 * (now() - engine->begun) - engine->slowest_before - engine->slowest;

	/* a node may claim any time */
	if (seconds > 0.0)
		engine->exchange_seconds += seconds;
}

/* Ends the command. */
static void
end_command(GkClusterEngine *engine)
{
	end_exchange(engine);
	if (engine->status.code == GK_OK)
	{
		gk_note(&engine->state, engine->command, engine->centroids_before);
		if (engine->command->operation == GK_STEP)
			engine->given = true;
	}
	else
		engine->sums_own = engine->given = false;
	engine->command = NULL;
}

/* Describes the nodes to a new engine; false if memory is short. */
static bool
begin_peers(GkClusterEngine *engine, int nodes)
{
	engine->peers = calloc(nodes, sizeof(GkPeer));
	engine->first_rows = calloc(nodes + 1, sizeof(int64_t));
	for (int i = 0; engine->peers != NULL && i < nodes; i++)
	{
		engine->peers[i].engine = engine;
		engine->peers[i].number = i;
		engine->peers[i].message.memory = &engine->memory;
	}
	return engine->peers != NULL && engine->first_rows != NULL;
}

/* Makes an engine without rows. */
static GkStatus
cluster_open(const GkEngineConfig *config, GkEngine **result)
{
	GkClusterEngine *engine;

	*result = NULL;
	if (config->transport == NULL || config->transport->nodes < 1)
		return gk_status_error(GK_INTERNAL, "open", "there are no nodes");
	engine = calloc(1, sizeof(GkClusterEngine));
	if (engine == NULL || !begin_peers(engine, config->transport->nodes))
	{
		if (engine != NULL)
		{
			free(engine->peers);
			free(engine->first_rows);
		}
		free(engine);
		return gk_status_error(GK_NO_HOST_MEMORY, "calloc", "out of memory");
	}
	engine->base.class_of = gk_cluster_engine();
	engine->transport = config->transport;
	engine->memory = (GkMemory) {
		.draw = config->draw_host_memory,.give_back = config->return_host_memory
	};
	engine->common.memory = &engine->memory;
	*result = &engine->base;
	return gk_status_ok();
}

/* Nothing to do: no batch comes here. */
static GkStatus
cluster_lend_buffer(GkEngine *base, void *buffer, size_t bytes)
{
	(void) base;
	(void) buffer;
	(void) bytes;
	return gk_status_ok();
}

/* Says how wide a row is. */
static GkStatus
cluster_set_dimension(GkEngine *base, int dimension)
{
	if (dimension < 1 || dimension > GK_MAX_DIMENSION)
		return gk_status_error(GK_LIMIT, "set_dimension", "too many features");
	((GkClusterEngine *) base)->d = dimension;
	return gk_status_ok();
}

/* Refuses rows: the nodes have read theirs. */
static GkStatus
cluster_append(GkEngine *base, const GkBatch *batch, uint64_t *ticket)
{
	(void) base;
	(void) batch;
	(void) ticket;
	return gk_status_error(GK_INTERNAL, "append", "the rows of a cluster are those of its nodes");
}

/* No batch is pending. */
static GkStatus
cluster_reclaim(GkEngine *base, uint64_t *ticket)
{
	(void) base;
	*ticket = 0;
	return gk_status_ok();
}

/* Forgets the rows. */
static GkStatus
cluster_clear(GkEngine *base)
{
	GkClusterEngine *engine = (GkClusterEngine *) base;

	engine->state = (GkState) {0};
	engine->given = false;
	engine->d = 0;
	engine->n = engine->k = 0;
	engine->sums_own = engine->counted = false;
	for (int i = 0; i < engine->transport->nodes; i++)
		engine->peers[i].rows = engine->peers[i].first = 0;
	memset(engine->first_rows, 0, (engine->transport->nodes + 1) * sizeof(int64_t));
	return gk_status_ok();
}

/* True if the nodes can still tell how their sums changed after a command. */
static bool
keeps_sums(GkOperation operation)
{
	return gk_only_reads(operation) || operation == GK_DISTANCES || operation == GK_MOVE ||
		operation == GK_RELOCATE;
}

/* Begins a command. */
static GkStatus
cluster_submit(GkEngine *base, GkCommand *command)
{
	GkClusterEngine *engine = (GkClusterEngine *) base;

	engine->status = gk_status_ok();
	engine->command = command;
	engine->round = NULL;
	engine->is_first = true;
	engine->phase = 0;
	engine->at = 0;
	begin_exchange(engine);
	if (!gk_can_run(&engine->state, command))
	{
		engine->command = NULL;
		engine->status = gk_status_error(GK_INTERNAL, "submit",
										 "a command needs data that does not exist");
		return gk_status_ok();
	}
	engine->centroids_before = engine->state.centroids;
	gk_forget(&engine->state, command);
	engine->counted = engine->counted && engine->state.labels > 0;
	engine->status = beginnings[command->operation] (engine, command);
	if (!keeps_sums(command->operation))
		engine->given = false;
	if (engine->status.code != GK_OK || engine->round == NULL)
		end_command(engine);
	return gk_status_ok();
}

/* Goes on with the command for at most this long. */
static GkStatus
cluster_wait(GkEngine *base, int milliseconds)
{
	GkClusterEngine *engine = (GkClusterEngine *) base;
	double		end = now() + milliseconds;

	while (engine->command != NULL)
	{
		double		left = end - now();
		/* rounded up: whoever looks without waiting keeps a processor from the nodes */
		GkRoundProgress progress = gk_go_on(engine, left < 0.0 ? 0 : (int) left + 1);

		if (progress != GK_MORE)
			end_command(engine);
		else if (left < 0.0)
			return gk_status_running();
	}
	return engine->status;
}

/* Fetches a window of labels and d². */
static GkStatus
fetch_window(GkClusterEngine *engine, int64_t from, int64_t count)
{
	static const GkRound round = {
		.operation = GK_FETCH,.write = gk_write_fetch,.take = gk_take_fetch
	};
	GkRoundProgress progress = GK_MORE;

	engine->at = from;
	engine->centroids_before = engine->state.centroids;
	engine->status = gk_status_ok();
	begin_exchange(engine);
	gk_split_range(engine, from, count);
	engine->status = gk_begin_round(engine, &round);
	while (engine->status.code == GK_OK && progress == GK_MORE)
		progress = gk_go_on(engine, FETCH_MILLISECONDS);
	end_exchange(engine);
	return engine->status;
}

/* Copies labels and d² of a range of rows; the transport decides whether that is interrupted. */
static GkStatus
cluster_fetch(GkEngine *base, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	GkClusterEngine *engine = (GkClusterEngine *) base;
	GkStatus	status = gk_status_ok();

	if (engine->command != NULL)
		return gk_status_error(GK_INTERNAL, "fetch", "a command is running");
	if (from < 0 || count < 0 || count > engine->n - from)
		return gk_status_error(GK_INTERNAL, "fetch", "there are no such rows");
	if (distance2 != NULL && !engine->state.distances)
		return gk_status_error(GK_INTERNAL, "fetch", "there are no distances");
	for (int64_t row = from; row < from + count && status.code == GK_OK; row += FETCH_ROWS)
	{
		int64_t		rows = from + count - row < FETCH_ROWS ? from + count - row : FETCH_ROWS;

		engine->wanted = (GkWantedRows) {
			.asked = (labels != NULL ? GK_ASK_LABELS : 0) |
				(distance2 != NULL ? GK_ASK_DISTANCES : 0),
			.labels = labels == NULL ? NULL : labels + (row - from),
			.weights = distance2 == NULL ? NULL : distance2 + (row - from)
		};
		status = fetch_window(engine, row, rows);
	}
	return status;
}

/* The memory here; that of the nodes is in their reports. */
static void
cluster_usage(const GkEngine *base, GkUsage *usage)
{
	const GkClusterEngine *engine = (const GkClusterEngine *) base;

	memset(usage, 0, sizeof(*usage));
	usage->host_bytes = engine->memory.bytes;
	usage->host_peak = engine->memory.peak;
	usage->threads = 1;
}

/* Frees all memory but the engine itself. */
static void
free_rooms(GkClusterEngine *engine)
{
	GkRoom	   *rooms[] = {
		&engine->common.room, &engine->exponents, &engine->origin, &engine->centroids,
		&engine->moved, &engine->sums, &engine->shifts, &engine->mean, &engine->owners,
		&engine->pair_owners, &engine->features, &engine->weights, &engine->labels,
		&engine->numbers, &engine->entries, &engine->has_rows
	};

	for (int i = 0; i < engine->transport->nodes; i++)
		gk_room_free(&engine->memory, &engine->peers[i].message.room);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++)
		gk_room_free(&engine->memory, rooms[i]);
	free(engine->peers);
	free(engine->first_rows);
}

/* Gives the exchange up, and frees the engine. */
static void
cluster_close(GkEngine *base)
{
	GkClusterEngine *engine = (GkClusterEngine *) base;

	if (engine == NULL)
		return;
	if (engine->transport->end != NULL)
		engine->transport->end(engine->transport->context);
	free_rooms(engine);
	free(engine);
}

/* The number of the first row of each node, and the number of all rows behind. */
const int64_t *
gk_cluster_first_rows(const GkEngine *engine)
{
	return ((const GkClusterEngine *) engine)->first_rows;
}

/* The work of a node so far. */
void
gk_cluster_report(const GkEngine *engine, int node, GkNodeReport *report)
{
	*report = ((const GkClusterEngine *) engine)->peers[node].report;
}

/* Seconds that commands took besides the node that was slowest in each round. */
double
gk_cluster_exchange_seconds(const GkEngine *engine)
{
	return ((const GkClusterEngine *) engine)->exchange_seconds;
}

/* The class of the cluster engine. */
const GkEngineClass *
gk_cluster_engine(void)
{
	static const GkEngineClass class_of = {
		.interface = GK_ENGINE_INTERFACE,
		.name = "cluster",
		.open = cluster_open,
		.lend_buffer = cluster_lend_buffer,
		.set_dimension = cluster_set_dimension,
		.append = cluster_append,
		.reclaim = cluster_reclaim,
		.clear = cluster_clear,
		.submit = cluster_submit,
		.wait = cluster_wait,
		.fetch = cluster_fetch,
		.usage = cluster_usage,
		.close = cluster_close,
		.doubt = gk_cluster_doubt
	};

	return &class_of;
}
