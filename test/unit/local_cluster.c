/*
 * A cluster in one process.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster_engine.h"
#include "local_cluster.h"
#include "node.h"
#include "transport.h"

/* One node. */
typedef struct Member
{
	GkEngine   *engine;
	GkNode	   *node;
	char	   *copy;			/* of its last answer, aligned */
	bool		pending;
	GkStatus	status;			/* of the message */
} Member;

typedef struct LocalCluster
{
	GkEngine	base;
	LocalPlan	plan;
	GkEngineConfig config;
	GkTransport transport;
	GkEngine   *inner;
	Member		members[MOST_NODES];
	int			next;			/* whose answer is looked for first */
	uint64_t	tickets;

	/* the rows, until they are sealed */
	int			d;
	int64_t		n;
	int64_t		capacity;
	float	   *x;
	double	   *w;
} LocalCluster;

static const GkStatus ok = {.code = GK_OK,.device = -1};

static LocalPlan next_plan;
static int64_t calls;
static int64_t answers;

/* Counts a call of the transport; an error if it is the one to fail. */
static GkStatus
count_call(const LocalCluster *cluster)
{
	if (++calls == cluster->plan.fail_at)
		return (GkStatus) {.code = GK_DEVICE_ERROR,.device = -1,.message = "the line is dead"};
	return ok;
}

/* Puts a message into a node, in pieces, and starts it. */
static GkStatus
local_send(void *context, int node, const void *message, size_t bytes)
{
	LocalCluster *cluster = context;
	Member	   *member = &cluster->members[node];
	size_t		piece = cluster->plan.piece > 0 ? cluster->plan.piece : bytes;
	GkStatus	status = count_call(cluster);

	if (status.code != GK_OK)
		return status;
	if (node == 0 && cluster->plan.record != NULL)
		cluster->plan.record(message, bytes);
	member->status = ok;
	for (size_t at = 0; at < bytes && member->status.code == GK_OK; at += piece)
		member->status = gk_node_put(member->node, (const char *) message + at,
									 bytes - at < piece ? bytes - at : piece);
	if (member->status.code == GK_OK)
		member->status = gk_node_submit(member->node);
	member->pending = true;
	return ok;
}

/* Gives the answer of a node out, if there is one. */
static GkStatus
take_answer(LocalCluster *cluster, int number, int milliseconds, const void **answer, size_t *bytes)
{
	Member	   *member = &cluster->members[number];
	GkStatus	status = member->status;
	const void *original;

	if (status.code == GK_OK)
		status = gk_node_wait(member->node, milliseconds);
	if (status.code == GK_RUNNING)
		return status;
	member->pending = false;
	if (status.code != GK_OK)
		return status;
	original = gk_node_answer(member->node, bytes);
	free(member->copy);
	member->copy = memcpy(malloc(*bytes), original, *bytes);
	if (++answers == cluster->plan.look_at && cluster->plan.look != NULL)
		cluster->plan.look(member->copy, *bytes);
	*answer = member->copy;
	return ok;
}

/* Waits for any answer, beginning with another node every time. */
static GkStatus
local_receive(void *context, int milliseconds, int *node, const void **answer, size_t *bytes)
{
	LocalCluster *cluster = context;
	GkStatus	status = count_call(cluster);

	if (status.code != GK_OK)
		return status;
	cluster->next++;
	for (int i = 0; i < cluster->plan.nodes; i++)
	{
		*node = (cluster->next + i) % cluster->plan.nodes;
		if (!cluster->members[*node].pending)
			continue;
		status = take_answer(cluster, *node, milliseconds, answer, bytes);
		if (status.code != GK_RUNNING)
			return status;
		milliseconds = 0;
	}
	return (GkStatus) {.code = GK_RUNNING,.device = -1};
}

/* What a node is called. */
static const char *
local_name(void *context, int node)
{
	static const char *const names[] = {
		"0", "1", "2", "3", "4", "5", "6", "7"
	};

	(void) context;
	return names[node];
}

/* Closes the nodes. */
static void
close_members(LocalCluster *cluster)
{
	for (int i = 0; i < cluster->plan.nodes; i++)
	{
		Member	   *member = &cluster->members[i];

		if (member->engine != NULL)
			member->engine->class_of->close(member->engine);
		gk_node_close(member->node);
		free(member->copy);
		memset(member, 0, sizeof(*member));
	}
}

/* Opens a node with some of the rows. */
static GkStatus
open_member(LocalCluster *cluster, Member *member, const GkEngineClass *class_of, int64_t from,
			int64_t count)
{
	GkBatch		batch = {
		count, cluster->x + from * cluster->d, cluster->config.weighted ? cluster->w + from : NULL
	};
	GkNodeConfig config = {
		.dimension = cluster->d,.rows = count,
		.draw_host_memory = cluster->config.draw_host_memory,
		.return_host_memory = cluster->config.return_host_memory
	};
	uint64_t	ticket;
	GkStatus	status = class_of->open(&cluster->config, &member->engine);

	if (status.code == GK_OK)
		status = class_of->set_dimension(member->engine, cluster->d);
	if (status.code == GK_OK && count > 0)
		status = class_of->append(member->engine, &batch, &ticket);
	config.engine = member->engine;
	if (status.code == GK_OK)
		status = gk_node_open(&config, &member->node);
	return status;
}

/* Opens all nodes with their shares of the rows. */
static GkStatus
open_members(LocalCluster *cluster)
{
	const LocalPlan *plan = &cluster->plan;
	int64_t		all = 0;
	int64_t		passed = 0;
	GkStatus	status = ok;

	for (int i = 0; i < plan->nodes; i++)
		all += plan->shares[i];
	for (int i = 0; i < plan->nodes && status.code == GK_OK; i++)
	{
		int64_t		from = cluster->n * passed / all;
		int64_t		to = cluster->n * (passed + plan->shares[i]) / all;

		passed += plan->shares[i];
		status = open_member(cluster, &cluster->members[i], plan->classes[i], from, to - from);
	}
	return status;
}

/* Opens the cluster engine. */
static GkStatus
local_open(const GkEngineConfig *config, GkEngine **result)
{
	LocalCluster *cluster = calloc(1, sizeof(LocalCluster));
	GkEngineConfig inside = *config;
	GkStatus	status;

	cluster->base.class_of = gk_local_cluster(&next_plan);
	cluster->plan = next_plan;
	cluster->config = *config;
	cluster->transport = (GkTransport) {
		.context = cluster,.nodes = next_plan.nodes,.send = local_send,.receive = local_receive,
		.name = local_name
	};
	inside.transport = &cluster->transport;
	calls = answers = 0;
	status = gk_cluster_engine()->open(&inside, &cluster->inner);
	*result = &cluster->base;
	return status;
}

/* Nothing to do. */
static GkStatus
local_lend_buffer(GkEngine *base, void *buffer, size_t bytes)
{
	(void) base;
	(void) buffer;
	(void) bytes;
	return ok;
}

/* Notes the number of features. */
static GkStatus
local_set_dimension(GkEngine *base, int dimension)
{
	LocalCluster *cluster = (LocalCluster *) base;

	cluster->d = dimension;
	return cluster->inner->class_of->set_dimension(cluster->inner, dimension);
}

/* Keeps rows until they are shared out. */
static GkStatus
local_append(GkEngine *base, const GkBatch *batch, uint64_t *ticket)
{
	LocalCluster *cluster = (LocalCluster *) base;

	if (cluster->n + batch->rows > cluster->capacity)
	{
		cluster->capacity = 2 * (cluster->n + batch->rows);
		cluster->x = realloc(cluster->x, cluster->capacity * cluster->d * sizeof(float));
		cluster->w = realloc(cluster->w, cluster->capacity * sizeof(double));
	}
	memcpy(cluster->x + cluster->n * cluster->d, batch->features,
		   batch->rows * cluster->d * sizeof(float));
	if (cluster->config.weighted)
		memcpy(cluster->w + cluster->n, batch->weights, batch->rows * sizeof(double));
	cluster->n += batch->rows;
	*ticket = ++cluster->tickets;
	return ok;
}

/* Every batch is free again: append copied it. */
static GkStatus
local_reclaim(GkEngine *base, uint64_t *ticket)
{
	*ticket = ((LocalCluster *) base)->tickets;
	return ok;
}

/* Drops the rows. */
static GkStatus
local_clear(GkEngine *base)
{
	LocalCluster *cluster = (LocalCluster *) base;

	close_members(cluster);
	cluster->n = 0;
	return cluster->inner->class_of->clear(cluster->inner);
}

/* Passes a command on; the first one shares the rows out. */
static GkStatus
local_submit(GkEngine *base, GkCommand *command)
{
	LocalCluster *cluster = (LocalCluster *) base;
	GkStatus	status = ok;

	if (cluster->members[0].engine == NULL)
		status = open_members(cluster);
	return status.code != GK_OK ? status
		: cluster->inner->class_of->submit(cluster->inner, command);
}

/* Passes wait() on. */
static GkStatus
local_wait(GkEngine *base, int milliseconds)
{
	LocalCluster *cluster = (LocalCluster *) base;

	return cluster->inner->class_of->wait(cluster->inner, milliseconds);
}

/* Passes fetch() on. */
static GkStatus
local_fetch(GkEngine *base, int64_t from, int64_t count, int32_t *labels, double *distance2)
{
	LocalCluster *cluster = (LocalCluster *) base;

	return cluster->inner->class_of->fetch(cluster->inner, from, count, labels, distance2);
}

/* Passes usage() on. */
static void
local_usage(const GkEngine *base, GkUsage *usage)
{
	const LocalCluster *cluster = (const LocalCluster *) base;

	cluster->inner->class_of->usage(cluster->inner, usage);
}

/* Closes everything. */
static void
local_close(GkEngine *base)
{
	LocalCluster *cluster = (LocalCluster *) base;

	if (cluster == NULL)
		return;
	cluster->inner->class_of->close(cluster->inner);
	close_members(cluster);
	free(cluster->x);
	free(cluster->w);
	free(cluster);
}

/* The class of such engines. */
const GkEngineClass *
gk_local_cluster(const LocalPlan *plan)
{
	static const GkEngineClass class_of = {
		.interface = GK_ENGINE_INTERFACE,
		.name = "local cluster",
		.open = local_open,
		.lend_buffer = local_lend_buffer,
		.set_dimension = local_set_dimension,
		.append = local_append,
		.reclaim = local_reclaim,
		.clear = local_clear,
		.submit = local_submit,
		.wait = local_wait,
		.fetch = local_fetch,
		.usage = local_usage,
		.close = local_close
	};

	next_plan = *plan;
	return &class_of;
}

/* Calls of the transport since the last engine was opened. */
int64_t
local_calls(void)
{
	return calls;
}

/* Answers since then. */
int64_t
local_answers(void)
{
	return answers;
}

/* The cluster engine inside. */
const GkEngine *
local_cluster_inside(const GkEngine *engine)
{
	return ((const LocalCluster *) engine)->inner;
}
