/*
 * The other end of the cluster engine: its life, and a message from the first byte to the answer.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "node_state.h"

/* Nanoseconds on a monotonic clock. */
static uint64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * UINT64_C(1000000000) + (uint64_t) t.tv_nsec;
}

/* Makes the node. */
GkStatus
gk_node_open(const GkNodeConfig *config, GkNode **result)
{
	GkNode	   *node = calloc(1, sizeof(GkNode));
	GkStatus	status;

	*result = NULL;
	if (node == NULL)
		return gk_status_error(GK_NO_HOST_MEMORY, "calloc", "out of memory");
	node->engine = config->engine;
	node->d = config->dimension;
	node->n = config->rows;
	node->memory = (GkMemory) {
		.draw = config->draw_host_memory,.give_back = config->return_host_memory
	};
	node->answer.memory = &node->memory;
	node->least_weight = node->greatest_weight = 1.0;
	node->greatest_mass = node->greatest_distance = INFINITY;
	status = gk_room_need(&node->memory, &node->ranges, node->d, 2 * sizeof(float));
	if (status.code == GK_OK)
		status = gk_room_need(&node->memory, &node->exponents, node->d + 1, sizeof(int));
	if (status.code != GK_OK)
		gk_node_close(node);
	else
		*result = node;
	return status;
}

/* Frees the node. */
void
gk_node_close(GkNode *node)
{
	if (node == NULL)
		return;
	gk_room_free(&node->memory, &node->put);
	gk_room_free(&node->memory, &node->answer.room);
	gk_room_free(&node->memory, &node->ranges);
	gk_room_free(&node->memory, &node->exponents);
	gk_room_free(&node->memory, &node->centroids);
	gk_room_free(&node->memory, &node->pairs);
	free(node);
}

/* The status of a message that is refused. */
static GkStatus
refuse(GkNode *node, const char *why)
{
	node->put_bytes = 0;
	return gk_status_error(GK_INTERNAL, "node", "a message was refused: %s", why);
}

/* What is wrong with the header that was put, NULL if nothing is. */
static const char *
check_header(GkNode *node)
{
	const char *fault;

	memcpy(&node->header, node->put.base, sizeof(GkHeader));
	fault = gk_header_fault(&node->header);
	if (fault != NULL)
		return fault;
	if (node->header.dimension != node->d)
		return "it is for rows with another number of features";
	return node->header.sequence <= node->sequence ? "it came before" : NULL;
}

/* Adds the next piece of a message. */
GkStatus
gk_node_put(GkNode *node, const void *piece, size_t bytes)
{
	bool		had_header = node->put_bytes >= sizeof(GkHeader);
	const char *fault;
	GkStatus	status;

	if (node->running)
		return gk_status_error(GK_INTERNAL, "node", "a message is being carried out");
	if (bytes > SIZE_MAX / 8 - node->put_bytes ||
		(had_header && bytes > node->header.bytes - node->put_bytes))
		return refuse(node, "it is longer than its header says");
	status = gk_room_need(&node->memory, &node->put, node->put_bytes + bytes, 1);
	if (status.code != GK_OK)
	{
		node->put_bytes = 0;
		return status;
	}
	if (bytes > 0)
		memcpy((char *) node->put.base + node->put_bytes, piece, bytes);
	node->put_bytes += bytes;
	if (had_header || node->put_bytes < sizeof(GkHeader))
		return status;
	fault = check_header(node);
	if (fault != NULL)
		return refuse(node, fault);
	if (node->put_bytes > node->header.bytes)
		return refuse(node, "it is longer than its header says");
	return status;
}

/* Marks what is not known of the d² any more. */
static void
forget_distances(GkNode *node)
{
	if (!node->state.distances)
		node->greatest_mass = node->greatest_distance = INFINITY;
}

/* Starts a command. */
static GkStatus
start(GkNode *node, GkCommand *command)
{
	GkStatus	status;

	node->current = command;
	gk_forget(&node->state, command);
	forget_distances(node);
	status = node->engine->class_of->submit(node->engine, command);
	node->running = status.code == GK_OK;
	return status;
}

/* Fetches labels and d². */
static GkStatus
fetch(GkNode *node)
{
	if (node->count == 0)
		return gk_status_ok();
	return node->engine->class_of->fetch(node->engine, node->from, node->count, node->labels,
										 node->distance2);
}

/* Completes the answer. */
static GkStatus
complete(GkNode *node)
{
	GkHeader   *header;
	GkUsage		usage;

	gk_node_finish_answer(node);
	node->engine->class_of->usage(node->engine, &usage);
	header = gk_message_header(&node->answer);
	header->nanoseconds = now() - node->begin;
	header->held = usage.host_bytes + usage.device_bytes + node->memory.bytes;
	header->peak = usage.host_peak + usage.device_peak + node->memory.peak;
	node->current = NULL;
	node->put_bytes = 0;
	return gk_status_ok();
}

/* Takes the centroids of a message, which node->move and later ones change. */
static GkStatus
take_centroids(GkNode *node)
{
	int64_t		values = node->command.centroids.k * node->d;
	GkStatus	status = gk_room_need(&node->memory, &node->centroids, values, sizeof(double));

	if (status.code == GK_OK)
		memcpy(node->centroids.base, node->command.centroids.centroids, values * sizeof(double));
	return status;
}

/* Starts the commands of a message that was read. */
static GkStatus
begin(GkNode *node)
{
	uint32_t	operation = node->header.operation;
	GkStatus	status = gk_message_write(&node->answer, &node->header, gk_node_write_answer, node);

	if (status.code == GK_OK && operation == GK_CENTROIDS)
		status = take_centroids(node);
	if (status.code != GK_OK)
		return status;
	node->begin = now();
	if (operation == GK_FETCH)
		status = fetch(node);
	else if (operation != GK_RANGE)
		return start(node, node->move.operation == GK_MOVE ? &node->move : &node->command);
	return status.code == GK_OK ? complete(node) : status;
}

/* Checks the message that was put, and starts what it asks for. */
GkStatus
gk_node_submit(GkNode *node)
{
	const char *fault;
	GkStatus	status;

	if (node->running)
		return gk_status_error(GK_INTERNAL, "node", "a message is being carried out");
	if (node->put_bytes < sizeof(GkHeader) || node->put_bytes != node->header.bytes)
		return refuse(node, "a part of it is missing");
	node->sequence = node->header.sequence;
	node->answer.used = 0;
	fault = gk_node_read(node);
	if (fault != NULL)
		return refuse(node, fault);
	node->k = node->state.centroids;
	status = begin(node);
	if (status.code != GK_OK)
		node->put_bytes = node->answer.used = 0;
	return status;
}

/* Asks for the ranges of rows that are new, which tell what may be asked later. */
static GkStatus
find_ranges(GkNode *node)
{
	node->range = (GkCommand) {.operation = GK_RANGE};
	node->range.range.least = node->ranges.base;
	node->range.range.greatest = (float *) node->ranges.base + node->d;
	return start(node, &node->range);
}

/* Compares rows that are equally far, and have equal hashes, with those before them. */
static GkStatus
compare_farthest(GkNode *node)
{
	const GkEntry *entries = node->command.farthest.entries;
	int64_t		found = node->command.farthest.found;
	GkStatus	status = gk_room_need(&node->memory, &node->pairs, found, 2 * sizeof(int64_t) + 1);
	int64_t    *rows = node->pairs.base;
	int64_t		count = 0;

	if (status.code != GK_OK)
		return status;
	memset(node->equal, 0, found);
	for (int64_t i = 1; i < found; i++)
		if (entries[i].distance2 == entries[i - 1].distance2 &&
			entries[i].hash == entries[i - 1].hash)
		{
			rows[count] = entries[i].row;
			rows[found + count++] = entries[i - 1].row;
			node->equal[i] = 1;
		}
	if (count == 0)
		return complete(node);
	node->compare = (GkCommand) {.operation = GK_COMPARE};
	node->compare.compare.rows = rows;
	node->compare.compare.others = rows + found;
	node->compare.compare.count = count;
	node->compare.compare.order = (int8_t *) (rows + 2 * found);
	return start(node, &node->compare);
}

/* Takes the comparison of farthest rows into their answer. */
static void
take_comparison(GkNode *node)
{
	const int8_t *order = node->compare.compare.order;

	for (int64_t i = 1; i < node->command.farthest.found; i++)
		if (node->equal[i])
			node->equal[i] = *order++ == 0;
}

/* Notes what a command has made known. */
static void
note(GkNode *node, const GkCommand *command)
{
	gk_note(&node->state, command, node->k);
	if (command->operation == GK_SEAL)
		node->sealed = true;
	if (command->operation == GK_RANGE)
	{
		node->least_weight = command->range.least_weight;
		node->greatest_weight = command->range.greatest_weight;
		if (node->state.grid)
			gk_node_check_grid(node);
	}
	if (command->operation == GK_GRID)
		node->wide = command->grid.wide;
	if (command->operation == GK_CANDIDATES)
		node->greatest_mass = command->candidates.greatest;
	if (command->operation == GK_ASSIGN)
	{
		node->greatest_mass = command->assign.greatest;
		node->greatest_distance = command->assign.greatest_distance;
	}
}

/* Goes on after a command that ended well. */
static GkStatus
go_on(GkNode *node)
{
	GkCommand  *ended = node->current;

	note(node, ended);
	if (ended == &node->move)
		return start(node, &node->command);
	if (ended->operation == GK_SEAL && ended->seal.rows != node->n)
		return gk_status_error(GK_INTERNAL, "node", "the engine holds another number of rows");
	if ((ended->operation == GK_SEAL && node->n > 0) || ended->operation == GK_TRANSFORM)
		return find_ranges(node);
	if (ended->operation == GK_FARTHEST)
		return compare_farthest(node);
	if (ended == &node->compare)
		take_comparison(node);
	return complete(node);
}

/* Waits at most this long for the answer. */
GkStatus
gk_node_wait(GkNode *node, int milliseconds)
{
	GkStatus	status;

	if (!node->running)
		return node->answer.used > 0 ? gk_status_ok()
			: gk_status_error(GK_INTERNAL, "node", "no message is being carried out");
	status = node->engine->class_of->wait(node->engine, milliseconds);
	if (status.code == GK_RUNNING)
		return status;
	node->running = false;
	if (status.code == GK_OK)
		status = go_on(node);
	if (status.code == GK_OK)
		return node->running ? gk_status_running() : status;
	node->put_bytes = node->answer.used = 0;
	return status;
}

/* Fetches labels and d² of some rows while no message is being carried out. */
GkStatus
gk_node_fetch(GkNode *node, int64_t centroids, int64_t from, int64_t count, int32_t *labels,
			  double *distance2)
{
	if (node->running || node->state.labels <= 0 || node->state.labels > centroids ||
		!node->state.distances || from < 0 || from > node->n || count < 0 ||
		count > node->n - from)
		return gk_status_error(GK_INTERNAL, "node", "there are no such labels");
	return node->engine->class_of->fetch(node->engine, from, count, labels, distance2);
}

/* The answer. */
const void *
gk_node_answer(const GkNode *node, size_t *bytes)
{
	*bytes = node->running ? 0 : node->answer.used;
	return node->answer.room.base;
}
