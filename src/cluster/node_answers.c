/*
 * What a node answers.  An answer has room for the outputs of its command, so that the engine
 * writes them where they belong; single numbers are filled in at the end.
 */
#include <stdlib.h>
#include <string.h>

#include "node_state.h"

/* GK_SEAL: how many rows there are. */
static void
write_seal(GkMessage *message, GkNode *node)
{
	node->integers = gk_message_add(message, 1, sizeof(int64_t));
}

/* GK_RANGE: known since the rows were sealed or transformed. */
static void
write_range(GkMessage *message, GkNode *node)
{
	gk_message_copy(message, node->ranges.base, 2 * node->d, sizeof(float));
	gk_message_double(message, node->least_weight);
	gk_message_double(message, node->greatest_weight);
}

/* GK_MOMENTS. */
static void
write_moments(GkMessage *message, GkNode *node)
{
	GkCommand  *c = &node->command;

	c->moments.first = gk_message_add(message, node->d, sizeof(GkSum));
	c->moments.second = gk_message_add(message, node->d, sizeof(GkSum));
	c->moments.exponent_sum = gk_message_add(message, node->d + 1, sizeof(int64_t));
	c->moments.nonzero = gk_message_add(message, node->d + 1, sizeof(int64_t));
	node->integers = gk_message_add(message, 2, sizeof(int64_t));
}

/* GK_CANDIDATES: the greatest d². */
static void
write_candidates(GkMessage *message, GkNode *node)
{
	node->doubles = gk_message_add(message, 1, sizeof(double));
}

/* GK_POTENTIALS. */
static void
write_potentials(GkMessage *message, GkNode *node)
{
	node->command.potentials.potentials =
		gk_message_add(message, node->command.potentials.count, sizeof(int64_t));
}

/* GK_MASSES. */
static void
write_masses(GkMessage *message, GkNode *node)
{
	node->command.masses.buckets =
		gk_message_add(message, INT64_C(1) << node->command.masses.bits, sizeof(int64_t));
}

/* GK_ENTRIES: how many, where to go on, and the entries. */
static void
write_entries(GkMessage *message, GkNode *node)
{
	node->integers = gk_message_add(message, 2, sizeof(int64_t));
	node->command.entries.entries =
		gk_message_add(message, node->command.entries.capacity, sizeof(GkEntry));
}

/* GK_LABEL_WEIGHTS. */
static void
write_label_weights(GkMessage *message, GkNode *node)
{
	node->command.label_weights.weights =
		gk_message_add(message, node->command.label_weights.count, sizeof(GkSum));
}

/* GK_ROWS. */
static void
write_rows(GkMessage *message, GkNode *node)
{
	GkCommand  *c = &node->command;

	if (c->rows.count > INT64_MAX / node->d)
	{
		message->too_large = true;
		return;
	}
	c->rows.features = gk_message_add(message, c->rows.count * node->d, sizeof(float));
	if (node->asked & GK_ASK_WEIGHTS)
		c->rows.weights = gk_message_add(message, c->rows.count, sizeof(double));
	if (node->asked & GK_ASK_LABELS)
		c->rows.labels = gk_message_add(message, c->rows.count, sizeof(int32_t));
}

/* GK_COMPARE. */
static void
write_compare(GkMessage *message, GkNode *node)
{
	node->command.compare.order = gk_message_add(message, node->command.compare.count, 1);
}

/* GK_STEP: how many labels and how many sums changed; whose sums they are; the sums. */
static void
write_step(GkMessage *message, GkNode *node)
{
	int64_t		k = node->state.centroids;

	node->integers = gk_message_add(message, 2, sizeof(int64_t));
	node->clusters = gk_message_add(message, k, sizeof(int32_t));
	node->command.step.sums = gk_message_add(message, k * (node->d + 1) * (node->wide ? 2 : 1),
											 sizeof(int64_t));
}

/* GK_FARTHEST: how many; the entries; which of them has the bits of the one before it. */
static void
write_farthest(GkMessage *message, GkNode *node)
{
	node->integers = gk_message_add(message, 1, sizeof(int64_t));
	node->command.farthest.entries =
		gk_message_add(message, node->command.farthest.count, sizeof(GkEntry));
	node->equal = gk_message_add(message, node->command.farthest.count, 1);
}

/* GK_ASSIGN: how many labels changed, and the greatest distances. */
static void
write_assign(GkMessage *message, GkNode *node)
{
	node->integers = gk_message_add(message, 1, sizeof(int64_t));
	node->doubles = gk_message_add(message, 2, sizeof(double));
}

/* GK_STATISTICS. */
static void
write_statistics(GkMessage *message, GkNode *node)
{
	GkCommand  *c = &node->command;
	int64_t		k = node->state.centroids;

	c->statistics.sizes = gk_message_add(message, k, sizeof(int64_t));
	c->statistics.weights = gk_message_add(message, k, sizeof(GkSum));
	c->statistics.inertia = gk_message_add(message, k, sizeof(GkSum));
	c->statistics.distance = gk_message_add(message, k, sizeof(GkSum));
	c->statistics.radius2 = gk_message_add(message, k, sizeof(double));
}

/* GK_SQUARES. */
static void
write_squares(GkMessage *message, GkNode *node)
{
	node->command.squares.sums =
		gk_message_add(message, node->state.centroids * (node->d + 1), sizeof(GkSum));
}

/* GK_MERGE. */
static void
write_merge(GkMessage *message, GkNode *node)
{
	GkCommand  *c = &node->command;

	c->merge.into = gk_message_add(message, c->merge.count, sizeof(int32_t));
	c->merge.rounds = gk_message_add(message, c->merge.count, sizeof(int32_t));
	c->merge.costs = gk_message_add(message, c->merge.count, sizeof(float));
}

/* GK_SEPARATION. */
static void
write_separation(GkMessage *message, GkNode *node)
{
	GkCommand  *c = &node->command;

	c->separation.own = gk_message_add(message, c->separation.count, sizeof(double));
	c->separation.other = node->asked & GK_ASK_OTHERS
		? gk_message_add(message, c->separation.count, sizeof(double)) : NULL;
}

/* GK_FETCH. */
static void
write_fetch(GkMessage *message, GkNode *node)
{
	node->labels = node->asked & GK_ASK_LABELS
		? gk_message_add(message, node->count, sizeof(int32_t)) : NULL;
	node->distance2 = node->asked & GK_ASK_DISTANCES
		? gk_message_add(message, node->count, sizeof(double)) : NULL;
}

/* The function that writes the answer to an operation; NULL: it is empty. */
static void (*const writers[GK_MESSAGE_OPERATIONS]) (GkMessage *message, GkNode *node) = {
	[GK_SEAL] = write_seal,
	[GK_RANGE] = write_range,
	[GK_MOMENTS] = write_moments,
	[GK_CANDIDATES] = write_candidates,
	[GK_POTENTIALS] = write_potentials,
	[GK_MASSES] = write_masses,
	[GK_ENTRIES] = write_entries,
	[GK_LABEL_WEIGHTS] = write_label_weights,
	[GK_MERGE] = write_merge,
	[GK_ROWS] = write_rows,
	[GK_COMPARE] = write_compare,
	[GK_STEP] = write_step,
	[GK_FARTHEST] = write_farthest,
	[GK_ASSIGN] = write_assign,
	[GK_STATISTICS] = write_statistics,
	[GK_SQUARES] = write_squares,
	[GK_SEPARATION] = write_separation,
	[GK_FETCH] = write_fetch
};

/* Makes room for the outputs of the command in the answer. */
void
gk_node_write_answer(GkMessage *message, void *context)
{
	GkNode	   *node = context;

	if (writers[node->header.operation] != NULL)
		writers[node->header.operation] (message, node);
}

/* True if no sum of a cluster is other than zero. */
static bool
is_zero(const int64_t *sums, int64_t width)
{
	int64_t		bits = 0;

	for (int64_t j = 0; j < width; j++)
		bits |= sums[j];
	return bits == 0;
}

/* Moves the sums of the listed clusters together, to where `to` is; returns their end. */
static int64_t *
gather_sums(const GkNode *node, int64_t count, const int64_t *sums, int64_t *to)
{
	int64_t		width = node->d + 1;

	for (int64_t i = 0; i < count; i++, to += width)
		if (to != sums + node->clusters[i] * width)
			memmove(to, sums + node->clusters[i] * width, width * sizeof(int64_t));
	return to;
}

/* Leaves out the sums of clusters that are as before. */
static void
finish_step(GkNode *node)
{
	int64_t		k = node->state.centroids;
	int64_t		width = node->d + 1;
	int64_t    *highs = node->command.step.sums;
	int64_t    *lows = highs + k * width;
	int64_t		count = 0;
	int64_t    *end;

	for (int64_t c = 0; c < k; c++)
		if (!is_zero(highs + c * width, width) ||
			(node->wide && !is_zero(lows + c * width, width)))
			node->clusters[count++] = (int32_t) c;
	if (count % 2 == 1)
		node->clusters[count] = 0;
	end = (int64_t *) (node->clusters + (count + 1) / 2 * 2);
	end = gather_sums(node, count, highs, end);
	if (node->wide)
		end = gather_sums(node, count, lows, end);
	gk_message_end(&node->answer, end);
	node->integers[0] = node->command.step.changed;
	node->integers[1] = count;
}

/* Moves the entries that were found, and which are equal, together. */
static void
finish_farthest(GkNode *node)
{
	int64_t		found = node->command.farthest.found;
	char	   *end = (char *) (node->command.farthest.entries + found);

	node->integers[0] = found;
	memmove(end, node->equal, found);
	memset(end + found, 0, -found & 7);
	gk_message_end(&node->answer, end + (found + 7) / 8 * 8);
}

/* The order of the rows of entries. */
static int
compare_entry_rows(const void *a, const void *b)
{
	const GkEntry *left = a;
	const GkEntry *right = b;

	return (left->row > right->row) - (left->row < right->row);
}

/* Sorts the entries, and ends them behind the last one. */
static void
finish_entries(GkNode *node)
{
	const GkCommand *c = &node->command;

	qsort(c->entries.entries, c->entries.count, sizeof(GkEntry), compare_entry_rows);
	node->integers[0] = c->entries.count;
	node->integers[1] = c->entries.next;
	gk_message_end(&node->answer, c->entries.entries + c->entries.count);
}

/* Fills in what is known at the end of the command. */
void
gk_node_finish_answer(GkNode *node)
{
	const GkCommand *c = &node->command;

	switch (node->header.operation)
	{
		case GK_SEAL:
			node->integers[0] = c->seal.rows;
			break;
		case GK_MOMENTS:
			node->integers[0] = c->moments.weight.high;
			node->integers[1] = c->moments.weight.low;
			break;
		case GK_CANDIDATES:
			node->doubles[0] = c->candidates.greatest;
			break;
		case GK_ENTRIES:
			finish_entries(node);
			break;
		case GK_STEP:
			finish_step(node);
			break;
		case GK_FARTHEST:
			finish_farthest(node);
			break;
		case GK_ASSIGN:
			node->integers[0] = c->assign.changed;
			node->doubles[0] = c->assign.greatest;
			node->doubles[1] = c->assign.greatest_distance;
			break;
		default:
			break;
	}
}
