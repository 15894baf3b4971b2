/*
 * The ends of an engine: closed in the middle of every command, and every call failing.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_drive.h"
#include "engine_ends.h"

const GkOperation command_order[COMMANDS] = {
	GK_SEAL, GK_RANGE, GK_MOMENTS, GK_TRANSFORM, GK_GRID, GK_CANDIDATES, GK_POTENTIALS, GK_MASSES,
	GK_ENTRIES, GK_DRAW, GK_LABEL_WEIGHTS, GK_MERGE, GK_ROWS, GK_COMPARE, GK_CENTROIDS, GK_STEP,
	GK_DISTANCES, GK_FARTHEST, GK_RELOCATE, GK_MOVE, GK_ASSIGN, GK_STATISTICS, GK_SQUARES,
	GK_SEPARATION, GK_GET_CENTROIDS
};

#define BUCKET_BITS 10
#define MOST_ENTRIES 65536

/* Points that are merged; the few are more than one tile of them. */
#define MANY_POINTS 20000
#define FEW_POINTS 300

/* Makes the room. */
Room
make_room(const Data *data)
{
	Room		room = {.data = data};

	room.entries = data->n < MOST_ENTRIES ? data->n : MOST_ENTRIES;
	room.bytes = (data->k + 1) * (data->d + 1) * sizeof(GkSum) + room.entries * sizeof(GkEntry) +
		(sizeof(int64_t) << BUCKET_BITS) + data->n * sizeof(double);
	room.centroids = malloc(data->k * data->d * sizeof(double));
	memcpy(room.centroids, data->centroids, data->k * data->d * sizeof(double));
	memcpy(room.centroids + data->d, room.centroids, data->d * sizeof(double));
	room.moved = malloc((size_t) data->k * data->d * sizeof(double));
	for (int64_t i = 0; i < data->k; i++)
		memcpy(room.moved + i * data->d, data->centroids + (data->k - 1 - i) * data->d,
			   data->d * sizeof(double));
	room.ones = malloc(data->d * sizeof(double));
	for (int j = 0; j < data->d; j++)
		room.ones[j] = 1.0;
	room.zeros = calloc(data->d, sizeof(double));
	room.exponents = calloc(data->d + 1, sizeof(int));
	room.wanted = memset(malloc(1 << BUCKET_BITS), 1, 1 << BUCKET_BITS);
	room.is_empty = calloc((size_t) data->k, 1);
	room.row = calloc(1, sizeof(int64_t));
	room.cluster = malloc(sizeof(int64_t));
	*room.cluster = 1;
	room.pairs = calloc(room.entries, sizeof(int64_t));
	room.groups = calloc(data->n, sizeof(int32_t));
	room.weights = malloc(data->n * sizeof(double));
	for (int64_t i = 0; i < data->n; i++)
		room.weights[i] = 1.0;
	room.ends = malloc(data->k * sizeof(int64_t));
	for (int64_t i = 0; i < data->k; i++)
		room.ends[i] = i + 1;
	for (int i = 0; i < 5; i++)
		room.out[i] = calloc(1, room.bytes);
	return room;
}

/* Frees the room. */
void
free_room(Room *room)
{
	free(room->centroids);
	free(room->moved);
	free(room->ones);
	free(room->zeros);
	free(room->exponents);
	free(room->wanted);
	free(room->is_empty);
	free(room->row);
	free(room->cluster);
	free(room->pairs);
	free(room->groups);
	free(room->weights);
	free(room->ends);
	for (int i = 0; i < 5; i++)
		free(room->out[i]);
}

/* A command about the rows. */
static void
fill_data_command(GkCommand *c, Room *room)
{
	switch (c->operation)
	{
		case GK_RANGE:
			c->range.least = room->out[0];
			c->range.greatest = room->out[1];
			break;
		case GK_MOMENTS:
			c->moments.pivot = room->zeros;
			c->moments.first_exponents = room->exponents;
			c->moments.second_exponents = room->exponents;
			c->moments.rest_bits = REST_BITS;
			c->moments.first = room->out[0];
			c->moments.second = room->out[1];
			c->moments.exponent_sum = room->out[2];
			c->moments.nonzero = room->out[3];
			break;
		case GK_TRANSFORM:
			c->transform.offset = room->zeros;
			c->transform.factor = room->ones;
			break;
		case GK_GRID:
			c->grid.rest_bits = REST_BITS;
			c->grid.exponents = room->exponents;
			c->grid.origin = room->zeros;
			break;
		case GK_ROWS:
			c->rows.rows = room->row;
			c->rows.count = 1;
			c->rows.features = room->out[0];
			c->rows.weights = room->out[1];
			break;
		case GK_COMPARE:
			c->compare.rows = c->compare.others = room->pairs;
			c->compare.count = room->entries;
			c->compare.order = room->out[0];
			break;
		default:
			break;
	}
}

/* A command of seeding; many candidates take long. */
static void
fill_seed_command(GkCommand *c, Room *room, bool many)
{
	int64_t		k = room->data->k;

	switch (c->operation)
	{
		case GK_CANDIDATES:
			c->candidates.candidates = room->centroids;
			c->candidates.count = many || k < 5 ? k : 5;
			break;
		case GK_POTENTIALS:
			c->potentials.trials = room->centroids;
			c->potentials.count = (int) (k < 64 ? k : 64);
			c->potentials.potentials = room->out[0];
			break;
		case GK_MASSES:
			c->masses.mass = GK_MASS_DISTANCE;
			c->masses.bits = BUCKET_BITS;
			c->masses.buckets = room->out[0];
			break;
		case GK_ENTRIES:
			c->entries.mass = GK_MASS_DISTANCE;
			c->entries.bits = BUCKET_BITS;
			c->entries.wanted = room->wanted;
			c->entries.capacity = room->entries;
			c->entries.entries = room->out[0];
			break;
		case GK_DRAW:
			c->draw.mass = GK_MASS_DISTANCE;
			c->draw.count = many || k < 5 ? k : 5;
			c->draw.features = room->out[0];
			break;
		case GK_LABEL_WEIGHTS:
			c->label_weights.count = k;
			c->label_weights.weights = room->out[0];
			break;
		case GK_MERGE:
			c->merge.points = room->data->x;
			c->merge.weights = room->weights;
			c->merge.count = room->data->n < (many ? MANY_POINTS : FEW_POINTS)
				? room->data->n : (many ? MANY_POINTS : FEW_POINTS);
			c->merge.wanted = c->merge.count / 2 + 1;
			c->merge.into = room->out[0];
			c->merge.rounds = room->out[1];
			c->merge.costs = room->out[2];
			break;
		default:
			break;
	}
}

/* A command of the iterations; few centroids make the commands before the one that counts quick. */
static void
fill_fit_command(GkCommand *c, Room *room, bool many)
{
	int64_t		k = room->data->k;

	switch (c->operation)
	{
		case GK_CENTROIDS:
			c->centroids.centroids = room->centroids;
			c->centroids.k = many || k < 5 ? k : 5;
			break;
		case GK_STEP:
			c->step.is_empty = room->is_empty;
			break;
		case GK_MOVE:
			c->move.centroids = room->moved;
			break;
		case GK_FARTHEST:
			c->farthest.count = 1;
			c->farthest.entries = room->out[0];
			break;
		case GK_RELOCATE:
			c->relocate.rows = room->row;
			c->relocate.clusters = room->cluster;
			c->relocate.count = 1;
			break;
		case GK_GET_CENTROIDS:
			c->get_centroids.centroids = room->out[0];
			break;
		default:
			break;
	}
}

/* A command that measures the clusters. */
static void
fill_figures_command(GkCommand *c, Room *room, bool many)
{
	int64_t		k = room->data->k;

	switch (c->operation)
	{
		case GK_STATISTICS:
			c->statistics.rest_bits = REST_BITS;
			c->statistics.sizes = room->out[0];
			c->statistics.weights = room->out[1];
			c->statistics.inertia = room->out[2];
			c->statistics.distance = room->out[3];
			c->statistics.radius2 = room->out[4];
			break;
		case GK_SQUARES:
			c->squares.exponents = room->exponents;
			c->squares.rest_bits = REST_BITS;
			c->squares.sums = room->out[0];
			break;
		case GK_SEPARATION:
			c->separation.points = room->centroids;
			c->separation.ends = room->ends;
			c->separation.groups = many || k < 5 ? k : 5;
			c->separation.count = room->data->n;
			c->separation.labels = room->groups;
			c->separation.own = room->out[0];
			c->separation.other = room->out[1];
			break;
		default:
			break;
	}
}

/* A command with its inputs, on all centroids or candidates, or on a few. */
GkCommand
fill_command(GkOperation operation, Room *room, bool many)
{
	GkCommand	c;

	memset(&c, 0, sizeof(c));
	c.operation = operation;
	fill_data_command(&c, room);
	fill_seed_command(&c, room, many);
	fill_fit_command(&c, room, many);
	fill_figures_command(&c, room, many);
	return c;
}

/* Command number i of the order; those before a long one prepare it. */
static GkCommand
make_command(Room *room, int i, int last)
{
	GkOperation operation = command_order[i];
	GkOperation aim = command_order[last];
	bool		many = aim == GK_STEP || aim == GK_ASSIGN;

	return fill_command(operation, room, i == last || (operation == GK_CENTROIDS && many));
}

/* Appends rows, and waits until the engine has read them. */
static GkStatus
append_batch(GkEngine *engine, const GkBatch *batch)
{
	uint64_t	ticket = 0;
	uint64_t	done = 0;
	GkStatus	status = engine->class_of->append(engine, batch, &ticket);

	while (status.code == GK_OK && done < ticket)
		status = engine->class_of->reclaim(engine, &done);
	return status;
}

/* Sets the number of features and appends all rows at once. */
GkStatus
append_all(GkEngine *engine, const Data *data)
{
	GkBatch		batch = {data->n, data->x, data->weighted ? data->w : NULL};
	GkStatus	status = engine->class_of->set_dimension(engine, data->d);

	return status.code == GK_OK ? append_batch(engine, &batch) : status;
}

/*
 * Closes an engine; returns the seconds that this took.  On CPUs these are what a thread worked,
 * since a busy machine is no failure.
 */
static double
close_engine(GkEngine *engine, const GkUsage *usage)
{
	double		start = now();
	double		start_of_work = worked();

	engine->class_of->close(engine);
	return usage->devices == 0 ? (worked() - start_of_work) / usage->threads : now() - start;
}

/*
 * Closes an engine this many milliseconds after command number `last` of the order was
 * submitted, with all earlier ones done; returns the seconds that closing took.
 */
double
close_in_command(const GkEngineClass *class_of, const Data *data, Feeding feeding, int last,
				 int milliseconds, bool *was_running)
{
	GkEngine   *engine = open_engine(class_of, data->weighted, feeding);
	Room		room = make_room(data);
	GkCommand	c;
	GkUsage		usage;
	double		seconds;

	check_status(append_all(engine, data));
	for (int i = 0; i < last; i++)
	{
		c = make_command(&room, i, last);
		run(engine, &c);
	}
	c = make_command(&room, last, last);
	engine->class_of->usage(engine, &usage);
	check_status(engine->class_of->submit(engine, &c));
	*was_running = engine->class_of->wait(engine, milliseconds).code == GK_RUNNING;
	seconds = close_engine(engine, &usage);
	free_room(&room);
	return seconds;
}

/*
 * Closes an engine after this many batches of 4 MB; returns the seconds that closing took.
 */
double
close_spilled(const GkEngineClass *class_of, int64_t batches, Feeding feeding)
{
	GkEngine   *engine = open_engine(class_of, false, feeding);
	float	   *x = calloc(4000 * 250, sizeof(float));
	GkBatch		batch = {4000, x, NULL};
	GkUsage		usage;

	check_status(engine->class_of->set_dimension(engine, 250));
	for (int64_t i = 0; i < batches; i++)
		check_status(append_batch(engine, &batch));
	free(x);
	engine->class_of->usage(engine, &usage);
	return close_engine(engine, &usage);
}

/* Runs a command to its end, good or bad. */
GkStatus
run_one(GkEngine *engine, GkCommand *command)
{
	GkStatus	status = engine->class_of->submit(engine, command);

	if (status.code != GK_OK)
		return status;
	while ((status = engine->class_of->wait(engine, 10)).code == GK_RUNNING)
		;
	return status;
}

/* Appends all rows in two batches, so that two devices have some. */
static GkStatus
append_halves(GkEngine *engine, const Data *data)
{
	int64_t		half = data->n / 2;
	GkBatch		first = {half, data->x, data->weighted ? data->w : NULL};
	GkBatch		second = {data->n - half, data->x + half * data->d,
		data->weighted ? data->w + half : NULL};
	GkStatus	status = engine->class_of->set_dimension(engine, data->d);

	if (status.code == GK_OK)
		status = append_batch(engine, &first);
	return status.code == GK_OK ? append_batch(engine, &second) : status;
}

/* Runs all commands, and fetches; the first error. */
static GkStatus
run_all(GkEngine *engine, const Data *data, Room *room)
{
	GkStatus	status = append_halves(engine, data);

	for (int i = 0; i < COMMANDS && status.code == GK_OK; i++)
	{
		GkCommand	c = make_command(room, i, COMMANDS - 1);

		status = run_one(engine, &c);
	}
	if (status.code == GK_OK)
		status = engine->class_of->fetch(engine, 0, data->n, room->out[0], room->out[1]);
	return status;
}

/*
 * Runs all commands on an engine, and closes it at the first error, the code of which it gives.
 */
GkCode
run_until_error(const GkEngineClass *class_of, const Data *data, Feeding feeding)
{
	GkEngineConfig config = {
		.weighted = data->weighted,.threads = feeding.threads,.device_count = feeding.devices,
		.draw_host_memory = account_draw,.return_host_memory = account_return
	};
	GkEngine   *engine;
	GkStatus	status;
	Room		room = make_room(data);

	for (int i = 0; i < feeding.devices; i++)
		config.devices[i] = i;
	status = class_of->open(&config, &engine);
	if (status.code == GK_OK)
		status = run_all(engine, data, &room);
	class_of->close(engine);
	free_room(&room);
	return status.code;
}

/* Bytes of devices that the engines of this process hold. */
uint64_t
bytes_left(const GkEngineClass *class_of)
{
	GkDevice	devices[16];
	uint64_t	bytes = 0;
	int			count = 0;

	if (class_of->list_devices == NULL)
		return 0;
	check_status(class_of->list_devices(devices, 16, &count));
	for (int i = 0; i < count && i < 16; i++)
		bytes += devices[i].own_bytes;
	return bytes;
}
