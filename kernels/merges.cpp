/*
 * GK_MERGE: which of many clusters become one.
 */
#include "cuda_engine.h"

namespace gk
{

/* Products of features of a multiprocessor between checks for the engine being closed: 20 ms. */
#define NEIGHBOUR_WORK 1.5e9

/* Clusters whose neighbours are found at a time, with 0.5 kB of memory each. */
#define MOST_WANTED INT64_C(32768)

/* Rounds of unions between such checks: as many as most candidates take. */
#define ROUNDS_AT_ONCE 12

/* A shard's part of the command, in its scratch memory. */
struct MergePart
{
	Shard	   *shard;
	int64_t		first;			/* its clusters, whose neighbours it finds */
	int64_t		end;
	int64_t		step;			/* clusters that it may take at a time */
	int			shares;			/* see neighbours.cu */
	uint64_t   *neighbours;		/* shares × step lists */
	float	   *room;			/* of find_neighbours() */
	Clusters	clusters;		/* all of them; the first shard unites them */

	void		reserve(const GkCommand *c);
	void		send(const GkCommand *c);
	void		list(int64_t from);
};

/* Makes room. */
void
MergePart::reserve(const GkCommand *c)
{
	Scratch		plan;
	int64_t		count = c->merge.count;
	int64_t		rest = first == 0 ? count : 0;
	double		most = NEIGHBOUR_WORK * shard->device->processors /
		((double) count * shard->dimension);

	step = std::min((int64_t) std::max(most / 64, 1.0) * 64, MOST_WANTED);
	step = std::min(step, std::max<int64_t>(end - first, 1));
	shares = neighbour_shares(*shard, step);
	clusters.count = count;
	clusters.wanted = c->merge.wanted;
	clusters.d = shard->dimension;
	clusters.spherical = c->merge.spherical;
	for (int pass = 0; pass < 2; pass++)
	{
		plan.used = 0;
		clusters.state = (MergeState *) plan.take<char>(merge_state_bytes());
		clusters.means = plan.take<float>(count * shard->dimension);
		clusters.weights = plan.take<double>(count);
		clusters.lists = plan.take<uint64_t>(count * GK_NEIGHBOUR_COUNT);
		neighbours = plan.take<uint64_t>(shares * step * GK_NEIGHBOUR_COUNT);
		room = plan.take<float>(neighbour_room(*shard, count, step));
		clusters.best = plan.take<uint64_t>(rest);
		clusters.parts = plan.take<int32_t>(rest);
		clusters.into = plan.take<int32_t>(rest);
		clusters.rounds = plan.take<int32_t>(rest);
		clusters.costs = plan.take<float>(rest);
		shard->scratch.reserve(*shard, plan.used);
		plan.base = shard->scratch.get();
	}
}

/* Brings the clusters there, and prepares the search of their neighbours. */
void
MergePart::send(const GkCommand *c)
{
	uint64_t	values = (uint64_t) c->merge.count * shard->dimension;

	shard->use();
	if (c->merge.drawn && shard->drawn_count == c->merge.count)
		GK_CUDA(cudaMemcpyAsync(clusters.means, shard->drawn.get(), values * sizeof(float),
								cudaMemcpyDeviceToDevice, shard->device->compute));
	else
		to_device(*shard, clusters.means, c->merge.points, values);
	to_device(*shard, clusters.weights, c->merge.weights, c->merge.count);
	prepare_neighbours(*shard, clusters.means, c->merge.count, room);
}

/* Lists the unions of a step of its clusters, if there are any so far on. */
void
MergePart::list(int64_t from)
{
	int64_t		wanted = std::min(step, end - first - from);

	if (wanted <= 0)
		return;
	find_neighbours(*shard, clusters.means, clusters.count, room, first + from, wanted, shares,
					neighbours);
	price_unions(*shard, clusters, first + from, wanted, shares, neighbours);
}

/* Lists the unions of all clusters, an equal share of them on each device. */
static void
list_unions(std::vector<MergePart> &parts)
{
	int64_t		step = INT64_MAX;
	int64_t		most = 0;

	for (const MergePart &part : parts)
	{
		step = std::min(step, part.step);
		most = std::max(most, part.end - part.first);
	}
	for (MergePart &part : parts)
		part.step = step;
	for (int64_t from = 0; from < most; from += step)
	{
		for (MergePart &part : parts)
			if (from > 0)
				part.shard->wait();
		for (MergePart &part : parts)
			part.list(from);
	}
}

/* Brings the lists of the other devices to the first one. */
static void
collect_lists(std::vector<MergePart> &parts)
{
	for (size_t i = 1; i < parts.size(); i++)
	{
		int64_t		at = parts[i].first * GK_NEIGHBOUR_COUNT;
		std::vector<uint64_t> lists((parts[i].end - parts[i].first) * GK_NEIGHBOUR_COUNT);

		to_host(*parts[i].shard, lists.data(), parts[i].clusters.lists + at, lists.size());
		to_device(*parts[0].shard, parts[0].clusters.lists + at, lists.data(), lists.size());
		parts[0].shard->wait();
	}
}

/* GK_MERGE: neighbours on all devices, then rounds of unions on the first one. */
void
Engine::merge(GkCommand *c)
{
	int64_t		count = c->merge.count;
	int64_t		shares = (int64_t) shards.size();
	std::vector<MergePart> parts(shards.size());
	int			ended = 0;

	for (int64_t i = 0; i < shares; i++)
	{
		parts[i].shard = shards[i].get();
		parts[i].first = count * i / shares;
		parts[i].end = count * (i + 1) / shares;
		parts[i].reserve(c);
		parts[i].send(c);
	}
	list_unions(parts);
	collect_lists(parts);

	Shard	   &shard = *shards[0];
	const Clusters &clusters = parts[0].clusters;

	begin_merging(shard, clusters);
	while (!ended)
	{
		merge_rounds(shard, clusters, ROUNDS_AT_ONCE);
		to_host(shard, &ended, merging_has_ended(clusters), 1);
	}
	to_host(shard, c->merge.into, clusters.into, count);
	to_host(shard, c->merge.rounds, clusters.rounds, count);
	to_host(shard, c->merge.costs, clusters.costs, count);
}

}								/* namespace gk */
